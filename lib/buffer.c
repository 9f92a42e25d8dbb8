/*
 * buffer.c - ranges of device memory, owned or lent by the caller, and their place in the order of
 * streams.
 *
 * Memory is allocated and freed on one stream, the creation stream. Another stream that uses the
 * buffer first waits for the creation stream; at the last release the creation stream waits for
 * all others and then frees. Lent memory goes back to its owner through a release function, once
 * the work that used it is done and never under a lock. No call here waits on the host for
 * memory that the library owns.
 */
#include "objects.h"

/* Lent memory whose work is not done: it is when the device's own stream reaches the ticket. */
struct ddisp__pending {
    ddisp_buffer *buffer; /* holds no device and no streams any more */
    uint64_t ticket;
};

/* From here on, streams whose work is done are dropped from a buffer's uses. */
#define MANY_USES 8u

static bool is_forked(const ddisp_device *device)
{
    return device->context->fork_generation != ddisp__fork_generation();
}

static bool is_lost(ddisp_device *device)
{
    return atomic_load_explicit(&device->lost, memory_order_acquire);
}

static void raise_peak(uint64_t live, uint64_t *peak)
{
    if (live > *peak)
        *peak = live;
}

static void count_memory(ddisp_device *device, ddisp__purpose purpose, uint64_t size_bytes,
                         bool allocated)
{
    ddisp_device_statistics *statistics = &device->statistics;
    /* Subtraction is addition of the complement. */
    uint64_t change = allocated ? size_bytes : 0 - size_bytes;
    (void)pthread_mutex_lock(&device->lock);
    if (allocated)
        statistics->allocations++;
    else
        statistics->frees++;
    statistics->bytes_live += change;
    raise_peak(statistics->bytes_live, &statistics->bytes_peak);
    if (purpose == DDISP__PURPOSE_GRADIENT) {
        statistics->gradient_bytes_live += change;
        raise_peak(statistics->gradient_bytes_live, &statistics->gradient_bytes_peak);
    } else if (purpose == DDISP__PURPOSE_SCRATCH) {
        statistics->scratch_bytes_live += change;
        raise_peak(statistics->scratch_bytes_live, &statistics->scratch_bytes_peak);
    }
    (void)pthread_mutex_unlock(&device->lock);
}

/* OK when the ticket's work is done. */
static ddisp_status query(ddisp_stream *stream, uint64_t ticket)
{
    ddisp_device *device = stream->device;
    (void)pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->stream_query(device->handle, stream->handle, ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

static void wait_for(ddisp_stream *stream, uint64_t ticket)
{
    ddisp_device *device = stream->device;
    (void)ddisp__device_result(device,
                               device->table->stream_synchronize(device->handle, stream->handle,
                                                                 ticket, DDISP_TIMEOUT_INFINITE));
}

/* ---- creation */

static ddisp_buffer *new_buffer(ddisp_device *device)
{
    ddisp_buffer *buffer = ddisp__allocate(device->context, sizeof *buffer);
    if (!buffer)
        return NULL;
    ddisp__reference_start(&buffer->reference);
    (void)pthread_mutex_init(&buffer->lock, NULL);
    buffer->uses.item_size = sizeof(ddisp_stream *);
    buffer->device = device;
    return buffer;
}

static void free_buffer(ddisp_context *context, ddisp_buffer *buffer)
{
    ddisp__array_clear(context, &buffer->uses);
    (void)pthread_mutex_destroy(&buffer->lock);
    ddisp__release(context, buffer);
}

/* Sizes that no driver can give are not brought before it: some overflow inside. */
static ddisp_status check_size(const ddisp_device *device, uint64_t size_bytes)
{
    uint64_t largest = INT64_MAX;
    if (device->info.max_allocation_bytes && device->info.max_allocation_bytes < largest)
        largest = device->info.max_allocation_bytes;
    if (device->info.memory_bytes && device->info.memory_bytes < largest)
        largest = device->info.memory_bytes;
    if (size_bytes > largest)
        return ddisp__fail(DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
                           "%llu bytes were asked for, device %s gives at most %llu at once",
                           (unsigned long long)size_bytes, device->info.spec,
                           (unsigned long long)largest);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__buffer_create_on(ddisp_stream *stream, uint64_t size_bytes,
                                     ddisp__purpose purpose, ddisp_buffer **out_buffer)
{
    ddisp_device *device = stream->device;
    ddisp_status status = ddisp__device_check(device, "device");
    if (status == DDISP_STATUS_OK)
        status = check_size(device, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_buffer *buffer = new_buffer(device);
    if (!buffer)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a buffer");

    if (size_bytes != 0) {
        (void)pthread_mutex_lock(&stream->lock);
        status = device->table->memory_allocate(device->handle, stream->handle, size_bytes,
                                                &buffer->memory);
        (void)pthread_mutex_unlock(&stream->lock);
        status = ddisp__device_result(device, status);
        if (status != DDISP_STATUS_OK) {
            free_buffer(device->context, buffer);
            return status;
        }
        buffer->memory.size_bytes = size_bytes;
        count_memory(device, purpose, size_bytes, true);
    }
    buffer->purpose = purpose;
    ddisp_stream_retain(stream);
    buffer->creation = stream;
    ddisp_device_retain(device);
    *out_buffer = buffer;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_buffer_create(ddisp_device *device, uint64_t size_bytes,
                                 ddisp_buffer **out_buffer)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_buffer)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_buffer is NULL");
    return ddisp__buffer_create_on(device->stream, size_bytes, DDISP__PURPOSE_DATA, out_buffer);
}

ddisp_status ddisp_buffer_wrap(ddisp_device *device, uint64_t address, uint64_t size_bytes,
                               ddisp_release_function release, void *user_data,
                               ddisp_buffer **out_buffer)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_buffer)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_buffer is NULL");
    if (address == 0 && size_bytes != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "address is 0, but size_bytes is %llu",
                           (unsigned long long)size_bytes);
    if (size_bytes > UINT64_MAX - address)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "address 0x%llx and size_bytes %llu go past the end of 64 bits",
                           (unsigned long long)address, (unsigned long long)size_bytes);
    ddisp__buffer_reap(device, false);

    ddisp_buffer *buffer = new_buffer(device);
    if (!buffer)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a buffer");
    if (size_bytes != 0) {
        status =
            ddisp__device_result(device, device->table->memory_import(device->handle, address,
                                                                      size_bytes, &buffer->memory));
        if (status != DDISP_STATUS_OK) {
            free_buffer(device->context, buffer);
            return status;
        }
        buffer->memory.address = address;
        buffer->memory.size_bytes = size_bytes;
    }
    buffer->foreign = true;
    buffer->release = release;
    buffer->release_user_data = user_data;
    ddisp_device_retain(device);
    *out_buffer = buffer;
    return DDISP_STATUS_OK;
}

/* ---- use */

/* Forgets streams whose work is done, so that a buffer that lives long does not collect every
 * stream that ever used it. Buffer is locked. */
static void drop_done_uses(ddisp_buffer *buffer)
{
    for (uint32_t i = buffer->uses.count; i-- > 0;) {
        ddisp_stream *stream = *(ddisp_stream **)ddisp__array_at(&buffer->uses, i);
        uint64_t ticket = 0;
        if (ddisp__stream_mark(stream, &ticket) != DDISP_STATUS_OK ||
            query(stream, ticket) != DDISP_STATUS_OK)
            continue;
        ddisp__array_remove(&buffer->uses, i);
        ddisp_stream_release(stream);
    }
}

/* Stream waits for the creation of the buffer. Buffer is locked. */
static ddisp_status wait_for_creation(ddisp_buffer *buffer, ddisp_stream *stream)
{
    if (!buffer->creation)
        return DDISP_STATUS_OK;
    if (buffer->creation_ticket == 0) {
        ddisp_status status = ddisp__stream_mark(buffer->creation, &buffer->creation_ticket);
        if (status != DDISP_STATUS_OK)
            return status;
    }
    return ddisp__stream_wait(stream, buffer->creation, buffer->creation_ticket);
}

/* Buffer is locked. */
static ddisp_status add_use(ddisp_buffer *buffer, ddisp_stream *stream)
{
    for (uint32_t i = 0; i < buffer->uses.count; i++) {
        if (*(ddisp_stream **)ddisp__array_at(&buffer->uses, i) == stream)
            return DDISP_STATUS_OK;
    }
    if (buffer->uses.count >= MANY_USES)
        drop_done_uses(buffer);
    ddisp_stream **use = ddisp__array_push(buffer->device->context, &buffer->uses);
    if (!use)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory to note a stream's use");
    ddisp_status status = wait_for_creation(buffer, stream);
    if (status != DDISP_STATUS_OK) {
        buffer->uses.count--;
        return status;
    }
    ddisp_stream_retain(stream);
    *use = stream;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__buffer_use(ddisp_buffer *buffer, ddisp_stream *stream)
{
    ddisp_status status = ddisp__device_check(buffer->device, "device");
    if (status != DDISP_STATUS_OK || stream == buffer->creation || buffer->memory.size_bytes == 0)
        return status;
    (void)pthread_mutex_lock(&buffer->lock);
    status = add_use(buffer, stream);
    (void)pthread_mutex_unlock(&buffer->lock);
    return status;
}

ddisp_status ddisp__buffer_created(ddisp_buffer *buffer)
{
    /* The next other stream takes a new mark, which is behind the fill. */
    (void)pthread_mutex_lock(&buffer->lock);
    buffer->creation_ticket = 0;
    (void)pthread_mutex_unlock(&buffer->lock);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__buffer_zero(ddisp_buffer *buffer, ddisp_stream *stream)
{
    ddisp_device *device = buffer->device;
    uint64_t size_bytes = buffer->memory.size_bytes;
    ddisp_status status = ddisp__buffer_use(buffer, stream);
    if (status != DDISP_STATUS_OK || size_bytes == 0)
        return status;
    ddisp_backend_range range = {.handle = buffer->memory.handle,
                                 .address = buffer->memory.address,
                                 .size_bytes = size_bytes};
    uint32_t pattern_size_bytes = size_bytes % 4 == 0 ? 4 : size_bytes % 2 == 0 ? 2 : 1;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->fill(device->handle, stream->handle, &range, 0, pattern_size_bytes);
    (void)pthread_mutex_unlock(&stream->lock);
    status = ddisp__device_result(device, status);
    if (status == DDISP_STATUS_OK)
        ddisp__device_count_fill(device);
    return status;
}

/* ---- copies to and from the host */

static ddisp_status prepare_copy(ddisp_buffer *buffer, uint64_t offset_bytes, const void *data,
                                 uint64_t size_bytes, ddisp_stream **stream,
                                 ddisp_backend_range *out_range)
{
    if (!buffer)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "buffer is NULL");
    ddisp_status status = ddisp__device_check(buffer->device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!data && size_bytes != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "data is NULL, but size_bytes is %llu",
                           (unsigned long long)size_bytes);
    uint64_t whole = buffer->memory.size_bytes;
    if (offset_bytes > whole || size_bytes > whole - offset_bytes)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "offset_bytes %llu and size_bytes %llu go past the end of the buffer, "
                           "which has %llu bytes",
                           (unsigned long long)offset_bytes, (unsigned long long)size_bytes,
                           (unsigned long long)whole);
    status = ddisp__stream_resolve(buffer->device, *stream, stream);
    if (status != DDISP_STATUS_OK || size_bytes == 0)
        return status;
    *out_range = (ddisp_backend_range){.handle = buffer->memory.handle,
                                       .address = buffer->memory.address + offset_bytes,
                                       .size_bytes = size_bytes};
    return ddisp__buffer_use(buffer, *stream);
}

ddisp_status ddisp_buffer_write(ddisp_buffer *buffer, uint64_t offset_bytes, const void *data,
                                uint64_t size_bytes, ddisp_stream *stream)
{
    ddisp_backend_range range;
    ddisp_status status = prepare_copy(buffer, offset_bytes, data, size_bytes, &stream, &range);
    if (status != DDISP_STATUS_OK || size_bytes == 0)
        return status;
    ddisp_device *device = buffer->device;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->upload(device->handle, stream->handle, &range, data);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp_buffer_read(ddisp_buffer *buffer, uint64_t offset_bytes, void *data,
                               uint64_t size_bytes, ddisp_stream *stream)
{
    ddisp_backend_range range;
    ddisp_status status = prepare_copy(buffer, offset_bytes, data, size_bytes, &stream, &range);
    if (status != DDISP_STATUS_OK || size_bytes == 0)
        return status;
    ddisp_device *device = buffer->device;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->download(device->handle, stream->handle, &range, data);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

/* ---- release */

/* Gives lent memory back. No lock is held, and nothing of the device is held by the buffer. */
static void finish_foreign(ddisp_device *device, ddisp_buffer *buffer)
{
    if (buffer->memory.size_bytes != 0 && !is_forked(device))
        device->table->memory_release_import(device->handle, &buffer->memory);
    ddisp_release_function release = buffer->release;
    void *user_data = buffer->release_user_data;
    free_buffer(device->context, buffer);
    if (release)
        release(user_data);
}

/* Makes `stream` wait for all other streams that used the buffer, and lets go of them. With
 * skip_done, streams whose work is done are not waited for. False when an order could not be made.
 */
static bool gather_uses(ddisp_buffer *buffer, ddisp_stream *stream, bool skip_done, bool *out_idle)
{
    bool ordered = true;
    *out_idle = true;
    for (uint32_t i = 0; i < buffer->uses.count; i++) {
        ddisp_stream *use = *(ddisp_stream **)ddisp__array_at(&buffer->uses, i);
        uint64_t ticket = 0;
        bool usable = !is_forked(buffer->device) && !is_lost(buffer->device);
        if (usable && ddisp__stream_mark(use, &ticket) != DDISP_STATUS_OK) {
            ordered = false;
        } else if (usable && !(skip_done && query(use, ticket) == DDISP_STATUS_OK)) {
            *out_idle = false;
            if (ddisp__stream_wait(stream, use, ticket) != DDISP_STATUS_OK)
                wait_for(use, ticket);
        }
        ddisp_stream_release(use);
    }
    buffer->uses.count = 0;
    return ordered || is_lost(buffer->device);
}

static void release_owned(ddisp_device *device, ddisp_buffer *buffer)
{
    bool idle;
    ddisp_stream *creation = buffer->creation;
    bool ordered = gather_uses(buffer, creation, false, &idle);
    if (buffer->memory.size_bytes != 0 && !is_forked(device)) {
        if (ordered) {
            (void)pthread_mutex_lock(&creation->lock);
            device->table->memory_free(device->handle, creation->handle, &buffer->memory);
            (void)pthread_mutex_unlock(&creation->lock);
        } else {
            /* Freed too early it could be written by work that still runs. */
            ddisp__context_log(device->context, DDISP_LOG_LEVEL_ERROR,
                               "%llu bytes of device %s are lost: %s",
                               (unsigned long long)buffer->memory.size_bytes, device->info.spec,
                               ddisp__error()->message);
        }
        count_memory(device, buffer->purpose, buffer->memory.size_bytes, false);
    }
    ddisp_stream_release(creation);
    free_buffer(device->context, buffer);
}

static void release_foreign(ddisp_device *device, ddisp_buffer *buffer)
{
    bool idle;
    ddisp_stream *own = device->stream;
    uint64_t ticket = 0;
    (void)gather_uses(buffer, own, true, &idle);
    if (idle || is_forked(device) || is_lost(device) ||
        ddisp__stream_mark(own, &ticket) != DDISP_STATUS_OK) {
        finish_foreign(device, buffer);
        return;
    }
    (void)pthread_mutex_lock(&device->lock);
    device->pending.item_size = sizeof(struct ddisp__pending);
    struct ddisp__pending *pending = ddisp__array_push(device->context, &device->pending);
    if (pending)
        *pending = (struct ddisp__pending){.buffer = buffer, .ticket = ticket};
    (void)pthread_mutex_unlock(&device->lock);
    if (!pending) {
        wait_for(own, ticket);
        finish_foreign(device, buffer);
    }
}

/* Takes the whole list, so that no lock is held during queries and release functions. */
static ddisp__array take_pending(ddisp_device *device)
{
    bool forked = is_forked(device);
    if (!forked)
        (void)pthread_mutex_lock(&device->lock);
    ddisp__array list = device->pending;
    device->pending = (ddisp__array){.item_size = sizeof(struct ddisp__pending)};
    if (!forked)
        (void)pthread_mutex_unlock(&device->lock);
    return list;
}

/* Puts an entry back; false when there is no memory for it. */
static bool put_back(ddisp_device *device, const struct ddisp__pending *entry)
{
    (void)pthread_mutex_lock(&device->lock);
    struct ddisp__pending *place = ddisp__array_push(device->context, &device->pending);
    if (place)
        *place = *entry;
    (void)pthread_mutex_unlock(&device->lock);
    return place != NULL;
}

void ddisp__buffer_reap(ddisp_device *device, bool wait)
{
    ddisp__array list = take_pending(device);
    if (list.count == 0) {
        ddisp__array_clear(device->context, &list);
        return;
    }
    ddisp_error before = *ddisp__error();
    for (uint32_t i = 0; i < list.count; i++) {
        const struct ddisp__pending *entry = ddisp__array_at(&list, i);
        bool usable = !is_forked(device) && !is_lost(device);
        if (usable && !wait && query(device->stream, entry->ticket) != DDISP_STATUS_OK &&
            !is_lost(device) && put_back(device, entry))
            continue;
        if (usable && !is_lost(device))
            wait_for(device->stream, entry->ticket);
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
    if (!is_forked(device))
        ddisp__buffer_reap(device, false);
    ddisp_device_release(device);
    ddisp__error_restore(&before);
}

uint64_t ddisp_buffer_address(const ddisp_buffer *buffer)
{
    return buffer ? buffer->memory.address : 0;
}

uint64_t ddisp_buffer_size(const ddisp_buffer *buffer)
{
    return buffer ? buffer->memory.size_bytes : 0;
}
