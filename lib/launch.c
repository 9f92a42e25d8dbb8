/*
 * launch.c - the way of one launch through the core, from the caller's arguments to the backend,
 * each step in its own room (launch.h has the map). Nothing the caller can see changes before the
 * driver took the launch.
 */
#include "repeat.h"
#include "trace.h"

#include <string.h>

/* Deterministic mode: of backward launches, as the launch or the context says. */
static ddisp_status set_mode(ddisp__launch *launch)
{
    if (launch->kernel->context->deterministic)
        launch->options.flags |= DDISP_LAUNCH_DETERMINISTIC;
    if (launch->mode != DDISP_MODE_BACKWARD)
        launch->options.flags &= ~DDISP_LAUNCH_DETERMINISTIC;
    if (launch->options.bound_count || ddisp__launch_deterministic(launch))
        return ddisp__shadow_options(launch);
    return DDISP_STATUS_OK;
}

static ddisp_status read_options(ddisp__launch *launch, const ddisp_launch_options *options)
{
    const uint64_t known = DDISP_LAUNCH_ZERO_UPSTREAM | DDISP_LAUNCH_KEEP_UPSTREAM |
                           DDISP_LAUNCH_OVERWRITE | DDISP_LAUNCH_NO_ALLOC | DDISP_LAUNCH_DRY_RUN |
                           DDISP_LAUNCH_DETERMINISTIC;
    launch->options = (ddisp_launch_options){.policy = DDISP_POLICY_AUTO};
    if (!options)
        return set_mode(launch);
    ddisp_status status =
        ddisp__struct_read("options", options, offsetof(ddisp_launch_options, bounds),
                           sizeof launch->options, &launch->options);
    if (status)
        return status;
    if (launch->options.next)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "options.next: unknown struct type %u",
                           launch->options.next->type);
    if (launch->options.flags & ~known)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "options.flags: unknown bits 0x%llx",
                           (unsigned long long)(launch->options.flags & ~known));
    if (launch->options.reserved)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "options.reserved is %u, it must be 0",
                           launch->options.reserved);
    if (launch->options.policy > DDISP_POLICY_REJECT)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "options.policy: unknown policy %u",
                           launch->options.policy);
    if (launch->options.policy == DDISP_POLICY_DEFAULT)
        launch->options.policy = DDISP_POLICY_AUTO;
    ddisp_error unused;
    if (launch->options.error)
        status = ddisp__struct_read("options.error", launch->options.error, sizeof unused,
                                    sizeof unused, &unused);
    return status ? status : set_mode(launch);
}

static ddisp_status resolve_device(ddisp__launch *launch, ddisp_stream *stream)
{
    if (!launch->device)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: no tensor, stream or options.device says where to run",
                           launch->kernel->name);
    if (launch->device->context != launch->kernel->context)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH,
                           "launch %s: kernel and device %s are of different contexts",
                           launch->kernel->name, launch->device->info.spec);
    ddisp_status status = ddisp__device_check(launch->device, "device");
    if (!status)
        status = ddisp__stream_resolve(launch->device, stream, &launch->stream);
    return status;
}

/* Arguments, device, items: everything that can be said without gradients. */
static ddisp_status resolve(ddisp__launch *launch, const ddisp_arg *args, uint32_t arg_count,
                            ddisp_stream *stream)
{
    ddisp_kernel *kernel = launch->kernel;
    if (launch->mode != DDISP_MODE_FORWARD && launch->mode != DDISP_MODE_BACKWARD)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "launch %s: unknown mode %u",
                           kernel->name, launch->mode);
    if (arg_count != kernel->param_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: arg_count is %u, the kernel has %u parameters", kernel->name,
                           arg_count, kernel->param_count);
    if (arg_count && !args)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "launch %s: args is NULL", kernel->name);
    launch->device = launch->options.device;
    if (stream && !launch->device)
        launch->device = stream->device;
    launch->count = arg_count;
    ddisp_status status = ddisp__arguments_resolve(launch, args);
    if (!status)
        status = resolve_device(launch, stream);
    if (!status)
        status = ddisp__geometry_items(launch);
    if (!status)
        status = ddisp__alias_check_data(launch);
    return status;
}

/* Finds the plan, building it when it is new. Owners are locked on success; they are not while
 * something is built. */
static ddisp_status find_plan(ddisp__launch *launch)
{
    for (;;) {
        ddisp_status status = DDISP_STATUS_OK;
        if (launch->mode == DDISP_MODE_BACKWARD)
            status = ddisp__gradient_snapshot(launch);
        else if (launch->items == 0)
            launch->skip = DDISP_SKIP_NO_ITEMS;
        if (status || launch->skip)
            return status;
        ddisp__signature_write(launch);
        launch->plan = ddisp__plan_find(launch);
        if (launch->plan)
            return DDISP_STATUS_OK;
        ddisp__gradient_finish(launch);
        if (launch->options.flags & DDISP_LAUNCH_DRY_RUN)
            return ddisp__plan_dry(launch);
        status = ddisp__plan_build(launch);
        if (status)
            return status;
    }
}

/* A dry run reports what the plan says. */
static void show_plan(ddisp__launch *launch)
{
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        operand->add.backing = launch->plan->add[i];
        operand->add.reason = launch->plan->add_reason[i];
        operand->read.backing = launch->plan->read[i];
        operand->read.reason = launch->plan->read_reason[i];
    }
    launch->skip = DDISP_SKIP_DRY_RUN;
}

static ddisp_status find_geometry(ddisp__launch *launch)
{
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    return ddisp__geometry_grid(launch, &code->desc.entries[launch->plan->entry], launch->grid);
}

/* Up to the plan: nothing was made or changed yet. */
static ddisp_status prepare(ddisp__launch *launch, const ddisp_arg *args, uint32_t arg_count,
                            ddisp_stream *stream)
{
    ddisp_status status = resolve(launch, args, arg_count, stream);
    if (!status && launch->mode == DDISP_MODE_BACKWARD)
        status = ddisp__gradient_precheck(launch);
    if (!status)
        status = find_plan(launch);
    if (!status && !launch->skip)
        status = find_geometry(launch);
    if (!status && !launch->skip)
        status = ddisp__shadow_check(launch, launch->plan);
    return status;
}

static ddisp_status launch_traced(ddisp__launch *launch)
{
    ddisp__traced traced = {launch->stream, launch->kernel->name, launch->how, launch->host_ns, 0};
    ddisp__trace_begin(&traced);
    ddisp_status status = ddisp__block_launch(launch);
    if (status)
        ddisp__trace_cancel(&traced);
    else
        ddisp__trace_end(&traced, launch);
    return status;
}

ddisp_status ddisp__launch_prepare(ddisp__launch *launch)
{
    launch->notes = atomic_load_explicit(&launch->stream->notes, memory_order_acquire);
    return ddisp__gradient_prepare(launch);
}

ddisp_status ddisp__launch_run(ddisp__launch *launch)
{
    ddisp_status status = __builtin_expect(launch->kernel->context->trace != NULL, 0)
                              ? launch_traced(launch)
                              : ddisp__block_launch(launch);
    if (status)
        return status;
    ddisp__device_count_launch(launch->device, true);
    return launch->mode == DDISP_MODE_BACKWARD ? ddisp__gradient_commit(launch) : DDISP_STATUS_OK;
}

/* A launch that came before, and may come again as it is, is remembered. */
static ddisp_status run_resolved(ddisp__launch *launch, const ddisp_arg *args,
                                 const ddisp__recall *recall)
{
    ddisp_status status = ddisp__launch_prepare(launch);
    if (status)
        return status;
    ddisp__repeat *repeat = recall->slot ? ddisp__recall_take(recall, launch) : NULL;
    launch->places = repeat ? &repeat->places : NULL;
    status = ddisp__launch_run(launch);
    if (!repeat)
        return status;
    if (!status)
        (void)ddisp__repeat_keep(repeat, launch, args);
    ddisp__recall_give(recall, launch->kernel->context, repeat);
    return status;
}

static ddisp_status run(ddisp__launch *launch, const ddisp_arg *args, uint32_t arg_count,
                        ddisp_stream *stream, const ddisp__recall *recall)
{
    bool dry = (launch->options.flags & DDISP_LAUNCH_DRY_RUN) != 0;
    ddisp_status status = prepare(launch, args, arg_count, stream);
    if (status)
        return status;
    if (launch->skip) {
        if (dry)
            return DDISP_STATUS_OK;
        ddisp__device_count_launch(launch->device, false);
        return launch->mode == DDISP_MODE_BACKWARD ? ddisp__gradient_commit(launch)
                                                   : DDISP_STATUS_OK;
    }
    if (dry) {
        show_plan(launch);
        return DDISP_STATUS_OK;
    }
    return run_resolved(launch, args, recall);
}

/* A launch is large; only what is read before it is written needs a value. */
static void start(ddisp__launch *launch, ddisp_kernel *kernel, ddisp_mode mode)
{
    launch->kernel = kernel;
    launch->mode = mode;
    launch->how = "launch";
    launch->host_ns = kernel->context->trace ? ddisp__time_ns() : 0;
    launch->device = NULL;
    launch->stream = NULL;
    launch->items = 0;
    launch->skip = DDISP_SKIP_NONE;
    launch->origin = DDISP_VARIANT_ORIGIN_NONE;
    launch->build_ns = 0;
    launch->plan = NULL;
    launch->locked = false;
    launch->owner_count = 0;
    launch->signature_size = 0;
    launch->hash = (ddisp__hash){0, 0};
    launch->count = 0;
    launch->places = NULL;
}

ddisp_status ddisp__launch_resolve(ddisp__launch *launch, ddisp_kernel *kernel, ddisp_mode mode,
                                   const ddisp_arg *args, uint32_t arg_count,
                                   const ddisp_launch_options *options, ddisp_stream *stream)
{
    start(launch, kernel, mode);
    ddisp_status status = read_options(launch, options);
    launch->options.flags &= ~DDISP_LAUNCH_DRY_RUN;
    return status ? status : prepare(launch, args, arg_count, stream);
}

ddisp_status ddisp__launch_again(ddisp__launch *launch, const ddisp_arg *args, ddisp_stream *stream,
                                 bool same)
{
    ddisp_status status;
    launch->options.device = launch->device;
    launch->skip = DDISP_SKIP_NONE;
    launch->locked = false;
    launch->owner_count = 0;
    if (same) { /* tensors keep address, layout and device: so do items, grid and aliases */
        launch->stream = stream;
        status = ddisp__arguments_again(launch, args);
    } else {
        status = resolve(launch, args, launch->count, stream);
    }
    if (!status && launch->mode == DDISP_MODE_BACKWARD)
        status = ddisp__gradient_precheck(launch);
    if (!status && launch->mode == DDISP_MODE_BACKWARD)
        status = ddisp__gradient_snapshot(launch);
    else if (!status && launch->items == 0)
        launch->skip = DDISP_SKIP_NO_ITEMS;
    if (!status && !launch->skip)
        status = ddisp__shadow_check(launch, launch->plan);
    return status;
}

static void give_error(ddisp_error *caller)
{
    if (caller)
        (void)ddisp__struct_write("options.error", caller, sizeof *caller, sizeof *caller,
                                  ddisp__error());
}

/* Giving back what was taken leaves the first error as it is. */
static ddisp_status fail(ddisp__launch *launch, ddisp_status status)
{
    ddisp_error error = *ddisp__error();
    ddisp__report_fill(launch->options.report, launch, status);
    ddisp__gradient_finish(launch);
    ddisp__error_restore(&error);
    give_error(launch->options.error);
    return status;
}

ddisp_status ddisp_launch(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                          uint32_t arg_count, const ddisp_launch_options *options,
                          ddisp_stream *stream)
{
    ddisp__launch launch;
    ddisp__recall recall;
    if (!kernel)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "kernel is NULL");
    ddisp_status status = ddisp__context_check(kernel->context);
    if (status)
        return status;
    if (ddisp__recall_launch(&recall, kernel, mode, args, arg_count, options, stream, &status)) {
        if (status && options)
            give_error(options->error);
        return status;
    }
    start(&launch, kernel, mode);
    status = read_options(&launch, options);
    if (status)
        return status;
    ddisp__report_begin(launch.options.report);
    status = run(&launch, args, arg_count, stream, &recall);
    if (status)
        return fail(&launch, status);
    ddisp__report_fill(launch.options.report, &launch, status);
    ddisp__gradient_finish(&launch);
    return DDISP_STATUS_OK;
}

/* Up to the signature, as a launch goes. */
static ddisp_status name(ddisp__launch *launch, const ddisp_arg *args, uint32_t arg_count,
                         ddisp_stream *stream)
{
    ddisp_status status = resolve(launch, args, arg_count, stream);
    if (!status && launch->mode == DDISP_MODE_BACKWARD)
        status = ddisp__gradient_precheck(launch);
    if (!status && launch->mode == DDISP_MODE_BACKWARD)
        status = ddisp__gradient_snapshot(launch);
    if (!status)
        ddisp__signature_write(launch);
    return status;
}

ddisp_status ddisp_launch_signature(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                                    uint32_t arg_count, const ddisp_launch_options *options,
                                    ddisp_stream *stream, ddisp_signature *out_signature)
{
    ddisp__launch launch;
    ddisp_signature signature;
    if (!kernel)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "kernel is NULL");
    ddisp_status status = ddisp__context_check(kernel->context);
    if (status)
        return status;
    start(&launch, kernel, mode);
    status = read_options(&launch, options);
    if (status)
        return status;
    status = name(&launch, args, arg_count, stream);
    ddisp_error error = *ddisp__error();
    ddisp__gradient_finish(&launch);
    if (status) {
        ddisp__error_restore(&error);
        give_error(launch.options.error);
        return status;
    }
    memset(&signature, 0, sizeof signature);
    signature.size = (uint32_t)sizeof signature;
    signature.byte_count = launch.signature_size;
    memcpy(signature.hash, &launch.hash, sizeof signature.hash);
    memcpy(signature.bytes, launch.signature, launch.signature_size);
    return ddisp__struct_write("out_signature", out_signature, sizeof signature, sizeof signature,
                               &signature);
}
