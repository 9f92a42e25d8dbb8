/*
 * test_cuda_missing.c - what the CUDA backend says where there is no driver to speak with. The
 * program is not linked to the stand-in driver: what libcuda.so.1 is, the environment decides.
 *   argument: absent, broken (a file that is no library), stub (initialization says 34), old
 */
#include "cuda_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *what;

static void missing_driver_is_explained(void **state)
{
    ddisp_backend_query_function query = NULL;
    const ddisp_backend_table *table = NULL;
    void *instance = NULL;
    (void)state;
    if (strcmp(what, "absent") == 0 && dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
        skip(); /* this machine has a driver */
    }
    const char *path = getenv("DDISP_TEST_CUDA_PLUGIN");
    assert_non_null(path);
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(plugin);
    void *symbol = dlsym(plugin, "ddisp_cuda_backend_query");
    assert_non_null(symbol);
    memcpy(&query, &symbol, sizeof query);
    assert_int_equal(query(DDISP_BACKEND_ABI, &sample_services, &table), DDISP_STATUS_OK);
    for (int i = 0; i < 2; i++) { /* and again */
        assert_int_equal(table->open(&sample_services, &instance),
                         DDISP_STATUS_BACKEND_UNAVAILABLE);
        assert_non_null(
            strstr(sample_message, strcmp(what, "old") == 0 ? "CUDA 11.8" : "libcuda.so.1"));
        assert_non_null(strstr(sample_message, strcmp(what, "absent") == 0   ? "no NVIDIA driver"
                                               : strcmp(what, "broken") == 0 ? "cannot be loaded"
                                               : strcmp(what, "stub") == 0   ? "stub library"
                                                                           : "update the driver"));
        assert_int_equal(sample_live_host_allocations, 0);
    }
    /* What needs no driver works all the same. */
    sample_code code;
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    uint64_t size = 0;
    char *text = sample_read("sample.ptx", &size);
    sample_declare(&code, text, size, DDISP_MODE_BACKWARD, "sample_backward", 256);
    assert_int_equal(table->inspect(&sample_services, &code.backend_code, &info), DDISP_STATUS_OK);
    assert_int_equal(info.switch_mask, 3);
    free(text);
}

static void other_abi_is_refused_with_both_numbers(void **state)
{
    ddisp_backend_query_function query = NULL;
    const ddisp_backend_table *table = NULL;
    (void)state;
    void *plugin = dlopen(getenv("DDISP_TEST_CUDA_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(plugin);
    void *symbol = dlsym(plugin, "ddisp_cuda_backend_query");
    memcpy(&query, &symbol, sizeof query);
    assert_int_equal(query(DDISP_BACKEND_ABI + (7u << 16), &sample_services, &table),
                     DDISP_STATUS_INCOMPATIBLE);
    assert_null(table);
    assert_non_null(strstr(sample_message, "7."));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_driver_is_explained),
        cmocka_unit_test(other_abi_is_refused_with_both_numbers),
    };
    what = argc > 1 ? argv[1] : "absent";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
