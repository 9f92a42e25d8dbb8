/*
 * scatter.c - scatter-add on tensors: arguments checked, indices checked on request, sums of
 * half-precision destinations taken through an f32 temporary. An index out of range is counted and
 * skipped, or refused before anything is added; it is never written elsewhere.
 */
#include "launch.h"

#include <string.h>

typedef struct scatter {
    ddisp_tensor *destination, *index, *source;
    uint32_t axis;
    ddisp_accumulate_options options;
    ddisp_stream *stream;
    ddisp__layout index_layout; /* of source's shape */
} scatter;

static ddisp_status check_tensor(const scatter *s, const char *what, ddisp_tensor *tensor)
{
    ddisp_status status = ddisp__tensor_check(what, tensor);
    if (!status && tensor->buffer->device != s->destination->buffer->device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH, "%s is on %s, destination on %s", what,
                           tensor->buffer->device->info.spec,
                           s->destination->buffer->device->info.spec);
    if (!status && ddisp__layout_overlap(s->destination->address, &s->destination->layout,
                                         ddisp_dtype_size(s->destination->dtype), tensor->address,
                                         &tensor->layout, ddisp_dtype_size(tensor->dtype)))
        return ddisp__fail(DDISP_STATUS_ALIASED, "%s overlaps destination", what);
    return status;
}

static ddisp_status check_shapes(scatter *s)
{
    const ddisp__layout *to = &s->destination->layout, *from = &s->source->layout;
    if (to->rank == 0 || to->rank != from->rank)
        return ddisp__fail(DDISP_STATUS_RANK_MISMATCH,
                           "source has rank %u, destination has rank %u; they are equal and not 0",
                           from->rank, to->rank);
    if (s->axis >= to->rank)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "axis is %u, destination has rank %u",
                           s->axis, to->rank);
    for (uint32_t i = 0; i < to->rank; i++)
        if (i != s->axis && to->shape[i] != from->shape[i])
            return ddisp__fail(DDISP_STATUS_SHAPE_MISMATCH,
                               "extent %u is %lld in source and %lld in destination", i,
                               (long long)from->shape[i], (long long)to->shape[i]);
    s->index_layout = s->index->layout;
    if (ddisp__layout_same_shape(&s->index->layout, from))
        return DDISP_STATUS_OK;
    if (s->index->layout.rank != 1 || s->index->layout.shape[0] != from->shape[s->axis])
        return ddisp__fail(DDISP_STATUS_SHAPE_MISMATCH,
                           "index has neither source's shape nor one element for each of the %lld "
                           "positions of axis %u",
                           (long long)from->shape[s->axis], s->axis);
    s->index_layout = *from;
    s->index_layout.dense = false;
    memset(s->index_layout.strides, 0, sizeof s->index_layout.strides);
    s->index_layout.strides[s->axis] = s->index->layout.strides[0];
    return DDISP_STATUS_OK;
}

static ddisp_status check(scatter *s)
{
    ddisp_status status = ddisp__tensor_check("destination", s->destination);
    if (!status)
        status = check_tensor(s, "index", s->index);
    if (!status)
        status = check_tensor(s, "source", s->source);
    if (status)
        return status;
    if (atomic_load(&s->destination->flags) & DDISP_TENSOR_READ_ONLY)
        return ddisp__fail(DDISP_STATUS_READ_ONLY, "destination is read-only");
    if (ddisp__layout_self_overlaps(&s->destination->layout))
        return ddisp__fail(DDISP_STATUS_ALIASED,
                           "destination: several of its elements share memory");
    if (s->index->dtype != DDISP_DTYPE_I32 && s->index->dtype != DDISP_DTYPE_I64)
        return ddisp__fail(DDISP_STATUS_DTYPE_MISMATCH, "index is %s, it must be i32 or i64",
                           ddisp_dtype_name(s->index->dtype));
    if (!ddisp__dtype_differentiable(s->destination->dtype) ||
        !ddisp__dtype_differentiable(s->source->dtype))
        return ddisp__fail(DDISP_STATUS_DTYPE_MISMATCH,
                           "source is %s, destination is %s; f16, bf16, f32 and f64 can be added",
                           ddisp_dtype_name(s->source->dtype),
                           ddisp_dtype_name(s->destination->dtype));
    return check_shapes(s);
}

/* Reads the indices and looks at each. */
static ddisp_status check_indices(const scatter *s)
{
    ddisp_context *context = s->destination->buffer->device->context;
    uint64_t size = ddisp_dtype_size(s->index->dtype);
    uint64_t count = (uint64_t)s->index->layout.numel;
    int64_t extent = s->destination->layout.shape[s->axis];
    unsigned char *bytes = ddisp__allocate(context, count * size + 1);
    if (!bytes)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to check %llu indices",
                           (unsigned long long)count);
    ddisp_status status = ddisp_tensor_read(s->index, bytes, count * size, s->stream);
    for (uint64_t i = 0; i < count && !status; i++) {
        int32_t narrow;
        int64_t value;
        memcpy(&narrow, bytes + i * size, sizeof narrow);
        memcpy(&value, bytes + i * size, size < sizeof value ? sizeof narrow : sizeof value);
        if (size == sizeof narrow)
            value = narrow;
        if (value < 0 || value >= extent)
            status =
                ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                            "index: element %llu is %lld, axis %u has extent %lld",
                            (unsigned long long)i, (long long)value, s->axis, (long long)extent);
    }
    ddisp__release(context, bytes);
    return status;
}

static ddisp_status add(scatter *s, const ddisp__gradient *to, const ddisp_buffer *skipped)
{
    ddisp__gradient index = {
        s->index->buffer, s->index->address, s->index->dtype, s->index_layout, false, false};
    ddisp__gradient from = {
        s->source->buffer, s->source->address, s->source->dtype, s->source->layout, false, false};
    uint64_t flags = s->options.flags & DDISP_ACCUMULATE_DETERMINISTIC
                         ? DDISP_BACKEND_ACCUMULATE_DETERMINISTIC
                         : 0;
    return ddisp__elements_scatter(s->stream, to, s->axis, &index, &from, skipped, flags);
}

/* Adds into destination, through an f32 temporary for half precision. */
static ddisp_status add_rounded_once(scatter *s, const ddisp_buffer *skipped)
{
    ddisp_tensor *destination = s->destination;
    ddisp__gradient to = {.buffer = destination->buffer,
                          .address = destination->address,
                          .dtype = destination->dtype,
                          .layout = destination->layout};
    if (to.dtype != DDISP_DTYPE_F16 && to.dtype != DDISP_DTYPE_BF16)
        return add(s, &to, skipped);
    ddisp__gradient wide = {.dtype = DDISP_DTYPE_F32};
    ddisp__layout_dense(&to.layout, false, &wide.layout);
    ddisp_status status = ddisp__buffer_create_on(
        s->stream, (uint64_t)wide.layout.numel * ddisp_dtype_size(wide.dtype),
        DDISP__PURPOSE_SCRATCH, &wide.buffer);
    if (status)
        return status;
    wide.address = wide.buffer->memory.address;
    status = ddisp__buffer_zero(wide.buffer, s->stream);
    if (!status)
        status = add(s, &wide, skipped);
    if (!status)
        status =
            ddisp__elements_accumulate(s->stream, &to, &wide, 1.0, DDISP_BACKEND_ACCUMULATE_ADD, 0);
    ddisp_buffer_release(wide.buffer);
    return status;
}

static ddisp_status run(scatter *s)
{
    ddisp_buffer *skipped = NULL;
    uint64_t count = 0;
    ddisp_status status = DDISP_STATUS_OK;
    if (s->options.flags & DDISP_ACCUMULATE_CHECKED)
        status = check_indices(s);
    if (!status && s->options.out_skipped) {
        status = ddisp__buffer_create_on(s->stream, sizeof count, DDISP__PURPOSE_SCRATCH, &skipped);
        if (!status)
            status = ddisp__buffer_zero(skipped, s->stream);
    }
    if (!status)
        status = ddisp__buffer_use(s->destination->buffer, s->stream);
    if (!status)
        status = ddisp__buffer_use(s->source->buffer, s->stream);
    if (!status)
        status = ddisp__buffer_use(s->index->buffer, s->stream);
    if (!status && s->source->layout.numel > 0)
        status = add_rounded_once(s, skipped);
    if (!status && skipped)
        status = ddisp_buffer_read(skipped, 0, &count, sizeof count, s->stream);
    if (!status && skipped)
        *s->options.out_skipped = count;
    ddisp_buffer_release(skipped);
    return status;
}

ddisp_status ddisp_tensor_scatter_add(ddisp_tensor *destination, uint32_t axis, ddisp_tensor *index,
                                      ddisp_tensor *source, const ddisp_accumulate_options *options,
                                      ddisp_stream *stream)
{
    scatter s = {.destination = destination, .index = index, .source = source, .axis = axis};
    ddisp_status status = ddisp__tensor_check("destination", destination);
    if (!status)
        status =
            ddisp__accumulate_options(destination->buffer->device->context, options, &s.options);
    if (!status)
        status = check(&s);
    if (!status)
        status = ddisp__stream_resolve(destination->buffer->device, stream, &s.stream);
    return status ? status : run(&s);
}
