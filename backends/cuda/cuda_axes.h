/*
 * cuda_axes.h - collapsed axes as the backend's own kernels take them.
 */
#ifndef DDISP_CUDA_AXES_H
#define DDISP_CUDA_AXES_H

#include "backend_shapes.h"
#include "kernels/work.h"

/** Writes extents, and strides per operand, NULL for those not wanted. */
void cuda__axes_write(const backend_axes *axes, work_axes *out, int64_t *first, int64_t *second,
                      int64_t *third);

#endif
