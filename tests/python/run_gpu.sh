#!/usr/bin/env bash
# tests/python/run_gpu.sh [FOLDER]: all tests of the Python package and bench/torch_bridge.py, on a machine with a GPU, PyTorch with CUDA
# and a carried build-gpu/ (made by tools/gpu --build). Writes python.log, torch_bridge.txt and torch_bridge_<elements>.json into FOLDER
# (default: the current directory). PYTHON chooses the interpreter, CALLS how many calls the memory tests make (default 100000), TESTS which
# files of tests run, LIMIT how many seconds each of them has. Tests for two GPUs run where there are two.
set -u
out=$(mkdir -p "${1:-.}" && cd "${1:-.}" && pwd)
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
build=${BUILD:-build-gpu}

# Libraries that this machine lacks come from the carried packages.
path=
for folder in "$PWD/$build"/runtime/*/usr/lib/*-linux-gnu; do
    for library in "$folder"/lib*.so.*; do
        if [ -e "$library" ] && ! ldconfig -p 2>/dev/null | grep -qF "$(basename "$library") "; then
            path=$path${path:+:}$folder
            break
        fi
    done
done
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export DDISP_LIBRARY=$PWD/$build/lib/libdiffdispatch.so.0 PYTHONPATH=$PWD/bindings/python PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export DDISP_TEST_KERNELS=$PWD/$build/tests/python/kernels/libpython-kernels.so
export DDISP_TEST_CALLS=${CALLS:-100000}

: >"$out/python.log"
failed=0
"$python" -c 'import torch, diffdispatch as dd
print("torch", torch.__version__, "with", torch.cuda.device_count(), "GPUs; diffdispatch:", *dd.default_context().devices)' || failed=1
for name in ${TESTS-api dlpack torch torch_training package}; do
    printf '==== test_%s\n' "$name" >>"$out/python.log"
    timeout "${LIMIT:-280}" "$python" "tests/python/test_$name.py" 2>&1 | tee "$out/part.log" >>"$out/python.log"
    status=${PIPESTATUS[0]}
    printf '==== test_%s: status %s\n' "$name" "$status" >>"$out/python.log"
    printf '%s: %s passed, %s failed, %s skipped, status %s\n' "$name" "$(grep -c '^ok' "$out/part.log")" \
        "$(grep -c '^not ok' "$out/part.log")" "$(grep -c '# SKIP' "$out/part.log")" "$status"
    [ "$status" -eq 0 ] || { failed=1; grep -A12 '^not ok' "$out/part.log" | head -n 60; }
done
rm -f "$out/part.log"

for elements in 32 65536; do
    timeout 100 "$python" bench/torch_bridge.py --elements "$elements" --blocks 30 --seconds 40 --save "$out/torch_bridge_$elements.json" ||
        echo "torch_bridge of $elements elements failed"
done 2>&1 | tee "$out/torch_bridge.txt"
! grep -q failed "$out/torch_bridge.txt" || failed=1
exit "$failed"
