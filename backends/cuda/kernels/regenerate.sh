#!/bin/sh
# Makes the .ptx files from the .cu files: for the oldest target that nvcc knows (pairs also for sm_90, which adds pairs
# of bf16; quads need it), and of the oldest PTX version that assembles, so that old drivers take them too. With --check nothing is
# written, and the files are compared with what would be made, where there is an nvcc of the release that made them; the
# result is printed in the Test Anything Protocol.
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

# make FILE SOURCE ARCHITECTURE [OPTION...]
make() {
    file=$1 source=$2 architecture=$3
    shift 3
    "$NVCC" -ptx -std=c++17 --gpu-architecture="compute_$architecture" "$@" -o "$made/new.ptx" "$source"
    sed -i '/^\t\.pragma "used_bytes_mask/d' "$made/new.ptx" # a hint that only PTX 8.3 knows
    for version in 6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0; do
        sed "s/^\.version .*/.version $version/" "$made/new.ptx" >"$made/$file"
        if "$PTXAS" -O0 --gpu-name="sm_$architecture" -o "$made/cubin" "$made/$file" 2>"$made/errors"; then
            return
        fi
    done
    cat "$made/errors" >&2
    exit 1
}

make moves.ptx moves.cu 75
make pairs.ptx pairs.cu 75
make pairs_sm90.ptx pairs.cu 90
make quads_sm90.ptx quads.cu 90
for name in elements reduce scatter fixed; do
    make ${name}_f32.ptx $name.cu 75
    make ${name}_f64.ptx $name.cu 75 -DWORK_IN_F64
done
make shadow.ptx shadow.cu 75 -DWORK_IN_F64
rm -f "$made/new.ptx" "$made/cubin" "$made/errors"

if [ "${1-}" != --check ]; then
    cp "$made"/*.ptx .
    exit 0
fi
release=$(grep '^// Cuda compilation tools' moves.ptx)
if ! grep -qxF "$release" "$made/moves.ptx"; then
    echo "1..0 # SKIP the files were made by another nvcc: ${release#// }"
    exit 0
fi
count=0 failed=0
for new in "$made"/*.ptx; do
    file=$(basename "$new")
    count=$((count + 1))
    if diff -u "$file" "$new" >"$made/difference"; then
        echo "ok $count - ${file%.ptx}_is_what_its_source_makes"
    else
        echo "not ok $count - ${file%.ptx}_is_what_its_source_makes"
        head -n 20 "$made/difference" | sed 's/^/# /'
        failed=1
    fi
done
echo "1..$count"
exit $failed
