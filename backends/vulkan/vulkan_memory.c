/*
 * vulkan_memory.c - buffers of the driver, and the memory that the core sees: allocated, freed in
 * stream order, imported by address, and found again from an address when something is to be
 * copied.
 */
#include "vulkan_internal.h"

#include <inttypes.h>
#include <string.h>

#define SHARED_BLOCK_BYTES (UINT64_C(64) << 20)
#define DEDICATED_BYTES    (UINT64_C(16) << 20) /* larger ones have a block of their own */

static VkResult bind_memory(vulkan__device *device, vulkan__purpose purpose, vulkan__buffer *buffer,
                            const char **out_function)
{
    const struct VolkDeviceTable *vk = &device->table;
    VkMemoryRequirements needs;
    vk->vkGetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = needs.size,
        .memoryTypeIndex = device->memory_types[purpose],
    };
    *out_function = "vkAllocateMemory";
    VkResult result = vk->vkAllocateMemory(device->handle, &info, NULL, &buffer->memory);
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY && purpose == VULKAN__PURPOSE_ARGUMENTS) {
        /* Device memory that the host sees may be scarce; any that the host sees will do. */
        info.memoryTypeIndex = device->memory_types[VULKAN__PURPOSE_UPLOAD];
        result = vk->vkAllocateMemory(device->handle, &info, NULL, &buffer->memory);
    }
    if (result != VK_SUCCESS) {
        buffer->memory = VK_NULL_HANDLE;
        return result;
    }
    *out_function = "vkBindBufferMemory";
    result = vk->vkBindBufferMemory(device->handle, buffer->handle, buffer->memory, 0);
    const VkMemoryPropertyFlags host =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (result != VK_SUCCESS ||
        (device->adapter->memory.memoryTypes[info.memoryTypeIndex].propertyFlags & host) != host)
        return result;
    void *mapped = NULL;
    *out_function = "vkMapMemory";
    result = vk->vkMapMemory(device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    buffer->mapped = mapped;
    return result;
}

VkResult vulkan__buffer_create(vulkan__device *device, vulkan__purpose purpose, uint64_t size_bytes,
                               vulkan__buffer *out_buffer, const char **out_function)
{
    const struct VolkDeviceTable *vk = &device->table;
    memset(out_buffer, 0, sizeof *out_buffer);
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size_bytes,
        .usage = VULKAN__BUFFER_USAGE,
    };
    *out_function = "vkCreateBuffer";
    VkResult result = vk->vkCreateBuffer(device->handle, &info, NULL, &out_buffer->handle);
    if (result != VK_SUCCESS) {
        out_buffer->handle = VK_NULL_HANDLE;
        return result;
    }
    result = bind_memory(device, purpose, out_buffer, out_function);
    if (result != VK_SUCCESS) {
        vulkan__buffer_destroy(device, out_buffer);
        return result;
    }
    const VkBufferDeviceAddressInfo where = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = out_buffer->handle,
    };
    out_buffer->address = vk->vkGetBufferDeviceAddress(device->handle, &where);
    out_buffer->size_bytes = size_bytes;
    return VK_SUCCESS;
}

void vulkan__buffer_destroy(vulkan__device *device, vulkan__buffer *buffer)
{
    if (buffer->handle)
        device->table.vkDestroyBuffer(device->handle, buffer->handle, NULL);
    if (buffer->memory) /* unmaps too */
        device->table.vkFreeMemory(device->handle, buffer->memory, NULL);
    memset(buffer, 0, sizeof *buffer);
}

static vulkan__segment *take(vulkan__device *device, vulkan__stream *stream, uint64_t size_bytes)
{
    pthread_mutex_lock(&device->lock);
    vulkan__segment *segment = vulkan__pool_take(device, stream, size_bytes);
    if (!segment) {
        vulkan__pool_reap(device);
        segment = vulkan__pool_take(device, stream, size_bytes);
    }
    device->reuses += segment != NULL;
    pthread_mutex_unlock(&device->lock);
    return segment;
}

/** Waits for everything that was submitted, so that all that was freed can be used again. */
static void reclaim(vulkan__device *device, vulkan__stream *stream)
{
    (void)vulkan__batch_submit(device, stream);
    VkResult result = vulkan__device_idle(device);
    if (result == VK_ERROR_DEVICE_LOST)
        atomic_store(&device->lost, true);
    pthread_mutex_lock(&device->lock);
    vulkan__pool_reap(device);
    vulkan__pool_trim(device); /* what is kept empty may be of the wrong sizes */
    pthread_mutex_unlock(&device->lock);
}

/** Allocates a block for size_bytes: a shared one where it fits. */
static VkResult create_block(vulkan__device *device, uint64_t size_bytes,
                             vulkan__buffer *out_buffer, bool *out_dedicated,
                             const char **out_function)
{
    uint64_t shared = SHARED_BLOCK_BYTES;
    if (shared > device->adapter->memory_bytes / 8)
        shared = device->adapter->memory_bytes / 8;
    *out_dedicated = size_bytes > DEDICATED_BYTES || size_bytes + VULKAN__GRANULE > shared;
    if (!*out_dedicated) {
        VkResult result =
            vulkan__buffer_create(device, VULKAN__PURPOSE_DEVICE, shared, out_buffer, out_function);
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY)
            return result;
        *out_dedicated = true; /* a small one may still fit */
    }
    /* The granule more makes room for a first segment that is aligned to it. */
    return vulkan__buffer_create(device, VULKAN__PURPOSE_DEVICE, size_bytes + VULKAN__GRANULE,
                                 out_buffer, out_function);
}

/** Takes a segment of a new block. */
static VkResult grow(vulkan__device *device, uint64_t size_bytes, vulkan__segment **out_segment,
                     const char **out_function)
{
    vulkan__buffer buffer;
    bool dedicated = false;
    VkResult result = create_block(device, size_bytes, &buffer, &dedicated, out_function);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&device->lock);
    *out_segment = vulkan__pool_add(device, &buffer, dedicated, size_bytes);
    pthread_mutex_unlock(&device->lock);
    if (*out_segment)
        return VK_SUCCESS;
    vulkan__buffer_destroy(device, &buffer);
    *out_function = "the host's allocator";
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static ddisp_status out_of_memory(vulkan__device *device, uint64_t size_bytes, VkResult result,
                                  const char *function)
{
    if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY)
        return vulkan__check(device, result, function);
    pthread_mutex_lock(&device->lock);
    uint64_t held = device->block_bytes;
    pthread_mutex_unlock(&device->lock);
    return backend_fail(
        device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, result,
        "%s: %" PRIu64 " bytes were asked for, of its %" PRIu64 " the library holds "
        "%" PRIu64 ": %s gave %s (%d)",
        device->adapter->properties.deviceName, size_bytes, device->adapter->memory_bytes, held,
        function, vulkan__result_name(result), (int)result);
}

ddisp_status vulkan__memory_allocate(void *device_handle, void *stream_handle, uint64_t size_bytes,
                                     ddisp_backend_memory *out_memory)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t limit = vulkan__adapter_max_allocation(device->adapter);
    if (size_bytes > limit)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0,
                            "%s: %" PRIu64 " bytes asked for, an allocation may have %" PRIu64,
                            device->adapter->properties.deviceName, size_bytes, limit);
    uint64_t rounded = (size_bytes + VULKAN__GRANULE - 1) / VULKAN__GRANULE * VULKAN__GRANULE;

    vulkan__segment *segment = take(device, stream, rounded);
    status = vulkan__alive(device); /* looking for a free one may have found it lost */
    if (!segment && status == DDISP_STATUS_OK) {
        const char *function = "";
        VkResult result = grow(device, rounded, &segment, &function);
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) {
            reclaim(device, stream);
            segment = take(device, stream, rounded);
            status = vulkan__alive(device);
            if (!segment && status == DDISP_STATUS_OK)
                result = grow(device, rounded, &segment, &function);
        }
        if (!segment && status == DDISP_STATUS_OK)
            status = out_of_memory(device, size_bytes, result, function);
    }
    if (!segment)
        return status;
    const vulkan__buffer *buffer = &segment->block->buffer;
    out_memory->address = buffer->address + segment->offset;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = segment;
    out_memory->host_pointer = buffer->mapped ? buffer->mapped + segment->offset : NULL;
    return DDISP_STATUS_OK;
}

void vulkan__memory_give(vulkan__device *device, vulkan__stream *stream,
                         ddisp_backend_memory *memory, uint64_t zeroed_bytes)
{
    vulkan__segment *segment = memory->handle;
    if (!segment)
        return;
    pthread_mutex_lock(&device->lock);
    segment->zeroed_bytes = zeroed_bytes;
    segment->ticket = vulkan__stream_next_ticket(stream);
    segment->next_pending = NULL;
    if (stream->pending_last)
        stream->pending_last->next_pending = segment;
    else
        stream->pending = segment;
    stream->pending_last = segment;
    pthread_mutex_unlock(&device->lock);
    memory->handle = NULL;
}

void vulkan__memory_free(void *device, void *stream, ddisp_backend_memory *memory)
{
    vulkan__memory_give(device, stream, memory, 0);
}

ddisp_status vulkan__memory_import(void *device_handle, uint64_t address, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory)
{
    ddisp_status status = vulkan__alive(device_handle);
    if (status != DDISP_STATUS_OK)
        return status;
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = NULL;
    out_memory->host_pointer = NULL;
    return DDISP_STATUS_OK;
}

void vulkan__memory_release_import(void *device, ddisp_backend_memory *memory)
{
    backend_release(((vulkan__device *)device)->services, memory->handle); /* of vulkan_wrap.c */
    memory->handle = NULL;
}

ddisp_status vulkan__memory_trim(void *device_handle)
{
    vulkan__device *device = device_handle;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK)
        return status;
    pthread_mutex_lock(&device->lock);
    vulkan__pool_reap(device);
    vulkan__pool_trim(device);
    pthread_mutex_unlock(&device->lock);
    return vulkan__alive(device);
}

ddisp_status vulkan__memory_figures(void *device_handle, ddisp_backend_memory_figures *figures)
{
    vulkan__device *device = device_handle;
    uint64_t used_bytes = 0;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->block_count; i++)
        used_bytes += device->blocks[i]->used_bytes;
    figures->reserved_bytes = device->block_bytes;
    figures->reserved_peak_bytes = device->block_bytes_peak;
    figures->reuses = device->reuses;
    pthread_mutex_unlock(&device->lock);
    figures->cached_bytes = figures->reserved_bytes - used_bytes;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__place_find(vulkan__device *device, const ddisp_backend_range *range,
                                const char *what, vulkan__place *out_place)
{
    vulkan__block *block = NULL;
    const vulkan__sink *sink = vulkan__sink_of(device, range);
    if (sink) {
        *out_place = (vulkan__place){sink->buffer, range->address - sink->address};
        return DDISP_STATUS_OK;
    }
    if (range->handle) {
        block = ((vulkan__segment *)range->handle)->block;
    } else {
        pthread_mutex_lock(&device->lock);
        block = vulkan__pool_find(device, range->address, range->size_bytes);
        pthread_mutex_unlock(&device->lock);
    }
    if (!block)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "%s: the %" PRIu64 " bytes at address 0x%" PRIx64
                            " are foreign memory: Vulkan copies between buffers, and this address "
                            "is in none that was allocated here; kernels can use it",
                            what, range->size_bytes, range->address);
    out_place->buffer = block->buffer.handle;
    out_place->offset = range->address - block->buffer.address;
    return DDISP_STATUS_OK;
}
