/*
 * host_scatter.c - scatter-add. Lines along the axis are independent of each other and are shared
 * out over threads; a few long lines are cut into pieces that add atomically. Indices out of range
 * are counted, never followed. Where the result has to be the same every time, host_fixed.c does
 * the work.
 */
#include "host_internal.h"
#include "host_number.h"

/** Lines up to here are cut into pieces. */
#define FEW_LINES 16
#define PIECE     16384

typedef struct scatter {
    host_operation operation;
    ddisp_backend_tensor destination, index, source;
    uint32_t axis;
    int64_t axis_extent;
    uint64_t *skipped;
    int64_t lines, pieces; /* pieces of each line */
} scatter;

static unsigned char *pointer(const ddisp_backend_tensor *tensor, int64_t element)
{
    int64_t size = (int64_t)host__dtype_size(tensor->dtype);
    return (unsigned char *)(uintptr_t)tensor->address + element * size;
}

/* Offset of line n: of all axes but one. */
static int64_t offset(const ddisp_backend_tensor *tensor, uint32_t but, int64_t n)
{
    int64_t element = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        if (i == but) {
            continue;
        }
        element += n % tensor->shape[i] * tensor->strides[i];
        n /= tensor->shape[i];
    }
    return element;
}

static void add_piece(const scatter *it, int64_t line, int64_t begin, int64_t end)
{
    int64_t to = offset(&it->destination, it->axis, line);
    int64_t from = offset(&it->source, it->axis, line);
    int64_t at = offset(&it->index, it->axis, line);
    uint64_t skipped = 0;
    for (int64_t i = begin; i < end; i++) {
        const void *where = pointer(&it->index, at + i * it->index.strides[it->axis]);
        int64_t index = it->index.dtype == DDISP_DTYPE_I64 ? *(const int64_t *)where
                                                           : (int64_t) * (const int32_t *)where;
        if (index < 0 || index >= it->axis_extent) {
            skipped++;
            continue;
        }
        double value = host_load(it->source.dtype,
                                 pointer(&it->source, from + i * it->source.strides[it->axis]));
        host_add(it->destination.dtype,
                 pointer(&it->destination, to + index * it->destination.strides[it->axis]), value);
    }
    if (skipped && it->skipped) {
        (void)__atomic_fetch_add(it->skipped, skipped, __ATOMIC_RELAXED);
    }
}

static void scatter_part(void *user, uint64_t begin, uint64_t end)
{
    const scatter *it = user;
    int64_t extent = it->source.shape[it->axis];
    for (uint64_t n = begin; n < end; n++) {
        int64_t line = (int64_t)n / it->pieces, piece = (int64_t)n % it->pieces;
        int64_t length = (extent + it->pieces - 1) / it->pieces;
        int64_t first = piece * length, last = first + length;
        add_piece(it, line, first, last < extent ? last : extent);
    }
}

static void run_scatter(host_device *device, host_operation *operation)
{
    scatter *it = (scatter *)operation;
    host__split((uint64_t)(it->lines * it->pieces), 1, 1, scatter_part, it);
    host__operation_done(device, operation);
}

ddisp_status host__scatter_add(void *device_handle, void *stream,
                               const ddisp_backend_tensor *destination, uint32_t axis,
                               int64_t axis_extent, const ddisp_backend_tensor *index,
                               const ddisp_backend_tensor *source,
                               const ddisp_backend_range *skipped, uint64_t flags)
{
    host_device *device = device_handle;
    if (flags & DDISP_BACKEND_ACCUMULATE_DETERMINISTIC) {
        return host__fixed_add(device, stream, destination, axis, axis_extent, index, source,
                               skipped);
    }
    scatter *it = backend_allocate(device->services, sizeof *it);
    if (!it) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a scatter-add (%zu bytes)", sizeof *it);
    }
    *it = (scatter){.operation.run = run_scatter,
                    .destination = *destination,
                    .index = *index,
                    .source = *source,
                    .axis = axis,
                    .axis_extent = axis_extent,
                    .skipped = (uint64_t *)(uintptr_t)skipped->address,
                    .lines = 1,
                    .pieces = 1};
    for (uint32_t i = 0; i < source->rank; i++) {
        it->lines *= i == axis ? 1 : source->shape[i];
    }
    if (it->lines < FEW_LINES) {
        it->pieces = source->shape[axis] / PIECE + 1;
    }
    return host__stream_run(device, stream, &it->operation);
}
