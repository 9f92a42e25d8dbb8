/*
 * vulkan_reduce.c - sums over axes: which cells and terms a group of invocations takes.
 *
 * All of it follows from shapes and strides alone, never from the device, so that sums are taken in
 * the same order every time. Neighbouring invocations take what lies side by side in the source:
 * terms of one cell (rows), or one term of several cells (columns). Long sums of few cells are cut
 * into chunks, whose sums lie in memory of their own until a second dispatch sums those.
 */
#include "vulkan_operations.h"

#include <string.h>

#define MOST_GROUPS UINT64_C(4096) /* chunks are made until there are so many groups */
#define LEAST_TERMS UINT64_C(64)   /* of a chunk, for an invocation */

/** As in kernels/reduce.comp. */
enum { LINE = 1, ONE_CELL = 2 };

typedef struct push {
    uint64_t axes;
    uint64_t to, from, partial;
    uint64_t cells, terms, chunk_terms;
    int64_t term_stride;
    uint64_t alpha;
    uint32_t tile_count, group_count, width_log2, cells_first;
    uint64_t rest[5];
} push;

_Static_assert(sizeof(push) == VULKAN__PUSH_BYTES, "what is pushed");

typedef struct reduction {
    backend_axes cells, terms; /* operands: the source; of cells also the destination */
    uint64_t to, from;
    ddisp_dtype to_type, from_type;
    double alpha;
    bool wide;
    const ddisp_backend_range *to_range, *from_range;
} reduction;

static uint64_t step_of(const backend_axes *axes)
{
    return axes->rank ? backend_stride_size(axes->axis[axes->rank - 1].stride[0]) : UINT64_MAX;
}

/** Shares a group's invocations out: 2^width_log2 cells, the rest for the terms of each. */
static void share(const reduction *it, push *pushed)
{
    uint32_t least, lanes_log2;
    pushed->cells_first = step_of(&it->cells) < step_of(&it->terms);
    if (pushed->cells_first) {
        least = backend_log2_up(pushed->cells, 5); /* so many cells are read side by side */
        lanes_log2 = backend_log2_up(vulkan__divide_up(pushed->terms, 8), 8 - least);
    } else {
        least = backend_log2_up(pushed->terms, 5); /* so many terms are read side by side */
        lanes_log2 = backend_log2_up(vulkan__divide_up(pushed->terms, 8), 8);
        lanes_log2 = lanes_log2 > least ? lanes_log2 : least;
    }
    pushed->width_log2 = 8 - lanes_log2;
}

static uint64_t tiles_of(const push *pushed)
{
    return vulkan__divide_up(pushed->cells, UINT64_C(1) << pushed->width_log2);
}

/** Cuts the terms; returns how many chunks there are. */
static uint64_t cut(push *pushed)
{
    uint64_t terms = pushed->terms, lanes = VULKAN__GROUP >> pushed->width_log2;
    uint64_t most = vulkan__divide_up(terms, lanes * LEAST_TERMS);
    uint64_t chunks = MOST_GROUPS / tiles_of(pushed);
    chunks = chunks < most ? chunks : most;
    chunks = chunks > 0 ? chunks : 1;
    pushed->chunk_terms =
        vulkan__divide_up(vulkan__divide_up(terms, chunks), lanes * 8) * (lanes * 8);
    return vulkan__divide_up(terms, pushed->chunk_terms);
}

static push describe(const reduction *it)
{
    push pushed = {.to = it->to,
                   .from = it->from,
                   .cells = backend_axes_count(&it->cells),
                   .terms = backend_axes_count(&it->terms)};
    float single = (float)it->alpha;
    if (it->wide)
        memcpy(&pushed.alpha, &it->alpha, sizeof it->alpha);
    else
        memcpy(&pushed.alpha, &single, sizeof single);
    if (it->terms.rank == 1)
        pushed.term_stride = it->terms.axis[0].stride[0];
    share(it, &pushed);
    return pushed;
}

static ddisp_status dispatch(vulkan__device *device, vulkan__stream *stream, const reduction *it,
                             push *pushed, uint64_t chunks, const ddisp_backend_range *partial)
{
    backend_axes cells = it->cells;
    vulkan__operation operation = {.shader = VULKAN__SHADER_REDUCE, .wide = it->wide};
    uint32_t form = (it->terms.rank <= 1 ? LINE : 0) | (cells.rank == 0 ? ONE_CELL : 0);
    for (uint32_t i = 0; i < cells.rank; i++) { /* the shader's order: destination, source */
        int64_t source = cells.axis[i].stride[0];
        cells.axis[i].stride[0] = cells.axis[i].stride[1];
        cells.axis[i].stride[1] = source;
    }
    operation.constants[VULKAN__CONSTANT_TO] = it->to_type;
    operation.constants[VULKAN__CONSTANT_FROM] = it->from_type;
    operation.constants[VULKAN__CONSTANT_FORM] = form;
    operation.axes_count = form == (LINE | ONE_CELL) ? 0 : 2;
    vulkan__axes_write(&cells, &operation.axes[0]);
    vulkan__axes_write(&it->terms, &operation.axes[1]);
    operation.groups = tiles_of(pushed) * chunks;
    pushed->tile_count = (uint32_t)tiles_of(pushed);
    pushed->group_count = (uint32_t)operation.groups;
    vulkan__operation_touches(&operation, it->to_range, true);
    vulkan__operation_touches(&operation, it->from_range, false);
    if (partial)
        operation.accesses[0].range = *partial; /* that is written, not the destination */
    return vulkan__operation_run(device, stream, &operation, pushed);
}

/** Sums the sums of chunks, which lie cell by cell, chunk after chunk. */
static ddisp_status finish(vulkan__device *device, vulkan__stream *stream, const reduction *it,
                           const ddisp_backend_range *partial, uint64_t chunks)
{
    reduction rest = *it;
    int64_t stride = it->wide ? 8 : 4;
    rest.from = partial->address;
    rest.from_range = partial;
    rest.from_type = it->wide ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32;
    for (uint32_t i = rest.cells.rank; i-- > 0;) {
        rest.cells.axis[i].stride[0] = stride;
        stride *= rest.cells.axis[i].extent;
    }
    rest.terms = (backend_axes){0};
    backend_axes_add(&rest.terms, (int64_t)chunks, stride, 0, 0);
    push pushed = describe(&rest);
    pushed.chunk_terms = chunks;
    return dispatch(device, stream, &rest, &pushed, 1, NULL);
}

static ddisp_status reduce(vulkan__device *device, vulkan__stream *stream, const reduction *it)
{
    push pushed = describe(it);
    vulkan__scratch partial;
    if (pushed.cells == 0 || pushed.terms == 0)
        return DDISP_STATUS_OK;
    uint64_t chunks = cut(&pushed);
    if (chunks == 1)
        return dispatch(device, stream, it, &pushed, 1, NULL);
    ddisp_status status =
        vulkan__scratch_take(device, stream, chunks * pushed.cells * (it->wide ? 8 : 4), &partial);
    if (status != DDISP_STATUS_OK)
        return status;
    pushed.partial = partial.range.address;
    status = dispatch(device, stream, it, &pushed, chunks, &partial.range);
    if (status == DDISP_STATUS_OK)
        status = finish(device, stream, it, &partial.range, chunks);
    vulkan__scratch_give(device, stream, &partial, 0);
    return status;
}

ddisp_status vulkan__reduce(vulkan__device *device, vulkan__stream *stream,
                            const ddisp_backend_tensor *destination,
                            const ddisp_backend_tensor *source, double alpha)
{
    reduction it = {
        .to = destination->address,
        .from = source->address,
        .to_type = destination->dtype,
        .from_type = source->dtype,
        .alpha = alpha,
        .wide = destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64,
        .to_range = &destination->range,
        .from_range = &source->range,
    };
    int64_t to_size = vulkan__dtype_size(destination->dtype);
    int64_t from_size = vulkan__dtype_size(source->dtype);
    ddisp_status status = it.wide ? vulkan__operation_check_wide(device) : DDISP_STATUS_OK;
    if (status != DDISP_STATUS_OK)
        return status;
    backend_shapes_reduce(destination, to_size, source, from_size, &it.terms, &it.cells, &it.to,
                          &it.from);
    return reduce(device, stream, &it);
}
