/*
 * dlpack_export.c - tensors handed to other libraries through DLPack.
 *
 * In comes a tensor, out goes a managed tensor that holds a reference to it, in one allocation with
 * the extents and strides that it points to. Its deleter may be called from any thread, at any
 * time, also when nobody took the tensor.
 */
#include "dlpack.h"

#include "capture.h"

#include <string.h>

/* The managed tensor comes first, so that the deleter finds the rest. */
typedef struct plain_export {
    struct DLManagedTensor managed;
    ddisp_tensor *tensor;
    int64_t shape[DDISP_MAX_RANK], strides[DDISP_MAX_RANK];
} plain_export;

typedef struct versioned_export {
    struct DLManagedTensorVersioned managed;
    ddisp_tensor *tensor;
    int64_t shape[DDISP_MAX_RANK], strides[DDISP_MAX_RANK];
} versioned_export;

static void end(void *export, ddisp_tensor *tensor)
{
    ddisp_context *context = tensor->buffer->device->context;
    ddisp_context_retain(context);
    ddisp_tensor_release(tensor);
    ddisp__release(context, export);
    ddisp_context_release(context);
}

static void delete_plain(struct DLManagedTensor *managed)
{
    plain_export *export = (plain_export *)managed;
    end(export, export->tensor);
}

static void delete_versioned(struct DLManagedTensorVersioned *managed)
{
    versioned_export *export = (versioned_export *)managed;
    end(export, export->tensor);
}

static ddisp_status check(ddisp_tensor *tensor, ddisp_stream *stream, const void *out_managed)
{
    ddisp_status status = ddisp__tensor_check("tensor", tensor);
    if (status)
        return status;
    if (!out_managed)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_managed is NULL");
    const ddisp_device *device = tensor->buffer->device;
    if (device->info.dlpack_device_type == 0)
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "tensor: addresses of device %s mean nothing to other libraries; copy "
                           "the elements with ddisp_tensor_read",
                           device->info.spec);
    if (!stream)
        return DDISP_STATUS_OK;
    if (stream->device != device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH, "stream is of device %s, the tensor on %s",
                           stream->device->info.spec, device->info.spec);
    return ddisp__capture_refuse(stream, "an export");
}

static void describe(const ddisp_tensor *tensor, int64_t *shape, int64_t *strides,
                     ddisp__dlpack_tensor *out)
{
    const ddisp_device_info *info = &tensor->buffer->device->info;
    memcpy(shape, tensor->layout.shape, sizeof tensor->layout.shape);
    memcpy(strides, tensor->given_strides, sizeof tensor->given_strides);
    *out = (ddisp__dlpack_tensor){
        .data = (void *)(uintptr_t)tensor->address,
        .device_type = (int32_t)info->dlpack_device_type,
        .device_id = info->dlpack_device_id,
        .ndim = (int32_t)tensor->layout.rank,
        .dtype = ddisp__dlpack_dtype_of(tensor->dtype),
        .shape = shape,
        .strides = strides,
    };
}

static ddisp_status no_memory(void)
{
    return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for an exported tensor");
}

ddisp_status ddisp_tensor_to_dlpack(ddisp_tensor *tensor, ddisp_stream *stream,
                                    struct DLManagedTensor **out_managed)
{
    ddisp_status status = check(tensor, stream, out_managed);
    if (status)
        return status;
    if (atomic_load(&tensor->flags) & DDISP_TENSOR_READ_ONLY)
        return ddisp__fail(DDISP_STATUS_READ_ONLY,
                           "tensor is read-only, which DLManagedTensor cannot say; use "
                           "ddisp_tensor_to_dlpack_versioned");
    plain_export *export = ddisp__allocate(tensor->buffer->device->context, sizeof *export);
    if (!export)
        return no_memory();
    status = ddisp__buffer_settle(tensor->buffer, stream);
    if (status) {
        ddisp__release(tensor->buffer->device->context, export);
        return status;
    }
    describe(tensor, export->shape, export->strides, &export->managed.dl_tensor);
    export->managed.deleter = delete_plain;
    ddisp_tensor_retain(tensor);
    export->tensor = tensor;
    *out_managed = &export->managed;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_to_dlpack_versioned(ddisp_tensor *tensor, ddisp_stream *stream,
                                              struct DLManagedTensorVersioned **out_managed)
{
    ddisp_status status = check(tensor, stream, out_managed);
    if (status)
        return status;
    versioned_export *export = ddisp__allocate(tensor->buffer->device->context, sizeof *export);
    if (!export)
        return no_memory();
    status = ddisp__buffer_settle(tensor->buffer, stream);
    if (status) {
        ddisp__release(tensor->buffer->device->context, export);
        return status;
    }
    describe(tensor, export->shape, export->strides, &export->managed.dl_tensor);
    export->managed.major = DDISP__DLPACK_MAJOR;
    export->managed.minor = DDISP__DLPACK_MINOR;
    export->managed.deleter = delete_versioned;
    if (atomic_load(&tensor->flags) & DDISP_TENSOR_READ_ONLY)
        export->managed.flags = DDISP__DLPACK_READ_ONLY;
    ddisp_tensor_retain(tensor);
    export->tensor = tensor;
    *out_managed = &export->managed;
    return DDISP_STATUS_OK;
}
