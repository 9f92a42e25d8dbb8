/*
 * emulate.h - stands in for what CUDA C++ adds to the language, so that the backend's own kernels
 * (backends/cuda/kernels/) compile for the processor and can be tested without a device. Included
 * before them by the compiler's command line.
 *
 * A group's threads are run by one thread of the system, in turns: each goes on until it has to
 * wait for the others of its group or warp. So atomics are plain, and what is tested is what the
 * kernels compute, not how they race.
 */
#ifndef FAKE_EMULATE_H
#define FAKE_EMULATE_H

#include "host_number.h"

#include <cmath>
#include <cstdint>
#include <cstring>

struct emulated_place {
    unsigned int x, y, z;
};

/** Of the thread that runs now, and of the launch. */
extern emulated_place threadIdx, blockIdx, gridDim, blockDim;
extern unsigned char emulated_shared[49152];

/** Waits for all threads of the group. */
void emulated_wait_group(void);
/** Hands over this lane's bits, waits for the warp, and gives the bits of all 32. */
const uint64_t *emulated_exchange(uint64_t bits);
/** Runs a launch. */
void emulated_run(void (*kernel)(const void *work), const void *work, unsigned int groups,
                  unsigned int group_size, unsigned int shared_bytes);

#define DEVICE static inline
#define MEMBER inline
#define KERNEL(name, type)                                                                         \
    static void name##_body(const type &work);                                                     \
    extern "C" void name(const void *work);                                                        \
    extern "C" void name(const void *work)                                                         \
    {                                                                                              \
        name##_body(*(const type *)work);                                                          \
    }                                                                                              \
    static void name##_body(const type &work)
#define KEEP_LOOP(i)       (void)(i)
#define SHARED             static
#define SHARED_BYTES(name) unsigned char *const name = emulated_shared

static inline void __syncthreads(void)
{
    emulated_wait_group();
}

/* ---- warps; all lanes take part in everything */

template <typename T> static inline uint64_t emulated_bits(T value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <typename T> static inline T __shfl_sync(uint32_t, T value, int lane)
{
    T result;
    uint64_t bits = emulated_exchange(emulated_bits(value))[lane];
    memcpy(&result, &bits, sizeof result);
    return result;
}

static inline uint32_t __ballot_sync(uint32_t, bool value)
{
    const uint64_t *all = emulated_exchange(value);
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++)
        mask |= (uint32_t)(all[i] != 0) << i;
    return mask;
}

static inline bool __all_sync(uint32_t mask, bool value)
{
    return __ballot_sync(mask, value) == 0xFFFFFFFFu;
}

static inline bool __any_sync(uint32_t mask, bool value)
{
    return __ballot_sync(mask, value) != 0;
}

template <typename T> static inline uint32_t __match_any_sync(uint32_t, T value)
{
    const uint64_t *all = emulated_exchange(emulated_bits(value));
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++)
        mask |= (uint32_t)(all[i] == emulated_bits(value)) << i;
    return mask;
}

/* ---- atomics */

template <typename T> static inline T atomicAdd(T *at, T value)
{
    T old = *at;
    *at = old + value;
    return old;
}

template <typename T> static inline T atomicMax(T *at, T value)
{
    T old = *at;
    *at = old > value ? old : value;
    return old;
}

template <typename T> static inline T atomicCAS(T *at, T expected, T value)
{
    T old = *at;
    *at = old == expected ? value : old;
    return old;
}

template <typename T> static inline void emulated_add(char *to, T value)
{
    T old;
    memcpy(&old, to, sizeof old);
    old += value;
    memcpy(to, &old, sizeof old);
}

static inline void red(char *to, float value)
{
    emulated_add(to, value);
}

static inline void red(char *to, double value)
{
    emulated_add(to, value);
}

static inline void red(char *to, uint64_t value)
{
    emulated_add(to, value);
}

struct uint4 {
    uint32_t x, y, z, w;
};

struct float4 {
    float x, y, z, w;
};

static inline void prefetch(const char *memory)
{
    (void)memory;
}

static inline uint4 load_quad(const char *from)
{
    uint4 value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void red_quad(char *to, float4 value)
{
    red(to, value.x);
    red(to + 4, value.y);
    red(to + 8, value.z);
    red(to + 12, value.w);
}

static inline void red_pair(uint32_t type, uint32_t *word, uint32_t pair)
{
    uint32_t sum = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        uint16_t a = (uint16_t)(*word >> shift), b = (uint16_t)(pair >> shift);
        sum |= (uint32_t)(type == DDISP_DTYPE_F16
                              ? host_to_f16(host_from_f16(a) + host_from_f16(b))
                              : host_to_bf16(host_from_bf16(a) + host_from_bf16(b)))
               << shift;
    }
    *word = sum;
}

static inline void red_pairs(uint32_t type, char *to, uint4 pairs)
{
    red_pair(type, (uint32_t *)to, pairs.x);
    red_pair(type, (uint32_t *)to + 1, pairs.y);
    red_pair(type, (uint32_t *)to + 2, pairs.z);
    red_pair(type, (uint32_t *)to + 3, pairs.w);
}

/* ---- numbers */

static inline float from_f16(uint16_t bits)
{
    return host_from_f16(bits);
}

static inline uint16_t to_f16(float value)
{
    return host_to_f16(value);
}

static inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double __hiloint2double(int high, int low)
{
    uint64_t bits = (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int __double2loint(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(uint32_t)bits;
}

static inline int __double2hiint(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(uint32_t)(bits >> 32);
}

static inline uint32_t __float_as_uint(float value)
{
    return (uint32_t)emulated_bits(value);
}

static inline double __longlong_as_double(long long bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline long long __double_as_longlong(double value)
{
    return (long long)emulated_bits(value);
}

static inline long long __float2ll_rn(float value)
{
    return llrintf(value);
}

static inline long long __double2ll_rn(double value)
{
    return llrint(value);
}

static inline float __double2float_rz(double value)
{
    float single = (float)value;
    return std::fabs((double)single) > std::fabs(value) ? nextafterf(single, 0) : single;
}

static inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

static inline int __popc(uint32_t value)
{
    return __builtin_popcount(value);
}

static inline int __ffs(int value)
{
    return __builtin_ffs(value);
}

#endif
