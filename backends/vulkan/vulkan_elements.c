/*
 * vulkan_elements.c - element-wise work on tensors of any layout: fill, copy, store with
 * conversion, and add. Finds the simplest form of the work (pieces of 16 bytes, whole words of
 * half-precision elements, long lines) and hands it to kernels/elements.comp. Sums over axes go to
 * vulkan_reduce.c.
 */
#include "vulkan_operations.h"

#include <string.h>

/** Lines from here on are taken by whole groups. */
#define LONG_LINE 128
/** Fours of halves that an invocation takes: QUADS_EACH of elements.comp. */
#define QUADS_EACH 2u
/** Bytes that an invocation moves at once, at most. */
#define QUAD 16

/** As in elements.comp. */
enum { ADD, STORE, FILL, COPY };
enum { ANY, LINES, HALVES, QUADS, WORDS };

/** Elements that an invocation takes of a line: BATCH of elements.comp. */
static uint32_t batch_of(const vulkan__operation *operation)
{
    return operation->constants[VULKAN__CONSTANT_OPERATION] == ADD ? 4 : 8;
}

typedef struct push {
    uint64_t axes;
    uint64_t to, from;
    uint64_t line;
    int64_t to_step, from_step;
    uint64_t bits, alpha;
    uint32_t line_groups, groups, skip, reserved;
    uint64_t rest[6];
} push;

_Static_assert(sizeof(push) == VULKAN__PUSH_BYTES, "what is pushed");

/** An operation whose operands have the same elements. Axes: of the destination, of the source. */
typedef struct elements {
    backend_axes axes;
    uint64_t to, from;
    int64_t to_size, from_size;
    const ddisp_backend_range *to_range, *from_range; /* from: NULL for a fill */
} elements;

static elements collapse(const ddisp_backend_tensor *destination,
                         const ddisp_backend_tensor *source, bool fills)
{
    elements it = {.to = destination->address,
                   .from = source->address,
                   .to_size = vulkan__dtype_size(destination->dtype),
                   .from_size = vulkan__dtype_size(source->dtype),
                   .to_range = &destination->range,
                   .from_range = fills ? NULL : &source->range};
    int64_t offsets[BACKEND_OPERANDS] = {0};
    for (uint32_t i = 0; i < destination->rank; i++)
        backend_axes_add(&it.axes, destination->shape[i], destination->strides[i] * it.to_size,
                         source->strides[i] * it.from_size, 0);
    backend_axes_turn(&it.axes, offsets);
    backend_axes_sort(&it.axes);
    backend_axes_merge(&it.axes);
    it.to += (uint64_t)offsets[0];
    it.from += (uint64_t)offsets[1];
    return it;
}

static bool is_float(ddisp_dtype dtype)
{
    return dtype >= DDISP_DTYPE_F16 && dtype <= DDISP_DTYPE_F64;
}

static ddisp_status refuse_dtype(const vulkan__device *device, const char *what, ddisp_dtype dtype)
{
    return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                        "%s of dtype %u is not offered", what, dtype);
}

/* ---- the work as the shader takes it ---- */

static void cut_into_lines(const elements *it, vulkan__operation *operation, push *pushed)
{
    backend_axes outer = it->axes;
    backend_axis inner = backend_axes_take_inner(&outer);
    pushed->to = it->to;
    pushed->from = it->from;
    if (outer.rank == 0 || inner.extent >= LONG_LINE) {
        operation->constants[VULKAN__CONSTANT_FORM] = LINES;
        operation->axes_count = outer.rank > 0;
        pushed->line = (uint64_t)inner.extent;
        uint64_t line_groups = vulkan__divide_up(pushed->line, VULKAN__GROUP * batch_of(operation));
        operation->groups = backend_axes_count(&outer) * line_groups;
        pushed->line_groups = (uint32_t)line_groups; /* too many are refused */
        pushed->to_step = inner.stride[0];
        pushed->from_step = inner.stride[1];
        vulkan__axes_write(&outer, &operation->axes[0]);
    } else {
        operation->constants[VULKAN__CONSTANT_FORM] = ANY;
        operation->axes_count = 1;
        operation->groups = vulkan__divide_up(backend_axes_count(&it->axes), VULKAN__GROUP);
        vulkan__axes_write(&it->axes, &operation->axes[0]);
    }
}

static ddisp_status run(vulkan__device *device, vulkan__stream *stream, const elements *it,
                        vulkan__operation *operation, push *pushed)
{
    if (operation->constants[VULKAN__CONSTANT_FORM] < HALVES)
        cut_into_lines(it, operation, pushed);
    pushed->groups = (uint32_t)operation->groups;
    vulkan__operation_touches(operation, it->to_range, true);
    if (it->from_range)
        vulkan__operation_touches(operation, it->from_range, false);
    return vulkan__operation_run(device, stream, operation, pushed);
}

/* ---- bits ---- */

static bool is_gapless(const backend_axis *axis, const elements *it)
{
    return axis->stride[0] == it->to_size && (!it->from_range || axis->stride[1] == it->from_size);
}

/** Takes elements together as long as the innermost line has no gaps and everything stays aligned.
 * Of a single line some elements may be left over: returns how many. */
static int64_t widen(elements *it, uint64_t *bits)
{
    int64_t left = 0, count = 1;
    if (it->axes.rank == 0)
        return 0;
    backend_axis *inner = &it->axes.axis[it->axes.rank - 1];
    while (it->to_size < QUAD && is_gapless(inner, it)) {
        uint64_t aligned = it->to | (it->from_range ? it->from : 0);
        for (uint32_t i = 0; i + 1 < it->axes.rank; i++)
            aligned |= (uint64_t)it->axes.axis[i].stride[0] |
                       (it->from_range ? (uint64_t)it->axes.axis[i].stride[1] : 0);
        if (inner->extent < 2 || aligned % ((uint64_t)it->to_size * 2) != 0 ||
            (inner->extent % 2 != 0 && it->axes.rank > 1))
            break;
        left += inner->extent % 2 * count;
        count *= 2;
        if (it->to_size < 8)
            *bits |= *bits << it->to_size * 8;
        it->to_size *= 2;
        it->from_size = it->to_size;
        inner->extent /= 2;
        inner->stride[0] = inner->stride[1] = it->to_size;
    }
    return left;
}

static ddisp_status move(vulkan__device *device, vulkan__stream *stream, uint32_t kind,
                         const elements *whole, uint64_t bits)
{
    elements it = *whole;
    push pushed = {.bits = bits};
    vulkan__operation operation = {.shader = VULKAN__SHADER_ELEMENTS};
    int64_t left = widen(&it, &pushed.bits);
    operation.constants[VULKAN__CONSTANT_OPERATION] = kind;
    operation.constants[VULKAN__CONSTANT_TO] = (uint32_t)it.to_size;
    ddisp_status status = run(device, stream, &it, &operation, &pushed);
    if (status != DDISP_STATUS_OK || left == 0)
        return status;
    elements rest = *whole; /* the last few of a line */
    backend_axis *line = &rest.axes.axis[0];
    rest.to += (uint64_t)((line->extent - left) * rest.to_size);
    rest.from += (uint64_t)((line->extent - left) * rest.from_size);
    line->extent = left;
    pushed = (push){.bits = bits};
    operation = (vulkan__operation){.shader = VULKAN__SHADER_ELEMENTS};
    operation.constants[VULKAN__CONSTANT_OPERATION] = kind;
    operation.constants[VULKAN__CONSTANT_TO] = (uint32_t)rest.to_size;
    return run(device, stream, &rest, &operation, &pushed);
}

ddisp_status vulkan__fill_elements(void *device_handle, void *stream,
                                   const ddisp_backend_tensor *destination, uint64_t bits)
{
    vulkan__device *device = device_handle;
    elements it = collapse(destination, destination, true);
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && it.to_size == 0)
        status = refuse_dtype(device, "a fill", destination->dtype);
    if (status != DDISP_STATUS_OK)
        return status;
    if (it.to_size < 8)
        bits &= (UINT64_C(1) << it.to_size * 8) - 1;
    return move(device, stream, FILL, &it, bits);
}

/* ---- numbers ---- */

/** Whether halves lie side by side, to be written by words, from a source with one stride. */
static bool goes_by_words(const elements *it, ddisp_dtype to)
{
    return vulkan__dtype_is_half(to) &&
           (it->axes.rank == 0 || (it->axes.rank == 1 && it->axes.axis[0].stride[0] == 2));
}

static void cut_into_words(const elements *it, vulkan__operation *operation, push *pushed)
{
    uint32_t skip = it->to % 4 != 0;
    operation->constants[VULKAN__CONSTANT_FORM] = HALVES;
    pushed->to = it->to / 4 * 4;
    pushed->from = it->from;
    pushed->line = backend_axes_count(&it->axes);
    pushed->from_step = it->axes.rank ? it->axes.axis[0].stride[1] : 0;
    pushed->skip = skip;
    uint64_t words = pushed->line ? (pushed->line + skip + 1) / 2 : 0;
    operation->groups = vulkan__divide_up(words, VULKAN__GROUP * batch_of(operation) / 2);
}

/** Whether halves can be added to others of their kind by fours: both sides aligned and gapless. */
static bool goes_by_quads(const vulkan__device *device, const elements *it, ddisp_dtype to,
                          ddisp_dtype from)
{
    return vulkan__dtype_is_half(to) && from == to && it->axes.rank == 1 &&
           is_gapless(&it->axes.axis[0], it) && it->axes.axis[0].extent >= 4 &&
           (it->to | it->from) % 8 == 0 &&
           vulkan__operation_is_native(device, VULKAN__SHADER_ELEMENTS, false);
}

static void cut_into_quads(const elements *it, vulkan__operation *operation, push *pushed)
{
    operation->constants[VULKAN__CONSTANT_FORM] = QUADS;
    pushed->to = it->to;
    pushed->from = it->from;
    pushed->line = (uint64_t)it->axes.axis[0].extent;
    operation->groups = vulkan__divide_up(pushed->line / 4, VULKAN__GROUP * QUADS_EACH);
}

/** Whether elements can be read and stored by words of 16 bytes: aligned, gapless, of one type. */
static bool goes_by_whole_words(const elements *it, ddisp_dtype to, ddisp_dtype from)
{
    return from == to && it->axes.rank == 1 && is_gapless(&it->axes.axis[0], it) &&
           (it->to | it->from) % QUAD == 0;
}

static void cut_into_whole_words(const elements *it, vulkan__operation *operation, push *pushed)
{
    operation->constants[VULKAN__CONSTANT_FORM] = WORDS;
    pushed->to = it->to;
    pushed->from = it->from;
    pushed->line = (uint64_t)it->axes.axis[0].extent;
    uint64_t words = pushed->line * (uint64_t)it->to_size / QUAD;
    operation->groups = words ? vulkan__divide_up(words, VULKAN__GROUP) : 1;
}

static ddisp_status compute(vulkan__device *device, vulkan__stream *stream, const elements *it,
                            const ddisp_backend_tensor *destination,
                            const ddisp_backend_tensor *source, double alpha, bool adds,
                            bool exclusive)
{
    push pushed = {0};
    float single = (float)alpha;
    vulkan__operation operation = {
        .shader = VULKAN__SHADER_ELEMENTS,
        .wide = destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64,
    };
    ddisp_status status = operation.wide ? vulkan__operation_check_wide(device) : DDISP_STATUS_OK;
    if (status != DDISP_STATUS_OK)
        return status;
    if (operation.wide)
        memcpy(&pushed.alpha, &alpha, sizeof alpha);
    else
        memcpy(&pushed.alpha, &single, sizeof single);
    operation.constants[VULKAN__CONSTANT_OPERATION] = adds ? ADD : STORE;
    operation.constants[VULKAN__CONSTANT_TO] = destination->dtype;
    operation.constants[VULKAN__CONSTANT_FROM] = source->dtype;
    if (adds && exclusive && goes_by_whole_words(it, destination->dtype, source->dtype))
        cut_into_whole_words(it, &operation, &pushed);
    else if (adds && goes_by_quads(device, it, destination->dtype, source->dtype))
        cut_into_quads(it, &operation, &pushed);
    else if (goes_by_words(it, destination->dtype))
        cut_into_words(it, &operation, &pushed);
    return run(device, stream, it, &operation, &pushed);
}

static bool sums_over_axes(const ddisp_backend_tensor *destination)
{
    for (uint32_t i = 0; i < destination->rank; i++)
        if (destination->shape[i] > 1 && destination->strides[i] == 0)
            return true;
    return false;
}

ddisp_status vulkan__accumulate(void *device_handle, void *stream,
                                const ddisp_backend_tensor *destination,
                                const ddisp_backend_tensor *source, double alpha,
                                uint32_t operation, uint64_t flags)
{
    vulkan__device *device = device_handle;
    bool adds = operation == DDISP_BACKEND_ACCUMULATE_ADD;
    bool moves = !adds && alpha == 1.0 && destination->dtype == source->dtype;
    bool exclusive = (flags & DDISP_BACKEND_ACCUMULATE_EXCLUSIVE) != 0;
    elements it = collapse(destination, source, false);
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK)
        return status;
    if (it.to_size == 0 || (!moves && !is_float(destination->dtype)))
        return refuse_dtype(device, "accumulation into a destination", destination->dtype);
    if (!moves && !is_float(source->dtype))
        return refuse_dtype(device, "accumulation from a source", source->dtype);
    if (moves)
        return move(device, stream, COPY, &it, 0);
    if (adds && sums_over_axes(destination))
        return vulkan__reduce(device, stream, destination, source, alpha);
    return compute(device, stream, &it, destination, source, alpha, adds, exclusive);
}
