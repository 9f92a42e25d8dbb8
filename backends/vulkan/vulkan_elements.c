/*
 * vulkan_elements.c - element-wise operations and scatter-add by built-in shaders (kernels/).
 * Dtypes and operation are specialization constants; each combination becomes a pipeline when it is
 * first used and stays for the life of the device. Shapes and addresses go to memory that the
 * device sees.
 */
#include "vulkan_internal.h"

#include <string.h>

#include "elements.spv.h"
#include "elements_double.spv.h"
#include "elements_native.spv.h"
#include "scatter.spv.h"
#include "scatter_double.spv.h"
#include "scatter_native.spv.h"

#define GROUP       256
#define MOST_GROUPS 4096
/** Elements of a cell that one group sums before more groups take part. */
#define PART 16384

enum {
    OPERATION_ADD,
    OPERATION_STORE,
    OPERATION_FILL,
    OPERATION_COPY,
    OPERATION_SCATTER,
};

/** As in kernels/numbers.glsl. */
typedef struct work {
    uint64_t destination, source, index, skipped;
    uint64_t bits;
    uint64_t alpha;
    uint64_t cells, summed, splits;
    int64_t axis_extent;
    uint32_t rank, kept, axis, reserved;
    int64_t shape[8];
    int64_t destination_stride[8];
    int64_t source_stride[8];
    int64_t index_stride[8];
} work;

typedef struct shader {
    const uint32_t *words;
    size_t size_bytes;
} shader;

struct vulkan__element_pipeline {
    uint32_t key;
    VkPipeline pipeline;
    vulkan__element_pipeline *next;
};

/* ---- pipelines ---- */

static shader choose_shader(const vulkan__device *device, uint32_t operation, bool wide)
{
    bool native = (device->adapter->features & VULKAN__BIT(BUFFER_FLOAT32_ADD)) != 0;
    bool scatter = operation == OPERATION_SCATTER;
    if (wide)
        return scatter ? (shader){scatter_double_spv, sizeof scatter_double_spv}
                       : (shader){elements_double_spv, sizeof elements_double_spv};
    if (native)
        return scatter ? (shader){scatter_native_spv, sizeof scatter_native_spv}
                       : (shader){elements_native_spv, sizeof elements_native_spv};
    return scatter ? (shader){scatter_spv, sizeof scatter_spv}
                   : (shader){elements_spv, sizeof elements_spv};
}

static ddisp_status create(vulkan__device *device, shader code, const uint32_t constants[4],
                           VkPipeline *out_pipeline)
{
    const struct VolkDeviceTable *vk = &device->table;
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = code.size_bytes,
        .pCode = code.words,
    };
    VkSpecializationMapEntry entries[4];
    for (uint32_t i = 0; i < 4; i++)
        entries[i] = (VkSpecializationMapEntry){
            .constantID = i, .offset = 4 * i, .size = sizeof constants[0]};
    const VkSpecializationInfo specialization = {.mapEntryCount = 4,
                                                 .pMapEntries = entries,
                                                 .dataSize = 4 * sizeof constants[0],
                                                 .pData = constants};
    VkShaderModule module;
    ddisp_status status =
        vulkan__check(device, vk->vkCreateShaderModule(device->handle, &module_info, NULL, &module),
                      "vkCreateShaderModule");
    if (status != DDISP_STATUS_OK)
        return status;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = device->block_layout,
        .basePipelineIndex = -1,
    };
    status = vulkan__check(
        device,
        vk->vkCreateComputePipelines(device->handle, VK_NULL_HANDLE, 1, &info, NULL, out_pipeline),
        "vkCreateComputePipelines");
    vk->vkDestroyShaderModule(device->handle, module, NULL);
    return status;
}

static ddisp_status find_pipeline(vulkan__device *device, uint32_t operation, ddisp_dtype to,
                                  ddisp_dtype from, ddisp_dtype index, bool wide,
                                  VkPipeline *out_pipeline)
{
    uint32_t key = operation | to << 4 | from << 8 | index << 12 | (uint32_t)wide << 16;
    const uint32_t constants[4] = {operation, to, from, index};
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&device->elements_lock);
    vulkan__element_pipeline *found = device->elements;
    while (found && found->key != key)
        found = found->next;
    if (!found) {
        found = backend_allocate(device->services, sizeof *found);
        status = found ? create(device, choose_shader(device, operation, wide), constants,
                                &found->pipeline)
                       : backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                      "no host memory for a pipeline");
        if (status != DDISP_STATUS_OK) {
            backend_release(device->services, found);
        } else {
            found->key = key;
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
}

/* ---- dispatch ---- */

static ddisp_status dispatch(vulkan__device *device, vulkan__stream *stream, VkPipeline pipeline,
                             const work *it, const ddisp_backend_access *accesses, uint32_t count,
                             uint64_t groups)
{
    const struct VolkDeviceTable *vk = &device->table;
    uint64_t most = device->adapter->properties.limits.maxComputeWorkGroupCount[0];
    most = most < MOST_GROUPS ? most : MOST_GROUPS;
    vulkan__piece piece;
    ddisp_status status = vulkan__ring_take(device, stream, &stream->arguments, sizeof *it, &piece);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(piece.mapped, it, sizeof *it);
    VkCommandBuffer commands = stream->open->commands;
    vulkan__batch_order(device, stream, accesses, count);
    if (stream->bound != pipeline) {
        vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        stream->bound = pipeline;
    }
    vk->vkCmdPushConstants(commands, device->block_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           (uint32_t)sizeof piece.address, &piece.address);
    vk->vkCmdDispatch(commands, (uint32_t)(groups < most ? groups : most), 1, 1);
    return DDISP_STATUS_OK;
}

/* Axes that the destination keeps come first, those that it sums last; neighbours that lie behind
 * each other in all tensors become one. */
static void sort_axes(work *it, const ddisp_backend_tensor *to, const ddisp_backend_tensor *from,
                      bool sums)
{
    it->cells = it->summed = 1;
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t first = it->rank;
        for (uint32_t i = 0; i < to->rank; i++) {
            bool summed = sums && to->strides[i] == 0 && to->shape[i] > 1;
            if (summed != (pass == 1) || to->shape[i] == 1)
                continue;
            *(summed ? &it->summed : &it->cells) *= (uint64_t)to->shape[i];
            uint32_t last = it->rank;
            if (last > first && it->destination_stride[last - 1] == to->strides[i] * to->shape[i] &&
                it->source_stride[last - 1] == from->strides[i] * from->shape[i]) {
                last--;
                it->shape[last] *= to->shape[i];
            } else {
                it->shape[last] = to->shape[i];
                it->rank++;
            }
            it->destination_stride[last] = to->strides[i];
            it->source_stride[last] = from->strides[i];
        }
        if (pass == 0)
            it->kept = it->rank;
    }
}

static bool is_wide(ddisp_dtype dtype)
{
    return dtype == DDISP_DTYPE_F64;
}

static ddisp_status check_wide(const vulkan__device *device)
{
    uint64_t needs = VULKAN__BIT(FLOAT64) | VULKAN__BIT(BUFFER_INT64_ATOMICS);
    if ((device->adapter->features & needs) == needs)
        return DDISP_STATUS_OK;
    return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                        "f64 needs shaderFloat64 and shaderBufferInt64Atomics, which the device "
                        "lacks");
}

static ddisp_status run(vulkan__device *device, vulkan__stream *stream, uint32_t operation,
                        const ddisp_backend_tensor *to, const ddisp_backend_tensor *from, work *it,
                        uint64_t flags)
{
    bool adds = operation == OPERATION_ADD;
    bool wide = operation <= OPERATION_STORE && (is_wide(to->dtype) || is_wide(from->dtype));
    VkPipeline pipeline = VK_NULL_HANDLE;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && wide)
        status = check_wide(device);
    if (status == DDISP_STATUS_OK)
        status = find_pipeline(device, operation, to->dtype, from->dtype, DDISP_DTYPE_I32, wide,
                               &pipeline);
    if (status != DDISP_STATUS_OK)
        return status;
    it->destination = to->address;
    it->source = from->address;
    sort_axes(it, to, from, adds);
    it->splits = 1;
    bool fixed = (flags & DDISP_BACKEND_ACCUMULATE_DETERMINISTIC) != 0;
    if (!fixed && it->cells < 256)
        it->splits = (it->summed + PART - 1) / PART;
    uint64_t groups = it->summed > 1 ? it->cells * it->splits : (it->cells + GROUP - 1) / GROUP;
    const ddisp_backend_access accesses[2] = {{to->range, 1, 0}, {from->range, 0, 0}};
    return dispatch(device, stream, pipeline, it, accesses, operation == OPERATION_FILL ? 1 : 2,
                    groups);
}

ddisp_status vulkan__fill_elements(void *device, void *stream,
                                   const ddisp_backend_tensor *destination, uint64_t bits)
{
    work it = {.bits = bits};
    return run(device, stream, OPERATION_FILL, destination, destination, &it, 0);
}

ddisp_status vulkan__accumulate(void *device, void *stream, const ddisp_backend_tensor *destination,
                                const ddisp_backend_tensor *source, double alpha,
                                uint32_t operation, uint64_t flags)
{
    work it = {0};
    float single = (float)alpha;
    if (is_wide(destination->dtype) || is_wide(source->dtype))
        memcpy(&it.alpha, &alpha, sizeof alpha);
    else
        memcpy(&it.alpha, &single, sizeof single);
    bool stores = operation == DDISP_BACKEND_ACCUMULATE_STORE;
    bool copies = stores && alpha == 1.0 && destination->dtype == source->dtype;
    return run(device, stream,
               copies   ? OPERATION_COPY
               : stores ? OPERATION_STORE
                        : OPERATION_ADD,
               destination, source, &it, flags);
}

ddisp_status vulkan__scatter_add(void *device_handle, void *stream,
                                 const ddisp_backend_tensor *destination, uint32_t axis,
                                 int64_t axis_extent, const ddisp_backend_tensor *index,
                                 const ddisp_backend_tensor *source,
                                 const ddisp_backend_range *skipped, uint64_t flags)
{
    vulkan__device *device = device_handle;
    bool wide = is_wide(destination->dtype) || is_wide(source->dtype);
    VkPipeline pipeline = VK_NULL_HANDLE;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && (flags & DDISP_BACKEND_ACCUMULATE_DETERMINISTIC))
        status = backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                              "the Vulkan backend has no deterministic scatter-add");
    if (status == DDISP_STATUS_OK && wide)
        status = check_wide(device);
    if (status == DDISP_STATUS_OK)
        status = find_pipeline(device, OPERATION_SCATTER, destination->dtype, source->dtype,
                               index->dtype, wide, &pipeline);
    if (status != DDISP_STATUS_OK)
        return status;
    work it = {.destination = destination->address,
               .source = source->address,
               .index = index->address,
               .skipped = skipped->address,
               .axis_extent = axis_extent,
               .rank = source->rank,
               .axis = axis,
               .cells = 1};
    for (uint32_t i = 0; i < source->rank; i++) {
        it.cells *= (uint64_t)source->shape[i];
        it.shape[i] = source->shape[i];
        it.destination_stride[i] = destination->strides[i];
        it.source_stride[i] = source->strides[i];
        it.index_stride[i] = index->strides[i];
    }
    const ddisp_backend_access accesses[4] = {
        {destination->range, 1, 0}, {source->range, 0, 0}, {index->range, 0, 0}, {*skipped, 1, 0}};
    return dispatch(device, stream, pipeline, &it, accesses, skipped->address ? 4 : 3,
                    (it.cells + GROUP - 1) / GROUP);
}
