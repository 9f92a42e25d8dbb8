// common.cuh - what the backend's own kernels share: elements of any type as numbers, adding to
// memory that others add to, and places of elements in strided memory.
//
// The files compile for the device with nvcc, and for the host with tests/fakes/cuda/emulate.h in
// front, which stands in for what CUDA C++ adds to the language; instructions that have no name in
// it are spelled out below, once for each.
#ifndef DDISP_CUDA_COMMON_CUH
#define DDISP_CUDA_COMMON_CUH

#include "work.h"

// Groups that a multiprocessor can hold at the least: bounds the registers of a thread.
#ifdef WORK_IN_F64
#define GROUPS_AT_ONCE 3
#else
#define GROUPS_AT_ONCE 4
#endif

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define MEMBER __device__ __forceinline__
#define KERNEL(name, type)                                                                         \
    extern "C" __global__ void __launch_bounds__(WORK_GROUP, GROUPS_AT_ONCE)                       \
        name(const __grid_constant__ type work)
// The compiler cannot count the rounds of a loop over i, and so leaves it a loop.
#define KEEP_LOOP(i)       asm volatile("" : "+r"(i))
#define SHARED             __shared__
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// Most files are compiled twice: for work in f32, and with WORK_IN_F64.
#ifdef WORK_IN_F64
typedef double number;
#define KERNEL_OF(name, type) KERNEL(name##_f64, type)
#else
typedef float number;
#define KERNEL_OF(name, type) KERNEL(name##_f32, type)
#endif

enum : uint32_t { ALL_LANES = 0xFFFFFFFFu, LANES = 32, WARPS = WORK_GROUP / 32 };

// ---- numbers

#ifdef __CUDACC__
DEVICE float from_f16(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

DEVICE uint16_t to_f16(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Asks for a line of the L2 cache. An atomic that finds its memory there is far cheaper than one
// that has to fetch it, so a destination is asked for before the source is read.
DEVICE void prefetch(const char *memory)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(memory)) : "memory");
}

// Subnormal numbers count as zero in additions to f32 in memory: that is what the device does.
DEVICE void red(char *to, float value)
{
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "f"(value)
                 : "memory");
}

DEVICE void red(char *to, double value)
{
    asm volatile("red.global.add.f64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "d"(value)
                 : "memory");
}

DEVICE void red(char *to, uint64_t value)
{
    asm volatile("red.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(value)
                 : "memory");
}
#endif

DEVICE float from_bf16(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

DEVICE uint16_t to_bf16(float value)
{
    uint32_t bits = __float_as_uint(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

DEVICE float from_half(uint32_t type, uint16_t bits)
{
    return type == WORK_F16 ? from_f16(bits) : from_bf16(bits);
}

DEVICE uint16_t to_half(uint32_t type, float value)
{
    return type == WORK_F16 ? to_f16(value) : to_bf16(value);
}

// Rounded to odd, so that rounding once more gives the right half.
DEVICE uint16_t to_half(uint32_t type, double value)
{
    float odd = __double2float_rz(value);
    if ((double)odd != value && value == value)
        odd = __uint_as_float(__float_as_uint(odd) | 1);
    return to_half(type, odd);
}

// ---- elements

template <typename T> DEVICE T load(uint32_t type, const char *from)
{
    switch (type) {
    case WORK_F16:
        return (T)from_f16(*(const uint16_t *)from);
    case WORK_BF16:
        return (T)from_bf16(*(const uint16_t *)from);
    case WORK_F32:
        return (T) * (const float *)from;
    default:
        return (T) * (const double *)from;
    }
}

// As many loads at once as there are: the type is looked at once for all.
template <typename T, int N>
DEVICE void load_all(uint32_t type, const char *const (&from)[N], T (&value)[N])
{
    switch (type) {
    case WORK_F16:
#pragma unroll
        for (int k = 0; k < N; k++)
            value[k] = (T)from_f16(*(const uint16_t *)from[k]);
        break;
    case WORK_BF16:
#pragma unroll
        for (int k = 0; k < N; k++)
            value[k] = (T)from_bf16(*(const uint16_t *)from[k]);
        break;
    case WORK_F32:
#pragma unroll
        for (int k = 0; k < N; k++)
            value[k] = (T) * (const float *)from[k];
        break;
    default:
#pragma unroll
        for (int k = 0; k < N; k++)
            value[k] = (T) * (const double *)from[k];
        break;
    }
}

template <typename T> DEVICE void store(uint32_t type, char *to, T value)
{
    switch (type) {
    case WORK_F16:
    case WORK_BF16:
        *(uint16_t *)to = to_half(type, value);
        break;
    case WORK_F32:
        *(float *)to = (float)value;
        break;
    default:
        *(double *)to = (double)value;
        break;
    }
}

// Adds to one or both halves of a word, rounding once; the other half keeps its bits.
template <typename T>
DEVICE void add_halves(uint32_t type, uint32_t *word, T lower, T upper, bool has_lower,
                       bool has_upper)
{
    uint32_t seen = *(volatile uint32_t *)word, expected;
    do {
        uint32_t low = seen & 0xFFFF, high = seen >> 16;
        if (has_lower)
            low = to_half(type, (T)from_half(type, (uint16_t)low) + lower);
        if (has_upper)
            high = to_half(type, (T)from_half(type, (uint16_t)high) + upper);
        expected = seen;
        seen = atomicCAS(word, expected, high << 16 | low);
    } while (seen != expected);
}

// Adds in double where the value does not fit f32.
DEVICE void add_f32(char *to, double value)
{
    float single = (float)value;
    if ((double)single == value || value != value) {
        red(to, single);
        return;
    }
    uint32_t seen = *(volatile uint32_t *)to, expected;
    do {
        expected = seen;
        float sum = (float)((double)__uint_as_float(expected) + value);
        seen = atomicCAS((uint32_t *)to, expected, __float_as_uint(sum));
    } while (seen != expected);
}

DEVICE void add_f32(char *to, float value)
{
    red(to, value);
}

// Adds to an element that others may add to at the same time.
template <typename T> DEVICE void add(uint32_t type, char *to, T value)
{
    switch (type) {
    case WORK_F16:
    case WORK_BF16: {
        bool upper = ((uintptr_t)to & 2) != 0;
        add_halves(type, (uint32_t *)(to - (upper ? 2 : 0)), value, value, !upper, upper);
        break;
    }
    case WORK_F32:
        add_f32(to, value);
        break;
    default:
        red(to, (double)value);
        break;
    }
}

// ---- places

// Offsets of item n for each of the stride lists.
template <int N>
DEVICE void place(const work_axes &axes, const int64_t *const (&stride)[N], uint64_t n,
                  int64_t (&out)[N])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        out[j] = 0;
    for (uint32_t i = axes.rank - 1; i > 0; i--) {
        KEEP_LOOP(i);
        uint64_t rest = (__umul64hi(n, axes.magic[i]) + n) >> axes.shift[i];
        int64_t at = (int64_t)(n - rest * axes.extent[i]);
#pragma unroll
        for (int j = 0; j < N; j++)
            out[j] += at * stride[j][i];
        n = rest;
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        out[j] += (int64_t)n * stride[j][0];
}

#endif
