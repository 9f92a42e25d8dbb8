/*
 * test_cuda_failure.c - the CUDA backend when something fails: each call of the driver in a whole
 * life in turn, each of the compiler, each allocation of host memory. Nothing may leak, lie, or
 * disturb the caller's current context.
 */
#include "cuda_life.h"
#include "fake_nvrtc.h"

static void failing_call_is_reported(cu__result result, cu__context current)
{
    static const ddisp_status known[] = {
        DDISP_STATUS_OUT_OF_MEMORY, DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
        DDISP_STATUS_DRIVER_ERROR,  DDISP_STATUS_BACKEND_UNAVAILABLE,
        DDISP_STATUS_CODE_REJECTED, DDISP_STATUS_NOT_READY,
        DDISP_STATUS_TIMEOUT};
    int reported = 0;
    for (uint64_t nth = 1;; nth++) {
        life self;
        fake_cuda_reset();
        if (current) {
            assert_int_equal(cuInit(0), CU__SUCCESS);
            assert_int_equal(cuCtxPushCurrent_v2(current), CU__SUCCESS);
        }
        fake_cuda_fail_at(nth, result);
        live(&self);
        int failed = fake_cuda_failed();
        if (current) {
            assert_ptr_equal(fake_cuda_current_context(), current);
            fake_cuda_reset();
            assert_int_equal(cuCtxPopCurrent_v2(&current), CU__SUCCESS);
        }
        if (self.disturbed || self.wrong || fake_cuda_live() || sample_live_host_allocations) {
            fail_msg("call %llu: context disturbed %d, wrong results %d, %llu left in the driver, "
                     "%llu on the host; status %u: %s",
                     (unsigned long long)nth, self.disturbed, self.wrong,
                     (unsigned long long)fake_cuda_live(),
                     (unsigned long long)sample_live_host_allocations, self.status, self.message);
        }
        if (!failed) {
            assert_int_equal(self.status, DDISP_STATUS_OK); /* a life without failure is whole */
            break;
        }
        if (self.status != DDISP_STATUS_OK) {
            int is_known = 0;
            for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
                is_known |= self.status == known[i];
            }
            assert_true(is_known);
            assert_true(strlen(self.message) > 10);
            reported++;
        }
    }
    assert_true(reported > 40);
}

static void every_call_may_fail(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_UNKNOWN, NULL);
}

static void every_call_may_run_out_of_memory(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_OUT_OF_MEMORY, NULL);
}

static void case_36_callers_context_stays_current(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_UNKNOWN, fake_cuda_foreign_context());
}

/* And every allocation of host memory. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    int reported = 0;
    for (uint64_t nth = 1;; nth++) {
        life self;
        fake_cuda_reset();
        sample_fail_allocation = nth;
        live(&self);
        int whole = sample_fail_allocation > 0;
        sample_fail_allocation = 0;
        assert_false(self.disturbed);
        assert_false(self.wrong);
        assert_int_equal(fake_cuda_live(), 0);
        assert_int_equal(sample_live_host_allocations, 0);
        assert_int_equal(fake_nvrtc_live(), 0);
        if (whole) {
            assert_int_equal(self.status, DDISP_STATUS_OK);
            break;
        }
        if (self.status != DDISP_STATUS_OK) { /* what is only said may be left unsaid */
            assert_int_equal(self.status, DDISP_STATUS_OUT_OF_MEMORY);
            reported++;
        }
    }
    assert_true(reported > 20);
}

/* The compiler's calls too. */
static void every_call_of_the_compiler_may_fail(void **state)
{
    (void)state;
    static const int results[] = {1, 11, 6}; /* out of memory, internal, compilation */
    for (int k = 0; k < 3; k++) {
        uint64_t nth = 1;
        for (;; nth++) {
            life self;
            fake_cuda_reset();
            fake_nvrtc_fail_at(nth, results[k]);
            live(&self);
            if (!fake_nvrtc_failed()) {
                break;
            }
            assert_int_equal(fake_nvrtc_live(), 0);
            assert_int_equal(fake_cuda_live(), 0);
            assert_int_equal(sample_live_host_allocations, 0);
            assert_true(self.status == DDISP_STATUS_OK || /* a log that cannot be had */
                        self.status == DDISP_STATUS_CODE_REJECTED ||
                        (k == 0 && self.status == DDISP_STATUS_OUT_OF_MEMORY));
        }
        assert_true(nth > 4);
        fake_nvrtc_fail_at(0, 0);
    }
}

static void failures_are_named(void **state)
{
    void *made = NULL;
    (void)state;
    assert_int_equal(fixture_open(NULL), 0);
    fake_cuda_fail_function("cuStreamCreate", 1, CU__ERROR_UNKNOWN);
    assert_int_equal(table->stream_create(device, 0, &made), DDISP_STATUS_DRIVER_ERROR);
    assert_string_equal(sample_message,
                        "cuda:0: cuStreamCreate: CUDA_ERROR_UNKNOWN (999): said by the fake");
    fake_cuda_fail_function("cuEventRecord", 1, CU__ERROR_OUT_OF_MEMORY);
    uint64_t ticket;
    assert_int_equal(table->stream_mark(device, stream, &ticket),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_string_equal(sample_message,
                        "cuda:0: cuEventRecord: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(fixture_close(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_call_may_run_out_of_memory),
        cmocka_unit_test(case_36_callers_context_stays_current),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_call_of_the_compiler_may_fail),
        cmocka_unit_test(failures_are_named),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
