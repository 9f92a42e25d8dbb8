/*
 * test_cuda_sink.c - the sink of the CUDA backend over the stand-in driver, whose mappings are
 * real: what it shows, how it grows in place and is given back, and each of its driver calls made
 * to fail in turn.
 */
#include "cuda_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static ddisp_backend_range range;
static uint64_t physical_bytes;

static ddisp_status acquire(uint64_t size_bytes)
{
    return table->sink_acquire(device, size_bytes, 0, &range, &physical_bytes);
}

static unsigned char *shown(uint64_t offset_bytes)
{
    return (unsigned char *)(uintptr_t)range.address + offset_bytes;
}

static int open_large(void **state)
{
    int result = fixture_open(state);
    if (result == 0) {
        table->stream_destroy(device, stream);
        table->device_close(device);
        fake_cuda_set_memory(UINT64_C(5) << 30);
        result =
            table->device_open(instance, 0, &device) != DDISP_STATUS_OK ||
            table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &stream) != DDISP_STATUS_OK;
    }
    return result;
}

static void is_described(void **state)
{
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    (void)state;
    assert_int_equal(table->device_describe(instance, 0, &info), DDISP_STATUS_OK);
    assert_string_equal(info.sink, "aliased");
    fake_cuda_set_virtual_memory(0);
    assert_int_equal(table->device_describe(instance, 0, &info), DDISP_STATUS_OK);
    assert_string_equal(info.sink, "none");
}

static void one_block_is_shown_over_and_over(void **state)
{
    (void)state;
    assert_int_equal(acquire(5 * MIB), DDISP_STATUS_OK);
    assert_int_equal(range.size_bytes, 6 * MIB);
    assert_int_equal(physical_bytes, 2 * MIB);
    for (uint64_t at = 0; at < range.size_bytes; at += 4096) {
        assert_int_equal(*shown(at), 0);
    }
    *shown(17) = 42;
    assert_int_equal(*shown(2 * MIB + 17), 42);
    assert_int_equal(*shown(4 * MIB + 17), 42);
}

static void base_stays_through_growth(void **state)
{
    (void)state;
    assert_int_equal(acquire(1), DDISP_STATUS_OK);
    assert_int_equal(range.size_bytes, 2 * MIB);
    uint64_t base = range.address;
    *shown(5) = 7;
    assert_int_equal(acquire(40 * MIB), DDISP_STATUS_OK);
    assert_int_equal(range.address, base);
    assert_int_equal(range.size_bytes, 40 * MIB);
    assert_int_equal(physical_bytes, 2 * MIB);
    assert_int_equal(*shown(38 * MIB + 5), 7); /* growing does not zero again */
    uint64_t calls = fake_cuda_call_count("cuMemMap");
    assert_int_equal(acquire(3 * MIB), DDISP_STATUS_OK); /* never shrinks */
    assert_int_equal(range.size_bytes, 40 * MIB);
    assert_int_equal(fake_cuda_call_count("cuMemMap"), calls);
}

static void larger_blocks_lie_beyond_4_gib(void **state)
{
    const uint64_t near_bytes = UINT64_C(4) << 30;
    (void)state;
    assert_int_equal(acquire(near_bytes), DDISP_STATUS_OK);
    assert_int_equal(physical_bytes, 2 * MIB);
    uint64_t base = range.address, mapped = fake_cuda_call_count("cuMemMap");
    assert_int_equal(mapped, 2048);
    *shown(1) = 9;
    assert_int_equal(acquire(near_bytes + 20 * MIB), DDISP_STATUS_OK);
    assert_int_equal(range.address, base);
    assert_int_equal(range.size_bytes, near_bytes + 24 * MIB);
    assert_int_equal(physical_bytes, 10 * MIB);
    assert_int_equal(fake_cuda_call_count("cuMemMap"), mapped + 3);
    assert_int_equal(*shown(near_bytes + 1), 0); /* a block of its own, zeroed */
    *shown(near_bytes + 1) = 3;
    assert_int_equal(*shown(near_bytes + 16 * MIB + 1), 3);
    assert_int_equal(*shown(near_bytes - 2 * MIB + 1), 9);
    table->sink_trim(device);
    assert_int_equal(fake_cuda_live_virtual(), 0);
}

static void trim_gives_everything_back(void **state)
{
    (void)state;
    table->sink_trim(device); /* nothing there */
    assert_int_equal(acquire(10 * MIB), DDISP_STATUS_OK);
    *shown(0) = 1;
    assert_int_equal(fake_cuda_live_virtual(), 1 + 1 + 5);
    table->sink_trim(device);
    assert_int_equal(fake_cuda_live_virtual(), 0);
    assert_int_equal(acquire(10 * MIB), DDISP_STATUS_OK);
    assert_int_equal(*shown(0), 0);
} /* and closing the device does too: the fixture looks */

static void too_long_is_refused(void **state)
{
    (void)state;
    assert_int_equal(acquire(65 * MIB), DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    fixture_says("a sink of 68157440 bytes was asked for, the longest has 67108864");
    assert_int_equal(acquire(64 * MIB), DDISP_STATUS_OK);
}

static void devices_without_virtual_memory_say_so(void **state)
{
    void *other = NULL;
    (void)state;
    fake_cuda_set_virtual_memory(0);
    assert_int_equal(table->device_open(instance, 0, &other), DDISP_STATUS_OK);
    assert_int_equal(table->sink_acquire(other, 1, 0, &range, &physical_bytes),
                     DDISP_STATUS_UNSUPPORTED);
    fixture_says("does not manage virtual memory");
    table->sink_trim(other);
    table->device_close(other);
}

/* Every call of a first use and of a growth fails once; what was there stays, and works. */
static void every_call_may_fail(void **state)
{
    int reported = 0;
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        assert_int_equal(fixture_open(NULL), 0);
        fake_cuda_fail_at(nth, nth % 2 ? CU__ERROR_OUT_OF_MEMORY : CU__ERROR_UNKNOWN);
        ddisp_status first = acquire(3 * MIB);
        ddisp_backend_range before = range;
        ddisp_status second = first == DDISP_STATUS_OK ? acquire(12 * MIB) : DDISP_STATUS_OK;
        int failed = fake_cuda_failed();
        fake_cuda_fail_at(0, CU__SUCCESS);
        ddisp_status status = first != DDISP_STATUS_OK ? first : second;
        if (status != DDISP_STATUS_OK) {
            assert_true(failed);
            assert_true(status == DDISP_STATUS_DRIVER_ERROR ||
                        status == DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
            fixture_says("cuda:0: ");
            reported++;
        }
        if (first != DDISP_STATUS_OK) {
            assert_true(fake_cuda_live_virtual() <= 1); /* no more than the reservation */
        } else if (second != DDISP_STATUS_OK) {
            assert_int_equal(fake_cuda_live_virtual(), 1 + 1 + 2);
            range = before;
            *shown(4 * MIB - 1) = 1;
        }
        assert_int_equal(acquire(12 * MIB), DDISP_STATUS_OK);
        assert_int_equal(fake_cuda_live_virtual(), 1 + 1 + 6);
        assert_int_equal(*shown(7), 0);
        sample_warnings = 0;
        assert_int_equal(fixture_close(NULL), 0);
        if (!failed) {
            break;
        }
    }
    assert_true(reported >= 12);
}

/* Releasing calls report the failure of earlier work, and release nevertheless. */
static void every_releasing_call_may_fail(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        assert_int_equal(fixture_open(NULL), 0);
        assert_int_equal(acquire(3 * MIB), DDISP_STATUS_OK);
        fake_cuda_fail_at(nth, CU__ERROR_UNKNOWN);
        table->sink_trim(device);
        int failed = fake_cuda_failed();
        assert_int_equal(fake_cuda_live_virtual(), 0);
        assert_null(fake_cuda_current_context());
        fake_cuda_fail_at(0, CU__SUCCESS);
        sample_warnings = 0;
        assert_int_equal(fixture_close(NULL), 0);
        if (!failed) {
            break;
        }
    }
}

static int lost_device_is_left_alone(void)
{
    uint64_t ticket;
    if (fixture_open(NULL) || acquire(3 * MIB) != DDISP_STATUS_OK) {
        return 1;
    }
    fake_cuda_fail_function("cuEventRecord", 1, CU__ERROR_ILLEGAL_ADDRESS);
    if (table->stream_mark(device, stream, &ticket) != DDISP_STATUS_DEVICE_LOST) {
        return 2;
    }
    uint64_t calls = fake_cuda_call_count(NULL);
    if (acquire(1) != DDISP_STATUS_DEVICE_LOST || acquire(8 * MIB) != DDISP_STATUS_DEVICE_LOST) {
        return 3;
    }
    table->sink_trim(device);
    table->stream_destroy(device, stream);
    table->device_close(device);
    table->close(instance);
    return fake_cuda_call_count(NULL) == calls && !sample_live_host_allocations ? 0 : 4;
}

static void nothing_reaches_the_driver_after_a_loss(void **state)
{
    int status = 0;
    (void)state;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(lost_device_is_left_alone());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_described, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(one_block_is_shown_over_and_over, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(base_stays_through_growth, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(larger_blocks_lie_beyond_4_gib, open_large, fixture_close),
        cmocka_unit_test_setup_teardown(trim_gives_everything_back, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(too_long_is_refused, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(devices_without_virtual_memory_say_so, fixture_open,
                                        fixture_close),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_releasing_call_may_fail),
        cmocka_unit_test(nothing_reaches_the_driver_after_a_loss),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
