/*
 * cuda_axes.c - collapses the axes of an operation (see cuda_axes.h), and finds the numbers that
 * kernels divide by extents with. Knows nothing of the driver.
 */
#include "cuda_axes.h"

#include <string.h>

static uint64_t size_of(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

void cuda__axes_add(cuda__axes *axes, int64_t extent, int64_t first, int64_t second, int64_t third)
{
    if (extent != 1) {
        axes->axis[axes->rank++] = (cuda__axis){extent, {first, second, third}};
    }
}

void cuda__axes_turn(cuda__axes *axes, int64_t offsets[CUDA__OPERANDS])
{
    for (uint32_t i = 0; i < axes->rank; i++) {
        cuda__axis *axis = &axes->axis[i];
        if (axis->stride[0] >= 0) {
            continue;
        }
        for (uint32_t k = 0; k < CUDA__OPERANDS; k++) {
            offsets[k] += (axis->extent - 1) * axis->stride[k];
            axis->stride[k] = -axis->stride[k];
        }
    }
}

static bool lies_outside(const cuda__axis *one, const cuda__axis *other)
{
    for (uint32_t k = 0; k < CUDA__OPERANDS; k++) {
        if (size_of(one->stride[k]) != size_of(other->stride[k])) {
            return size_of(one->stride[k]) > size_of(other->stride[k]);
        }
    }
    return false;
}

void cuda__axes_sort(cuda__axes *axes)
{
    for (uint32_t i = 1; i < axes->rank; i++) {
        cuda__axis axis = axes->axis[i];
        uint32_t at = i;
        for (; at > 0 && lies_outside(&axis, &axes->axis[at - 1]); at--) {
            axes->axis[at] = axes->axis[at - 1];
        }
        axes->axis[at] = axis;
    }
}

static bool continues(const cuda__axis *outer, const cuda__axis *inner)
{
    for (uint32_t k = 0; k < CUDA__OPERANDS; k++) {
        int64_t whole;
        if (__builtin_mul_overflow(inner->stride[k], inner->extent, &whole) ||
            outer->stride[k] != whole) {
            return false;
        }
    }
    return true;
}

void cuda__axes_merge(cuda__axes *axes)
{
    uint32_t rank = axes->rank ? 1 : 0;
    for (uint32_t i = 1; i < axes->rank; i++) {
        cuda__axis *outer = &axes->axis[rank - 1], inner = axes->axis[i];
        if (continues(outer, &inner)) {
            inner.extent *= outer->extent;
            *outer = inner;
        } else {
            axes->axis[rank++] = inner;
        }
    }
    axes->rank = rank;
}

cuda__axis cuda__axes_take_inner(cuda__axes *axes)
{
    if (axes->rank == 0) {
        return (cuda__axis){1, {0}};
    }
    return axes->axis[--axes->rank];
}

uint64_t cuda__axes_count(const cuda__axes *axes)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < axes->rank; i++) {
        count *= (uint64_t)axes->axis[i].extent;
    }
    return count;
}

/* For n below 2^63, n / extent is (high half of n * magic, plus n) >> shift (Granlund and
 * Montgomery 1994, with one bit to spare, so that the sum does not overflow). */
static void find_divider(uint64_t extent, uint64_t *out_magic, uint32_t *out_shift)
{
    uint32_t shift = 0;
    while (shift < 63 && UINT64_C(1) << shift < extent) {
        shift++;
    }
    unsigned __int128 whole = (unsigned __int128)((UINT64_C(1) << shift) - extent) << 64;
    *out_magic = (uint64_t)(whole / extent) + 1;
    *out_shift = shift;
}

void cuda__axes_write(const cuda__axes *axes, work_axes *out, int64_t *first, int64_t *second,
                      int64_t *third)
{
    int64_t *strides[CUDA__OPERANDS] = {first, second, third};
    memset(out, 0, sizeof *out);
    out->count = cuda__axes_count(axes);
    out->rank = axes->rank ? axes->rank : 1;
    out->extent[0] = 1;
    for (uint32_t i = 0; i < axes->rank; i++) {
        out->extent[i] = (uint64_t)axes->axis[i].extent;
    }
    for (uint32_t i = 0; i < out->rank; i++) {
        find_divider(out->extent[i] ? out->extent[i] : 1, &out->magic[i], &out->shift[i]);
    }
    for (uint32_t k = 0; k < CUDA__OPERANDS; k++) {
        for (uint32_t i = 0; strides[k] && i < 8; i++) {
            strides[k][i] = i < axes->rank ? axes->axis[i].stride[k] : 0;
        }
    }
}
