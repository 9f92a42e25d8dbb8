/*
 * alias.c - no range that a launch writes may overlap another of its ranges, except that two add
 * slots may be one and the same. Verdicts are computed for each launch from addresses and layouts;
 * nothing is remembered.
 */
#include "launch.h"

#include <string.h>

/* A range with its owner, for messages. */
typedef struct range {
    uint64_t address;
    const ddisp__layout *layout;
    uint32_t element_size;
    uint32_t argument;
    const char *what;
    bool writes;
    bool add;
    uint64_t low, high; /* bytes that it spans */
} range;

/* The bytes of a range, so that most pairs are told apart at once. */
static void set_span(range *r)
{
    ddisp__span span = ddisp__layout_span(r->layout, r->element_size);
    r->low = r->address + (uint64_t)span.low;
    r->high = r->address + (uint64_t)span.high;
}

static bool overlap(const range *a, const range *b)
{
    if (!a->address || !b->address || !(a->writes || b->writes) || a->high <= b->low ||
        b->high <= a->low)
        return false;
    if (a->add && b->add && a->address == b->address && a->element_size == b->element_size &&
        ddisp__layout_equal(a->layout, b->layout))
        return false;
    return ddisp__layout_overlap(a->address, a->layout, a->element_size, b->address, b->layout,
                                 b->element_size);
}

static ddisp_status compare(const ddisp__launch *launch, const range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (overlap(&ranges[i], &ranges[k]))
                return ddisp__launch_fail(
                    launch, ranges[i].argument, DDISP_STATUS_ALIASED,
                    "%s overlaps %s of '%s' (argument %u), and one of them is written",
                    ranges[i].what, ranges[k].what,
                    launch->operands[ranges[k].argument].param->name, ranges[k].argument);
    return DDISP_STATUS_OK;
}

static void data_range(const ddisp__launch *launch, uint32_t i, range *out)
{
    const ddisp__operand *operand = &launch->operands[i];
    *out = (range){.address = operand->address,
                   .layout = &operand->layout,
                   .element_size = ddisp__dtype_size(operand->dtype),
                   .argument = i,
                   .what = "data",
                   .writes = launch->mode == DDISP_MODE_FORWARD &&
                             operand->param->kind == DDISP_PARAM_KIND_TENSOR &&
                             (operand->param->access & DDISP_ACCESS_OUT)};
    if (operand->address) {
        out->low = operand->address + (uint64_t)operand->span.low;
        out->high = operand->address + (uint64_t)operand->span.high;
    }
}

/* An operand that is written spans bytes of another. Nearly every launch is through with this. */
static bool written_meets(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    uint64_t low = operand->address + (uint64_t)operand->span.low;
    uint64_t high = operand->address + (uint64_t)operand->span.high;
    for (uint32_t k = 0; k < launch->count; k++) {
        const ddisp__operand *other = &launch->operands[k];
        if (other->address + (uint64_t)other->span.low < high &&
            low < other->address + (uint64_t)other->span.high && k != i)
            return true;
    }
    return false;
}

ddisp_status ddisp__alias_check_data(ddisp__launch *launch)
{
    range ranges[DDISP_MAX_PARAMS];
    bool meets = false;
    if (launch->mode != DDISP_MODE_FORWARD)
        return DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (operand->param->kind != DDISP_PARAM_KIND_TENSOR ||
            !(operand->param->access & DDISP_ACCESS_OUT))
            continue;
        if (!operand->layout.dense && ddisp__layout_self_overlaps(&operand->layout))
            return ddisp__launch_fail(launch, i, DDISP_STATUS_ALIASED,
                                      "is written, and several of its elements share memory");
        meets = meets || (operand->address && written_meets(launch, i));
    }
    if (!meets)
        return DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count; i++)
        data_range(launch, i, &ranges[i]);
    return compare(launch, ranges, launch->count);
}

static void gradient_range(const ddisp__slot *slot, uint32_t i, bool add, range *out)
{
    *out = (range){.address = slot->gradient.address,
                   .layout = &slot->gradient.layout,
                   .element_size = ddisp__dtype_size(slot->gradient.dtype),
                   .argument = i,
                   .what = add ? "the gradient added to" : "the upstream gradient",
                   .writes = add,
                   .add = add};
    set_span(out);
}

/* Bytes from low to high. */
typedef struct bytes {
    uint64_t low, high;
} bytes;

static bytes gradient_bytes(const ddisp__slot *slot)
{
    ddisp__span span =
        ddisp__layout_span(&slot->gradient.layout, ddisp__dtype_size(slot->gradient.dtype));
    return (bytes){slot->gradient.address + (uint64_t)span.low,
                   slot->gradient.address + (uint64_t)span.high};
}

/* Index of the first of sorted, disjoint ranges that ends behind low. */
static uint32_t place_of(const bytes *sorted, uint32_t count, uint64_t low)
{
    uint32_t first = 0;
    while (first < count) {
        uint32_t middle = (first + count) / 2;
        if (sorted[middle].high <= low)
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

/* Adds to sorted, disjoint ranges; false when it meets one. Most come in the order of their
 * addresses. */
static bool add_sorted(bytes *sorted, uint32_t *count, bytes one)
{
    uint32_t at = *count;
    if (one.low == one.high)
        return true;
    if (at && sorted[at - 1].high > one.low)
        at = place_of(sorted, at, one.low);
    if (at < *count && sorted[at].low < one.high)
        return false;
    memmove(&sorted[at + 1], &sorted[at], (*count - at) * sizeof *sorted);
    sorted[at] = one;
    ++*count;
    return true;
}

static bool meets(const bytes *sorted, uint32_t count, bytes one)
{
    if (one.high <= sorted[0].low || one.low >= sorted[count - 1].high)
        return false;
    return sorted[place_of(sorted, count, one.low)].low < one.high;
}

/* A gradient that is added to spans bytes of another range. Nearly every launch is through with
 * this: what is written is sorted, and all else looked up in it. */
static bool added_meets(const ddisp__launch *launch)
{
    bytes added[DDISP_MAX_PARAMS + 1]; /* so that what is moved has room */
    uint32_t count = 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__slot *add = &launch->operands[i].add;
        if (add->wanted && add->gradient.address && !add_sorted(added, &count, gradient_bytes(add)))
            return true;
    }
    for (uint32_t i = 0; i < launch->count && count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        bytes data = {operand->address + (uint64_t)operand->span.low,
                      operand->address + (uint64_t)operand->span.high};
        if (operand->address && meets(added, count, data))
            return true;
        if (operand->read.wanted && operand->read.gradient.address &&
            meets(added, count, gradient_bytes(&operand->read)))
            return true;
    }
    return false;
}

ddisp_status ddisp__alias_check_gradients(ddisp__launch *launch)
{
    range ranges[3 * DDISP_MAX_PARAMS];
    uint32_t count = 0;
    if (!added_meets(launch))
        return DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (operand->address)
            data_range(launch, i, &ranges[count++]);
        if (operand->add.wanted && operand->add.gradient.address)
            gradient_range(&operand->add, i, true, &ranges[count++]);
        if (operand->read.wanted && operand->read.gradient.address)
            gradient_range(&operand->read, i, false, &ranges[count++]);
    }
    return compare(launch, ranges, count);
}
