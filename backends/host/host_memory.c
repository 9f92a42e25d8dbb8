/*
 * host_memory.c - device memory on the host: ordinary memory, committed by the system as it is
 * touched, and what fills and copies it.
 *
 * In: sizes, ranges, streams. Out: memory aligned to 256 bytes; filled or copied ranges, in stream
 * order. Giving memory back never needs memory or a thread: its operation is allocated with it.
 */
#include "host_internal.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256

/** Transfers up to here are done by one thread, larger ones by all. */
#define ALONE_BYTES (UINT64_C(1) << 20)
/** Threads take pieces that are multiples of this, so that patterns stay in phase. */
#define GRAIN_BYTES (UINT64_C(1) << 16)
/** Uploads up to here are copied when they are queued, so that they need not wait for the stream.
 */
#define STAGED_BYTES (UINT64_C(1) << 16)

typedef struct host_memory {
    host_operation operation; /* frees it */
    void *pointer;
} host_memory;

typedef struct transfer {
    unsigned char *destination;
    const unsigned char *source;
    uint64_t size_bytes;
} transfer;

typedef struct transfer_operation {
    host_operation operation;
    transfer transfer;
    unsigned char staged[]; /* source, when it was copied */
} transfer_operation;

typedef struct filling {
    unsigned char *destination;
    uint64_t size_bytes;
    unsigned char pattern[64]; /* repeated */
} filling;

typedef struct fill_operation {
    host_operation operation;
    filling filling;
} fill_operation;

static void *pointer_of(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static ddisp_status no_memory_to_queue(host_device *device, const char *what, size_t size_bytes)
{
    return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                        "host: no memory to queue %s (%zu bytes)", what, size_bytes);
}

/* ---- allocation ---- */

static void run_free(host_device *device, host_operation *operation)
{
    host_memory *memory = (host_memory *)operation;
    free(memory->pointer);
    backend_release(device->services, memory);
}

ddisp_status host__memory_allocate(void *device_handle, void *stream, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory)
{
    host_device *device = device_handle;
    (void)stream;
    if (size_bytes > device->memory_bytes) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0,
                            "host: %llu bytes asked for, the machine has %llu bytes of memory",
                            (unsigned long long)size_bytes,
                            (unsigned long long)device->memory_bytes);
    }
    host_memory *memory = backend_allocate(device->services, sizeof *memory);
    if (!memory) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for the handle of an allocation (%zu bytes)",
                            sizeof *memory);
    }
    int code = posix_memalign(&memory->pointer, ALIGNMENT, (size_t)size_bytes);
    if (code != 0) {
        backend_release(device->services, memory);
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, code,
                            "host: the system refused %llu bytes; the machine has %llu bytes of "
                            "memory in all",
                            (unsigned long long)size_bytes,
                            (unsigned long long)device->memory_bytes);
    }
    memory->operation.run = run_free;
    out_memory->address = (uint64_t)(uintptr_t)memory->pointer;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = memory;
    out_memory->host_pointer = memory->pointer;
    return DDISP_STATUS_OK;
}

void host__memory_free(void *device, void *stream, ddisp_backend_memory *memory)
{
    host_memory *own = memory->handle;
    if (!host__stream_defer(stream, &own->operation)) {
        run_free(device, &own->operation);
    }
}

ddisp_status host__memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                 ddisp_backend_memory *out_memory)
{
    (void)device;
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = NULL;
    out_memory->host_pointer = pointer_of(address);
    return DDISP_STATUS_OK;
}

/** Nothing to do: nothing was made. */
void host__memory_release_import(void *device, ddisp_backend_memory *memory)
{
    (void)device;
    (void)memory;
}

/* ---- transfers ---- */

static void transfer_part(void *user, uint64_t begin, uint64_t end)
{
    const transfer *it = user;
    memcpy(it->destination + begin, it->source + begin, (size_t)(end - begin));
}

static void run_transfer(host_device *device, host_operation *operation)
{
    transfer_operation *own = (transfer_operation *)operation;
    host__split(own->transfer.size_bytes, GRAIN_BYTES, ALONE_BYTES, transfer_part, &own->transfer);
    host__operation_done(device, operation);
}

/** Copies in stream order. staged: the source is read now. wait: returns when it is done. */
static ddisp_status transfer_on(host_device *device, host_stream *stream, transfer it, bool staged,
                                bool wait)
{
    if (host__stream_is_inline(stream)) {
        host__split(it.size_bytes, GRAIN_BYTES, ALONE_BYTES, transfer_part, &it);
        return DDISP_STATUS_OK;
    }
    size_t size_bytes = sizeof(transfer_operation) + (staged ? (size_t)it.size_bytes : 0);
    transfer_operation *own = backend_allocate(device->services, size_bytes);
    if (!own) {
        return no_memory_to_queue(device, "a copy", size_bytes);
    }
    own->operation.run = run_transfer;
    own->transfer = it;
    if (staged) {
        memcpy(own->staged, it.source, (size_t)it.size_bytes);
        own->transfer.source = own->staged;
    }
    uint64_t ticket;
    ddisp_status status = host__stream_submit(stream, &own->operation, &ticket);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, own);
        return status;
    }
    if (wait) {
        (void)host__stream_reach(stream, ticket, UINT64_MAX);
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__upload(void *device, void *stream, const ddisp_backend_range *destination,
                          const void *data)
{
    transfer it = {pointer_of(destination->address), data, destination->size_bytes};
    bool staged = it.size_bytes <= STAGED_BYTES;
    return transfer_on(device, stream, it, staged, !staged);
}

ddisp_status host__download(void *device, void *stream, const ddisp_backend_range *source,
                            void *data)
{
    transfer it = {data, pointer_of(source->address), source->size_bytes};
    return transfer_on(device, stream, it, false, true);
}

ddisp_status host__copy(void *device, void *stream, const ddisp_backend_range *destination,
                        const ddisp_backend_range *source)
{
    transfer it = {pointer_of(destination->address), pointer_of(source->address),
                   source->size_bytes};
    return transfer_on(device, stream, it, false, false);
}

/* ---- fills ---- */

static void fill_part(void *user, uint64_t begin, uint64_t end)
{
    const filling *it = user;
    const size_t step = sizeof it->pattern;
    unsigned char *destination = it->destination + begin;
    size_t rest = (size_t)(end - begin);
    if (memcmp(it->pattern, it->pattern + 1, step - 1) == 0) {
        memset(destination, it->pattern[0], rest);
        return;
    }
    for (; rest >= step; rest -= step, destination += step) {
        memcpy(destination, it->pattern, step);
    }
    memcpy(destination, it->pattern, rest);
}

static void run_fill(host_device *device, host_operation *operation)
{
    fill_operation *own = (fill_operation *)operation;
    host__split(own->filling.size_bytes, GRAIN_BYTES, ALONE_BYTES, fill_part, &own->filling);
    host__operation_done(device, operation);
}

ddisp_status host__fill(void *device_handle, void *stream, const ddisp_backend_range *destination,
                        uint64_t pattern, uint32_t pattern_size_bytes)
{
    host_device *device = device_handle;
    filling it = {.destination = pointer_of(destination->address),
                  .size_bytes = destination->size_bytes};
    for (size_t i = 0; i < sizeof it.pattern; i++) {
        it.pattern[i] = (unsigned char)(pattern >> (i % pattern_size_bytes * 8));
    }
    if (host__stream_is_inline(stream)) {
        host__split(it.size_bytes, GRAIN_BYTES, ALONE_BYTES, fill_part, &it);
        return DDISP_STATUS_OK;
    }
    fill_operation *own = backend_allocate(device->services, sizeof *own);
    if (!own) {
        return no_memory_to_queue(device, "a fill", sizeof *own);
    }
    own->operation.run = run_fill;
    own->filling = it;
    uint64_t ticket;
    ddisp_status status = host__stream_submit(stream, &own->operation, &ticket);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, own);
    }
    return status;
}
