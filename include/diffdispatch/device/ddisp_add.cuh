/*
 * ddisp_add.cuh - how ddisp.cuh adds to a gradient: atomically, in every dtype, in deterministic
 * mode, and with the lanes of a warp that add to one address summed first. Not for inclusion alone.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_ADD_CUH
#define DIFFDISPATCH_DEVICE_DDISP_ADD_CUH

#include "ddisp_block.h"

/** How add_grad treats lanes of a warp that add to one address. Summed first, they cost one add. */
#define DDISP_ADD_AUTOMATIC 0 /* summed where neighbouring lanes, or few elements, suggest it */
#define DDISP_ADD_PLAIN     1 /* every lane adds for itself: right where addresses always differ */
#define DDISP_ADD_REDUCED   2 /* always summed */

#define DDISP_DEVICE __device__ __forceinline__

namespace ddisp
{
namespace detail
{

/* A pointer to global memory, which the compiler need not guess. */
template <typename T> DDISP_DEVICE T *global(uint64_t address)
{
#if defined(__clang__)
    return (T *)(__attribute__((address_space(1))) T *)address;
#else
    return (T *)__cvta_global_to_generic(address);
#endif
}

/* Cells of memory: what a gradient is made of. DDISP_DTYPE_... as numbers, since this header stands
 * alone. */
enum { dtype_f16 = 10, dtype_bf16 = 11, dtype_f32 = 12 };

struct cell_f32 {
    typedef float value;
    static DDISP_DEVICE void add(uint64_t address, float v)
    {
        atomicAdd(global<float>(address), v);
    }
};
struct cell_f64 {
    typedef double value;
    static DDISP_DEVICE void add(uint64_t address, double v)
    {
        atomicAdd(global<double>(address), v);
    }
};
struct cell_i64 {
    typedef long long value;
    static DDISP_DEVICE void add(uint64_t address, long long v)
    {
        atomicAdd(global<unsigned long long>(address), (unsigned long long)v);
    }
};

/* Adds to half of a 32-bit word; the other half stays what it is, also when it changes meanwhile.
 * Bits are compared: values would never be equal on NaN. */
template <typename Half> DDISP_DEVICE void add_in_word(uint64_t address, float v)
{
    unsigned *word = global<unsigned>(address & ~(uint64_t)3);
    const unsigned shift = (unsigned)(address & 2) * 8;
    unsigned seen = *(volatile unsigned *)word, expected;
    do {
        expected = seen;
        const unsigned sum = Half::pack(Half::unpack((unsigned short)(expected >> shift)) + v);
        seen = atomicCAS(word, expected, (expected & ~(0xffffu << shift)) | sum << shift);
    } while (seen != expected);
}

struct cell_f16 {
    typedef float value;
    static DDISP_DEVICE float unpack(unsigned short bits)
    {
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
        return v;
    }
    static DDISP_DEVICE unsigned short pack(float v)
    {
        unsigned short bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
        return bits;
    }
    static DDISP_DEVICE void add(uint64_t address, float v)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
        asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(address), "h"(pack(v)) : "memory");
#else
        add_in_word<cell_f16>(address, v);
#endif
    }
};
struct cell_bf16 {
    typedef float value;
    static DDISP_DEVICE float unpack(unsigned short bits)
    {
        return __uint_as_float((unsigned)bits << 16);
    }
    static DDISP_DEVICE unsigned short pack(float v) /* to nearest even */
    {
        const unsigned bits = __float_as_uint(v);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            return (unsigned short)(bits >> 16 | 0x40u);
        return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
    static DDISP_DEVICE void add(uint64_t address, float v)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(address), "h"(pack(v)) : "memory");
#else
        add_in_word<cell_bf16>(address, v);
#endif
    }
};

/* How many elements a gradient has: what that says about lanes meeting at one. */
enum { one_cell, few_cells, many_cells };
enum { most_few_cells = 1024 };

/* The sum of v over all lanes in `peers`, right in the first of them. All lanes in `active` are
 * here together, and every lane's peers are among them. */
template <typename V> DDISP_DEVICE V sum_of(V v, unsigned active, unsigned peers, unsigned lane)
{
    if (peers == 0xffffffffu) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            v += __shfl_xor_sync(0xffffffffu, v, distance);
        return v;
    }
    /* Each lane takes the sum of the next peer, then every second peer is done, and so on. */
    unsigned rank = __popc(peers & ~(0xffffffffu << lane));
    unsigned rest = peers & (0xfffffffeu << lane);
    while (__any_sync(active, rest)) {
        const V next = __shfl_sync(active, v, rest ? __ffs(rest) - 1 : (int)lane);
        if (rest)
            v += next;
        rest &= __ballot_sync(active, !(rank & 1));
        rank /= 2;
    }
    return v;
}

/* Adds v at address. The mask of active lanes is taken here, and whoever is in it goes through the
 * same instructions up to the add, so it does not matter in which branch the caller is. */
template <typename Cell>
DDISP_DEVICE void add(uint64_t address, typename Cell::value v, int how, int cells)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
    if (how != DDISP_ADD_PLAIN) {
        unsigned lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        const unsigned active = __activemask();
        bool meet = true;
        if (how == DDISP_ADD_AUTOMATIC && cells == many_cells) {
            /* Runs of equal addresses show between a lane and the next one: a shuffle and a vote,
             * which cost nothing beside an add to memory. Matching all pairs costs more. */
            const unsigned above = active & (0xfffffffeu << lane);
            const unsigned next =
                __shfl_sync(active, (unsigned)address, above ? __ffs(above) - 1 : (int)lane);
            meet = __any_sync(active, above && next == (unsigned)address);
        }
        if (meet) {
            const unsigned peers = cells == one_cell ? active : __match_any_sync(active, address);
            v = sum_of(v, active, peers, lane);
            if ((int)lane != __ffs(peers) - 1)
                return;
        }
    }
#endif
    Cell::add(address, v);
}

/* Deterministic mode, when only a bound is looked for. Few values are larger than all before. */
template <typename V> DDISP_DEVICE void note_bound(const ddisp_device_tensor &view, V v)
{
    const unsigned long long bits = sizeof(V) < sizeof(double)
                                        ? __float_as_uint((float)v) & 0x7fffffffu
                                        : __double_as_longlong((double)v) & 0x7fffffffffffffffll;
    unsigned long long *largest = global<unsigned long long>(view.sticky + 8);
    if (*(volatile unsigned long long *)largest < bits)
        atomicMax(largest, bits);
    add<cell_i64>(view.sticky + 16, 1, DDISP_ADD_REDUCED, one_cell);
}

/* Deterministic mode: integers add up to the same in every order. */
template <typename V>
DDISP_DEVICE void add_shadow(const ddisp_device_tensor &view, uint64_t offset, V v, int how,
                             int cells)
{
    const double wide = (double)v, scaled = wide * view.scale;
    const double most = view.limit > 0 ? view.limit : 4611686018427387392.0; /* just below 2^62 */
    if (view.flags & DDISP_DEVICE_TENSOR_BOUND) {
        note_bound(view, v);
        return;
    }
    if (!(fabs(scaled) <= most)) { /* NaN comes here too */
        const bool finite = (__double_as_longlong(wide) >> 52 & 0x7ff) != 0x7ff;
        atomicOr(global<unsigned>(view.sticky), finite ? 2u : 1u);
        return;
    }
    if (sizeof(V) < sizeof(double)) {
        add<cell_i64>(view.grad_add + offset * 8, __double2ll_rn(scaled), how, cells);
        return;
    }
    double whole = trunc(scaled);
    long long units = __double2ll_rn((scaled - whole) * 1073741824.0); /* of 2^-30 */
    if (scaled < whole) { /* counted upwards from the floor */
        whole -= 1;
        units += 1073741824;
    }
    const uint64_t address = view.grad_add + offset * 16;
    add<cell_i64>(address, (long long)whole, how, cells);
    add<cell_i64>(address + 8, units, how, cells);
}

} /* namespace detail */
} /* namespace ddisp */

#endif
