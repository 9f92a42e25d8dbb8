/*
 * test_pool.c - memory of a device that is short, limited, reused and given back; steps that are
 * repeated thousands of times leave nothing; and kernels with more arguments than usual.
 */
#include "cts.h"

/* ---- short memory */

/* Case 43: too much is an error with both figures, and nothing more. */
static void case_43_more_memory_than_there_is(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *tensor = NULL, *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    const int64_t n = INT64_C(1) << 48;
    char most[40];
    (void)snprintf(most, sizeof most, "%llu",
                   (unsigned long long)(t->info.max_allocation_bytes < t->info.memory_bytes
                                            ? t->info.max_allocation_bytes
                                            : t->info.memory_bytes));
    CTS_REFUSED(t, ddisp_buffer_create(t->device, UINT64_C(1) << 50, &buffer),
                DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "1125899906842624", most);
    CTS_REFUSED(t, ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &tensor),
                DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "1125899906842624", most);
    assert_true(!buffer && !tensor);
    CTS_FORWARD(kernel, x, y);
    CTS_VALUES(y, 1, 4, 9);
}

/* Case 43: each allocation of a launch is refused in turn; nothing has changed, and when there is
 * room the same call works. */
static void case_43_every_allocation_of_a_launch_is_refused(cts *t)
{
    enum { N = 1000 };
    static const float ones[N];
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_tensor *a = cts_vector(t, N, CTS_GRAD, ones), *b = cts_vector(t, N, 0, ones);
    ddisp_tensor *y = cts_vector(t, N, CTS_GRAD, ones), *g = cts_vector(t, N, 0, ones);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SCRATCH, 0, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_FORWARD(kernel, a, b, y);
    uint64_t sink = cts_statistics(t).sink_bytes_live;
    uint64_t live = cts_statistics(t).bytes_live - sink;
    int refused = 0;
    for (uint64_t room = 1; room < 4 * N * 3; room += N) {
        CTS_OK(ddisp_device_set_memory_limit(t->device, live + room));
        assert_int_equal(cts_statistics(t).memory_limit_bytes, live + room);
        cts_note(t);
        ddisp_status status = CTS_BACKWARD(kernel, &options, a, b, y);
        if (status == DDISP_STATUS_OK)
            break;
        CTS_FAILS(status, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "4000 bytes", "limit");
        ddisp_device_statistics now = cts_statistics(t);
        assert_int_equal(now.bytes_live - now.sink_bytes_live, live); /* some came and went */
        CTS_STATE(a, DDISP_GRAD_STATE_EMPTY);
        CTS_STATE(y, DDISP_GRAD_STATE_PRESENT);
        refused++;
    }
    CTS_OK(ddisp_device_set_memory_limit(t->device, 0));
    assert_true(refused >= 7 && refused <= 9); /* 8000 bytes in steps of 1000 */
    CTS_STATE(a, DDISP_GRAD_STATE_PRESENT);
    CTS_STATE(y, DDISP_GRAD_STATE_EMPTY);
}

/* ---- memory that comes again */

static void freed_memory_is_reused_and_can_be_given_back(cts *t)
{
    enum { ROUNDS = 50 };
    ddisp_device_statistics before = cts_statistics(t);
    uint64_t cached = 0;
    for (int i = 0; i < ROUNDS; i++) {
        ddisp_buffer *buffer = NULL;
        CTS_OK(ddisp_buffer_create(t->device, 100000, &buffer));
        ddisp_buffer_release(buffer);
    }
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.allocations, before.allocations + ROUNDS);
    assert_true(after.bytes_reserved_peak >= 100000);
    if (strcmp(t->info.backend, "host") != 0) /* whose pool is the C library's */
        assert_true(after.reuses >= before.reuses + ROUNDS - 1);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    cached = cts_statistics(t).bytes_cached;
    CTS_OK(ddisp_device_trim(t->device));
    assert_true(cts_statistics(t).bytes_cached <= cached);
}

/* ---- steps that leave nothing */

/* Case 46: (a) with a backward launch in every step, (b) with none. */
static void repeat(cts *t, bool backward)
{
    enum { N = 4096, EARLY = 100 };
    /* processors need minutes for as many as a GPU does in a second */
    const int steps = t->info.flags & DDISP_DEVICE_FLAG_SOFTWARE ? 1500 : 10000;
    static float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = cts_vector(t, N, CTS_GRAD, ones), *y = cts_vector(t, N, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_vector(t, N, 0, ones);
    ddisp_device_statistics early = DDISP_ZERO;
    for (int i = 1; i <= steps; i++) {
        CTS_FORWARD(kernel, x, y);
        if (backward) {
            CTS_OK(ddisp_tensor_set_grad(y, g));
            CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
            CTS_OK(ddisp_tensor_clear_grad(x)); /* each step makes it anew */
        }
        if (i == EARLY)
            early = cts_statistics(t);
    }
    ddisp_device_statistics late = cts_statistics(t);
    assert_int_equal(late.bytes_live, early.bytes_live);
    assert_int_equal(late.gradient_bytes_live, early.gradient_bytes_live);
    assert_int_equal(late.allocations - late.frees, early.allocations - early.frees);
    assert_int_equal(late.allocations - early.allocations,
                     backward ? (uint64_t)(steps - EARLY) : 0);
    CTS_CHECK(late.bytes_reserved_peak <= early.bytes_reserved_peak + (UINT64_C(64) << 20),
              "memory taken from the driver grew from %llu to %llu",
              (unsigned long long)early.bytes_reserved_peak,
              (unsigned long long)late.bytes_reserved_peak);
}

static void case_46_steps_with_backward_leave_nothing(cts *t)
{
    repeat(t, true);
}

static void case_46_steps_without_backward_leave_nothing(cts *t)
{
    repeat(t, false);
}

/* ---- many arguments */

/* Case 23: ten tensors of rank 8 and 16 scalars, more than push constants or registers hold. */
static void case_23_ten_tensors_of_rank_8_and_16_scalars(cts *t)
{
    enum { N = 4 };
    static const int64_t shape[8] = {1, 2, 1, 1, 1, 2, 1, 1};
    ddisp_kernel *kernel = cts_kernel(t, &cts_wide);
    ddisp_tensor *inputs[9], *y = NULL, *ones = NULL;
    ddisp_arg args[26] = DDISP_ZERO;
    float scalars[16];
    for (int p = 0; p < 9; p++) {
        const float data[N] = {(float)p, (float)(p + 1), 0, 1};
        inputs[p] = cts_tensor(t, DDISP_DTYPE_F32, 8, shape, NULL, p % 2 == 0 ? CTS_GRAD : 0, data);
        args[p] = (ddisp_arg)DDISP_ARG(inputs[p]);
    }
    for (int s = 0; s < 16; s++) {
        scalars[s] = (float)(1 << s);
        args[9 + s] = (ddisp_arg)DDISP_ARG_SCALAR(&scalars[s]);
    }
    y = cts_tensor(t, DDISP_DTYPE_F32, 8, shape, NULL, CTS_GRAD, NULL);
    ones = cts_tensor(t, DDISP_DTYPE_F32, 8, shape, NULL, 0, (const float[N]){1, 2, 3, 4});
    args[25] = (ddisp_arg)DDISP_ARG(y);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 26, NULL, NULL));
    /* sums of p (p+1) and (p+1)^2 for p from 0 to 8, and of 1 to 9 */
    CTS_VALUES(y, 65535 + 240, 65535 + 285, 65535, 65535 + 45);
    CTS_OK(ddisp_tensor_set_grad(y, ones));
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 26, NULL, NULL));
    for (int p = 0; p < 9; p += 2)
        CTS_GRADIENT(inputs[p], p + 1, 2 * (p + 1), 3 * (p + 1), 4 * (p + 1));
    for (int p = 1; p < 9; p += 2)
        CTS_NO_GRADIENT(inputs[p]);
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 25, NULL, NULL),
                DDISP_STATUS_INVALID_ARGUMENT, "26", "25");
}

const cts_test cts_pool_tests[] = {
    CTS_TEST(case_43_more_memory_than_there_is),
    CTS_TEST(case_43_every_allocation_of_a_launch_is_refused),
    CTS_TEST(freed_memory_is_reused_and_can_be_given_back),
    CTS_TEST(case_46_steps_with_backward_leave_nothing),
    CTS_TEST(case_46_steps_without_backward_leave_nothing),
    CTS_TEST(case_23_ten_tensors_of_rank_8_and_16_scalars),
    CTS_END,
};
