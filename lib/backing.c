/*
 * backing.c - the policy: what each gradient slot of a launch is given under one code, and which
 * entry of the code serves that. Decides from the request alone (no memory is looked at or made),
 * so that the decision can be cached under the request's signature.
 */
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *layout_name(uint32_t class)
{
    return class == DDISP_LAYOUT_DENSE     ? "dense"
           : class == DDISP_LAYOUT_STRIDED ? "strided"
                                           : "broadcast";
}

/* Broadcast tensors may also have gaps; a code that takes broadcast takes those. */
static bool takes(uint32_t layouts, const ddisp__layout *layout)
{
    return (layouts & ddisp__layout_class(layout)) != 0;
}

/* Without accumulation on the device, gradients cannot be converted: they must be as the code wants
 * them. */
static ddisp_status accepts_gradient(const ddisp__launch *launch, const ddisp__code *code,
                                     uint32_t i, const ddisp__slot *slot, const char *what,
                                     char *reason, size_t capacity)
{
    const ddisp__operand *operand = &launch->operands[i];
    ddisp_dtype wants = ddisp__code_gradient_dtype(code, i, operand->dtype);
    if (!slot->wanted || ddisp__table_offers(launch->device->table, accumulate))
        return DDISP_STATUS_OK;
    if (slot->gradient.dtype != wants) {
        (void)snprintf(reason, capacity, "%s of '%s' is %s, the code wants %s", what,
                       operand->param->name, ddisp_dtype_name(slot->gradient.dtype),
                       ddisp_dtype_name(wants));
        return DDISP_STATUS_DTYPE_MISMATCH;
    }
    if (!takes(code->params[i].grad_layouts, &slot->gradient.layout)) {
        (void)snprintf(reason, capacity, "%s of '%s' is %s, which the code does not take", what,
                       operand->param->name,
                       layout_name(ddisp__layout_class(&slot->gradient.layout)));
        return DDISP_STATUS_LAYOUT_MISMATCH;
    }
    return DDISP_STATUS_OK;
}

/* Elements that several work items add to, or one tensor passed twice, need atomic adds. */
static ddisp_status accepts_sharing(const ddisp__launch *launch, const ddisp__code *code,
                                    uint32_t i, char *reason, size_t capacity)
{
    const ddisp__operand *operand = &launch->operands[i];
    ddisp_write_mode mode = code->params[i].write_mode;
    if (!operand->add.wanted || mode == DDISP_WRITE_MODE_ATOMIC_ADD ||
        ddisp__table_offers(launch->device->table, accumulate))
        return DDISP_STATUS_OK;
    bool shared =
        ddisp__layout_self_overlaps(&operand->add.gradient.layout) || operand->add.alias != 0;
    for (uint32_t k = i + 1; k < launch->count && !shared; k++)
        shared = launch->operands[k].add.alias == i + 1;
    if (!shared)
        return DDISP_STATUS_OK;
    (void)snprintf(reason, capacity,
                   "several elements add to one cell of the gradient of '%s', and the code does "
                   "not add atomically",
                   operand->param->name);
    return DDISP_STATUS_UNSUPPORTED;
}

ddisp_status ddisp__backing_accepts(const ddisp__launch *launch, uint32_t index, char *reason,
                                    size_t capacity)
{
    const ddisp__code *code = &launch->kernel->codes[index];
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        const ddisp_code_param *p = &code->params[i];
        if (operand->param->kind != DDISP_PARAM_KIND_TENSOR)
            continue;
        if (!takes(p->layouts, &operand->layout)) {
            (void)snprintf(reason, capacity, "'%s' is %s, which the code does not take",
                           operand->param->name,
                           layout_name(ddisp__layout_class(&operand->layout)));
            return DDISP_STATUS_LAYOUT_MISMATCH;
        }
        if (p->alignment && operand->address % p->alignment) {
            (void)snprintf(reason, capacity,
                           "'%s' is at an address that is no multiple of %u bytes",
                           operand->param->name, p->alignment);
            return DDISP_STATUS_LAYOUT_MISMATCH;
        }
        ddisp_status status =
            accepts_gradient(launch, code, i, &operand->add, "the gradient", reason, capacity);
        if (!status)
            status = accepts_gradient(launch, code, i, &operand->read, "the upstream gradient",
                                      reason, capacity);
        if (!status)
            status = accepts_sharing(launch, code, i, reason, capacity);
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}

/* ---- entries and masks ---- */

static bool has_pattern(const ddisp_entry *entry)
{
    return strstr(entry->name, "{mask}") != NULL;
}

/* Entry for the mode whose code covers exactly `mask`; with any set, one that covers everything. */
static bool find_entry(const ddisp__code *code, ddisp_mode mode, bool any, uint64_t mask,
                       uint32_t *out_entry)
{
    for (uint32_t i = 0; i < code->desc.entry_count; i++) {
        const ddisp_entry *entry = &code->desc.entries[i];
        bool masked = (entry->flags & DDISP_ENTRY_MASKED) != 0, pattern = has_pattern(entry);
        if (entry->mode != mode)
            continue;
        if (any ? !masked && !pattern : pattern || (masked && entry->mask == mask)) {
            *out_entry = i;
            return true;
        }
    }
    return false;
}

/* Parameters with a gradient slot, and those none of whose slots is used. */
static uint64_t slots_of(const ddisp__launch *launch)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < launch->count; i++)
        if (launch->operands[i].add.exists || launch->operands[i].read.exists)
            slots |= UINT64_C(1) << i;
    return slots;
}

static uint64_t omittable(const ddisp__launch *launch, bool by_auto, bool by_specialize)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        bool add = operand->add.exists, read = operand->read.exists;
        if (!(add || read) || operand->add.wanted || operand->read.wanted)
            continue;
        bool specialize = operand->add.policy == DDISP_POLICY_SPECIALIZE;
        bool automatic = !add || operand->add.policy == DDISP_POLICY_AUTO;
        if ((specialize && by_specialize) || (automatic && by_auto))
            set |= UINT64_C(1) << i;
    }
    return set;
}

/*
 * Finds the entry and the largest set of slots to omit: everything that may be omitted; then what
 * the code's switches can; then only what SPECIALIZE asks for. Switches need the general entry,
 * masked entries stand for one mask each.
 */
static bool choose_entry(const ddisp__launch *launch, const ddisp__code *code, bool auto_omits,
                         uint64_t *out_mask, uint32_t *out_entry)
{
    uint64_t slots = slots_of(launch), switches = code->info.switch_mask;
    uint64_t asked = omittable(launch, false, true);
    uint64_t all = asked | (auto_omits ? omittable(launch, true, false) : 0);
    uint64_t tries[3] = {all, asked | (all & switches), asked};
    for (uint32_t t = 0; t < 3; t++) {
        uint64_t omit = tries[t];
        bool by_switches = (omit & ~switches) == 0;
        *out_mask = slots & ~omit;
        if (by_switches && find_entry(code, launch->mode, true, 0, out_entry))
            return true;
        if (find_entry(code, launch->mode, false, *out_mask, out_entry))
            return true;
    }
    return false;
}

/* ---- slots ---- */

/*
 * Whether the entry may be given nothing for the gradient of parameter i: an address that the code
 * tests, or a null descriptor, which the device defines to write nothing. A loop that compares and
 * swaps might not end on one, unless the code is declared to know. out_descriptor: how it is given.
 */
static bool takes_null(const ddisp__launch *launch, const ddisp__code *code,
                       const ddisp_entry *entry, uint32_t i, bool *out_descriptor)
{
    bool null_safe = (code->desc.flags & DDISP_CODE_NULL_SAFE) != 0;
    bool defined = (launch->device->info.flags & DDISP_DEVICE_FLAG_NULL_DESCRIPTOR) &&
                   (null_safe || !(code->info.flags & DDISP_BACKEND_CODE_COMPARE_AND_SWAP));
    bool by_address = entry->native_count == 0;
    *out_descriptor = false;
    for (uint32_t k = 0; k < entry->native_count; k++) {
        const ddisp_native_arg *arg = &entry->native[k];
        bool adds = arg->source == DDISP_SOURCE_GRAD_ADD && arg->param == i;
        if (adds && arg->space == DDISP_SPACE_DESCRIPTOR)
            *out_descriptor = true;
        else if (adds || arg->source == DDISP_SOURCE_BLOCK)
            by_address = true;
    }
    return *out_descriptor ? defined && (null_safe || !by_address) : null_safe;
}

static ddisp_status decide_frozen(const ddisp__launch *launch, const ddisp__code *code, uint32_t i,
                                  struct ddisp__plan *plan, char *reason, size_t capacity)
{
    const ddisp__operand *operand = &launch->operands[i];
    ddisp_policy policy = operand->add.policy;
    bool automatic = policy == DDISP_POLICY_AUTO;
    if (!(plan->mask >> i & 1)) {
        plan->add[i] = DDISP_BACKING_OMITTED;
        plan->add_reason[i] = "the variant has no code for it";
        return DDISP_STATUS_OK;
    }
    bool descriptor = false;
    bool null = takes_null(launch, code, &code->desc.entries[plan->entry], i, &descriptor);
    if (policy == DDISP_POLICY_GUARD || (automatic && null)) {
        if (!null) {
            (void)snprintf(reason, capacity, "policy guard for '%s': %s", operand->param->name,
                           descriptor ? "the gradient is a descriptor, and the device has no null "
                                        "descriptor or the code compares and swaps"
                                      : "the code is not declared null-safe");
            return DDISP_STATUS_UNSUPPORTED;
        }
        plan->add[i] = DDISP_BACKING_NULL;
        plan->add_reason[i] =
            descriptor ? "a null descriptor takes no writes" : "the code tests for null";
        return DDISP_STATUS_OK;
    }
    ddisp_write_mode mode = code->params[i].write_mode;
    bool blind = mode != DDISP_WRITE_MODE_READS_BACK && mode != DDISP_WRITE_MODE_UNKNOWN;
    bool offered = ddisp__sink_offered(launch->device);
    if (policy == DDISP_POLICY_SINK || (automatic && blind && offered)) {
        if (!blind || !offered) {
            (void)snprintf(reason, capacity, "policy sink for '%s': %s", operand->param->name,
                           offered ? "the code may read its gradient back"
                                   : "the device has no sink");
            return DDISP_STATUS_UNSUPPORTED;
        }
        plan->add[i] = DDISP_BACKING_SINK;
        plan->add_reason[i] = "the code writes blindly into the shared sink";
        return DDISP_STATUS_OK;
    }
    plan->add[i] = DDISP_BACKING_SCRATCH;
    plan->add_reason[i] =
        automatic ? "the code neither specializes nor tests for null" : "as asked";
    return DDISP_STATUS_OK;
}

/* Where each element is written by one thread, the sum has one order already. */
static ddisp_status decide_deterministic(const ddisp__launch *launch, const ddisp__code *code,
                                         uint32_t i, struct ddisp__plan *plan, char *reason,
                                         size_t capacity)
{
    ddisp_write_mode mode = code->params[i].write_mode;
    const char *obstacle = "it may read its gradient back";
    if (mode == DDISP_WRITE_MODE_PLAIN_ADD || mode == DDISP_WRITE_MODE_STORE_ONCE) {
        plan->add[i] = DDISP_BACKING_REAL;
        plan->add_reason[i] = "requires a gradient; one thread writes an element";
        return DDISP_STATUS_OK;
    }
    if (mode == DDISP_WRITE_MODE_ATOMIC_ADD)
        obstacle = ddisp__shadow_obstacle(launch, code, &code->desc.entries[plan->entry], i);
    if (obstacle) {
        (void)snprintf(reason, capacity, "cannot add to the gradient of '%s' deterministically: %s",
                       launch->operands[i].param->name, obstacle);
        return DDISP_STATUS_UNSUPPORTED;
    }
    plan->add[i] = DDISP_BACKING_SHADOW;
    plan->add_reason[i] = "deterministic: integers, added to the gradient afterwards";
    return DDISP_STATUS_OK;
}

static ddisp_status decide_slot(const ddisp__launch *launch, const ddisp__code *code, uint32_t i,
                                struct ddisp__plan *plan, char *reason, size_t capacity)
{
    const ddisp__operand *operand = &launch->operands[i];
    plan->add[i] = plan->read[i] = DDISP_BACKING_NONE;
    plan->add_reason[i] = plan->read_reason[i] = "";
    if (operand->read.exists && operand->read.wanted) {
        plan->read[i] = DDISP_BACKING_REAL;
        plan->read_reason[i] = "upstream given";
    } else if (operand->read.exists && !(plan->mask >> i & 1)) {
        plan->read[i] = DDISP_BACKING_OMITTED;
        plan->read_reason[i] = "absent upstream: the variant has no code for it";
    } else if (operand->read.exists) {
        plan->read[i] = DDISP_BACKING_ZERO;
        plan->read_reason[i] = "absent upstream counts as zero";
    }
    if (operand->add.exists && operand->add.wanted && ddisp__launch_deterministic(launch))
        return decide_deterministic(launch, code, i, plan, reason, capacity);
    if (operand->add.exists && operand->add.wanted) {
        plan->add[i] = DDISP_BACKING_REAL;
        plan->add_reason[i] = "requires a gradient";
        return DDISP_STATUS_OK;
    }
    return operand->add.exists ? decide_frozen(launch, code, i, plan, reason, capacity)
                               : DDISP_STATUS_OK;
}

/* Name of the first frozen input whose policy is SPECIALIZE, or NULL. */
static const char *asked_by(const ddisp__launch *launch)
{
    for (uint32_t i = 0; i < launch->count; i++)
        if (launch->operands[i].add.policy == DDISP_POLICY_SPECIALIZE)
            return launch->operands[i].param->name;
    return NULL;
}

ddisp_status ddisp__backing_decide(const ddisp__launch *launch, uint32_t index, bool auto_omits,
                                   struct ddisp__plan *plan, char *reason, size_t capacity)
{
    const ddisp__code *code = &launch->kernel->codes[index];
    plan->code = index;
    if (!choose_entry(launch, code, auto_omits, &plan->mask, &plan->entry)) {
        bool served = false;
        for (uint32_t i = 0; i < code->desc.entry_count; i++)
            served |= code->desc.entries[i].mode == launch->mode;
        if (!served) {
            (void)snprintf(reason, capacity, "has no %s entry",
                           launch->mode == DDISP_MODE_FORWARD ? "forward" : "backward");
            return DDISP_STATUS_NO_CODE;
        }
        (void)snprintf(reason, capacity,
                       "has no entry and no switches for gradient mask %" PRIu64
                       ": it cannot specialize%s%s%s",
                       plan->mask, asked_by(launch) ? " on '" : "",
                       asked_by(launch) ? asked_by(launch) : "", asked_by(launch) ? "'" : "");
        return DDISP_STATUS_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp_status status = decide_slot(launch, code, i, plan, reason, capacity);
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}
