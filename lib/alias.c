/*
 * alias.c - no range that a launch writes may overlap another of its ranges, except that two add
 * slots may be one and the same. Verdicts are computed for each launch from addresses and layouts;
 * nothing is remembered.
 */
#include "launch.h"

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
static range spanned(range r)
{
    if (!r.address)
        return r;
    ddisp__span span = ddisp__layout_span(r.layout, r.element_size);
    r.low = r.address + (uint64_t)span.low;
    r.high = r.address + (uint64_t)span.high;
    return r;
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

static range data_range(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    return spanned((range){.address = operand->address,
                           .layout = &operand->layout,
                           .element_size = ddisp_dtype_size(operand->dtype),
                           .argument = i,
                           .what = "data",
                           .writes = launch->mode == DDISP_MODE_FORWARD &&
                                     operand->param->kind == DDISP_PARAM_KIND_TENSOR &&
                                     (operand->param->access & DDISP_ACCESS_OUT)});
}

ddisp_status ddisp__alias_check_data(ddisp__launch *launch)
{
    range ranges[DDISP_MAX_PARAMS];
    bool any_written = false;
    for (uint32_t i = 0; i < launch->count; i++) {
        ranges[i] = data_range(launch, i);
        any_written |= ranges[i].writes;
        if (ranges[i].writes && ddisp__layout_self_overlaps(ranges[i].layout))
            return ddisp__launch_fail(launch, i, DDISP_STATUS_ALIASED,
                                      "is written, and several of its elements share memory");
    }
    return any_written ? compare(launch, ranges, launch->count) : DDISP_STATUS_OK;
}

ddisp_status ddisp__alias_check_gradients(ddisp__launch *launch)
{
    range ranges[3 * DDISP_MAX_PARAMS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (operand->address)
            ranges[count++] = data_range(launch, i);
        if (operand->add.wanted && operand->add.gradient.address)
            ranges[count++] =
                spanned((range){.address = operand->add.gradient.address,
                                .layout = &operand->add.gradient.layout,
                                .element_size = ddisp_dtype_size(operand->add.gradient.dtype),
                                .argument = i,
                                .what = "the gradient added to",
                                .writes = true,
                                .add = true});
        if (operand->read.wanted && operand->read.gradient.address)
            ranges[count++] =
                spanned((range){.address = operand->read.gradient.address,
                                .layout = &operand->read.gradient.layout,
                                .element_size = ddisp_dtype_size(operand->read.gradient.dtype),
                                .argument = i,
                                .what = "the upstream gradient"});
    }
    return compare(launch, ranges, count);
}
