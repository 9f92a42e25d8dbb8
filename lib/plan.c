/*
 * plan.c - prepared launches. A plan keeps a launch as it was resolved, and beside it the request
 * as it was handed to the backend. Arguments that are the very same go out with that request, when
 * no gradient was touched (repeat.c compares). Else backward launches look at all that concerns
 * gradients again, with their owners locked, and other arguments are resolved as in any launch.
 * Arguments of another signature are refused.
 */
#include "capture.h"
#include "lower.h"
#include "repeat.h"

#include <diffdispatch/graph.h>

#include <string.h>

struct ddisp_plan {
    ddisp__reference reference;
    bool settled; /* launch and repeat hold arguments that were accepted, all of them handles */
    bool ready;   /* and the request in repeat is theirs */
    uint32_t signature_size;
    uint8_t signature[DDISP__SIGNATURE_CAPACITY];
    ddisp__repeat *repeat;
    ddisp__launch launch; /* kernel and device referenced */
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
    ddisp__release(context, plan->repeat);
    ddisp__release(context, plan);
    ddisp_device_release(device);
    ddisp_kernel_release(kernel);
    ddisp_context_release(context);
}

/* ---- creation ---- */

/* Room for the request. In forward mode nothing but where the uses are noted is open. */
static ddisp_status keep_request(ddisp_plan *plan, const ddisp_arg *args)
{
    ddisp__launch *launch = &plan->launch;
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    plan->repeat = ddisp__repeat_make(launch->kernel, &code->desc.entries[launch->plan->entry]);
    if (!plan->repeat)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a plan");
    launch->notes = 0;
    plan->settled = ddisp__repeat_keep(plan->repeat, launch, args);
    if (launch->mode == DDISP_MODE_FORWARD && plan->settled) {
        ddisp__block_lay_out(launch, &plan->repeat->places);
        plan->ready = ddisp__repeat_possible(launch);
    }
    return DDISP_STATUS_OK;
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
    ddisp_plan *plan = ddisp__allocate(kernel->context, sizeof *plan);
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
        status = keep_request(plan, args);
    ddisp_error error = *ddisp__error();
    ddisp__gradient_finish(launch);
    if (status) {
        ddisp__release(kernel->context, plan->repeat);
        ddisp__release(kernel->context, plan);
        ddisp__error_restore(&error);
        return status;
    }
    memcpy(plan->signature, launch->signature, launch->signature_size);
    plan->signature_size = launch->signature_size;
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
    ddisp__signature_bytes(launch);
    if (launch->signature_size != plan->signature_size ||
        memcmp(launch->signature, plan->signature, plan->signature_size) != 0)
        return other_signature(plan);
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    if (!same)
        status =
            ddisp__geometry_grid(launch, &code->desc.entries[launch->plan->entry], launch->grid);
    if (!status)
        status = ddisp__launch_prepare(launch);
    if (status)
        return status;
    bool ready = ddisp__repeat_possible(launch);
    /* shadows have more ranges than there are places */
    launch->places = ddisp__launch_deterministic(launch) ? NULL : &plan->repeat->places;
    status = ddisp__launch_run(launch);
    if (status)
        return status;
    plan->settled = ddisp__repeat_keep(plan->repeat, launch, args);
    plan->ready = plan->settled && ready;
    return DDISP_STATUS_OK;
}

/* Whether the arguments are the very things that the plan holds already. */
static bool is_same(ddisp_plan *plan, const ddisp_arg *args)
{
    ddisp__launch *launch = &plan->launch;
    if (!plan->settled || !ddisp__repeat_same(plan->repeat, args))
        return false;
    for (uint32_t i = 0; i < launch->count && launch->kernel->scalar_count; i++)
        launch->operands[i].scalar = plan->repeat->args[i].scalar;
    return true;
}

/* A stream that the plan's last launch was not on. Gradients are looked at where they are used. */
static ddisp_status note_uses(ddisp_plan *plan, ddisp_stream *stream)
{
    const ddisp__launch *launch = &plan->launch;
    uint64_t notes = atomic_load_explicit(&stream->notes, memory_order_acquire);
    ddisp_status status = ddisp__variant_use(launch->plan->variant, stream);
    for (uint32_t i = 0; i < launch->count && !status; i++)
        if (launch->operands[i].buffer && !ddisp__buffer_noted(launch->operands[i].buffer, stream))
            status = ddisp__buffer_use(launch->operands[i].buffer, stream);
    if (!status)
        plan->repeat->notes = notes;
    return status;
}

/* False, and nothing was launched: the arguments are resolved, unless status says why not. */
static bool launch_ready(ddisp_plan *plan, ddisp_stream *stream, ddisp_status *out_status)
{
    ddisp_device *device = plan->launch.device;
    ddisp__repeat *repeat = plan->repeat;
    *out_status = DDISP_STATUS_OK;
    if (plan->launch.mode == DDISP_MODE_FORWARD &&
        repeat->notes != atomic_load_explicit(&stream->notes, memory_order_relaxed))
        *out_status = note_uses(plan, stream);
    if (*out_status)
        return false;
    pthread_mutex_lock(&stream->lock);
    bool launched = ddisp__repeat_submit(repeat, stream, out_status);
    pthread_mutex_unlock(&stream->lock);
    if (launched)
        *out_status = ddisp__repeat_result(device, *out_status);
    return launched;
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
    bool same = is_same(plan, args) && !stream->capture;
    if (same && plan->ready && (launch_ready(plan, stream, &status) || status))
        return status;
    if (__builtin_expect(launch->kernel->context->trace != NULL, 0)) {
        launch->how = "plan";
        launch->host_ns = ddisp__time_ns();
    }
    plan->settled = plan->ready = false;
    status = launch_resolved(plan, args, stream, same);
    if (status) {
        ddisp_error error = *ddisp__error();
        ddisp__gradient_finish(launch);
        ddisp__error_restore(&error);
        return status;
    }
    ddisp__gradient_finish(launch);
    return DDISP_STATUS_OK;
}
