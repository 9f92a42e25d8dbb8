/*
 * sink.c - the sink of a device: a writable range over a small block of memory, shared by all
 * launches, for gradients that nobody wants. Its content means nothing and races are welcome. The
 * core keeps track of the streams that use it, so that ddisp_device_trim can give it back when
 * their work is done; how it is made is the backend's business.
 */
#include "launch.h"
#include "lower.h"

#include <string.h>

bool ddisp__sink_offered(const ddisp_device *device)
{
    return ddisp__table_offers(device->table, sink_acquire) &&
           strcmp(device->info.sink, "none") != 0 && device->info.sink[0];
}

/* Streams are noted without a reference, since they hold the device; ddisp__sink_leave forgets
 * them. */
static ddisp_status note_use(ddisp_device *device, ddisp_stream *stream)
{
    if (stream->uses_sink)
        return DDISP_STATUS_OK;
    device->sink_streams.item_size = (uint32_t)sizeof(ddisp_stream *);
    ddisp_stream **use = ddisp__array_push(device->context, &device->sink_streams);
    if (!use)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to note a stream");
    *use = stream;
    stream->uses_sink = true;
    return DDISP_STATUS_OK;
}

static void count_physical(ddisp_device *device, uint64_t physical_bytes, uint64_t *out_grown_bytes)
{
    ddisp_device_statistics *statistics = &device->statistics;
    pthread_mutex_lock(&device->lock);
    *out_grown_bytes = physical_bytes > statistics->sink_bytes_live
                           ? physical_bytes - statistics->sink_bytes_live
                           : 0;
    statistics->bytes_live += physical_bytes - statistics->sink_bytes_live;
    statistics->sink_bytes_live = physical_bytes;
    if (statistics->bytes_live > statistics->bytes_peak)
        statistics->bytes_peak = statistics->bytes_live;
    pthread_mutex_unlock(&device->lock);
}

ddisp_status ddisp__sink_use(ddisp_device *device, ddisp_stream *stream, uint64_t size_bytes,
                             uint64_t flags, ddisp_backend_range *out_range,
                             uint64_t *out_grown_bytes)
{
    uint64_t physical_bytes = 0;
    pthread_mutex_lock(&device->sink_lock);
    ddisp_status status = note_use(device, stream);
    if (!status)
        status = ddisp__device_result(device,
                                      device->table->sink_acquire(device->handle, size_bytes, flags,
                                                                  out_range, &physical_bytes));
    if (!status)
        count_physical(device, physical_bytes, out_grown_bytes);
    pthread_mutex_unlock(&device->sink_lock);
    return status;
}

ddisp_status ddisp__sink_note(ddisp_device *device, ddisp_stream *stream)
{
    pthread_mutex_lock(&device->sink_lock);
    ddisp_status status = note_use(device, stream);
    pthread_mutex_unlock(&device->sink_lock);
    return status;
}

void ddisp__sink_hold(ddisp_device *device, bool hold)
{
    pthread_mutex_lock(&device->sink_lock);
    device->sink_holders += hold ? 1 : UINT32_MAX;
    pthread_mutex_unlock(&device->sink_lock);
}

void ddisp__sink_leave(ddisp_stream *stream)
{
    ddisp_device *device = stream->device;
    uint64_t ticket = 0;
    bool used = false;
    pthread_mutex_lock(&device->sink_lock);
    for (uint32_t i = device->sink_streams.count; i-- > 0;)
        if (*(ddisp_stream **)ddisp__array_at(&device->sink_streams, i) == stream) {
            ddisp__array_remove(&device->sink_streams, i);
            used = true;
        }
    pthread_mutex_unlock(&device->sink_lock);
    if (used && !stream->owned_by_device && !ddisp__device_lost(device) &&
        ddisp__stream_mark(stream, &ticket) == DDISP_STATUS_OK)
        (void)ddisp__stream_wait(device->stream, stream, ticket);
}

/* Gives the sink back unless a graph holds it. */
static ddisp_status trim_sink(ddisp_device *device)
{
    ddisp_status status = DDISP_STATUS_OK;
    uint64_t ignored, ticket = 0;
    pthread_mutex_lock(&device->sink_lock);
    for (uint32_t i = 0; i < device->sink_streams.count && !status; i++) {
        ddisp_stream *stream = *(ddisp_stream **)ddisp__array_at(&device->sink_streams, i);
        status = ddisp__stream_mark(stream, &ticket);
        if (!status)
            status = ddisp__stream_await(stream, ticket, DDISP_TIMEOUT_INFINITE);
    }
    if (!status) /* streams that are gone left their work to the device's own */
        status = ddisp__stream_mark(device->stream, &ticket);
    if (!status)
        status = ddisp__stream_await(device->stream, ticket, DDISP_TIMEOUT_INFINITE);
    if (!status && !device->sink_holders) {
        for (uint32_t i = 0; i < device->sink_streams.count; i++)
            (*(ddisp_stream **)ddisp__array_at(&device->sink_streams, i))->uses_sink = false;
        device->sink_streams.count = 0;
        if (ddisp__table_offers(device->table, sink_trim))
            device->table->sink_trim(device->handle);
        count_physical(device, 0, &ignored);
    }
    pthread_mutex_unlock(&device->sink_lock);
    return status;
}

ddisp_status ddisp_device_trim(ddisp_device *device)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (!status && ddisp__sink_offered(device))
        status = trim_sink(device);
    if (!status)
        status = ddisp__pool_trim(device);
    return status;
}
