/*
 * cuda_memory.c - device memory: taken from and given back to a pool in stream order, so that the
 * steady state allocates nothing.
 *
 * In: sizes and streams. Out: addresses. Running out of memory waits for all streams of the
 * device, gives the pool's unused memory back and tries once more. Devices without pools get plain
 * allocations, which are freed when their stream has passed the point of the free. Imported memory
 * is an address and never touched here.
 */
#include "cuda_internal.h"

#include <inttypes.h>

/* ---- devices without memory pools */

void cuda__memory_reap(cuda__device *device, cuda__stream *stream, bool wait)
{
    while (stream->deferred) {
        cuda__allocation *allocation = stream->deferred;
        ddisp_status status = wait ? cuda__stream_await(device, stream, allocation->ticket)
                                   : cuda__stream_test(device, stream, allocation->ticket);
        if (status == DDISP_STATUS_NOT_READY || cuda__driver_lost(device->ordinal)) {
            return;
        }
        cuda__note(device, device->api->mem_free(allocation->address), "cuMemFree");
        stream->deferred = allocation->next;
        backend_release(device->services, allocation);
    }
}

static void defer(cuda__device *device, cuda__stream *stream, cuda__allocation *allocation)
{
    cuda__allocation **end = &stream->deferred;
    ddisp_status status = cuda__stream_record(device, stream, &allocation->ticket);
    if (status != DDISP_STATUS_OK) {
        if (!cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->stream_synchronize(stream->handle),
                       "cuStreamSynchronize");
        }
        if (!cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->mem_free(allocation->address), "cuMemFree");
        }
        backend_release(device->services, allocation);
        return;
    }
    while (*end) {
        end = &(*end)->next;
    }
    *end = allocation;
}

/* ---- taking and giving */

static cu__result take(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                       cu__address *out_address)
{
    if (device->pool) {
        return device->api->mem_alloc_from_pool_async(out_address, size_bytes, device->pool,
                                                      stream->handle);
    }
    return device->api->mem_alloc(out_address, size_bytes);
}

/* Memory that was freed counts as used until its stream was seen to pass the free. */
static ddisp_status trim(cuda__device *device)
{
    cu__result result = CU__SUCCESS;
    pthread_mutex_lock(&device->lock);
    for (cuda__stream *each = device->streams; each && result == CU__SUCCESS; each = each->next) {
        if (!each->recording) { /* what is recorded holds no memory that waits for it */
            result = device->api->stream_synchronize(each->handle);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuStreamSynchronize");
    }
    result = device->api->mem_pool_trim_to(device->pool, 0);
    return result == CU__SUCCESS ? DDISP_STATUS_OK : cuda__fail(device, result, "cuMemPoolTrimTo");
}

static ddisp_status refuse(cuda__device *device, uint64_t size_bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    cu__result result = device->api->mem_get_info(&free_bytes, &total_bytes);
    if (cuda__result_status(result) == DDISP_STATUS_DEVICE_LOST) {
        return cuda__fail(device, result, "cuMemGetInfo");
    }
    if (result != CU__SUCCESS) {
        return backend_fail(
            device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, CU__ERROR_OUT_OF_MEMORY,
            "cuda:%d: no %" PRIu64 " bytes of device memory left", device->ordinal, size_bytes);
    }
    return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
                        CU__ERROR_OUT_OF_MEMORY,
                        "cuda:%d: %" PRIu64 " bytes were asked for, %zu of %zu are free",
                        device->ordinal, size_bytes, free_bytes, total_bytes);
}

ddisp_status cuda__memory_take(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                               cu__address *out_address)
{
    const char *call = device->pool ? "cuMemAllocFromPoolAsync" : "cuMemAlloc";
    if (size_bytes > device->memory_bytes) {
        return refuse(device, size_bytes);
    }
    /* Adds to halves compare and swap the word around them, which must be there. */
    size_bytes = (size_bytes + 3) & ~UINT64_C(3);
    cu__result result = take(device, stream, size_bytes, out_address);
    if (result == CU__ERROR_OUT_OF_MEMORY) {
        ddisp_status status = DDISP_STATUS_OK;
        if (device->pool) {
            status = trim(device);
        } else {
            cuda__memory_reap(device, stream, true);
        }
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        result = take(device, stream, size_bytes, out_address);
    }
    if (result == CU__ERROR_OUT_OF_MEMORY) {
        return refuse(device, size_bytes);
    }
    return result == CU__SUCCESS ? DDISP_STATUS_OK : cuda__fail(device, result, call);
}

void cuda__memory_give(cuda__device *device, cuda__stream *stream, cu__address address)
{
    if (device->pool) {
        cuda__note(device, device->api->mem_free_async(address, stream->handle), "cuMemFreeAsync");
        return;
    }
    cuda__note(device, device->api->stream_synchronize(stream->handle), "cuStreamSynchronize");
    if (!cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->mem_free(address), "cuMemFree");
    }
}

/* Says nothing when the driver does not tell: only counters depend on it. */
static bool read_pool(cuda__device *device, unsigned int attribute, uint64_t *out_value)
{
    *out_value = 0;
    cu__result result = device->api->mem_pool_get_attribute(device->pool, attribute, out_value);
    if (cuda__result_status(result) == DDISP_STATUS_DEVICE_LOST) {
        cuda__note(device, result, "cuMemPoolGetAttribute");
    }
    return result == CU__SUCCESS;
}

static void count_reuse(cuda__device *device)
{
    uint64_t now;
    if (cuda__driver_lost(device->ordinal) ||
        !read_pool(device, CU__MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now)) {
        return;
    }
    if (now <= atomic_exchange_explicit(&device->reserved_bytes, now, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&device->reuses, 1, memory_order_relaxed);
    }
}

/* ---- the table's functions */

ddisp_status cuda__memory_allocate(void *device_handle, void *stream_handle, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__allocation *allocation = NULL;
    cuda__scope scope;
    cu__address address = 0;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (!device->pool) {
        /* Made now, so that freeing needs no memory. */
        cuda__memory_reap(device, stream, false);
        allocation = backend_allocate(device->services, sizeof *allocation);
        if (!allocation) {
            status = backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                  "cuda:%d: no host memory for an allocation", device->ordinal);
            goto leave;
        }
    }
    status = cuda__memory_take(device, stream, size_bytes, &address);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, allocation);
        goto leave;
    }
    if (allocation) {
        allocation->address = address;
    } else {
        count_reuse(device);
    }
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = allocation;
    out_memory->host_pointer = NULL;
leave:
    cuda__leave(device, &scope);
    return status;
}

void cuda__memory_free(void *device_handle, void *stream_handle, ddisp_backend_memory *memory)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    if (!cuda__enter_release(device, &scope)) {
        backend_release(device->services, memory->handle);
        return;
    }
    if (device->pool) {
        cuda__memory_give(device, stream_handle, memory->address);
    } else {
        defer(device, stream_handle, memory->handle);
    }
    cuda__leave(device, &scope);
}

ddisp_status cuda__memory_import(void *device_handle, uint64_t address, uint64_t size_bytes,
                                 ddisp_backend_memory *out_memory)
{
    (void)device_handle;
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = NULL;
    out_memory->host_pointer = NULL;
    return DDISP_STATUS_OK;
}

void cuda__memory_release_import(void *device_handle, ddisp_backend_memory *memory)
{
    (void)device_handle;
    (void)memory;
}

ddisp_status cuda__memory_trim(void *device_handle)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = device->pool ? trim(device) : DDISP_STATUS_OK;
    cuda__leave(device, &scope);
    return status;
}

ddisp_status cuda__memory_figures(void *device_handle, ddisp_backend_memory_figures *figures)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    uint64_t used = 0;
    if (!device->pool) {
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "cuda:%d has no memory pools", device->ordinal);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    bool read =
        read_pool(device, CU__MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &figures->reserved_bytes) &&
        read_pool(device, CU__MEMPOOL_ATTR_RESERVED_MEM_HIGH, &figures->reserved_peak_bytes) &&
        read_pool(device, CU__MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    cuda__leave(device, &scope);
    figures->cached_bytes = figures->reserved_bytes > used ? figures->reserved_bytes - used : 0;
    figures->reuses = atomic_load_explicit(&device->reuses, memory_order_relaxed);
    return read ? DDISP_STATUS_OK
                : backend_fail(device->services, DDISP_STATUS_DRIVER_ERROR, 0,
                               "cuda:%d: the driver does not tell about its pool", device->ordinal);
}
