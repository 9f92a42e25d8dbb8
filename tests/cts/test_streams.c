/*
 * test_streams.c - streams and events: work on one stream runs in order, events order two streams,
 * and the library orders its own allocations and fills whatever streams are used.
 */
#include "cts.h"

static ddisp_status launch_on(ddisp_kernel *kernel, ddisp_mode mode, ddisp_stream *stream,
                              ddisp_tensor *x, ddisp_tensor *y)
{
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    return ddisp_launch(kernel, mode, args, 2, NULL, stream);
}

static ddisp_event *event(cts *t)
{
    ddisp_event *made = NULL;
    CTS_OK(ddisp_event_create(t->device, 0, &made));
    return made;
}

/* x -> a -> b -> c -> d, each on another stream than the one before. */
static void events_order_streams(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_stream *streams[2] = {cts_stream(t), cts_stream(t)};
    ddisp_tensor *chain[5] = {CTS_VECTOR(t, 0, 1, 2, -1)};
    ddisp_event *done = event(t);
    for (int i = 1; i < 5; i++)
        chain[i] = cts_vector(t, 3, 0, NULL);
    CTS_OK(ddisp_event_query(done)); /* never recorded: done */
    CTS_OK(ddisp_event_synchronize(done, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_event_record(done, NULL)); /* the writes above are on the device's own stream */
    for (int i = 1; i < 5; i++) {
        ddisp_stream *stream = streams[i % 2];
        CTS_OK(ddisp_stream_wait_event(stream, done));
        CTS_OK(launch_on(kernel, DDISP_MODE_FORWARD, stream, chain[i - 1], chain[i]));
        CTS_OK(ddisp_event_record(done, stream));
    }
    CTS_OK(ddisp_event_synchronize(done, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_event_query(done));
    ddisp_event_release(done);
    CTS_VALUES(chain[4], 1, 65536, 1);
}

/* A gradient made on one stream is added to on another at once, with no event of the caller. */
static void gradient_made_on_one_stream_is_used_on_another(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *g = CTS_VECTOR(t, 0, 1, 1, 1);
    ddisp_stream *streams[4];
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    for (int i = 0; i < 4; i++) {
        ddisp_tensor *y = cts_vector(t, 3, CTS_GRAD, NULL);
        CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
        streams[i] = cts_stream(t);
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(launch_on(kernel, DDISP_MODE_BACKWARD, streams[i], x, y));
    }
    for (int i = 0; i < 4; i++)
        CTS_OK(ddisp_stream_synchronize(streams[i], DDISP_TIMEOUT_INFINITE));
    CTS_GRADIENT(x, 8, 16, 24);
}

static void released_stream_still_finishes_its_work(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    ddisp_stream *stream = NULL;
    ddisp_event *done = event(t);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_stream_create(t->device, 0, &stream));
    CTS_OK(launch_on(kernel, DDISP_MODE_FORWARD, stream, x, y));
    CTS_OK(ddisp_event_record(done, stream));
    ddisp_stream_release(stream);
    CTS_OK(ddisp_event_synchronize(done, DDISP_TIMEOUT_INFINITE));
    ddisp_event_release(done);
    CTS_VALUES(y, 1, 4, 9);
}

static void streams_and_events_check_their_arguments(cts *t)
{
    ddisp_stream *stream = NULL;
    ddisp_event *made = NULL;
    CTS_FAILS(ddisp_stream_create(t->device, UINT64_C(1) << 40, &stream),
              DDISP_STATUS_INVALID_ARGUMENT, "flags");
    CTS_FAILS(ddisp_event_create(t->device, 2, &made), DDISP_STATUS_INVALID_ARGUMENT, "flags");
    assert_true(!stream && !made);
    CTS_FAILS(ddisp_stream_flush(NULL), DDISP_STATUS_INVALID_ARGUMENT, "stream");
    CTS_FAILS(ddisp_stream_synchronize(NULL, 0), DDISP_STATUS_INVALID_ARGUMENT, "stream");
    CTS_FAILS(ddisp_stream_wait_event(NULL, NULL), DDISP_STATUS_INVALID_ARGUMENT, "");
    stream = cts_stream(t);
    CTS_FAILS(ddisp_stream_wait_event(stream, NULL), DDISP_STATUS_INVALID_ARGUMENT, "event");
    CTS_OK(ddisp_stream_flush(stream)); /* nothing queued */
    CTS_OK(ddisp_stream_synchronize(stream, 0));
}

const cts_test cts_stream_tests[] = {
    CTS_TEST(events_order_streams),
    CTS_TEST(gradient_made_on_one_stream_is_used_on_another),
    CTS_TEST(released_stream_still_finishes_its_work),
    CTS_TEST(streams_and_events_check_their_arguments),
    CTS_END,
};
