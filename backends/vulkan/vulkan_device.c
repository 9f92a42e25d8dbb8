/*
 * vulkan_device.c - opening and closing a device: its features, queues, memory types and the
 * pipeline layout of entries that take the standard argument block. Closing must work on a lost
 * device.
 */
#include "vulkan_internal.h"

#include <string.h>

static ddisp_status create(vulkan__device *device)
{
    const vulkan__adapter *adapter = device->adapter;
    vulkan__feature_chain have, want;
    vulkan__features_link(&have, adapter->api_version, adapter->extensions);
    vkGetPhysicalDeviceFeatures2(adapter->handle, &have.core);
    vulkan__features_want(&have, adapter->api_version, adapter->extensions, &want);
    const char *names[16];
    uint32_t name_count = vulkan__features_extension_names(adapter->extensions, names);

    float priorities[VULKAN__MAX_QUEUES];
    for (uint32_t i = 0; i < VULKAN__MAX_QUEUES; i++)
        priorities[i] = 1.0f;
    const VkDeviceQueueCreateInfo queues = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = adapter->queue_family,
        .queueCount = adapter->queue_count,
        .pQueuePriorities = priorities,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &want.core,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queues,
        .enabledExtensionCount = name_count,
        .ppEnabledExtensionNames = names,
    };
    VkResult result = vkCreateDevice(adapter->handle, &info, NULL, &device->handle);
    if (result != VK_SUCCESS) {
        device->handle = VK_NULL_HANDLE;
        return vulkan__check(device, result, "vkCreateDevice");
    }
    volkLoadDeviceTable(&device->table, device->handle);
    vulkan__labels_open(device, device->instance->handle);
    vulkan__exit_add(device);
    device->queue_count = adapter->queue_count;
    for (uint32_t i = 0; i < device->queue_count; i++) {
        device->table.vkGetDeviceQueue(device->handle, adapter->queue_family, i,
                                       &device->queues[i].handle);
        (void)pthread_mutex_init(&device->queues[i].lock, NULL);
    }
    return DDISP_STATUS_OK;
}

/** The type among `allowed` with all of `required`, most of `wanted` and least of `unwanted`; the
 * first of equals. */
static bool choose_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed,
                        VkMemoryPropertyFlags required, VkMemoryPropertyFlags wanted,
                        VkMemoryPropertyFlags unwanted, uint32_t *out_type)
{
    const VkMemoryPropertyFlags never =
        VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
    int best = -1;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || (flags & required) != required || (flags & never))
            continue;
        int score =
            2 * __builtin_popcount(flags & wanted) + 4 - __builtin_popcount(flags & unwanted);
        if (score <= best)
            continue;
        best = score;
        *out_type = i;
    }
    return best >= 0;
}

/** Which memory buffers of each purpose lie in. A buffer must be asked: the usage decides. */
static ddisp_status choose_types(vulkan__device *device)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags host =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkPhysicalDeviceMemoryProperties *memory = &device->adapter->memory;
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = 256,
        .usage = VULKAN__BUFFER_USAGE,
    };
    VkBuffer probe = VK_NULL_HANDLE;
    ddisp_status status =
        vulkan__check(device, device->table.vkCreateBuffer(device->handle, &info, NULL, &probe),
                      "vkCreateBuffer");
    if (status != DDISP_STATUS_OK)
        return status;
    VkMemoryRequirements needs;
    device->table.vkGetBufferMemoryRequirements(device->handle, probe, &needs);
    device->table.vkDestroyBuffer(device->handle, probe, NULL);

    uint32_t *types = device->memory_types;
    uint32_t allowed = needs.memoryTypeBits;
    bool found =
        choose_type(memory, allowed, local, 0, cached, &types[VULKAN__PURPOSE_DEVICE]) &&
        choose_type(memory, allowed, host, local, cached, &types[VULKAN__PURPOSE_ARGUMENTS]) &&
        choose_type(memory, allowed, host, 0, local, &types[VULKAN__PURPOSE_UPLOAD]) &&
        choose_type(memory, allowed, host, cached, local, &types[VULKAN__PURPOSE_DOWNLOAD]);
    if (!found)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "%s has no memory for storage buffers, or none that the host sees",
                            device->adapter->properties.deviceName);
    VkMemoryPropertyFlags flags = memory->memoryTypes[types[VULKAN__PURPOSE_DEVICE]].propertyFlags;
    device->memory_mapped = (flags & host) == host;
    return DDISP_STATUS_OK;
}

static ddisp_status create_layout(vulkan__device *device)
{
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 8};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkResult result =
        device->table.vkCreatePipelineLayout(device->handle, &info, NULL, &device->block_layout);
    if (result != VK_SUCCESS)
        device->block_layout = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreatePipelineLayout");
}

vulkan__device *vulkan__device_new(vulkan__instance *instance, const vulkan__adapter *adapter)
{
    vulkan__device *device = backend_allocate(instance->services, sizeof *device);
    if (!device) {
        (void)backend_fail(instance->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                           "no host memory for device %s", adapter->properties.deviceName);
        return NULL;
    }
    device->instance = instance;
    device->services = instance->services;
    device->adapter = adapter;
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->builtin_lock, NULL);
    return device;
}

ddisp_status vulkan__device_prepare(vulkan__device *device)
{
    ddisp_status status = choose_types(device);
    return status == DDISP_STATUS_OK ? create_layout(device) : status;
}

ddisp_status vulkan__device_open(void *instance_handle, uint32_t index, void **out_device)
{
    vulkan__instance *instance = instance_handle;
    *out_device = NULL;
    if (index >= instance->adapter_count)
        return backend_fail(instance->services, DDISP_STATUS_NOT_FOUND, 0,
                            "vulkan:%u: there are %u Vulkan devices", index,
                            instance->adapter_count);
    vulkan__device *device = vulkan__device_new(instance, &instance->adapters[index]);
    if (!device)
        return DDISP_STATUS_OUT_OF_MEMORY;
    ddisp_status status = create(device);
    if (status == DDISP_STATUS_OK)
        status = vulkan__device_prepare(device);
    if (status != DDISP_STATUS_OK) {
        vulkan__device_close(device);
        return status;
    }
    *out_device = device;
    return DDISP_STATUS_OK;
}

void vulkan__queue_lock(vulkan__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->outer_lock)
        queue->outer_lock(queue->user_data);
}

void vulkan__queue_unlock(vulkan__queue *queue)
{
    if (queue->outer_unlock)
        queue->outer_unlock(queue->user_data);
    pthread_mutex_unlock(&queue->lock);
}

/** Other queues of a wrapped device are not the library's to wait for. */
static VkResult wait_queues(vulkan__device *device)
{
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < device->queue_count && result == VK_SUCCESS; i++) {
        vulkan__queue_lock(&device->queues[i]);
        result = device->table.vkQueueWaitIdle(device->queues[i].handle);
        vulkan__queue_unlock(&device->queues[i]);
    }
    return result;
}

VkResult vulkan__device_idle(vulkan__device *device)
{
    if (device->own_adapter)
        return wait_queues(device);
    for (uint32_t i = 0; i < device->queue_count; i++)
        pthread_mutex_lock(&device->queues[i].lock);
    VkResult result = device->table.vkDeviceWaitIdle(device->handle);
    for (uint32_t i = device->queue_count; i > 0; i--)
        pthread_mutex_unlock(&device->queues[i - 1].lock);
    return result;
}

/** Waiting may fail for want of host memory; then it is tried once more. */
static void wait_idle(vulkan__device *device)
{
    for (int attempt = 0; attempt < 2 && !atomic_load(&device->lost); attempt++) {
        VkResult result = vulkan__device_idle(device);
        if (result == VK_ERROR_DEVICE_LOST)
            atomic_store(&device->lost, true);
        if (result == VK_SUCCESS)
            return;
    }
}

static void dispose_streams(vulkan__device *device, vulkan__stream *streams)
{
    while (streams) {
        vulkan__stream *stream = streams;
        streams = stream->next;
        vulkan__stream_dispose(device, stream);
    }
}

void vulkan__device_close(void *device_handle)
{
    vulkan__device *device = device_handle;
    vulkan__exit_remove(device);
    if (device->handle) {
        wait_idle(device);
        for (vulkan__stream *stream = device->streams; stream; stream = stream->next)
            vulkan__batch_release_waits(stream);
        dispose_streams(device, device->streams);
        dispose_streams(device, device->retired);
        vulkan__builtins_close(device);
        vulkan__sink_trim(device);
        vulkan__pool_close(device);
        vulkan__buffer_destroy(device, &device->dummy);
        if (device->block_layout)
            device->table.vkDestroyPipelineLayout(device->handle, device->block_layout, NULL);
        if (!device->own_adapter)
            device->table.vkDestroyDevice(device->handle, NULL);
    }
    for (uint32_t i = 0; i < device->queue_count; i++)
        (void)pthread_mutex_destroy(&device->queues[i].lock);
    (void)pthread_mutex_destroy(&device->builtin_lock);
    (void)pthread_mutex_destroy(&device->lock);
    backend_release(device->services, device->own_adapter);
    backend_release(device->services, device);
}
