#!/usr/bin/env bash
# tests/mutations.sh [NAME...]: shows that the tests would notice. Breaks a copy of the last commit by hand, one way at a
# time, builds it, and wants the tests to fail. To be run by hand after changes of the core; takes a few minutes. TAP.
#
# Each way is a function that edits files of the copy with `replace`; an edit that finds nothing is an error, so that
# the breaks keep up with the code.
. "$(dirname "$0")/../tools/common.sh" # we are in the root of the tree then
set +e
choose_vulkan_driver
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# replace FILE TEXT BY: replaces the only occurrence of a text (over several lines if need be).
replace() {
    python3 - "$copy/$1" "$2" "$3" <<'PYTHON'
import sys
path, text, by = sys.argv[1:]
with open(path) as file:
    content = file.read()
if content.count(text) != 1:
    sys.exit(f'# {path}: {content.count(text)} places instead of one for: {text}')
with open(path, 'w') as file:
    file.write(content.replace(text, by))
PYTHON
}

requires_grad_dropped_from_the_signature() {
    # of a slot: bit 1, the policy, and dtype, layout and alias of a gradient that is wanted
    replace lib/signature.c 'slots_of(launch, operand, i, &seen), 8)' \
        'slots_of(launch, operand, i, &seen) & ~UINT64_C(0xFFFFFF00FF02), 8)'
}

no_zero_fill() {
    replace lib/tensor_gradient.c 'if (!status && zero)' 'if (!status && zero && false)'
}

frozen_treated_as_real() {
    replace lib/arguments.c 'operand->add.wanted = operand->add.exists && requires_grad;' \
        'operand->add.wanted = operand->add.exists;'
}

outputs_gradients_not_taken() {
    replace lib/snapshot.c 'launch->owners[operand->owner].taken = true;' \
        'launch->owners[operand->owner].taken = false;'
}

# In the test kernels: what a broken kernel would compute is what a non-atomic one might.
atomic_replaced_by_store() {
    replace tests/cts/kernels/cts_host.h 'sum += value;' 'sum = value;' &&
        replace tests/cts/kernels/cts.glsl 'atomicAdd(F32(address).v, value);' 'F32(address).v = value;'
}

hash_compared_without_the_bytes() {
    replace lib/memory.c 'if (entry->key_size == key_size && (key_size == 0 || !memcmp(entry->key, key, key_size)))' \
        'if (entry->key_size == key_size && (key_size == 0 || key != NULL))'
}

all="requires_grad_dropped_from_the_signature no_zero_fill frozen_treated_as_real outputs_gradients_not_taken
atomic_replaced_by_store hash_compared_without_the_bytes"

# Builds what the tests below need: their programs, the backends and the toy plugin.
build() {
    local plugins
    plugins=$(ninja -C "$copy/build" -t targets all | sed -nE 's,^((backends|tests/plugins/toy)/[^/]*\.so): .*,\1,p')
    ninja -C "$copy/build" tests/cts/cts tests/unit/test_memory tests/unit/test_toy tests/unit/core/test_signature \
        tests/unit/core/test_block $plugins >"$copy/build.log" 2>&1 && return
    grep -m 5 -E 'error|FAILED' "$copy/build.log" | sed 's/^/# /'
    return 1
}
# The tests that look at gradients, counted as tools/test does.
run_tests() {
    meson test -C "$copy/build" --no-rebuild "$@" 'cts host' 'cts vulkan' memory signature block toy \
        >"$copy/test.log" 2>&1
    tools/count-tests tests/skips.txt "tests=$copy/build/meson-logs/testlog.json" >"$copy/count.log" 2>&1
}
failures() {
    grep -h '^FAILED' "$copy/count.log" | sed 's/^/# /' | head -n 4
}

git archive HEAD | tar -x -C "$copy"
meson setup "$copy/build" "$copy" >"$copy/setup.log" 2>&1 || {
    tail -n 5 "$copy/setup.log"
    exit 1
}

number=0 bad=0
say() {
    number=$((number + 1))
    [ "$1" = ok ] || bad=$((bad + 1))
    echo "$1 $number - $2"
}

if build && run_tests; then say ok unbroken_tree_passes; else
    failures
    say 'not ok' unbroken_tree_passes
    exit 1
fi
for way in ${*:-$all}; do
    cp -r "$copy/lib" "$copy/lib.whole"
    cp -r "$copy/tests/cts/kernels" "$copy/kernels.whole"
    if ! "$way"; then
        say 'not ok' "$way (the edit does not apply)"
    elif ! build; then
        say 'not ok' "$way (does not build)"
    elif run_tests --maxfail 1; then
        say 'not ok' "$way (no test noticed)"
    else
        failures
        say ok "$way"
    fi
    rm -r "$copy/lib" "$copy/tests/cts/kernels"
    mv "$copy/lib.whole" "$copy/lib"
    mv "$copy/kernels.whole" "$copy/tests/cts/kernels"
    find "$copy/lib" "$copy/tests/cts/kernels" -type f -exec touch {} +
done
echo "1..$number"
[ "$bad" -eq 0 ]
