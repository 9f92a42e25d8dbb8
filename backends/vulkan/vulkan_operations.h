/*
 * vulkan_operations.h - what the rooms behind fill_elements, accumulate and scatter_add share: the
 * built-in shaders (kernels/) as pipelines, one dispatch of one of them, and memory to compute in.
 */
#ifndef DDISP_VULKAN_OPERATIONS_H
#define DDISP_VULKAN_OPERATIONS_H

#include "backend_shapes.h"
#include "vulkan_internal.h"

/** Invocations of every group. */
#define VULKAN__GROUP 256

typedef enum vulkan__shader {
    VULKAN__SHADER_ELEMENTS,
    VULKAN__SHADER_REDUCE,
    VULKAN__SHADER_SCATTER,
    VULKAN__SHADER_FIXED,
    VULKAN__SHADER_FINISH,
    VULKAN__SHADER_COUNT,
} vulkan__shader;

/** Specialization constants, as kernels/numbers.glsl numbers them. */
enum {
    VULKAN__CONSTANT_OPERATION,
    VULKAN__CONSTANT_TO,
    VULKAN__CONSTANT_FROM,
    VULKAN__CONSTANT_INDEX,
    VULKAN__CONSTANT_FORM,
    VULKAN__CONSTANT_SHARED,
    VULKAN__CONSTANTS,
};

/** Axes as the shaders find them in memory (kernels/places.glsl). Strides are in bytes, unless
 * said. */
typedef struct vulkan__axes {
    uint32_t rank;
    uint32_t narrow; /* numbers of elements fit 32 bits */
    uint64_t count;
    uint64_t extent[8];
    int64_t stride[BACKEND_OPERANDS][8];
} vulkan__axes;

/** Bytes that a shader is pushed. Its first word is the address of the axes. */
#define VULKAN__PUSH_BYTES 128

/* ---- pipelines (vulkan_pipeline.c) */

/** Values of specialization constants, at most. */
#define VULKAN__MOST_CONSTANTS 8

/** The words of a built-in shader. */
typedef struct vulkan__builtin {
    const uint32_t *words;
    size_t size_bytes;
} vulkan__builtin;

/** The pipeline of a shader, known by its address, with values for its constants 0 to count - 1. */
ddisp_status vulkan__builtin_find(vulkan__device *device, const vulkan__builtin *code,
                                  const uint32_t *constants, uint32_t count,
                                  VkPipeline *out_pipeline);
/** Records a dispatch into the open batch. push_bytes: at most VULKAN__PUSH_BYTES. */
void vulkan__builtin_record(vulkan__device *device, vulkan__stream *stream, VkPipeline pipeline,
                            const void *push, uint32_t push_bytes, uint32_t groups);

/* ---- operations (vulkan_builtin.c) */

/** A dispatch of a built-in shader. */
typedef struct vulkan__operation {
    vulkan__shader shader;
    bool wide; /* numbers are f64 */
    uint32_t constants[VULKAN__CONSTANTS];
    vulkan__axes axes[2];
    uint32_t axes_count; /* that the shader reads */
    uint64_t groups;     /* 0: nothing is dispatched */
    ddisp_backend_access accesses[6];
    uint32_t access_count;
} vulkan__operation;

/** push: VULKAN__PUSH_BYTES; the address of the axes is put in front of what is pushed. */
ddisp_status vulkan__operation_run(vulkan__device *device, vulkan__stream *stream,
                                   const vulkan__operation *it, void *push);
void vulkan__operation_touches(vulkan__operation *it, const ddisp_backend_range *range,
                               bool writes);
/** Groups that fill the device, `each` on a multiprocessor; a guess where those are not known. */
uint64_t vulkan__operation_fill(const vulkan__device *device, uint32_t each);
/** Whether the device has what the shader would like to use. */
bool vulkan__operation_is_native(const vulkan__device *device, vulkan__shader shader, bool wide);
/** Whether the shader can add native numbers in a group's memory. */
bool vulkan__operation_shares(const vulkan__device *device, vulkan__shader shader, bool wide);
/** UNSUPPORTED when the device has no f64. */
ddisp_status vulkan__operation_check_wide(const vulkan__device *device);
/** Strides are already in bytes. */
void vulkan__axes_write(const backend_axes *axes, vulkan__axes *out_axes);

/** Memory that an operation computes in: the stream's, given back behind the operation, or, while
 * the stream captures, the graph's. */
typedef struct vulkan__scratch {
    ddisp_backend_memory memory;
    ddisp_backend_range range;
    vulkan__place place;
    uint64_t zeroed_bytes; /* at its beginning, so many are zero */
} vulkan__scratch;

ddisp_status vulkan__scratch_take(vulkan__device *device, vulkan__stream *stream,
                                  uint64_t size_bytes, vulkan__scratch *out_scratch);
/** zeroed_bytes: when the work is done so many at its beginning are zero; if all of it, so is what
 * was zero behind it. */
void vulkan__scratch_give(vulkan__device *device, vulkan__stream *stream, vulkan__scratch *scratch,
                          uint64_t zeroed_bytes);
/** Zeroes its first bytes, a multiple of 4. */
ddisp_status vulkan__scratch_zero(vulkan__device *device, vulkan__stream *stream,
                                  const vulkan__scratch *scratch, uint64_t size_bytes);

/** destination += alpha * source where the destination has strides of 0 (vulkan_reduce.c). */
ddisp_status vulkan__reduce(vulkan__device *device, vulkan__stream *stream,
                            const ddisp_backend_tensor *destination,
                            const ddisp_backend_tensor *source, double alpha);

/** Size of an element in bytes; 0: no such dtype. */
static inline int64_t vulkan__dtype_size(ddisp_dtype dtype)
{
    static const uint8_t sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dtype < sizeof sizes ? sizes[dtype] : 0;
}

static inline bool vulkan__dtype_is_half(ddisp_dtype dtype)
{
    return dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16;
}

static inline uint64_t vulkan__divide_up(uint64_t value, uint64_t by)
{
    return (value + by - 1) / by;
}

#endif
