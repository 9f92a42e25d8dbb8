/*
 * layout.c - arithmetic of shapes and strides. Extents and strides come from callers and may be
 * anything; whatever leaves this room is checked: element counts, byte spans and addresses fit in
 * 63 bits. Nothing here knows what a tensor or a device is.
 */
#include "layout.h"
#include "status.h"

#include <diffdispatch/kernel.h>

#include <stdio.h>
#include <string.h>

/* Checks the byte span: the sum of (extent - 1) * |stride| in bytes must stay below 2^62 on either
 * side. */
static bool span_fits(const ddisp__layout *layout, uint32_t element_size)
{
    int64_t low = 0, high = 0;
    for (uint32_t i = 0; i < layout->rank; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(layout->shape[i] - 1, layout->strides[i], &reach))
            return false;
        int64_t *side = reach < 0 ? &low : &high;
        if (__builtin_add_overflow(*side, reach, side))
            return false;
    }
    int64_t limit = (INT64_C(1) << 62) / (int64_t)element_size;
    return low > -limit && high < limit;
}

static ddisp_status fill_strides(const char *what, const int64_t *strides, ddisp__layout *layout)
{
    if (strides) {
        for (uint32_t i = 0; i < layout->rank; i++)
            layout->strides[i] = strides[i];
        return DDISP_STATUS_OK;
    }
    int64_t stride = 1;
    for (uint32_t i = layout->rank; i-- > 0;) {
        layout->strides[i] = stride;
        int64_t extent = layout->shape[i] > 0 ? layout->shape[i] : 1;
        if (__builtin_mul_overflow(stride, extent, &stride))
            return ddisp__fail(DDISP_STATUS_OVERFLOW,
                               "%s: the product of the extents does not fit in 64 bits", what);
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__layout_make(const char *what, ddisp_dtype dtype, uint32_t rank,
                                const int64_t *shape, const int64_t *strides,
                                ddisp__layout *out_layout)
{
    uint32_t element_size = ddisp_dtype_size(dtype);
    if (element_size == 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: unknown dtype %u", what, dtype);
    if (rank > DDISP_MAX_RANK)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: rank is %u, the highest is %u", what,
                           rank, DDISP_MAX_RANK);
    if (rank > 0 && !shape)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: shape is NULL, rank is %u", what,
                           rank);

    ddisp__layout layout = {.rank = rank, .numel = 1};
    bool empty = false;
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++)
        layout.shape[i] = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s: extent %u is %lld, extents are 0 or more", what, i,
                               (long long)shape[i]);
        layout.shape[i] = shape[i];
        empty |= shape[i] == 0;
    }
    for (uint32_t i = 0; i < rank && !empty; i++)
        if (__builtin_mul_overflow(layout.numel, layout.shape[i], &layout.numel))
            return ddisp__fail(DDISP_STATUS_OVERFLOW,
                               "%s: the product of the extents does not fit in 64 bits", what);
    if (empty)
        layout.numel = 0;
    ddisp_status status = fill_strides(what, strides, &layout);
    if (status)
        return status;
    if (!empty && !span_fits(&layout, element_size))
        return ddisp__fail(DDISP_STATUS_OVERFLOW,
                           "%s: extents times strides span more bytes than 62 bits can count",
                           what);
    layout.dense = ddisp__layout_is_dense(&layout);
    *out_layout = layout;
    return DDISP_STATUS_OK;
}

void ddisp__layout_dense(const ddisp__layout *like, bool keep_broadcast, ddisp__layout *out_layout)
{
    ddisp__layout layout = *like;
    int64_t stride = 1;
    layout.dense = false;
    for (uint32_t i = layout.rank; i-- > 0;) {
        if (keep_broadcast && like->strides[i] == 0 && like->shape[i] > 1) {
            layout.strides[i] = 0;
            continue;
        }
        layout.strides[i] = stride;
        stride *= layout.shape[i] > 0 ? layout.shape[i] : 1;
    }
    layout.dense = ddisp__layout_is_dense(&layout);
    *out_layout = layout;
}

ddisp__span ddisp__layout_span_of_others(const ddisp__layout *layout, uint32_t element_size)
{
    ddisp__span span = {0, 0};
    if (layout->numel == 0)
        return span;
    for (uint32_t i = 0; i < layout->rank; i++) {
        int64_t reach = (layout->shape[i] - 1) * layout->strides[i];
        if (reach < 0)
            span.low += reach;
        else
            span.high += reach;
    }
    span.low *= (int64_t)element_size;
    span.high = (span.high + 1) * (int64_t)element_size;
    return span;
}

uint32_t ddisp__layout_class(const ddisp__layout *layout)
{
    if (layout->numel == 0 || layout->dense)
        return DDISP_LAYOUT_DENSE;
    uint32_t class = DDISP_LAYOUT_DENSE;
    int64_t expected = 1;
    for (uint32_t i = layout->rank; i-- > 0;) {
        if (layout->shape[i] == 1)
            continue;
        if (layout->strides[i] == 0)
            return DDISP_LAYOUT_BROADCAST;
        if (layout->strides[i] != expected)
            class = DDISP_LAYOUT_STRIDED;
        expected *= layout->shape[i];
    }
    return class;
}

bool ddisp__layout_same_shape(const ddisp__layout *a, const ddisp__layout *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

bool ddisp__layout_equal(const ddisp__layout *a, const ddisp__layout *b)
{
    if (!ddisp__layout_same_shape(a, b))
        return false;
    if (a->numel == 0)
        return true;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->shape[i] > 1 && a->strides[i] != b->strides[i])
            return false;
    return true;
}

int64_t ddisp__layout_stored(const ddisp__layout *layout)
{
    if (layout->dense)
        return layout->numel;
    int64_t stored = layout->numel == 0 ? 0 : 1;
    for (uint32_t i = 0; i < layout->rank && stored; i++)
        if (layout->strides[i] != 0 || layout->shape[i] == 1)
            stored *= layout->shape[i];
    return stored;
}

/* An axis with positive stride, in bytes. */
typedef struct axis {
    int64_t stride, count;
} axis;

/* Axes of extent > 1 and stride != 0 as positive strides, largest first; returns how many, low
 * moves to their start. */
static uint32_t normalize(const ddisp__layout *layout, uint32_t element_size, axis *axes,
                          int64_t *low)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->rank; i++) {
        int64_t stride = layout->strides[i] * (int64_t)element_size;
        if (layout->shape[i] <= 1 || stride == 0)
            continue;
        if (stride < 0) {
            *low += stride * (layout->shape[i] - 1);
            stride = -stride;
        }
        uint32_t k = count++;
        for (; k > 0 && axes[k - 1].stride < stride; k--)
            axes[k] = axes[k - 1];
        axes[k] = (axis){stride, layout->shape[i]};
    }
    return count;
}

bool ddisp__layout_self_overlaps(const ddisp__layout *layout)
{
    if (layout->numel <= 1 || layout->dense)
        return false;
    axis axes[DDISP_MAX_RANK];
    int64_t low = 0;
    for (uint32_t i = 0; i < layout->rank; i++)
        if (layout->strides[i] == 0 && layout->shape[i] > 1)
            return true;
    uint32_t count = normalize(layout, 1, axes, &low);
    int64_t inner = 1; /* elements that the axes inside span */
    for (uint32_t i = count; i-- > 0;) {
        if (axes[i].stride < inner)
            return true;
        inner += (axes[i].count - 1) * axes[i].stride;
    }
    return false;
}

/* One operand of the overlap test: bytes at start + sum of axes, `bytes` wide. */
typedef struct lattice {
    int64_t start;
    axis axes[DDISP_MAX_RANK];
    uint32_t count;
    int64_t bytes;
} lattice;

static int64_t extent_of(const lattice *l)
{
    int64_t extent = l->bytes;
    for (uint32_t i = 0; i < l->count; i++)
        extent += (l->axes[i].count - 1) * l->axes[i].stride;
    return extent;
}

/*
 * Whether two lattices may meet. Ranges that are apart do not. Where both have the same outermost
 * stride and each fits into one period of it, only neighbouring periods can meet: test the inner
 * parts at each such shift. That settles rows, columns, tiles and interleaved channels exactly;
 * anything stranger counts as meeting once the tries, of all levels together, are used up.
 */
static bool meet(lattice a, lattice b, uint32_t *tries)
{
    int64_t extent_a = extent_of(&a), extent_b = extent_of(&b);
    if (a.start + extent_a <= b.start || b.start + extent_b <= a.start)
        return false;
    if (a.count == 0 && b.count == 0)
        return true;
    int64_t period = a.count ? a.axes[0].stride : 0;
    if (b.count && b.axes[0].stride > period)
        period = b.axes[0].stride;
    int64_t count_a = 1, count_b = 1;
    if (a.count && a.axes[0].stride == period) {
        count_a = a.axes[0].count;
        memmove(a.axes, a.axes + 1, --a.count * sizeof a.axes[0]);
    }
    if (b.count && b.axes[0].stride == period) {
        count_b = b.axes[0].count;
        memmove(b.axes, b.axes + 1, --b.count * sizeof b.axes[0]);
    }
    /* a + i*period meets b + j*period: only the difference k = j - i matters, from -(count_a-1) to
     * count_b-1 */
    int64_t inner_a = extent_of(&a), inner_b = extent_of(&b);
    int64_t distance = b.start - a.start;
    int64_t first = (-inner_b - distance) / period - 1; /* no earlier shift reaches a */
    if (first < -(count_a - 1))
        first = -(count_a - 1);
    for (int64_t k = first; k <= count_b - 1; k++) {
        int64_t shifted = distance + k * period;
        if (shifted >= inner_a)
            break;
        if (shifted + inner_b <= 0)
            continue;
        if (*tries == 0)
            return true;
        --*tries;
        lattice moved = b;
        moved.start = a.start + shifted;
        if (meet(a, moved, tries))
            return true;
    }
    return false;
}

bool ddisp__layout_overlap(uint64_t address_a, const ddisp__layout *a, uint32_t size_a,
                           uint64_t address_b, const ddisp__layout *b, uint32_t size_b)
{
    if (a->numel == 0 || b->numel == 0)
        return false;
    lattice la = {.bytes = size_a}, lb = {.bytes = size_b};
    la.count = normalize(a, size_a, la.axes, &la.start);
    lb.count = normalize(b, size_b, lb.axes, &lb.start);
    lb.start += (int64_t)(address_b - address_a);
    uint32_t tries = 4096;
    return meet(la, lb, &tries);
}

void ddisp__layout_format(ddisp_dtype dtype, const ddisp__layout *layout, char *text,
                          size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%s[", ddisp_dtype_name(dtype));
    for (uint32_t i = 0; i < layout->rank && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? "," : "",
                                 (long long)layout->shape[i]);
    if (used < capacity)
        (void)snprintf(text + used, capacity - used, "]");
}
