// pairs.cu - adding f16 to f16 and bf16 to bf16 with one native atomic for two elements: nothing
// has to be rounded before it. Compiled for the oldest target, where there is one for f16, and for
// sm_90, which has both.
#include "halves.cuh"

#ifdef __CUDACC__
DEVICE void red_pair(uint32_t type, uint32_t *word, uint32_t pair)
{
#if __CUDA_ARCH__ >= 900
    if (type == WORK_BF16) {
        asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
                     "r"(pair)
                     : "memory");
        return;
    }
#endif
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
                 "r"(pair)
                 : "memory");
}
#endif

KERNEL(ddisp_add_pairs, work_halves)
{
    halves<float> both;
    if (!both.find(work))
        return;
    if (both.has_lower && both.has_upper)
        red_pair(work.to_type, both.word,
                 (uint32_t)to_half(work.to_type, both.upper) << 16 |
                     to_half(work.to_type, both.lower));
    else
        add_halves(work.to_type, both.word, both.lower, both.upper, both.has_lower, both.has_upper);
}
