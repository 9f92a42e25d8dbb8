#!/bin/sh
# Makes mul.ptx from mul.cu: the oldest target that nvcc knows, and the oldest PTX version that assembles,
# so that old drivers take it too. With --check nothing is written, and mul.ptx is compared with what would be made,
# where there is an nvcc of the release that made it; the result is printed in the Test Anything Protocol.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
NVCC=${NVCC:-$(command -v nvcc || true)}
if [ -z "$NVCC" ]; then
    if [ "${1-}" = --check ]; then
        echo "1..0 # SKIP nvcc of the CUDA toolkit not found"
        exit 0
    fi
    echo "nvcc not found: set NVCC or PATH" >&2
    exit 1
fi
PTXAS=${PTXAS:-$(dirname "$NVCC")/ptxas}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

cd "$here"
"$NVCC" -ptx --gpu-architecture=compute_75 -I../../include -o "$made/mul.ptx" mul.cu
for version in 6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0; do
    sed "s/^\.version .*/.version $version/" "$made/mul.ptx" >"$made/old.ptx"
    if "$PTXAS" -arch=sm_75 -o "$made/mul.cubin" "$made/old.ptx" 2>"$made/errors"; then
        break
    fi
done
"$PTXAS" -arch=sm_75 -o "$made/mul.cubin" "$made/old.ptx"

if [ "${1-}" != --check ]; then
    cp "$made/old.ptx" mul.ptx
    exit 0
fi
release=$(grep '^// Cuda compilation tools' mul.ptx)
if ! grep -qxF "$release" "$made/old.ptx"; then
    echo "1..0 # SKIP mul.ptx was made by another nvcc: ${release#// }"
    exit 0
fi
echo 1..1
if diff -u mul.ptx "$made/old.ptx" >"$made/difference"; then
    echo "ok 1 - mul_ptx_is_what_mul_cu_makes"
else
    echo "not ok 1 - mul_ptx_is_what_mul_cu_makes"
    sed 's/^/# /' "$made/difference"
    exit 1
fi
