/*
 * vulkan_scatter.c - scatter-add: numbers the cells of the destination, decides where their sums
 * are taken (memory, or copies in the memory of groups where there are few), and queues the
 * shaders. Deterministic sums are integers in memory of their own, which are added to the
 * destination at the end (kernels/integers.glsl has the method); that leaves zeros, so that the
 * next to take this memory need not write them. The rules, and the error bound that follows from
 * them, are those of the CUDA backend.
 */
#include "vulkan_operations.h"

#include <string.h>

/** Sums of so many bytes have room in the memory of a group; copies of them up to far fewer: with
 * more than 8 KiB a group NVIDIA's driver lets only few groups run at once (on an H200 twice as
 * much memory took up to twice the time, and copies saved next to none). */
#define SHARED_BYTES UINT64_C(40960)
#define COPIES_BYTES UINT64_C(8192)
#define SPARE_BYTES  UINT64_C(64) /* of a group's memory, for the count of what is skipped */
#define MOST_COPIES  8u
/** With fewer elements for a cell than this its copies would cost more than they save. */
#define WORTH_SHARING UINT64_C(8)
#define LEAST_SHARED  UINT64_C(16384)
/** Groups on a multiprocessor: as many as run at once, or more, so that they end together; but each
 * has to begin and to end, so that all take several tiles, and each adds its cells in the end, so
 * that all groups of one multiprocessor add at most so many, or there are few. Few are best where
 * each piece of memory is visited once; and where most often there is nothing to do. */
#define GROUPS_MANY    UINT64_C(24)
#define GROUPS_AT_ONCE UINT64_C(8)
#define GROUPS_FEW     UINT64_C(4)
#define GROUPS_FOLDING UINT64_C(5)
#define GROUPS_LOOKING UINT64_C(4)
#define GROUPS_AGAIN   UINT64_C(2)
#define TILES_EACH     UINT64_C(4)
#define CELLS_ADDED    UINT64_C(24576)

#define HEAD_BYTES UINT64_C(256)
/** From so many cells on, whose sums a cache hardly holds, blocks of so many have a mark, one bit.
 */
#define LEAST_MARKED (UINT64_C(1) << 20)
#define BLOCK        UINT64_C(8)
/** Up to here every element is looked at for the bound; beyond, a sample of about as many as below,
 * times a headroom. */
#define LOOK_AT_ALL   (UINT64_C(4) << 20)
#define SAMPLE_RUNS   UINT64_C(32768)
#define HEADROOM_LOG2 6u
#define RUN           UINT64_C(32)
#define TILE          UINT64_C(1024) /* items that a group takes at once */

/** As in kernels/items.glsl. */
enum { ITEM_LINE = 1, CELL_LINE = 2, SHARES = 4, MANY = 8, ITEM_DENSE = 16, MARKS = 32 };
/** As in kernels/finish.comp. */
enum { PREPARE, FINISH, LOOK };

typedef struct push {
    uint64_t axes;
    uint64_t to, from, index, skipped;
    uint64_t head, marks;
    uint64_t items, extent;
    int64_t index_cells;
    int64_t from_step, index_step, cell_step, to_step;
    uint32_t cells, copies, steps, sample_step;
} push;

_Static_assert(sizeof(push) == VULKAN__PUSH_BYTES, "what is pushed");

typedef struct scatter {
    push pushed;
    vulkan__operation operation; /* axes, and what every shader is told */
    const ddisp_backend_range *to, *from, *index, *skipped;
    vulkan__scratch scratch; /* deterministic only */
    uint64_t zeros_bytes;    /* of it, which are zero before and after */
    uint64_t cells;
    uint32_t sum_bytes;   /* of a cell's sum in a group's memory */
    uint32_t whole_bytes; /* of a deterministic sum; decides about sharing, whatever the mode */
    uint32_t count_log2, headroom_log2, again;
    bool deterministic;
} scatter;

/* ---- shapes ---- */

/** Numbers the cells in the order of their memory: cell_strides, per axis of the tensors. */
static void number_cells(const ddisp_backend_tensor *destination, uint32_t axis, int64_t extent,
                         scatter *s, int64_t cell_strides[8])
{
    backend_axes cells = {0};
    s->pushed.index_cells = backend_shapes_scatter(
        destination, vulkan__dtype_size(destination->dtype), axis, extent, &cells, cell_strides);
    s->cells = backend_axes_count(&cells);
    s->pushed.to_step = cells.rank == 1 ? cells.axis[0].stride[0] : 0;
    if (cells.rank <= 1)
        s->operation.constants[VULKAN__CONSTANT_FORM] |= CELL_LINE;
    vulkan__axes_write(&cells, &s->operation.axes[1]);
}

static void number_items(const ddisp_backend_tensor *source, const ddisp_backend_tensor *index,
                         const int64_t cell_strides[8], scatter *s)
{
    backend_axes items = {0};
    for (uint32_t i = 0; i < source->rank; i++)
        backend_axes_add(&items, source->shape[i],
                         source->strides[i] * vulkan__dtype_size(source->dtype),
                         index->strides[i] * vulkan__dtype_size(index->dtype), cell_strides[i]);
    backend_axes_sort(&items);
    backend_axes_merge(&items);
    s->pushed.items = backend_axes_count(&items);
    if (items.rank == 1) {
        s->pushed.from_step = items.axis[0].stride[0];
        s->pushed.index_step = items.axis[0].stride[1];
        s->pushed.cell_step = items.axis[0].stride[2];
    }
    if (items.rank <= 1)
        s->operation.constants[VULKAN__CONSTANT_FORM] |= ITEM_LINE;
    if (items.rank == 1 && s->pushed.cell_step == 0 &&
        s->pushed.from_step == vulkan__dtype_size(source->dtype) &&
        s->pushed.index_step == vulkan__dtype_size(index->dtype))
        s->operation.constants[VULKAN__CONSTANT_FORM] |= ITEM_DENSE;
    vulkan__axes_write(&items, &s->operation.axes[0]);
}

static void describe(scatter *s, const ddisp_backend_tensor *destination, uint32_t axis,
                     int64_t axis_extent, const ddisp_backend_tensor *index,
                     const ddisp_backend_tensor *source, const ddisp_backend_range *skipped)
{
    int64_t cell_strides[8];
    number_cells(destination, axis, axis_extent, s, cell_strides);
    number_items(source, index, cell_strides, s);
    s->pushed.to = destination->address;
    s->pushed.from = source->address;
    s->pushed.index = index->address;
    s->pushed.skipped = skipped->address;
    s->pushed.extent = (uint64_t)axis_extent;
    s->to = &destination->range;
    s->from = &source->range;
    s->index = &index->range;
    s->skipped = skipped;
    s->count_log2 = backend_log2_up((uint64_t)source->shape[axis], 63);
    s->operation.wide = destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64;
    s->operation.axes_count = 2;
    s->operation.constants[VULKAN__CONSTANT_TO] = destination->dtype;
    s->operation.constants[VULKAN__CONSTANT_FROM] = source->dtype;
    s->operation.constants[VULKAN__CONSTANT_INDEX] = index->dtype;
    s->operation.constants[VULKAN__CONSTANT_SHARED] = 1;
    s->whole_bytes = s->operation.wide ? 16 : 8;
    s->sum_bytes = s->deterministic ? s->whole_bytes : s->whole_bytes / 2;
}

/* ---- shaders ---- */

static ddisp_status run(vulkan__device *device, vulkan__stream *stream, const scatter *s,
                        vulkan__shader shader, uint64_t groups, uint32_t each,
                        const vulkan__operation *prepared)
{
    push pushed = s->pushed;
    vulkan__operation operation = *prepared;
    uint64_t most = vulkan__operation_fill(device, each);
    bool folds = shader == VULKAN__SHADER_FINISH;
    operation.shader = shader;
    operation.groups = groups < most ? groups : most;
    pushed.steps = s->count_log2 | s->headroom_log2 << 8 | s->again << 16;
    if (s->deterministic)
        vulkan__operation_touches(&operation, &s->scratch.range, true);
    if (!s->deterministic || folds)
        vulkan__operation_touches(&operation, s->to, true);
    vulkan__operation_touches(&operation, s->from, false);
    vulkan__operation_touches(&operation, s->index, false);
    if (s->skipped->address)
        vulkan__operation_touches(&operation, s->skipped, true);
    return vulkan__operation_run(device, stream, &operation, &pushed);
}

/** Up to how many bytes of sums a group has room for. */
static uint64_t room(const vulkan__device *device)
{
    uint64_t all = device->adapter->properties.limits.maxComputeSharedMemorySize;
    all = all > SPARE_BYTES ? all - SPARE_BYTES : 0;
    return all < SHARED_BYTES ? all : SHARED_BYTES;
}

/** Groups that are worth to be begun. */
static uint64_t groups_for(const vulkan__device *device, uint64_t items)
{
    uint64_t tiles = vulkan__divide_up(items, TILE),
             least = vulkan__operation_fill(device, GROUPS_AT_ONCE);
    if (tiles <= least)
        return tiles;
    return tiles / TILES_EACH > least ? tiles / TILES_EACH : least;
}

/** The pass over all items. */
static ddisp_status add(vulkan__device *device, vulkan__stream *stream, scatter *s)
{
    vulkan__shader shader = s->deterministic ? VULKAN__SHADER_FIXED : VULKAN__SHADER_SCATTER;
    vulkan__operation operation = s->operation;
    uint64_t items = s->pushed.items, groups = groups_for(device, items);
    uint64_t each = s->again ? GROUPS_AGAIN : GROUPS_MANY;
    if (s->cells == 0 || s->cells > room(device) / s->whole_bytes || items < LEAST_SHARED ||
        items / WORTH_SHARING < s->cells ||
        !vulkan__operation_shares(device, shader, s->operation.wide)) {
        if (s->cells >= UINT32_MAX)
            operation.constants[VULKAN__CONSTANT_FORM] |= MANY;
        return run(device, stream, s, shader, groups, (uint32_t)each, &operation);
    }
    uint64_t copy_bytes = s->cells * s->sum_bytes, copies = MOST_COPIES, shared_bytes = 1024;
    while (copies > 1 && copies * copy_bytes > COPIES_BYTES)
        copies /= 2;
    while (shared_bytes < copies * copy_bytes) /* few sizes, since each is a pipeline */
        shared_bytes *= 2;
    shared_bytes = shared_bytes < room(device) ? shared_bytes : room(device);
    uint32_t element_bytes = s->deterministic ? 4 : s->sum_bytes;
    operation.constants[VULKAN__CONSTANT_FORM] |= SHARES;
    operation.constants[VULKAN__CONSTANT_SHARED] = (uint32_t)(shared_bytes / element_bytes);
    s->pushed.cells = (uint32_t)s->cells;
    s->pushed.copies = (uint32_t)copies;
    if (each > CELLS_ADDED / s->cells)
        each = CELLS_ADDED / s->cells;
    each = each < GROUPS_FEW ? GROUPS_FEW : each;
    return run(device, stream, s, shader, groups, (uint32_t)each, &operation);
}

static ddisp_status finish(vulkan__device *device, vulkan__stream *stream, const scatter *s,
                           uint32_t kind, uint64_t work)
{
    static const uint32_t each[] = {
        [PREPARE] = GROUPS_AT_ONCE, [FINISH] = GROUPS_FOLDING, [LOOK] = GROUPS_LOOKING};
    vulkan__operation operation = s->operation;
    operation.constants[VULKAN__CONSTANT_OPERATION] = kind;
    return run(device, stream, s, VULKAN__SHADER_FINISH, vulkan__divide_up(work, VULKAN__GROUP),
               s->again ? GROUPS_AGAIN : each[kind], &operation);
}

/** Sums of zero, and their bound from so many elements. is_clean: they are zero. */
static ddisp_status prepare(vulkan__device *device, vulkan__stream *stream, const scatter *s,
                            uint64_t looked_at, bool is_clean)
{
    uint64_t words = is_clean ? 0 : vulkan__divide_up(s->cells * s->whole_bytes, 16);
    return finish(device, stream, s, is_clean ? LOOK : PREPARE,
                  vulkan__divide_up(looked_at > words ? looked_at : words, 4));
}

/** Once more with the true bound, should an element be beyond the sampled one: shaders look. */
static ddisp_status add_again(vulkan__device *device, vulkan__stream *stream, scatter *s)
{
    s->again = 1;
    ddisp_status status = prepare(device, stream, s, s->pushed.items, false);
    if (status == DDISP_STATUS_OK)
        status = add(device, stream, s);
    s->again = 0;
    return status;
}

static ddisp_status add_fixed(vulkan__device *device, vulkan__stream *stream, scatter *s)
{
    uint64_t items = s->pushed.items, runs = vulkan__divide_up(items, RUN);
    bool samples = items > LOOK_AT_ALL;
    s->pushed.sample_step = samples ? (uint32_t)vulkan__divide_up(runs, SAMPLE_RUNS) : 1;
    s->headroom_log2 = samples ? HEADROOM_LOG2 : 0;
    bool is_clean = s->scratch.zeroed_bytes >= s->zeros_bytes;
    ddisp_status status = DDISP_STATUS_OK;
    if (!is_clean)
        status = vulkan__scratch_zero(device, stream, &s->scratch, HEAD_BYTES);
    if (status == DDISP_STATUS_OK)
        status = prepare(device, stream, s, vulkan__divide_up(runs, s->pushed.sample_step) * RUN,
                         is_clean);
    if (status == DDISP_STATUS_OK)
        status = add(device, stream, s);
    if (status == DDISP_STATUS_OK && samples)
        status = add_again(device, stream, s);
    if (status == DDISP_STATUS_OK)
        status = finish(device, stream, s, FINISH, items > s->cells ? items : s->cells);
    return status;
}

/** Memory for the sums, and for marks behind them, which the first shader clears. */
static ddisp_status take_memory(vulkan__device *device, vulkan__stream *stream, scatter *s)
{
    s->zeros_bytes = HEAD_BYTES + vulkan__divide_up(s->cells * s->whole_bytes, 16) * 16;
    uint64_t bytes = s->zeros_bytes;
    if (s->cells >= LEAST_MARKED && s->cells < UINT32_MAX) {
        s->operation.constants[VULKAN__CONSTANT_FORM] |= MARKS;
        bytes += vulkan__divide_up(s->cells, 128 * BLOCK) * 16;
    }
    ddisp_status status = vulkan__scratch_take(device, stream, bytes, &s->scratch);
    s->pushed.head = s->scratch.range.address;
    s->pushed.marks = s->pushed.head + s->zeros_bytes;
    return status;
}

static ddisp_status check_device(const vulkan__device *device, bool wide)
{
    const uint64_t needs = VULKAN__BIT(SUBGROUP_BASIC) | VULKAN__BIT(SUBGROUP_VOTE) |
                           VULKAN__BIT(SUBGROUP_BALLOT) | VULKAN__BIT(SUBGROUP_SHUFFLE);
    if ((device->adapter->features & needs) != needs)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "scatter-add needs votes, ballots and shuffles of subgroups, which "
                            "the device lacks");
    return wide ? vulkan__operation_check_wide(device) : DDISP_STATUS_OK;
}

ddisp_status vulkan__scatter_add(void *device_handle, void *stream_handle,
                                 const ddisp_backend_tensor *destination, uint32_t axis,
                                 int64_t axis_extent, const ddisp_backend_tensor *index,
                                 const ddisp_backend_tensor *source,
                                 const ddisp_backend_range *skipped, uint64_t flags)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    scatter s = {.deterministic = (flags & DDISP_BACKEND_ACCUMULATE_DETERMINISTIC) != 0};
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK)
        return status;
    describe(&s, destination, axis, axis_extent, index, source, skipped);
    status = check_device(device, s.operation.wide);
    if (status == DDISP_STATUS_OK && !s.deterministic)
        return add(device, stream, &s);
    if (status == DDISP_STATUS_OK)
        status = take_memory(device, stream, &s);
    if (status != DDISP_STATUS_OK)
        return status;
    status = add_fixed(device, stream, &s);
    vulkan__scratch_give(device, stream, &s.scratch, status == DDISP_STATUS_OK ? s.zeros_bytes : 0);
    return status;
}
