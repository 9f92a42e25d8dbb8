#!/bin/sh
# Makes the .ptx files from the .cu files: the oldest target that nvcc knows, and the oldest PTX version that assembles.
set -eu
cd "$(dirname "$0")"
NVCC=${NVCC:-nvcc}
PTXAS=${PTXAS:-$(dirname "$(command -v "$NVCC")")/ptxas}
for name in hand store nine scatter; do
    "$NVCC" -ptx --gpu-architecture=compute_75 -I../../include -o "$name.ptx" "$name.cu"
    for version in 6.3 6.4 6.5 7.0 7.4 7.8 8.0 8.4 8.8 9.0; do
        sed -i "s/^\.version .*/.version $version/" "$name.ptx"
        if "$PTXAS" -arch=sm_75 -o /dev/null "$name.ptx" 2>/dev/null; then
            break
        fi
    done
done
