/*
 * test_native_vulkan_broken.c - shaders with native arguments whose SPIR-V is damaged: each word is
 * changed in turn. A kernel is made or refused, and whatever is made is not run.
 */
#include "native_fixture.h"

#include <stdlib.h>

/** Makes a kernel of every damaged copy; how many were refused. */
static uint32_t damage(const native_fixture *f, const native_code *whole)
{
    const uint64_t size_bytes = whole->forward_bytes;
    uint32_t *words = malloc(size_bytes), refused = 0;
    assert_non_null(words);
    native_code code = *whole;
    code.forward = words;
    code.backward = NULL;
    for (uint64_t at = 0; at < size_bytes / 4; at++) {
        memcpy(words, whole->forward, size_bytes);
        const uint32_t was = words[at];
        const uint32_t others[] = {0, 1, was + 1, was ^ 0x10, was << 1, UINT32_MAX, 0x7FFFFFFF};
        for (uint32_t k = 0; k < sizeof others / sizeof others[0]; k++) {
            ddisp_kernel *kernel = NULL;
            words[at] = others[k];
            ddisp_status status = native_kernel(f, &code, &kernel);
            refused += status != DDISP_STATUS_OK;
            if (status != DDISP_STATUS_OK && status != DDISP_STATUS_NOT_FOUND)
                assert_int_equal(status, DDISP_STATUS_CODE_INVALID);
            assert_int_equal(status == DDISP_STATUS_OK, kernel != NULL);
            ddisp_kernel_release(kernel);
        }
    }
    free(words);
    return refused;
}

static void damaged_shaders_are_made_or_refused(void **state)
{
    native_fixture *f = native_of(state);
    assert_true(damage(f, &native_buffers) > 100);
    assert_true(damage(f, &native_addresses) > 100);
}

const struct CMUnitTest native_broken_tests[] = {
    cmocka_unit_test(damaged_shaders_are_made_or_refused),
};
const size_t native_broken_test_count = sizeof native_broken_tests / sizeof native_broken_tests[0];
