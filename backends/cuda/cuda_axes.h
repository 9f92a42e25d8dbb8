/*
 * cuda_axes.h - the axes of an element-wise operation, made as few and as simple as they get before
 * a kernel sees them: extents of 1 dropped, sorted, neighbours merged where memory allows.
 */
#ifndef DDISP_CUDA_AXES_H
#define DDISP_CUDA_AXES_H

#include "kernels/work.h"

#include <stdbool.h>

/** Operands of an operation, at most. */
#define CUDA__OPERANDS 3

typedef struct cuda__axis {
    int64_t extent;
    int64_t stride[CUDA__OPERANDS]; /* per operand; 0 for those that are not there */
} cuda__axis;

/** The last is the innermost. */
typedef struct cuda__axes {
    uint32_t rank;
    cuda__axis axis[8];
} cuda__axes;

/** Adds an axis inside the others, unless its extent is 1. */
void cuda__axes_add(cuda__axes *axes, int64_t extent, int64_t first, int64_t second, int64_t third);
/** Turns axes along which the first operand runs backwards. Adds to offsets, per operand, how far
 * element 0 moves. */
void cuda__axes_turn(cuda__axes *axes, int64_t offsets[CUDA__OPERANDS]);
/** Sorts by falling size of the first operand's strides; where equal, of the second's, the third's.
 */
void cuda__axes_sort(cuda__axes *axes);
/** Merges neighbours that are one axis for every operand. */
void cuda__axes_merge(cuda__axes *axes);
/** Takes the innermost axis off, which is {1, {0}} when there is none. */
cuda__axis cuda__axes_take_inner(cuda__axes *axes);
uint64_t cuda__axes_count(const cuda__axes *axes);
/** Writes extents, and strides per operand, NULL for those not wanted. */
void cuda__axes_write(const cuda__axes *axes, work_axes *out, int64_t *first, int64_t *second,
                      int64_t *third);

#endif
