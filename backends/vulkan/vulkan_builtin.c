/*
 * vulkan_builtin.c - the built-in shaders (kernels/) as pipelines, and dispatches of them. Each
 * shader exists in several forms, by what the device can do; dtypes and the shape of the work are
 * specialization constants. A combination becomes a pipeline when it is first used and stays for
 * the life of the device. What a shader needs to know is pushed; only axes of strided memory lie in
 * memory that the device sees.
 */
#include "vulkan_operations.h"

#include <spirv/unified1/spirv.h>
#include <string.h>

#include "elements.spv.h"
#include "elements_double.spv.h"
#include "elements_double_native.spv.h"
#include "elements_native.spv.h"
#include "finish.spv.h"
#include "finish_double.spv.h"
#include "finish_double_native.spv.h"
#include "finish_native.spv.h"
#include "fixed.spv.h"
#include "fixed_double.spv.h"
#include "fixed_double_partitioned.spv.h"
#include "fixed_native.spv.h"
#include "fixed_partitioned.spv.h"
#include "reduce.spv.h"
#include "reduce_double.spv.h"
#include "reduce_double_native.spv.h"
#include "reduce_native.spv.h"
#include "scatter.spv.h"
#include "scatter_double.spv.h"
#include "scatter_double_native.spv.h"
#include "scatter_double_partitioned.spv.h"
#include "scatter_native.spv.h"
#include "scatter_partitioned.spv.h"

/** Multiprocessors, where the driver does not tell how many there are. */
#define SOME_MULTIPROCESSORS 32u
#define MOST_GROUPS          UINT64_C(2147483647)
#define SPIRV_HEADER_WORDS   5u
#define MODE_BYTES           24u /* of a capability and a mode */

/** Forms of a shader. */
enum {
    PLAIN,
    NATIVE,      /* the device has the atomics that the shader would like, and 16-bit access */
    PARTITIONED, /* and tells which invocations hold the same value */
    FORMS,
};

typedef struct code {
    const uint32_t *words;
    size_t size_bytes;
} code;

#define CODE(name)                                                                                 \
    {                                                                                              \
        name##_spv, sizeof name##_spv                                                              \
    }

/** Numbers in f32, then in f64. Missing forms are the one before. */
static const code codes[VULKAN__SHADER_COUNT][2][FORMS] = {
    [VULKAN__SHADER_ELEMENTS] = {{CODE(elements), CODE(elements_native)},
                                 {CODE(elements_double), CODE(elements_double_native)}},
    [VULKAN__SHADER_REDUCE] = {{CODE(reduce), CODE(reduce_native)},
                               {CODE(reduce_double), CODE(reduce_double_native)}},
    [VULKAN__SHADER_SCATTER] = {{CODE(scatter), CODE(scatter_native), CODE(scatter_partitioned)},
                                {CODE(scatter_double), CODE(scatter_double_native),
                                 CODE(scatter_double_partitioned)}},
    [VULKAN__SHADER_FIXED] = {{CODE(fixed), CODE(fixed_native), CODE(fixed_partitioned)},
                              {CODE(fixed_double), CODE(fixed_double),
                               CODE(fixed_double_partitioned)}},
    [VULKAN__SHADER_FINISH] = {{CODE(finish), CODE(finish_native)},
                               {CODE(finish_double), CODE(finish_double_native)}},
};

/** Features without which a shader has its plain form. */
static const uint64_t wanted[VULKAN__SHADER_COUNT][2] = {
    [VULKAN__SHADER_ELEMENTS] = {VULKAN__BIT(BUFFER_FLOAT32_ADD) |
                                     VULKAN__BIT(BUFFER_INT64_ATOMICS),
                                 VULKAN__BIT(BUFFER_FLOAT64_ADD) |
                                     VULKAN__BIT(BUFFER_INT64_ATOMICS)},
    [VULKAN__SHADER_REDUCE] = {VULKAN__BIT(BUFFER_FLOAT32_ADD), VULKAN__BIT(BUFFER_FLOAT64_ADD)},
    [VULKAN__SHADER_SCATTER] = {VULKAN__BIT(BUFFER_FLOAT32_ADD) | VULKAN__BIT(SHARED_FLOAT32_ADD),
                                VULKAN__BIT(BUFFER_FLOAT64_ADD) | VULKAN__BIT(SHARED_FLOAT64_ADD)},
    [VULKAN__SHADER_FIXED] = {VULKAN__BIT(BUFFER_INT64_ATOMICS), VULKAN__BIT(BUFFER_INT64_ATOMICS)},
    [VULKAN__SHADER_FINISH] = {VULKAN__BIT(BUFFER_FLOAT32_ADD), VULKAN__BIT(BUFFER_FLOAT64_ADD)},
};

struct vulkan__element_pipeline {
    const code *code;
    uint32_t constants[VULKAN__CONSTANTS];
    VkPipeline pipeline;
    vulkan__element_pipeline *next;
};

/* ---- pipelines ---- */

bool vulkan__operation_is_native(const vulkan__device *device, vulkan__shader shader, bool wide)
{
    uint64_t needs = wanted[shader][wide] | VULKAN__BIT(STORAGE16);
    return (device->adapter->features & needs) == needs;
}

static const code *choose(const vulkan__device *device, vulkan__shader shader, bool wide)
{
    const code *forms = codes[shader][wide];
    if (!vulkan__operation_is_native(device, shader, wide))
        return &forms[PLAIN];
    bool partitioned = (device->adapter->features & VULKAN__BIT(PARTITIONED)) != 0 &&
                       device->adapter->properties11.subgroupSize == 32;
    return partitioned && forms[PARTITIONED].words ? &forms[PARTITIONED] : &forms[NATIVE];
}

static ddisp_status create_layout(vulkan__device *device)
{
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                       .size = VULKAN__PUSH_BYTES};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    if (device->elements_layout)
        return DDISP_STATUS_OK;
    VkResult result =
        device->table.vkCreatePipelineLayout(device->handle, &info, NULL, &device->elements_layout);
    if (result != VK_SUCCESS)
        device->elements_layout = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreatePipelineLayout");
}

static ddisp_status compile(vulkan__device *device, VkShaderModule module,
                            const uint32_t constants[VULKAN__CONSTANTS], VkPipeline *out_pipeline)
{
    VkSpecializationMapEntry entries[VULKAN__CONSTANTS];
    for (uint32_t i = 0; i < VULKAN__CONSTANTS; i++)
        entries[i] = (VkSpecializationMapEntry){
            .constantID = i, .offset = 4 * i, .size = sizeof constants[0]};
    const VkSpecializationInfo specialization = {.mapEntryCount = VULKAN__CONSTANTS,
                                                 .pMapEntries = entries,
                                                 .dataSize =
                                                     VULKAN__CONSTANTS * sizeof constants[0],
                                                 .pData = constants};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = device->elements_layout,
        .basePipelineIndex = -1,
    };
    return vulkan__check(device,
                         device->table.vkCreateComputePipelines(device->handle, VK_NULL_HANDLE, 1,
                                                                &info, NULL, out_pipeline),
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
static size_t tell_to_preserve(const code *from, uint32_t *out_words)
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

static ddisp_status create_module(vulkan__device *device, const code *from,
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

static ddisp_status create(vulkan__device *device, const code *from,
                           const uint32_t constants[VULKAN__CONSTANTS], VkPipeline *out_pipeline)
{
    VkShaderModule module;
    ddisp_status status = create_layout(device);
    if (status == DDISP_STATUS_OK)
        status = create_module(device, from, &module);
    if (status != DDISP_STATUS_OK)
        return status;
    status = compile(device, module, constants, out_pipeline);
    device->table.vkDestroyShaderModule(device->handle, module, NULL);
    return status;
}

static ddisp_status find(vulkan__device *device, const vulkan__operation *it,
                         VkPipeline *out_pipeline)
{
    const code *from = choose(device, it->shader, it->wide);
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&device->elements_lock);
    vulkan__element_pipeline *found = device->elements;
    while (found && (found->code != from ||
                     memcmp(found->constants, it->constants, sizeof it->constants) != 0))
        found = found->next;
    if (!found) {
        found = backend_allocate(device->services, sizeof *found);
        status = found ? create(device, from, it->constants, &found->pipeline)
                       : backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                      "no host memory for a pipeline");
        if (status != DDISP_STATUS_OK) {
            backend_release(device->services, found);
        } else {
            found->code = from;
            memcpy(found->constants, it->constants, sizeof it->constants);
            found->next = device->elements;
            device->elements = found;
        }
    }
    if (status == DDISP_STATUS_OK)
        *out_pipeline = found->pipeline;
    pthread_mutex_unlock(&device->elements_lock);
    return status;
}

void vulkan__elements_close(vulkan__device *device)
{
    while (device->elements) {
        vulkan__element_pipeline *next = device->elements->next;
        device->table.vkDestroyPipeline(device->handle, device->elements->pipeline, NULL);
        backend_release(device->services, device->elements);
        device->elements = next;
    }
    if (device->elements_layout)
        device->table.vkDestroyPipelineLayout(device->handle, device->elements_layout, NULL);
    device->elements_layout = VK_NULL_HANDLE;
}

/* ---- dispatch ---- */

bool vulkan__operation_shares(const vulkan__device *device, vulkan__shader shader, bool wide)
{
    return shader != VULKAN__SHADER_SCATTER || !wide ||
           vulkan__operation_is_native(device, shader, wide);
}

uint64_t vulkan__operation_fill(const vulkan__device *device, uint32_t each)
{
    uint32_t known = device->adapter->multiprocessors;
    return (uint64_t)(known ? known : SOME_MULTIPROCESSORS) * each;
}

ddisp_status vulkan__operation_check_wide(const vulkan__device *device)
{
    uint64_t needs = VULKAN__BIT(FLOAT64) | VULKAN__BIT(BUFFER_INT64_ATOMICS);
    if ((device->adapter->features & needs) == needs)
        return DDISP_STATUS_OK;
    return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                        "f64 needs shaderFloat64 and shaderBufferInt64Atomics, which the device "
                        "lacks");
}

void vulkan__operation_touches(vulkan__operation *it, const ddisp_backend_range *range, bool writes)
{
    it->accesses[it->access_count++] = (ddisp_backend_access){*range, writes, 0};
}

void vulkan__axes_write(const backend_axes *axes, vulkan__axes *out_axes)
{
    memset(out_axes, 0, sizeof *out_axes);
    out_axes->count = backend_axes_count(axes);
    out_axes->narrow = out_axes->count <= UINT32_MAX;
    out_axes->rank = axes->rank ? axes->rank : 1;
    out_axes->extent[0] = 1;
    for (uint32_t i = 0; i < axes->rank; i++) {
        out_axes->extent[i] = (uint64_t)axes->axis[i].extent;
        for (uint32_t k = 0; k < BACKEND_OPERANDS; k++)
            out_axes->stride[k][i] = axes->axis[i].stride[k];
    }
}

/** Room in the open batch, and the axes where the device sees them. */
static ddisp_status prepare(vulkan__device *device, vulkan__stream *stream,
                            const vulkan__operation *it, uint64_t *out_address)
{
    vulkan__piece piece;
    *out_address = 0;
    if (it->axes_count == 0)
        return vulkan__batch_begin(device, stream);
    uint64_t size_bytes = it->axes_count * sizeof it->axes[0];
    ddisp_status status = vulkan__ring_take(device, stream, &stream->arguments, size_bytes, &piece);
    if (status == DDISP_STATUS_OK) {
        memcpy(piece.mapped, it->axes, size_bytes);
        *out_address = piece.address;
    }
    return status;
}

ddisp_status vulkan__operation_run(vulkan__device *device, vulkan__stream *stream,
                                   const vulkan__operation *it, void *push)
{
    const struct VolkDeviceTable *vk = &device->table;
    uint64_t most = device->adapter->properties.limits.maxComputeWorkGroupCount[0];
    VkPipeline pipeline = VK_NULL_HANDLE;
    uint64_t axes;
    if (it->groups == 0)
        return DDISP_STATUS_OK;
    if (it->groups > MOST_GROUPS)
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "the work needs %llu groups, %llu can be numbered",
                            (unsigned long long)it->groups, (unsigned long long)MOST_GROUPS);
    ddisp_status status = find(device, it, &pipeline);
    if (status == DDISP_STATUS_OK)
        status = prepare(device, stream, it, &axes);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(push, &axes, sizeof axes);
    VkCommandBuffer commands = stream->open->commands;
    vulkan__batch_order(device, stream, it->accesses, it->access_count);
    if (stream->bound != pipeline) {
        vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        stream->bound = pipeline;
    }
    vk->vkCmdPushConstants(commands, device->elements_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           VULKAN__PUSH_BYTES, push);
    vk->vkCmdDispatch(commands, (uint32_t)(it->groups < most ? it->groups : most), 1, 1);
    return DDISP_STATUS_OK;
}

/* ---- memory to compute in ---- */

ddisp_status vulkan__scratch_take(vulkan__device *device, vulkan__stream *stream,
                                  uint64_t size_bytes, vulkan__scratch *out_scratch)
{
    memset(out_scratch, 0, sizeof *out_scratch);
    out_scratch->range.size_bytes = size_bytes;
    if (stream->capture) {
        const vulkan__buffer *buffer;
        ddisp_status status = vulkan__graph_memory(device, stream, size_bytes, &buffer);
        if (status != DDISP_STATUS_OK)
            return status;
        out_scratch->range.address = buffer->address;
        out_scratch->place = (vulkan__place){buffer->handle, 0};
        return DDISP_STATUS_OK;
    }
    ddisp_status status = vulkan__memory_allocate(device, stream, size_bytes, &out_scratch->memory);
    if (status != DDISP_STATUS_OK)
        return status;
    const vulkan__segment *segment = out_scratch->memory.handle;
    out_scratch->range.address = out_scratch->memory.address;
    out_scratch->place = (vulkan__place){segment->block->buffer.handle, segment->offset};
    return DDISP_STATUS_OK;
}

void vulkan__scratch_give(vulkan__device *device, vulkan__stream *stream, vulkan__scratch *scratch)
{
    if (scratch->memory.handle)
        vulkan__memory_free(device, stream, &scratch->memory);
}

ddisp_status vulkan__scratch_zero(vulkan__device *device, vulkan__stream *stream,
                                  const vulkan__scratch *scratch, uint64_t size_bytes)
{
    ddisp_status status = vulkan__batch_begin(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    const ddisp_backend_access access = {scratch->range, 1, 0};
    vulkan__batch_order(device, stream, &access, 1);
    device->table.vkCmdFillBuffer(stream->open->commands, scratch->place.buffer,
                                  scratch->place.offset, size_bytes, 0);
    return DDISP_STATUS_OK;
}
