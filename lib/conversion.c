/*
 * conversion.c - gradients that a code cannot be given as they are. An upstream of another dtype or
 * layout is copied into a dense temporary before the kernel; a gradient that is added to is
 * replaced by a dense temporary whose sum goes into it afterwards. Reasons are found anew for each
 * launch. The temporaries live in stream order.
 */
#include "launch.h"

/* From here on, atomics on one cell cost more than a dense temporary and a reduction. */
#define CROWDED 32

static const ddisp__code *code_of(const ddisp__launch *launch)
{
    return &launch->kernel->codes[launch->plan->code];
}

/* Another wanted add slot of this launch has the same memory. */
static bool shares_cells(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    if (!operand->add.is_shared &&
        (operand->owner == UINT32_MAX || launch->owners[operand->owner].adds == 1))
        return false; /* nearly always */
    for (uint32_t k = 0; k < launch->count; k++) {
        const ddisp__operand *other = &launch->operands[k];
        if (k == i || !other->add.wanted)
            continue;
        if (operand->owner != UINT32_MAX && operand->owner == other->owner &&
            !other->add.is_explicit)
            return true;
        if (operand->add.is_explicit && other->add.is_explicit &&
            operand->add.gradient.address == other->add.gradient.address)
            return true;
    }
    return false;
}

static const char *add_reason(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    const ddisp__gradient *gradient = &operand->add.gradient;
    const ddisp__code *code = code_of(launch);
    const ddisp_code_param *param = &code->params[i];
    bool dense = gradient->layout.dense; /* nearly always: no questions then */
    uint32_t class = dense ? DDISP_LAYOUT_DENSE : ddisp__layout_class(&gradient->layout);
    bool overlaps = !dense && ddisp__layout_self_overlaps(&gradient->layout);
    int64_t stored = overlaps ? ddisp__layout_stored(&gradient->layout) : gradient->layout.numel;
    if (gradient->dtype != ddisp__code_gradient_dtype(code, i, operand->dtype))
        return "converted from the code's gradient dtype";
    if (!(param->grad_layouts & class))
        return "the code does not take the gradient's layout";
    if (param->write_mode != DDISP_WRITE_MODE_ATOMIC_ADD && (overlaps || shares_cells(launch, i)))
        return "several elements add to one cell, and the code does not add atomically";
    if (overlaps && stored > 0 && gradient->layout.numel / stored > CROWDED &&
        !(code->desc.flags & DDISP_CODE_PRE_REDUCES))
        return "many elements add to one cell: reduced after the kernel";
    bool present = operand->add.is_explicit || gradient->buffer;
    if (param->write_mode == DDISP_WRITE_MODE_STORE_ONCE && present &&
        !(launch->options.flags & DDISP_LAUNCH_OVERWRITE))
        return "the code stores, and there is a gradient to add to";
    return NULL;
}

static const char *read_reason(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    const ddisp__gradient *gradient = &operand->read.gradient;
    const ddisp__code *code = code_of(launch);
    if (gradient->dtype != ddisp__code_gradient_dtype(code, i, operand->dtype))
        return "converted to the code's gradient dtype";
    if (!(code->params[i].grad_layouts & ddisp__layout_class(&gradient->layout)))
        return "copied: the code does not take the upstream's layout";
    return NULL;
}

const char *ddisp__conversion_reason(const ddisp__launch *launch, uint32_t i, bool add)
{
    return add ? add_reason(launch, i) : read_reason(launch, i);
}

ddisp_status ddisp__conversion_temporary(ddisp__launch *launch, uint32_t i, ddisp__slot *slot,
                                         bool zero, bool one_element)
{
    ddisp__operand *operand = &launch->operands[i];
    slot->gradient =
        (ddisp__gradient){.dtype = ddisp__code_gradient_dtype(code_of(launch), i, operand->dtype)};
    ddisp__layout_dense(&operand->layout, false, &slot->gradient.layout);
    uint64_t elements = (uint64_t)operand->layout.numel, size_bytes;
    if (one_element && elements > 0) {
        slot->gradient.layout.dense = false;
        for (uint32_t k = 0; k < DDISP_MAX_RANK; k++)
            slot->gradient.layout.strides[k] = 0;
        elements = 1;
    }
    if (__builtin_mul_overflow(elements, ddisp__dtype_size(slot->gradient.dtype), &size_bytes))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_OVERFLOW,
                                  "needs a temporary whose size does not fit in 64 bits");
    ddisp_status status = ddisp__buffer_create_on(launch->stream, size_bytes,
                                                  DDISP__PURPOSE_SCRATCH, &slot->temporary);
    if (!status && zero)
        status = ddisp__buffer_zero(slot->temporary, launch->stream);
    if (status)
        return status;
    slot->gradient.buffer = slot->temporary;
    slot->gradient.address = slot->temporary->memory.address;
    slot->bytes += size_bytes;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__conversion_read(ddisp__launch *launch, uint32_t i)
{
    ddisp__slot *slot = &launch->operands[i].read;
    ddisp__gradient upstream = slot->gradient;
    slot->reason = read_reason(launch, i);
    slot->report_flags |= DDISP_REPORT_SLOT_CONVERTED;
    ddisp_status status = ddisp__conversion_temporary(launch, i, slot, false, false);
    if (!status)
        status = ddisp__elements_accumulate(launch->stream, &slot->gradient, &upstream, 1.0,
                                            DDISP_BACKEND_ACCUMULATE_STORE, 0);
    return status;
}

ddisp_status ddisp__conversion_add(ddisp__launch *launch, uint32_t i, uint32_t operation)
{
    ddisp__slot *slot = &launch->operands[i].add;
    bool store_once = code_of(launch)->params[i].write_mode == DDISP_WRITE_MODE_STORE_ONCE;
    slot->target = slot->gradient;
    slot->operation = operation;
    slot->report_flags |= DDISP_REPORT_SLOT_CONVERTED;
    ddisp_status status = ddisp__conversion_temporary(launch, i, slot, !store_once, false);
    slot->converts = status == DDISP_STATUS_OK;
    return status;
}

ddisp_status ddisp__conversion_finish(ddisp__launch *launch)
{
    uint64_t flags =
        ddisp__launch_deterministic(launch) ? DDISP_BACKEND_ACCUMULATE_DETERMINISTIC : 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__slot *slot = &launch->operands[i].add;
        if (!slot->converts)
            continue;
        ddisp_status status =
            slot->backing == DDISP_BACKING_SHADOW
                ? ddisp__shadow_fold(launch, i)
                : ddisp__elements_accumulate(launch->stream, &slot->target, &slot->gradient, 1.0,
                                             slot->operation, flags);
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}
