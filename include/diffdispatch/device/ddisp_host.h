/*
 * ddisp_host.h - differentiable kernels for the host in a few lines, for gcc and clang, C99 and
 * C++11.
 *
 *   DDISP_KERNEL(mul_backward, 3)
 *   {
 *       ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
 *                          y = DDISP_TENSOR(float, 2);
 *       DDISP_FOR_EACH_ITEM(i) {
 *           float g = ddisp_grad(y, i);
 *           ddisp_add_grad(a, i, g * ddisp_load(b, i));
 *           ddisp_add_grad(b, i, g * ddisp_load(a, i));
 *       }
 *   }
 *   DDISP_KERNEL_VARIANT(mul_backward, 5)
 *
 * In C++ a tensor is a class with the members of ddisp.cuh (y.grad(i), a.add_grad(i, v), b[i],
 * y.store(i, v)) as well. docs/kernels.md explains all of it. Declare the code with
 * DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT | DDISP_CODE_PRE_REDUCES.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_HOST_H
#define DIFFDISPATCH_DEVICE_DDISP_HOST_H

#include "ddisp_block.h"

#include <string.h>

#ifdef __cplusplus
#define DDISP_HOST_EXTERN extern "C"
#else
#define DDISP_HOST_EXTERN extern
#endif
#define DDISP_HOST_UNUSED __attribute__((unused))
#define DDISP_HOST_INLINE static inline __attribute__((always_inline, unused))

/** How ddisp_add_grad treats items that add to one element. All the same here: each adds. */
#define DDISP_ADD_AUTOMATIC 0
#define DDISP_ADD_PLAIN     1
#define DDISP_ADD_REDUCED   2

/**
 * Defines a kernel: a function to be given to DDISP_ENTRY_FUNCTION. After the name: the number of
 * tensor parameters and, if there are scalar parameters, their number (for the reader: here both
 * are taken from the block). Tensors come first in the kernel's parameters and scalars behind them;
 * for any other order see DDISP_TENSOR_AT.
 */
#define DDISP_KERNEL(name, ...)                                                                    \
    DDISP_HOST_INLINE void name##_body(const struct ddisp_block *ddisp_argument DDISP_HOST_UNUSED, \
                                       uint64_t ddisp_begin DDISP_HOST_UNUSED,                     \
                                       uint64_t ddisp_end DDISP_HOST_UNUSED,                       \
                                       uint64_t ddisp_mask DDISP_HOST_UNUSED);                     \
    DDISP_HOST_FUNCTION(name, name##_body, ~(uint64_t)0)                                           \
    DDISP_HOST_INLINE void name##_body(const struct ddisp_block *ddisp_argument DDISP_HOST_UNUSED, \
                                       uint64_t ddisp_begin DDISP_HOST_UNUSED,                     \
                                       uint64_t ddisp_end DDISP_HOST_UNUSED,                       \
                                       uint64_t ddisp_mask DDISP_HOST_UNUSED)
/**
 * Behind a kernel: a second function, <name>_<mask>, that has code only for the gradients of mask
 * (bit i: parameter i), a decimal number. For DDISP_ENTRY_FUNCTION_MASKED.
 */
#define DDISP_KERNEL_VARIANT(name, mask)                                                           \
    DDISP_HOST_FUNCTION(name##_##mask, name##_body, (uint64_t)(mask))
#define DDISP_HOST_FUNCTION(name, body, mask)                                                      \
    DDISP_HOST_EXTERN void name(const struct ddisp_block *, uint64_t, uint64_t);                   \
    DDISP_HOST_EXTERN void name(const struct ddisp_block *ddisp_argument, uint64_t ddisp_begin,    \
                                uint64_t ddisp_end)                                                \
    {                                                                                              \
        body(ddisp_argument, ddisp_begin, ddisp_end, mask);                                        \
    }

/** The tensor of parameter i. type: float, double, f16, bf16 (also f32, f64), u8, i8, u16, i16,
 * u32, i32, u64, i64. The variable's type is ddisp_tensor_<type>. */
#define DDISP_TENSOR(type, i) DDISP_TENSOR_AT(type, i, i)
/** The tensor of parameter i that is number k of the tensor parameters. */
#define DDISP_TENSOR_AT(type, i, k)                                                                \
    ddisp_open_##type(DDISP_BLOCK_TENSOR(ddisp_argument, k), (ddisp_mask >> (i)&1u) != 0)
/** The value of scalar parameter i: f16 and bf16 as float. */
#define DDISP_SCALAR(type, i) DDISP_SCALAR_AT(type, (uint32_t)(i)-ddisp_argument->tensor_count)
/** The value of number k of the scalar parameters. */
#define DDISP_SCALAR_AT(type, k)                                                                   \
    ddisp_host_get_##type((uint64_t)(uintptr_t)DDISP_BLOCK_SCALAR(ddisp_argument, k))

/** Number of work items of the launch. */
#define DDISP_ITEMS (ddisp_argument->items)
/** Loops over the work items of this call. */
#define DDISP_FOR_EACH_ITEM(i) for (uint64_t i = ddisp_begin; i < ddisp_end; i++)

/** A multi-index, outermost first. */
typedef struct ddisp_index {
    uint64_t at[8];
} ddisp_index;

/* ---- elements */

#define DDISP_HOST_ELEMENT(type, stored, value)                                                    \
    typedef stored __attribute__((may_alias)) ddisp_host_##type;                                   \
    DDISP_HOST_INLINE value ddisp_host_get_##type(uint64_t address)                                \
    {                                                                                              \
        return *(const ddisp_host_##type *)(uintptr_t)address;                                     \
    }                                                                                              \
    DDISP_HOST_INLINE void ddisp_host_put_##type(uint64_t address, value v)                        \
    {                                                                                              \
        *(ddisp_host_##type *)(uintptr_t)address = v;                                              \
    }
DDISP_HOST_ELEMENT(f32, float, float)
DDISP_HOST_ELEMENT(f64, double, double)
DDISP_HOST_ELEMENT(u8, uint8_t, uint8_t)
DDISP_HOST_ELEMENT(i8, int8_t, int8_t)
DDISP_HOST_ELEMENT(u16, uint16_t, uint16_t)
DDISP_HOST_ELEMENT(i16, int16_t, int16_t)
DDISP_HOST_ELEMENT(u32, uint32_t, uint32_t)
DDISP_HOST_ELEMENT(i32, int32_t, int32_t)
DDISP_HOST_ELEMENT(u64, uint64_t, uint64_t)
DDISP_HOST_ELEMENT(i64, int64_t, int64_t)

DDISP_HOST_INLINE float ddisp_host_float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
DDISP_HOST_INLINE uint32_t ddisp_host_bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

DDISP_HOST_INLINE float ddisp_host_unpack_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, size = half & 0x7fffu;
    if (size >= 0x7c00u) /* infinity and NaN */
        return ddisp_host_float_of(sign | 0x7f800000u | size << 13);
    if (size >= 0x0400u)
        return ddisp_host_float_of(sign | ((size << 13) + 0x38000000u));
    const float v = (float)size * 5.9604644775390625e-8f; /* subnormal: units of 2^-24 */
    return sign ? -v : v;
}
DDISP_HOST_INLINE uint16_t ddisp_host_pack_f16(float v) /* to nearest even */
{
    const uint32_t bits = ddisp_host_bits_of(v), sign = bits >> 16 & 0x8000u;
    uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) /* 65520 and up */
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) /* below 2^-14: the last bit of a sum with 0.5 is 2^-24 */
        size = ddisp_host_bits_of(ddisp_host_float_of(size) + 0.5f) - 0x3f000000u;
    else
        size = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    return (uint16_t)(sign | size);
}
DDISP_HOST_INLINE float ddisp_host_unpack_bf16(uint16_t half)
{
    return ddisp_host_float_of((uint32_t)half << 16);
}
DDISP_HOST_INLINE uint16_t ddisp_host_pack_bf16(float v) /* to nearest even */
{
    const uint32_t bits = ddisp_host_bits_of(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#define DDISP_HOST_HALF(type)                                                                      \
    DDISP_HOST_INLINE float ddisp_host_get_##type(uint64_t address)                                \
    {                                                                                              \
        return ddisp_host_unpack_##type(ddisp_host_get_u16(address));                              \
    }                                                                                              \
    DDISP_HOST_INLINE void ddisp_host_put_##type(uint64_t address, float v)                        \
    {                                                                                              \
        ddisp_host_put_u16(address, ddisp_host_pack_##type(v));                                    \
    }
DDISP_HOST_HALF(f16)
DDISP_HOST_HALF(bf16)
#define ddisp_host_get_float  ddisp_host_get_f32
#define ddisp_host_get_double ddisp_host_get_f64

/* ---- where elements lie */

enum { DDISP_HOST_DENSE, DDISP_HOST_CONSTANT, DDISP_HOST_STRIDED };

/* A tensor parameter: its place in the block, its switch, and the layouts of its three parts. */
typedef struct ddisp_host_view {
    const ddisp_device_tensor *tensor;
    int on, data_layout, add_layout, read_layout;
} ddisp_host_view;

DDISP_HOST_INLINE int ddisp_host_layout_of(const ddisp_device_tensor *tensor, const int64_t *stride)
{
    int64_t expected = 1;
    int is_dense = 1, is_constant = 1;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (tensor->shape[d] == 1)
            continue;
        is_dense = is_dense && stride[d] == expected;
        is_constant = is_constant && stride[d] == 0;
        expected *= tensor->shape[d];
    }
    return is_constant ? DDISP_HOST_CONSTANT : is_dense ? DDISP_HOST_DENSE : DDISP_HOST_STRIDED;
}

DDISP_HOST_INLINE ddisp_host_view ddisp_host_open(const ddisp_device_tensor *tensor, int on)
{
    ddisp_host_view view;
    view.tensor = tensor;
    view.on = on;
    view.data_layout = ddisp_host_layout_of(tensor, tensor->stride);
    view.add_layout = on ? ddisp_host_layout_of(tensor, tensor->add_stride) : 0;
    view.read_layout = on ? ddisp_host_layout_of(tensor, tensor->read_stride) : 0;
    return view;
}

/* Where an item lies, counted in row-major order. */
DDISP_HOST_INLINE uint64_t ddisp_host_offset(const ddisp_device_tensor *tensor,
                                             const int64_t *stride, int layout, uint64_t item)
{
    if (layout == DDISP_HOST_DENSE)
        return item;
    if (layout == DDISP_HOST_CONSTANT)
        return 0;
    int64_t offset = 0;
    for (uint32_t d = tensor->rank; d-- > 1;) {
        const uint64_t extent = (uint64_t)tensor->shape[d], above = item / extent;
        offset += (int64_t)(item - above * extent) * stride[d];
        item = above;
    }
    return (uint64_t)(offset + (int64_t)item * stride[0]);
}
DDISP_HOST_INLINE uint64_t ddisp_host_offset_at(const int64_t *stride, ddisp_index index)
{
    int64_t offset = 0;
    for (int d = 0; d < 8; d++)
        offset += (int64_t)index.at[d] * stride[d];
    return (uint64_t)offset;
}

DDISP_HOST_INLINE int64_t ddisp_host_numel(const ddisp_device_tensor *tensor)
{
    int64_t product = 1;
    for (uint32_t d = 0; d < tensor->rank; d++)
        product *= tensor->shape[d];
    return product;
}
DDISP_HOST_INLINE int ddisp_host_wants_grad(const ddisp_host_view *view)
{
    return view->on && view->tensor->grad_add;
}
DDISP_HOST_INLINE int ddisp_host_has_grad(const ddisp_host_view *view)
{
    return view->on && view->tensor->grad_read;
}

/* ---- adding to a gradient. Compare-and-swap loops compare bits: values would never be equal on
 * NaN. */

#define DDISP_HOST_ATOMIC(type, word, value, unpack, pack)                                         \
    DDISP_HOST_INLINE void ddisp_host_atomic_##type(uint64_t address, value v)                     \
    {                                                                                              \
        ddisp_host_##word *cell = (ddisp_host_##word *)(uintptr_t)address;                         \
        ddisp_host_##word seen = __atomic_load_n(cell, __ATOMIC_RELAXED), sum;                     \
        do                                                                                         \
            sum = pack(unpack(seen) + v);                                                          \
        while (!__atomic_compare_exchange_n(cell, &seen, sum, 1, __ATOMIC_RELAXED,                 \
                                            __ATOMIC_RELAXED));                                    \
    }
DDISP_HOST_INLINE double ddisp_host_double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
DDISP_HOST_INLINE uint64_t ddisp_host_bits_of_double(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
DDISP_HOST_ATOMIC(f16, u16, float, ddisp_host_unpack_f16, ddisp_host_pack_f16)
DDISP_HOST_ATOMIC(bf16, u16, float, ddisp_host_unpack_bf16, ddisp_host_pack_bf16)
DDISP_HOST_ATOMIC(f32, u32, float, ddisp_host_float_of, ddisp_host_bits_of)
DDISP_HOST_ATOMIC(f64, u64, double, ddisp_host_double_of, ddisp_host_bits_of_double)

DDISP_HOST_INLINE void ddisp_host_atomic_i64(uint64_t address, int64_t v)
{
    __atomic_fetch_add((ddisp_host_u64 *)(uintptr_t)address, (uint64_t)v, __ATOMIC_RELAXED);
}

/* To nearest even, below 2^62. */
DDISP_HOST_INLINE int64_t ddisp_host_round(double v)
{
    int64_t whole = (int64_t)v;
    const double rest = v - (double)whole;
    const int odd = (int)(whole & 1);
    if (rest > 0.5 || (rest == 0.5 && odd))
        whole++;
    if (rest < -0.5 || (rest == -0.5 && odd))
        whole--;
    return whole;
}

/* Deterministic mode, when only a bound is looked for. */
static DDISP_HOST_UNUSED void ddisp_host_note_bound(const ddisp_device_tensor *tensor, double v,
                                                    int is_double)
{
    const uint64_t bits = is_double ? ddisp_host_bits_of_double(v) & ~((uint64_t)1 << 63)
                                    : ddisp_host_bits_of((float)v) & 0x7fffffffu;
    ddisp_host_u64 *largest = (ddisp_host_u64 *)(uintptr_t)(tensor->sticky + 8);
    ddisp_host_u64 seen = __atomic_load_n(largest, __ATOMIC_RELAXED);
    while (seen < bits && !__atomic_compare_exchange_n(largest, &seen, bits, 1, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
    ddisp_host_atomic_i64(tensor->sticky + 16, 1);
}

/* Deterministic mode: integers add up to the same in every order. */
static DDISP_HOST_UNUSED void ddisp_host_add_shadow(const ddisp_device_tensor *tensor,
                                                    uint64_t offset, double v, int is_double)
{
    const double scaled = v * tensor->scale;
    const double most = tensor->limit > 0 ? tensor->limit : 4611686018427387392.0; /* below 2^62 */
    if (tensor->flags & DDISP_DEVICE_TENSOR_BOUND) {
        ddisp_host_note_bound(tensor, v, is_double);
        return;
    }
    if (!(scaled >= -most && scaled <= most)) { /* NaN too */
        const int finite = (ddisp_host_bits_of_double(v) >> 52 & 0x7ffu) != 0x7ffu;
        __atomic_fetch_or((ddisp_host_u32 *)(uintptr_t)tensor->sticky, finite ? 2u : 1u,
                          __ATOMIC_RELAXED);
        return;
    }
    if (!is_double) {
        ddisp_host_atomic_i64(tensor->grad_add + 8 * offset, ddisp_host_round(scaled));
        return;
    }
    int64_t whole = (int64_t)scaled;
    int64_t units = ddisp_host_round((scaled - (double)whole) * 1073741824.0); /* of 2^-30 */
    if (scaled < (double)whole) { /* counted upwards from the floor */
        whole -= 1;
        units += 1073741824;
    }
    ddisp_host_atomic_i64(tensor->grad_add + 16 * offset, whole);
    ddisp_host_atomic_i64(tensor->grad_add + 16 * offset + 8, units);
}

/* ---- gradients, by the dtype of the data: those of 16-bit tensors are f32, or have its type */

enum { DDISP_HOST_DTYPE_F32 = 12 };

#define DDISP_HOST_GRADIENT(type, value, size, is_half)                                            \
    DDISP_HOST_INLINE value ddisp_host_upstream_##type(const ddisp_device_tensor *tensor,          \
                                                       uint64_t offset)                            \
    {                                                                                              \
        if (is_half && tensor->grad_dtype == DDISP_HOST_DTYPE_F32)                                 \
            return (value)ddisp_host_get_f32(tensor->grad_read + 4 * offset);                      \
        return ddisp_host_get_##type(tensor->grad_read + size * offset);                           \
    }                                                                                              \
    DDISP_HOST_INLINE void ddisp_host_accumulate_##type(const ddisp_device_tensor *tensor,         \
                                                        uint64_t offset, value v)                  \
    {                                                                                              \
        if (tensor->flags & DDISP_DEVICE_TENSOR_SHADOW)                                            \
            ddisp_host_add_shadow(tensor, offset, (double)v, size == 8);                           \
        else if (is_half && tensor->grad_dtype == DDISP_HOST_DTYPE_F32)                            \
            ddisp_host_atomic_f32(tensor->grad_add + 4 * offset, (float)v);                        \
        else                                                                                       \
            ddisp_host_atomic_##type(tensor->grad_add + size * offset, v);                         \
    }
DDISP_HOST_GRADIENT(f16, float, 2, 1)
DDISP_HOST_GRADIENT(bf16, float, 2, 1)
DDISP_HOST_GRADIENT(f32, float, 4, 0)
DDISP_HOST_GRADIENT(f64, double, 8, 0)

#ifdef __cplusplus
#include "ddisp_host_cxx.h"
#else
#include "ddisp_host_c.h"
#endif

#endif
