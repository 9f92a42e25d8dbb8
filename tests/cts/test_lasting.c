/*
 * test_lasting.c - what goes on for a while: memory that is given back while work still uses it
 * (case 42; CTS_ROUNDS=1000 for the whole of it), and thousands of launches with frozen inputs,
 * after which nothing has grown.
 */
#include "cts.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static ddisp_tensor *fresh(cts *t, int64_t n)
{
    ddisp_tensor *tensor = NULL;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &tensor));
    return tensor;
}

/* All n elements are the expected one, behind what the stream has queued. */
static void check_all(ddisp_tensor *tensor, int64_t n, float expected, ddisp_stream *stream,
                      float *values, int round, const char *what)
{
    CTS_OK(ddisp_tensor_read(tensor, values, (uint64_t)n * sizeof *values, stream));
    for (int64_t i = 0; i < n; i++)
        CTS_CHECK(values[i] == expected, "round %d: element %lld of %s is %g instead of %g", round,
                  (long long)i, what, (double)values[i], (double)expected);
}

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* y = a b on a, count times over on one stream. */
static void queue(ddisp_kernel *kernel, ddisp_tensor *a, ddisp_tensor *b, ddisp_tensor *y,
                  ddisp_stream *stream, int count)
{
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    for (int i = 0; i < count; i++)
        CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, stream));
}

/* Launches that keep the device at work for about two milliseconds. */
static int launches_of_two_ms(ddisp_kernel *kernel, ddisp_tensor *a, ddisp_tensor *b,
                              ddisp_tensor *y, ddisp_stream *stream)
{
    queue(kernel, a, b, y, stream, 4);
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    double start = now_ms();
    queue(kernel, a, b, y, stream, 16);
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    double count = 2 * 16 / (now_ms() - start + 1e-3);
    return count < 1 ? 1 : count > 2000 ? 2000 : (int)count;
}

static void case_42_freed_while_in_use(cts *t)
{
    enum { N = 1 << 16 };
    int rounds = cts_rounds(50);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_stream *first = cts_stream(t), *second = cts_stream(t);
    float *values = malloc(N * sizeof *values);
    ddisp_tensor *b = cts_own(t, fresh(t, N)), *y = cts_own(t, fresh(t, N));
    ddisp_tensor *a = cts_own(t, fresh(t, N));
    assert_non_null(values);
    CTS_OK(ddisp_tensor_fill(b, 3, NULL));
    CTS_OK(ddisp_tensor_fill(a, 1, NULL));
    int count = launches_of_two_ms(kernel, a, b, y, first);
    for (int round = 1; round <= rounds; round++) {
        ddisp_tensor *input = fresh(t, N);
        CTS_OK(ddisp_tensor_fill(input, round, first));
        queue(kernel, input, b, y, first, count);
        ddisp_tensor_release(input); /* the launches still read it */
        ddisp_tensor *other = fresh(t, N);
        CTS_OK(ddisp_tensor_fill(other, 9, second));
        check_all(other, N, 9, second, values, round, "what came after");
        check_all(y, N, (float)(3 * round), first, values, round, "the result");
        ddisp_tensor_release(other);
    }
    free(values);
}

/* The same of a temporary: scratch of a frozen input is given back as its launch is queued. */
static void case_42_scratch_is_given_back_behind_its_launch(cts *t)
{
    enum { N = 1 << 14, ROUNDS = 50 };
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_stream *first = cts_stream(t), *second = cts_stream(t);
    float *values = malloc(N * sizeof *values);
    ddisp_tensor *a = cts_vector(t, N, CTS_GRAD, NULL), *b = cts_vector(t, N, 0, NULL);
    ddisp_tensor *y = cts_vector(t, N, CTS_GRAD, NULL), *g = cts_own(t, fresh(t, N));
    ddisp_tensor *gradient = NULL;
    ddisp_launch_options options =
        cts_options(DDISP_POLICY_SCRATCH, DDISP_LAUNCH_KEEP_UPSTREAM, NULL);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    assert_non_null(values);
    CTS_OK(ddisp_tensor_fill(a, 2, NULL));
    CTS_OK(ddisp_tensor_fill(b, 3, NULL));
    CTS_OK(ddisp_tensor_fill(g, 1, NULL));
    CTS_OK(ddisp_tensor_set_grad(y, g));
    for (int round = 1; round <= ROUNDS; round++) {
        CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, first));
        ddisp_tensor *other = fresh(t, N);
        CTS_OK(ddisp_tensor_fill(other, 9, second));
        check_all(other, N, 9, second, values, round, "what came after");
        ddisp_tensor_release(other);
    }
    CTS_OK(ddisp_tensor_grad(a, &gradient));
    check_all(cts_own(t, gradient), N, 3 * ROUNDS, first, values, ROUNDS, "the gradient");
    assert_int_equal(cts_statistics(t).scratch_bytes_live, 0);
    free(values);
}

/* Resident bytes of this process; 0 where a tool that keeps what is freed is in the way. */
static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
#if defined(__SANITIZE_ADDRESS__)
    return 0;
#endif
    FILE *file = getenv("VK_INSTANCE_LAYERS") ? NULL : fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file)
        (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void ten_thousand_launches_leave_memory_flat(cts *t)
{
    enum { WARM = 1000, LAUNCHES = 10000 };
    static const ddisp_policy policies[] = {DDISP_POLICY_AUTO, DDISP_POLICY_SCRATCH};
    ddisp_kernel *kernels[2] = {cts_kernel(t, &cts_mul), cts_kernel(t, &cts_mul_opaque)};
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4), *b = CTS_VECTOR(t, 0, 5, 6, 7, 8);
    ddisp_tensor *y = cts_vector(t, 4, CTS_GRAD, NULL);
    ddisp_launch_options options = cts_options(0, 0, NULL);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    const int64_t four[1] = {4};
    ddisp_device_statistics before = DDISP_ZERO;
    uint64_t resident = 0;
    for (int i = 0; i < WARM + LAUNCHES; i++) {
        if (i % 500 == 0) /* how much is under way at once is not the question here */
            CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
        if (i == WARM) {
            before = cts_statistics(t);
            resident = resident_bytes();
        }
        ddisp_tensor *g = NULL; /* each step has an upstream of its own, which the launch takes */
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, four, 0, &g));
        CTS_OK(ddisp_tensor_fill(g, 1, NULL));
        CTS_OK(ddisp_tensor_set_grad(y, g));
        ddisp_tensor_release(g);
        options.policy = policies[i / 2 % 2];
        CTS_OK(ddisp_launch(kernels[i % 2], DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    }
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(after.gradient_bytes_live, before.gradient_bytes_live);
    assert_int_equal(after.sink_bytes_live, before.sink_bytes_live);
    assert_int_equal(after.scratch_bytes_live, 0);
    assert_int_equal(after.variants_built, before.variants_built);
    assert_int_equal(after.launches - before.launches, LAUNCHES);
    if (resident)
        CTS_CHECK(resident_bytes() < resident + (UINT64_C(4) << 20),
                  "the process grew from %llu to %llu bytes", (unsigned long long)resident,
                  (unsigned long long)resident_bytes());
    CTS_GRADIENT(a, 5.0 * (WARM + LAUNCHES), 6.0 * (WARM + LAUNCHES), 7.0 * (WARM + LAUNCHES),
                 8.0 * (WARM + LAUNCHES));
    CTS_NO_GRADIENT(b);
}

const cts_test cts_lasting_tests[] = {
    CTS_TEST(case_42_freed_while_in_use),
    CTS_TEST(case_42_scratch_is_given_back_behind_its_launch),
    CTS_TEST(ten_thousand_launches_leave_memory_flat),
    CTS_END,
};
