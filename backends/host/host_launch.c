/*
 * host_launch.c - running host functions over their items, split over threads.
 *
 * In: a variant, the standard argument block, a number of items. Out: every item computed exactly
 * once. On a stream with a worker, or one that records, the block is copied, and the caller's may
 * go.
 */
#include "host_internal.h"

#include <omp.h>
#include <stdalign.h>
#include <string.h>

/** Launches up to here are one call: waking the other threads would take longer, except for
 * very heavy items. */
#define ALONE_ITEMS 64
/** Threads take multiples of this: elements of 4 bytes that share a cache line stay together. */
#define GRAIN_ITEMS 16
/** Pieces per thread. Several, so that threads that are held up get fewer. */
#define PIECES_PER_THREAD 8

typedef struct call {
    ddisp_host_function function;
    const struct ddisp_block *block;
} call;

typedef struct launch_operation {
    host_operation operation;
    ddisp_host_function function;
    uint64_t items;
    alignas(16) unsigned char block[];
} launch_operation;

void host__split(uint64_t count, uint64_t grain, uint64_t alone, host_body body, void *user)
{
    if (count == 0) {
        return;
    }
    /* OpenMP is not even asked for small work: that would make the thread known to it. */
    uint64_t threads = count > alone ? (uint64_t)omp_get_max_threads() : 1;
    if (threads < 2) {
        body(user, 0, count);
        return;
    }
    uint64_t piece = (count / (threads * PIECES_PER_THREAD) / grain + 1) * grain;
    uint64_t pieces = (count - 1) / piece + 1;
    /* Teams keep one size: libgomp ends and restarts threads when it changes. */
#pragma omp parallel for schedule(dynamic, 1)
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t begin = i * piece;
        body(user, begin, count - begin > piece ? begin + piece : count);
    }
}

static void call_part(void *user, uint64_t begin, uint64_t end)
{
    const call *it = user;
    it->function(it->block, begin, end);
}

static void run_items(ddisp_host_function function, const void *block, uint64_t items)
{
    call it = {function, block};
    host__split(items, GRAIN_ITEMS, ALONE_ITEMS, call_part, &it);
}

static void run_launch(host_device *device, host_operation *operation)
{
    launch_operation *own = (launch_operation *)operation;
    run_items(own->function, own->block, own->items);
    host__operation_done(device, operation);
}

ddisp_status host__launch_operation(host_device *device, const ddisp_backend_launch *launch,
                                    host_operation **out_operation)
{
    const host_variant *variant = launch->variant;
    if (variant->native) {
        return host__native_operation(device, launch, out_operation);
    }
    size_t size_bytes = sizeof(launch_operation) + launch->block_size_bytes;
    launch_operation *own = backend_allocate(device->services, size_bytes);
    if (!own) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a launch (%zu bytes)", size_bytes);
    }
    own->operation.run = run_launch;
    own->operation.is_launch = true;
    own->function = variant->function;
    own->items = launch->items;
    memcpy(own->block, launch->block, launch->block_size_bytes);
    *out_operation = &own->operation;
    return DDISP_STATUS_OK;
}

ddisp_status host__launch(void *device_handle, void *stream, const ddisp_backend_launch *launch)
{
    host_device *device = device_handle;
    const host_variant *variant = launch->variant;
    host_operation *operation = NULL;
    if (host__stream_is_inline(stream)) {
        if (variant->native) {
            return host__native_call(device, launch);
        }
        run_items(variant->function, launch->block, launch->items);
        return DDISP_STATUS_OK;
    }
    ddisp_status status = host__launch_operation(device, launch, &operation);
    return status == DDISP_STATUS_OK ? host__stream_run(device, stream, operation) : status;
}
