/*
 * test_sink.c - the sink: what frozen inputs of opaque code write into. It costs one small block
 * however many and large they are, stays where it is while it grows, can be given back, and what
 * lands in it shows nowhere.
 */
#include "cts.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

#define NEEDS_SINK(t)                                                                              \
    do {                                                                                           \
        if (!(t)->info.sink[0] || strcmp((t)->info.sink, "none") == 0)                             \
            CTS_SKIP(t, "the device has no sink");                                                 \
    } while (0)

/* y = a b of n elements with a's gradient wanted, b frozen; a and b are counted up from 1. */
typedef struct job {
    ddisp_tensor *a, *b, *y;
    int64_t n;
} job;

static job make_job(cts *t, int64_t n, float upstream)
{
    job made = {.n = n};
    float *data = malloc((size_t)n * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i % 1000 + 1);
    made.a = cts_vector(t, n, CTS_GRAD, data);
    made.b = cts_vector(t, n, 0, data);
    for (int64_t i = 0; i < n; i++)
        data[i] = upstream;
    ddisp_tensor *g = cts_vector(t, n, 0, data);
    free(data);
    made.y = cts_vector(t, n, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_set_grad(made.y, g));
    return made;
}

static ddisp_status backward(ddisp_kernel *kernel, const job *it, ddisp_report *report,
                             ddisp_stream *stream)
{
    ddisp_launch_options options =
        cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_KEEP_UPSTREAM, report);
    const ddisp_arg args[3] = {DDISP_ARG(it->a), DDISP_ARG(it->b), DDISP_ARG(it->y)};
    return ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, stream);
}

/* The gradient of a is times b; nothing of b's. */
static void check_job(const job *it, double times)
{
    ddisp_tensor *gradient = NULL;
    double *values = malloc((size_t)it->n * sizeof *values);
    assert_non_null(values);
    CTS_OK(ddisp_tensor_grad(it->a, &gradient));
    cts_read(gradient, values, (size_t)it->n);
    ddisp_tensor_release(gradient);
    int64_t wrong = -1;
    for (int64_t i = it->n; i-- > 0;)
        if (!(values[i] == times * (double)(i % 1000 + 1)))
            wrong = i;
    double value = wrong < 0 ? 0 : values[wrong];
    free(values);
    CTS_CHECK(wrong < 0, "element %lld of the gradient is %g", (long long)wrong, value);
    CTS_NO_GRADIENT(it->b);
}

static void auto_takes_the_sink_for_opaque_code(cts *t)
{
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_report *report = cts_report(t);
    job it = make_job(t, 1000, 1);
    CTS_OK(backward(kernel, &it, report, NULL));
    assert_int_equal(cts_slot(report, 0, true).backing, DDISP_BACKING_REAL);
    assert_int_equal(cts_slot(report, 1, true).backing, DDISP_BACKING_SINK);
    check_job(&it, 1);
    ddisp_device_statistics now = cts_statistics(t);
    assert_int_equal(now.scratch_bytes_live, 0);
    assert_true(now.sink_bytes_live > 0 || strcmp(t->info.sink, "unbound") == 0);
}

/* Frozen inputs of 16 MB cost no more than the block; a second one nothing. */
static void memory_does_not_grow_with_the_input(cts *t)
{
    enum { N = 4000000 }; /* fewer than 65535 groups of 64 */
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    int64_t n = N;
    ddisp_tensor *tensors[3];
    CTS_OK(ddisp_device_trim(t->device));
    for (int i = 0; i < 3; i++) {
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, i == 1 ? 0 : CTS_GRAD,
                                   &tensors[i]));
        (void)cts_own(t, tensors[i]);
        CTS_OK(ddisp_tensor_fill(tensors[i], 3, NULL));
    }
    ddisp_tensor *upstream = NULL;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &upstream));
    (void)cts_own(t, upstream);
    CTS_OK(ddisp_tensor_fill(upstream, 1, NULL));
    CTS_OK(ddisp_tensor_set_grad(tensors[2], upstream));
    job it = {tensors[0], tensors[1], tensors[2], n};
    ddisp_device_statistics before = cts_statistics(t);
    CTS_OK(backward(kernel, &it, NULL, NULL));
    ddisp_device_statistics after = cts_statistics(t);
    uint64_t grown = after.bytes_live - before.bytes_live - (uint64_t)n * 4; /* a's gradient */
    CTS_CHECK(grown <= 8 * MIB, "a frozen input of 16 MB costs %llu bytes",
              (unsigned long long)grown);
    CTS_OK(backward(kernel, &it, NULL, NULL));
    assert_int_equal(cts_statistics(t).bytes_live, after.bytes_live);
    assert_int_equal(cts_statistics(t).scratch_bytes_live, 0);
    double last = 0;
    ddisp_tensor *gradient = NULL, *end = NULL;
    int64_t one = 1;
    CTS_OK(ddisp_tensor_grad(it.a, &gradient));
    (void)cts_own(t, gradient);
    CTS_OK(ddisp_tensor_as_strided(gradient, 1, &one, NULL, n - 1, &end));
    cts_read(cts_own(t, end), &last, 1);
    assert_true(last == 6);
}

static void eight_frozen_inputs_share_it(cts *t)
{
    enum { INPUTS = 8 };
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    job jobs[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        jobs[i] = make_job(t, 20000, (float)(i + 1));
    CTS_OK(backward(kernel, &jobs[0], NULL, NULL));
    uint64_t sink_bytes = cts_statistics(t).sink_bytes_live;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < INPUTS; i++)
            CTS_OK(backward(kernel, &jobs[i], NULL, cts_stream(t)));
    for (int i = 0; i < INPUTS; i++) {
        CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
        CTS_FAILS(ddisp_tensor_grad(jobs[i].b, &(ddisp_tensor *){NULL}), DDISP_STATUS_NO_GRADIENT,
                  "gradient");
    }
    assert_int_equal(cts_statistics(t).sink_bytes_live, sink_bytes);
}

/* Work that was queued with a short sink is still under way while it grows. */
static void growth_does_not_disturb_work_under_way(cts *t)
{
    static const int64_t sizes[] = {100, 300000, 700000, 50, 1500000};
    enum { JOBS = sizeof sizes / sizeof sizes[0] };
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    job jobs[JOBS];
    for (int i = 0; i < JOBS; i++)
        jobs[i] = make_job(t, sizes[i], 2);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_trim(t->device));
    for (int i = 0; i < JOBS; i++)
        for (int k = 0; k <= i; k++)
            CTS_OK(backward(kernel, &jobs[k], NULL, NULL));
    for (int i = 0; i < JOBS; i++)
        check_job(&jobs[i], 2 * (JOBS - i));
}

/* A recorded launch has the sink's address in it. */
static void growth_leaves_recorded_launches_right(cts *t)
{
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    job small = make_job(t, 1000, 1), large = make_job(t, 1500000, 1);
    ddisp_stream *stream = cts_stream(t);
    ddisp_graph *graph = NULL;
    CTS_OK(backward(kernel, &small, NULL, NULL)); /* makes the gradient and the sink */
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_status status = ddisp_stream_begin_capture(stream);
    if (status == DDISP_STATUS_UNSUPPORTED)
        CTS_SKIP(t, "%s cannot record work", t->info.spec);
    CTS_OK(status);
    CTS_OK(backward(kernel, &small, NULL, stream));
    CTS_OK(ddisp_stream_end_capture(stream, &graph));
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(backward(kernel, &large, NULL, NULL));
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    ddisp_graph_release(graph);
    check_job(&small, 3);
    check_job(&large, 1);
}

static void trim_gives_it_back_and_it_comes_again(cts *t)
{
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    job it = make_job(t, 10000, 1);
    for (int round = 1; round <= 3; round++) {
        CTS_OK(backward(kernel, &it, NULL, round == 2 ? cts_stream(t) : NULL));
        CTS_OK(ddisp_device_trim(t->device)); /* waits for the work that uses it */
        assert_int_equal(cts_statistics(t).sink_bytes_live, 0);
        check_job(&it, round);
    }
    CTS_OK(ddisp_device_trim(t->device)); /* nothing there */
}

/* NaN and infinity go into the sink again and again; sums and zeros elsewhere know nothing of it.
 */
static void content_shows_nowhere(cts *t)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_kernel *pair = cts_kernel(t, &cts_pair_opaque);
    job spoiled[4], good = make_job(t, 5000, 1);
    for (int i = 0; i < 4; i++)
        spoiled[i] = make_job(t, 5000, bad[i]);
    for (int round = 1; round <= 4; round++) {
        for (int i = 0; i < 4; i++)
            CTS_OK(backward(kernel, &spoiled[i], NULL, NULL));
        CTS_OK(backward(kernel, &good, NULL, NULL));
        check_job(&good, round);
    }
    /* an input whose gradient is made now, and an upstream that is absent and counts as zero */
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *p = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *q = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_launch_options options = cts_options(0, DDISP_LAUNCH_ZERO_UPSTREAM, NULL);
    CTS_OK(ddisp_tensor_set_grad(p, CTS_VECTOR(t, 0, 1, 10, 100)));
    CTS_OK(CTS_BACKWARD(pair, &options, x, p, q));
    CTS_GRADIENT(x, 2, 20, 200);
    CTS_OK(ddisp_tensor_set_requires_grad(good.b, 1)); /* and one that was frozen */
    CTS_OK(backward(kernel, &good, NULL, NULL));
    ddisp_tensor *gradient = NULL;
    double *values = malloc(5000 * sizeof *values);
    assert_non_null(values);
    CTS_OK(ddisp_tensor_grad(good.b, &gradient));
    cts_read(cts_own(t, gradient), values, 5000);
    int wrong = 0;
    for (int i = 0; i < 5000; i++)
        wrong += values[i] != i % 1000 + 1;
    free(values);
    assert_int_equal(wrong, 0);
}

/* ---- several threads */

struct worker {
    pthread_t thread;
    cts *t;
    ddisp_kernel *kernel;
    ddisp_stream *stream;
    job jobs[6];
    ddisp_status status;
    char message[256];
};

static void *grow_and_launch(void *argument)
{
    struct worker *w = argument;
    for (int round = 0; round < 3 && !w->status; round++)
        for (int i = 0; i < 6 && !w->status; i++)
            w->status = backward(w->kernel, &w->jobs[i], NULL, w->stream);
    if (!w->status)
        w->status = ddisp_stream_synchronize(w->stream, DDISP_TIMEOUT_INFINITE);
    if (w->status)
        (void)ddisp_last_error(w->message, sizeof w->message, NULL);
    return NULL;
}

static void threads_grow_it_together(cts *t)
{
    enum { THREADS = 4 };
    struct worker workers[THREADS];
    NEEDS_SINK(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < THREADS; i++) {
        workers[i].t = t;
        workers[i].kernel = kernel;
        workers[i].stream = cts_stream(t);
        for (int k = 0; k < 6; k++)
            workers[i].jobs[k] = make_job(t, 1000 + (k * THREADS + i) * 40000, 1);
    }
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_trim(t->device));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, grow_and_launch, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        CTS_CHECK(!workers[i].status, "thread %d: %s: %s", i, ddisp_status_name(workers[i].status),
                  workers[i].message);
        for (int k = 0; k < 6; k++)
            check_job(&workers[i].jobs[k], 3);
    }
}

const cts_test cts_sink_tests[] = {
    CTS_TEST(auto_takes_the_sink_for_opaque_code),
    CTS_TEST(memory_does_not_grow_with_the_input),
    CTS_TEST(eight_frozen_inputs_share_it),
    CTS_TEST(growth_does_not_disturb_work_under_way),
    CTS_TEST(growth_leaves_recorded_launches_right),
    CTS_TEST(trim_gives_it_back_and_it_comes_again),
    CTS_TEST(content_shows_nowhere),
    CTS_TEST(threads_grow_it_together),
    CTS_END,
};
