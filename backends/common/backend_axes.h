/*
 * backend_axes.h - the axes of an element-wise operation, made as few and as simple as they get
 * before a kernel sees them: extents of 1 dropped, turned, sorted, neighbours merged where memory
 * allows. Knows nothing of a device. Strides are in whatever unit the caller counts in.
 */
#ifndef DDISP_BACKEND_AXES_H
#define DDISP_BACKEND_AXES_H

#include <stdbool.h>
#include <stdint.h>

/** Operands of an operation, at most. */
#define BACKEND_OPERANDS 3

typedef struct backend_axis {
    int64_t extent;
    int64_t stride[BACKEND_OPERANDS]; /* per operand; 0 for those that are not there */
} backend_axis;

/** The last is the innermost. */
typedef struct backend_axes {
    uint32_t rank;
    backend_axis axis[8];
} backend_axes;

static inline uint64_t backend_stride_size(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/** Adds an axis inside the others, unless its extent is 1. */
static inline void backend_axes_add(backend_axes *axes, int64_t extent, int64_t first,
                                    int64_t second, int64_t third)
{
    if (extent != 1)
        axes->axis[axes->rank++] = (backend_axis){extent, {first, second, third}};
}

/** Turns axes along which the first operand runs backwards. Adds to offsets, per operand, how far
 * element 0 moves. */
static inline void backend_axes_turn(backend_axes *axes, int64_t offsets[BACKEND_OPERANDS])
{
    for (uint32_t i = 0; i < axes->rank; i++) {
        backend_axis *axis = &axes->axis[i];
        if (axis->stride[0] >= 0)
            continue;
        for (uint32_t k = 0; k < BACKEND_OPERANDS; k++) {
            offsets[k] += (axis->extent - 1) * axis->stride[k];
            axis->stride[k] = -axis->stride[k];
        }
    }
}

static inline bool backend_axis_lies_outside(const backend_axis *one, const backend_axis *other)
{
    for (uint32_t k = 0; k < BACKEND_OPERANDS; k++) {
        uint64_t a = backend_stride_size(one->stride[k]), b = backend_stride_size(other->stride[k]);
        if (a != b)
            return a > b;
    }
    return false;
}

/** Sorts by falling size of the first operand's strides; where equal, of the second's, the third's.
 */
static inline void backend_axes_sort(backend_axes *axes)
{
    for (uint32_t i = 1; i < axes->rank; i++) {
        backend_axis axis = axes->axis[i];
        uint32_t at = i;
        for (; at > 0 && backend_axis_lies_outside(&axis, &axes->axis[at - 1]); at--)
            axes->axis[at] = axes->axis[at - 1];
        axes->axis[at] = axis;
    }
}

static inline bool backend_axis_continues(const backend_axis *outer, const backend_axis *inner)
{
    for (uint32_t k = 0; k < BACKEND_OPERANDS; k++) {
        int64_t whole;
        if (__builtin_mul_overflow(inner->stride[k], inner->extent, &whole) ||
            outer->stride[k] != whole)
            return false;
    }
    return true;
}

/** Merges neighbours that are one axis for every operand. */
static inline void backend_axes_merge(backend_axes *axes)
{
    uint32_t rank = axes->rank ? 1 : 0;
    for (uint32_t i = 1; i < axes->rank; i++) {
        backend_axis *outer = &axes->axis[rank - 1], inner = axes->axis[i];
        if (backend_axis_continues(outer, &inner)) {
            inner.extent *= outer->extent;
            *outer = inner;
        } else {
            axes->axis[rank++] = inner;
        }
    }
    axes->rank = rank;
}

/** Takes the innermost axis off, which is {1, {0}} when there is none. */
static inline backend_axis backend_axes_take_inner(backend_axes *axes)
{
    if (axes->rank == 0)
        return (backend_axis){1, {0}};
    return axes->axis[--axes->rank];
}

static inline uint64_t backend_axes_count(const backend_axes *axes)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < axes->rank; i++)
        count *= (uint64_t)axes->axis[i].extent;
    return count;
}

#endif
