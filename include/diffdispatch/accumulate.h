/*
 * accumulate.h - element-wise operations on tensors in stream order: fill, copy, accumulate (which
 * also reduces), scatter-add. The same operations that launches use for gradients; none touches
 * requires_grad or stored gradients.
 */
#ifndef DIFFDISPATCH_ACCUMULATE_H
#define DIFFDISPATCH_ACCUMULATE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Stores value into every element, and into nothing between the elements.
 *   value   rounded to nearest for floating-point dtypes; for others it must be an integer in range
 *   stream  NULL: the device's own
 * Returns OK, INVALID_ARGUMENT, READ_ONLY, DEVICE_MISMATCH, UNSUPPORTED, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_fill(ddisp_tensor *tensor, double value, ddisp_stream *stream);

/**
 * destination = source. Shapes are equal, or source broadcasts to destination (trailing axes
 * aligned, extents equal or 1). Floating-point dtypes convert (round to nearest even); others must
 * be equal. The two may not overlap, and no two elements of destination may share memory.
 * Returns OK, INVALID_ARGUMENT, SHAPE_MISMATCH, DTYPE_MISMATCH, READ_ONLY, ALIASED,
 * DEVICE_MISMATCH, UNSUPPORTED, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_copy(ddisp_tensor *destination, ddisp_tensor *source,
                                         ddisp_stream *stream);

/** The result is bit-identical whatever the geometry and order of the work. scatter-add: it is the
 * same on all devices, too (subnormal sums aside), and a sum is off by at most n * 2^-(k + 1)
 * before it is rounded and added: n is source's extent along the axis, k = 62 - ceil(log2 n) -
 * ceil(log2 bound), and bound at most 64 times source's largest finite magnitude. */
#define DDISP_ACCUMULATE_DETERMINISTIC UINT64_C(1)
/** scatter-add: an index out of range is an error (INVALID_ARGUMENT, nothing is added). Waits. */
#define DDISP_ACCUMULATE_CHECKED UINT64_C(2)

/** accumulate: a promise that nobody else (another stream, a launch, another process) adds to or
 * stores into destination while the work is done. It may then be read and stored without atomics:
 * subnormal numbers are kept, and devices without atomics for f16 and bf16 add those faster. */
#define DDISP_ACCUMULATE_EXCLUSIVE UINT64_C(4)

/** Options of accumulate and scatter-add. */
typedef struct ddisp_accumulate_options {
    uint32_t size;     /**< sizeof(ddisp_accumulate_options) */
    uint32_t reserved; /**< zero */
    uint64_t flags;    /**< DDISP_ACCUMULATE_... */
    /** scatter-add: receives how many indices were out of range and skipped; NULL: not counted.
     *  With it the call waits for the work. */
    uint64_t *out_skipped;
} ddisp_accumulate_options;

/**
 * destination += alpha * source, broadcasting either way with trailing axes aligned: where
 * destination has extent 1 (or no axis) the source is summed, where source has extent 1 (or no
 * axis) it is repeated. Sums are at least f32 (f64 when either is), rounded once into an f16 or
 * bf16 destination. Safe beside other streams that add to the same destination, unless EXCLUSIVE
 * says that there are none. f16, bf16, f32, f64. Returns OK, INVALID_ARGUMENT, SHAPE_MISMATCH,
 * DTYPE_MISMATCH, READ_ONLY, ALIASED, DEVICE_MISMATCH, UNSUPPORTED, OUT_OF_DEVICE_MEMORY,
 * DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_accumulate(ddisp_tensor *destination, ddisp_tensor *source,
                                               double alpha,
                                               const ddisp_accumulate_options *options,
                                               ddisp_stream *stream);

/**
 * destination[..., index[i], ...] += source[..., i, ...] along axis. index has rank 1 (one index
 * per position of the axis) or source's shape; I32 or I64. source has destination's shape but for
 * the axis. An index outside 0 to extent - 1 is skipped (and counted), or with CHECKED an error; it
 * is never written elsewhere. f16, bf16, f32, f64. Returns OK, INVALID_ARGUMENT, SHAPE_MISMATCH,
 * RANK_MISMATCH, DTYPE_MISMATCH, READ_ONLY, ALIASED, DEVICE_MISMATCH, UNSUPPORTED,
 * OUT_OF_DEVICE_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_scatter_add(ddisp_tensor *destination, uint32_t axis,
                                                ddisp_tensor *index, ddisp_tensor *source,
                                                const ddisp_accumulate_options *options,
                                                ddisp_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
