#!/bin/sh
# Compiles the CUDA kernels here to the PTX that is committed beside them; to be run by hand after a change of a .cu file. Needs nvcc.
set -eu
cd "$(dirname "$0")"
for source in *.cu; do
    name=${source%.cu}
    "${NVCC:-nvcc}" -ptx -arch=compute_75 -std=c++17 -I ../../../include -I ../../cts/kernels "$source" -o "$name.ptx"
    sed -i -e 's/^\.version .*/.version 7.7/' -e '/^\/\//d' "$name.ptx"
    "${PTXAS:-ptxas}" -arch=sm_75 "$name.ptx" -o /dev/null
done
