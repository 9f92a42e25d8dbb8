/*
 * backend_shapes.h - how the axes of a sum or a scatter-add are shared out, alike on every device
 * with kernels of its own. Pure arithmetic on shapes; no address is touched.
 */
#ifndef DDISP_BACKEND_SHAPES_H
#define DDISP_BACKEND_SHAPES_H

#include "backend_axes.h"

#include <diffdispatch/backend.h>

/** Exponent of the smallest power of two that is not below value, at most `most`. */
static inline uint32_t backend_log2_up(uint64_t value, uint32_t most)
{
    uint32_t log2 = 0;
    while (log2 < most && UINT64_C(1) << log2 < value)
        log2++;
    return log2;
}

/** A sum: axes that the destination repeats hold terms, the others cells. Operand 0 is the source,
 * operand 1 the destination; the addresses become those of the first elements. */
static inline void backend_shapes_reduce(const ddisp_backend_tensor *destination, int64_t to_size,
                                         const ddisp_backend_tensor *source, int64_t from_size,
                                         backend_axes *terms, backend_axes *cells, uint64_t *to,
                                         uint64_t *from)
{
    int64_t offsets[BACKEND_OPERANDS] = {0};
    for (uint32_t i = 0; i < destination->rank; i++) {
        bool summed = destination->shape[i] > 1 && destination->strides[i] == 0;
        backend_axes_add(summed ? terms : cells, destination->shape[i],
                         source->strides[i] * from_size, destination->strides[i] * to_size, 0);
    }
    backend_axes_turn(terms, offsets);
    backend_axes_turn(cells, offsets);
    *from += (uint64_t)offsets[0];
    *to += (uint64_t)offsets[1];
    backend_axes_sort(terms);
    backend_axes_sort(cells);
    backend_axes_merge(terms);
    backend_axes_merge(cells);
}

/** A scatter-add along an axis: numbers the destination's cells in the order of their memory.
 * Operand 0 is the destination, in bytes, operand 1 the number. cell_strides: what a step along an
 * axis of the tensors adds to the number, 0 for the scattered axis, whose step is returned. */
static inline int64_t backend_shapes_scatter(const ddisp_backend_tensor *destination, int64_t size,
                                             uint32_t axis, int64_t extent, backend_axes *cells,
                                             int64_t cell_strides[8])
{
    int64_t stride = 1;
    for (uint32_t i = 0; i < destination->rank; i++) { /* operand 2: which axis it is */
        backend_axes_add(cells, i == axis ? extent : destination->shape[i],
                         destination->strides[i] * size, 0, (int64_t)i);
        cell_strides[i] = 0;
    }
    backend_axes_sort(cells);
    for (uint32_t i = cells->rank; i-- > 0;) {
        cell_strides[cells->axis[i].stride[2]] = stride;
        cells->axis[i].stride[1] = stride;
        cells->axis[i].stride[2] = 0;
        stride *= cells->axis[i].extent;
    }
    stride = cell_strides[axis];
    cell_strides[axis] = 0;
    backend_axes_merge(cells);
    return stride;
}

#endif
