/*
 * library.c - a shared object that test_host_library.c names: functions that know nothing of the
 * library, and one that takes the standard argument block.
 */
#include <diffdispatch/device/ddisp_block.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void library_scale(float *y, const float *x, uint64_t n, double k);
VISIBLE void library_fill(const ddisp_block *block, uint64_t begin, uint64_t end);
VISIBLE void library_masked_1(const ddisp_block *block, uint64_t begin, uint64_t end);

void library_scale(float *y, const float *x, uint64_t n, double k)
{
    for (uint64_t i = 0; i < n; i++) {
        y[i] = (float)(k * (double)x[i]);
    }
}

/* Stores slot 1 into the array at slot 0. */
void library_fill(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    uint64_t *to = (uint64_t *)(uintptr_t) * (const uint64_t *)DDISP_BLOCK_SCALAR(block, 0);
    for (uint64_t i = begin; i < end; i++) {
        to[i] = *(const uint64_t *)DDISP_BLOCK_SCALAR(block, 1);
    }
}

void library_masked_1(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    library_fill(block, begin, end);
}
