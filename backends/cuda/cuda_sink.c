/*
 * cuda_sink.c - the sink: a long range of addresses over two small blocks of device memory, for
 * gradients that nobody wants.
 *
 * The range is reserved once, as long as the device's memory, and mapped as far as it was asked
 * for, in place, so that its base never moves under work that uses it. The first 4 GiB show one
 * block of 2 MiB over and over, which stays in the cache; beyond, a block of 8 MiB keeps the number
 * of mappings small. Blocks are zeroed when they are made; afterwards their content means nothing.
 * The core calls acquire and trim under one lock, and trims when nothing uses the range.
 */
#include "cuda_internal.h"

#include <string.h>

#define NEAR_BYTES       (UINT64_C(4) << 30)
#define NEAR_BLOCK_BYTES (UINT64_C(2) << 20)
#define FAR_BLOCK_BYTES  (UINT64_C(8) << 20)

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static ddisp_status refuse(cuda__device *device, uint64_t size_bytes, cu__result result,
                           const char *call)
{
    char text[256];
    ddisp_status status = cuda__result_status(result);
    if (status == DDISP_STATUS_DEVICE_LOST) {
        return cuda__fail(device, result, call);
    }
    cuda__result_format(device->api, result, call, text, sizeof text);
    return backend_fail(device->services, status, result, "cuda:%d: no sink of %llu bytes: %s",
                        device->ordinal, (unsigned long long)size_bytes, text);
}

static cu__allocation_properties properties_of(const cuda__device *device)
{
    return (cu__allocation_properties){.type = CU__MEM_ALLOCATION_TYPE_PINNED,
                                       .location_type = CU__MEM_LOCATION_TYPE_DEVICE,
                                       .location_id = device->handle};
}

/* The block that the address at this distance from the base shows. */
static cuda__sink_block *block_at(cuda__sink *sink, uint64_t offset_bytes)
{
    return &sink->blocks[offset_bytes < NEAR_BYTES ? 0 : 1];
}

static ddisp_status reserve(cuda__device *device, uint64_t size_bytes)
{
    cuda__sink *sink = &device->sink;
    cu__allocation_properties properties = properties_of(device);
    size_t granularity_bytes = 0;
    if (sink->base) {
        return DDISP_STATUS_OK;
    }
    cu__result result = device->api->mem_get_allocation_granularity(
        &granularity_bytes, (const struct CUmemAllocationProp_st *)(const void *)&properties,
        CU__MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CU__SUCCESS) {
        return refuse(device, size_bytes, result, "cuMemGetAllocationGranularity");
    }
    uint64_t near_bytes = round_up(NEAR_BLOCK_BYTES, granularity_bytes);
    uint64_t far_bytes = round_up(FAR_BLOCK_BYTES, granularity_bytes);
    uint64_t reserved_bytes = round_up(device->memory_bytes, far_bytes);
    result = device->api->mem_address_reserve(&sink->base, reserved_bytes, 0, 0, 0);
    if (result != CU__SUCCESS) {
        sink->base = 0;
        return refuse(device, size_bytes, result, "cuMemAddressReserve");
    }
    sink->reserved_bytes = reserved_bytes;
    sink->blocks[0].size_bytes = near_bytes;
    sink->blocks[1].size_bytes = far_bytes;
    return DDISP_STATUS_OK;
}

static ddisp_status make_block(cuda__device *device, cuda__sink_block *block, uint64_t size_bytes)
{
    cu__allocation_properties properties = properties_of(device);
    if (block->made) {
        return DDISP_STATUS_OK;
    }
    cu__result result = device->api->mem_create(
        &block->allocation, block->size_bytes,
        (const struct CUmemAllocationProp_st *)(const void *)&properties, 0);
    if (result != CU__SUCCESS) {
        return refuse(device, size_bytes, result, "cuMemCreate");
    }
    block->made = true;
    return DDISP_STATUS_OK;
}

/* Zeroes a block through the addresses that show it. Waits, on a stream of its own: there may be
 * work on all others. */
static ddisp_status zero_block(cuda__device *device, cuda__sink_block *block, cu__address address,
                               uint64_t size_bytes)
{
    const cu__api *api = device->api;
    cu__stream stream = NULL;
    const char *call = "cuStreamCreate";
    if (block->zeroed) {
        return DDISP_STATUS_OK;
    }
    cu__result result = api->stream_create(&stream, CU__STREAM_NON_BLOCKING);
    if (result != CU__SUCCESS) {
        return refuse(device, size_bytes, result, call);
    }
    call = "cuMemsetD8Async";
    result = api->memset_d8_async(address, 0, block->size_bytes, stream);
    if (result == CU__SUCCESS) {
        call = "cuStreamSynchronize";
        result = api->stream_synchronize(stream);
    }
    ddisp_status status =
        result == CU__SUCCESS ? DDISP_STATUS_OK : refuse(device, size_bytes, result, call);
    if (!cuda__driver_lost(device->ordinal)) {
        cuda__note(device, api->stream_destroy(stream), "cuStreamDestroy");
    }
    block->zeroed = status == DDISP_STATUS_OK;
    return status;
}

/* Takes mappings off until `keep_bytes` are left, and gives back blocks that nothing shows. */
static void shrink(cuda__device *device, uint64_t keep_bytes)
{
    cuda__sink *sink = &device->sink;
    while (sink->mapped_bytes > keep_bytes && !cuda__driver_lost(device->ordinal)) {
        uint64_t piece_bytes = block_at(sink, sink->mapped_bytes - 1)->size_bytes;
        sink->mapped_bytes -= piece_bytes;
        cuda__note(device, device->api->mem_unmap(sink->base + sink->mapped_bytes, piece_bytes),
                   "cuMemUnmap");
    }
    for (int i = 0; i < 2; i++) {
        cuda__sink_block *block = &sink->blocks[i];
        bool shown = i == 0 ? keep_bytes > 0 : keep_bytes > NEAR_BYTES;
        if (block->made && !shown && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->mem_release(block->allocation), "cuMemRelease");
            block->made = block->zeroed = false;
        }
    }
}

static ddisp_status grow(cuda__device *device, uint64_t size_bytes)
{
    cuda__sink *sink = &device->sink;
    cu__access access = {.location_type = CU__MEM_LOCATION_TYPE_DEVICE,
                         .location_id = device->handle,
                         .flags = CU__MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t begin_bytes = sink->mapped_bytes;
    while (sink->mapped_bytes < size_bytes) {
        cuda__sink_block *block = block_at(sink, sink->mapped_bytes);
        ddisp_status status = make_block(device, block, size_bytes);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        cu__result result = device->api->mem_map(sink->base + sink->mapped_bytes, block->size_bytes,
                                                 0, block->allocation, 0);
        if (result != CU__SUCCESS) {
            return refuse(device, size_bytes, result, "cuMemMap");
        }
        sink->mapped_bytes += block->size_bytes;
    }
    if (sink->mapped_bytes == begin_bytes) {
        return DDISP_STATUS_OK;
    }
    cu__result result =
        device->api->mem_set_access(sink->base + begin_bytes, sink->mapped_bytes - begin_bytes,
                                    (const struct CUmemAccessDesc_st *)(const void *)&access, 1);
    if (result != CU__SUCCESS) {
        return refuse(device, size_bytes, result, "cuMemSetAccess");
    }
    ddisp_status status = zero_block(device, &sink->blocks[0], sink->base, size_bytes);
    if (status == DDISP_STATUS_OK && sink->blocks[1].made) {
        status = zero_block(device, &sink->blocks[1], sink->base + NEAR_BYTES, size_bytes);
    }
    return status;
}

ddisp_status cuda__sink_acquire(void *device_handle, uint64_t size_bytes, uint64_t flags,
                                ddisp_backend_range *out_range, uint64_t *out_physical_bytes)
{
    cuda__device *device = device_handle;
    cuda__sink *sink = &device->sink;
    cuda__scope scope;
    (void)flags; /* aliases of memory compare and swap as memory does */
    if (!device->virtual_memory) {
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "cuda:%d: no sink: the device does not manage virtual memory",
                            device->ordinal);
    }
    if (size_bytes > device->memory_bytes) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0,
                            "cuda:%d: a sink of %llu bytes was asked for, the longest has %llu",
                            device->ordinal, (unsigned long long)size_bytes,
                            (unsigned long long)device->memory_bytes);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    uint64_t before_bytes = sink->mapped_bytes;
    status = reserve(device, size_bytes);
    if (status == DDISP_STATUS_OK) {
        status = grow(device, size_bytes);
        if (status != DDISP_STATUS_OK) {
            shrink(device, before_bytes);
        }
    }
    cuda__leave(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    *out_range = (ddisp_backend_range){.address = sink->base, .size_bytes = sink->mapped_bytes};
    *out_physical_bytes = 0;
    for (int i = 0; i < 2; i++) {
        *out_physical_bytes += sink->blocks[i].made ? sink->blocks[i].size_bytes : 0;
    }
    return DDISP_STATUS_OK;
}

void cuda__sink_release(cuda__device *device)
{
    cuda__sink *sink = &device->sink;
    shrink(device, 0);
    if (sink->base && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->mem_address_free(sink->base, sink->reserved_bytes),
                   "cuMemAddressFree");
    }
    memset(sink, 0, sizeof *sink);
}

void cuda__sink_trim(void *device_handle)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    if (device->sink.base && cuda__enter_release(device, &scope)) {
        cuda__sink_release(device);
        cuda__leave(device, &scope);
    }
}
