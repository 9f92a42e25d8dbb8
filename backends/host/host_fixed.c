/*
 * host_fixed.c - deterministic scatter-add: elements become integers, whose sums are exact and so
 * the same in any order. Which integers, and what becomes of elements that are not finite or beyond
 * the bound of a sample, is the same on all backends (docs/architecture.md), and so are the bits of
 * the result. In: any shape and dtype, as host_scatter.c; the integers lie behind the operation and
 * are zero before and after.
 */
#include "backend_shapes.h"
#include "host_internal.h"
#include "host_number.h"

#include <float.h>
#include <math.h>

/** Up to here every element is looked at for the bound; beyond, a sample of about as many as below,
 * times a headroom. */
#define LOOK_AT_ALL   (UINT64_C(4) << 20)
#define SAMPLED_ROWS  UINT64_C(32768)
#define ROW           UINT64_C(32)
#define HEADROOM_LOG2 6
/** Work up to here is done by one thread. */
#define ALONE 4096

typedef struct fixed {
    host_operation operation;
    backend_axes items, cells; /* source, index, cell; destination */
    uint64_t item_count, cell_count, extent;
    int64_t index_cells; /* cells from one index to the next */
    unsigned char *to;
    const unsigned char *from, *index;
    ddisp_dtype to_type, from_type, index_type;
    uint64_t *skipped;
    bool wide;      /* f64: a sum is two integers */
    int count_log2; /* of elements that can come to one cell */
    /* while it runs */
    uint64_t step; /* of rows that are looked at */
    uint64_t largest;
    double bound, up[2], down[2], rest_up; /* rest_up: steps of a sum's second integer in one */
    bool again, beyond, not_finite;
    int64_t sums[];
} fixed;

/* ---- places ---- */

/** Where an element is: counts steps along each axis. */
typedef struct cursor {
    const backend_axes *axes;
    int64_t at[8], offset[BACKEND_OPERANDS];
} cursor;

static cursor place(const backend_axes *axes, uint64_t n)
{
    cursor it = {.axes = axes};
    for (uint32_t i = axes->rank; i-- > 0;) {
        const backend_axis *axis = &axes->axis[i];
        it.at[i] = (int64_t)(n % (uint64_t)axis->extent);
        n /= (uint64_t)axis->extent;
        for (uint32_t k = 0; k < BACKEND_OPERANDS; k++)
            it.offset[k] += it.at[i] * axis->stride[k];
    }
    return it;
}

static void advance(cursor *it)
{
    for (uint32_t i = it->axes->rank; i-- > 0;) {
        const backend_axis *axis = &it->axes->axis[i];
        bool wraps = ++it->at[i] == axis->extent;
        for (uint32_t k = 0; k < BACKEND_OPERANDS; k++)
            it->offset[k] += wraps ? (1 - axis->extent) * axis->stride[k] : axis->stride[k];
        if (!wraps)
            return;
        it->at[i] = 0;
    }
}

static double element(const fixed *it, const cursor *at)
{
    return host_load(it->from_type, it->from + at->offset[0]);
}

/** The cell that an item's index means; false: none. */
static bool cell_of(const fixed *it, const cursor *at, uint64_t *out_cell)
{
    const void *where = it->index + at->offset[1];
    int64_t index = it->index_type == DDISP_DTYPE_I64 ? *(const int64_t *)where
                                                      : (int64_t) * (const int32_t *)where;
    *out_cell = (uint64_t)at->offset[2] + (uint64_t)index * (uint64_t)it->index_cells;
    return index >= 0 && (uint64_t)index < it->extent;
}

/* ---- the bound and the steps ---- */

static void look_part(void *user, uint64_t begin, uint64_t end)
{
    fixed *it = user;
    uint64_t most = 0; /* magnitudes are in the order of their bits */
    for (uint64_t row = begin; row < end; row++) {
        uint64_t n = row * it->step * ROW,
                 last = n + ROW < it->item_count ? n + ROW : it->item_count;
        for (cursor at = place(&it->items, n); n < last; n++, advance(&at)) {
            double magnitude = fabs(element(it, &at));
            uint64_t bits;
            memcpy(&bits, &magnitude, sizeof bits);
            most = magnitude <= DBL_MAX && bits > most ? bits : most;
        }
    }
    uint64_t old = __atomic_load_n(&it->largest, __ATOMIC_RELAXED);
    while (most > old && !__atomic_compare_exchange_n(&it->largest, &old, most, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/** The smallest exponent whose power of 2 is not below the largest magnitude. */
static int largest_log2(const fixed *it)
{
    double largest;
    int exponent;
    memcpy(&largest, &it->largest, sizeof largest);
    if (largest == 0)
        return it->wide ? -1075 : -150;
    return frexp(largest, &exponent) == 0.5 ? exponent - 1 : exponent;
}

/** 2^exponent in two factors, since it may be too large for the type; rounded as the type is. */
static void halve(const fixed *it, int exponent, double out_power[2])
{
    out_power[0] = ldexp(1, exponent / 2);
    out_power[1] = ldexp(1, exponent - exponent / 2);
    for (int i = 0; i < 2 && !it->wide; i++)
        out_power[i] = (double)(float)out_power[i];
}

static void choose_steps(fixed *it, int headroom_log2)
{
    int most = it->wide ? 1024 : 128, bound_log2;
    uint64_t rows = (it->item_count + ROW - 1) / ROW;
    it->largest = 0;
    host__split((rows + it->step - 1) / it->step, 1, ALONE / ROW, look_part, it);
    bound_log2 = largest_log2(it) + headroom_log2;
    bound_log2 = bound_log2 < most ? bound_log2 : most;
    it->bound = bound_log2 < 1024 ? ldexp(1, bound_log2) : DBL_MAX;
    int steps = 62 - it->count_log2 - bound_log2;
    halve(it, steps, it->up);
    halve(it, -steps, it->down);
    it->rest_up = ldexp(1, 62 - it->count_log2);
}

/* ---- integers ---- */

typedef struct integer {
    int64_t whole, rest; /* rest: of f64, in steps of 2^(count_log2 - 62) of whole's */
} integer;

static double nearest(double value)
{
    const double all_whole = 0x1p52; /* from here on */
    double magnitude = fabs(value), whole = magnitude + all_whole - all_whole;
    return magnitude < all_whole ? copysign(whole, value) : value;
}

/** Of an element that is within the bound. */
static integer integer_of(const fixed *it, double value)
{
    double steps = value * it->up[0] * it->up[1], whole = nearest(steps);
    integer result = {(int64_t)whole, 0};
    if (it->wide)
        result.rest = (int64_t)nearest((steps - whole) * it->rest_up);
    return result;
}

static void add_to_cell(fixed *it, uint64_t cell, integer value)
{
    int64_t *sum = &it->sums[it->wide ? cell * 2 : cell];
    (void)__atomic_fetch_add(sum, value.whole, __ATOMIC_RELAXED);
    if (it->wide)
        (void)__atomic_fetch_add(sum + 1, value.rest, __ATOMIC_RELAXED);
}

static void add_part(void *user, uint64_t begin, uint64_t end)
{
    fixed *it = user;
    uint64_t skipped = 0, cell, last = 0;
    integer run = {0, 0}; /* of elements for the same cell, which is the last one */
    bool beyond = false, not_finite = false;
    cursor at = place(&it->items, begin);
    for (uint64_t n = begin; n < end; n++, advance(&at)) {
        double value = element(it, &at);
        if (!cell_of(it, &at, &cell)) {
            skipped++;
        } else if (fabs(value) <= it->bound) {
            integer more = integer_of(it, value);
            if (cell != last) {
                add_to_cell(it, last, run);
                last = cell;
                run = (integer){0, 0};
            }
            run.whole += more.whole;
            run.rest += more.rest;
        } else if (fabs(value) <= DBL_MAX) {
            beyond = true;
        } else {
            not_finite = true;
        }
    }
    if (it->cell_count > 0)
        add_to_cell(it, last, run);
    if (beyond)
        __atomic_store_n(&it->beyond, true, __ATOMIC_RELAXED);
    if (not_finite)
        __atomic_store_n(&it->not_finite, true, __ATOMIC_RELAXED);
    if (skipped && it->skipped && !it->again)
        (void)__atomic_fetch_add(it->skipped, skipped, __ATOMIC_RELAXED);
}

static unsigned char *memory_of(const fixed *it, uint64_t cell)
{
    return it->to + place(&it->cells, cell).offset[0];
}

static void add_not_finite_part(void *user, uint64_t begin, uint64_t end)
{
    const fixed *it = user;
    uint64_t cell;
    cursor at = place(&it->items, begin);
    for (uint64_t n = begin; n < end; n++, advance(&at)) {
        double value = element(it, &at);
        if (cell_of(it, &at, &cell) && !(fabs(value) <= DBL_MAX))
            host_add(it->to_type, memory_of(it, cell), value);
    }
}

static double number_of(const fixed *it, const int64_t *sum)
{
    if (!it->wide)
        return (double)((float)sum[0] * (float)it->down[0] * (float)it->down[1]);
    double high = (double)sum[0], rest = (double)(sum[0] - (int64_t)high);
    double number = high + (rest + (double)sum[1] / it->rest_up);
    return number * it->down[0] * it->down[1];
}

static void fold_part(void *user, uint64_t begin, uint64_t end)
{
    fixed *it = user;
    uint64_t words = it->wide ? 2 : 1;
    cursor at = place(&it->cells, begin);
    for (uint64_t cell = begin; cell < end; cell++, advance(&at)) {
        int64_t *sum = &it->sums[cell * words];
        if (sum[0] == 0 && (!it->wide || sum[1] == 0))
            continue;
        host_add(it->to_type, it->to + at.offset[0], number_of(it, sum));
        memset(sum, 0, words * sizeof *sum);
    }
}

/* ---- the operation ---- */

static void run_fixed(host_device *device, host_operation *operation)
{
    fixed *it = (fixed *)operation;
    uint64_t rows = (it->item_count + ROW - 1) / ROW;
    bool samples = it->item_count > LOOK_AT_ALL;
    it->again = it->beyond = it->not_finite = false;
    it->step = samples ? (rows + SAMPLED_ROWS - 1) / SAMPLED_ROWS : 1;
    choose_steps(it, samples ? HEADROOM_LOG2 : 0);
    host__split(it->item_count, 1, ALONE, add_part, it);
    if (it->beyond) { /* once more, with the true bound */
        memset(it->sums, 0, it->cell_count * (it->wide ? 16 : 8));
        it->again = true;
        it->step = 1;
        choose_steps(it, 0);
        host__split(it->item_count, 1, ALONE, add_part, it);
    }
    if (it->not_finite)
        host__split(it->item_count, 1, ALONE, add_not_finite_part, it);
    host__split(it->cell_count, 1, ALONE, fold_part, it);
    host__operation_done(device, operation);
}

ddisp_status host__fixed_add(host_device *device, void *stream,
                             const ddisp_backend_tensor *destination, uint32_t axis,
                             int64_t axis_extent, const ddisp_backend_tensor *index,
                             const ddisp_backend_tensor *source, const ddisp_backend_range *skipped)
{
    int64_t to_size = (int64_t)host__dtype_size(destination->dtype), cell_strides[8];
    int64_t from_size = (int64_t)host__dtype_size(source->dtype);
    int64_t index_size = (int64_t)host__dtype_size(index->dtype);
    backend_axes cells = {0}, items = {0};
    int64_t index_cells =
        backend_shapes_scatter(destination, to_size, axis, axis_extent, &cells, cell_strides);
    for (uint32_t i = 0; i < source->rank; i++)
        backend_axes_add(&items, source->shape[i], source->strides[i] * from_size,
                         index->strides[i] * index_size, cell_strides[i]);
    backend_axes_sort(&items);
    backend_axes_merge(&items);
    bool wide = destination->dtype == DDISP_DTYPE_F64 || source->dtype == DDISP_DTYPE_F64;
    uint64_t size_bytes = sizeof(fixed) + backend_axes_count(&cells) * (wide ? 16 : 8);
    fixed *it = backend_allocate(device->services, size_bytes);
    if (!it)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a deterministic scatter-add (%llu bytes)",
                            (unsigned long long)size_bytes);
    it->operation.run = run_fixed;
    it->items = items;
    it->cells = cells;
    it->item_count = backend_axes_count(&items);
    it->cell_count = backend_axes_count(&cells);
    it->extent = (uint64_t)axis_extent;
    it->index_cells = index_cells;
    it->to = (unsigned char *)(uintptr_t)destination->address;
    it->from = (const unsigned char *)(uintptr_t)source->address;
    it->index = (const unsigned char *)(uintptr_t)index->address;
    it->to_type = destination->dtype;
    it->from_type = source->dtype;
    it->index_type = index->dtype;
    it->skipped = (uint64_t *)(uintptr_t)skipped->address;
    it->wide = wide;
    it->count_log2 = (int)backend_log2_up((uint64_t)source->shape[axis], 63);
    return host__stream_run(device, stream, &it->operation);
}
