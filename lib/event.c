/*
 * event.c - events: points in the work of streams, and the device's time between two of them.
 *
 * An event is a ticket and the stream that gave it. Backend calls are made under the stream's lock,
 * waits of the host outside it.
 */
#include "capture.h"
#include "lower.h"

static ddisp_status check_event(ddisp_event *event)
{
    if (!event)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "event is NULL");
    return ddisp__device_check(event->device, "device");
}

/* The mark, with a reference to its stream; NULL before the first record. */
static ddisp_stream *take_mark(ddisp_event *event, uint64_t *out_ticket)
{
    (void)pthread_mutex_lock(&event->lock);
    ddisp_stream *stream = event->stream;
    ddisp_stream_retain(stream);
    *out_ticket = event->ticket;
    (void)pthread_mutex_unlock(&event->lock);
    return stream;
}

ddisp_status ddisp_event_create(ddisp_device *device, uint64_t flags, ddisp_event **out_event)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_event)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_event is NULL");
    if (flags & ~DDISP_EVENT_TIMED)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "flags is 0x%llx, known are 0x%llx",
                           (unsigned long long)flags, (unsigned long long)DDISP_EVENT_TIMED);
    bool timed = (flags & DDISP_EVENT_TIMED) != 0;
    if (timed && (!ddisp__table_offers(device->table, stream_mark_timed) ||
                  !ddisp__table_offers(device->table, stream_elapsed)))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "device %s tells no time of its work",
                           device->info.spec);

    ddisp_event *event = ddisp__allocate(device->context, sizeof *event);
    if (!event)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for an event");
    ddisp__reference_start(&event->reference);
    (void)pthread_mutex_init(&event->lock, NULL);
    ddisp_device_retain(device);
    event->device = device;
    event->timed = timed;
    *out_event = event;
    return DDISP_STATUS_OK;
}

void ddisp_event_retain(ddisp_event *event)
{
    if (event)
        ddisp__reference_take(&event->reference);
}

void ddisp_event_release(ddisp_event *event)
{
    if (!event || !ddisp__reference_drop(&event->reference))
        return;
    ddisp_device *device = event->device;
    ddisp_stream_release(event->stream);
    (void)pthread_mutex_destroy(&event->lock);
    ddisp__release(device->context, event);
    ddisp_device_release(device);
}

static ddisp_status mark_timed(ddisp_stream *stream, uint64_t *out_ticket)
{
    ddisp_device *device = stream->device;
    (void)pthread_mutex_lock(&stream->lock);
    ddisp_status status =
        device->table->stream_mark_timed(device->handle, stream->handle, out_ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp_event_record(ddisp_event *event, ddisp_stream *stream)
{
    ddisp_status status = check_event(event);
    if (status != DDISP_STATUS_OK)
        return status;
    status = ddisp__stream_resolve(event->device, stream, &stream);
    if (status == DDISP_STATUS_OK)
        status = ddisp__capture_refuse(stream, "an event");
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket = 0;
    status = event->timed ? mark_timed(stream, &ticket) : ddisp__stream_mark(stream, &ticket);
    if (status != DDISP_STATUS_OK)
        return status;

    ddisp_stream_retain(stream);
    (void)pthread_mutex_lock(&event->lock);
    ddisp_stream *previous = event->stream;
    event->stream = stream;
    event->ticket = ticket;
    (void)pthread_mutex_unlock(&event->lock);
    ddisp_stream_release(previous);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_event_query(ddisp_event *event)
{
    ddisp_status status = check_event(event);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket;
    ddisp_stream *stream = take_mark(event, &ticket);
    if (!stream)
        return DDISP_STATUS_OK;
    ddisp_device *device = event->device;
    status = ddisp__stream_query(stream, ticket);
    ddisp_stream_release(stream);
    if (status == DDISP_STATUS_OK)
        ddisp__stream_reap(device);
    return status;
}

ddisp_status ddisp_event_synchronize(ddisp_event *event, uint64_t timeout_ns)
{
    ddisp_status status = check_event(event);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket;
    ddisp_stream *stream = take_mark(event, &ticket);
    if (!stream)
        return DDISP_STATUS_OK;
    ddisp_device *device = event->device;
    status = ddisp__stream_await(stream, ticket, timeout_ns);
    ddisp_stream_release(stream);
    if (status == DDISP_STATUS_OK)
        ddisp__stream_reap(device);
    return status;
}

ddisp_status ddisp_stream_wait_event(ddisp_stream *stream, ddisp_event *event)
{
    ddisp_status status = check_event(event);
    if (status != DDISP_STATUS_OK)
        return status;
    status = ddisp__stream_resolve(event->device, stream, &stream);
    if (status == DDISP_STATUS_OK)
        status = ddisp__capture_refuse(stream, "an event");
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket;
    ddisp_stream *other = take_mark(event, &ticket);
    if (!other)
        return DDISP_STATUS_OK;
    status = ddisp__stream_wait(stream, other, ticket);
    ddisp_stream_release(other);
    return status;
}

ddisp_status ddisp_event_notify(ddisp_event *event, ddisp_notify_function function, void *user_data)
{
    ddisp_status status = check_event(event);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!function)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "function is NULL");
    uint64_t ticket;
    ddisp_stream *stream = take_mark(event, &ticket);
    status = ddisp__notify_add(event->device, stream, ticket, function, user_data);
    ddisp_stream_release(stream);
    return status;
}

/* ---- time */

/* The mark of a timed event, with a reference to its stream. */
static ddisp_status take_time(ddisp_event *event, const char *which, ddisp_stream **out_stream,
                              uint64_t *out_ticket)
{
    if (!event->timed)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "event '%s' tells no time; create it with DDISP_EVENT_TIMED", which);
    *out_stream = take_mark(event, out_ticket);
    return *out_stream
               ? DDISP_STATUS_OK
               : ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "event '%s' was never recorded", which);
}

/* Both streams are locked, in the order of their addresses. */
static ddisp_status elapsed(ddisp_stream *begin, uint64_t begin_ticket, ddisp_stream *end,
                            uint64_t end_ticket, uint64_t *out_ns)
{
    ddisp_device *device = begin->device;
    ddisp_stream *first = (uintptr_t)begin < (uintptr_t)end ? begin : end;
    ddisp_stream *second = first == begin ? end : begin;
    (void)pthread_mutex_lock(&first->lock);
    if (second != first)
        (void)pthread_mutex_lock(&second->lock);
    ddisp_status status = device->table->stream_elapsed(device->handle, begin->handle, begin_ticket,
                                                        end->handle, end_ticket, out_ns);
    if (second != first)
        (void)pthread_mutex_unlock(&second->lock);
    (void)pthread_mutex_unlock(&first->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp_event_elapsed(ddisp_event *begin, ddisp_event *end, uint64_t *out_ns)
{
    ddisp_status status = check_event(begin);
    if (status == DDISP_STATUS_OK)
        status = check_event(end);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_ns)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_ns is NULL");
    if (begin->device != end->device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH,
                           "event 'begin' is of device %s, event 'end' of device %s",
                           begin->device->info.spec, end->device->info.spec);
    ddisp_stream *streams[2] = {NULL, NULL};
    uint64_t tickets[2] = {0, 0}, ns = 0;
    status = take_time(begin, "begin", &streams[0], &tickets[0]);
    if (status == DDISP_STATUS_OK)
        status = take_time(end, "end", &streams[1], &tickets[1]);
    if (status == DDISP_STATUS_OK)
        status = elapsed(streams[0], tickets[0], streams[1], tickets[1], &ns);
    ddisp_stream_release(streams[0]);
    ddisp_stream_release(streams[1]);
    if (status == DDISP_STATUS_OK)
        *out_ns = ns;
    return status;
}
