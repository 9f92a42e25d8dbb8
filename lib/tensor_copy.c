/*
 * tensor_copy.c - copies between a tensor and dense host memory. Dense tensors go straight through
 * their buffer; others through a host copy of the bytes that they span, so that no backend needs to
 * know strides for it. Never touches bytes between the elements.
 */
#include "objects.h"

#include <string.h>

/* Copies between dense host memory and the tensor's byte span, element by element, in either
 * direction. */
static void shuffle(const ddisp__layout *layout, uint32_t size, unsigned char *span_origin,
                    unsigned char *dense, bool to_dense)
{
    int64_t index[DDISP_MAX_RANK] = {0};
    for (int64_t n = 0; n < layout->numel; n++) {
        int64_t element = 0;
        for (uint32_t i = 0; i < layout->rank; i++)
            element += index[i] * layout->strides[i];
        unsigned char *there = span_origin + element * (int64_t)size;
        if (to_dense)
            memcpy(dense + n * (int64_t)size, there, size);
        else
            memcpy(there, dense + n * (int64_t)size, size);
        for (uint32_t i = layout->rank; i-- > 0;) {
            if (++index[i] < layout->shape[i])
                break;
            index[i] = 0;
        }
    }
}

static ddisp_status check_copy(ddisp_tensor *tensor, const void *data, uint64_t size_bytes)
{
    ddisp_status status = ddisp__tensor_check("tensor", tensor);
    if (status)
        return status;
    uint64_t needed = (uint64_t)tensor->layout.numel * ddisp_dtype_size(tensor->dtype);
    if (size_bytes != needed)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "size_bytes is %llu, the tensor has %llu",
                           (unsigned long long)size_bytes, (unsigned long long)needed);
    if (!data && needed)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "data is NULL");
    return DDISP_STATUS_OK;
}

/* Reads a strided tensor through a copy of its span; with `data` to write, puts it there and writes
 * the span back. */
static ddisp_status copy_strided(ddisp_tensor *tensor, const void *source, void *destination,
                                 ddisp_stream *stream)
{
    uint32_t size = ddisp_dtype_size(tensor->dtype);
    ddisp_context *context = tensor->buffer->device->context;
    ddisp__span span = ddisp__layout_span(&tensor->layout, size);
    uint64_t bytes = (uint64_t)(span.high - span.low);
    uint64_t start = (uint64_t)(tensor->offset * (int64_t)size + span.low);
    unsigned char *copy = ddisp__allocate(context, bytes);
    if (!copy)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a copy of %llu bytes",
                           (unsigned long long)bytes);
    ddisp_status status = ddisp_buffer_read(tensor->buffer, start, copy, bytes, stream);
    if (!status && destination)
        shuffle(&tensor->layout, size, copy - span.low, destination, true);
    if (!status && source) {
        unsigned char *dense =
            ddisp__duplicate(context, source, (uint64_t)tensor->layout.numel * size);
        if (!dense)
            status = ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a copy of the data");
        else
            shuffle(&tensor->layout, size, copy - span.low, dense, false);
        ddisp__release(context, dense);
        if (!status)
            status = ddisp_buffer_write(tensor->buffer, start, copy, bytes, stream);
    }
    ddisp__release(context, copy);
    return status;
}

ddisp_status ddisp_tensor_write(ddisp_tensor *tensor, const void *data, uint64_t size_bytes,
                                ddisp_stream *stream)
{
    ddisp_status status = check_copy(tensor, data, size_bytes);
    if (status)
        return status;
    if (atomic_load(&tensor->flags) & DDISP_TENSOR_READ_ONLY)
        return ddisp__fail(DDISP_STATUS_READ_ONLY, "tensor is read-only");
    if (ddisp__layout_self_overlaps(&tensor->layout))
        return ddisp__fail(DDISP_STATUS_ALIASED,
                           "tensor: several of its elements share memory; write its base");
    if (ddisp__layout_class(&tensor->layout) != DDISP_LAYOUT_DENSE)
        return copy_strided(tensor, data, NULL, stream);
    uint64_t start = (uint64_t)tensor->offset * ddisp_dtype_size(tensor->dtype);
    return ddisp_buffer_write(tensor->buffer, size_bytes ? start : 0, data, size_bytes, stream);
}

ddisp_status ddisp_tensor_read(ddisp_tensor *tensor, void *data, uint64_t size_bytes,
                               ddisp_stream *stream)
{
    ddisp_status status = check_copy(tensor, data, size_bytes);
    if (status)
        return status;
    if (ddisp__layout_class(&tensor->layout) != DDISP_LAYOUT_DENSE)
        return copy_strided(tensor, NULL, data, stream);
    uint64_t start = (uint64_t)tensor->offset * ddisp_dtype_size(tensor->dtype);
    return ddisp_buffer_read(tensor->buffer, size_bytes ? start : 0, data, size_bytes, stream);
}
