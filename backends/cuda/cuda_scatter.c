/*
 * cuda_scatter.c - scatter-add: numbers the cells of the destination, decides where their sums are
 * taken (memory, or copies in the shared memory of groups where there are few), and queues the
 * kernels. Deterministic sums are integers in memory of their own, which are added to the
 * destination at the end (kernels/fixed.cu has the method).
 */
#include "cuda_operations.h"

#include <string.h>

/* Sums of so many bytes have room in the shared memory of a group; copies of them up to fewer, so
 * that enough groups run at once. */
#define SHARED_BYTES 40960u
#define COPIES_BYTES 24576u
#define MOST_COPIES  8u /* one for each warp */
/* A group counts what it skips in shared memory too, when nothing else is there any more. */
#define COUNTER_BYTES 16u
/* With fewer elements for a cell than this its copies would cost more than they save. */
#define WORTH_SHARING 8u
#define LEAST_SHARED  UINT64_C(16384)

#define HEAD_BYTES 256u
/* Up to here every element is looked at for the bound; beyond, a sample of about as many as below,
 * times a headroom. */
#define LOOK_AT_ALL      (UINT64_C(4) << 20)
#define SAMPLE_RUNS      UINT64_C(32768)
#define HEADROOM_LOG2    6u
#define RUN              UINT64_C(32)
#define ITEMS_OF_A_GROUP UINT64_C(1024)

typedef struct scatter {
    work_scatter work;
    uint32_t f64;         /* numbers are f64: 1, added to the kernels' numbers */
    uint32_t sum_bytes;   /* of a cell's sum in shared memory */
    uint32_t whole_bytes; /* of a deterministic sum; decides about sharing, whatever the mode */
    bool deterministic;
} scatter;

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return (value + by - 1) / by;
}

/* ---- shapes */

/* Numbers the cells in the order of their memory: cell_strides, per axis of the tensors. */
static void number_cells(const ddisp_backend_tensor *destination, uint32_t axis, int64_t extent,
                         scatter *s, int64_t cell_strides[8])
{
    backend_axes cells = {0};
    s->work.index_cells = backend_shapes_scatter(destination, cuda__dtype_size(destination->dtype),
                                                 axis, extent, &cells, cell_strides);
    cuda__axes_write(&cells, &s->work.cells, s->work.to_stride, NULL, NULL);
}

static void describe(scatter *s, const ddisp_backend_tensor *destination, uint32_t axis,
                     int64_t axis_extent, const ddisp_backend_tensor *index,
                     const ddisp_backend_tensor *source, const ddisp_backend_range *skipped)
{
    work_scatter *work = &s->work;
    int64_t cell_strides[8];
    backend_axes items = {0};
    number_cells(destination, axis, axis_extent, s, cell_strides);
    for (uint32_t i = 0; i < source->rank; i++) {
        backend_axes_add(&items, source->shape[i],
                         source->strides[i] * cuda__dtype_size(source->dtype),
                         index->strides[i] * cuda__dtype_size(index->dtype), cell_strides[i]);
    }
    backend_axes_sort(&items);
    backend_axes_merge(&items);
    cuda__axes_write(&items, &work->items, work->from_stride, work->index_stride,
                     work->cell_stride);
    work->to = destination->address;
    work->from = source->address;
    work->index = index->address;
    work->skipped = skipped->address;
    work->extent = axis_extent;
    work->to_type = destination->dtype;
    work->from_type = source->dtype;
    work->index_type = index->dtype;
    work->count_log2 = backend_log2_up((uint64_t)source->shape[axis], 63);
    s->f64 = destination->dtype == DDISP_DTYPE_F64 ||
             (s->deterministic && source->dtype == DDISP_DTYPE_F64);
    s->whole_bytes = s->f64 ? 16 : 8;
    s->sum_bytes = s->deterministic ? s->whole_bytes : s->whole_bytes / 2;
}

/* ---- kernels */

static ddisp_status run(cuda__device *device, cuda__stream *stream, scatter *s, uint32_t kernel,
                        uint64_t most_groups, uint32_t shared_bytes)
{
    uint64_t groups = 0;
    ddisp_status status = cuda__builtin_fill(device, kernel + s->f64, shared_bytes, &groups);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    groups = groups < most_groups ? groups : most_groups;
    return cuda__builtin_launch(device, stream, kernel + s->f64, groups, shared_bytes, &s->work);
}

/* The pass over all items. */
static ddisp_status add(cuda__device *device, cuda__stream *stream, scatter *s)
{
    work_scatter *work = &s->work;
    uint64_t cells = work->cells.count, items = work->items.count;
    uint64_t groups = divide_up(items, ITEMS_OF_A_GROUP);
    uint32_t kernel = s->deterministic ? CUDA__KERNEL_FIXED : CUDA__KERNEL_SCATTER;
    if (cells > 0 && cells <= SHARED_BYTES / s->whole_bytes && items >= LEAST_SHARED &&
        items / WORTH_SHARING >= cells) {
        uint32_t copy_bytes = (uint32_t)cells * s->sum_bytes;
        work->copies = MOST_COPIES;
        while (work->copies > 1 && work->copies * copy_bytes > COPIES_BYTES) {
            work->copies /= 2;
        }
        kernel = s->deterministic ? CUDA__KERNEL_FIXED_SHARED : CUDA__KERNEL_SCATTER_SHARED;
        uint32_t shared_bytes = work->copies * copy_bytes;
        return run(device, stream, s, kernel, groups,
                   shared_bytes > COUNTER_BYTES ? shared_bytes : COUNTER_BYTES);
    }
    if (cells >= UINT32_MAX) {
        kernel = s->deterministic ? CUDA__KERNEL_FIXED_WIDE : CUDA__KERNEL_SCATTER_WIDE;
    }
    return run(device, stream, s, kernel, groups, COUNTER_BYTES);
}

/* Sums of zero, and their bound from so many elements. */
static ddisp_status prepare(cuda__device *device, cuda__stream *stream, scatter *s,
                            uint64_t looked_at)
{
    uint64_t words = divide_up(s->work.cells.count * s->whole_bytes, 16);
    return run(device, stream, s, CUDA__KERNEL_PREPARE,
               divide_up(looked_at > words ? looked_at : words, ITEMS_OF_A_GROUP), 0);
}

/* Once more with the true bound, should an element be beyond the sampled one: kernels look. */
static ddisp_status add_again(cuda__device *device, cuda__stream *stream, scatter *s)
{
    s->work.again = 1;
    ddisp_status status = prepare(device, stream, s, s->work.items.count);
    if (status == DDISP_STATUS_OK) {
        status = add(device, stream, s);
    }
    s->work.again = 0;
    return status;
}

static ddisp_status add_fixed(cuda__device *device, cuda__stream *stream, scatter *s)
{
    work_scatter *work = &s->work;
    uint64_t items = work->items.count, runs = divide_up(items, RUN);
    cu__result result = device->api->memset_d8_async(work->head, 0, HEAD_BYTES, stream->handle);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuMemsetD8Async");
    }
    bool samples = items > LOOK_AT_ALL;
    work->sample_step = samples ? (uint32_t)divide_up(runs, SAMPLE_RUNS) : 1;
    work->headroom_log2 = samples ? HEADROOM_LOG2 : 0;
    ddisp_status status = prepare(device, stream, s, divide_up(runs, work->sample_step) * RUN);
    if (status == DDISP_STATUS_OK) {
        status = add(device, stream, s);
    }
    if (status == DDISP_STATUS_OK && samples) {
        status = add_again(device, stream, s);
    }
    if (status == DDISP_STATUS_OK) {
        uint64_t most = items > work->cells.count ? items : work->cells.count;
        status = run(device, stream, s, CUDA__KERNEL_FINISH, divide_up(most, WORK_GROUP), 0);
    }
    return status;
}

ddisp_status cuda__scatter_add(void *device_handle, void *stream_handle,
                               const ddisp_backend_tensor *destination, uint32_t axis,
                               int64_t axis_extent, const ddisp_backend_tensor *index,
                               const ddisp_backend_tensor *source,
                               const ddisp_backend_range *skipped, uint64_t flags)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__scope scope;
    cu__address memory = 0;
    scatter s = {.deterministic = (flags & DDISP_BACKEND_ACCUMULATE_DETERMINISTIC) != 0};
    describe(&s, destination, axis, axis_extent, index, source, skipped);
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (!s.deterministic) {
        status = add(device, stream, &s);
        goto leave;
    }
    uint64_t size_bytes = HEAD_BYTES + divide_up(s.work.cells.count * s.whole_bytes, 16) * 16;
    status = cuda__work_take(device, stream, size_bytes, &memory);
    if (status != DDISP_STATUS_OK) {
        goto leave;
    }
    s.work.head = memory;
    s.work.sums = memory + HEAD_BYTES;
    status = add_fixed(device, stream, &s);
    cuda__work_give(device, stream, memory);
leave:
    cuda__leave(device, &scope);
    return status;
}
