/*
 * gradient.c - the gradients of a backward launch, from first look to commit. The tensors that
 * store them (owners) are locked from the snapshot until the kernel was queued, in address order,
 * so that a gradient is made once however many threads arrive. What a launch makes is stored only
 * after the driver took the launch: a failure leaves nothing.
 *
 * Backward takes the stored gradients of outputs, then adds to those of inputs; adding to an empty
 * one overwrites.
 */
#include "launch.h"

static ddisp_status zero_bytes(ddisp__launch *launch, const ddisp__gradient *gradient,
                               uint64_t address, uint64_t size_bytes)
{
    ddisp_device *device = launch->device;
    ddisp_backend_range range = {.handle =
                                     gradient->buffer ? gradient->buffer->memory.handle : NULL,
                                 .address = address,
                                 .size_bytes = size_bytes};
    uint32_t word = (address | size_bytes) % 4 == 0 ? 4 : ddisp_dtype_size(gradient->dtype);
    pthread_mutex_lock(&launch->stream->lock);
    ddisp_status status =
        device->table->fill(device->handle, launch->stream->handle, &range, 0, word);
    pthread_mutex_unlock(&launch->stream->lock);
    ddisp__device_count_fill(device);
    return ddisp__device_result(device, status);
}

/* Zeroes the elements of a gradient and nothing between them, run by contiguous run. */
static ddisp_status zero_elements(ddisp__launch *launch, const ddisp__gradient *gradient)
{
    const ddisp__layout *layout = &gradient->layout;
    int64_t size = (int64_t)ddisp_dtype_size(gradient->dtype);
    if (layout->numel == 0)
        return DDISP_STATUS_OK;
    int64_t run = 1;
    uint32_t outer = layout->rank; /* axes 0 to outer - 1 are walked */
    while (outer > 0 && (layout->strides[outer - 1] == run || layout->shape[outer - 1] == 1 ||
                         layout->strides[outer - 1] == 0)) {
        outer--;
        if (layout->strides[outer] != 0)
            run *= layout->shape[outer];
    }
    int64_t index[DDISP_MAX_RANK] = {0};
    for (;;) {
        int64_t element = 0;
        for (uint32_t i = 0; i < outer; i++)
            element += index[i] * layout->strides[i];
        ddisp_status status =
            zero_bytes(launch, gradient, gradient->address + (uint64_t)(element * size),
                       (uint64_t)(run * size));
        if (status)
            return status;
        uint32_t i = outer;
        for (; i-- > 0;) {
            if (layout->strides[i] != 0 && ++index[i] < layout->shape[i])
                break;
            index[i] = 0;
        }
        if (i == UINT32_MAX)
            return DDISP_STATUS_OK;
    }
}

static const ddisp_code_param *code_param(const ddisp__launch *launch, uint32_t i)
{
    return &launch->kernel->codes[launch->plan->code].params[i];
}

/* The code stores every element of this slot's gradient, which belongs to no other slot: no fill is
 * needed. */
static bool stores_all(const ddisp__launch *launch, uint32_t i)
{
    if (code_param(launch, i)->write_mode != DDISP_WRITE_MODE_STORE_ONCE)
        return false;
    const ddisp__operand *operand = &launch->operands[i];
    if (operand->tensor && operand->tensor->root)
        return false;
    for (uint32_t k = 0; k < launch->count; k++)
        if (k != i && launch->operands[k].add.wanted && operand->owner != UINT32_MAX &&
            launch->operands[k].owner == operand->owner)
            return false;
    return true;
}

static ddisp_status prepare_fresh(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__owner *owner = &launch->owners[operand->owner];
    if (!owner->fresh.buffer) {
        bool zero = !stores_all(launch, i);
        ddisp_status status =
            ddisp__tensor_gradient_make(owner->tensor, launch->stream, zero, &owner->fresh);
        if (status)
            return status;
        operand->add.bytes = owner->fresh.buffer->memory.size_bytes;
        operand->add.report_flags |= DDISP_REPORT_SLOT_MADE | (zero ? DDISP_REPORT_SLOT_FILLED : 0);
    }
    return ddisp__tensor_gradient_part(operand->tensor, &owner->fresh, &operand->add.gradient);
}

static ddisp_status prepare_real(ddisp__launch *launch, uint32_t i)
{
    ddisp__slot *slot = &launch->operands[i].add;
    bool store_once = code_param(launch, i)->write_mode == DDISP_WRITE_MODE_STORE_ONCE;
    bool overwrite = (launch->options.flags & DDISP_LAUNCH_OVERWRITE) != 0;
    if (!slot->is_explicit && !slot->gradient.buffer)
        return prepare_fresh(launch, i);
    if (slot->gradient.buffer) {
        ddisp_status status = ddisp__buffer_use(slot->gradient.buffer, launch->stream);
        if (status)
            return status;
    }
    if (store_once && !overwrite)
        return ddisp__launch_fail(
            launch, i, DDISP_STATUS_UNSUPPORTED,
            "has a gradient already, and the code stores instead of adding; clear it or "
            "pass DDISP_LAUNCH_OVERWRITE");
    if (!overwrite || stores_all(launch, i))
        return DDISP_STATUS_OK;
    for (uint32_t k = 0; k < i; k++) /* an identical slot was filled already */
        if (launch->operands[k].add.wanted &&
            launch->operands[k].add.gradient.address == slot->gradient.address)
            return DDISP_STATUS_OK;
    slot->report_flags |= DDISP_REPORT_SLOT_FILLED;
    return zero_elements(launch, &slot->gradient);
}

/* A zeroed temporary of the operand's shape: dense, or one repeated element for read-only zeros. */
static ddisp_status prepare_temporary(ddisp__launch *launch, uint32_t i, ddisp__slot *slot,
                                      bool one_element)
{
    ddisp__operand *operand = &launch->operands[i];
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    slot->gradient =
        (ddisp__gradient){.dtype = ddisp__code_gradient_dtype(code, i, operand->dtype)};
    ddisp__layout_dense(&operand->layout, false, &slot->gradient.layout);
    uint64_t elements = (uint64_t)operand->layout.numel;
    if (one_element && operand->layout.numel > 0) {
        for (uint32_t k = 0; k < DDISP_MAX_RANK; k++)
            slot->gradient.layout.strides[k] = 0;
        elements = 1;
    }
    uint64_t size = ddisp_dtype_size(slot->gradient.dtype);
    if (elements > UINT64_MAX / size)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_OVERFLOW,
                                  "needs a temporary of more than 64 bits of bytes");
    ddisp_status status = ddisp__buffer_create_on(launch->stream, elements * size,
                                                  DDISP__PURPOSE_SCRATCH, &slot->temporary);
    if (!status)
        status = ddisp__buffer_zero(slot->temporary, launch->stream);
    if (status)
        return status;
    slot->gradient.address = slot->temporary->memory.address;
    slot->bytes = elements * size;
    slot->report_flags |= DDISP_REPORT_SLOT_FILLED;
    return DDISP_STATUS_OK;
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
    uint64_t size_bytes = (uint64_t)stored->layout.numel * ddisp_dtype_size(stored->dtype);
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
    if (operand->add.backing == DDISP_BACKING_REAL)
        status = prepare_real(launch, i);
    else if (operand->add.backing == DDISP_BACKING_SCRATCH)
        status = prepare_temporary(launch, i, &operand->add, false);
    if (status)
        return status;
    if (operand->read.backing == DDISP_BACKING_REAL && operand->read.gradient.buffer)
        status = ddisp__buffer_use(operand->read.gradient.buffer, launch->stream);
    else if (operand->read.backing == DDISP_BACKING_ZERO)
        status =
            prepare_temporary(launch, i, &operand->read,
                              (code_param(launch, i)->grad_layouts & DDISP_LAYOUT_BROADCAST) != 0);
    if (!status && takes_view(operand))
        status = prepare_taken_view(launch, i);
    return status;
}

ddisp_status ddisp__gradient_prepare(ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count && !status; i++)
        if (launch->operands[i].param->kind == DDISP_PARAM_KIND_TENSOR)
            status = prepare_operand(launch, i);
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
        uint64_t size_bytes = (uint64_t)stored->layout.numel * ddisp_dtype_size(stored->dtype);
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
    return status ? status : zero_elements(launch, &part);
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
            status = zero_elements(launch, &slot->gradient);
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
    if (launch->skip && launch->skip != DDISP_SKIP_NO_GRADIENT && overwrite)
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
        owner->tensor->gradient = owner->fresh;
        owner->fresh = (ddisp__gradient){0};
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
        ddisp_buffer_release(launch->owners[k].fresh.buffer);
        ddisp_buffer_release(launch->owners[k].dropped);
        launch->owners[k].fresh = (ddisp__gradient){0};
        launch->owners[k].dropped = NULL;
    }
    launch->owner_count = 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp_buffer_release(launch->operands[i].add.temporary);
        ddisp_buffer_release(launch->operands[i].read.temporary);
        launch->operands[i].add.temporary = launch->operands[i].read.temporary = NULL;
    }
}
