/*
 * cuda_launch.c - hands a kernel and its arguments to the driver.
 *
 * In: a launch that the core has checked. Out: queued or recorded work. The steady path allocates
 * nothing and makes one driver call besides asking for the current context: the block goes by
 * value, native arguments as they are. A block above the limit, or one whose address is a native
 * argument, is first copied, in stream order, to memory of the stream, and goes by pointer; the
 * stream's order keeps one launch from overwriting the block of another. Recorded launches own
 * their blocks.
 */
#include "cuda_code.h"

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

bool cuda__block_by_pointer(const ddisp_backend_launch *launch)
{
    const cuda__variant *variant = launch->variant;
    if (!variant->is_native) {
        return launch->block_size_bytes > CUDA__MAX_BLOCK_BYTES;
    }
    for (uint32_t i = 0; i < launch->native_count; i++) {
        if (launch->natives[i].arg->source == DDISP_SOURCE_BLOCK) {
            return true;
        }
    }
    return false;
}

ddisp_status cuda__arguments_fill(cuda__device *device, const ddisp_backend_launch *launch,
                                  cuda__arguments *arguments)
{
    const cuda__variant *variant = launch->variant;
    if (variant->is_native) {
        return cuda__native_fill(device->services, variant, launch, &arguments->block_address,
                                 arguments->parameters);
    }
    /* The driver copies what parameters point to before it returns; its type lacks the const. */
    memcpy(&arguments->parameters[0], &launch->block, sizeof arguments->parameters[0]);
    if (arguments->block_address) {
        arguments->parameters[0] = &arguments->block_address;
    }
    return DDISP_STATUS_OK;
}

/* With the context current. */
static ddisp_status launch_on(cuda__device *device, cuda__stream *stream,
                              const ddisp_backend_launch *launch)
{
    const cuda__variant *variant = launch->variant;
    cuda__arguments arguments;
    ddisp_status status = DDISP_STATUS_OK;
    arguments.block_address = 0;
    if (stream->recording) {
        status = cuda__graph_prepare(device, stream, launch, &arguments.block_address);
    } else if (cuda__block_by_pointer(launch)) {
        status = send_block(device, stream, launch);
        arguments.block_address = stream->block_address;
    }
    if (status == DDISP_STATUS_OK) {
        status = cuda__arguments_fill(device, launch, &arguments);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = device->api->launch_kernel(
        variant->function, launch->grid[0], launch->grid[1], launch->grid[2], launch->group_size[0],
        launch->group_size[1], launch->group_size[2], launch->shared_bytes, stream->handle,
        arguments.parameters, NULL);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuLaunchKernel");
    }
    return stream->recording ? cuda__graph_note(device, stream, arguments.block_address)
                             : DDISP_STATUS_OK;
}

ddisp_status cuda__launch(void *device_handle, void *stream_handle,
                          const ddisp_backend_launch *launch)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status == DDISP_STATUS_OK) {
        status = launch_on(device, stream_handle, launch);
        cuda__leave(device, &scope);
    }
    return status;
}
