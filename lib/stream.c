/*
 * stream.c - streams: queues of work.
 *
 * They stand on the backend's tickets: a mark gives the ticket of a stream's present end, and every
 * wait is a wait for a ticket (event.c: events; notify.c: functions of the host). Backend calls on
 * a stream are made under its lock, so that the library's own calls (marks, frees) may come from
 * any thread; waits of the host are made outside it. Nothing here ever calls a user's function
 * under a lock.
 */
#include "capture.h"
#include "lower.h"
#include "trace.h"

ddisp_status ddisp__stream_resolve(ddisp_device *device, ddisp_stream *stream,
                                   ddisp_stream **out_stream)
{
    if (stream && stream->device != device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH,
                           "stream belongs to device %s, but the work is on device %s",
                           stream->device->info.spec, device->info.spec);
    *out_stream = stream ? stream : device->stream;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__stream_mark(ddisp_stream *stream, uint64_t *out_ticket)
{
    ddisp_device *device = stream->device;
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->capture)
        *out_ticket = stream->capture_ticket;
    else
        status = device->table->stream_mark(device->handle, stream->handle, out_ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp__stream_wait(ddisp_stream *stream, ddisp_stream *other, uint64_t ticket)
{
    ddisp_device *device = stream->device;
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK || stream == other || ticket == 0)
        return status;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->stream_wait(device->handle, stream->handle, other->handle, ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp__stream_query(ddisp_stream *stream, uint64_t ticket)
{
    ddisp_device *device = stream->device;
    (void)pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->stream_query(device->handle, stream->handle, ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

/* Waits outside of the stream's lock; other threads may queue work meanwhile. */
ddisp_status ddisp__stream_await(ddisp_stream *stream, uint64_t ticket, uint64_t timeout_ns)
{
    ddisp_device *device = stream->device;
    ddisp_status status =
        device->table->stream_synchronize(device->handle, stream->handle, ticket, timeout_ns);
    if (status == DDISP_STATUS_TIMEOUT)
        return ddisp__fail(status, "work on device %s was not done after %llu ns",
                           device->info.spec, (unsigned long long)timeout_ns);
    return ddisp__device_result(device, status);
}

/* Release functions may give back what the caller lent this call, so the device is held. */
void ddisp__stream_reap(ddisp_device *device)
{
    ddisp_device_retain(device);
    ddisp__buffer_reap(device, false);
    ddisp_device_release(device);
}

/* ---- streams */

uint64_t ddisp__stream_fresh_notes(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void start(ddisp_stream *stream, ddisp_device *device)
{
    ddisp__reference_start(&stream->reference);
    (void)pthread_mutex_init(&stream->lock, NULL);
    atomic_init(&stream->notes, ddisp__stream_fresh_notes());
    stream->device = device;
}

ddisp_status ddisp__stream_make(ddisp_device *device, uint64_t flags, ddisp_stream **out_stream)
{
    ddisp_stream *stream = ddisp__allocate(device->context, sizeof *stream);
    if (!stream)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a stream");
    ddisp_status status = ddisp__device_result(
        device, device->table->stream_create(device->handle, flags, &stream->handle));
    if (status != DDISP_STATUS_OK) {
        ddisp__release(device->context, stream);
        return status;
    }
    start(stream, device);
    stream->owned_by_device = (flags & DDISP_BACKEND_STREAM_DEFAULT) != 0;
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_stream_wrap(ddisp_device *device, uint64_t native_handle,
                               ddisp_stream **out_stream)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_stream)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_stream is NULL");
    if (!ddisp__table_offers(device->table, stream_wrap))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "device %s does not run its work in streams of the application",
                           device->info.spec);
    ddisp_stream *stream = ddisp__allocate(device->context, sizeof *stream);
    if (!stream)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a stream");
    status = ddisp__device_result(
        device, device->table->stream_wrap(device->handle, native_handle, &stream->handle));
    if (status != DDISP_STATUS_OK) {
        ddisp__release(device->context, stream);
        return status;
    }
    start(stream, device);
    ddisp_device_retain(device);
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

static ddisp_status check_stream(ddisp_stream *stream)
{
    if (!stream)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "stream is NULL");
    ddisp_status status = ddisp__device_check(stream->device, "device");
    return status ? status : ddisp__capture_refuse(stream, "flushing or waiting");
}

ddisp_status ddisp_stream_create(ddisp_device *device, uint64_t flags, ddisp_stream **out_stream)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_stream)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_stream is NULL");
    if (flags != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "flags is 0x%llx, must be 0",
                           (unsigned long long)flags);

    ddisp_stream *stream;
    status = ddisp__stream_make(device, 0, &stream);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_device_retain(device);
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

void ddisp_stream_retain(ddisp_stream *stream)
{
    if (stream)
        ddisp__reference_take(&stream->reference);
}

void ddisp_stream_release(ddisp_stream *stream)
{
    if (!stream || !ddisp__reference_drop(&stream->reference))
        return;
    ddisp_device *device = stream->device;
    ddisp_error before = *ddisp__error();
    ddisp__capture_drop(stream);
    if (device->context->trace)
        ddisp__trace_leave(stream);
    ddisp__watch_drop(stream);
    ddisp__recall_forget(stream);
    if (!ddisp__context_forked(device->context)) {
        if (stream->uses_sink)
            ddisp__sink_leave(stream);
        device->table->stream_destroy(device->handle, stream->handle);
    }
    ddisp__error_restore(&before);
    (void)pthread_mutex_destroy(&stream->lock);
    bool owned = stream->owned_by_device;
    ddisp__release(device->context, stream);
    if (!owned)
        ddisp_device_release(device);
}

ddisp_status ddisp_stream_flush(ddisp_stream *stream)
{
    ddisp_status status = check_stream(stream);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_device *device = stream->device;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->stream_flush(device->handle, stream->handle);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp_stream_synchronize(ddisp_stream *stream, uint64_t timeout_ns)
{
    ddisp_status status = check_stream(stream);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket = 0;
    status = ddisp__stream_mark(stream, &ticket);
    if (status == DDISP_STATUS_OK)
        status = ddisp__stream_await(stream, ticket, timeout_ns);
    if (status == DDISP_STATUS_OK && stream->device->context->trace)
        ddisp__trace_poll(stream->device->context->trace);
    if (status != DDISP_STATUS_OK)
        return status;
    status = ddisp__watch_check(stream);
    ddisp_error error = *ddisp__error();
    ddisp__stream_reap(stream->device); /* which may be the end of this stream */
    if (status != DDISP_STATUS_OK)
        ddisp__error_restore(&error);
    return status;
}
