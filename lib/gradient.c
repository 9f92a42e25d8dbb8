/*
 * gradient.c - the gradients of a backward launch, from first look to commit. The tensors that
 * store them (owners) are locked from the snapshot until the kernel was queued, in address order,
 * so that a gradient is made once however many threads arrive. What a launch makes is stored only
 * after the driver took the launch: a failure leaves nothing.
 *
 * Backward takes the stored gradients of outputs, then adds to those of inputs; adding to an empty
 * one overwrites.
 */
#include "capture.h"

static const ddisp_code_param *code_param(const ddisp__launch *launch, uint32_t i)
{
    return &launch->kernel->codes[launch->plan->code].params[i];
}

static ddisp_status use(const ddisp__launch *launch, ddisp_buffer *buffer)
{
    return ddisp__buffer_noted(buffer, launch->stream) ? DDISP_STATUS_OK
                                                       : ddisp__buffer_use(buffer, launch->stream);
}

/* The slot alone adds to the whole of its gradient, so a result may be stored instead of added. */
static bool sole(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    if (operand->tensor && operand->tensor->root)
        return false;
    if (!operand->add.is_shared &&
        (operand->owner == UINT32_MAX || launch->owners[operand->owner].adds == 1))
        return true; /* nearly always */
    for (uint32_t k = 0; k < launch->count; k++) {
        const ddisp__operand *other = &launch->operands[k];
        if (k == i || !other->add.wanted)
            continue;
        if (operand->owner != UINT32_MAX && other->owner == operand->owner)
            return false;
        const ddisp__gradient *real =
            other->add.converts ? &other->add.target : &other->add.gradient;
        if (real->address && real->address == operand->add.gradient.address)
            return false;
    }
    return true;
}

/* Whether what was in the gradient does not matter: every element is stored by the kernel or by a
 * conversion. */
static bool needs_no_fill(const ddisp__launch *launch, uint32_t i, bool converts)
{
    const ddisp__operand *operand = &launch->operands[i];
    if (!sole(launch, i))
        return false;
    if (converts)
        return !ddisp__layout_self_overlaps(&operand->add.gradient.layout);
    return code_param(launch, i)->write_mode == DDISP_WRITE_MODE_STORE_ONCE;
}

static ddisp_status prepare_fresh(ddisp__launch *launch, uint32_t i, bool zero)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__owner *owner = &launch->owners[operand->owner];
    if (!owner->fresh.buffer) {
        ddisp_status status =
            ddisp__tensor_gradient_make(owner->tensor, launch->stream, zero, &owner->fresh);
        if (status)
            return status;
        operand->add.bytes = owner->fresh.buffer->memory.size_bytes;
        operand->add.report_flags |= DDISP_REPORT_SLOT_MADE | (zero ? DDISP_REPORT_SLOT_FILLED : 0);
    }
    return ddisp__tensor_gradient_part(operand->tensor, &owner->fresh, &operand->add.gradient);
}

/* An overwritten gradient is zeroed, once for identical slots. */
static ddisp_status prepare_overwrite(ddisp__launch *launch, uint32_t i)
{
    ddisp__slot *slot = &launch->operands[i].add;
    for (uint32_t k = 0; k < i && slot->is_shared; k++) {
        const ddisp__slot *other = &launch->operands[k].add;
        const ddisp__gradient *real = other->converts ? &other->target : &other->gradient;
        if (other->wanted && real->address == slot->gradient.address)
            return DDISP_STATUS_OK;
    }
    slot->report_flags |= DDISP_REPORT_SLOT_FILLED;
    return ddisp__elements_zero(launch->stream, &slot->gradient);
}

static ddisp_status prepare_real(ddisp__launch *launch, uint32_t i)
{
    ddisp__slot *slot = &launch->operands[i].add;
    bool present = slot->is_explicit || slot->gradient.buffer;
    bool overwrite = (launch->options.flags & DDISP_LAUNCH_OVERWRITE) != 0;
    bool shadow = slot->backing == DDISP_BACKING_SHADOW;
    const char *reason = shadow ? slot->reason : ddisp__conversion_reason(launch, i, true);
    bool keep = present && !overwrite, fill = !keep && !needs_no_fill(launch, i, reason != NULL);
    ddisp_status status = DDISP_STATUS_OK;
    if (slot->gradient.buffer)
        status = use(launch, slot->gradient.buffer);
    else if (!present)
        status = prepare_fresh(launch, i, fill);
    if (!status && present && fill)
        status = prepare_overwrite(launch, i);
    if (status || !reason)
        return status;
    uint32_t operation =
        keep || fill ? DDISP_BACKEND_ACCUMULATE_ADD : DDISP_BACKEND_ACCUMULATE_STORE;
    slot->reason = reason;
    return shadow ? ddisp__shadow_make(launch, i, operation)
                  : ddisp__conversion_add(launch, i, operation);
}

/* The sink, or scratch where AUTO finds it too small. */
static ddisp_status prepare_sink(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__slot *slot = &operand->add;
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    uint64_t flags = code->info.flags & DDISP_BACKEND_CODE_COMPARE_AND_SWAP
                         ? DDISP_BACKEND_SINK_COMPARE_AND_SWAP
                         : 0;
    slot->gradient =
        (ddisp__gradient){.dtype = ddisp__code_gradient_dtype(code, i, operand->dtype)};
    ddisp__layout_dense(&operand->layout, false, &slot->gradient.layout);
    uint64_t size_bytes, grown = 0;
    if (operand->layout.numel == 0)
        return DDISP_STATUS_OK;
    if (__builtin_mul_overflow((uint64_t)operand->layout.numel,
                               ddisp__dtype_size(slot->gradient.dtype), &size_bytes))
        size_bytes = UINT64_MAX;
    ddisp_status status =
        ddisp__sink_use(launch->device, launch->stream, size_bytes, flags, &slot->sink, &grown);
    bool lacking =
        status == DDISP_STATUS_OUT_OF_DEVICE_MEMORY || status == DDISP_STATUS_UNSUPPORTED;
    if (lacking && slot->policy == DDISP_POLICY_AUTO) {
        slot->backing = DDISP_BACKING_SCRATCH;
        slot->reason = status == DDISP_STATUS_UNSUPPORTED ? "the sink is not for this code"
                                                          : "larger than the device's sink";
        return ddisp__conversion_temporary(launch, i, slot, true, false);
    }
    if (!status && launch->stream->capture)
        status = ddisp__capture_sink(launch->stream->capture);
    slot->bytes = grown;
    slot->gradient.address = slot->sink.address;
    return status;
}

/* Memory for the copy that replaces a caller's gradient of a base whose view is taken; filled by
 * the commit. */
static ddisp_status prepare_taken_view(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__owner *owner = &launch->owners[operand->owner];
    const ddisp__gradient *stored = &owner->tensor->gradient;
    if (!stored->from_caller || owner->fresh.buffer || owner->taken)
        return DDISP_STATUS_OK;
    uint64_t size_bytes = (uint64_t)stored->layout.numel * ddisp__dtype_size(stored->dtype);
    ddisp_buffer *buffer;
    ddisp_status status =
        ddisp__buffer_create_on(launch->stream, size_bytes, DDISP__PURPOSE_GRADIENT, &buffer);
    if (status)
        return status;
    owner->fresh = *stored;
    owner->fresh.buffer = buffer;
    owner->fresh.address = buffer->memory.address;
    owner->fresh.from_caller = owner->fresh.read_only = false;
    return DDISP_STATUS_OK;
}

static bool takes_view(const ddisp__operand *operand)
{
    return operand->read.wanted && !operand->read.is_explicit && operand->tensor->root &&
           (operand->read.report_flags & DDISP_REPORT_SLOT_TAKEN);
}

static ddisp_status prepare_operand(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp_status status = DDISP_STATUS_OK;
    operand->add.backing = launch->plan->add[i];
    operand->add.reason = launch->plan->add_reason[i];
    operand->read.backing = launch->plan->read[i];
    operand->read.reason = launch->plan->read_reason[i];
    if (operand->add.backing == DDISP_BACKING_SCRATCH)
        status = ddisp__conversion_temporary(launch, i, &operand->add, true, false);
    else if (operand->add.backing == DDISP_BACKING_SINK)
        status = prepare_sink(launch, i);
    if (status)
        return status;
    if (operand->read.backing == DDISP_BACKING_REAL && operand->read.gradient.buffer)
        status = use(launch, operand->read.gradient.buffer);
    if (!status && operand->read.backing == DDISP_BACKING_REAL &&
        ddisp__conversion_reason(launch, i, false))
        status = ddisp__conversion_read(launch, i);
    else if (!status && operand->read.backing == DDISP_BACKING_ZERO)
        status = ddisp__conversion_temporary(
            launch, i, &operand->read, true,
            (code_param(launch, i)->grad_layouts & DDISP_LAYOUT_BROADCAST) != 0);
    if (!status && takes_view(operand))
        status = prepare_taken_view(launch, i);
    return status;
}

ddisp_status ddisp__gradient_prepare(ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    if (launch->mode != DDISP_MODE_BACKWARD) /* there are no slots */
        return DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count && !status; i++)
        if (launch->operands[i].param->kind == DDISP_PARAM_KIND_TENSOR)
            status = prepare_operand(launch, i);
    if (!status && ddisp__launch_deterministic(launch))
        status = ddisp__shadow_bounds(launch);
    for (uint32_t i = 0; i < launch->count && !status; i++) {
        ddisp_backing backing = launch->operands[i].add.backing;
        if (backing == DDISP_BACKING_REAL || backing == DDISP_BACKING_SHADOW)
            status = prepare_real(launch, i);
    }
    return status;
}

/* The viewed elements become zero in the base's gradient, or in a copy when that memory is the
 * caller's. */
static ddisp_status take_view(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__owner *owner = &launch->owners[operand->owner];
    ddisp__gradient part;
    if (owner->taken)
        return DDISP_STATUS_OK;
    const ddisp__gradient *target = &owner->tensor->gradient;
    if (owner->fresh.buffer) {
        target = &owner->fresh;
        const ddisp__gradient *stored = &owner->tensor->gradient;
        uint64_t size_bytes = (uint64_t)stored->layout.numel * ddisp__dtype_size(stored->dtype);
        ddisp_backend_range to = {target->buffer->memory.handle, target->address, size_bytes};
        ddisp_backend_range from = {stored->buffer->memory.handle, stored->address, size_bytes};
        pthread_mutex_lock(&launch->stream->lock);
        ddisp_status status =
            launch->device->table->copy(launch->device->handle, launch->stream->handle, &to, &from);
        pthread_mutex_unlock(&launch->stream->lock);
        status = ddisp__device_result(launch->device, status);
        if (status)
            return status;
    }
    ddisp_status status = ddisp__tensor_gradient_part(operand->tensor, target, &part);
    return status ? status : ddisp__elements_zero(launch->stream, &part);
}

/* Nothing was launched, yet an overwritten gradient counts as empty: what is left of it is zero. */
static ddisp_status overwrite_skipped(ddisp__launch *launch)
{
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        ddisp__slot *slot = &operand->add;
        ddisp_status status = DDISP_STATUS_OK;
        if (!slot->wanted)
            continue;
        if (slot->is_explicit || (operand->tensor->root && slot->gradient.buffer))
            status = ddisp__elements_zero(launch->stream, &slot->gradient);
        else if (!operand->tensor->root)
            launch->owners[operand->owner].taken = true;
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__gradient_commit(ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    bool overwrite = (launch->options.flags & DDISP_LAUNCH_OVERWRITE) != 0;
    if (!launch->skip)
        status = ddisp__conversion_finish(launch);
    if (!status && launch->skip && launch->skip != DDISP_SKIP_NO_GRADIENT && overwrite)
        status = overwrite_skipped(launch);
    for (uint32_t i = 0; i < launch->count && !status; i++) {
        if (!takes_view(&launch->operands[i]))
            continue;
        if (launch->skip)
            status = prepare_taken_view(launch, i);
        if (!status)
            status = take_view(launch, i);
    }
    for (uint32_t k = 0; k < launch->owner_count; k++) {
        ddisp__owner *owner = &launch->owners[k];
        if (!owner->fresh.buffer && !owner->taken)
            continue;
        owner->dropped = owner->tensor->gradient.buffer;
        if (owner->fresh.buffer)
            owner->tensor->gradient = owner->fresh;
        else
            owner->tensor->gradient = (ddisp__gradient){0};
        ddisp__tensor_changed(owner->tensor);
        owner->fresh.buffer = NULL;
    }
    return status;
}

void ddisp__gradient_finish(ddisp__launch *launch)
{
    if (launch->locked)
        for (uint32_t k = launch->owner_count; k-- > 0;)
            pthread_mutex_unlock(&launch->owners[k].tensor->lock);
    launch->locked = false;
    for (uint32_t k = 0; k < launch->owner_count; k++) {
        ddisp__owner *owner = &launch->owners[k];
        if (owner->fresh.buffer)
            ddisp_buffer_release(owner->fresh.buffer);
        if (owner->dropped)
            ddisp_buffer_release(owner->dropped);
        owner->fresh.buffer = owner->dropped = NULL;
    }
    launch->owner_count = 0;
    for (uint32_t i = 0; i < launch->count && launch->mode == DDISP_MODE_BACKWARD; i++) {
        ddisp__operand *operand = &launch->operands[i];
        if (operand->add.temporary)
            ddisp_buffer_release(operand->add.temporary);
        if (operand->read.temporary)
            ddisp_buffer_release(operand->read.temporary);
        operand->add.temporary = operand->read.temporary = NULL;
    }
}
