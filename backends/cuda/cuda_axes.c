/*
 * cuda_axes.c - collapsed axes (backend_axes.h) as kernels take them, with the numbers that they
 * divide by extents with. Knows nothing of the driver.
 */
#include "cuda_axes.h"

#include <string.h>

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

void cuda__axes_write(const backend_axes *axes, work_axes *out, int64_t *first, int64_t *second,
                      int64_t *third)
{
    int64_t *strides[BACKEND_OPERANDS] = {first, second, third};
    memset(out, 0, sizeof *out);
    out->count = backend_axes_count(axes);
    out->rank = axes->rank ? axes->rank : 1;
    out->extent[0] = 1;
    for (uint32_t i = 0; i < axes->rank; i++) {
        out->extent[i] = (uint64_t)axes->axis[i].extent;
    }
    for (uint32_t i = 0; i < out->rank; i++) {
        find_divider(out->extent[i] ? out->extent[i] : 1, &out->magic[i], &out->shift[i]);
    }
    for (uint32_t k = 0; k < BACKEND_OPERANDS; k++) {
        for (uint32_t i = 0; strides[k] && i < 8; i++) {
            strides[k][i] = i < axes->rank ? axes->axis[i].stride[k] : 0;
        }
    }
}
