#!/bin/sh
# Compiles mul_existing.cu to the PTX that is committed beside it. To be run by hand after a change of
# it; needs nvcc. The kernels use nothing newer than PTX 7.7, so that is what the file says, and older
# drivers take it too.
set -eu
cd "$(dirname "$0")"
"${NVCC:-nvcc}" -ptx -arch=compute_75 mul_existing.cu -o mul_existing.ptx
sed -i -e 's/^\.version .*/.version 7.7/' -e '/^\/\//d' mul_existing.ptx
"${PTXAS:-ptxas}" -arch=sm_75 mul_existing.ptx -o /dev/null
"${PTXAS:-ptxas}" -arch=sm_90 mul_existing.ptx -o /dev/null
