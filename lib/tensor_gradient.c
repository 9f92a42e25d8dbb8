/*
 * tensor_gradient.c - the gradient stored for a tensor: made, set, cleared, and shown as a tensor.
 * A view that shares its base's gradient stores none; its part of the base's is computed here. When
 * gradients are taken and added to is decided in gradient.c.
 */
#include "objects.h"

void ddisp__tensor_gradient_layout(ddisp_tensor *owner, ddisp__layout *out_layout)
{
    ddisp__layout_dense(&owner->layout, true, out_layout);
}

ddisp_status ddisp__tensor_gradient_part(ddisp_tensor *tensor, const ddisp__gradient *stored,
                                         ddisp__gradient *out_part)
{
    *out_part = *stored;
    if (!tensor->root)
        return DDISP_STATUS_OK;
    if (ddisp__layout_class(&stored->layout) != DDISP_LAYOUT_DENSE)
        return ddisp__fail(
            DDISP_STATUS_UNSUPPORTED,
            "the gradient set on the base is not dense, so a view of the base cannot share it");
    int64_t delta = tensor->offset - tensor->root->offset;
    out_part->layout = tensor->layout;
    if (stored->address)
        out_part->address = stored->address + (uint64_t)delta * ddisp__dtype_size(stored->dtype);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__tensor_gradient_make(ddisp_tensor *owner, ddisp_stream *stream, bool zero,
                                         ddisp__gradient *out_gradient)
{
    bool same = (atomic_load(&owner->flags) & DDISP_TENSOR_GRAD_SAME_DTYPE) != 0;
    ddisp__gradient gradient = {.dtype = ddisp__dtype_gradient(owner->dtype, same)};
    ddisp__tensor_gradient_layout(owner, &gradient.layout);
    uint64_t size_bytes =
        (uint64_t)ddisp__layout_stored(&gradient.layout) * ddisp__dtype_size(gradient.dtype);
    ddisp_status status =
        ddisp__buffer_create_on(stream, size_bytes, DDISP__PURPOSE_GRADIENT, &gradient.buffer);
    if (!status && zero)
        status = ddisp__buffer_zero(gradient.buffer, stream);
    if (!status)
        status = ddisp__buffer_created(gradient.buffer);
    if (status) {
        ddisp_buffer_release(gradient.buffer);
        return status;
    }
    gradient.address = gradient.buffer->memory.address;
    *out_gradient = gradient;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_set_requires_grad(ddisp_tensor *tensor, uint32_t requires_grad)
{
    ddisp_status status = ddisp__tensor_check("tensor", tensor);
    if (status)
        return status;
    if (requires_grad > 1)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "requires_grad is %u, it is 0 or 1",
                           requires_grad);
    if (tensor->root)
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT,
            "tensor is a view that shares its base's gradient; switch the base, or detach");
    if (requires_grad) {
        status = ddisp__tensor_check_flags(tensor->dtype, DDISP_TENSOR_REQUIRES_GRAD);
        if (status)
            return status;
        atomic_fetch_or(&tensor->flags, DDISP_TENSOR_REQUIRES_GRAD);
        ddisp__tensor_changed(tensor);
        return DDISP_STATUS_OK;
    }
    atomic_fetch_and(&tensor->flags, ~DDISP_TENSOR_REQUIRES_GRAD);
    pthread_mutex_lock(&tensor->lock);
    ddisp_buffer *dropped = tensor->gradient.buffer;
    tensor->gradient = (ddisp__gradient){0};
    ddisp__tensor_changed(tensor);
    pthread_mutex_unlock(&tensor->lock);
    ddisp_buffer_release(dropped);
    return DDISP_STATUS_OK;
}

static ddisp_status check_requires(const char *what, ddisp_tensor *tensor)
{
    ddisp_status status = ddisp__tensor_check(what, tensor);
    if (!status && !ddisp__tensor_requires_grad(tensor))
        return ddisp__fail(DDISP_STATUS_NO_GRADIENT, "%s does not require a gradient", what);
    return status;
}

ddisp_status ddisp_tensor_grad(ddisp_tensor *tensor, ddisp_tensor **out_grad)
{
    if (!out_grad)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_grad is NULL");
    *out_grad = NULL;
    ddisp_status status = check_requires("tensor", tensor);
    if (status)
        return status;
    ddisp_tensor *owner = ddisp__tensor_owner(tensor);
    ddisp__gradient part = {0};
    pthread_mutex_lock(&owner->lock);
    if (!owner->gradient.buffer) {
        status = ddisp__tensor_gradient_make(owner, owner->buffer->device->stream, true,
                                             &owner->gradient);
        ddisp__tensor_changed(owner);
    }
    if (!status)
        status = ddisp__tensor_gradient_part(tensor, &owner->gradient, &part);
    ddisp_buffer_retain(part.buffer);
    pthread_mutex_unlock(&owner->lock);
    if (!status) {
        uint64_t from = part.address - part.buffer->memory.address;
        int64_t offset = part.address ? (int64_t)(from / ddisp__dtype_size(part.dtype)) : 0;
        uint64_t flags = part.read_only ? DDISP_TENSOR_READ_ONLY : 0;
        status = ddisp__tensor_over(part.buffer, part.dtype, &part.layout, offset, flags, out_grad);
    }
    ddisp_buffer_release(part.buffer);
    return status;
}

static void replace(ddisp_tensor *owner, const ddisp__gradient *gradient)
{
    pthread_mutex_lock(&owner->lock);
    ddisp_buffer *dropped = owner->gradient.buffer;
    owner->gradient = *gradient;
    ddisp__tensor_changed(owner);
    pthread_mutex_unlock(&owner->lock);
    ddisp_buffer_release(dropped);
}

ddisp_status ddisp_tensor_set_grad(ddisp_tensor *tensor, ddisp_tensor *grad)
{
    if (!grad)
        return ddisp_tensor_clear_grad(tensor);
    ddisp_status status = check_requires("tensor", tensor);
    if (!status)
        status = ddisp__tensor_check("grad", grad);
    if (status)
        return status;
    if (tensor->root)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "tensor is a view that shares its base's gradient; set the base's");
    if (grad->buffer->device != tensor->buffer->device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH, "grad is on %s, tensor on %s",
                           grad->buffer->device->info.spec, tensor->buffer->device->info.spec);
    if (!ddisp__dtype_differentiable(grad->dtype))
        return ddisp__fail(DDISP_STATUS_DTYPE_MISMATCH,
                           "grad is %s; gradients are f16, bf16, f32 or f64",
                           ddisp_dtype_name(grad->dtype));
    if (!ddisp__layout_same_shape(&grad->layout, &tensor->layout)) {
        char is[128], wants[128];
        ddisp__layout_format(grad->dtype, &grad->layout, is, sizeof is);
        ddisp__layout_format(tensor->dtype, &tensor->layout, wants, sizeof wants);
        return ddisp__fail(DDISP_STATUS_SHAPE_MISMATCH, "grad is %s, tensor is %s", is, wants);
    }
    ddisp_buffer_retain(grad->buffer);
    ddisp__gradient gradient = {.buffer = grad->buffer,
                                .address = grad->address,
                                .dtype = grad->dtype,
                                .layout = grad->layout,
                                .from_caller = true};
    gradient.read_only = (atomic_load(&grad->flags) & DDISP_TENSOR_READ_ONLY) != 0;
    replace(tensor, &gradient);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_clear_grad(ddisp_tensor *tensor)
{
    ddisp_status status = check_requires("tensor", tensor);
    if (status)
        return status;
    if (tensor->root)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "tensor is a view that shares its base's gradient; clear the base's");
    replace(tensor, &(ddisp__gradient){0});
    return DDISP_STATUS_OK;
}
