/*
 * cuda_reduce.c - sums over axes: which cells and terms a group of threads takes.
 *
 * All of it follows from shapes and strides alone, never from the device, so that sums are taken in
 * the same order everywhere. Neighbouring threads take what lies side by side in the source: terms
 * of one cell (rows), or one term of several cells (columns). Long sums of few cells are cut into
 * chunks, whose sums lie in memory of their own until a second launch sums those.
 */
#include "cuda_operations.h"

#define MOST_GROUPS UINT64_C(4096) /* chunks are made until there are so many groups */
#define LEAST_TERMS UINT64_C(64)   /* of a chunk, for a thread */

typedef struct reduction {
    backend_axes cells, terms; /* operands: the source; of cells also the destination */
    uint64_t to, from;
    ddisp_dtype to_type, from_type;
    double alpha;
    bool f64;
} reduction;

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return (value + by - 1) / by;
}

static uint64_t step_of(const backend_axes *axes)
{
    if (axes->rank == 0) {
        return UINT64_MAX;
    }
    return backend_stride_size(axes->axis[axes->rank - 1].stride[0]);
}

/* Shares a group's 256 threads out: 2^width_log2 cells, the rest for the terms of each. */
static void share(const reduction *it, work_reduce *work)
{
    uint64_t cells = work->cells.count, terms = work->terms.count;
    uint32_t least, lanes_log2;
    work->cells_first = step_of(&it->cells) < step_of(&it->terms);
    if (work->cells_first) {
        least = backend_log2_up(cells, 5); /* a warp reads so many cells side by side */
        lanes_log2 = backend_log2_up(divide_up(terms, 8), 8 - least);
    } else {
        least = backend_log2_up(terms, 5); /* a warp reads so many terms side by side */
        lanes_log2 = backend_log2_up(divide_up(terms, 8), 8);
        lanes_log2 = lanes_log2 > least ? lanes_log2 : least;
    }
    work->width_log2 = 8 - lanes_log2;
    work->tile_count = divide_up(cells, UINT64_C(1) << work->width_log2);
}

static void cut(work_reduce *work, uint64_t *out_chunks)
{
    uint64_t terms = work->terms.count, lanes = WORK_GROUP >> work->width_log2;
    uint64_t chunks = MOST_GROUPS / work->tile_count, most = divide_up(terms, lanes * LEAST_TERMS);
    chunks = chunks < most ? chunks : most;
    chunks = chunks > 0 ? chunks : 1;
    work->chunk_terms = divide_up(divide_up(terms, chunks), lanes * 8) * (lanes * 8);
    *out_chunks = divide_up(terms, work->chunk_terms);
}

static ddisp_status launch(cuda__device *device, cuda__stream *stream, const reduction *it,
                           const work_reduce *work)
{
    uint64_t groups = work->group_count < INT32_MAX ? work->group_count : INT32_MAX;
    return cuda__builtin_launch(device, stream, CUDA__KERNEL_REDUCE + it->f64, groups, 0, work);
}

/* Sums the sums of chunks, which lie cell by cell, chunk after chunk. */
static ddisp_status finish(cuda__device *device, cuda__stream *stream, const reduction *it,
                           uint64_t partial, uint64_t chunks)
{
    reduction rest = *it;
    int64_t size = it->f64 ? 8 : 4, stride = size;
    rest.from = partial;
    rest.from_type = it->f64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32;
    for (uint32_t i = rest.cells.rank; i-- > 0;) {
        rest.cells.axis[i].stride[0] = stride;
        stride *= rest.cells.axis[i].extent;
    }
    rest.terms = (backend_axes){0};
    backend_axes_add(&rest.terms, (int64_t)chunks, stride, 0, 0);
    work_reduce work = {.to = rest.to, .from = rest.from, .alpha = rest.alpha};
    work.to_type = rest.to_type;
    work.from_type = rest.from_type;
    cuda__axes_write(&rest.cells, &work.cells, work.from_cell_stride, work.to_stride, NULL);
    cuda__axes_write(&rest.terms, &work.terms, work.from_term_stride, NULL, NULL);
    share(&rest, &work);
    work.chunk_terms = chunks;
    work.group_count = work.tile_count;
    return launch(device, stream, it, &work);
}

static ddisp_status reduce(cuda__device *device, cuda__stream *stream, const reduction *it)
{
    cu__address partial = 0;
    uint64_t chunks;
    work_reduce work = {.to = it->to, .from = it->from, .alpha = it->alpha};
    work.to_type = it->to_type;
    work.from_type = it->from_type;
    cuda__axes_write(&it->cells, &work.cells, work.from_cell_stride, work.to_stride, NULL);
    cuda__axes_write(&it->terms, &work.terms, work.from_term_stride, NULL, NULL);
    share(it, &work);
    cut(&work, &chunks);
    work.group_count = work.tile_count * chunks;
    if (chunks == 1) {
        return launch(device, stream, it, &work);
    }
    ddisp_status status =
        cuda__work_take(device, stream, chunks * work.cells.count * (it->f64 ? 8 : 4), &partial);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    work.partial = partial;
    status = launch(device, stream, it, &work);
    if (status == DDISP_STATUS_OK) {
        status = finish(device, stream, it, partial, chunks);
    }
    cuda__work_give(device, stream, partial);
    return status;
}

ddisp_status cuda__reduce(cuda__device *device, cuda__stream *stream,
                          const ddisp_backend_tensor *destination,
                          const ddisp_backend_tensor *source, double alpha)
{
    reduction it = {.to = destination->address,
                    .from = source->address,
                    .to_type = destination->dtype,
                    .from_type = source->dtype,
                    .alpha = alpha,
                    .f64 =
                        destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64};
    int64_t to_size = cuda__dtype_size(destination->dtype);
    int64_t from_size = cuda__dtype_size(source->dtype);
    backend_shapes_reduce(destination, to_size, source, from_size, &it.terms, &it.cells, &it.to,
                          &it.from);
    return reduce(device, stream, &it);
}
