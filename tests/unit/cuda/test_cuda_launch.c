/*
 * test_cuda_launch.c - the CUDA backend over the stand-in driver: variants and launches, when
 * nothing fails; limits and refusals.
 */
#include "cuda_fixture.h"

static struct {
    int launches;
    uint64_t block_bytes;
    unsigned char block[WIDE_BLOCK_BYTES];
    int by_pointer;
    int off[2];
    unsigned int grid, group;
} seen;

static void look(const char *ptx, void **parameters, const unsigned int grid[3],
                 const unsigned int group[3])
{
    const void *block = parameters[0];
    if (seen.by_pointer) {
        cu__address address;
        memcpy(&address, parameters[0], sizeof address);
        block = (const void *)(uintptr_t)address;
    }
    seen.launches++;
    memcpy(seen.block, block, seen.block_bytes);
    seen.off[0] = strstr(ptx, ", 0; // DDISP_SWITCH(0)") != NULL;
    seen.off[1] = strstr(ptx, ", 0; // DDISP_SWITCH(1)") != NULL;
    seen.grid = grid[0];
    seen.group = group[0];
}

static void launch_hands_over_the_block_and_the_switches(void **state)
{
    (void)state;
    sample_block block;
    memset(&seen, 0, sizeof seen);
    seen.block_bytes = sizeof block;
    fake_cuda_register_kernel("sample_backward", look);
    for (uint64_t switches = 0; switches < 4; switches++) {
        void *variant = NULL;
        memset(&block, (int)switches + 1, sizeof block);
        assert_int_equal(fixture_build("sample_backward", DDISP_MODE_BACKWARD, SAMPLE_BLOCK_BYTES,
                                       switches, 0, &variant),
                         DDISP_STATUS_OK);
        assert_int_equal(fixture_launch(variant, &block, sizeof block, 0), DDISP_STATUS_OK);
        assert_int_equal(seen.launches, (int)switches + 1);
        assert_memory_equal(seen.block, &block, sizeof block);
        assert_int_equal(seen.off[0], !(switches & 1));
        assert_int_equal(seen.off[1], !(switches & 2));
        assert_int_equal(seen.grid, 4);
        assert_int_equal(seen.group, 256);
        table->variant_release(device, variant);
    }
}

static void large_blocks_go_by_pointer(void **state)
{
    (void)state;
    unsigned char block[WIDE_BLOCK_BYTES];
    void *variant = NULL;
    memset(&seen, 0, sizeof seen);
    seen.block_bytes = sizeof block;
    seen.by_pointer = 1;
    fake_cuda_register_kernel("sample_wide", look);
    assert_int_equal(
        fixture_build("sample_wide", DDISP_MODE_FORWARD, WIDE_BLOCK_BYTES, 3, 0, &variant),
        DDISP_STATUS_OK);
    uint64_t allocations = 0;
    for (int i = 0; i < 100; i++) {
        memset(block, i, sizeof block);
        block[7] = 77;
        assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
        assert_memory_equal(seen.block, block, sizeof block);
        if (i == 0) {
            allocations = fake_cuda_live_allocations() + fake_cuda_live_host_allocations();
        }
    }
    assert_int_equal(fake_cuda_live_allocations() + fake_cuda_live_host_allocations(), allocations);
    table->variant_release(device, variant);
}

static void steady_launch_makes_one_call_and_no_allocation(void **state)
{
    (void)state;
    sample_block block = {0};
    void *variant = NULL;
    cu__context primary = NULL;
    assert_int_equal(
        fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant),
        DDISP_STATUS_OK);
    uint64_t host = sample_live_host_allocations, before = fake_cuda_call_count(NULL);
    assert_int_equal(fixture_launch(variant, &block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count(NULL) - before, 4); /* get, push, launch, pop */
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(primary), CU__SUCCESS);
    before = fake_cuda_call_count(NULL);
    assert_int_equal(fixture_launch(variant, &block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count(NULL) - before, 2); /* get, launch */
    assert_int_equal(sample_live_host_allocations, host);
    assert_int_equal(cuCtxPopCurrent_v2(&primary), CU__SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CU__SUCCESS);
    table->variant_release(device, variant);
}

static void limits_of_compiled_code_are_checked_with_both_numbers(void **state)
{
    (void)state;
    void *variant = NULL;
    fake_cuda_set_function_limits(192, 0);
    assert_int_equal(
        fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant),
        DDISP_STATUS_LIMIT_EXCEEDED);
    fixture_says("256 threads");
    fixture_says("192");
    fake_cuda_set_function_limits(1024, 2000);
    assert_int_equal(fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3,
                                   100000, &variant),
                     DDISP_STATUS_LIMIT_EXCEEDED);
    fixture_says("100000");
    fixture_says("101376");
    assert_int_equal(fake_cuda_live_modules(), 0);
}

static void much_shared_memory_is_asked_for(void **state)
{
    (void)state;
    sample_block block = {0};
    void *variant = NULL;
    assert_int_equal(
        fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 49152, &variant),
        DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuFuncSetAttribute"), 0);
    table->variant_release(device, variant);
    assert_int_equal(
        fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 90000, &variant),
        DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuFuncSetAttribute"), 1);
    assert_int_equal(fixture_launch(variant, &block, sizeof block, 90000), DDISP_STATUS_OK);
    table->variant_release(device, variant);
}

static void rejected_code_comes_with_the_log(void **state)
{
    (void)state;
    void *variant = NULL;
    fake_cuda_fail_function("cuModuleLoadDataEx", 1, CU__ERROR_INVALID_PTX);
    assert_int_equal(
        fixture_build("sample_backward", DDISP_MODE_BACKWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant),
        DDISP_STATUS_CODE_REJECTED);
    fixture_says("sample_backward");
    fixture_says("CUDA_ERROR_INVALID_PTX (218)");
    fixture_says("fake log: line 1: no good");
}

static void code_for_other_devices_does_not_reach_the_driver(void **state)
{
    (void)state;
    void *variant = NULL;
    assert_int_equal(
        fixture_build("sample_none", DDISP_MODE_BACKWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant),
        DDISP_STATUS_NOT_FOUND);
    assert_int_equal(fixture_build("sample_backward", DDISP_MODE_BACKWARD, 672, 3, 0, &variant),
                     DDISP_STATUS_CODE_INVALID);
    assert_int_equal(fake_cuda_call_count("cuModuleLoadDataEx"), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(launch_hands_over_the_block_and_the_switches),
        CASE(large_blocks_go_by_pointer),
        CASE(steady_launch_makes_one_call_and_no_allocation),
        CASE(limits_of_compiled_code_are_checked_with_both_numbers),
        CASE(much_shared_memory_is_asked_for),
        CASE(rejected_code_comes_with_the_log),
        CASE(code_for_other_devices_does_not_reach_the_driver),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
