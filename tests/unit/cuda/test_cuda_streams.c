/*
 * test_cuda_streams.c - the CUDA backend over the stand-in driver: streams of the application, and
 * marks that tell the time, when nothing fails.
 */
#include "cuda_fixture.h"

/* ---- streams of the application */

static void wrapped_streams_stay_the_applications(void **state)
{
    (void)state;
    cu__context primary = NULL, ignored = NULL;
    cu__stream own = NULL;
    void *wrapped = NULL, *legacy = NULL;
    uint64_t ticket = 0;
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(primary), CU__SUCCESS);
    assert_int_equal(cuStreamCreate(&own, CU__STREAM_NON_BLOCKING), CU__SUCCESS);
    assert_int_equal(table->stream_wrap(device, (uint64_t)(uintptr_t)own, &wrapped),
                     DDISP_STATUS_OK);
    assert_int_equal(table->stream_wrap(device, 0, &legacy), DDISP_STATUS_OK);
    for (int i = 0; i < 2; i++) {
        void *each = i ? legacy : wrapped;
        ddisp_backend_memory memory = {0};
        unsigned char sent[100], got[100] = {0};
        memset(sent, 7 + i, sizeof sent);
        assert_int_equal(table->memory_allocate(device, each, 100, &memory), DDISP_STATUS_OK);
        ddisp_backend_range range = fixture_range(&memory, 0, 100);
        assert_int_equal(table->upload(device, each, &range, sent), DDISP_STATUS_OK);
        assert_int_equal(table->download(device, each, &range, got), DDISP_STATUS_OK);
        assert_memory_equal(sent, got, 100);
        assert_int_equal(table->stream_mark(device, each, &ticket), DDISP_STATUS_OK);
        assert_int_equal(table->stream_wait(device, stream, each, ticket), DDISP_STATUS_OK);
        assert_int_equal(table->stream_synchronize(device, each, ticket, UINT64_MAX),
                         DDISP_STATUS_OK);
        table->memory_free(device, each, &memory);
        table->stream_destroy(device, each);
    }
    assert_int_equal(fake_cuda_call_count("cuStreamDestroy"), 0);
    assert_int_equal(table->stream_wrap(device, 2, &wrapped), DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("CU_STREAM_PER_THREAD");
    assert_int_equal(cuStreamDestroy_v2(own), CU__SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CU__SUCCESS);
}

static void stream_of_another_context_is_refused(void **state)
{
    (void)state;
    cu__context other = NULL, ignored = NULL;
    cu__stream theirs = NULL;
    void *wrapped = NULL;
    assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(other), CU__SUCCESS);
    assert_int_equal(cuStreamCreate(&theirs, CU__STREAM_NON_BLOCKING), CU__SUCCESS);
    assert_int_equal(table->stream_wrap(device, (uint64_t)(uintptr_t)theirs, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("another context");
    assert_null(wrapped);
    assert_int_equal(cuStreamDestroy_v2(theirs), CU__SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), CU__SUCCESS);
}

/* ---- time */

static void time_between_marks_is_the_devices(void **state)
{
    (void)state;
    uint64_t begin = 0, end = 0, plain = 0, elapsed = 0;
    fake_cuda_set_elapsed(2.5f);
    assert_int_equal(table->stream_mark_timed(device, stream, &begin), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark(device, stream, &plain), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark_timed(device, stream, &end), DDISP_STATUS_OK);
    assert_true(begin < plain && plain < end);
    assert_int_equal(table->stream_query(device, stream, end), DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_OK);
    assert_int_equal(elapsed, 2500000);
    fake_cuda_set_elapsed(-1);
    assert_int_equal(table->stream_elapsed(device, stream, end, stream, begin, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(table->stream_elapsed(device, stream, begin, stream, plain, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("no time");
    fake_cuda_delay(1);
    assert_int_equal(table->stream_mark_timed(device, stream, &end), DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_NOT_READY);
}

static void number_of_timed_events_is_bounded(void **state)
{
    (void)state;
    uint64_t first = 0, last = 0, elapsed = 0;
    assert_int_equal(table->stream_mark_timed(device, stream, &first), DDISP_STATUS_OK);
    for (int i = 0; i < 4095; i++) {
        assert_int_equal(table->stream_mark_timed(device, stream, &last), DDISP_STATUS_OK);
    }
    assert_int_equal(table->stream_elapsed(device, stream, first, stream, last, &elapsed),
                     DDISP_STATUS_OK);
    uint64_t events = fake_cuda_live_events();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(table->stream_mark_timed(device, stream, &last), DDISP_STATUS_OK);
    }
    assert_int_equal(fake_cuda_live_events(), events);
    assert_int_equal(table->stream_elapsed(device, stream, first, stream, last, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("4096");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(wrapped_streams_stay_the_applications),
        CASE(stream_of_another_context_is_refused),
        CASE(time_between_marks_is_the_devices),
        CASE(number_of_timed_events_is_bounded),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
