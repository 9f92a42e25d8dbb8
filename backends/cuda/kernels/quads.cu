// quads.cu - adding f32 to f32 without gaps, four elements with one native atomic (sm_90): the
// memory is kept busy with few instructions.
#include "common.cuh"

#ifdef __CUDACC__
DEVICE void red_quad(char *to, float4 value)
{
    asm volatile(
        "red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
        "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
}

// Nobody reads it again soon.
DEVICE float4 load_quad(const char *from)
{
    return __ldcs((const float4 *)from);
}
#endif

KERNEL(ddisp_add_quads, work_quads)
{
    const uint64_t first = (uint64_t)blockIdx.x * (WORK_QUADS * WORK_GROUP) + threadIdx.x;
    float4 value[WORK_QUADS];
#pragma unroll
    for (uint32_t k = 0; k < WORK_QUADS; k++) {
        uint64_t n = first + k * WORK_GROUP;
        value[k] = load_quad(work.from + (n < work.count ? n : 0) * 16);
    }
#pragma unroll
    for (uint32_t k = 0; k < WORK_QUADS; k++) {
        uint64_t n = first + k * WORK_GROUP;
        float4 it = value[k];
        if (n < work.count)
            red_quad(work.to + n * 16,
                     {work.alpha * it.x, work.alpha * it.y, work.alpha * it.z, work.alpha * it.w});
    }
}
