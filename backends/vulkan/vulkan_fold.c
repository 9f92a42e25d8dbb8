/*
 * vulkan_fold.c - the end of deterministic mode in users' kernels, by a built-in shader
 * (kernels/fold.comp): sums that were taken in integers go into the gradient. In: a destination of
 * any layout and dtype, and a shadow of its shape. Each combination of dtypes becomes a pipeline
 * when it is first used and stays for the life of the device.
 */
#include "vulkan_internal.h"

#include <string.h>

#include "fold.spv.h"
#include "fold_double.spv.h"

#define GROUP       256
#define MOST_GROUPS UINT64_C(65535)

/** As in kernels/fold.comp. Strides are in bytes. */
typedef struct work {
    uint64_t destination, shadow, sticky;
    uint64_t bits;
    uint64_t cells;
    uint32_t rank, reserved;
    int64_t shape[8], destination_stride[8], shadow_stride[8];
} work;

/** Specialization constants. */
typedef struct constants {
    uint32_t destination;
    VkBool32 wide, adds;
} constants;

struct vulkan__fold_pipeline {
    constants key;
    VkPipeline pipeline;
    vulkan__fold_pipeline *next;
};

static bool is_double(const constants *key)
{
    return key->wide || key->destination == DDISP_DTYPE_F64;
}

static ddisp_status create(vulkan__device *device, const constants *key, VkPipeline *out_pipeline)
{
    const struct VolkDeviceTable *vk = &device->table;
    bool wide = is_double(key);
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = wide ? sizeof fold_double_spv : sizeof fold_spv,
        .pCode = wide ? fold_double_spv : fold_spv,
    };
    VkSpecializationMapEntry entries[3];
    for (uint32_t i = 0; i < 3; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = 4 * i, .size = 4};
    const VkSpecializationInfo specialization = {
        .mapEntryCount = 3, .pMapEntries = entries, .dataSize = sizeof *key, .pData = key};
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

static ddisp_status find(vulkan__device *device, const constants *key, VkPipeline *out_pipeline)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&device->elements_lock);
    vulkan__fold_pipeline *found = device->folds;
    while (found && memcmp(&found->key, key, sizeof *key) != 0)
        found = found->next;
    if (!found) {
        found = backend_allocate(device->services, sizeof *found);
        status = found ? create(device, key, &found->pipeline)
                       : backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                      "no host memory for a pipeline");
        if (status != DDISP_STATUS_OK) {
            backend_release(device->services, found);
        } else {
            found->key = *key;
            found->next = device->folds;
            device->folds = found;
        }
    }
    if (status == DDISP_STATUS_OK)
        *out_pipeline = found->pipeline;
    pthread_mutex_unlock(&device->elements_lock);
    return status;
}

void vulkan__folds_close(vulkan__device *device)
{
    while (device->folds) {
        vulkan__fold_pipeline *next = device->folds->next;
        device->table.vkDestroyPipeline(device->handle, device->folds->pipeline, NULL);
        backend_release(device->services, device->folds);
        device->folds = next;
    }
}

static void describe(work *it, const ddisp_backend_tensor *destination,
                     const ddisp_backend_tensor *shadow, bool wide)
{
    ddisp_dtype dtype = destination->dtype;
    int64_t size = dtype == DDISP_DTYPE_F64 ? 8 : dtype == DDISP_DTYPE_F32 ? 4 : 2;
    it->cells = 1;
    for (uint32_t i = 0; i < destination->rank; i++) {
        if (destination->shape[i] == 1)
            continue;
        it->cells *= (uint64_t)destination->shape[i];
        it->shape[it->rank] = destination->shape[i];
        it->destination_stride[it->rank] = destination->strides[i] * size;
        it->shadow_stride[it->rank] = shadow->strides[i] * (wide ? 16 : 8);
        it->rank++;
    }
}

static ddisp_status dispatch(vulkan__device *device, vulkan__stream *stream, VkPipeline pipeline,
                             const work *it, const ddisp_backend_access *accesses, uint32_t count)
{
    const struct VolkDeviceTable *vk = &device->table;
    uint64_t groups = (it->cells + GROUP - 1) / GROUP;
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
    vk->vkCmdDispatch(commands, (uint32_t)(groups < MOST_GROUPS ? groups : MOST_GROUPS), 1, 1);
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__fold(void *device_handle, void *stream,
                          const ddisp_backend_tensor *destination,
                          const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                          uint64_t flags, const ddisp_backend_range *sticky)
{
    vulkan__device *device = device_handle;
    const uint64_t needs = VULKAN__BIT(FLOAT64) | VULKAN__BIT(BUFFER_INT64_ATOMICS);
    const constants key = {.destination = destination->dtype,
                           .wide = (flags & DDISP_BACKEND_FOLD_WIDE) != 0,
                           .adds = operation == DDISP_BACKEND_ACCUMULATE_ADD};
    double step = 1 / scale;
    VkPipeline pipeline = VK_NULL_HANDLE;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && is_double(&key) &&
        (device->adapter->features & needs) != needs)
        status = backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                              "f64 needs shaderFloat64 and shaderBufferInt64Atomics, which the "
                              "device lacks");
    if (status == DDISP_STATUS_OK)
        status = find(device, &key, &pipeline);
    if (status != DDISP_STATUS_OK)
        return status;
    work it = {
        .destination = destination->address, .shadow = shadow->address, .sticky = sticky->address};
    memcpy(&it.bits, &step, sizeof step);
    describe(&it, destination, shadow, key.wide);
    const ddisp_backend_access accesses[3] = {
        {destination->range, 1, 0}, {shadow->range, 0, 0}, {*sticky, 1, 0}};
    return dispatch(device, stream, pipeline, &it, accesses, 3);
}
