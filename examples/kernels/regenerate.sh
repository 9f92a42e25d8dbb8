#!/bin/sh
# Makes mul.ptx from mul.cu: the oldest target that nvcc knows, and the oldest PTX version that assembles,
# so that old drivers take it too. With --check nothing is written: exit 0 when mul.ptx is what would
# be made, 77 when there is no nvcc or not the release that made it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
NVCC=${NVCC:-$(command -v nvcc || true)}
if [ -z "$NVCC" ]; then
    echo "nvcc not found: set NVCC or PATH"
    exit 77
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
    echo "mul.ptx was made by another nvcc: ${release#// }"
    exit 77
fi
diff -u mul.ptx "$made/old.ptx"
