/*
 * ddisp_host_cxx.h - the tensors of ddisp_host.h in C++: a class template with the members of
 * ddisp.cuh, and the functions of the C header as templates. Not for inclusion alone.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_HOST_CXX_H
#define DIFFDISPATCH_DEVICE_DDISP_HOST_CXX_H

#include "ddisp_host.h"

#ifdef __cplusplus

#define DDISP_HOST_MEMBER inline __attribute__((always_inline))

/** The element at (i, j, ...), to be given instead of an item: m[ddisp_at(row, column)]. As many
 * numbers as the tensor has dimensions; missing ones are 0. */
template <typename... T> DDISP_HOST_INLINE ddisp_index ddisp_at(T... numbers)
{
    ddisp_index index = {{(uint64_t)numbers...}};
    return index;
}

namespace ddisp
{

namespace detail
{
DDISP_HOST_INLINE uint64_t offset_of(const ddisp_device_tensor *tensor, const int64_t *stride,
                                     int layout, uint64_t item)
{
    return ddisp_host_offset(tensor, stride, layout, item);
}
DDISP_HOST_INLINE uint64_t offset_of(const ddisp_device_tensor *, const int64_t *stride, int,
                                     const ddisp_index &index)
{
    return ddisp_host_offset_at(stride, index);
}
} /* namespace detail */

/** A tensor parameter whose elements are described by Element. Where `at` is taken: an item,
 * counted in row-major order and below numel(), or a multi-index (ddisp_at). */
template <typename Element> class tensor
{
  public:
    /** What elements are computed with: float where they have 16 bits. */
    typedef typename Element::value value;

    DDISP_HOST_MEMBER tensor(const ddisp_device_tensor *view, bool on)
        : view_(ddisp_host_open(view, on))
    {
    }
    DDISP_HOST_MEMBER int rank() const
    {
        return (int)view_.tensor->rank;
    }
    DDISP_HOST_MEMBER int64_t shape(int dimension) const
    {
        return view_.tensor->shape[dimension];
    }
    DDISP_HOST_MEMBER int64_t numel() const
    {
        return ddisp_host_numel(view_.tensor);
    }

    template <typename At> DDISP_HOST_MEMBER value operator[](const At &at) const
    {
        return Element::get(address(at));
    }
    /** Rounds to nearest even where the type has 16 bits. */
    template <typename At> DDISP_HOST_MEMBER void store(const At &at, value v) const
    {
        Element::put(address(at), v);
    }

    /** Whether add_grad does anything: what is only computed for it can be left out. */
    DDISP_HOST_MEMBER bool wants_grad() const
    {
        return ddisp_host_wants_grad(&view_);
    }
    /** Whether there is an upstream gradient. */
    DDISP_HOST_MEMBER bool has_grad() const
    {
        return ddisp_host_has_grad(&view_);
    }
    /** The upstream gradient, 0 where there is none. */
    template <typename At> DDISP_HOST_MEMBER value grad(const At &at) const
    {
        const ddisp_device_tensor *t = view_.tensor;
        if (!has_grad())
            return value(0);
        return Element::upstream(t, detail::offset_of(t, t->read_stride, view_.read_layout, at));
    }
    /** Adds v to the gradient, atomically. Nothing where there is none: gone from the code in
     * variants without it, and tested for null. how: DDISP_ADD_... */
    template <typename At>
    DDISP_HOST_MEMBER void add_grad(const At &at, value v, int = DDISP_ADD_AUTOMATIC) const
    {
        const ddisp_device_tensor *t = view_.tensor;
        if (wants_grad())
            Element::accumulate(t, detail::offset_of(t, t->add_stride, view_.add_layout, at), v);
    }

  private:
    template <typename At> DDISP_HOST_MEMBER uint64_t address(const At &at) const
    {
        const ddisp_device_tensor *t = view_.tensor;
        return t->data + Element::size * detail::offset_of(t, t->stride, view_.data_layout, at);
    }
    ddisp_host_view view_;
};

} /* namespace ddisp */

#define DDISP_HOST_TENSOR(type, value_type, size_bytes, gradients)                                 \
    struct ddisp_host_element_##type {                                                             \
        typedef value_type value;                                                                  \
        enum { size = size_bytes };                                                                \
        static DDISP_HOST_MEMBER value get(uint64_t address)                                       \
        {                                                                                          \
            return ddisp_host_get_##type(address);                                                 \
        }                                                                                          \
        static DDISP_HOST_MEMBER void put(uint64_t address, value v)                               \
        {                                                                                          \
            ddisp_host_put_##type(address, v);                                                     \
        }                                                                                          \
        gradients(type, value_type)                                                                \
    };                                                                                             \
    typedef ddisp::tensor<ddisp_host_element_##type> ddisp_tensor_##type;                          \
    DDISP_HOST_INLINE ddisp_tensor_##type ddisp_open_##type(const ddisp_device_tensor *tensor,     \
                                                            bool on)                               \
    {                                                                                              \
        return ddisp_tensor_##type(tensor, on);                                                    \
    }
#define DDISP_HOST_NO_GRADIENTS(type, value)
#define DDISP_HOST_GRADIENTS(type, value)                                                          \
    static DDISP_HOST_MEMBER value upstream(const ddisp_device_tensor *tensor, uint64_t offset)    \
    {                                                                                              \
        return ddisp_host_upstream_##type(tensor, offset);                                         \
    }                                                                                              \
    static DDISP_HOST_MEMBER void accumulate(const ddisp_device_tensor *tensor, uint64_t offset,   \
                                             value v)                                              \
    {                                                                                              \
        ddisp_host_accumulate_##type(tensor, offset, v);                                           \
    }

DDISP_HOST_TENSOR(f16, float, 2, DDISP_HOST_GRADIENTS)
DDISP_HOST_TENSOR(bf16, float, 2, DDISP_HOST_GRADIENTS)
DDISP_HOST_TENSOR(f32, float, 4, DDISP_HOST_GRADIENTS)
DDISP_HOST_TENSOR(f64, double, 8, DDISP_HOST_GRADIENTS)
DDISP_HOST_TENSOR(u8, uint8_t, 1, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(i8, int8_t, 1, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(u16, uint16_t, 2, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(i16, int16_t, 2, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(u32, uint32_t, 4, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(i32, int32_t, 4, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(u64, uint64_t, 8, DDISP_HOST_NO_GRADIENTS)
DDISP_HOST_TENSOR(i64, int64_t, 8, DDISP_HOST_NO_GRADIENTS)
typedef ddisp_tensor_f32 ddisp_tensor_float;
typedef ddisp_tensor_f64 ddisp_tensor_double;
#define ddisp_open_float  ddisp_open_f32
#define ddisp_open_double ddisp_open_f64

/* The functions that C has. */
template <typename T, typename At>
DDISP_HOST_INLINE typename T::value ddisp_load(const T &tensor, const At &at)
{
    return tensor[at];
}
template <typename T, typename At>
DDISP_HOST_INLINE void ddisp_store(const T &tensor, const At &at, typename T::value v)
{
    tensor.store(at, v);
}
template <typename T, typename At>
DDISP_HOST_INLINE typename T::value ddisp_grad(const T &tensor, const At &at)
{
    return tensor.grad(at);
}
template <typename T, typename At>
DDISP_HOST_INLINE void ddisp_add_grad(const T &tensor, const At &at, typename T::value v,
                                      int how = DDISP_ADD_AUTOMATIC)
{
    tensor.add_grad(at, v, how);
}
template <typename T> DDISP_HOST_INLINE bool ddisp_wants_grad(const T &tensor)
{
    return tensor.wants_grad();
}
template <typename T> DDISP_HOST_INLINE bool ddisp_has_grad(const T &tensor)
{
    return tensor.has_grad();
}
template <typename T> DDISP_HOST_INLINE int ddisp_rank(const T &tensor)
{
    return tensor.rank();
}
template <typename T> DDISP_HOST_INLINE int64_t ddisp_shape(const T &tensor, int dimension)
{
    return tensor.shape(dimension);
}
template <typename T> DDISP_HOST_INLINE int64_t ddisp_numel(const T &tensor)
{
    return tensor.numel();
}

#endif
#endif
