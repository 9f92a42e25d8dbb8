/*
 * vulkan_builtin.c - dispatches of the built-in shaders (kernels/). Each shader exists in several
 * forms, by what the device can do; dtypes and the shape of the work are specialization constants.
 * What a shader needs to know is pushed; only axes of strided memory lie in memory that the device
 * sees.
 */
#include "vulkan_operations.h"

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

/** Forms of a shader. */
enum {
    PLAIN,
    NATIVE,      /* the device has the atomics that the shader would like, and 16-bit access */
    PARTITIONED, /* and tells which invocations hold the same value */
    FORMS,
};

#define CODE(name)                                                                                 \
    {                                                                                              \
        name##_spv, sizeof name##_spv                                                              \
    }

/** Numbers in f32, then in f64. Missing forms are the one before. */
static const vulkan__builtin codes[VULKAN__SHADER_COUNT][2][FORMS] = {
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

/* ---- forms ---- */

bool vulkan__operation_is_native(const vulkan__device *device, vulkan__shader shader, bool wide)
{
    uint64_t needs = wanted[shader][wide] | VULKAN__BIT(STORAGE16);
    return (device->adapter->features & needs) == needs;
}

static const vulkan__builtin *choose(const vulkan__device *device, vulkan__shader shader, bool wide)
{
    const vulkan__builtin *forms = codes[shader][wide];
    if (!vulkan__operation_is_native(device, shader, wide))
        return &forms[PLAIN];
    bool partitioned = (device->adapter->features & VULKAN__BIT(PARTITIONED)) != 0 &&
                       device->adapter->properties11.subgroupSize == 32;
    return partitioned && forms[PARTITIONED].words ? &forms[PARTITIONED] : &forms[NATIVE];
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
    uint64_t most = device->adapter->properties.limits.maxComputeWorkGroupCount[0];
    VkPipeline pipeline = VK_NULL_HANDLE;
    uint64_t axes;
    if (it->groups == 0)
        return DDISP_STATUS_OK;
    if (it->groups > MOST_GROUPS)
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "the work needs %llu groups, %llu can be numbered",
                            (unsigned long long)it->groups, (unsigned long long)MOST_GROUPS);
    ddisp_status status = vulkan__builtin_find(device, choose(device, it->shader, it->wide),
                                               it->constants, VULKAN__CONSTANTS, &pipeline);
    if (status == DDISP_STATUS_OK)
        status = prepare(device, stream, it, &axes);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(push, &axes, sizeof axes);
    vulkan__batch_order(device, stream, it->accesses, it->access_count);
    vulkan__builtin_record(device, stream, pipeline, push, VULKAN__PUSH_BYTES,
                           (uint32_t)(it->groups < most ? it->groups : most));
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
    out_scratch->zeroed_bytes = segment->zeroed_bytes;
    return DDISP_STATUS_OK;
}

void vulkan__scratch_give(vulkan__device *device, vulkan__stream *stream, vulkan__scratch *scratch,
                          uint64_t zeroed_bytes)
{
    if (zeroed_bytes == scratch->range.size_bytes && zeroed_bytes < scratch->zeroed_bytes)
        zeroed_bytes = scratch->zeroed_bytes;
    if (scratch->memory.handle)
        vulkan__memory_give(device, stream, &scratch->memory, zeroed_bytes);
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
