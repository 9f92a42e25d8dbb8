/*
 * vulkan_variant.c - compiled variants: a pipeline with the switches of gradients, and the group
 * size where the code takes it from specialization constants, set as the variant asks.
 */
#include "vulkan_native.h"

#include <string.h>

#define MOST_CONSTANTS (DDISP_MAX_PARAMS + 3)

typedef struct constants {
    VkSpecializationMapEntry entries[MOST_CONSTANTS];
    uint32_t values[MOST_CONSTANTS];
    uint32_t count;
} constants;

static void set_constant(constants *list, uint32_t id, uint32_t value)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->entries[i].constantID == id)
            return;
    list->entries[list->count] = (VkSpecializationMapEntry){
        .constantID = id,
        .offset = (uint32_t)(list->count * sizeof list->values[0]),
        .size = sizeof list->values[0],
    };
    list->values[list->count++] = value;
}

/** The group size is one that the device can run. */
static ddisp_status check_limits(vulkan__device *device, const ddisp_backend_variant *variant)
{
    const VkPhysicalDeviceLimits *limits = &device->adapter->properties.limits;
    const uint32_t *size = variant->entry->group_size;
    uint64_t product = 1;
    for (uint32_t axis = 0; axis < 3; axis++) {
        product *= size[axis];
        if (size[axis] > limits->maxComputeWorkGroupSize[axis])
            return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                                "kernel %s: group size %u on axis %u, %s has at most %u",
                                variant->code->kernel_name, size[axis], axis,
                                device->adapter->properties.deviceName,
                                limits->maxComputeWorkGroupSize[axis]);
    }
    if (product > limits->maxComputeWorkGroupInvocations)
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "kernel %s: %ux%ux%u = %llu threads per group, %s has at most %u",
                            variant->code->kernel_name, size[0], size[1], size[2],
                            (unsigned long long)product, device->adapter->properties.deviceName,
                            limits->maxComputeWorkGroupInvocations);
    return DDISP_STATUS_OK;
}

static ddisp_status read_constants(vulkan__device *device, const ddisp_backend_variant *variant,
                                   constants *list)
{
    const ddisp_backend_code *code = variant->code;
    vulkan__spirv module;
    vulkan__entry entry;
    ddisp_status status = vulkan__spirv_open(device->services, code->kernel_name, code->code->bytes,
                                             code->code->size_bytes, &module);
    if (status == DDISP_STATUS_OK && !vulkan__spirv_entry(&module, variant->entry_name, &entry))
        status = backend_fail(device->services, DDISP_STATUS_NOT_FOUND, 0,
                              "kernel %s: the SPIR-V has no compute entry '%s'", code->kernel_name,
                              variant->entry_name);
    if (status == DDISP_STATUS_OK) {
        vulkan__group group = vulkan__spirv_group(&module, &entry);
        for (uint32_t axis = 0; axis < 3; axis++)
            if (group.spec_id[axis] != VULKAN__NO_SPEC_ID)
                set_constant(list, group.spec_id[axis], variant->entry->group_size[axis]);
        for (uint32_t i = 0; i < code->param_count; i++)
            if (variant->switch_mask >> i & 1)
                set_constant(list, vulkan__switch_id(code, i),
                             (uint32_t)(variant->switches >> i & 1));
    }
    vulkan__spirv_close(&module);
    return status;
}

/** The driver wants the words aligned, the caller's bytes may not be. */
static ddisp_status create_module(vulkan__device *device, const ddisp_backend_code *code,
                                  VkShaderModule *out_module)
{
    const void *bytes = code->code->bytes;
    uint32_t *copy = NULL;
    if ((uintptr_t)bytes % sizeof *copy != 0) {
        copy = backend_allocate(device->services, code->code->size_bytes);
        if (!copy)
            return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                "kernel %s: no host memory for %llu bytes of SPIR-V",
                                code->kernel_name, (unsigned long long)code->code->size_bytes);
        memcpy(copy, bytes, code->code->size_bytes);
        bytes = copy;
    }
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = code->code->size_bytes,
        .pCode = bytes,
    };
    VkResult result = device->table.vkCreateShaderModule(device->handle, &info, NULL, out_module);
    backend_release(device->services, copy);
    if (result == VK_SUCCESS)
        return DDISP_STATUS_OK;
    *out_module = VK_NULL_HANDLE;
    return vulkan__rejected(device, result, "vkCreateShaderModule", code->kernel_name);
}

static ddisp_status create_pipeline(vulkan__device *device, const ddisp_backend_variant *variant,
                                    const constants *list, VkPipelineCache cache,
                                    vulkan__variant *built)
{
    const VkSpecializationInfo specialization = {
        .mapEntryCount = list->count,
        .pMapEntries = list->entries,
        .dataSize = list->count * sizeof list->values[0],
        .pData = list->values,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = built->module,
                .pName = variant->entry_name,
                .pSpecializationInfo = list->count ? &specialization : NULL,
            },
        .layout = built->layout,
        .basePipelineIndex = -1,
    };
    VkResult result = device->table.vkCreateComputePipelines(device->handle, cache, 1, &info, NULL,
                                                             &built->pipeline);
    if (result == VK_SUCCESS)
        return DDISP_STATUS_OK;
    built->pipeline = VK_NULL_HANDLE;
    return vulkan__rejected(device, result, "vkCreateComputePipelines", variant->code->kernel_name);
}

/** Places of the native arguments, and layouts for them. */
static ddisp_status take_natives(vulkan__device *device, const ddisp_backend_variant *variant,
                                 vulkan__variant *built)
{
    built->layout = VK_NULL_HANDLE;
    built->natives = backend_allocate(device->services, sizeof *built->natives);
    if (!built->natives)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for a variant", variant->code->kernel_name);
    ddisp_status status =
        vulkan__native_place_all(device->services, variant->code, variant->entry, built->natives);
    return status == DDISP_STATUS_OK ? vulkan__layouts_create(device, built) : status;
}

ddisp_status vulkan__variant_compile(vulkan__device *device, const ddisp_backend_variant *variant,
                                     VkPipelineCache cache, vulkan__variant **out_variant)
{
    *out_variant = NULL;
    constants list = {.count = 0};
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = check_limits(device, variant);
    if (status == DDISP_STATUS_OK)
        status = read_constants(device, variant, &list);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__variant *built = backend_allocate(device->services, sizeof *built);
    if (!built)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for a variant", variant->code->kernel_name);
    built->layout = device->block_layout;
    if (variant->entry->native_count)
        status = take_natives(device, variant, built);
    if (status == DDISP_STATUS_OK)
        status = create_module(device, variant->code, &built->module);
    if (status == DDISP_STATUS_OK)
        status = create_pipeline(device, variant, &list, cache, built);
    if (status == DDISP_STATUS_OK)
        status =
            vulkan__label_variant(device, built, variant->code->kernel_name, variant->entry_name);
    if (status != DDISP_STATUS_OK) {
        vulkan__variant_release(device, built);
        return status;
    }
    device->table.vkDestroyShaderModule(device->handle, built->module, NULL);
    built->module = VK_NULL_HANDLE;
    *out_variant = built;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__variant_build(void *device_handle, const ddisp_backend_variant *variant,
                                   void **out_variant)
{
    vulkan__device *device = device_handle;
    VkPipelineCache cache = VK_NULL_HANDLE;
    vulkan__variant *built = NULL;
    *out_variant = NULL;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && variant->artifact)
        status = vulkan__artifact_open(device, variant, &cache);
    if (status == DDISP_STATUS_OK)
        status = vulkan__variant_compile(device, variant, cache, &built);
    if (cache)
        device->table.vkDestroyPipelineCache(device->handle, cache, NULL);
    *out_variant = built;
    return status;
}

void vulkan__variant_release(void *device_handle, void *variant_handle)
{
    vulkan__device *device = device_handle;
    vulkan__variant *variant = variant_handle;
    if (variant->pipeline)
        device->table.vkDestroyPipeline(device->handle, variant->pipeline, NULL);
    if (variant->module)
        device->table.vkDestroyShaderModule(device->handle, variant->module, NULL);
    if (variant->natives)
        vulkan__layouts_destroy(device, variant);
    backend_release(device->services, variant->natives);
    backend_release(device->services, variant->label);
    backend_release(device->services, variant);
}
