/*
 * elements.c - element-wise work on device memory, done by the backend in order of a stream:
 * zeroing and accumulating gradients of any layout and dtype. Falls back on contiguous fills where
 * a backend offers no more.
 */
#include "objects.h"

static ddisp_backend_tensor describe(const ddisp__gradient *gradient)
{
    int64_t size = (int64_t)ddisp_dtype_size(gradient->dtype);
    ddisp__span span = ddisp__layout_span(&gradient->layout, (uint32_t)size);
    ddisp_backend_tensor tensor = {
        .address = gradient->address,
        .dtype = gradient->dtype,
        .rank = gradient->layout.rank,
        .range = {.handle = gradient->buffer ? gradient->buffer->memory.handle : NULL,
                  .address = gradient->address + (uint64_t)span.low,
                  .size_bytes = (uint64_t)(span.high - span.low)}};
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++) {
        tensor.shape[i] = gradient->layout.shape[i];
        tensor.strides[i] = gradient->layout.shape[i] > 1 ? gradient->layout.strides[i] : 0;
    }
    return tensor;
}

static ddisp_status fill_range(ddisp_stream *stream, const ddisp__gradient *gradient, uint64_t bits,
                               uint64_t address, uint64_t size_bytes)
{
    ddisp_device *device = stream->device;
    ddisp_backend_range range = {.handle =
                                     gradient->buffer ? gradient->buffer->memory.handle : NULL,
                                 .address = address,
                                 .size_bytes = size_bytes};
    uint32_t word = ddisp_dtype_size(gradient->dtype);
    if (bits == 0 && (address | size_bytes) % 4 == 0)
        word = 4; /* zeros may be written in words */
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->fill(device->handle, stream->handle, &range, bits, word);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

/* Elements that lie without gaps from the innermost axis on; *outer counts the axes that are left.
 */
static int64_t contiguous_run(const ddisp__layout *layout, uint32_t *outer)
{
    int64_t run = 1;
    for (*outer = layout->rank; *outer > 0; --*outer) {
        uint32_t i = *outer - 1;
        if (layout->shape[i] == 1 || layout->strides[i] == 0)
            continue;
        if (layout->strides[i] != run)
            break;
        run *= layout->shape[i];
    }
    return run;
}

/* One fill per contiguous run. */
static ddisp_status fill_runs(ddisp_stream *stream, const ddisp__gradient *gradient, uint64_t bits,
                              int64_t run, uint32_t outer)
{
    const ddisp__layout *layout = &gradient->layout;
    int64_t size = (int64_t)ddisp_dtype_size(gradient->dtype);
    int64_t index[DDISP_MAX_RANK] = {0};
    for (;;) {
        int64_t element = 0;
        for (uint32_t i = 0; i < outer; i++)
            element += index[i] * layout->strides[i];
        ddisp_status status =
            fill_range(stream, gradient, bits, gradient->address + (uint64_t)(element * size),
                       (uint64_t)(run * size));
        if (status)
            return status;
        uint32_t i = outer;
        while (i-- > 0) {
            if (layout->strides[i] != 0 && ++index[i] < layout->shape[i])
                break;
            index[i] = 0;
        }
        if (i == UINT32_MAX)
            return DDISP_STATUS_OK;
    }
}

ddisp_status ddisp__elements_fill(ddisp_stream *stream, const ddisp__gradient *gradient,
                                  uint64_t bits)
{
    ddisp_device *device = stream->device;
    uint32_t outer;
    if (gradient->layout.numel == 0)
        return DDISP_STATUS_OK;
    int64_t run = contiguous_run(&gradient->layout, &outer);
    if (outer == 0 || !ddisp__table_offers(device->table, fill_elements))
        return fill_runs(stream, gradient, bits, run, outer);
    ddisp_backend_tensor tensor = describe(gradient);
    pthread_mutex_lock(&stream->lock);
    ddisp_status status =
        device->table->fill_elements(device->handle, stream->handle, &tensor, bits);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp__elements_zero(ddisp_stream *stream, const ddisp__gradient *gradient)
{
    if (gradient->layout.numel > 0)
        ddisp__device_count_fill(stream->device);
    return ddisp__elements_fill(stream, gradient, 0);
}

ddisp_status ddisp__elements_accumulate(ddisp_stream *stream, const ddisp__gradient *destination,
                                        const ddisp__gradient *source, double alpha,
                                        uint32_t operation, uint64_t flags)
{
    ddisp_device *device = stream->device;
    if (destination->layout.numel == 0)
        return DDISP_STATUS_OK;
    if (!ddisp__table_offers(device->table, accumulate))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "device %s has no accumulation",
                           device->info.spec);
    ddisp_backend_tensor to = describe(destination), from = describe(source);
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->accumulate(device->handle, stream->handle, &to, &from,
                                                    alpha, operation, flags);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

/* Repeated elements are one. */
static void drop_repeated(ddisp_backend_tensor *tensor, const ddisp__layout *layout)
{
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++)
        if (layout->strides[i] == 0)
            tensor->shape[i] = 1, tensor->strides[i] = 0;
}

ddisp_status ddisp__elements_fold(ddisp_stream *stream, const ddisp__gradient *destination,
                                  const ddisp__gradient *shadow, double scale, bool wide,
                                  uint32_t operation, const ddisp_backend_range *sticky)
{
    ddisp_device *device = stream->device;
    if (destination->layout.numel == 0)
        return DDISP_STATUS_OK;
    ddisp_backend_tensor to = describe(destination), from = describe(shadow);
    from.range.address = shadow->address;
    from.range.size_bytes = shadow->buffer->memory.size_bytes;
    drop_repeated(&to, &shadow->layout);
    drop_repeated(&from, &shadow->layout);
    pthread_mutex_lock(&stream->lock);
    ddisp_status status =
        device->table->fold(device->handle, stream->handle, &to, &from, scale, operation,
                            wide ? DDISP_BACKEND_FOLD_WIDE : 0, sticky);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

ddisp_status ddisp__elements_scatter(ddisp_stream *stream, const ddisp__gradient *destination,
                                     uint32_t axis, const ddisp__gradient *index,
                                     const ddisp__gradient *source, const ddisp_buffer *skipped,
                                     uint64_t flags)
{
    ddisp_device *device = stream->device;
    if (!ddisp__table_offers(device->table, scatter_add))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "device %s has no scatter-add",
                           device->info.spec);
    ddisp_backend_tensor to = describe(destination), at = describe(index), from = describe(source);
    int64_t extent = destination->layout.shape[axis];
    to.shape[axis] = from.shape[axis]; /* the operation's shape is the source's */
    to.strides[axis] = destination->layout.strides[axis];
    ddisp_backend_range counter = {0};
    if (skipped)
        counter = (ddisp_backend_range){skipped->memory.handle, skipped->memory.address,
                                        skipped->memory.size_bytes};
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->scatter_add(device->handle, stream->handle, &to, axis,
                                                     extent, &at, &from, &counter, flags);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}
