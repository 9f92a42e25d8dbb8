/*
 * test_host_library.c - functions of a shared object that a code names: found, called, or missed in
 * words. The environment variable DDISP_TEST_HOST_LIBRARY is the path of the one made of library.c.
 */
#include "host_code.h"

#include <stdlib.h>
#include <string.h>

/** Stands for the path of the library. */
#define TEST_LIBRARY NULL

static void make(host_code *it, ddisp_mode mode, const char *path, const char *entry)
{
    if (!path) {
        path = getenv("DDISP_TEST_HOST_LIBRARY");
        assert_non_null(path);
    }
    host_code_make(it, mode, NULL, 0);
    it->code.format = "host-library";
    it->code.bytes = path;
    it->code.size_bytes = strlen(path) + 1;
    it->entries[0].name = entry;
    it->entries[0].function_id = 0; /* the name is its identity */
}

static void functions_over_items_are_found(void **state)
{
    const fixture *f = *state;
    host_code it;
    void *variant = NULL;
    uint64_t values[100] = {0};
    arguments args = arguments_make(100, address_of(values), 42, 0);
    make(&it, DDISP_MODE_FORWARD, TEST_LIBRARY, "library_fill");
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    assert_int_equal(f->table->code_fits(f->device, &it.backend_code), DDISP_STATUS_OK);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .variant = variant,
                                   .block = &args,
                                   .block_size_bytes = sizeof args,
                                   .items = 100};
    assert_int_equal(f->table->launch(f->device, f->own, &launch), DDISP_STATUS_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(values[i], 42);
    }
    f->table->variant_release(f->device, variant);
}

static void existing_functions_are_called_once(void **state)
{
    const fixture *f = *state;
    static const ddisp_native_arg natives[4] = {
        DDISP_NATIVE(DDISP_SOURCE_DATA, 2), DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
        DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2), DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};
    float x[3] = {1, 2, 3}, y[3] = {0};
    double k = 1.5;
    uint64_t values[4] = {address_of(y), address_of(x), 3, 0};
    memcpy(&values[3], &k, sizeof k);
    host_code it;
    void *variant = NULL;
    make(&it, DDISP_MODE_FORWARD, TEST_LIBRARY, "library_scale");
    it.params[3].dtype = DDISP_DTYPE_F64;
    it.entries[0].native = natives;
    it.entries[0].native_count = 4;
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, f->own, variant, &it, values, NULL, 0), DDISP_STATUS_OK);
    assert_true(y[0] == 1.5f && y[1] == 3 && y[2] == 4.5f);
    f->table->variant_release(f->device, variant);
}

static void masks_are_in_names(void **state)
{
    const fixture *f = *state;
    host_code it;
    void *variant = NULL;
    make(&it, DDISP_MODE_BACKWARD, TEST_LIBRARY, "library_masked_{mask}");
    assert_int_equal(host_code_inspect(f, &it),
                     DDISP_STATUS_OK); /* which masks, nobody knows yet */
    it.entries[0].flags = DDISP_ENTRY_MASKED;
    it.entries[0].mask = 1;
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    it.entries[0].mask = 2;
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_NOT_FOUND);
    assert_non_null(strstr(last_message, "'library_masked_2'"));
    make(&it, DDISP_MODE_BACKWARD, TEST_LIBRARY, "library_masked_1");
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    f->table->variant_release(f->device, variant);
    it.entries[0].name = "library_masked_3"; /* as the core writes it for a mask that is missing */
    variant = NULL;
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_NOT_FOUND);
    assert_null(variant);
}

static void what_is_wrong_is_said(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *path, *entry;
        uint64_t size_bytes; /* 0: with the NUL */
        ddisp_status status;
        const char *text;
    } cases[] = {
        {TEST_LIBRARY, "library_none", 0, DDISP_STATUS_NOT_FOUND, "'library_none'"},
        {TEST_LIBRARY, "", 0, DDISP_STATUS_CODE_INVALID, "no name"},
        {"/no/such/library.so", "f", 0, DDISP_STATUS_CODE_INVALID, "/no/such/library.so"},
        {"library.so", "f", 0, DDISP_STATUS_CODE_INVALID, "relative path"},
        {"", "f", 0, DDISP_STATUS_CODE_INVALID, "empty"},
        {TEST_LIBRARY, "library_fill", 5, DDISP_STATUS_CODE_INVALID, "not terminated"},
        {"/proc/self/status", "f", 0, DDISP_STATUS_CODE_INVALID, "cannot be loaded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        host_code it;
        make(&it, DDISP_MODE_FORWARD, cases[i].path, cases[i].entry);
        if (cases[i].size_bytes) {
            it.code.size_bytes = cases[i].size_bytes;
        }
        assert_int_equal(host_code_inspect(f, &it), cases[i].status);
        if (!strstr(last_message, cases[i].text) || !strstr(last_message, "kernel mul")) {
            fail_msg("'%s' is not in: %s", cases[i].text, last_message);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(functions_over_items_are_found),
        TEST(existing_functions_are_called_once),
        TEST(masks_are_in_names),
        TEST(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("host library", tests, NULL, NULL);
}
