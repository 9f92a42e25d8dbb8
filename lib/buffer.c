/*
 * buffer.c - ranges of device memory, owned or lent by the caller, and their place in the order of
 * streams.
 *
 * Memory is allocated on one stream, the creation stream. Another stream that uses the buffer first
 * waits for the creation stream and is noted, so that buffer_release.c knows what to wait for. In
 * come sizes and ranges, checked against the device and the buffer; nothing here knows what the
 * bytes mean.
 */
#include "capture.h"
#include "lower.h"

/* From here on, streams whose work is done are dropped from a buffer's uses. */
#define MANY_USES 8u

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

void ddisp__buffer_free(ddisp_context *context, ddisp_buffer *buffer)
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

static ddisp_status allocate(ddisp_stream *stream, uint64_t size_bytes,
                             ddisp_backend_memory *out_memory)
{
    ddisp_device *device = stream->device;
    ddisp_status status = ddisp__pool_enter(device, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->memory_allocate(device->handle, stream->handle, size_bytes, out_memory);
    (void)pthread_mutex_unlock(&stream->lock);
    status = ddisp__device_result(device, status);
    if (status != DDISP_STATUS_OK) {
        ddisp__pool_leave(device, size_bytes);
        return status;
    }
    out_memory->size_bytes = size_bytes;
    ddisp__pool_keep_limit(device);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__buffer_create_on(ddisp_stream *stream, uint64_t size_bytes,
                                     ddisp__purpose purpose, ddisp_buffer **out_buffer)
{
    ddisp_device *device = stream->device;
    struct ddisp__capture *capture = stream->capture;
    ddisp_status status = ddisp__device_check(device, "device");
    if (status == DDISP_STATUS_OK)
        status = check_size(device, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    if (capture) /* memory is not recorded: it is taken now and kept by the graph */
        stream = device->stream;
    ddisp_buffer *buffer = new_buffer(device);
    if (!buffer)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a buffer");

    if (size_bytes != 0) {
        status = allocate(stream, size_bytes, &buffer->memory);
        if (status != DDISP_STATUS_OK) {
            ddisp__buffer_free(device->context, buffer);
            return status;
        }
        ddisp__buffer_count(device, purpose, size_bytes, true);
    }
    buffer->purpose = purpose;
    ddisp_stream_retain(stream);
    buffer->creation = stream;
    ddisp_device_retain(device);
    if (capture)
        status = ddisp__capture_buffer(capture, buffer);
    if (status == DDISP_STATUS_OK)
        *out_buffer = buffer;
    else
        ddisp_buffer_release(buffer);
    return status;
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

/* A buffer over lent memory: of `native`, or else what lies at address. */
static ddisp_status wrap(ddisp_device *device, const ddisp_chain *native, uint64_t address,
                         uint64_t size_bytes, ddisp_release_function release, void *user_data,
                         ddisp_buffer **out_buffer)
{
    ddisp__buffer_reap(device, false);
    ddisp_buffer *buffer = new_buffer(device);
    if (!buffer)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a buffer");
    if (size_bytes != 0) {
        const ddisp_backend_table *table = device->table;
        ddisp_status status = ddisp__device_result(
            device,
            native ? table->memory_wrap(device->handle, native, size_bytes, &buffer->memory)
                   : table->memory_import(device->handle, address, size_bytes, &buffer->memory));
        if (status != DDISP_STATUS_OK) {
            ddisp__buffer_free(device->context, buffer);
            return status;
        }
        buffer->memory.size_bytes = size_bytes;
        if (!native)
            buffer->memory.address = address;
    }
    buffer->foreign = true;
    buffer->release = release;
    buffer->release_user_data = user_data;
    ddisp_device_retain(device);
    *out_buffer = buffer;
    return DDISP_STATUS_OK;
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
    return wrap(device, NULL, address, size_bytes, release, user_data, out_buffer);
}

ddisp_status ddisp_buffer_wrap_native(ddisp_device *device, const ddisp_chain *native,
                                      uint64_t size_bytes, ddisp_release_function release,
                                      void *user_data, ddisp_buffer **out_buffer)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    if (!native || !out_buffer)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL",
                           native ? "out_buffer" : "native");
    if (!ddisp__table_offers(device->table, memory_wrap))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "buffers of device %s are addresses; use ddisp_buffer_wrap",
                           device->info.spec);
    return wrap(device, native, 0, size_bytes, release, user_data, out_buffer);
}

/* ---- use */

/* Forgets use i when the stream's work is done. Whoever relies on what was noted compares the
 * stream's notes under its lock, and is told here to note again. Buffer is locked. */
static bool drop_done_use(ddisp_buffer *buffer, uint32_t i, ddisp_stream *stream)
{
    const ddisp_backend_table *table = stream->device->table;
    void *device = stream->device->handle;
    uint64_t ticket = stream->capture_ticket;
    ddisp_status status = DDISP_STATUS_OK;
    (void)pthread_mutex_lock(&stream->lock);
    if (!stream->capture)
        status = table->stream_mark(device, stream->handle, &ticket);
    if (status == DDISP_STATUS_OK)
        status = table->stream_query(device, stream->handle, ticket);
    if (status == DDISP_STATUS_OK) {
        atomic_store_explicit(&buffer->last_use, NULL, memory_order_relaxed);
        ddisp__array_remove(&buffer->uses, i);
        atomic_store_explicit(&stream->notes, ddisp__stream_fresh_notes(), memory_order_release);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(stream->device, status) == DDISP_STATUS_OK;
}

/* Forgets streams whose work is done, so that a buffer that lives long does not collect every
 * stream that ever used it. Buffer is locked. */
static void drop_done_uses(ddisp_buffer *buffer)
{
    for (uint32_t i = buffer->uses.count; i-- > 0;) {
        ddisp_stream *stream = *(ddisp_stream **)ddisp__array_at(&buffer->uses, i);
        if (ddisp__device_check(stream->device, "device") == DDISP_STATUS_OK &&
            drop_done_use(buffer, i, stream))
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
        if (*(ddisp_stream **)ddisp__array_at(&buffer->uses, i) == stream) {
            atomic_store_explicit(&buffer->last_use, stream, memory_order_release);
            return DDISP_STATUS_OK;
        }
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
    atomic_store_explicit(&buffer->last_use, stream, memory_order_release);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__buffer_use(ddisp_buffer *buffer, ddisp_stream *stream)
{
    ddisp_status status = ddisp__device_check(buffer->device, "device");
    if (status == DDISP_STATUS_OK && stream->capture)
        return ddisp__capture_buffer(stream->capture, buffer);
    if (status != DDISP_STATUS_OK || buffer->memory.size_bytes == 0 ||
        (stream == buffer->creation && !buffer->foreign))
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
    if (status == DDISP_STATUS_OK)
        status = ddisp__capture_refuse(*stream, "a copy to or from the host");
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
    status = ddisp__watch_check(stream);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_device *device = buffer->device;
    (void)pthread_mutex_lock(&stream->lock);
    status = device->table->download(device->handle, stream->handle, &range, data);
    (void)pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

uint64_t ddisp_buffer_address(const ddisp_buffer *buffer)
{
    return buffer ? buffer->memory.address : 0;
}

uint64_t ddisp_buffer_size(const ddisp_buffer *buffer)
{
    return buffer ? buffer->memory.size_bytes : 0;
}
