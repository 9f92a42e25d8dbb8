/*
 * plan.c - prepared launches. A plan keeps a launch as it was resolved, down to the laid-out
 * argument block. Launching it compares the arguments with the kept ones and changes what differs;
 * backward launches look at all that concerns gradients again, with their owners locked;
 * in forward mode with arguments that are the same handles nothing is left but the backend's call.
 * Arguments of another signature are refused.
 */
#include "capture.h"
#include "lower.h"
#include "trace.h"

#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/graph.h>

#include <string.h>

struct ddisp_plan {
    ddisp__reference reference;
    bool settled; /* the launch holds arguments that were accepted, and nothing of others */
    uint32_t signature_size;
    uint8_t signature[DDISP__SIGNATURE_CAPACITY];
    ddisp_backend_launch request; /* forward mode: ready to go */
    ddisp_backend_native *natives;
    ddisp_backend_access accesses[DDISP__MAX_ACCESSES];
    ddisp__launch launch;               /* kernel and device referenced */
    _Alignas(16) unsigned char block[]; /* of the kernel's size */
};

void ddisp_plan_retain(ddisp_plan *plan)
{
    if (plan)
        ddisp__reference_take(&plan->reference);
}

void ddisp_plan_release(ddisp_plan *plan)
{
    if (!plan || !ddisp__reference_drop(&plan->reference))
        return;
    ddisp_device *device = plan->launch.device;
    ddisp_kernel *kernel = plan->launch.kernel;
    ddisp_context *context = kernel->context;
    ddisp_context_retain(context);
    ddisp__release(context, plan->natives);
    ddisp__release(context, plan);
    ddisp_device_release(device);
    ddisp_kernel_release(kernel);
    ddisp_context_release(context);
}

/* ---- creation ---- */

static ddisp_status keep_natives(ddisp_plan *plan, const ddisp_entry *entry)
{
    if (!entry->native_count)
        return DDISP_STATUS_OK;
    plan->natives =
        ddisp__allocate(plan->launch.kernel->context, entry->native_count * sizeof *plan->natives);
    if (!plan->natives)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a plan");
    for (uint32_t i = 0; i < entry->native_count; i++)
        plan->natives[i].arg = &entry->native[i];
    return DDISP_STATUS_OK;
}

static void lay_out(ddisp_plan *plan)
{
    ddisp__launch *launch = &plan->launch;
    plan->request.items = launch->items; /* extents are not part of a signature */
    memcpy(plan->request.grid, launch->grid, sizeof launch->grid);
    ddisp__block_relay(launch->kernel, launch->mode, launch->plan->code, launch->items,
                       launch->operands, &plan->request, plan->block, plan->natives,
                       plan->accesses);
}

/* What of the request stays: variant, geometry, places. */
static ddisp_status keep_request(ddisp_plan *plan)
{
    ddisp__launch *launch = &plan->launch;
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    const ddisp_entry *entry = &code->desc.entries[launch->plan->entry];
    plan->request = (ddisp_backend_launch){.size = (uint32_t)sizeof plan->request,
                                           .variant = ddisp__variant_handle(launch->plan->variant),
                                           .items = launch->items,
                                           .shared_bytes = entry->shared_bytes,
                                           .block = plan->block,
                                           .block_size_bytes = launch->kernel->block_size_bytes,
                                           .native_count = entry->native_count,
                                           .accesses = plan->accesses};
    ddisp__geometry_group(entry, plan->request.group_size);
    ddisp_status status = keep_natives(plan, entry);
    plan->request.natives = plan->natives;
    if (!status && launch->mode == DDISP_MODE_FORWARD)
        lay_out(plan);
    return status;
}

ddisp_status ddisp_plan_create(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                               uint32_t arg_count, const ddisp_launch_options *options,
                               ddisp_stream *stream, ddisp_plan **out_plan)
{
    if (!kernel || !out_plan)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL",
                           !kernel ? "kernel" : "out_plan");
    ddisp_status status = ddisp__context_check(kernel->context);
    if (status)
        return status;
    ddisp_plan *plan = ddisp__allocate(kernel->context, sizeof *plan + kernel->block_size_bytes);
    if (!plan)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a plan");
    ddisp__launch *launch = &plan->launch;
    status = ddisp__launch_resolve(launch, kernel, mode, args, arg_count, options, stream);
    launch->options.report = NULL;
    launch->options.error = NULL;
    if (!status && launch->skip)
        status =
            ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                        "plan %s: these arguments need no launch (no input requires a gradient, "
                        "upstreams are zero, or there are no items)",
                        kernel->name);
    if (!status)
        status = keep_request(plan);
    ddisp_error error = *ddisp__error();
    ddisp__gradient_finish(launch);
    if (status) {
        ddisp__release(kernel->context, plan->natives);
        ddisp__release(kernel->context, plan);
        ddisp__error_restore(&error);
        return status;
    }
    memcpy(plan->signature, launch->signature, launch->signature_size);
    plan->signature_size = launch->signature_size;
    plan->settled = true;
    ddisp__reference_start(&plan->reference);
    ddisp_kernel_retain(kernel);
    ddisp_device_retain(launch->device);
    *out_plan = plan;
    return DDISP_STATUS_OK;
}

/* ---- launch ---- */

static ddisp_status other_signature(const ddisp_plan *plan)
{
    return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                       "plan %s: the arguments have another signature than those it was made for; "
                       "use ddisp_launch or make another plan",
                       plan->launch.kernel->name);
}

/* Everything as in a launch, but the plan is known. */
static ddisp_status launch_resolved(ddisp_plan *plan, const ddisp_arg *args, ddisp_stream *stream,
                                    bool same)
{
    ddisp__launch *launch = &plan->launch;
    ddisp_status status = ddisp__launch_again(launch, args, stream, same);
    if (status)
        return status;
    if (launch->skip)
        return launch->mode == DDISP_MODE_BACKWARD ? ddisp__gradient_commit(launch)
                                                   : DDISP_STATUS_OK;
    ddisp__signature_write(launch);
    if (launch->signature_size != plan->signature_size ||
        memcmp(launch->signature, plan->signature, plan->signature_size) != 0)
        return other_signature(plan);
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    if (!same)
        status =
            ddisp__geometry_grid(launch, &code->desc.entries[launch->plan->entry], launch->grid);
    return status ? status : ddisp__launch_run(launch);
}

/* Whether the argument is the very thing that the plan holds already. What it says about gradients
 * is looked at in any case. */
static bool unchanged(const ddisp__operand *operand, const ddisp_arg *arg)
{
    if (arg->flags || arg->reserved)
        return false;
    if (operand->param->kind == DDISP_PARAM_KIND_SCALAR)
        return arg->scalar && !arg->tensor && !arg->view && !arg->grad_add && !arg->grad_read &&
               arg->scalar_size == ddisp_dtype_size(operand->dtype) &&
               memcmp(arg->scalar, &operand->scalar, arg->scalar_size) == 0;
    return operand->tensor && arg->tensor == operand->tensor &&
           arg->tensor->id == operand->tensor_id && !arg->view && !arg->scalar && !arg->scalar_size;
}

static ddisp_status submit(ddisp_plan *plan, ddisp_stream *stream)
{
    ddisp__launch *launch = &plan->launch;
    ddisp_device *device = launch->device;
    ddisp_status status = ddisp__variant_use(launch->plan->variant, stream);
    for (uint32_t i = 0; i < launch->count && !status; i++)
        if (launch->operands[i].buffer && !ddisp__buffer_noted(launch->operands[i].buffer, stream))
            status = ddisp__buffer_use(launch->operands[i].buffer, stream);
    if (status)
        return status;
    pthread_mutex_lock(&stream->lock);
    status = device->table->launch(device->handle, stream->handle, &plan->request);
    pthread_mutex_unlock(&stream->lock);
    if (status)
        return ddisp__device_result(device, status);
    ddisp__device_count_launch(device, true);
    return DDISP_STATUS_OK;
}

static ddisp_status submit_traced(ddisp_plan *plan, ddisp_stream *stream)
{
    const ddisp__launch *launch = &plan->launch;
    ddisp__traced traced = {stream, launch->kernel->name, launch->how, launch->host_ns, 0};
    ddisp__trace_begin(&traced);
    ddisp_status status = submit(plan, stream);
    if (status)
        ddisp__trace_cancel(&traced);
    else
        ddisp__trace_end(&traced, launch);
    return status;
}

ddisp_status ddisp_plan_launch(ddisp_plan *plan, const ddisp_arg *args, uint32_t arg_count,
                               ddisp_stream *stream)
{
    if (!plan)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "plan is NULL");
    ddisp__launch *launch = &plan->launch;
    ddisp_status status = ddisp__device_check(launch->device, "plan");
    if (!status && (arg_count != launch->count || (arg_count && !args)))
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                             "plan %s: arg_count is %u, the kernel has %u parameters",
                             launch->kernel->name, arg_count, launch->count);
    if (!status)
        status = ddisp__stream_resolve(launch->device, stream, &stream);
    if (status)
        return status;
    if (__builtin_expect(launch->kernel->context->trace != NULL, 0)) {
        launch->how = "plan";
        launch->host_ns = ddisp__time_ns();
    }
    bool same = plan->settled && !stream->capture;
    for (uint32_t i = 0; i < arg_count && same; i++)
        same = unchanged(&launch->operands[i], &args[i]);
    if (same && launch->mode == DDISP_MODE_FORWARD)
        return __builtin_expect(launch->kernel->context->trace != NULL, 0)
                   ? submit_traced(plan, stream)
                   : submit(plan, stream);
    plan->settled = false;
    status = launch_resolved(plan, args, stream, same);
    if (status) {
        ddisp_error error = *ddisp__error();
        ddisp__gradient_finish(launch);
        ddisp__error_restore(&error);
        return status;
    }
    ddisp__gradient_finish(launch);
    plan->settled = !launch->skip;
    if (launch->mode == DDISP_MODE_FORWARD && !launch->skip)
        lay_out(plan); /* the next launch with these arguments finds them laid out */
    return DDISP_STATUS_OK;
}
