/*
 * test_threads.c - many threads at once: on one leaf, on one cold kernel, and fresh threads that
 * only launch, free and copy. Threads note what they find; the test's own thread judges.
 */
#include "cts.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, N = 300 };

/* Launches of each thread on a shared leaf: DDISP_CTS_LAUNCHES, or few. At 10 000 the sum is still
 * a whole number that f32 has. */
static int rounds(void)
{
    const char *text = getenv("DDISP_CTS_LAUNCHES");
    int count = text ? atoi(text) : 0;
    return count > 0 && count <= 400000 ? count : 200;
}

struct worker {
    pthread_t thread;
    cts *t;
    ddisp_kernel *kernel;
    ddisp_tensor *x, *c; /* shared; c: this thread's factor */
    int rounds;
    ddisp_status status;
    char message[256];
    const char *where;
    float first; /* what the thread read */
};

/* Notes the first failure of a thread. */
static bool went_wrong(struct worker *w, ddisp_status status, const char *where)
{
    if (!status)
        return false;
    if (!w->status) {
        w->status = status;
        w->where = where;
        (void)ddisp_last_error(w->message, sizeof w->message, NULL);
    }
    return true;
}

static void run_all(struct worker *workers, int count, void *(*function)(void *))
{
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    for (int i = 0; i < count; i++)
        (void)pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < count; i++)
        CTS_CHECK(!workers[i].status, "thread %d: %s: %s: %s", i, workers[i].where,
                  ddisp_status_name(workers[i].status), workers[i].message);
}

/* y = x c, each thread with its own y, c and stream; all add to the gradient of x. */
static void *backward_on_shared_leaf(void *argument)
{
    struct worker *w = argument;
    ddisp_stream *stream = NULL;
    ddisp_tensor *y = NULL, *g = NULL;
    int64_t n = N;
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    bool bad =
        went_wrong(w, ddisp_stream_create(w->t->device, 0, &stream), "stream") ||
        went_wrong(w, ddisp_tensor_create(w->t->device, DDISP_DTYPE_F32, 1, &n, CTS_GRAD, &y),
                   "create y") ||
        went_wrong(w, ddisp_tensor_create(w->t->device, DDISP_DTYPE_F32, 1, &n, 0, &g),
                   "create g") ||
        went_wrong(w, ddisp_tensor_write(g, ones, sizeof ones, stream), "write g");
    for (int i = 0; i < w->rounds && !bad; i++) {
        ddisp_arg args[3] = {DDISP_ARG(w->x), DDISP_ARG(w->c), DDISP_ARG(y)};
        bad = went_wrong(w, ddisp_tensor_set_grad(y, g), "set_grad") ||
              went_wrong(w, ddisp_launch(w->kernel, DDISP_MODE_BACKWARD, args, 3, NULL, stream),
                         "launch");
    }
    if (stream)
        (void)went_wrong(w, ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE), "wait");
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
    ddisp_stream_release(stream);
    return NULL;
}

static void threads_share_a_leaf(cts *t)
{
    struct worker workers[THREADS];
    const int count = rounds();
    memset(workers, 0, sizeof workers);
    float data[N];
    double values[N];
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    memset(data, 0, sizeof data);
    ddisp_tensor *x = cts_vector(t, N, CTS_GRAD, data), *gradient = NULL;
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < N; k++)
            data[k] = (float)(i + 1);
        workers[i] =
            (struct worker){.t = t, .kernel = kernel, .x = x, .c = cts_vector(t, N, 0, data)};
        workers[i].rounds = count;
    }
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_device_statistics before = cts_statistics(t);
    run_all(workers, THREADS, backward_on_shared_leaf);
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.gradient_bytes_live, before.gradient_bytes_live + N * sizeof(float));
    assert_int_equal(after.launches, before.launches + THREADS * (uint64_t)count);
    CTS_OK(ddisp_tensor_grad(x, &gradient));
    cts_read(cts_own(t, gradient), values, N);
    for (int i = 0; i < N; i++) /* count times 1 + 2 + ... + 8 */
        CTS_CHECK(values[i] == count * 36, "element %d is %g instead of %d", i, values[i],
                  count * 36);
}

/* A thread that has never called the library before: launches, copies, frees. */
static void *fresh_thread(void *argument)
{
    struct worker *w = argument;
    ddisp_tensor *y = NULL;
    float values[N];
    int64_t n = N;
    ddisp_arg args[3] = {DDISP_ARG(w->x), DDISP_ARG(w->c)};
    bool bad =
        went_wrong(w, ddisp_tensor_create(w->t->device, DDISP_DTYPE_F32, 1, &n, 0, &y), "create");
    args[2] = (ddisp_arg)DDISP_ARG(y);
    if (!bad &&
        !went_wrong(w, ddisp_launch(w->kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL),
                    "launch") &&
        !went_wrong(w, ddisp_tensor_read(y, values, sizeof values, NULL), "read"))
        w->first = values[0];
    ddisp_tensor_release(y);
    return NULL;
}

/* The device's own stream is used by one thread at a time, so one fresh thread after another. */
static void case_35_fresh_threads(cts *t)
{
    float data[N];
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    for (int k = 0; k < N; k++)
        data[k] = 3;
    ddisp_tensor *x = cts_vector(t, N, 0, data), *y = cts_vector(t, N, 0, NULL);
    CTS_FORWARD(kernel, x, x, y); /* compiled here */
    for (int i = 0; i < THREADS; i++) {
        struct worker w = {.t = t, .kernel = kernel, .x = x, .c = x};
        run_all(&w, 1, fresh_thread);
        assert_true(w.first == 9);
    }
}

static void *launch_on_own_stream(void *argument)
{
    struct worker *w = argument;
    ddisp_stream *stream = NULL;
    ddisp_tensor *y = NULL;
    float values[N];
    int64_t n = N;
    bool bad =
        went_wrong(w, ddisp_stream_create(w->t->device, 0, &stream), "stream") ||
        went_wrong(w, ddisp_tensor_create(w->t->device, DDISP_DTYPE_F32, 1, &n, 0, &y), "create");
    ddisp_arg args[3] = {DDISP_ARG(w->x), DDISP_ARG(w->c), DDISP_ARG(y)};
    if (!bad &&
        !went_wrong(w, ddisp_launch(w->kernel, DDISP_MODE_FORWARD, args, 3, NULL, stream),
                    "launch") &&
        !went_wrong(w, ddisp_tensor_read(y, values, sizeof values, stream), "read"))
        w->first = values[N - 1];
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    return NULL;
}

/* Many threads ask for one cold kernel: it is built once, and none launches before it is there. */
static void case_39_cold_kernel_is_built_once(cts *t)
{
    enum { MANY = 32 };
    struct worker workers[MANY];
    float data[N];
    for (int k = 0; k < N; k++)
        data[k] = 5;
    ddisp_tensor *x = cts_vector(t, N, 0, data);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    uint64_t built = cts_statistics(t).variants_built;
    for (int i = 0; i < MANY; i++)
        workers[i] = (struct worker){.t = t, .kernel = kernel, .x = x, .c = x};
    run_all(workers, MANY, launch_on_own_stream);
    for (int i = 0; i < MANY; i++)
        assert_true(workers[i].first == 25);
    assert_int_equal(cts_statistics(t).variants_built, built + 1);
}

/* Errors belong to the thread that made them. */
static void *fail_here(void *argument)
{
    struct worker *w = argument;
    if (ddisp_buffer_create(NULL, 1, NULL) != DDISP_STATUS_INVALID_ARGUMENT)
        (void)went_wrong(w, DDISP_STATUS_INTERNAL, "no failure");
    return NULL;
}

static void last_error_belongs_to_its_thread(cts *t)
{
    struct worker w = {.t = t};
    ddisp_device *device = NULL;
    char before[256], after[256];
    CTS_FAILS(ddisp_device_open(t->context, "nonesuch", &device), DDISP_STATUS_NOT_FOUND,
              "nonesuch");
    CTS_OK(ddisp_last_error(before, sizeof before, NULL));
    run_all(&w, 1, fail_here);
    CTS_OK(ddisp_device_status(t->device)); /* success leaves it in place too */
    CTS_OK(ddisp_last_error(after, sizeof after, NULL));
    assert_string_equal(before, after);
}

const cts_test cts_thread_tests[] = {
    CTS_TEST(threads_share_a_leaf),
    CTS_TEST(case_35_fresh_threads),
    CTS_TEST(case_39_cold_kernel_is_built_once),
    CTS_TEST(last_error_belongs_to_its_thread),
    CTS_END,
};
