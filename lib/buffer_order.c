/*
 * buffer_order.c - the order between work on a buffer inside the library and work outside it:
 * memory that comes in while somebody's stream still fills it, and memory that goes out while
 * streams of the library still use it.
 */
#include "lower.h"

ddisp_status ddisp__buffer_follow(ddisp_buffer *buffer, ddisp_stream *stream)
{
    uint64_t ticket = 0;
    if (buffer->memory.size_bytes == 0)
        return DDISP_STATUS_OK;
    ddisp_status status = ddisp__stream_mark(stream, &ticket);
    if (status)
        return status;
    ddisp_stream_retain(stream);
    (void)pthread_mutex_lock(&buffer->lock);
    ddisp_stream *before = buffer->creation;
    buffer->creation = stream;
    buffer->creation_ticket = ticket;
    atomic_store_explicit(&buffer->last_use, NULL, memory_order_relaxed);
    (void)pthread_mutex_unlock(&buffer->lock);
    ddisp_stream_release(before);
    /* It is used there, so that its end waits for this stream too. */
    return ddisp__buffer_use(buffer, stream);
}

/* Everybody who may have work on the buffer, each with a reference. */
static ddisp_status collect(ddisp_buffer *buffer, ddisp__array *out_streams)
{
    ddisp_status status = DDISP_STATUS_OK;
    (void)pthread_mutex_lock(&buffer->lock);
    for (uint32_t i = 0; i <= buffer->uses.count; i++) {
        ddisp_stream *stream = i < buffer->uses.count
                                   ? *(ddisp_stream **)ddisp__array_at(&buffer->uses, i)
                                   : buffer->creation;
        if (!stream)
            continue;
        ddisp_stream **place = ddisp__array_push(buffer->device->context, out_streams);
        if (!place) {
            status = ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory to order streams");
            break;
        }
        ddisp_stream_retain(stream);
        *place = stream;
    }
    (void)pthread_mutex_unlock(&buffer->lock);
    return status;
}

ddisp_status ddisp__buffer_settle(ddisp_buffer *buffer, ddisp_stream *stream)
{
    ddisp__array streams = {.item_size = sizeof(ddisp_stream *)};
    ddisp_status status = collect(buffer, &streams);
    for (uint32_t i = 0; i < streams.count; i++) {
        ddisp_stream *other = *(ddisp_stream **)ddisp__array_at(&streams, i);
        uint64_t ticket = 0;
        if (!status && other != stream)
            status = ddisp__stream_mark(other, &ticket);
        if (!status && other != stream)
            status = stream ? ddisp__stream_wait(stream, other, ticket)
                            : ddisp__stream_await(other, ticket, DDISP_TIMEOUT_INFINITE);
        ddisp_stream_release(other);
    }
    ddisp__array_clear(buffer->device->context, &streams);
    if (!status && stream)
        status = ddisp__buffer_use(buffer, stream);
    return status;
}
