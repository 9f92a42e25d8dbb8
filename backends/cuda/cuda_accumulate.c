/*
 * cuda_accumulate.c - element-wise work on tensors of any layout: fill, store with conversion, and
 * add. Finds the simplest form of the work (a copy by the driver, whole words of half-precision
 * elements, long lines) and hands it to the kernel for that form. Sums over axes go to
 * cuda_reduce.c.
 */
#include "cuda_operations.h"

/* Lines from here on are taken by whole groups. */
#define LONG_LINE 128

static ddisp_status refuse_dtype(cuda__device *device, const char *what, ddisp_dtype dtype)
{
    return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                        "cuda:%d: %s of dtype %u is not offered", device->ordinal, what, dtype);
}

static bool is_float(ddisp_dtype dtype)
{
    return dtype >= DDISP_DTYPE_F16 && dtype <= DDISP_DTYPE_F64;
}

/* An operation whose operands have the same elements. Axes: of the destination, of the source. */
typedef struct elements {
    backend_axes axes;
    uint64_t to, from;
    int64_t to_size, from_size;
} elements;

static elements collapse(const ddisp_backend_tensor *destination,
                         const ddisp_backend_tensor *source)
{
    elements it = {.to = destination->address,
                   .from = source->address,
                   .to_size = cuda__dtype_size(destination->dtype),
                   .from_size = cuda__dtype_size(source->dtype)};
    int64_t offsets[BACKEND_OPERANDS] = {0};
    for (uint32_t i = 0; i < destination->rank; i++) {
        backend_axes_add(&it.axes, destination->shape[i], destination->strides[i] * it.to_size,
                         source->strides[i] * it.from_size, 0);
    }
    backend_axes_turn(&it.axes, offsets);
    backend_axes_sort(&it.axes);
    backend_axes_merge(&it.axes);
    it.to += (uint64_t)offsets[0];
    it.from += (uint64_t)offsets[1];
    return it;
}

/* Both are lines without gaps. */
static bool is_dense(const elements *it)
{
    const backend_axis *axis = &it->axes.axis[0];
    return it->axes.rank == 0 || (it->axes.rank == 1 && axis->stride[0] == it->to_size &&
                                  axis->stride[1] == it->from_size);
}

/* The work as elements.cu takes it, and the groups that it needs. */
static uint64_t write_each(const elements *it, bool in_lines, work_each *work)
{
    backend_axes outer = it->axes;
    backend_axis inner = backend_axes_take_inner(&outer);
    const backend_axes *axes = &it->axes;
    uint64_t groups;
    work->to = it->to;
    work->from = it->from;
    if (in_lines && (outer.rank == 0 || inner.extent >= LONG_LINE)) {
        const uint64_t piece = WORK_GROUP * WORK_BATCH;
        axes = &outer;
        work->line = (uint64_t)inner.extent;
        work->line_groups = (uint32_t)((work->line + piece - 1) / piece);
        work->to_step = inner.stride[0];
        work->from_step = inner.stride[1];
        groups = backend_axes_count(&outer) * work->line_groups;
    } else {
        groups = (backend_axes_count(axes) + WORK_GROUP - 1) / WORK_GROUP;
    }
    cuda__axes_write(axes, &work->axes, work->to_stride, work->from_stride, NULL);
    return groups;
}

/* ---- bits */

/* Takes elements together as long as the innermost line of both has no gaps and everything stays
 * aligned. */
static void widen(elements *it, uint64_t *bits)
{
    while (it->to_size < 8 && it->axes.rank > 0) {
        backend_axis *inner = &it->axes.axis[it->axes.rank - 1];
        uint64_t aligned = it->to | it->from;
        for (uint32_t i = 0; i + 1 < it->axes.rank; i++) {
            aligned |= (uint64_t)it->axes.axis[i].stride[0] | (uint64_t)it->axes.axis[i].stride[1];
        }
        if (inner->stride[0] != it->to_size || inner->stride[1] != it->to_size ||
            inner->extent % 2 != 0 || aligned % ((uint64_t)it->to_size * 2) != 0) {
            return;
        }
        *bits |= *bits << it->to_size * 8;
        it->to_size *= 2;
        it->from_size = it->to_size;
        inner->extent /= 2;
        inner->stride[0] = inner->stride[1] = it->to_size;
    }
}

static ddisp_status move(cuda__device *device, cuda__stream *stream, uint32_t kernel, elements *it,
                         uint64_t bits)
{
    work_each work = {0};
    widen(it, &bits);
    work.bits = bits;
    work.element_bytes = (uint32_t)it->to_size;
    uint64_t groups = write_each(it, true, &work);
    return cuda__builtin_launch(device, stream, kernel, groups, 0, &work);
}

static ddisp_status copy(cuda__device *device, cuda__stream *stream, elements *it)
{
    if (!is_dense(it)) {
        return move(device, stream, CUDA__KERNEL_COPY, it, 0);
    }
    cu__result result = device->api->memcpy_dtod_async(
        it->to, it->from, backend_axes_count(&it->axes) * (uint64_t)it->to_size, stream->handle);
    return result == CU__SUCCESS ? DDISP_STATUS_OK
                                 : cuda__fail(device, result, "cuMemcpyDtoDAsync");
}

ddisp_status cuda__fill_elements(void *device_handle, void *stream,
                                 const ddisp_backend_tensor *destination, uint64_t bits)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    elements it = collapse(destination, destination);
    if (it.to_size == 0) {
        return refuse_dtype(device, "a fill", destination->dtype);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status == DDISP_STATUS_OK) {
        if (it.to_size < 8) {
            bits &= (UINT64_C(1) << it.to_size * 8) - 1;
        }
        status = move(device, stream, CUDA__KERNEL_FILL, &it, bits);
        cuda__leave(device, &scope);
    }
    return status;
}

/* ---- numbers */

/* Halves that lie side by side, from a source with one stride. */
static ddisp_status add_halves(cuda__device *device, cuda__stream *stream, const elements *it,
                               work_each *each, uint32_t f64)
{
    bool exact = each->to_type == each->from_type && each->alpha == 1.0;
    bool native = exact && (each->to_type == DDISP_DTYPE_F16 || device->capability_major >= 9);
    work_halves work = {.count = backend_axes_count(&it->axes),
                        .to = it->to / 4 * 4,
                        .from = it->from,
                        .from_stride = it->axes.rank ? it->axes.axis[0].stride[1] : 0,
                        .alpha = each->alpha,
                        .skip = it->to % 4 != 0,
                        .to_type = each->to_type,
                        .from_type = each->from_type};
    uint64_t words = (work.count + work.skip + 1) / 2;
    return cuda__builtin_launch(device, stream,
                                native ? CUDA__KERNEL_ADD_PAIRS : CUDA__KERNEL_ADD_HALVES + f64,
                                (words + WORK_GROUP - 1) / WORK_GROUP, 0, &work);
}

/* One type to itself without gaps: since CUDA 12.1 there are instructions for 16 bytes. */
static bool goes_by_quads(const cuda__device *device, const elements *it, const work_each *each)
{
    bool half = cuda__dtype_is_half(each->to_type);
    return device->capability_major >= 9 && device->version >= 12010 &&
           each->to_type == each->from_type &&
           (each->to_type == DDISP_DTYPE_F32 || (half && each->alpha == 1.0)) &&
           it->axes.rank == 1 && is_dense(it) && (it->to | it->from) % 16 == 0 &&
           it->axes.axis[0].extent * it->to_size >= 16;
}

/* Whole pieces of 16 bytes; out_rest: the few elements behind them. */
static ddisp_status add_quads(cuda__device *device, cuda__stream *stream, const elements *it,
                              const work_each *each, elements *out_rest)
{
    const uint64_t count = (uint64_t)(it->axes.axis[0].extent * it->to_size) / 16;
    const work_quads work = {.count = count,
                             .to = it->to,
                             .from = it->from,
                             .alpha = (float)each->alpha,
                             .type = each->to_type};
    *out_rest = *it;
    out_rest->to += count * 16;
    out_rest->from += count * 16;
    out_rest->axes.axis[0].extent -= (int64_t)count * 16 / it->to_size;
    return cuda__builtin_launch(device, stream, CUDA__KERNEL_ADD_QUADS,
                                (count + WORK_GROUP - 1) / WORK_GROUP, 0, &work);
}

/* Nobody else adds: words of 16 bytes where nothing has gaps, or elements of any layout. */
static ddisp_status update(cuda__device *device, cuda__stream *stream, const elements *it,
                           work_each *each, uint32_t f64)
{
    if (each->to_type != each->from_type || !is_dense(it) || (it->to | it->from) % 16 != 0) {
        uint64_t groups = write_each(it, true, each);
        return cuda__builtin_launch(device, stream, CUDA__KERNEL_UPDATE + f64, groups, 0, each);
    }
    work_words work = {.count = backend_axes_count(&it->axes),
                       .to = it->to,
                       .from = it->from,
                       .alpha = each->alpha,
                       .type = each->to_type};
    uint64_t words = work.count / (16 / (uint64_t)it->to_size);
    uint64_t groups = words ? (words + WORK_GROUP - 1) / WORK_GROUP : 1;
    return cuda__builtin_launch(device, stream, CUDA__KERNEL_UPDATE_WORDS + f64, groups, 0, &work);
}

static ddisp_status run(cuda__device *device, cuda__stream *stream, const elements *it,
                        const ddisp_backend_tensor *destination, const ddisp_backend_tensor *source,
                        double alpha, bool adds, bool exclusive)
{
    work_each work = {.alpha = alpha, .to_type = destination->dtype, .from_type = source->dtype};
    uint32_t f64 = destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64;
    bool half = cuda__dtype_is_half(destination->dtype);
    bool line = it->axes.rank <= 1, gapless = it->axes.rank == 0 || it->axes.axis[0].stride[0] == 2;
    if (adds && exclusive) {
        return update(device, stream, it, &work, f64);
    }
    if (adds && goes_by_quads(device, it, &work)) {
        elements rest;
        ddisp_status status = add_quads(device, stream, it, &work, &rest);
        bool is_done = status != DDISP_STATUS_OK || rest.axes.axis[0].extent == 0;
        return is_done ? status
                       : run(device, stream, &rest, destination, source, alpha, true, false);
    }
    if (adds && half && line && gapless) {
        return add_halves(device, stream, it, &work, f64);
    }
    uint32_t kernel = CUDA__KERNEL_STORE;
    if (adds) {
        bool native = destination->dtype == (f64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32);
        kernel = native ? CUDA__KERNEL_ADD : CUDA__KERNEL_ADD_ANY;
    }
    uint64_t groups = write_each(it, kernel != CUDA__KERNEL_ADD_ANY, &work);
    return cuda__builtin_launch(device, stream, kernel + f64, groups, 0, &work);
}

static bool sums_over_axes(const ddisp_backend_tensor *destination)
{
    for (uint32_t i = 0; i < destination->rank; i++) {
        if (destination->shape[i] > 1 && destination->strides[i] == 0) {
            return true;
        }
    }
    return false;
}

ddisp_status cuda__accumulate(void *device_handle, void *stream,
                              const ddisp_backend_tensor *destination,
                              const ddisp_backend_tensor *source, double alpha, uint32_t operation,
                              uint64_t flags)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    bool adds = operation == DDISP_BACKEND_ACCUMULATE_ADD;
    bool moves = !adds && alpha == 1.0 && destination->dtype == source->dtype;
    bool exclusive = (flags & DDISP_BACKEND_ACCUMULATE_EXCLUSIVE) != 0;
    elements it = collapse(destination, source);
    if (it.to_size == 0 || (!moves && !is_float(destination->dtype))) {
        return refuse_dtype(device, "accumulation into a destination", destination->dtype);
    }
    if (!moves && !is_float(source->dtype)) {
        return refuse_dtype(device, "accumulation from a source", source->dtype);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (moves) {
        status = copy(device, stream, &it);
    } else if (adds && sums_over_axes(destination)) {
        status = cuda__reduce(device, stream, destination, source, alpha);
    } else {
        status = run(device, stream, &it, destination, source, alpha, adds, exclusive);
    }
    cuda__leave(device, &scope);
    return status;
}
