/*
 * cuda_transfer.c - copies and fills, all queued on the caller's stream.
 *
 * Whether an "Async" copy from host memory returns before the memory was read depends on the kind
 * of memory and on the system, so nothing is left to it: small uploads go through pinned memory of
 * our own and return at once, large ones and downloads wait for the stream.
 */
#include "cuda_internal.h"

static ddisp_status upload_large(cuda__device *device, cuda__stream *stream,
                                 const ddisp_backend_range *destination, const void *data)
{
    cu__result result = device->api->memcpy_htod_async(destination->address, data,
                                                       destination->size_bytes, stream->handle);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuMemcpyHtoDAsync");
    }
    result = device->api->stream_synchronize(stream->handle);
    return result == CU__SUCCESS ? DDISP_STATUS_OK
                                 : cuda__fail(device, result, "cuStreamSynchronize");
}

ddisp_status cuda__upload(void *device_handle, void *stream_handle,
                          const ddisp_backend_range *destination, const void *data)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    if (destination->size_bytes == 0) {
        return DDISP_STATUS_OK;
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (destination->size_bytes <= CUDA__STAGING_LIMIT_BYTES) {
        status = cuda__staging_send(device, stream_handle, destination->address, data,
                                    destination->size_bytes);
    } else {
        status = upload_large(device, stream_handle, destination, data);
    }
    cuda__leave(device, &scope);
    return status;
}

ddisp_status cuda__download(void *device_handle, void *stream_handle,
                            const ddisp_backend_range *source, void *data)
{
    cuda__device *device = device_handle;
    const cuda__stream *stream = stream_handle;
    cuda__scope scope;
    if (source->size_bytes == 0) {
        return DDISP_STATUS_OK;
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result =
        device->api->memcpy_dtoh_async(data, source->address, source->size_bytes, stream->handle);
    if (result != CU__SUCCESS) {
        status = cuda__fail(device, result, "cuMemcpyDtoHAsync");
        goto leave;
    }
    result = device->api->stream_synchronize(stream->handle);
    if (result != CU__SUCCESS) {
        status = cuda__fail(device, result, "cuStreamSynchronize");
    }
leave:
    cuda__leave(device, &scope);
    return status;
}

ddisp_status cuda__copy(void *device_handle, void *stream_handle,
                        const ddisp_backend_range *destination, const ddisp_backend_range *source)
{
    cuda__device *device = device_handle;
    const cuda__stream *stream = stream_handle;
    cuda__scope scope;
    if (source->size_bytes == 0) {
        return DDISP_STATUS_OK;
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = device->api->memcpy_dtod_async(destination->address, source->address,
                                                       source->size_bytes, stream->handle);
    if (result != CU__SUCCESS) {
        status = cuda__fail(device, result, "cuMemcpyDtoDAsync");
    }
    cuda__leave(device, &scope);
    return status;
}

/* ---- fill */

/* Elements written by the two strided fills; the rest is made by copying, which is faster and has
 * no limit on the number of rows. */
#define SEED_COUNT UINT64_C(65536)

/* Two different halves: the seed's low halves, its high halves, then doubling copies. */
static ddisp_status fill_wide(cuda__device *device, const cuda__stream *stream,
                              const ddisp_backend_range *destination, uint64_t pattern)
{
    const cu__api *api = device->api;
    uint64_t count = destination->size_bytes / 8;
    uint64_t seed = count < SEED_COUNT ? count : SEED_COUNT;
    cu__address address = destination->address;
    for (unsigned int half = 0; half < 2; half++) {
        cu__result result = api->memset_d2d32_async(
            address + half * 4, 8, (uint32_t)(pattern >> half * 32), 1, seed, stream->handle);
        if (result != CU__SUCCESS) {
            return cuda__fail(device, result, "cuMemsetD2D32Async");
        }
    }
    for (uint64_t done = seed * 8; done < count * 8;) {
        uint64_t piece = done < count * 8 - done ? done : count * 8 - done;
        cu__result result = api->memcpy_dtod_async(address + done, address, piece, stream->handle);
        if (result != CU__SUCCESS) {
            return cuda__fail(device, result, "cuMemcpyDtoDAsync");
        }
        done += piece;
    }
    return DDISP_STATUS_OK;
}

static ddisp_status fill_narrow(cuda__device *device, const cuda__stream *stream,
                                const ddisp_backend_range *destination, uint64_t pattern,
                                uint32_t pattern_size_bytes)
{
    const cu__api *api = device->api;
    cu__address address = destination->address;
    uint64_t size_bytes = destination->size_bytes;
    cu__result result;
    switch (pattern_size_bytes) {
    case 1:
        result = api->memset_d8_async(address, (uint8_t)pattern, size_bytes, stream->handle);
        return result == CU__SUCCESS ? DDISP_STATUS_OK
                                     : cuda__fail(device, result, "cuMemsetD8Async");
    case 2:
        result = api->memset_d16_async(address, (uint16_t)pattern, size_bytes / 2, stream->handle);
        return result == CU__SUCCESS ? DDISP_STATUS_OK
                                     : cuda__fail(device, result, "cuMemsetD16Async");
    default:
        result = api->memset_d32_async(address, (uint32_t)pattern, size_bytes / 4, stream->handle);
        return result == CU__SUCCESS ? DDISP_STATUS_OK
                                     : cuda__fail(device, result, "cuMemsetD32Async");
    }
}

/* The narrowest pattern that says the same: it takes every address. */
static uint32_t narrow(uint64_t pattern, uint32_t size_bytes)
{
    if (size_bytes == 8 && (uint32_t)pattern == (uint32_t)(pattern >> 32)) {
        size_bytes = 4;
    }
    if (size_bytes == 4 && (uint16_t)pattern == (uint16_t)(pattern >> 16)) {
        size_bytes = 2;
    }
    if (size_bytes == 2 && (uint8_t)pattern == (uint8_t)(pattern >> 8)) {
        size_bytes = 1;
    }
    return size_bytes;
}

ddisp_status cuda__fill(void *device_handle, void *stream_handle,
                        const ddisp_backend_range *destination, uint64_t pattern,
                        uint32_t pattern_size_bytes)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    if (destination->size_bytes == 0) {
        return DDISP_STATUS_OK;
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    uint32_t size_bytes = narrow(pattern, pattern_size_bytes);
    if (size_bytes == 8) {
        status = fill_wide(device, stream_handle, destination, pattern);
    } else {
        status = fill_narrow(device, stream_handle, destination, pattern, size_bytes);
    }
    cuda__leave(device, &scope);
    return status;
}
