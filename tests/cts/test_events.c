/*
 * test_events.c - what docs/streams.md promises: the order of work on streams, time between events,
 * functions of the host that are called when work is done, and memory that is reused, limited and
 * given back.
 */
#include "cts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static ddisp_event *event(cts *t, uint64_t flags)
{
    ddisp_event *made = NULL;
    CTS_OK(ddisp_event_create(t->device, flags, &made));
    return made;
}

static ddisp_status forward(ddisp_kernel *kernel, ddisp_stream *stream, ddisp_tensor *x,
                            ddisp_tensor *y)
{
    const ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    return ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, stream);
}

/* ---- order */

/* Launches, fills and copies of one stream run as they were queued. */
static void work_of_a_stream_is_in_order(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 1, 1), *y = CTS_VECTOR(t, 0, 0, 0, 0);
    ddisp_tensor *z = CTS_VECTOR(t, 0, 0, 0, 0);
    ddisp_stream *stream = cts_stream(t);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    for (int i = 1; i <= 100; i++) {
        CTS_OK(ddisp_tensor_fill(x, i, stream));
        CTS_OK(forward(kernel, stream, x, y));
        CTS_OK(ddisp_tensor_copy(z, y, stream));
        CTS_OK(ddisp_tensor_fill(y, -1, stream));
    }
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(z, 10000, 10000, 10000);
    CTS_VALUES(y, -1, -1, -1);
}

/* Case 41: a stream that depends on another reads what that one wrote, not what was there; and a
 * reader behind the second one's event sees its result. */
static void case_41_streams_in_the_order_of_events(cts *t)
{
    enum { N = 20000 };
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear); /* y = 2 a + b */
    ddisp_stream *a = cts_stream(t), *b = cts_stream(t);
    ddisp_event *written = event(t, 0), *computed = event(t, 0);
    ddisp_tensor *x = cts_vector(t, N, 0, NULL), *zero = cts_vector(t, N, 0, NULL);
    ddisp_tensor *y = cts_vector(t, N, 0, NULL), *z = cts_vector(t, N, 0, NULL);
    const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(zero), DDISP_ARG(y)};
    double *values = malloc(N * sizeof *values);
    assert_non_null(values);
    CTS_OK(ddisp_tensor_fill(zero, 0, NULL));
    CTS_OK(ddisp_tensor_fill(x, 1, NULL));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    for (int round = 1; round <= 200; round++) {
        CTS_OK(ddisp_tensor_fill(x, round, a));
        CTS_OK(ddisp_event_record(written, a));
        CTS_OK(ddisp_stream_wait_event(b, written));
        CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, b));
        CTS_OK(ddisp_event_record(computed, b));
        CTS_OK(ddisp_stream_wait_event(a, computed));
        CTS_OK(ddisp_tensor_copy(z, y, a));
        CTS_OK(ddisp_tensor_fill(y, -1, a));
        CTS_OK(ddisp_event_record(written, a)); /* so that b's next write is behind this */
        CTS_OK(ddisp_stream_wait_event(b, written));
        if (round % 20 != 0)
            continue;
        CTS_OK(ddisp_stream_synchronize(a, DDISP_TIMEOUT_INFINITE));
        cts_read(z, values, N);
        for (int i = 0; i < N; i++)
            CTS_CHECK(values[i] == 2 * round, "round %d: element %d is %g", round, i, values[i]);
    }
    free(values);
    ddisp_event_release(written);
    ddisp_event_release(computed);
}

/* What the library makes (here a gradient) is ordered by itself on whatever streams it is used. */
static void memory_of_the_library_needs_no_events(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_stream *streams[2] = {cts_stream(t), cts_stream(t)};
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    for (int i = 0; i < 50; i++) {
        int64_t n = 1000;
        ddisp_tensor *x = NULL, *y = NULL;
        float values[1000];
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &x));
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &y));
        CTS_OK(ddisp_tensor_fill(x, i, streams[i % 2]));
        CTS_OK(forward(kernel, streams[i % 2], x, y));
        ddisp_tensor_release(x); /* its memory is used again behind the launch */
        CTS_OK(ddisp_tensor_read(y, values, sizeof values, streams[i % 2]));
        ddisp_tensor_release(y);
        assert_true(values[0] == (float)(i * i) && values[999] == (float)(i * i));
    }
}

/* ---- time */

static void time_between_two_events(cts *t)
{
    ddisp_event *begin = NULL, *end = NULL;
    ddisp_status status = ddisp_event_create(t->device, DDISP_EVENT_TIMED, &begin);
    if (status == DDISP_STATUS_UNSUPPORTED)
        CTS_SKIP(t, "%s tells no time", t->info.spec);
    CTS_OK(status);
    end = event(t, DDISP_EVENT_TIMED);
    ddisp_event *plain = event(t, 0);
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    ddisp_stream *first = cts_stream(t), *second = cts_stream(t);
    uint64_t ns = UINT64_MAX;
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_FAILS(ddisp_event_elapsed(begin, end, &ns), DDISP_STATUS_INVALID_ARGUMENT,
              "never recorded");
    CTS_OK(ddisp_event_record(begin, first));
    CTS_OK(forward(kernel, first, x, y));
    CTS_OK(ddisp_event_record(plain, first));
    CTS_OK(ddisp_stream_wait_event(second, plain));
    CTS_OK(forward(kernel, second, x, y));
    CTS_OK(ddisp_event_record(end, second));
    status = ddisp_event_elapsed(begin, end, &ns); /* early: NOT_READY, unless all is done */
    assert_true(status == DDISP_STATUS_OK || status == DDISP_STATUS_NOT_READY);
    CTS_OK(ddisp_event_synchronize(end, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_event_elapsed(begin, end, &ns));
    assert_true(ns < UINT64_C(3600000000000));
    CTS_OK(ddisp_event_elapsed(end, end, &ns));
    assert_int_equal(ns, 0);
    CTS_FAILS(ddisp_event_elapsed(begin, plain, &ns), DDISP_STATUS_INVALID_ARGUMENT,
              "DDISP_EVENT_TIMED");
    ddisp_event_release(begin);
    ddisp_event_release(end);
    ddisp_event_release(plain);
}

/* ---- functions of the host */

struct called {
    atomic_int count;
    ddisp_event *event;
    ddisp_status status, asked;
    pthread_t thread;
};

static void note_call(void *user_data, ddisp_status status)
{
    struct called *called = user_data;
    called->status = status;
    called->asked = ddisp_event_query(called->event); /* it may call the library */
    called->thread = pthread_self();
    atomic_fetch_add(&called->count, 1);
}

static void function_is_called_when_work_is_done(cts *t)
{
    enum { N = 20000, CALLS = 20 };
    static struct called called[CALLS];
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = cts_vector(t, N, 0, NULL), *y = cts_vector(t, N, 0, NULL);
    ddisp_stream *stream = cts_stream(t);
    memset(called, 0, sizeof called);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    for (int i = 0; i < CALLS; i++) {
        called[i].event = event(t, 0);
        CTS_OK(forward(kernel, stream, x, y));
        CTS_OK(ddisp_event_record(called[i].event, i % 2 ? NULL : stream));
        CTS_OK(ddisp_event_notify(called[i].event, note_call, &called[i]));
    }
    for (int i = 0; i < CALLS; i++) {
        while (atomic_load(&called[i].count) == 0)
            (void)sched_yield();
        assert_int_equal(called[i].status, DDISP_STATUS_OK);
        assert_int_equal(called[i].asked, DDISP_STATUS_OK);
        assert_false(pthread_equal(called[i].thread, pthread_self()));
        assert_true(pthread_equal(called[i].thread, called[0].thread));
    }
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&called[i].count), 1);
        ddisp_event_release(called[i].event);
    }
}

/* ---- captures */

struct ending {
    ddisp_stream *stream;
    ddisp_graph *graph;
    ddisp_status status;
};

static void *end_elsewhere(void *argument)
{
    struct ending *ending = argument;
    ending->status = ddisp_stream_end_capture(ending->stream, &ending->graph);
    return NULL;
}

static void capture_goes_on_when_another_thread_tries_to_end_it(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    ddisp_tensor *z = cts_vector(t, 3, 0, NULL);
    struct ending ending = {.stream = cts_stream(t)};
    pthread_t thread;
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_status status = ddisp_stream_begin_capture(ending.stream);
    if (status == DDISP_STATUS_UNSUPPORTED)
        CTS_SKIP(t, "%s cannot record work", t->info.spec);
    CTS_OK(status);
    CTS_OK(forward(kernel, ending.stream, x, y));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &ending), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ending.status, DDISP_STATUS_INVALID_ARGUMENT);
    assert_null(ending.graph);
    CTS_OK(forward(kernel, ending.stream, y, z)); /* is recorded too */
    CTS_OK(ddisp_stream_end_capture(ending.stream, &ending.graph));
    assert_int_equal(ddisp_graph_launch_count(ending.graph), 2);
    CTS_OK(ddisp_graph_launch(ending.graph, ending.stream));
    CTS_OK(ddisp_stream_synchronize(ending.stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(z, 1, 16, 81);
    ddisp_graph_release(ending.graph);
}

/* ---- threads, contexts, processes */

struct user {
    pthread_t thread;
    ddisp_device *device;
    ddisp_kernel *kernel;
    float factor, found;
    ddisp_status status;
};

/* A thousand launches on a stream of its own. */
static void *use_device(void *argument)
{
    struct user *u = argument;
    ddisp_stream *stream = NULL;
    ddisp_tensor *x = NULL, *y = NULL;
    float values[64] = {0};
    const int64_t n = 64;
    ddisp_status status = ddisp_stream_create(u->device, 0, &stream);
    if (!status)
        status = ddisp_tensor_create(u->device, DDISP_DTYPE_F32, 1, &n, 0, &x);
    if (!status)
        status = ddisp_tensor_create(u->device, DDISP_DTYPE_F32, 1, &n, 0, &y);
    if (!status)
        status = ddisp_tensor_fill(x, u->factor, stream);
    for (int i = 0; i < 1000 && !status; i++)
        status = forward(u->kernel, stream, x, y);
    if (!status)
        status = ddisp_tensor_read(y, values, sizeof values, stream);
    u->found = values[63];
    u->status = status;
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    return NULL;
}

/* Case 38: eight threads and two contexts on one device. */
static void case_38_eight_threads_in_two_contexts(cts *t)
{
    enum { THREADS = 8 };
    struct user users[THREADS];
    ddisp_context *other = NULL;
    ddisp_device *device = NULL;
    ddisp_kernel *kernels[2] = {cts_kernel(t, &cts_square), NULL};
    CTS_OK(ddisp_context_create(NULL, &other));
    ddisp_status status = ddisp_device_open(other, t->info.spec, &device);
    cts second = {.context = other, .device = device, .own = t->own};
    if (!status)
        kernels[1] = cts_kernel(&second, &cts_square);
    for (int i = 0; i < THREADS && !status; i++) {
        users[i] = (struct user){.device = i % 2 ? device : t->device,
                                 .kernel = kernels[i % 2],
                                 .factor = (float)(i + 1)};
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_device, &users[i]), 0);
    }
    for (int i = 0; i < THREADS && !status; i++)
        (void)pthread_join(users[i].thread, NULL);
    ddisp_device_release(device);
    ddisp_context_release(other); /* the fixture's kernel holds it */
    CTS_OK(status);
    for (int i = 0; i < THREADS; i++)
        CTS_CHECK(!users[i].status && users[i].found == users[i].factor * users[i].factor,
                  "thread %d: %s, %g", i, ddisp_status_name(users[i].status),
                  (double)users[i].found);
}

/* In a forked child every call says so at once, and the parent goes on. */
static int forked_child(cts *t, ddisp_kernel *kernel, ddisp_tensor *x, ddisp_tensor *y,
                        ddisp_event *done)
{
    float values[3];
    ddisp_tensor *made = NULL;
    const int64_t n = 3;
    bool told =
        forward(kernel, NULL, x, y) == DDISP_STATUS_FORKED &&
        ddisp_tensor_read(y, values, sizeof values, NULL) == DDISP_STATUS_FORKED &&
        ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &made) == DDISP_STATUS_FORKED &&
        ddisp_event_query(done) == DDISP_STATUS_FORKED &&
        ddisp_event_notify(done, note_call, NULL) == DDISP_STATUS_FORKED &&
        ddisp_device_set_memory_limit(t->device, 1) == DDISP_STATUS_FORKED &&
        ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE) == DDISP_STATUS_FORKED;
    return told ? 0 : 1;
}

static void case_49_forked_child_is_told_at_once(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    struct called called = {.event = event(t, 0)};
    int result = 0;
    CTS_FORWARD(kernel, x, y);
    CTS_OK(ddisp_event_record(called.event, NULL));
    CTS_OK(ddisp_event_notify(called.event, note_call, &called)); /* its thread is there now */
    pid_t process = fork();
    if (process == 0) {
        (void)alarm(20); /* a hang ends the child */
        _exit(forked_child(t, kernel, x, y, called.event));
    }
    assert_true(process > 0);
    assert_int_equal(waitpid(process, &result, 0), process);
    CTS_CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 0, "the child ended with 0x%x",
              (unsigned)result);
    while (atomic_load(&called.count) == 0)
        (void)sched_yield();
    CTS_FORWARD(kernel, y, x);
    CTS_VALUES(x, 1, 16, 81);
    ddisp_event_release(called.event);
}

const cts_test cts_event_tests[] = {
    CTS_TEST(work_of_a_stream_is_in_order),
    CTS_TEST(case_41_streams_in_the_order_of_events),
    CTS_TEST(memory_of_the_library_needs_no_events),
    CTS_TEST(time_between_two_events),
    CTS_TEST(function_is_called_when_work_is_done),
    CTS_TEST(capture_goes_on_when_another_thread_tries_to_end_it),
    CTS_TEST(case_38_eight_threads_in_two_contexts),
    CTS_TEST(case_49_forked_child_is_told_at_once),
    CTS_END,
};
