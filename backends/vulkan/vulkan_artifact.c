/*
 * vulkan_artifact.c - compiled variants as bytes: what the driver puts into a pipeline cache that
 * holds one variant. Drivers check their own bytes badly, so the header is compared here before the
 * driver sees them. Drivers whose caches stay empty are asked once.
 */
#include "vulkan_internal.h"

#include <inttypes.h>
#include <string.h>

/** Most bytes of one variant; what is longer is no cache of one variant. */
#define MOST_BYTES (UINT64_C(256) << 20)

/** The header that the driver's own bytes begin with. */
static VkPipelineCacheHeaderVersionOne own_header(const vulkan__device *device)
{
    const VkPhysicalDeviceProperties *properties = &device->adapter->properties;
    VkPipelineCacheHeaderVersionOne header = {
        .headerSize = (uint32_t)sizeof header,
        .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
        .vendorID = properties->vendorID,
        .deviceID = properties->deviceID,
    };
    memcpy(header.pipelineCacheUUID, properties->pipelineCacheUUID,
           sizeof header.pipelineCacheUUID);
    return header;
}

static ddisp_status create_cache(vulkan__device *device, const void *bytes, uint64_t size_bytes,
                                 VkPipelineCache *out_cache)
{
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = size_bytes,
        .pInitialData = bytes,
    };
    VkResult result = device->table.vkCreatePipelineCache(device->handle, &info, NULL, out_cache);
    if (result != VK_SUCCESS)
        *out_cache = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreatePipelineCache");
}

ddisp_status vulkan__artifact_open(vulkan__device *device, const ddisp_backend_variant *variant,
                                   VkPipelineCache *out_cache)
{
    VkPipelineCacheHeaderVersionOne own = own_header(device);
    *out_cache = VK_NULL_HANDLE;
    if (variant->artifact_size_bytes <= sizeof own || variant->artifact_size_bytes > MOST_BYTES)
        return backend_fail(device->services, DDISP_STATUS_CODE_REJECTED, 0,
                            "kernel %s: %" PRIu64 " bytes are no pipeline cache with a variant",
                            variant->code->kernel_name, variant->artifact_size_bytes);
    if (memcmp(variant->artifact, &own, sizeof own) != 0)
        return backend_fail(device->services, DDISP_STATUS_CODE_REJECTED, 0,
                            "kernel %s: the pipeline cache is of another device or driver than %s",
                            variant->code->kernel_name, device->adapter->properties.deviceName);
    return create_cache(device, variant->artifact, variant->artifact_size_bytes, out_cache);
}

ddisp_status vulkan__artifact_key(const ddisp_backend_services *services, void *device_handle,
                                  const char *architecture, const ddisp_backend_variant *variant,
                                  uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes)
{
    const vulkan__device *device = device_handle;
    (void)architecture;
    if (!device || atomic_load(&device->caches_nothing))
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: SPIR-V is compiled by a device's driver, and %s",
                            variant->code->kernel_name,
                            device ? "this one's gives nothing to keep" : "none is given");
    const VkPhysicalDeviceProperties *properties = &device->adapter->properties;
    const uint32_t numbers[4] = {properties->driverVersion, properties->apiVersion,
                                 properties->vendorID, properties->deviceID};
    const uint32_t size = (uint32_t)(VK_UUID_SIZE + sizeof numbers);
    *out_size_bytes = size;
    if (capacity < size)
        return backend_fail(services, DDISP_STATUS_BUFFER_TOO_SMALL, 0,
                            "a key has %u bytes, there is room for %u", size, capacity);
    memcpy(buffer, properties->pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(buffer + VK_UUID_SIZE, numbers, sizeof numbers);
    return DDISP_STATUS_OK;
}

/** Copies what the driver put into a cache. */
static ddisp_status read_cache(vulkan__device *device, const char *kernel_name,
                               VkPipelineCache cache, void **out_bytes, uint64_t *out_size_bytes)
{
    const struct VolkDeviceTable *vk = &device->table;
    VkPipelineCacheHeaderVersionOne own = own_header(device);
    size_t size = 0;
    VkResult result = vk->vkGetPipelineCacheData(device->handle, cache, &size, NULL);
    if (result != VK_SUCCESS)
        return vulkan__check(device, result, "vkGetPipelineCacheData");
    if (size <= sizeof own) {
        atomic_store(&device->caches_nothing, true);
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: the pipeline caches of %s stay empty", kernel_name,
                            device->adapter->properties.deviceName);
    }
    void *bytes = backend_allocate(device->services, size);
    if (!bytes)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for %zu bytes of compiled code", kernel_name,
                            size);
    result = vk->vkGetPipelineCacheData(device->handle, cache, &size, bytes);
    if (result != VK_SUCCESS || size <= sizeof own || memcmp(bytes, &own, sizeof own) != 0) {
        backend_release(device->services, bytes);
        if (result != VK_SUCCESS)
            return vulkan__check(device, result, "vkGetPipelineCacheData");
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: the pipeline cache of %s has no header of version 1",
                            kernel_name, device->adapter->properties.deviceName);
    }
    *out_bytes = bytes;
    *out_size_bytes = size;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__artifact_make(const ddisp_backend_services *services, void *device_handle,
                                   const char *architecture, const ddisp_backend_variant *variant,
                                   void **out_bytes, uint64_t *out_size_bytes)
{
    vulkan__device *device = device_handle;
    VkPipelineCache cache = VK_NULL_HANDLE;
    vulkan__variant *built = NULL;
    (void)architecture;
    *out_bytes = NULL;
    *out_size_bytes = 0;
    if (!device)
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: SPIR-V is compiled by a device's driver, and none is given",
                            variant->code->kernel_name);
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = create_cache(device, NULL, 0, &cache);
    if (status == DDISP_STATUS_OK)
        status = vulkan__variant_compile(device, variant, cache, &built);
    if (status == DDISP_STATUS_OK)
        status = read_cache(device, variant->code->kernel_name, cache, out_bytes, out_size_bytes);
    if (built)
        vulkan__variant_release(device, built);
    if (cache)
        device->table.vkDestroyPipelineCache(device->handle, cache, NULL);
    return status;
}
