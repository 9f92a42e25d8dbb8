#!/bin/sh
# Compiles the CUDA kernels of the conformance suite to the PTX that is committed beside them. To be
# run by hand after a change of a .cu file; needs nvcc. The kernels use nothing newer than PTX 7.7
# (CUDA 11.7), so that is what the files say, and older drivers take them too.
set -eu
cd "$(dirname "$0")"
for source in *.cu; do
    name=${source%.cu}
    "${NVCC:-nvcc}" -ptx -arch=compute_75 -std=c++17 -I ../../../include "$source" -o "$name.ptx"
    sed -i -e 's/^\.version .*/.version 7.7/' -e '/^\/\//d' "$name.ptx"
    "${PTXAS:-ptxas}" -arch=sm_75 "$name.ptx" -o /dev/null
done
