/*
 * snapshot.c - the first look at the gradients of a backward launch: which inputs require one,
 * which upstreams are there, and whether anything has to run at all. The tensors that store
 * gradients (owners) are locked here, in address order, and stay locked until the kernel was
 * queued, so that a gradient is made once however many threads arrive.
 */
#include "capture.h"

#include <string.h>

ddisp_status ddisp__gradient_precheck(ddisp__launch *launch)
{
    bool any = false;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        any |= operand->add.wanted;
        if (operand->add.exists && !operand->add.wanted &&
            operand->add.policy == DDISP_POLICY_REJECT)
            return ddisp__launch_fail(
                launch, i, DDISP_STATUS_GRADIENT_REJECTED,
                "does not require a gradient, and policy reject forbids frozen inputs");
    }
    if (!any)
        launch->skip = DDISP_SKIP_NO_GRADIENT;
    return DDISP_STATUS_OK;
}

/* First place in sorted tensors whose tensor is not below; count when there is none. */
static uint32_t place_of(ddisp_tensor *const *sorted, uint32_t count, const ddisp_tensor *tensor)
{
    uint32_t first = 0;
    while (first < count) {
        uint32_t middle = (first + count) / 2;
        if (sorted[middle] < tensor)
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

/* Adds a tensor to the sorted ones, once. Most come in the order of their addresses. */
static uint32_t add_sorted(ddisp_tensor **sorted, uint32_t count, ddisp_tensor *tensor)
{
    uint32_t at = count;
    if (count && sorted[count - 1] >= tensor)
        at = place_of(sorted, count, tensor);
    if (at < count && sorted[at] == tensor)
        return count;
    memmove(&sorted[at + 1], &sorted[at], (count - at) * sizeof *sorted);
    sorted[at] = tensor;
    return count + 1;
}

static bool is_stored(const ddisp__operand *operand)
{
    return operand->tensor && (operand->flags & DDISP_TENSOR_REQUIRES_GRAD) &&
           ((operand->add.wanted && !operand->add.is_explicit) ||
            (operand->read.exists && !operand->read.is_explicit));
}

/* An owner is large: layouts of gradients are read only where there is a buffer. */
static void lock_owner(ddisp__owner *owner, ddisp_tensor *tensor)
{
    owner->tensor = tensor;
    owner->adds = 0;
    owner->taken = false;
    owner->fresh.buffer = owner->dropped = NULL;
    pthread_mutex_lock(&tensor->lock);
}

static void lock_owners(ddisp__launch *launch)
{
    ddisp_tensor *sorted[DDISP_MAX_PARAMS + 1]; /* so that what is moved has room */
    uint32_t count = 0;
    for (uint32_t i = 0; i < launch->count; i++)
        if (is_stored(&launch->operands[i]))
            count = add_sorted(sorted, count, ddisp__tensor_owner(launch->operands[i].tensor));
    for (uint32_t k = 0; k < count; k++)
        lock_owner(&launch->owners[k], sorted[k]);
    launch->owner_count = count;
    launch->locked = true;
    for (uint32_t i = 0, next = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        ddisp_tensor *tensor = operand->tensor ? ddisp__tensor_owner(operand->tensor) : NULL;
        uint32_t k =
            next < count && sorted[next] == tensor ? next : place_of(sorted, count, tensor);
        if (k == count || sorted[k] != tensor)
            continue;
        operand->owner = k;
        launch->owners[k].adds += operand->add.wanted;
        next = k + 1;
    }
}

static ddisp_status part_of(ddisp__launch *launch, uint32_t i, ddisp__gradient *out_part)
{
    ddisp__operand *operand = &launch->operands[i];
    const ddisp__gradient *stored = &launch->owners[operand->owner].tensor->gradient;
    ddisp_status status = ddisp__tensor_gradient_part(operand->tensor, stored, out_part);
    if (status) {
        ddisp_error error = *ddisp__error();
        return ddisp__launch_fail(launch, i, status, "%s", error.message);
    }
    return DDISP_STATUS_OK;
}

static ddisp_status look_at_read(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__slot *slot = &operand->read;
    if (!slot->exists || slot->is_explicit)
        return DDISP_STATUS_OK;
    slot->report_flags = 0; /* a second look after a plan was built starts afresh */
    slot->wanted =
        operand->owner != UINT32_MAX && launch->owners[operand->owner].tensor->gradient.buffer;
    if (!slot->wanted)
        return DDISP_STATUS_OK;
    if (!(launch->options.flags & DDISP_LAUNCH_KEEP_UPSTREAM)) {
        slot->report_flags |= DDISP_REPORT_SLOT_TAKEN;
        if (!operand->tensor->root)
            launch->owners[operand->owner].taken = true;
    }
    return part_of(launch, i, &slot->gradient);
}

/* The gradient an input's slot adds to: stored, or the one that would be made (address 0). */
static ddisp_status look_at_add(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__slot *slot = &operand->add;
    if (!slot->wanted || slot->is_explicit)
        return DDISP_STATUS_OK;
    if (!operand->tensor) { /* a described tensor stores nothing: check_stored refuses */
        ddisp__layout_dense(&operand->layout, true, &slot->gradient.layout);
        slot->gradient.dtype = ddisp__dtype_gradient(operand->dtype, false);
        return DDISP_STATUS_OK;
    }
    const ddisp__owner *owner = &launch->owners[operand->owner];
    if (owner->tensor->gradient.buffer && !owner->taken) {
        if (owner->tensor->gradient.read_only)
            return ddisp__launch_fail(launch, i, DDISP_STATUS_READ_ONLY,
                                      "has a read-only gradient");
        return part_of(launch, i, &slot->gradient);
    }
    bool same = (operand->flags & DDISP_TENSOR_GRAD_SAME_DTYPE) != 0;
    slot->gradient = (ddisp__gradient){.dtype = ddisp__dtype_gradient(operand->dtype, same)};
    if (operand->tensor->root)
        slot->gradient.layout = operand->layout;
    else
        ddisp__tensor_gradient_layout(operand->tensor, &slot->gradient.layout);
    return DDISP_STATUS_OK;
}

static ddisp_status check_upstreams(ddisp__launch *launch)
{
    bool any = false;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (!operand->read.exists)
            continue;
        any |= operand->read.wanted;
        if (!operand->read.wanted && !(launch->options.flags & DDISP_LAUNCH_ZERO_UPSTREAM))
            return ddisp__launch_fail(launch, i, DDISP_STATUS_MISSING_GRADIENT,
                                      "has no upstream gradient: %s, or pass "
                                      "DDISP_LAUNCH_ZERO_UPSTREAM to count it as zero",
                                      operand->flags & DDISP_TENSOR_REQUIRES_GRAD
                                          ? "set one with ddisp_tensor_set_grad"
                                          : "make the tensor require one and set it");
    }
    if (!any)
        launch->skip = DDISP_SKIP_ZERO_UPSTREAM;
    else if (launch->items == 0)
        launch->skip = DDISP_SKIP_NO_ITEMS;
    return DDISP_STATUS_OK;
}

/* Gradients that are not there can be made, for a tensor that can store them. */
static ddisp_status check_stored(ddisp__launch *launch)
{
    bool no_alloc = (launch->options.flags & DDISP_LAUNCH_NO_ALLOC) != 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (!operand->add.wanted || operand->add.is_explicit || operand->add.gradient.buffer)
            continue;
        if (!operand->tensor)
            return ddisp__launch_fail(launch, i, DDISP_STATUS_MISSING_GRADIENT,
                                      "is a view that requires a gradient, and grad_add is 0: a "
                                      "view stores none, so say where to add");
        if (no_alloc)
            return ddisp__launch_fail(
                launch, i, DDISP_STATUS_MISSING_GRADIENT,
                "has no gradient yet, and DDISP_LAUNCH_NO_ALLOC forbids making one");
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__gradient_snapshot(ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    lock_owners(launch);
    for (uint32_t k = 0; k < launch->owner_count && launch->stream->capture && !status; k++)
        status = ddisp__capture_owner(launch->stream->capture, launch, launch->owners[k].tensor);
    for (uint32_t i = 0; i < launch->count && !status; i++)
        status = look_at_read(launch, i);
    if (launch->skip == DDISP_SKIP_NO_GRADIENT)
        return status;
    for (uint32_t i = 0; i < launch->count && !status; i++)
        status = look_at_add(launch, i);
    if (!status)
        status = check_upstreams(launch);
    if (!status && !launch->skip)
        status = check_stored(launch);
    if (!status && !launch->skip)
        status = ddisp__alias_check_gradients(launch);
    return status;
}
