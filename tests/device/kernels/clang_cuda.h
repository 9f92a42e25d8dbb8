/*
 * clang_cuda.h - what CUDA's own headers declare, in so far as the device header uses it, for clang
 * without them: releases of clang know CUDA up to a release of their time only.
 */
#ifndef DDISP_TESTS_CLANG_CUDA_H
#define DDISP_TESTS_CLANG_CUDA_H

#define __global__      __attribute__((global))
#define __device__      __attribute__((device))
#define __host__        __attribute__((host))
#define __forceinline__ inline __attribute__((always_inline))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
#include <__clang_cuda_builtin_vars.h>

#define FUNCTION static __device__ __forceinline__

FUNCTION unsigned __activemask()
{
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
FUNCTION unsigned __match_any_sync(unsigned mask, unsigned long value)
{
    unsigned peers;
    asm volatile("match.any.sync.b64 %0, %1, %2;" : "=r"(peers) : "l"(value), "r"(mask));
    return peers;
}
FUNCTION unsigned __ballot_sync(unsigned mask, int predicate)
{
    return __nvvm_vote_ballot_sync(mask, predicate);
}
FUNCTION int __any_sync(unsigned mask, int predicate)
{
    return __nvvm_vote_any_sync(mask, predicate);
}
template <typename T> FUNCTION T shuffled(unsigned mask, T v, int lane, bool across)
{
    int words[(sizeof(T) + 3) / 4];
    __builtin_memcpy(words, &v, sizeof v);
    for (int &word : words)
        word = across ? __nvvm_shfl_sync_bfly_i32(mask, word, lane, 0x1f)
                      : __nvvm_shfl_sync_idx_i32(mask, word, lane, 0x1f);
    __builtin_memcpy(&v, words, sizeof v);
    return v;
}
template <typename T> FUNCTION T __shfl_sync(unsigned mask, T v, int lane)
{
    return shuffled(mask, v, lane, false);
}
template <typename T> FUNCTION T __shfl_xor_sync(unsigned mask, T v, int distance)
{
    return shuffled(mask, v, distance, true);
}
FUNCTION float atomicAdd(float *cell, float v)
{
    return __nvvm_atom_add_gen_f(cell, v);
}
FUNCTION double atomicAdd(double *cell, double v)
{
    return __nvvm_atom_add_gen_d(cell, v);
}
FUNCTION unsigned long long atomicAdd(unsigned long long *cell, unsigned long long v)
{
    return __nvvm_atom_add_gen_ll((long long *)cell, (long long)v);
}
FUNCTION unsigned long long atomicMax(unsigned long long *cell, unsigned long long v)
{
    return __nvvm_atom_max_gen_ull(cell, v);
}
FUNCTION unsigned atomicOr(unsigned *cell, unsigned v)
{
    return __nvvm_atom_or_gen_i((int *)cell, (int)v);
}
FUNCTION unsigned atomicCAS(unsigned *cell, unsigned expected, unsigned wanted)
{
    return __nvvm_atom_cas_gen_i((int *)cell, (int)expected, (int)wanted);
}
FUNCTION int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
FUNCTION int __ffs(int v)
{
    return __builtin_ffs(v);
}
FUNCTION unsigned __float_as_uint(float v)
{
    unsigned bits;
    __builtin_memcpy(&bits, &v, sizeof bits);
    return bits;
}
FUNCTION float __uint_as_float(unsigned bits)
{
    float v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
}
FUNCTION long long __double_as_longlong(double v)
{
    long long bits;
    __builtin_memcpy(&bits, &v, sizeof bits);
    return bits;
}
FUNCTION long long __double2ll_rn(double v)
{
    long long result;
    asm("cvt.rni.s64.f64 %0, %1;" : "=l"(result) : "d"(v));
    return result;
}
FUNCTION double fabs(double v)
{
    return __builtin_fabs(v);
}
FUNCTION double trunc(double v)
{
    return __builtin_trunc(v);
}

#endif
