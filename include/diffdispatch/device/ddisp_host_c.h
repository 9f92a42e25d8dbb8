/*
 * ddisp_host_c.h - the tensors of ddisp_host.h in C: a struct for each type, and names that pick
 * the function by the type of their first argument, and by whether the second is an item or a
 * multi-index. Not for inclusion alone.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_HOST_C_H
#define DIFFDISPATCH_DEVICE_DDISP_HOST_C_H

#include "ddisp_host.h"

#ifndef __cplusplus

/** The element at (i, j, ...), to be given instead of an item: ddisp_load(m, ddisp_at(row,
 * column)). As many numbers as the tensor has dimensions; missing ones are 0. */
#define ddisp_at(...) ((ddisp_index){{__VA_ARGS__}})

/* What the functions below take, and where that lies. */
#define DDISP_HOST_AT(suffix, At, offset)                                                          \
    DDISP_HOST_INLINE uint64_t ddisp_host_data##suffix(const ddisp_host_view *view, At at)         \
    {                                                                                              \
        return offset(view->tensor, view->tensor->stride, view->data_layout, at);                  \
    }                                                                                              \
    DDISP_HOST_INLINE uint64_t ddisp_host_add##suffix(const ddisp_host_view *view, At at)          \
    {                                                                                              \
        return offset(view->tensor, view->tensor->add_stride, view->add_layout, at);               \
    }                                                                                              \
    DDISP_HOST_INLINE uint64_t ddisp_host_read##suffix(const ddisp_host_view *view, At at)         \
    {                                                                                              \
        return offset(view->tensor, view->tensor->read_stride, view->read_layout, at);             \
    }
#define DDISP_HOST_INDEXED(tensor, stride, layout, index) ddisp_host_offset_at(stride, index)
DDISP_HOST_AT(, uint64_t, ddisp_host_offset)
DDISP_HOST_AT(_at, ddisp_index, DDISP_HOST_INDEXED)

#define DDISP_HOST_ELEMENT_AT(type, value, size, suffix, At)                                       \
    DDISP_HOST_INLINE value ddisp_load##suffix##_##type(ddisp_tensor_##type t, At at)              \
    {                                                                                              \
        return ddisp_host_get_##type(t.view.tensor->data +                                         \
                                     size * ddisp_host_data##suffix(&t.view, at));                 \
    }                                                                                              \
    DDISP_HOST_INLINE void ddisp_store##suffix##_##type(ddisp_tensor_##type t, At at, value v)     \
    {                                                                                              \
        ddisp_host_put_##type(t.view.tensor->data + size * ddisp_host_data##suffix(&t.view, at),   \
                              v);                                                                  \
    }
#define DDISP_HOST_TENSOR(type, value, size)                                                       \
    typedef struct ddisp_tensor_##type {                                                           \
        ddisp_host_view view;                                                                      \
    } ddisp_tensor_##type;                                                                         \
    DDISP_HOST_INLINE ddisp_tensor_##type ddisp_open_##type(const ddisp_device_tensor *tensor,     \
                                                            int on)                                \
    {                                                                                              \
        ddisp_tensor_##type result;                                                                \
        result.view = ddisp_host_open(tensor, on);                                                 \
        return result;                                                                             \
    }                                                                                              \
    DDISP_HOST_ELEMENT_AT(type, value, size, , uint64_t)                                           \
    DDISP_HOST_ELEMENT_AT(type, value, size, _at, ddisp_index)

#define DDISP_HOST_GRADIENT_AT(type, value, suffix, At)                                            \
    DDISP_HOST_INLINE value ddisp_grad##suffix##_##type(ddisp_tensor_##type t, At at)              \
    {                                                                                              \
        if (!ddisp_host_has_grad(&t.view))                                                         \
            return 0;                                                                              \
        return ddisp_host_upstream_##type(t.view.tensor, ddisp_host_read##suffix(&t.view, at));    \
    }                                                                                              \
    DDISP_HOST_INLINE void ddisp_add_grad##suffix##_##type(ddisp_tensor_##type t, At at, value v,  \
                                                           int how DDISP_HOST_UNUSED)              \
    {                                                                                              \
        if (ddisp_host_wants_grad(&t.view))                                                        \
            ddisp_host_accumulate_##type(t.view.tensor, ddisp_host_add##suffix(&t.view, at), v);   \
    }
#define DDISP_HOST_GRADIENTS(type, value)                                                          \
    DDISP_HOST_GRADIENT_AT(type, value, , uint64_t)                                                \
    DDISP_HOST_GRADIENT_AT(type, value, _at, ddisp_index)

DDISP_HOST_TENSOR(f16, float, 2)
DDISP_HOST_TENSOR(bf16, float, 2)
DDISP_HOST_TENSOR(f32, float, 4)
DDISP_HOST_TENSOR(f64, double, 8)
DDISP_HOST_TENSOR(u8, uint8_t, 1)
DDISP_HOST_TENSOR(i8, int8_t, 1)
DDISP_HOST_TENSOR(u16, uint16_t, 2)
DDISP_HOST_TENSOR(i16, int16_t, 2)
DDISP_HOST_TENSOR(u32, uint32_t, 4)
DDISP_HOST_TENSOR(i32, int32_t, 4)
DDISP_HOST_TENSOR(u64, uint64_t, 8)
DDISP_HOST_TENSOR(i64, int64_t, 8)
DDISP_HOST_GRADIENTS(f16, float)
DDISP_HOST_GRADIENTS(bf16, float)
DDISP_HOST_GRADIENTS(f32, float)
DDISP_HOST_GRADIENTS(f64, double)
#define ddisp_tensor_float  ddisp_tensor_f32
#define ddisp_tensor_double ddisp_tensor_f64
#define ddisp_open_float    ddisp_open_f32
#define ddisp_open_double   ddisp_open_f64

/* clang-format off */
#define DDISP_HOST_CASE(verb, type, at)                                                            \
    ddisp_tensor_##type: _Generic((at), ddisp_index: ddisp_##verb##_at_##type,                     \
                                  default: ddisp_##verb##_##type)
/* clang-format on */
#define DDISP_HOST_GRADIENT_OF(verb, t, at)                                                        \
    __extension__ _Generic((t), DDISP_HOST_CASE(verb, f16, at), DDISP_HOST_CASE(verb, bf16, at),   \
                           DDISP_HOST_CASE(verb, f32, at), DDISP_HOST_CASE(verb, f64, at))
#define DDISP_HOST_ELEMENT_OF(verb, t, at)                                                         \
    __extension__ _Generic((t), DDISP_HOST_CASE(verb, f16, at), DDISP_HOST_CASE(verb, bf16, at),   \
                           DDISP_HOST_CASE(verb, f32, at), DDISP_HOST_CASE(verb, f64, at),         \
                           DDISP_HOST_CASE(verb, u8, at), DDISP_HOST_CASE(verb, i8, at),           \
                           DDISP_HOST_CASE(verb, u16, at), DDISP_HOST_CASE(verb, i16, at),         \
                           DDISP_HOST_CASE(verb, u32, at), DDISP_HOST_CASE(verb, i32, at),         \
                           DDISP_HOST_CASE(verb, u64, at), DDISP_HOST_CASE(verb, i64, at))

/** The element; `at` is an item, counted in row-major order and below ddisp_numel(t), or a
 * multi-index (ddisp_at). f16 and bf16 as float. */
#define ddisp_load(t, at) (DDISP_HOST_ELEMENT_OF(load, t, at)((t), (at)))
/** Stores v, rounded to nearest even where the type has 16 bits. */
#define ddisp_store(t, at, v) (DDISP_HOST_ELEMENT_OF(store, t, at)((t), (at), (v)))
/** The upstream gradient, 0 where there is none. */
#define ddisp_grad(t, at) (DDISP_HOST_GRADIENT_OF(grad, t, at)((t), (at)))
/** ddisp_add_grad(t, at, v) or (t, at, v, how) adds v to the gradient, atomically. Nothing where
 * there is none: gone from the code in variants without it, and tested for null. how: DDISP_ADD_...
 */
#define ddisp_add_grad(t, at, ...)                                                                 \
    (DDISP_HOST_GRADIENT_OF(add_grad, t, at)((t), (at), DDISP_HOST_TWO(__VA_ARGS__, 0, 0)))
#define DDISP_HOST_TWO(...)                   DDISP_HOST_TWO_OF(__VA_ARGS__)
#define DDISP_HOST_TWO_OF(first, second, ...) first, second

/** Whether ddisp_add_grad does anything: what is only computed for it can be left out. */
#define ddisp_wants_grad(t) ddisp_host_wants_grad(&(t).view)
/** Whether there is an upstream gradient. */
#define ddisp_has_grad(t)         ddisp_host_has_grad(&(t).view)
#define ddisp_rank(t)             ((int)(t).view.tensor->rank)
#define ddisp_shape(t, dimension) ((t).view.tensor->shape[dimension])
#define ddisp_numel(t)            ddisp_host_numel((t).view.tensor)

#endif
#endif
