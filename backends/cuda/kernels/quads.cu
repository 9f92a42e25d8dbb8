// quads.cu - adding f32 to f32, f16 to f16 and bf16 to bf16 without gaps, 16 bytes with one native
// atomic (sm_90). An atomic that finds its memory in the L2 cache is far cheaper than one that has
// to fetch it, so the destination is asked for before the source is read.
#include "common.cuh"

// Lanes whose 16 bytes share a line of the cache.
enum : uint32_t { SHARE_A_LINE = 8 };

#ifdef __CUDACC__
DEVICE void red_quad(char *to, float4 value)
{
    asm volatile(
        "red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
        "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
}

DEVICE void red_pairs(uint32_t type, char *to, uint4 pairs)
{
    if (type == WORK_BF16)
        asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(to)),
                     "r"(pairs.x), "r"(pairs.y), "r"(pairs.z), "r"(pairs.w)
                     : "memory");
    else
        asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(to)),
                     "r"(pairs.x), "r"(pairs.y), "r"(pairs.z), "r"(pairs.w)
                     : "memory");
}

// Nobody reads it again soon.
DEVICE uint4 load_quad(const char *from)
{
    return __ldcs((const uint4 *)from);
}
#endif

KERNEL(ddisp_add_quads, work_quads)
{
    const uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
    if (n >= work.count)
        return;
    char *to = work.to + n * 16;
    if (threadIdx.x % SHARE_A_LINE == 0)
        prefetch(to);
    uint4 it = load_quad(work.from + n * 16);
    if (work.type == WORK_F32)
        red_quad(to, {work.alpha * __uint_as_float(it.x), work.alpha * __uint_as_float(it.y),
                      work.alpha * __uint_as_float(it.z), work.alpha * __uint_as_float(it.w)});
    else
        red_pairs(work.type, to, it);
}
