/*
 * shadow.c - deterministic mode in users' kernels: an add slot is given an array of integers
 * instead of its gradient, whose sums are the same in every order, and which goes into the gradient
 * afterwards. The scale of the integers follows from a bound of the values, declared by the caller
 * or found by running the kernel once before without adding anything. Values that do not fit are
 * noted by the device and reported through the stream's watch. Decisions that depend on the request
 * alone are here too; which slot gets a shadow is backing.c's.
 */
#include "launch.h"

#include <math.h>
#include <string.h>

/* No scale is larger, so that it and the limit are numbers of any exponent range. */
#define MOST_SCALE_LOG2 1000
/* Fewer bits for a value would not be worth it. */
#define MOST_ADDS (UINT64_C(1) << 40)

/* ---- bounds that the caller declares ---- */

static ddisp_status check_bound(const ddisp__launch *launch, uint32_t index,
                                const ddisp_bound *bound)
{
    const ddisp_kernel *kernel = launch->kernel;
    if (bound->reserved)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: options.bounds[%u].reserved is %u, it must be 0",
                           kernel->name, index, bound->reserved);
    if (!(bound->bound >= 0) || isinf(bound->bound))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: options.bounds[%u].bound is %g, a bound is finite and above "
                           "0, or 0 to have it found",
                           kernel->name, index, bound->bound);
    if (bound->adds > MOST_ADDS)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: options.bounds[%u].adds is %llu, at most %llu are taken",
                           kernel->name, index, (unsigned long long)bound->adds,
                           (unsigned long long)MOST_ADDS);
    if (bound->param == DDISP_BOUND_EVERY_PARAM)
        return DDISP_STATUS_OK;
    if (bound->param >= kernel->param_count)
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT,
            "launch %s: options.bounds[%u].param is %u, the kernel has %u parameters", kernel->name,
            index, bound->param, kernel->param_count);
    const ddisp_param *param = &kernel->params[bound->param];
    if (!(param->flags & DDISP_PARAM_DIFFERENTIABLE) || !(param->access & DDISP_ACCESS_IN))
        return ddisp__launch_fail(launch, bound->param, DDISP_STATUS_INVALID_ARGUMENT,
                                  "has a bound but no gradient that is added to");
    return DDISP_STATUS_OK;
}

static void set(ddisp__launch *launch, uint32_t param, const ddisp_bound *bound)
{
    launch->bounds[param] = bound->bound;
    launch->adds[param] = bound->adds;
}

ddisp_status ddisp__shadow_options(ddisp__launch *launch)
{
    ddisp_launch_options *options = &launch->options;
    ddisp_bound bound;
    uint32_t count = options->bound_count;
    if (count && !options->bounds)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "launch %s: options.bounds is NULL, bound_count is %u",
                           launch->kernel->name, count);
    memset(launch->bounds, 0, sizeof launch->bounds);
    memset(launch->adds, 0, sizeof launch->adds);
    for (uint32_t pass = 0; pass < 2; pass++) /* those of single parameters come last */
        for (uint32_t i = 0; i < count; i++) {
            ddisp_status status =
                ddisp__kernel_read_item("options.bounds", options->bounds, options->bound_size,
                                        (uint32_t)sizeof bound, i, &bound);
            if (!status)
                status = check_bound(launch, i, &bound);
            if (status)
                return status;
            bool every = bound.param == DDISP_BOUND_EVERY_PARAM;
            for (uint32_t k = 0; every && pass == 0 && k < launch->kernel->param_count; k++)
                set(launch, k, &bound);
            if (!every && pass == 1)
                set(launch, bound.param, &bound);
        }
    options->bounds = NULL;
    options->bound_count = options->bound_size = 0;
    return DDISP_STATUS_OK;
}

/* ---- whether it can be done ---- */

static bool takes_block(const ddisp_entry *entry)
{
    for (uint32_t k = 0; k < entry->native_count; k++)
        if (entry->native[k].source == DDISP_SOURCE_BLOCK)
            return true;
    return entry->native_count == 0;
}

/* Elements share memory, and not by strides of 0 alone. */
static bool overlaps_otherwise(const ddisp__layout *layout)
{
    ddisp__layout stored = *layout;
    for (uint32_t i = 0; i < DDISP_MAX_RANK; i++)
        if (stored.strides[i] == 0 && stored.shape[i] > 1)
            stored.shape[i] = 1;
    stored.numel = ddisp__layout_stored(layout);
    return ddisp__layout_self_overlaps(&stored);
}

const char *ddisp__shadow_obstacle(const ddisp__launch *launch, const ddisp__code *code,
                                   const ddisp_entry *entry, uint32_t i)
{
    const ddisp__layout *layout = &launch->operands[i].add.gradient.layout;
    ddisp__layout shadow;
    if (!ddisp__table_offers(launch->device->table, fold))
        return "the device has no deterministic mode";
    if (!(code->desc.flags & DDISP_CODE_DETERMINISTIC))
        return "it adds atomically, in an order that changes from run to run; let it add through "
               "the device headers and declare DDISP_CODE_DETERMINISTIC";
    if (!takes_block(entry))
        return "its native arguments leave out the argument block, which says how to add";
    if (overlaps_otherwise(layout))
        return "elements of the gradient share memory";
    ddisp__layout_dense(layout, true, &shadow);
    if (!(code->params[i].grad_layouts & ddisp__layout_class(&shadow)))
        return "it does not take broadcast gradients";
    return NULL;
}

static bool has_shadow(const ddisp__launch *launch, uint32_t i)
{
    return launch->plan->add[i] == DDISP_BACKING_SHADOW;
}

/* The bound of the slot has to be found. */
static bool is_open(const ddisp__launch *launch, const struct ddisp__plan *plan, uint32_t i)
{
    return plan->add[i] == DDISP_BACKING_SHADOW && launch->bounds[i] == 0;
}

static ddisp_status refuse_second_run(const ddisp__launch *launch, uint32_t open, uint32_t i,
                                      const char *what)
{
    return ddisp__launch_fail(
        launch, open, DDISP_STATUS_UNSUPPORTED,
        "has no declared bound, and the kernel cannot be run once more to find it, since '%s' %s; "
        "declare one in options.bounds",
        launch->operands[i].param->name, what);
}

ddisp_status ddisp__shadow_check(const ddisp__launch *launch, const struct ddisp__plan *plan)
{
    uint32_t open = UINT32_MAX, any = UINT32_MAX;
    if (!ddisp__launch_deterministic(launch))
        return DDISP_STATUS_OK;
    for (uint32_t i = launch->count; i-- > 0;) {
        any = plan->add[i] == DDISP_BACKING_SHADOW ? i : any;
        open = is_open(launch, plan, i) ? i : open;
    }
    if (any != UINT32_MAX && launch->stream->capture)
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "launch %s: stream captures: a launch in deterministic mode cannot be "
                           "recorded; capture without DDISP_LAUNCH_DETERMINISTIC",
                           launch->kernel->name);
    for (uint32_t i = 0; i < launch->count && open != UINT32_MAX; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (operand->param->access == DDISP_ACCESS_INOUT)
            return refuse_second_run(launch, open, i, "is inout");
        if (plan->add[i] == DDISP_BACKING_REAL)
            return refuse_second_run(launch, open, i, "has a gradient that is written directly");
    }
    return DDISP_STATUS_OK;
}

/* ---- scale ---- */

/* The smallest exponent whose power of two is not below a positive number. */
static int log2_above(double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);
    return fraction > 0.5 ? exponent : exponent - 1;
}

/* No sum of `adds` values up to the bound is beyond 2^62. */
static void set_scale(ddisp__shadow *shadow, double bound, uint64_t adds)
{
    int room = 62 - log2_above(adds > 2 ? (double)adds : 2);
    int exponent = log2_above(bound);
    int scale = room - exponent;
    if (scale > MOST_SCALE_LOG2)
        scale = MOST_SCALE_LOG2;
    shadow->scale = ldexp(1.0, scale);
    shadow->limit = ldexp(1.0, scale + exponent);
}

static double number_of(uint64_t bits, bool is_wide)
{
    float single;
    double number;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&number, &bits, sizeof number);
    return is_wide ? number : (double)single;
}

static ddisp_status take_bound(ddisp__launch *launch, uint32_t i)
{
    ddisp__shadow *shadow = &launch->operands[i].add.shadow;
    ddisp__watch_words words;
    ddisp_status status = ddisp__watch_read(launch->stream, &shadow->words, &words);
    if (status)
        return status;
    double largest = number_of(words.largest, shadow->is_wide);
    if (!isfinite(largest))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_BOUND_EXCEEDED,
                                  "would be given values that are not finite, which deterministic "
                                  "mode cannot add; nothing was changed");
    set_scale(shadow, largest > 0 ? largest : 1.0, words.adds);
    return DDISP_STATUS_OK;
}

/* Runs the kernel with nothing to add to: it writes words alone. */
static ddisp_status search(ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    for (uint32_t i = 0; i < launch->count && !status; i++) {
        ddisp__slot *slot = &launch->operands[i].add;
        if (!has_shadow(launch, i))
            continue;
        status = ddisp__watch_restart(launch->stream, &slot->shadow.words);
        slot->target = slot->gradient;
        slot->gradient.buffer = NULL;
        slot->gradient.address = slot->shadow.words.address;
        slot->shadow.finds_bound = true;
    }
    if (!status)
        status = ddisp__block_launch(launch);
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__slot *slot = &launch->operands[i].add;
        if (!has_shadow(launch, i))
            continue;
        slot->gradient = slot->target;
        slot->shadow.finds_bound = false;
        if (!status && is_open(launch, launch->plan, i))
            status = take_bound(launch, i);
    }
    return status;
}

ddisp_status ddisp__shadow_bounds(ddisp__launch *launch)
{
    bool open = false;
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        ddisp__shadow *shadow = &operand->add.shadow;
        if (!has_shadow(launch, i))
            continue;
        *shadow = (ddisp__shadow){.is_wide = operand->dtype == DDISP_DTYPE_F64};
        ddisp_status status = ddisp__watch_place(launch->stream, launch->kernel->name,
                                                 operand->param->name, i, &shadow->words);
        if (status)
            return status;
        open |= is_open(launch, launch->plan, i);
        if (!is_open(launch, launch->plan, i))
            set_scale(shadow, launch->bounds[i], launch->adds[i] ? launch->adds[i] : launch->items);
    }
    return open ? search(launch) : DDISP_STATUS_OK;
}

/* ---- the shadow ---- */

ddisp_status ddisp__shadow_make(ddisp__launch *launch, uint32_t i, uint32_t operation)
{
    ddisp__slot *slot = &launch->operands[i].add;
    uint64_t size_bytes, element = slot->shadow.is_wide ? 16 : 8;
    ddisp__gradient shadow = {.dtype = DDISP_DTYPE_I64};
    ddisp__layout_dense(&slot->gradient.layout, true, &shadow.layout);
    if (__builtin_mul_overflow((uint64_t)ddisp__layout_stored(&shadow.layout), element,
                               &size_bytes))
        return ddisp__launch_fail(launch, i, DDISP_STATUS_OVERFLOW,
                                  "needs a shadow whose size does not fit in 64 bits");
    ddisp_status status = ddisp__buffer_create_on(launch->stream, size_bytes,
                                                  DDISP__PURPOSE_SCRATCH, &slot->temporary);
    if (!status)
        status = ddisp__buffer_zero(slot->temporary, launch->stream);
    if (status)
        return status;
    shadow.buffer = slot->temporary;
    shadow.address = slot->temporary->memory.address;
    slot->target = slot->gradient;
    slot->gradient = shadow;
    slot->operation = operation;
    slot->converts = true;
    slot->bytes = size_bytes;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__shadow_fold(ddisp__launch *launch, uint32_t i)
{
    ddisp__slot *slot = &launch->operands[i].add;
    ddisp__watch_arm(launch->stream);
    return ddisp__elements_fold(launch->stream, &slot->target, &slot->gradient, slot->shadow.scale,
                                slot->shadow.is_wide, slot->operation, &slot->shadow.words);
}
