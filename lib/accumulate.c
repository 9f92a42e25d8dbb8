/*
 * accumulate.c - the public element-wise operations: arguments checked, shapes aligned, sums of
 * half-precision destinations taken through an f32 temporary. The work itself is the backend's
 * (elements.c). Stored gradients and requires_grad play no part here.
 */
#include "launch.h"
#include "lower.h"

/* A tensor's memory as the element-wise operations take it; its buffer is not counted. */
static ddisp__gradient memory_of(const ddisp_tensor *tensor)
{
    return (ddisp__gradient){.buffer = tensor->buffer,
                             .address = tensor->address,
                             .dtype = tensor->dtype,
                             .layout = tensor->layout};
}

static ddisp_status check_writable(const char *what, ddisp_tensor *tensor)
{
    ddisp_status status = ddisp__tensor_check(what, tensor);
    if (status)
        return status;
    if (atomic_load(&tensor->flags) & DDISP_TENSOR_READ_ONLY)
        return ddisp__fail(DDISP_STATUS_READ_ONLY, "%s is read-only", what);
    if (ddisp__layout_self_overlaps(&tensor->layout))
        return ddisp__fail(DDISP_STATUS_ALIASED, "%s: several of its elements share memory", what);
    return DDISP_STATUS_OK;
}

static ddisp_status check_source(const char *what, ddisp_tensor *source,
                                 const ddisp_tensor *destination)
{
    ddisp_status status = ddisp__tensor_check(what, source);
    if (status)
        return status;
    if (source->buffer->device != destination->buffer->device)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH, "%s is on %s, destination on %s", what,
                           source->buffer->device->info.spec,
                           destination->buffer->device->info.spec);
    if (ddisp__layout_overlap(destination->address, &destination->layout,
                              ddisp_dtype_size(destination->dtype), source->address,
                              &source->layout, ddisp_dtype_size(source->dtype)))
        return ddisp__fail(DDISP_STATUS_ALIASED, "%s overlaps destination", what);
    return DDISP_STATUS_OK;
}

static ddisp_status check_float(const char *what, const ddisp_tensor *tensor)
{
    if (ddisp__dtype_differentiable(tensor->dtype))
        return DDISP_STATUS_OK;
    return ddisp__fail(DDISP_STATUS_DTYPE_MISMATCH, "%s is %s; f16, bf16, f32 and f64 can be added",
                       what, ddisp_dtype_name(tensor->dtype));
}

static ddisp_status use(ddisp_tensor *tensor, ddisp_stream *stream)
{
    return ddisp__buffer_use(tensor->buffer, stream);
}

/* ---- shapes ---- */

/* Spreads a layout to rank axes, trailing axes aligned; new axes are extent 1. */
static ddisp__layout spread(const ddisp__layout *layout, uint32_t rank)
{
    ddisp__layout wide = {.rank = rank, .numel = layout->numel};
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++)
        wide.shape[i] = 1;
    for (uint32_t i = 0; i < layout->rank; i++) {
        wide.shape[rank - layout->rank + i] = layout->shape[i];
        wide.strides[rank - layout->rank + i] = layout->strides[i];
    }
    return wide;
}

static ddisp_status shape_error(const ddisp_tensor *destination, const ddisp_tensor *source)
{
    char to[128], from[128];
    ddisp__layout_format(destination->dtype, &destination->layout, to, sizeof to);
    ddisp__layout_format(source->dtype, &source->layout, from, sizeof from);
    return ddisp__fail(DDISP_STATUS_SHAPE_MISMATCH,
                       "source is %s, destination is %s: trailing extents must be equal or 1", from,
                       to);
}

/* Gives both one shape: extents of 1 are repeated by a stride of 0. reduces: destination may be
 * repeated too. */
static ddisp_status align(const ddisp_tensor *destination, const ddisp_tensor *source, bool reduces,
                          ddisp__gradient *to, ddisp__gradient *from)
{
    uint32_t rank = to->layout.rank > from->layout.rank ? to->layout.rank : from->layout.rank;
    to->layout = spread(&to->layout, rank);
    from->layout = spread(&from->layout, rank);
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t a = to->layout.shape[i], b = from->layout.shape[i];
        if (a != b && b != 1 && !(reduces && a == 1))
            return shape_error(destination, source);
        int64_t extent = a == 1 ? b : a;
        if (a == 1)
            to->layout.strides[i] = 0;
        if (b == 1)
            from->layout.strides[i] = 0;
        to->layout.shape[i] = from->layout.shape[i] = extent;
        if (__builtin_mul_overflow(numel, extent, &numel))
            return ddisp__fail(DDISP_STATUS_OVERFLOW, "the common shape does not fit in 64 bits");
    }
    to->layout.numel = from->layout.numel = numel;
    return DDISP_STATUS_OK;
}

/* ---- fill and copy ---- */

static bool integer_bits(double value, double low, double high, uint64_t *out_bits)
{
    if (!(value >= low && value <= high))
        return false;
    uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    *out_bits = bits;
    return value == (value < 0 ? (double)(int64_t)bits : (double)bits);
}

/* The value as the bits of the dtype. False when an integer dtype cannot hold it. */
static bool bits_of(ddisp_dtype dtype, double value, uint64_t *out_bits)
{
    switch (dtype) {
    case DDISP_DTYPE_BOOL:
        return integer_bits(value, 0, 1, out_bits);
    case DDISP_DTYPE_U8:
        return integer_bits(value, 0, UINT8_MAX, out_bits);
    case DDISP_DTYPE_I8:
        return integer_bits(value, INT8_MIN, INT8_MAX, out_bits);
    case DDISP_DTYPE_U16:
        return integer_bits(value, 0, UINT16_MAX, out_bits);
    case DDISP_DTYPE_I16:
        return integer_bits(value, INT16_MIN, INT16_MAX, out_bits);
    case DDISP_DTYPE_U32:
        return integer_bits(value, 0, UINT32_MAX, out_bits);
    case DDISP_DTYPE_I32:
        return integer_bits(value, INT32_MIN, INT32_MAX, out_bits);
    case DDISP_DTYPE_U64:
        return integer_bits(value, 0, 18446744073709549568.0, out_bits);
    case DDISP_DTYPE_I64:
        return integer_bits(value, -9223372036854775808.0, 9223372036854774784.0, out_bits);
    default:
        *out_bits = ddisp__float_bits(dtype, value);
        return true;
    }
}

ddisp_status ddisp_tensor_fill(ddisp_tensor *tensor, double value, ddisp_stream *stream)
{
    uint64_t bits = 0;
    ddisp_status status = ddisp__tensor_check("tensor", tensor);
    if (!status && (atomic_load(&tensor->flags) & DDISP_TENSOR_READ_ONLY))
        status = ddisp__fail(DDISP_STATUS_READ_ONLY, "tensor is read-only");
    if (!status && !bits_of(tensor->dtype, value, &bits))
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "value %g does not fit %s", value,
                             ddisp_dtype_name(tensor->dtype));
    if (!status)
        status = ddisp__stream_resolve(tensor->buffer->device, stream, &stream);
    if (!status)
        status = use(tensor, stream);
    if (status)
        return status;
    ddisp__gradient memory = memory_of(tensor);
    return ddisp__elements_fill(stream, &memory, bits);
}

ddisp_status ddisp_tensor_copy(ddisp_tensor *destination, ddisp_tensor *source,
                               ddisp_stream *stream)
{
    ddisp_status status = check_writable("destination", destination);
    if (!status)
        status = check_source("source", source, destination);
    if (status)
        return status;
    if (destination->dtype != source->dtype && (!ddisp__dtype_differentiable(destination->dtype) ||
                                                !ddisp__dtype_differentiable(source->dtype)))
        return ddisp__fail(DDISP_STATUS_DTYPE_MISMATCH,
                           "source is %s, destination is %s; only floating-point dtypes convert",
                           ddisp_dtype_name(source->dtype), ddisp_dtype_name(destination->dtype));
    ddisp__gradient to = memory_of(destination), from = memory_of(source);
    status = align(destination, source, false, &to, &from);
    if (!status && to.layout.numel != destination->layout.numel)
        status = shape_error(destination, source);
    if (!status)
        status = ddisp__stream_resolve(destination->buffer->device, stream, &stream);
    if (!status)
        status = use(destination, stream);
    if (!status)
        status = use(source, stream);
    if (!status)
        status =
            ddisp__elements_accumulate(stream, &to, &from, 1.0, DDISP_BACKEND_ACCUMULATE_STORE, 0);
    return status;
}

/* ---- accumulate ---- */

ddisp_status ddisp__accumulate_options(const ddisp_context *context,
                                       const ddisp_accumulate_options *options,
                                       ddisp_accumulate_options *out_options)
{
    ddisp_status status = DDISP_STATUS_OK;
    *out_options = (ddisp_accumulate_options){0};
    if (options)
        status =
            ddisp__struct_read("options", options, sizeof *options, sizeof *options, out_options);
    uint64_t unknown =
        out_options->flags &
        ~(DDISP_ACCUMULATE_DETERMINISTIC | DDISP_ACCUMULATE_CHECKED | DDISP_ACCUMULATE_EXCLUSIVE);
    if (!status && (unknown || out_options->reserved))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "options.flags: unknown bits 0x%llx",
                           (unsigned long long)unknown);
    if (context->deterministic)
        out_options->flags |= DDISP_ACCUMULATE_DETERMINISTIC;
    return status;
}

static uint64_t backend_flags(const ddisp_accumulate_options *options)
{
    uint64_t flags = 0;
    if (options->flags & DDISP_ACCUMULATE_DETERMINISTIC)
        flags |= DDISP_BACKEND_ACCUMULATE_DETERMINISTIC;
    if (options->flags & DDISP_ACCUMULATE_EXCLUSIVE)
        flags |= DDISP_BACKEND_ACCUMULATE_EXCLUSIVE;
    return flags;
}

/* Sums into half precision stall; they are taken in an f32 temporary of the destination's shape. */
static bool needs_wide(ddisp_dtype dtype)
{
    return dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16;
}

/* A zeroed dense f32 tensor of like's shape, keeping its repeated axes. Its buffer is counted. */
static ddisp_status make_wide(ddisp_stream *stream, const ddisp__layout *like,
                              ddisp__gradient *out_wide)
{
    ddisp__gradient wide = {.dtype = DDISP_DTYPE_F32};
    ddisp__layout_dense(like, true, &wide.layout);
    uint64_t size_bytes =
        (uint64_t)ddisp__layout_stored(&wide.layout) * ddisp_dtype_size(wide.dtype);
    ddisp_status status =
        ddisp__buffer_create_on(stream, size_bytes, DDISP__PURPOSE_SCRATCH, &wide.buffer);
    if (status)
        return status;
    wide.address = wide.buffer->memory.address;
    status = ddisp__buffer_zero(wide.buffer, stream);
    if (status)
        ddisp_buffer_release(wide.buffer);
    else
        *out_wide = wide;
    return status;
}

/* Adds the temporary's stored elements into destination, which has the same stored elements. */
static ddisp_status fold(ddisp_stream *stream, const ddisp__gradient *destination,
                         const ddisp__gradient *wide)
{
    ddisp__gradient to = *destination, from = *wide;
    to.layout.dense = from.layout.dense = false;
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++)
        if (from.layout.strides[i] == 0)
            to.layout.shape[i] = from.layout.shape[i] = 1;
    to.layout.numel = from.layout.numel = ddisp__layout_stored(&wide->layout);
    return ddisp__elements_accumulate(stream, &to, &from, 1.0, DDISP_BACKEND_ACCUMULATE_ADD, 0);
}

static ddisp_status accumulate(ddisp_stream *stream, const ddisp__gradient *to,
                               const ddisp__gradient *from, double alpha, uint64_t flags)
{
    if (!needs_wide(to->dtype) || !ddisp__layout_self_overlaps(&to->layout))
        return ddisp__elements_accumulate(stream, to, from, alpha, DDISP_BACKEND_ACCUMULATE_ADD,
                                          flags);
    ddisp__gradient wide;
    ddisp_status status = make_wide(stream, &to->layout, &wide);
    if (status)
        return status;
    status =
        ddisp__elements_accumulate(stream, &wide, from, alpha, DDISP_BACKEND_ACCUMULATE_ADD, flags);
    if (!status)
        status = fold(stream, to, &wide);
    ddisp_buffer_release(wide.buffer);
    return status;
}

ddisp_status ddisp_tensor_accumulate(ddisp_tensor *destination, ddisp_tensor *source, double alpha,
                                     const ddisp_accumulate_options *options, ddisp_stream *stream)
{
    ddisp_accumulate_options known;
    ddisp_status status = check_writable("destination", destination);
    if (!status)
        status = check_source("source", source, destination);
    if (!status)
        status = ddisp__accumulate_options(destination->buffer->device->context, options, &known);
    if (!status)
        status = check_float("destination", destination);
    if (!status)
        status = check_float("source", source);
    if (status)
        return status;
    ddisp__gradient to = memory_of(destination), from = memory_of(source);
    status = align(destination, source, true, &to, &from);
    if (!status)
        status = ddisp__stream_resolve(destination->buffer->device, stream, &stream);
    if (!status)
        status = use(destination, stream);
    if (!status)
        status = use(source, stream);
    return status ? status : accumulate(stream, &to, &from, alpha, backend_flags(&known));
}
