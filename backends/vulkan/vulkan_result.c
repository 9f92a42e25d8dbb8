/*
 * vulkan_result.c - results of the driver in words, as statuses, and the one place where a device
 * is found to be lost. Every VkResult of a device goes through vulkan__check.
 */
#include "vulkan_internal.h"

const char *vulkan__result_name(VkResult result)
{
#define NAME(value)                                                                                \
    case value:                                                                                    \
        return #value
    switch ((int)result) {
        NAME(VK_SUCCESS);
        NAME(VK_NOT_READY);
        NAME(VK_TIMEOUT);
        NAME(VK_INCOMPLETE);
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
        NAME(VK_ERROR_INITIALIZATION_FAILED);
        NAME(VK_ERROR_DEVICE_LOST);
        NAME(VK_ERROR_MEMORY_MAP_FAILED);
        NAME(VK_ERROR_LAYER_NOT_PRESENT);
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
        NAME(VK_ERROR_FEATURE_NOT_PRESENT);
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
        NAME(VK_ERROR_TOO_MANY_OBJECTS);
        NAME(VK_ERROR_FORMAT_NOT_SUPPORTED);
        NAME(VK_ERROR_FRAGMENTED_POOL);
        NAME(VK_ERROR_UNKNOWN);
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
        NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
        NAME(VK_ERROR_FRAGMENTATION);
        NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS);
        NAME(VK_ERROR_VALIDATION_FAILED_EXT);
        NAME(VK_ERROR_INVALID_SHADER_NV);
        NAME(VK_ERROR_NOT_PERMITTED_KHR);
        NAME(VK_PIPELINE_COMPILE_REQUIRED);
    default:
        return "unknown VkResult";
    }
#undef NAME
}

ddisp_status vulkan__result_status(VkResult result)
{
    switch ((int)result) {
    case VK_SUCCESS:
        return DDISP_STATUS_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return DDISP_STATUS_OUT_OF_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return DDISP_STATUS_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return DDISP_STATUS_DEVICE_LOST;
    default:
        return DDISP_STATUS_DRIVER_ERROR;
    }
}

ddisp_status vulkan__check(vulkan__device *device, VkResult result, const char *function)
{
    if (result == VK_SUCCESS)
        return DDISP_STATUS_OK;
    ddisp_status status = vulkan__result_status(result);
    if (status == DDISP_STATUS_DEVICE_LOST) {
        atomic_store(&device->lost, true);
        return backend_fail(
            device->services, status, result,
            "%s: %s gave VK_ERROR_DEVICE_LOST (%d): a kernel touched memory that it "
            "may not, ran too long, or the device failed; open the device anew",
            device->adapter->properties.deviceName, function, (int)result);
    }
    return backend_fail(device->services, status, result, "%s: %s gave %s (%d)",
                        device->adapter->properties.deviceName, function,
                        vulkan__result_name(result), (int)result);
}

ddisp_status vulkan__rejected(vulkan__device *device, VkResult result, const char *function,
                              const char *kernel_name)
{
    if (vulkan__result_status(result) != DDISP_STATUS_DRIVER_ERROR)
        return vulkan__check(device, result, function);
    return backend_fail(device->services, DDISP_STATUS_CODE_REJECTED, result,
                        "kernel %s: %s refused the SPIR-V: %s gave %s (%d)", kernel_name,
                        device->adapter->properties.deviceName, function,
                        vulkan__result_name(result), (int)result);
}

ddisp_status vulkan__alive(vulkan__device *device)
{
    if (!atomic_load(&device->lost))
        return DDISP_STATUS_OK;
    return backend_fail(device->services, DDISP_STATUS_DEVICE_LOST, VK_ERROR_DEVICE_LOST,
                        "%s was lost by earlier work; open the device anew",
                        device->adapter->properties.deviceName);
}
