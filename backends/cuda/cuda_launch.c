/*
 * cuda_launch.c - hands a kernel and its argument block to the driver.
 *
 * In: a launch that the core has checked. Out: queued work. The steady path allocates nothing and
 * makes one driver call besides asking for the current context: the block goes by value. A block
 * above the limit is first copied, in stream order, to memory of the stream, and goes by pointer;
 * the stream's order keeps one launch from overwriting the block of another.
 */
#include "cuda_internal.h"

#include <string.h>

/* Device memory for a block of this size; grows, never shrinks. */
static ddisp_status block_memory(cuda__device *device, cuda__stream *stream, uint64_t size_bytes)
{
    cu__address address = 0;
    uint64_t capacity_bytes = 2 * CUDA__MAX_BLOCK_BYTES;
    if (size_bytes <= stream->block_capacity_bytes) {
        return DDISP_STATUS_OK;
    }
    while (capacity_bytes < size_bytes) {
        capacity_bytes *= 2;
    }
    ddisp_status status = cuda__memory_take(device, stream, capacity_bytes, &address);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (stream->block_address) {
        cuda__memory_give(device, stream, stream->block_address);
    }
    stream->block_address = address;
    stream->block_capacity_bytes = capacity_bytes;
    return DDISP_STATUS_OK;
}

static ddisp_status send_block(cuda__device *device, cuda__stream *stream,
                               const ddisp_backend_launch *launch)
{
    if (launch->block_size_bytes > CUDA__STAGING_LIMIT_BYTES) {
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "the argument block has %u bytes, at most %llu are taken",
                            launch->block_size_bytes,
                            (unsigned long long)CUDA__STAGING_LIMIT_BYTES);
    }
    ddisp_status status = block_memory(device, stream, launch->block_size_bytes);
    if (status == DDISP_STATUS_OK) {
        status = cuda__staging_send(device, stream, stream->block_address, launch->block,
                                    launch->block_size_bytes);
    }
    return status;
}

ddisp_status cuda__launch(void *device_handle, void *stream_handle,
                          const ddisp_backend_launch *launch)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    const cuda__variant *variant = launch->variant;
    cuda__scope scope;
    void *parameters[1];
    if (launch->native_count != 0 || !launch->block) {
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "native arguments (%u) are not taken by cuda; use the standard "
                            "argument block",
                            launch->native_count);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    /* The driver copies what parameters point to before it returns; its type lacks the const. */
    memcpy(&parameters[0], &launch->block, sizeof parameters[0]);
    if (launch->block_size_bytes > CUDA__MAX_BLOCK_BYTES) {
        status = send_block(device, stream, launch);
        parameters[0] = &stream->block_address;
    }
    if (status == DDISP_STATUS_OK) {
        cu__result result = device->api->launch_kernel(
            variant->function, launch->grid[0], launch->grid[1], launch->grid[2],
            launch->group_size[0], launch->group_size[1], launch->group_size[2],
            launch->shared_bytes, stream->handle, parameters, NULL);
        if (result != CU__SUCCESS) {
            status = cuda__fail(device, result, "cuLaunchKernel");
        }
    }
    cuda__leave(device, &scope);
    return status;
}
