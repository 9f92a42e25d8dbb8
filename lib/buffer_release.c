/*
 * buffer_release.c - the end of buffers: memory goes back after the work that uses it.
 *
 * At the last release of owned memory the creation stream waits for every other stream that used
 * it, and frees in its own order: the host waits for nothing. Lent memory goes back to its owner
 * through a release function, which runs once the work is done, inside some later call, never under
 * a lock. On a lost device, and in a forked child, there is no work to wait for.
 */
#include "lower.h"

/* Lent memory whose work is done when the device's own stream reaches the ticket. The buffer holds
 * neither device nor streams any more, since a device could not end while it waits for itself. */
struct ddisp__pending {
    ddisp_buffer *buffer;
    uint64_t ticket;
};

/* The driver could not order the work: the memory is kept until the device ends. */
#define NEVER UINT64_MAX

/* Gives lent memory back. No lock is held, and nothing of the device is held by the buffer. */
static void finish_foreign(ddisp_device *device, ddisp_buffer *buffer)
{
    if (buffer->memory.size_bytes != 0 && !ddisp__context_forked(device->context))
        device->table->memory_release_import(device->handle, &buffer->memory);
    ddisp_release_function release = buffer->release;
    void *user_data = buffer->release_user_data;
    ddisp__buffer_free(device->context, buffer);
    if (release)
        release(user_data);
}

/* Nothing comes after a release that could try again, so a refusal is asked about twice. */
static bool mark(ddisp_stream *stream, uint64_t *out_ticket)
{
    return ddisp__stream_mark(stream, out_ticket) == DDISP_STATUS_OK ||
           ddisp__stream_mark(stream, out_ticket) == DDISP_STATUS_OK;
}

/* Makes `stream` wait for all other streams that used the buffer, and lets go of them. With
 * skip_done, streams whose work is done are not waited for. False when an order could not be made.
 */
static bool gather_uses(ddisp_device *device, ddisp_buffer *buffer, ddisp_stream *stream,
                        bool skip_done, bool *out_idle)
{
    bool ordered = true;
    *out_idle = true;
    for (uint32_t i = 0; i < buffer->uses.count; i++) {
        ddisp_stream *use = *(ddisp_stream **)ddisp__array_at(&buffer->uses, i);
        uint64_t ticket = 0;
        bool usable = !ddisp__context_forked(device->context) && !ddisp__device_lost(device);
        if (usable && !mark(use, &ticket)) {
            ordered = false;
            *out_idle = false;
        } else if (usable && !(skip_done && ddisp__stream_query(use, ticket) == DDISP_STATUS_OK)) {
            *out_idle = false;
            if (ddisp__stream_wait(stream, use, ticket) != DDISP_STATUS_OK)
                (void)ddisp__stream_await(use, ticket, DDISP_TIMEOUT_INFINITE);
        }
        ddisp_stream_release(use);
    }
    buffer->uses.count = 0;
    return ordered || ddisp__device_lost(device);
}

static void release_owned(ddisp_device *device, ddisp_buffer *buffer)
{
    bool idle;
    ddisp_stream *creation = buffer->creation;
    ddisp_stream *stream = creation;
    if (creation->capture) { /* a free is not recorded: the device's own stream frees instead */
        stream = device->stream;
        uint64_t ticket;
        if (mark(creation, &ticket))
            (void)ddisp__stream_wait(stream, creation, ticket);
    }
    bool ordered = gather_uses(device, buffer, stream, false, &idle);
    if (buffer->memory.size_bytes != 0 && !ddisp__context_forked(device->context)) {
        if (ordered) {
            (void)pthread_mutex_lock(&stream->lock);
            device->table->memory_free(device->handle, stream->handle, &buffer->memory);
            (void)pthread_mutex_unlock(&stream->lock);
        } else {
            /* Freed too early it could be written by work that still runs. */
            ddisp__context_log(device->context, DDISP_LOG_LEVEL_ERROR,
                               "%llu bytes of device %s are lost: %s",
                               (unsigned long long)buffer->memory.size_bytes, device->info.spec,
                               ddisp__error()->message);
        }
        ddisp__buffer_count(device, buffer->purpose, buffer->memory.size_bytes, false);
    }
    ddisp_stream_release(creation);
    ddisp__buffer_free(device->context, buffer);
}

/* Leaves a buffer for later; false when there is no memory for that. */
static bool postpone(ddisp_device *device, ddisp_buffer *buffer, uint64_t ticket)
{
    (void)pthread_mutex_lock(&device->lock);
    device->pending.item_size = sizeof(struct ddisp__pending);
    struct ddisp__pending *place = ddisp__array_push(device->context, &device->pending);
    if (place)
        *place = (struct ddisp__pending){.buffer = buffer, .ticket = ticket};
    (void)pthread_mutex_unlock(&device->lock);
    return place != NULL;
}

static void release_foreign(ddisp_device *device, ddisp_buffer *buffer)
{
    bool idle;
    ddisp_stream *own = device->stream;
    bool ordered = gather_uses(device, buffer, own, true, &idle);
    ddisp_stream_release(buffer->creation);
    buffer->creation = NULL;
    if (idle || ddisp__context_forked(device->context) || ddisp__device_lost(device)) {
        finish_foreign(device, buffer);
        return;
    }
    uint64_t ticket = 0;
    if (!mark(own, &ticket) || !ordered)
        ticket = NEVER;
    if (postpone(device, buffer, ticket))
        return;
    if (ticket != NEVER)
        (void)ddisp__stream_await(own, ticket, DDISP_TIMEOUT_INFINITE);
    finish_foreign(device, buffer);
}

/* Takes the whole list, so that no lock is held during queries and release functions. */
static ddisp__array take_pending(ddisp_device *device)
{
    bool forked = ddisp__context_forked(device->context);
    if (!forked)
        (void)pthread_mutex_lock(&device->lock);
    ddisp__array list = device->pending;
    device->pending = (ddisp__array){.item_size = sizeof(struct ddisp__pending)};
    if (!forked)
        (void)pthread_mutex_unlock(&device->lock);
    return list;
}

/* Whether an entry may be finished now. */
static bool is_done(ddisp_device *device, uint64_t ticket, bool wait)
{
    if (ddisp__context_forked(device->context) || ddisp__device_lost(device))
        return true;
    if (wait) {
        if (ticket != NEVER)
            (void)ddisp__stream_await(device->stream, ticket, DDISP_TIMEOUT_INFINITE);
        return true;
    }
    return ticket != NEVER && ddisp__stream_query(device->stream, ticket) == DDISP_STATUS_OK;
}

void ddisp__buffer_reap(ddisp_device *device, bool wait)
{
    ddisp_error before = *ddisp__error();
    ddisp__array list = take_pending(device);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct ddisp__pending *entry = ddisp__array_at(&list, i);
        if (!is_done(device, entry->ticket, wait)) {
            if (postpone(device, entry->buffer, entry->ticket))
                continue;
            (void)is_done(device, entry->ticket, true);
        }
        finish_foreign(device, entry->buffer);
    }
    ddisp__array_clear(device->context, &list);
    ddisp__error_restore(&before);
}

void ddisp_buffer_retain(ddisp_buffer *buffer)
{
    if (buffer)
        ddisp__reference_take(&buffer->reference);
}

void ddisp_buffer_release(ddisp_buffer *buffer)
{
    if (!buffer || !ddisp__reference_drop(&buffer->reference))
        return;
    ddisp_device *device = buffer->device;
    ddisp_error before = *ddisp__error();
    if (buffer->foreign)
        release_foreign(device, buffer);
    else
        release_owned(device, buffer);
    ddisp_device_release(device);
    ddisp__error_restore(&before);
}
