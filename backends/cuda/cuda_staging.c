/*
 * cuda_staging.c - a ring of pinned host memory per stream, through which small pieces (argument
 * blocks that go by pointer, small uploads) are sent without waiting.
 *
 * In: bytes that the caller may reuse at once. Out: a queued copy. The ring is cut into segments;
 * a segment is written again only after the copies that read it are done. Used by the stream's own
 * calls alone, so it needs no lock.
 */
#include "cuda_internal.h"

#include <string.h>

/* A segment's end costs an event, so there is room for many pieces: 25 blocks of 32 tensors. */
#define SEGMENT_COUNT UINT64_C(4)
#define SEGMENT_BYTES UINT64_C(262144)

struct cuda__staging {
    unsigned char *memory;
    uint64_t segment;
    uint64_t used_bytes;             /* of the segment */
    uint64_t tickets[SEGMENT_COUNT]; /* end of the copies out of each segment */
};

static ddisp_status make(cuda__device *device, cuda__stream *stream)
{
    void *memory = NULL;
    cuda__staging *staging = backend_allocate(device->services, sizeof *staging);
    if (!staging) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory for staging", device->ordinal);
    }
    cu__result result = device->api->mem_host_alloc(&memory, SEGMENT_COUNT * SEGMENT_BYTES, 0);
    if (result != CU__SUCCESS) {
        backend_release(device->services, staging);
        if (result == CU__ERROR_OUT_OF_MEMORY) {
            return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, result,
                                "cuda:%d: no %llu bytes of pinned host memory for staging",
                                device->ordinal,
                                (unsigned long long)(SEGMENT_COUNT * SEGMENT_BYTES));
        }
        return cuda__fail(device, result, "cuMemHostAlloc");
    }
    staging->memory = memory;
    stream->staging = staging;
    return DDISP_STATUS_OK;
}

static ddisp_status advance(cuda__device *device, cuda__stream *stream)
{
    cuda__staging *staging = stream->staging;
    uint64_t next = (staging->segment + 1) % SEGMENT_COUNT;
    ddisp_status status = cuda__stream_record(device, stream, &staging->tickets[staging->segment]);
    if (status == DDISP_STATUS_OK) {
        status = cuda__stream_await(device, stream, staging->tickets[next]);
    }
    if (status == DDISP_STATUS_OK) {
        staging->segment = next;
        staging->used_bytes = 0;
    }
    return status;
}

ddisp_status cuda__staging_send(cuda__device *device, cuda__stream *stream, cu__address destination,
                                const void *data, uint64_t size_bytes)
{
    ddisp_status status = stream->staging ? DDISP_STATUS_OK : make(device, stream);
    if (status == DDISP_STATUS_OK && stream->staging->used_bytes + size_bytes > SEGMENT_BYTES) {
        status = advance(device, stream);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__staging *staging = stream->staging;
    unsigned char *piece = staging->memory + staging->segment * SEGMENT_BYTES + staging->used_bytes;
    memcpy(piece, data, size_bytes);
    cu__result result =
        device->api->memcpy_htod_async(destination, piece, size_bytes, stream->handle);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuMemcpyHtoDAsync");
    }
    staging->used_bytes += (size_bytes + 63) / 64 * 64;
    return DDISP_STATUS_OK;
}

void cuda__staging_release(cuda__device *device, cuda__stream *stream, bool lost)
{
    cuda__staging *staging = stream->staging;
    if (staging && !lost) {
        cuda__note(device, device->api->mem_free_host(staging->memory), "cuMemFreeHost");
    }
    backend_release(device->services, staging);
    stream->staging = NULL;
}
