/*
 * test_events.c - time between events, functions of the host that are called when work is done, and
 * captures that cannot be ended, on the fake backend (fake.h). The device's own stream is s1.
 */
#include "check.h"

#include "fake.h"

#include <stdatomic.h>
#include <time.h>

/* ---- time */

static void elapsed_time_is_between_two_timed_marks(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_event *begin, *end;
    uint64_t ns = 7;
    assert_ok(ddisp_event_create(fixture->device, DDISP_EVENT_TIMED, &begin));
    assert_ok(ddisp_event_create(fixture->device, DDISP_EVENT_TIMED, &end));
    assert_ok(ddisp_event_record(begin, fixture->second));
    for (int i = 0; i < 3; i++)
        assert_ok(ddisp_event_record(end, fixture->second)); /* the last one counts */
    assert_ok(ddisp_event_elapsed(begin, end, &ns));
    assert_int_equal(ns, 3000);
    assert_ok(ddisp_event_elapsed(begin, begin, &ns));
    assert_int_equal(ns, 0);
    ns = 7;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "stream_elapsed",
                 ddisp_event_elapsed(end, begin, &ns));
    fake.holds = true;
    assert_ok(ddisp_event_record(end, fixture->third));
    assert_int_equal(ddisp_event_elapsed(begin, end, &ns), DDISP_STATUS_NOT_READY);
    assert_int_equal(ns, 7);
    fake_complete();
    assert_ok(ddisp_event_elapsed(end, end, &ns));
    ddisp_event_release(begin);
    ddisp_event_release(end);
}

static void events_without_time_are_refused_by_name(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_event *plain, *timed, *elsewhere;
    ddisp_device *other;
    uint64_t ns = 7;
    assert_ok(ddisp_event_create(fixture->device, 0, &plain));
    assert_ok(ddisp_event_create(fixture->device, DDISP_EVENT_TIMED, &timed));
    assert_ok(ddisp_device_open(fixture->context, "fake:1", &other));
    assert_ok(ddisp_event_create(other, DDISP_EVENT_TIMED, &elsewhere));
    assert_ok(ddisp_event_record(plain, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event 'begin' was never recorded",
                 ddisp_event_elapsed(timed, timed, &ns));
    assert_ok(ddisp_event_record(timed, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event 'end' tells no time",
                 ddisp_event_elapsed(timed, plain, &ns));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event 'begin' tells no time",
                 ddisp_event_elapsed(plain, timed, &ns));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_ns", ddisp_event_elapsed(timed, timed, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event is NULL",
                 ddisp_event_elapsed(timed, NULL, &ns));
    assert_fails(DDISP_STATUS_DEVICE_MISMATCH, "fake:1",
                 ddisp_event_elapsed(timed, elsewhere, &ns));
    assert_int_equal(ns, 7);
    ddisp_event_release(plain);
    ddisp_event_release(timed);
    ddisp_event_release(elsewhere);
    ddisp_device_release(other);
}

/* ---- functions of the host */

struct called {
    atomic_int count;
    ddisp_status status;
    pthread_t thread;
    ddisp_context *to_release;
    atomic_int *order; /* counts up; this one's turn is noted */
    int turn;
};

static void note_call(void *user_data, ddisp_status status)
{
    struct called *called = user_data;
    called->status = status;
    called->thread = pthread_self();
    if (called->order)
        called->turn = atomic_fetch_add(called->order, 1);
    if (called->to_release)
        ddisp_context_release(called->to_release);
    atomic_fetch_add(&called->count, 1);
}

/* Waits for a call that must come. */
static void await(struct called *called)
{
    const struct timespec pause = {.tv_nsec = 100000};
    while (atomic_load(&called->count) == 0)
        (void)nanosleep(&pause, NULL);
}

static void function_is_called_once_on_a_thread_of_its_own(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called = {.count = 0}, never = {.count = 0};
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    assert_ok(ddisp_event_record(event, fixture->second));
    assert_ok(ddisp_event_notify(event, note_call, &called));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "function is NULL",
                 ddisp_event_notify(event, NULL, &never));
    ddisp_event_release(event); /* the stream stays until the function was called */
    assert_int_equal(atomic_load(&called.count), 0);
    fake_complete();
    await(&called);
    assert_int_equal(called.status, DDISP_STATUS_OK);
    assert_false(pthread_equal(called.thread, pthread_self()));
    assert_int_equal(atomic_load(&called.count), 1);
}

static void functions_of_one_stream_are_called_in_order(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called[16];
    atomic_int order = 0;
    ddisp_event *event;
    memset(called, 0, sizeof called);
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    for (int i = 0; i < 16; i++) {
        called[i].order = &order;
        assert_ok(ddisp_event_record(event, fixture->third));
        assert_ok(ddisp_event_notify(event, note_call, &called[i]));
    }
    fake_complete();
    for (int i = 0; i < 16; i++) {
        await(&called[i]);
        assert_int_equal(called[i].turn, i);
        assert_true(pthread_equal(called[i].thread, called[0].thread));
    }
    ddisp_event_release(event);
}

static void event_that_was_never_recorded_calls_at_once(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called = {.count = 0};
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    assert_ok(ddisp_event_notify(event, note_call, &called));
    await(&called);
    assert_int_equal(called.status, DDISP_STATUS_OK);
    ddisp_event_release(event);
}

static void function_hears_of_a_lost_device(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called = {.count = 0};
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    assert_ok(ddisp_event_record(event, fixture->second));
    assert_ok(ddisp_event_notify(event, note_call, &called));
    fake.fail_status = DDISP_STATUS_DEVICE_LOST;
    fake.fails = "stream_query";
    await(&called);
    fake.fails = NULL;
    assert_int_equal(called.status, DDISP_STATUS_DEVICE_LOST);
    assert_fails(DDISP_STATUS_DEVICE_LOST, "stream_query",
                 ddisp_event_notify(event, note_call, &called));
    ddisp_event_release(event);
}

/* Everything else was given back: the thread ends what is left, and itself. */
static void last_reference_may_go_inside_a_function(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called = {.count = 0};
    ddisp_event *event;
    const struct timespec pause = {.tv_nsec = 100000};
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    assert_ok(ddisp_event_record(event, fixture->second));
    called.to_release = fixture->context;
    assert_ok(ddisp_event_notify(event, note_call, &called));
    ddisp_event_release(event);
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    ddisp_device_release(fixture->device);
    *fixture = (struct fake_fixture){.context = NULL};
    fake_complete();
    await(&called);
    while (__atomic_load_n(&fake.host_blocks, __ATOMIC_ACQUIRE) != 0)
        (void)nanosleep(&pause, NULL);
}

static void without_memory_nothing_is_called(void **state)
{
    struct fake_fixture *fixture = *state;
    struct called called = {.count = 0};
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.allocations_left = 0;
    assert_fails(DDISP_STATUS_OUT_OF_MEMORY, "no host memory",
                 ddisp_event_notify(event, note_call, &called));
    fake.allocations_left = UINT32_MAX;
    assert_ok(ddisp_event_notify(event, note_call, &called)); /* tried again it works */
    await(&called);
    assert_int_equal(atomic_load(&called.count), 1);
    ddisp_event_release(event);
}

/* ---- captures */

static void *end_elsewhere(void *user_data)
{
    ddisp_graph *graph = NULL;
    ddisp_status status = ddisp_stream_end_capture(user_data, &graph);
    bool named = strstr(ddisp__error()->message, "another thread") != NULL;
    return status == DDISP_STATUS_INVALID_ARGUMENT && named && !graph ? user_data : NULL;
}

static void capture_is_ended_by_its_own_thread(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_graph *graph = NULL;
    pthread_t thread;
    void *refused = NULL;
    assert_ok(ddisp_stream_begin_capture(fixture->second));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, fixture->second), 0);
    assert_int_equal(pthread_join(thread, &refused), 0);
    assert_non_null(refused);
    assert_true(fake_optional.recording); /* it goes on */
    assert_fails(DDISP_STATUS_UNSUPPORTED, "captures", ddisp_stream_flush(fixture->second));
    assert_ok(ddisp_stream_end_capture(fixture->second, &graph));
    assert_int_equal(fake_optional.graphs, 1);
    ddisp_graph_release(graph);
    assert_int_equal(fake_optional.graphs, 0);
}

static void capture_that_cannot_be_ended_is_thrown_away(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_graph *graph = NULL;
    assert_ok(ddisp_stream_begin_capture(fixture->second));
    fake.fails = "capture_end";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "capture_end failed",
                 ddisp_stream_end_capture(fixture->second, &graph));
    fake.fails = NULL;
    assert_null(graph);
    assert_false(fake_optional.recording);
    assert_int_equal(fake_optional.thrown_away, 1);
    assert_ok(ddisp_stream_synchronize(fixture->second, 0)); /* it runs its work again */
    assert_ok(ddisp_stream_begin_capture(fixture->second));
    assert_ok(ddisp_stream_end_capture(fixture->second, &graph));
    ddisp_graph_release(graph);
}

static void stream_that_captures_may_be_released(void **state)
{
    struct fake_fixture *fixture = *state;
    assert_ok(ddisp_stream_begin_capture(fixture->third));
    ddisp_stream_release(fixture->third);
    fixture->third = NULL;
    assert_int_equal(fake_optional.thrown_away, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(elapsed_time_is_between_two_timed_marks),
        TEST(events_without_time_are_refused_by_name),
        TEST(function_is_called_once_on_a_thread_of_its_own),
        TEST(functions_of_one_stream_are_called_in_order),
        TEST(event_that_was_never_recorded_calls_at_once),
        TEST(function_hears_of_a_lost_device),
        TEST(last_reference_may_go_inside_a_function),
        TEST(without_memory_nothing_is_called),
        TEST(capture_is_ended_by_its_own_thread),
        TEST(capture_that_cannot_be_ended_is_thrown_away),
        TEST(stream_that_captures_may_be_released),
    };
    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
