/*
 * tensor.c - tensors: memory seen through a dtype, a layout and the requires_grad bit, and the
 * gradient stored for each. A tensor that views another which requires a gradient stores none of
 * its own: its owner (root) does. What a launch does with gradients is decided in gradient.c; here
 * they are only kept, made, and shown as tensors.
 */
#include "objects.h"

#include <string.h>

static atomic_uint_fast64_t next_id = 1;

#define TENSOR_FLAGS                                                                               \
    (DDISP_TENSOR_REQUIRES_GRAD | DDISP_TENSOR_READ_ONLY | DDISP_TENSOR_GRAD_SAME_DTYPE)

ddisp_status ddisp__tensor_check(const char *what, ddisp_tensor *tensor)
{
    if (!tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL", what);
    return ddisp__device_check(tensor->buffer->device, what);
}

ddisp_status ddisp__tensor_check_flags(ddisp_dtype dtype, uint64_t flags)
{
    if (flags & ~TENSOR_FLAGS)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "flags: unknown bits 0x%llx",
                           (unsigned long long)(flags & ~TENSOR_FLAGS));
    if ((flags & DDISP_TENSOR_REQUIRES_GRAD) && !ddisp__dtype_differentiable(dtype))
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT,
            "flags: a %s tensor cannot require a gradient; f16, bf16, f32 and f64 can",
            ddisp_dtype_name(dtype));
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__tensor_over(ddisp_buffer *buffer, ddisp_dtype dtype,
                                const ddisp__layout *layout, int64_t offset, uint64_t flags,
                                ddisp_tensor **out_tensor)
{
    ddisp_context *context = buffer->device->context;
    ddisp_tensor *tensor = ddisp__allocate(context, sizeof *tensor);
    if (!tensor)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a tensor");
    ddisp__reference_start(&tensor->reference);
    tensor->id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed);
    ddisp_buffer_retain(buffer);
    tensor->buffer = buffer;
    tensor->dtype = dtype;
    atomic_init(&tensor->flags, flags);
    tensor->layout = *layout;
    memcpy(tensor->given_strides, layout->strides, sizeof tensor->given_strides);
    tensor->offset = offset;
    if (layout->numel > 0)
        tensor->address = buffer->memory.address + (uint64_t)offset * ddisp_dtype_size(dtype);
    pthread_mutex_init(&tensor->lock, NULL);
    *out_tensor = tensor;
    return DDISP_STATUS_OK;
}

/* Every element lies inside the buffer, and element 0 is aligned. */
static ddisp_status check_range(const ddisp_buffer *buffer, ddisp_dtype dtype,
                                const ddisp__layout *layout, int64_t offset)
{
    int64_t size = (int64_t)ddisp_dtype_size(dtype);
    if (layout->numel == 0)
        return DDISP_STATUS_OK;
    ddisp__span span = ddisp__layout_span(layout, (uint32_t)size);
    int64_t origin, low, high;
    if (__builtin_mul_overflow(offset, size, &origin) ||
        __builtin_add_overflow(origin, span.low, &low) ||
        __builtin_add_overflow(origin, span.high, &high))
        return ddisp__fail(DDISP_STATUS_OVERFLOW, "offset: %lld elements do not fit in 64 bits",
                           (long long)offset);
    if (low < 0 || (uint64_t)high > buffer->memory.size_bytes)
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT,
            "shape, strides and offset reach bytes %lld to %lld of a buffer of %llu bytes",
            (long long)low, (long long)high, (unsigned long long)buffer->memory.size_bytes);
    if ((buffer->memory.address + (uint64_t)origin) % (uint64_t)size != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "offset: the address of element 0 is not a multiple of %lld bytes",
                           (long long)size);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_create(ddisp_device *device, ddisp_dtype dtype, uint32_t rank,
                                 const int64_t *shape, uint64_t flags, ddisp_tensor **out_tensor)
{
    ddisp__layout layout;
    ddisp_status status = ddisp__device_check(device, "device");
    if (status)
        return status;
    if (!out_tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_tensor is NULL");
    status = ddisp__layout_make("shape", dtype, rank, shape, NULL, &layout);
    if (!status)
        status = ddisp__tensor_check_flags(dtype, flags);
    if (status)
        return status;
    ddisp_buffer *buffer;
    uint64_t size_bytes = (uint64_t)layout.numel * ddisp_dtype_size(dtype);
    status = ddisp__buffer_create_on(device->stream, size_bytes, DDISP__PURPOSE_DATA, &buffer);
    if (status)
        return status;
    status = ddisp__tensor_over(buffer, dtype, &layout, 0, flags, out_tensor);
    ddisp_buffer_release(buffer);
    return status;
}

ddisp_status ddisp_tensor_create_over(ddisp_buffer *buffer, ddisp_dtype dtype, uint32_t rank,
                                      const int64_t *shape, const int64_t *strides, int64_t offset,
                                      uint64_t flags, ddisp_tensor **out_tensor)
{
    ddisp__layout layout;
    if (!buffer || !out_tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL",
                           !buffer ? "buffer" : "out_tensor");
    ddisp_status status = ddisp__device_check(buffer->device, "buffer");
    if (!status)
        status = ddisp__layout_make("shape", dtype, rank, shape, strides, &layout);
    if (!status)
        status = ddisp__tensor_check_flags(dtype, flags);
    if (!status)
        status = check_range(buffer, dtype, &layout, offset);
    if (status)
        return status;
    return ddisp__tensor_over(buffer, dtype, &layout, offset, flags, out_tensor);
}

/* A view whose elements are all elements of its owner, so that its gradient is a view of the
 * owner's. */
static ddisp_status check_inside(const ddisp_tensor *owner, const ddisp__layout *layout,
                                 int64_t offset)
{
    if (ddisp__layout_class(&owner->layout) != DDISP_LAYOUT_DENSE)
        return ddisp__fail(
            DDISP_STATUS_UNSUPPORTED,
            "base: a view that shares a gradient needs a dense base; detach the base first");
    ddisp__span span = ddisp__layout_span(layout, 1);
    int64_t low = offset - owner->offset + span.low, high = offset - owner->offset + span.high;
    if (layout->numel > 0 && (low < 0 || high > owner->layout.numel))
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT,
            "shape, strides and offset reach elements %lld to %lld of a base of %lld elements",
            (long long)low, (long long)high, (long long)owner->layout.numel);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_as_strided(ddisp_tensor *base, uint32_t rank, const int64_t *shape,
                                     const int64_t *strides, int64_t offset,
                                     ddisp_tensor **out_view)
{
    ddisp__layout layout;
    ddisp_status status = ddisp__tensor_check("base", base);
    if (status)
        return status;
    if (!out_view)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_view is NULL");
    status = ddisp__layout_make("shape", base->dtype, rank, shape, strides, &layout);
    if (!status)
        status = check_range(base->buffer, base->dtype, &layout, offset);
    if (status)
        return status;
    bool shares = ddisp__tensor_requires_grad(base);
    ddisp_tensor *owner = ddisp__tensor_owner(base);
    if (shares)
        status = check_inside(owner, &layout, offset);
    uint64_t flags = atomic_load(&base->flags);
    if (!status)
        status = ddisp__tensor_over(base->buffer, base->dtype, &layout, offset, flags, out_view);
    if (!status && shares) {
        ddisp_tensor_retain(owner);
        (*out_view)->root = owner;
    }
    return status;
}

ddisp_status ddisp_tensor_detach(ddisp_tensor *tensor, ddisp_tensor **out_tensor)
{
    ddisp_status status = ddisp__tensor_check("tensor", tensor);
    if (status)
        return status;
    if (!out_tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_tensor is NULL");
    uint64_t flags = atomic_load(&tensor->flags) & ~DDISP_TENSOR_REQUIRES_GRAD;
    return ddisp__tensor_over(tensor->buffer, tensor->dtype, &tensor->layout, tensor->offset, flags,
                              out_tensor);
}

void ddisp_tensor_retain(ddisp_tensor *tensor)
{
    if (tensor)
        ddisp__reference_take(&tensor->reference);
}

void ddisp_tensor_release(ddisp_tensor *tensor)
{
    if (!tensor || !ddisp__reference_drop(&tensor->reference))
        return;
    ddisp_context *context = tensor->buffer->device->context;
    ddisp_context_retain(context);
    ddisp_buffer_release(tensor->gradient.buffer);
    ddisp_tensor_release(tensor->root);
    ddisp_buffer_release(tensor->buffer);
    pthread_mutex_destroy(&tensor->lock);
    ddisp__release(context, tensor);
    ddisp_context_release(context);
}

ddisp_device *ddisp_tensor_device(ddisp_tensor *tensor)
{
    return tensor ? tensor->buffer->device : NULL;
}

static ddisp_grad_state state_of(ddisp_tensor *tensor)
{
    if (!ddisp__tensor_requires_grad(tensor))
        return DDISP_GRAD_STATE_NONE;
    ddisp_tensor *owner = ddisp__tensor_owner(tensor);
    pthread_mutex_lock(&owner->lock);
    bool present = owner->gradient.buffer != NULL;
    pthread_mutex_unlock(&owner->lock);
    return present ? DDISP_GRAD_STATE_PRESENT : DDISP_GRAD_STATE_EMPTY;
}

ddisp_status ddisp_tensor_get_info(ddisp_tensor *tensor, ddisp_tensor_info *out_info)
{
    if (!tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "tensor is NULL");
    ddisp_tensor_info info = {.dtype = tensor->dtype,
                              .rank = tensor->layout.rank,
                              .grad_state = state_of(tensor),
                              .address = tensor->address,
                              .numel = tensor->layout.numel};
    info.flags = atomic_load(&tensor->flags) & ~DDISP_TENSOR_REQUIRES_GRAD;
    if (ddisp__tensor_requires_grad(tensor))
        info.flags |= DDISP_TENSOR_REQUIRES_GRAD;
    memcpy(info.shape, tensor->layout.shape, sizeof info.shape);
    memcpy(info.strides, tensor->given_strides, sizeof info.strides);
    return ddisp__struct_write("out_info", out_info, sizeof info, sizeof info, &info);
}
