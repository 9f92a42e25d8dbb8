/*
 * vulkan_pipeline.c - pipelines of the built-in shaders (kernels/), one list of a device. A shader
 * with values for its specialization constants becomes a pipeline when it is first used and stays
 * for the life of the device. All have one layout: bytes that are pushed.
 */
#include "vulkan_operations.h"

#include <spirv/unified1/spirv.h>
#include <string.h>

#define SPIRV_HEADER_WORDS 5u
#define MODE_BYTES         24u /* of a capability and a mode */

struct vulkan__builtin_pipeline {
    const vulkan__builtin *code;
    uint32_t count;
    uint32_t constants[VULKAN__MOST_CONSTANTS];
    VkPipeline pipeline;
    vulkan__builtin_pipeline *next;
};

static ddisp_status create_layout(vulkan__device *device)
{
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                       .size = VULKAN__PUSH_BYTES};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    if (device->builtin_layout)
        return DDISP_STATUS_OK;
    VkResult result =
        device->table.vkCreatePipelineLayout(device->handle, &info, NULL, &device->builtin_layout);
    if (result != VK_SUCCESS)
        device->builtin_layout = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreatePipelineLayout");
}

static ddisp_status compile(vulkan__device *device, VkShaderModule module,
                            vulkan__builtin_pipeline *it)
{
    VkSpecializationMapEntry entries[VULKAN__MOST_CONSTANTS];
    for (uint32_t i = 0; i < it->count; i++)
        entries[i] = (VkSpecializationMapEntry){
            .constantID = i, .offset = 4 * i, .size = sizeof it->constants[0]};
    const VkSpecializationInfo specialization = {
        .mapEntryCount = it->count,
        .pMapEntries = entries,
        .dataSize = it->count * sizeof it->constants[0],
        .pData = it->constants,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = device->builtin_layout,
        .basePipelineIndex = -1,
    };
    return vulkan__check(device,
                         device->table.vkCreateComputePipelines(device->handle, VK_NULL_HANDLE, 1,
                                                                &info, NULL, &it->pipeline),
                         "vkCreateComputePipelines");
}

/** The device may take subnormal floats for zero unless it is told not to. */
static bool can_preserve(const vulkan__device *device)
{
    const VkPhysicalDeviceVulkan12Properties *known = &device->adapter->properties12;
    return known->shaderDenormPreserveFloat32 &&
           known->denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
}

/** Copies the shader with a capability in front of the others and a mode behind its own. */
static size_t tell_to_preserve(const vulkan__builtin *from, uint32_t *out_words)
{
    const uint32_t capability[] = {2u << 16 | SpvOpCapability, SpvCapabilityDenormPreserve};
    uint32_t mode[] = {4u << 16 | SpvOpExecutionMode, 0, SpvExecutionModeDenormPreserve, 32};
    size_t count = from->size_bytes / 4, at = SPIRV_HEADER_WORDS;
    while (at < count && (from->words[at] & 0xFFFFu) != SpvOpExecutionMode)
        at += from->words[at] >> 16;
    mode[1] = from->words[at + 1];
    at += from->words[at] >> 16;
    uint32_t *out = out_words;
    memcpy(out, from->words, SPIRV_HEADER_WORDS * 4);
    out += SPIRV_HEADER_WORDS;
    memcpy(out, capability, sizeof capability);
    out += sizeof capability / 4;
    memcpy(out, from->words + SPIRV_HEADER_WORDS, (at - SPIRV_HEADER_WORDS) * 4);
    out += at - SPIRV_HEADER_WORDS;
    memcpy(out, mode, sizeof mode);
    out += sizeof mode / 4;
    memcpy(out, from->words + at, (count - at) * 4);
    return from->size_bytes + sizeof capability + sizeof mode;
}

static ddisp_status create_module(vulkan__device *device, const vulkan__builtin *from,
                                  VkShaderModule *out_module)
{
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = from->size_bytes,
        .pCode = from->words,
    };
    uint32_t *words = NULL;
    if (can_preserve(device)) {
        words = backend_allocate(device->services, from->size_bytes + MODE_BYTES);
        if (!words)
            return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                "no host memory for a shader");
        info.codeSize = tell_to_preserve(from, words);
        info.pCode = words;
    }
    ddisp_status status = vulkan__check(
        device, device->table.vkCreateShaderModule(device->handle, &info, NULL, out_module),
        "vkCreateShaderModule");
    backend_release(device->services, words);
    return status;
}

static ddisp_status create(vulkan__device *device, vulkan__builtin_pipeline *it)
{
    VkShaderModule module;
    ddisp_status status = create_layout(device);
    if (status == DDISP_STATUS_OK)
        status = create_module(device, it->code, &module);
    if (status != DDISP_STATUS_OK)
        return status;
    status = compile(device, module, it);
    device->table.vkDestroyShaderModule(device->handle, module, NULL);
    return status;
}

static ddisp_status add(vulkan__device *device, const vulkan__builtin *code,
                        const uint32_t *constants, uint32_t count,
                        vulkan__builtin_pipeline **out_added)
{
    vulkan__builtin_pipeline *it = backend_allocate(device->services, sizeof *it);
    if (!it)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for a pipeline");
    it->code = code;
    it->count = count;
    memcpy(it->constants, constants, count * sizeof constants[0]);
    ddisp_status status = create(device, it);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, it);
        return status;
    }
    it->next = device->builtins;
    device->builtins = *out_added = it;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__builtin_find(vulkan__device *device, const vulkan__builtin *code,
                                  const uint32_t *constants, uint32_t count,
                                  VkPipeline *out_pipeline)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&device->builtin_lock);
    vulkan__builtin_pipeline *found = device->builtins;
    while (found && (found->code != code ||
                     memcmp(found->constants, constants, count * sizeof constants[0]) != 0))
        found = found->next;
    if (!found)
        status = add(device, code, constants, count, &found);
    if (status == DDISP_STATUS_OK)
        *out_pipeline = found->pipeline;
    pthread_mutex_unlock(&device->builtin_lock);
    return status;
}

void vulkan__builtin_record(vulkan__device *device, vulkan__stream *stream, VkPipeline pipeline,
                            const void *push, uint32_t push_bytes, uint32_t groups)
{
    const struct VolkDeviceTable *vk = &device->table;
    VkCommandBuffer commands = stream->open->commands;
    if (stream->bound != pipeline) {
        vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        stream->bound = pipeline;
    }
    vk->vkCmdPushConstants(commands, device->builtin_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           push_bytes, push);
    vk->vkCmdDispatch(commands, groups, 1, 1);
}

void vulkan__builtins_close(vulkan__device *device)
{
    while (device->builtins) {
        vulkan__builtin_pipeline *next = device->builtins->next;
        device->table.vkDestroyPipeline(device->handle, device->builtins->pipeline, NULL);
        backend_release(device->services, device->builtins);
        device->builtins = next;
    }
    if (device->builtin_layout)
        device->table.vkDestroyPipelineLayout(device->handle, device->builtin_layout, NULL);
    device->builtin_layout = VK_NULL_HANDLE;
}
