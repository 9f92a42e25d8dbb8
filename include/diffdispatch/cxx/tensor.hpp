/*
 * tensor.hpp - tensors in C++: tensor.h, accumulate.h and dlpack.h. What a call means, and how it
 * can fail, is said there.
 */
#ifndef DIFFDISPATCH_CXX_TENSOR_HPP
#define DIFFDISPATCH_CXX_TENSOR_HPP

#include "../accumulate.h"
#include "../dlpack.h"
#include "device.hpp"

#include <vector>

namespace diffdispatch
{
inline namespace DDISP_CXX_MODE
{

/** The dtype of a C++ type. 16-bit floating-point types have none: name their dtype. */
template <typename T> constexpr ddisp_dtype dtype_of() noexcept
{
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "no dtype is like this type");
    if constexpr (std::is_same_v<T, bool>)
        return DDISP_DTYPE_BOOL;
    else if constexpr (std::is_floating_point_v<T>)
        return sizeof(T) == 4 ? DDISP_DTYPE_F32 : DDISP_DTYPE_F64;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1   ? DDISP_DTYPE_I8
               : sizeof(T) == 2 ? DDISP_DTYPE_I16
               : sizeof(T) == 4 ? DDISP_DTYPE_I32
                                : DDISP_DTYPE_I64;
    else
        return sizeof(T) == 1   ? DDISP_DTYPE_U8
               : sizeof(T) == 2 ? DDISP_DTYPE_U16
               : sizeof(T) == 4 ? DDISP_DTYPE_U32
                                : DDISP_DTYPE_U64;
}

/** A tensor and the state of its gradient. */
class tensor : public shared_handle<tensor, ddisp_tensor, ddisp_tensor_retain, ddisp_tensor_release>
{
  public:
    static result<tensor> create(const device &on, ddisp_dtype dtype, extents shape,
                                 uint64_t flags = 0)
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status =
            ddisp_tensor_create(on.get(), dtype, shape.rank(), shape.data(), flags, &made);
        return detail::give(status, adopt(made));
    }
    /** Over a buffer, dense. */
    static result<tensor> over(const buffer &memory, ddisp_dtype dtype, extents shape,
                               uint64_t flags = 0)
    {
        return over_strided(memory, dtype, shape, nullptr, 0, flags);
    }
    /** Over a buffer; as many strides as extents. */
    static result<tensor> over(const buffer &memory, ddisp_dtype dtype, extents shape,
                               extents strides, int64_t offset, uint64_t flags = 0)
    {
        return over_strided(memory, dtype, shape, strides.data(), offset, flags);
    }
    result<tensor> as_strided(extents shape, extents strides, int64_t offset = 0) const
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status = ddisp_tensor_as_strided(get(), shape.rank(), shape.data(),
                                                            strides.data(), offset, &made);
        return detail::give(status, adopt(made));
    }
    result<tensor> detach() const
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status = ddisp_tensor_detach(get(), &made);
        return detail::give(status, adopt(made));
    }

    result<ddisp_tensor_info> info() const
    {
        auto info = detail::sized<ddisp_tensor_info>();
        const ddisp_status status = ddisp_tensor_get_info(get(), &info);
        return detail::give(status, info);
    }
    /** Its device; an empty handle for an empty tensor. */
    device get_device() const noexcept
    {
        return device::retain(ddisp_tensor_device(get()));
    }

    /** Copies all elements from count values in host memory. */
    template <typename T>
    result<void> write(const T *values, std::size_t count, stream_ref on = {}) const
    {
        return detail::done(ddisp_tensor_write(get(), values, count * sizeof(T), on.get()));
    }
    /** From a vector, an array, or whatever has data() and size(). */
    template <typename Container>
    result<void> write(const Container &values, stream_ref on = {}) const
    {
        return write(values.data(), values.size(), on);
    }
    /** Copies all elements to count values in host memory. */
    template <typename T> result<void> read(T *values, std::size_t count, stream_ref on = {}) const
    {
        return detail::done(ddisp_tensor_read(get(), values, count * sizeof(T), on.get()));
    }
    template <typename Container> result<void> read(Container &values, stream_ref on = {}) const
    {
        return read(values.data(), values.size(), on);
    }

    result<void> set_requires_grad(bool requires_grad) const
    {
        return detail::done(ddisp_tensor_set_requires_grad(get(), requires_grad));
    }
    /** The gradient; NO_GRADIENT for a tensor that requires none. */
    result<tensor> grad() const
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status = ddisp_tensor_grad(get(), &made);
        return detail::give(status, adopt(made));
    }
    result<void> set_grad(const tensor &grad) const
    {
        return detail::done(ddisp_tensor_set_grad(get(), grad.get()));
    }
    result<void> clear_grad() const
    {
        return detail::done(ddisp_tensor_clear_grad(get()));
    }

    result<void> fill(double value, stream_ref on = {}) const
    {
        return detail::done(ddisp_tensor_fill(get(), value, on.get()));
    }
    result<void> copy_from(const tensor &source, stream_ref on = {}) const
    {
        return detail::done(ddisp_tensor_copy(get(), source.get(), on.get()));
    }
    /** this += alpha * source */
    result<void> accumulate(const tensor &source, double alpha = 1, stream_ref on = {},
                            const ddisp_accumulate_options *options = nullptr) const
    {
        return detail::done(ddisp_tensor_accumulate(get(), source.get(), alpha, options, on.get()));
    }
    /** this[..., index[i], ...] += source[..., i, ...] along axis */
    result<void> scatter_add(uint32_t axis, const tensor &index, const tensor &source,
                             stream_ref on = {},
                             const ddisp_accumulate_options *options = nullptr) const
    {
        return detail::done(
            ddisp_tensor_scatter_add(get(), axis, index.get(), source.get(), options, on.get()));
    }

    /** Takes over a tensor of another library, on success. */
    static result<tensor> from_dlpack(const device &on, struct DLManagedTensorVersioned *managed,
                                      uint64_t flags = 0, stream_ref from = {})
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status =
            ddisp_tensor_from_dlpack_versioned(on.get(), managed, flags, from.get(), &made);
        return detail::give(status, adopt(made));
    }
    static result<tensor> from_dlpack(const device &on, struct DLManagedTensor *managed,
                                      uint64_t flags = 0, stream_ref from = {})
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status =
            ddisp_tensor_from_dlpack(on.get(), managed, flags, from.get(), &made);
        return detail::give(status, adopt(made));
    }
    /** For another library; the caller sees to it that its deleter is called. */
    result<struct DLManagedTensorVersioned *> to_dlpack(stream_ref on = {}) const
    {
        struct DLManagedTensorVersioned *made = nullptr;
        const ddisp_status status = ddisp_tensor_to_dlpack_versioned(get(), on.get(), &made);
        return detail::give(status, made);
    }
    /** In the form before DLPack 1.0. */
    result<struct DLManagedTensor *> to_old_dlpack(stream_ref on = {}) const
    {
        struct DLManagedTensor *made = nullptr;
        const ddisp_status status = ddisp_tensor_to_dlpack(get(), on.get(), &made);
        return detail::give(status, made);
    }

  private:
    static result<tensor> over_strided(const buffer &memory, ddisp_dtype dtype, extents shape,
                                       const int64_t *strides, int64_t offset, uint64_t flags)
    {
        ddisp_tensor *made = nullptr;
        const ddisp_status status = ddisp_tensor_create_over(
            memory.get(), dtype, shape.rank(), shape.data(), strides, offset, flags, &made);
        return detail::give(status, adopt(made));
    }
};

/** A dense tensor that the caller describes by its address, for launches without handles. shape is
 * read during those calls and must live until then. */
template <std::size_t N>
ddisp_tensor_view view(ddisp_dtype dtype, uint64_t address, const int64_t (&shape)[N],
                       uint64_t flags = 0) noexcept
{
    auto made = detail::sized<ddisp_tensor_view>();
    made.dtype = dtype;
    made.rank = static_cast<uint32_t>(N);
    made.flags = flags;
    made.address = address;
    made.shape = shape;
    return made;
}
/** With strides, in elements. */
template <std::size_t N>
ddisp_tensor_view view(ddisp_dtype dtype, uint64_t address, const int64_t (&shape)[N],
                       const int64_t (&strides)[N], uint64_t flags = 0) noexcept
{
    auto made = view(dtype, address, shape, flags);
    made.strides = strides;
    return made;
}
template <std::size_t N>
ddisp_tensor_view view(ddisp_dtype, uint64_t, const int64_t (&&)[N], uint64_t = 0) = delete;

} // namespace DDISP_CXX_MODE
} // namespace diffdispatch

#endif
