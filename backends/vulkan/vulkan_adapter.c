/*
 * vulkan_adapter.c - a physical device before it is opened: whether it meets the requirements, and
 * its description for the core.
 */
#include "vulkan_internal.h"

#include <inttypes.h>
#include <string.h>

/** First queue family with compute, better one that can bind sparse memory as well. */
static bool choose_queue_family(vulkan__adapter *adapter)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(adapter->handle, &count, families);
    bool found = false, sparse = false;
    for (uint32_t i = 0; i < count; i++) {
        bool binds = (families[i].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT) != 0;
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || (found && (sparse || !binds)))
            continue;
        found = true;
        sparse = binds;
        adapter->binds_sparse = binds;
        adapter->queue_family = i;
        adapter->queue_count = families[i].queueCount < VULKAN__MAX_QUEUES ? families[i].queueCount
                                                                           : VULKAN__MAX_QUEUES;
    }
    return found;
}

static bool has_extension(const VkExtensionProperties *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].extensionName, name) == 0)
            return true;
    return false;
}

static void read_properties(vulkan__adapter *adapter, bool multiprocessors)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV builtins = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceVulkan13Properties properties13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &adapter->properties11};
    adapter->properties11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
    adapter->properties11.pNext = &adapter->properties12;
    adapter->properties12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
    void **tail = &adapter->properties12.pNext;
    if (adapter->api_version >= VK_API_VERSION_1_3) {
        *tail = &properties13;
        tail = &properties13.pNext;
    }
    if (multiprocessors)
        *tail = &builtins;
    vkGetPhysicalDeviceProperties2(adapter->handle, &properties);
    adapter->properties11.pNext = NULL;
    adapter->properties12.pNext = NULL;
    adapter->properties = properties.properties;
    adapter->multiprocessors = builtins.shaderSMCount;
    adapter->max_buffer_bytes =
        properties13.maxBufferSize ? properties13.maxBufferSize : UINT64_MAX;
}

static uint64_t largest_local_heap(const VkPhysicalDeviceMemoryProperties *memory)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if ((memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            memory->memoryHeaps[i].size > largest)
            largest = memory->memoryHeaps[i].size;
    return largest;
}

/** enabled NULL: everything that the device has. */
static bool read_features(vulkan__instance *instance, vulkan__adapter *adapter,
                          const vulkan__feature_chain *enabled, char *reason, size_t capacity)
{
    const ddisp_backend_services *services = instance->services;
    const char *name = adapter->properties.deviceName;
    uint32_t count = 0;
    VkResult result = vkEnumerateDeviceExtensionProperties(adapter->handle, NULL, &count, NULL);
    VkExtensionProperties *list = backend_allocate(services, (count + 1) * sizeof *list);
    if (list && result == VK_SUCCESS)
        result = vkEnumerateDeviceExtensionProperties(adapter->handle, NULL, &count, list);
    if (!list || (result != VK_SUCCESS && result != VK_INCOMPLETE)) {
        backend_release(services, list);
        (void)snprintf(reason, capacity, "%s: vkEnumerateDeviceExtensionProperties gave %s (%d)",
                       name, list ? vulkan__result_name(result) : "no host memory", (int)result);
        return false;
    }
    if (!enabled)
        adapter->extensions = vulkan__features_extensions(list, count);
    read_properties(adapter, has_extension(list, count, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME));
    backend_release(services, list);

    vulkan__feature_chain chain;
    if (enabled) {
        chain = *enabled;
    } else {
        vulkan__features_link(&chain, adapter->api_version, adapter->extensions);
        vkGetPhysicalDeviceFeatures2(adapter->handle, &chain.core);
    }
    const char *missing = vulkan__features_required(&chain);
    if (missing) {
        (void)snprintf(reason, capacity, "%s %s %s", name,
                       enabled ? "was created without the feature" : "has no", missing);
        return false;
    }
    const VkPhysicalDeviceFeatures *core = &chain.core.features;
    adapter->sparse_residency = core->sparseBinding && core->sparseResidencyBuffer;
    adapter->sparse_aliased = core->sparseResidencyAliased != VK_FALSE;
    adapter->imports_host_memory = vulkan__features_import_host_memory(adapter->extensions);
    adapter->features = vulkan__features_read(&chain, adapter->extensions, &adapter->properties11,
                                              &adapter->properties12);
    return true;
}

/** The version to use, at most the instance's; memory. */
static bool read_version(vulkan__adapter *adapter, uint32_t instance_version, char *reason,
                         size_t capacity)
{
    vkGetPhysicalDeviceProperties(adapter->handle, &adapter->properties);
    uint32_t version = adapter->properties.apiVersion;
    if (version < VK_API_VERSION_1_2) {
        (void)snprintf(reason, capacity, "%s offers Vulkan %u.%u, 1.2 is needed",
                       adapter->properties.deviceName, VK_API_VERSION_MAJOR(version),
                       VK_API_VERSION_MINOR(version));
        return false;
    }
    adapter->api_version = version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3;
    if (adapter->api_version > instance_version)
        adapter->api_version = instance_version;
    vkGetPhysicalDeviceMemoryProperties(adapter->handle, &adapter->memory);
    adapter->memory_bytes = largest_local_heap(&adapter->memory);
    return true;
}

bool vulkan__adapter_read(vulkan__instance *instance, VkPhysicalDevice handle,
                          vulkan__adapter *out_adapter, char *reason, size_t capacity)
{
    vulkan__adapter *adapter = out_adapter;
    adapter->handle = handle;
    if (!read_version(adapter, instance->api_version, reason, capacity))
        return false;
    if (!choose_queue_family(adapter)) {
        (void)snprintf(reason, capacity, "%s has no compute queue", adapter->properties.deviceName);
        return false;
    }
    return read_features(instance, adapter, NULL, reason, capacity);
}

bool vulkan__adapter_read_enabled(vulkan__instance *instance, uint32_t extensions,
                                  const vulkan__feature_chain *enabled, vulkan__adapter *adapter,
                                  char *reason, size_t capacity)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    if (!read_version(adapter, adapter->api_version, reason, capacity))
        return false;
    vkGetPhysicalDeviceQueueFamilyProperties(adapter->handle, &count, families);
    uint32_t family = adapter->queue_family;
    if (family >= count || !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        (void)snprintf(reason, capacity, "queue family %u of %s %s", family,
                       adapter->properties.deviceName,
                       family < count ? "has no compute" : "does not exist");
        return false;
    }
    adapter->binds_sparse = (families[family].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT) != 0;
    adapter->extensions = extensions;
    return read_features(instance, adapter, enabled, reason, capacity);
}

uint64_t vulkan__adapter_max_allocation(const vulkan__adapter *adapter)
{
    uint64_t most = adapter->properties11.maxMemoryAllocationSize;
    if (most > adapter->max_buffer_bytes)
        most = adapter->max_buffer_bytes;
    if (most > adapter->memory_bytes)
        most = adapter->memory_bytes;
    return most - VULKAN__GRANULE; /* which aligns the first byte */
}

static uint32_t rank_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 80;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 60;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 50;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 20;
    default:
        return 30;
    }
}

static ddisp_support support(const vulkan__adapter *adapter, uint64_t native, uint64_t emulated)
{
    if (adapter->features & native)
        return DDISP_SUPPORT_NATIVE;
    return emulated == 0 || (adapter->features & emulated) ? DDISP_SUPPORT_EMULATED
                                                           : DDISP_SUPPORT_NONE;
}

static void describe_limits(const vulkan__adapter *adapter, ddisp_device_info *info)
{
    const VkPhysicalDeviceLimits *limits = &adapter->properties.limits;
    info->max_allocation_bytes = vulkan__adapter_max_allocation(adapter);
    for (int i = 0; i < 3; i++) {
        info->max_group_count[i] = limits->maxComputeWorkGroupCount[i];
        info->max_group_size[i] = limits->maxComputeWorkGroupSize[i];
    }
    info->max_group_threads = limits->maxComputeWorkGroupInvocations;
    info->max_block_bytes = UINT32_C(1) << 20;
    info->subgroup_size = adapter->properties11.subgroupSize;
    /* Enough groups of 256 threads to fill the multiprocessors; a guess where they are not known.
     */
    info->preferred_group_count = adapter->multiprocessors ? adapter->multiprocessors * 512
                                  : info->flags & DDISP_DEVICE_FLAG_SOFTWARE ? 64
                                                                             : 1024;
}

ddisp_status vulkan__device_describe(void *instance_handle, uint32_t index, ddisp_device_info *info)
{
    vulkan__instance *instance = instance_handle;
    if (index >= instance->adapter_count)
        return backend_fail(instance->services, DDISP_STATUS_NOT_FOUND, 0,
                            "vulkan:%u: there are %u Vulkan devices", index,
                            instance->adapter_count);
    vulkan__adapter_describe(&instance->adapters[index], info);
    return DDISP_STATUS_OK;
}

void vulkan__adapter_describe(const vulkan__adapter *adapter, ddisp_device_info *info)
{
    const VkPhysicalDeviceProperties *properties = &adapter->properties;
    const uint8_t *u = adapter->properties11.deviceUUID;
    info->rank = rank_of(properties->deviceType);
    info->flags = 0;
    if (properties->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
        info->flags |= DDISP_DEVICE_FLAG_SOFTWARE;
    if (strncmp(properties->deviceName, "fake", 4) == 0)
        info->flags |= DDISP_DEVICE_FLAG_FAKE;
    if (adapter->features & VULKAN__BIT(NULL_DESCRIPTOR))
        info->flags |= DDISP_DEVICE_FLAG_NULL_DESCRIPTOR;
    info->memory_bytes = adapter->memory_bytes;
    (void)snprintf(info->name, sizeof info->name, "%.127s", properties->deviceName);
    (void)snprintf(info->uuid, sizeof info->uuid,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                   u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                   u[14], u[15]);
    (void)snprintf(info->architecture, sizeof info->architecture, "vulkan1.%u %04x:%04x",
                   VK_API_VERSION_MINOR(properties->apiVersion), properties->vendorID,
                   properties->deviceID);
    (void)snprintf(info->driver, sizeof info->driver, "%.40s %.50s",
                   adapter->properties12.driverName, adapter->properties12.driverInfo);
    (void)snprintf(info->formats, sizeof info->formats, "spirv");
    (void)snprintf(info->specializes, sizeof info->specializes, "spirv");
    (void)snprintf(info->sink, sizeof info->sink, "%s", vulkan__sink_name(adapter));
    /* A compare-and-swap on 32 bits is always there, on 64 bits it is a feature. */
    info->atomic_add_f16 = support(adapter, VULKAN__BIT(BUFFER_FLOAT16_ADD), 0);
    info->atomic_add_bf16 = DDISP_SUPPORT_EMULATED;
    info->atomic_add_f32 = support(adapter, VULKAN__BIT(BUFFER_FLOAT32_ADD), 0);
    info->atomic_add_f64 =
        support(adapter, VULKAN__BIT(BUFFER_FLOAT64_ADD), VULKAN__BIT(BUFFER_INT64_ATOMICS));
    info->atomic_add_i64 = adapter->features & VULKAN__BIT(BUFFER_INT64_ATOMICS)
                               ? DDISP_SUPPORT_NATIVE
                               : DDISP_SUPPORT_NONE;
    describe_limits(adapter, info);
    info->driver_version = properties->driverVersion;
    info->vendor_id = properties->vendorID;
    info->device_id = properties->deviceID;
    info->features = adapter->features;
    info->driver_id = (uint32_t)adapter->properties12.driverID;
}
