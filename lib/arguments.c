/*
 * arguments.c - what the caller gave a launch, checked against the kernel's declaration and
 * resolved into operands: one address, dtype, layout and requires_grad per tensor, whether it came
 * as a handle or as a view. Reads caller memory; changes nothing.
 */
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

ddisp_status ddisp__launch_fail(const ddisp__launch *launch, uint32_t argument, ddisp_status status,
                                const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name =
        argument < launch->kernel->param_count ? launch->kernel->params[argument].name : "?";
    return ddisp__fail_argument(status, (int32_t)argument,
                                "launch %s: parameter '%s' (argument %u) %s", launch->kernel->name,
                                name, argument, text);
}

static void reset_slot(ddisp__slot *slot)
{
    memset(slot, 0, offsetof(ddisp__slot, gradient));
    slot->gradient.buffer = NULL;
    slot->gradient.address = 0;
    slot->gradient.dtype = DDISP_DTYPE_ANY;
}

/* An operand is large: what is set before it is read stays as it is. */
static void reset(ddisp__operand *operand)
{
    operand->tensor = NULL;
    operand->tensor_id = operand->version = 0;
    operand->buffer = NULL;
    operand->address = operand->flags = operand->scalar = 0;
    operand->dtype = DDISP_DTYPE_ANY;
    operand->layout.rank = 0;
    operand->layout.numel = 0;
    operand->span = (ddisp__span){0, 0};
    operand->owner = UINT32_MAX;
    operand->alias = 0;
    reset_slot(&operand->add);
    reset_slot(&operand->read);
}

static ddisp_status resolve_scalar(ddisp__launch *launch, uint32_t i, const ddisp_arg *arg)
{
    ddisp__operand *operand = &launch->operands[i];
    uint32_t wants = ddisp__dtype_size(operand->param->dtype);
    if (arg->tensor || arg->view)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "is a scalar, not a tensor");
    if (!arg->scalar)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "has no value: scalar is NULL");
    if (arg->scalar_size != wants)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "is given %u bytes, a %s has %u", arg->scalar_size,
                                  ddisp_dtype_name(operand->param->dtype), wants);
    if (arg->grad_add || arg->grad_read)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "is a scalar and has no gradient");
    memcpy(&operand->scalar, arg->scalar, wants);
    operand->dtype = operand->param->dtype;
    return DDISP_STATUS_OK;
}

static ddisp_status take_device(ddisp__launch *launch, uint32_t i, ddisp_device *device)
{
    if (!launch->device)
        launch->device = device;
    if (launch->device == device)
        return DDISP_STATUS_OK;
    return ddisp__launch_fail(launch, i, DDISP_STATUS_DEVICE_MISMATCH,
                              "is on %s, the launch is on %s", device->info.spec,
                              launch->device->info.spec);
}

/* Version before flags, so that it is never later than what was seen. */
static uint64_t flags_of(ddisp_tensor *tensor, uint64_t *out_version)
{
    *out_version =
        atomic_load_explicit(&ddisp__tensor_owner(tensor)->version, memory_order_acquire);
    uint64_t flags = atomic_load_explicit(&tensor->flags, memory_order_relaxed);
    flags &= ~DDISP_TENSOR_REQUIRES_GRAD;
    return flags | (ddisp__tensor_requires_grad(tensor) ? DDISP_TENSOR_REQUIRES_GRAD : 0);
}

static ddisp_status resolve_tensor(ddisp__launch *launch, uint32_t i, ddisp_tensor *tensor)
{
    ddisp__operand *operand = &launch->operands[i];
    operand->tensor = tensor;
    operand->tensor_id = tensor->id;
    operand->buffer = tensor->buffer;
    operand->address = tensor->address;
    operand->dtype = tensor->dtype;
    operand->layout = tensor->layout;
    operand->flags = flags_of(tensor, &operand->version);
    return take_device(launch, i, tensor->buffer->device);
}

static ddisp_status resolve_view(ddisp__launch *launch, uint32_t i, const ddisp_tensor_view *caller)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp_tensor_view view;
    ddisp_status status = ddisp__struct_read("view", caller, sizeof view, sizeof view, &view);
    if (!status)
        status = ddisp__layout_make("view", view.dtype, view.rank, view.shape, view.strides,
                                    &operand->layout);
    if (status) {
        ddisp_error error = *ddisp__error();
        return ddisp__fail_argument(status, (int32_t)i,
                                    "launch %s: parameter '%s' (argument %u): %s",
                                    launch->kernel->name, operand->param->name, i, error.message);
    }
    if (view.flags & ~(DDISP_VIEW_REQUIRES_GRAD | DDISP_VIEW_READ_ONLY))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "view: unknown flags 0x%" PRIx64, view.flags);
    if ((view.flags & DDISP_VIEW_REQUIRES_GRAD) && !ddisp__dtype_differentiable(view.dtype))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "view: a %s tensor cannot require a gradient",
                                  ddisp_dtype_name(view.dtype));
    if (operand->layout.numel && !view.address)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT, "view: address is 0");
    if (view.address % ddisp__dtype_size(view.dtype))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "view: address 0x%" PRIx64 " is not a multiple of %u bytes",
                                  view.address, ddisp__dtype_size(view.dtype));
    operand->address = operand->layout.numel ? view.address : 0;
    operand->dtype = view.dtype;
    operand->flags = view.flags;
    return DDISP_STATUS_OK;
}

/* An explicit gradient address: dtype and strides from the view, else the defaults. */
static ddisp_status resolve_explicit(ddisp__launch *launch, uint32_t i, const ddisp_arg *arg,
                                     bool add)
{
    ddisp__operand *operand = &launch->operands[i];
    ddisp__slot *slot = add ? &operand->add : &operand->read;
    const char *field = add ? "grad_add" : "grad_read";
    ddisp_dtype dtype = DDISP_DTYPE_ANY;
    const int64_t *strides = NULL;
    if (arg->view) {
        dtype = arg->view->grad_dtype;
        strides = add ? arg->view->grad_add_strides : arg->view->grad_read_strides;
    }
    if (dtype == DDISP_DTYPE_ANY)
        dtype = ddisp__dtype_gradient(operand->dtype,
                                      (operand->flags & DDISP_TENSOR_GRAD_SAME_DTYPE) != 0);
    if (!ddisp__dtype_differentiable(dtype))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_DTYPE_MISMATCH,
                                  "%s: a gradient cannot be %s", field, ddisp_dtype_name(dtype));
    ddisp__layout layout;
    if (strides) {
        ddisp_status status = ddisp__layout_make(field, dtype, operand->layout.rank,
                                                 operand->layout.shape, strides, &layout);
        if (status) {
            ddisp_error error = *ddisp__error();
            return ddisp__launch_fail(launch, i, status, "%s", error.message);
        }
    } else {
        ddisp__layout_dense(&operand->layout, add, &layout);
    }
    uint64_t address = add ? arg->grad_add : arg->grad_read;
    if (address % ddisp__dtype_size(dtype))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "%s 0x%" PRIx64 " is not a multiple of %u bytes", field, address,
                                  ddisp__dtype_size(dtype));
    slot->is_explicit = true;
    slot->gradient = (ddisp__gradient){
        .address = address, .dtype = dtype, .layout = layout, .from_caller = true};
    return DDISP_STATUS_OK;
}

static ddisp_status resolve_slots(ddisp__launch *launch, uint32_t i, const ddisp_arg *arg)
{
    ddisp__operand *operand = &launch->operands[i];
    const ddisp_param *param = operand->param;
    bool differentiable = (param->flags & DDISP_PARAM_DIFFERENTIABLE) != 0;
    bool requires_grad = (operand->flags & DDISP_TENSOR_REQUIRES_GRAD) != 0;
    ddisp_policy policy = arg->policy ? arg->policy : launch->options.policy;
    if (policy > DDISP_POLICY_REJECT)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT, "has unknown policy %u",
                                  policy);
    if (launch->mode != DDISP_MODE_BACKWARD) /* there are no slots */
        return DDISP_STATUS_OK;
    if (differentiable) {
        operand->add.exists = (param->access & DDISP_ACCESS_IN) != 0;
        operand->read.exists = (param->access & DDISP_ACCESS_OUT) != 0;
    }
    if (operand->add.exists && !ddisp__dtype_differentiable(operand->dtype))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_DTYPE_MISMATCH,
                                  "is %s, its parameter is differentiable",
                                  ddisp_dtype_name(operand->dtype));
    operand->add.wanted = operand->add.exists && requires_grad;
    if (operand->add.exists && !requires_grad)
        operand->add.policy = policy;
    if (arg->grad_add && !operand->add.wanted)
        return ddisp__launch_fail(
            launch, i,
            operand->add.exists ? DDISP_STATUS_NO_GRADIENT : DDISP_STATUS_INVALID_ARGUMENT,
            operand->add.exists ? "has grad_add but does not require a gradient"
                                : "has grad_add but its parameter has no gradient to add to");
    if (arg->grad_read && !operand->read.exists)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "has grad_read but its parameter has no upstream gradient");
    ddisp_status status = DDISP_STATUS_OK;
    if (arg->grad_add)
        status = resolve_explicit(launch, i, arg, true);
    if (!status && arg->grad_read) {
        status = resolve_explicit(launch, i, arg, false);
        operand->read.wanted = true;
    }
    return status;
}

static ddisp_status check_declaration(ddisp__launch *launch, uint32_t i)
{
    ddisp__operand *operand = &launch->operands[i];
    const ddisp_param *param = operand->param;
    char is[128];
    if (param->dtype != DDISP_DTYPE_ANY && operand->dtype != param->dtype) {
        ddisp__layout_format(operand->dtype, &operand->layout, is, sizeof is);
        return ddisp__launch_fail(launch, i, DDISP_STATUS_DTYPE_MISMATCH, "is %s, kernel wants %s",
                                  is, ddisp_dtype_name(param->dtype));
    }
    if (param->rank != DDISP_RANK_ANY && operand->layout.rank != param->rank) {
        ddisp__layout_format(operand->dtype, &operand->layout, is, sizeof is);
        return ddisp__launch_fail(launch, i, DDISP_STATUS_RANK_MISMATCH,
                                  "is %s, kernel wants rank %u", is, param->rank);
    }
    bool writes = launch->mode == DDISP_MODE_FORWARD && (param->access & DDISP_ACCESS_OUT);
    if (writes && (operand->flags & DDISP_TENSOR_READ_ONLY))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_READ_ONLY,
                                  "is read-only, the kernel writes it");
    return DDISP_STATUS_OK;
}

static inline void set_span(ddisp__operand *operand)
{
    uint32_t size = ddisp__dtype_size(operand->dtype);
    if (operand->layout.dense)
        operand->span = (ddisp__span){0, operand->layout.numel * (int64_t)size};
    else
        operand->span = ddisp__layout_span(&operand->layout, size);
}

static ddisp_status resolve(ddisp__launch *launch, uint32_t i, const ddisp_arg *arg)
{
    ddisp__operand *operand = &launch->operands[i];
    if (arg->flags || arg->reserved)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "has unknown flags 0x%" PRIx64, arg->flags | arg->reserved);
    if (operand->param->kind == DDISP_PARAM_KIND_SCALAR)
        return resolve_scalar(launch, i, arg);
    if (arg->scalar || arg->scalar_size)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  "is a tensor, not a scalar");
    if (!arg->tensor == !arg->view)
        return ddisp__launch_fail(launch, i, DDISP_STATUS_INVALID_ARGUMENT,
                                  arg->tensor ? "has both a tensor and a view" : "is NULL");
    ddisp_status status =
        arg->tensor ? resolve_tensor(launch, i, arg->tensor) : resolve_view(launch, i, arg->view);
    if (!status)
        status = check_declaration(launch, i);
    set_span(operand);
    if (!status)
        status = resolve_slots(launch, i, arg);
    return status;
}

/* Operands with the same data. Most addresses come once, which a set of bits tells. */
static void find_aliases(ddisp__launch *launch)
{
    uint64_t seen[4] = {0};
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        if (!operand->address)
            continue;
        uint64_t hash = operand->address * UINT64_C(0x9E3779B97F4A7C15);
        uint64_t *word = &seen[hash >> 62], bit = UINT64_C(1) << (hash >> 56 & 63);
        for (uint32_t k = 0; k < i && (*word & bit) && !operand->alias; k++)
            if (launch->operands[k].address == operand->address &&
                launch->operands[k].dtype == operand->dtype &&
                ddisp__layout_equal(&launch->operands[k].layout, &operand->layout))
                operand->alias = k + 1;
        *word |= bit;
    }
}

ddisp_status ddisp__arguments_resolve(ddisp__launch *launch, const ddisp_arg *args)
{
    for (uint32_t i = 0; i < launch->count; i++) { /* all of them: a failure looks at them too */
        ddisp__operand *operand = &launch->operands[i];
        reset(operand);
        operand->param = &launch->kernel->params[i];
    }
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp_status status = resolve(launch, i, &args[i]);
        if (status)
            return status;
    }
    find_aliases(launch);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__arguments_again(ddisp__launch *launch, const ddisp_arg *args)
{
    for (uint32_t i = 0; i < launch->count; i++) { /* as above: before the first failure */
        ddisp__operand *operand = &launch->operands[i];
        operand->owner = UINT32_MAX;
        reset_slot(&operand->add);
        reset_slot(&operand->read);
    }
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        if (!operand->tensor)
            continue;
        operand->flags = flags_of(operand->tensor, &operand->version);
        ddisp_status status = resolve_slots(launch, i, &args[i]);
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}
