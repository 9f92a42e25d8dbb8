/*
 * report.c - what a launch did, kept for the caller: a summary, one entry per gradient slot, the
 * signature, and a table for people. Copies everything, so a report outlives what it speaks of.
 * Never fails a launch.
 */
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct slot_text {
    char name[64];
    char access[8];
    char tensor[96];
    char state[24];
} slot_text;

struct ddisp_report {
    ddisp_context *context; /* referenced */
    ddisp_report_info info;
    char head[320];
    char origin[128];
    char label[512];
    uint32_t signature_size;
    uint8_t signature[DDISP__SIGNATURE_CAPACITY];
    ddisp_report_slot slots[2 * DDISP_MAX_PARAMS];
    slot_text texts[2 * DDISP_MAX_PARAMS];
};

const char *ddisp_policy_name(ddisp_policy policy)
{
    static const char *const names[] = {"default", "auto",    "specialize", "guard",
                                        "sink",    "scratch", "reject"};
    return policy < sizeof names / sizeof names[0] ? names[policy] : "unknown";
}

const char *ddisp_backing_name(ddisp_backing backing)
{
    static const char *const names[] = {"none", "real",    "omitted", "null",
                                        "sink", "scratch", "zero",    "shadow"};
    return backing < sizeof names / sizeof names[0] ? names[backing] : "unknown";
}

static const char *skip_text(ddisp_skip skip)
{
    static const char *const texts[] = {"",
                                        "no input requires a gradient",
                                        "every upstream gradient is zero",
                                        "no work items",
                                        "dry run",
                                        "the call failed"};
    return skip < sizeof texts / sizeof texts[0] ? texts[skip] : "unknown";
}

ddisp_status ddisp_report_create(ddisp_context *context, ddisp_report **out_report)
{
    ddisp_status status = ddisp__context_check(context);
    if (!status && !out_report)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_report is NULL");
    if (status)
        return status;
    ddisp_report *report = ddisp__allocate(context, sizeof *report);
    if (!report)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a report");
    ddisp_context_retain(context);
    report->context = context;
    *out_report = report;
    return DDISP_STATUS_OK;
}

void ddisp_report_release(ddisp_report *report)
{
    if (!report)
        return;
    ddisp_context *context = report->context;
    ddisp__release(context, report);
    ddisp_context_release(context);
}

void ddisp__report_begin(ddisp_report *report)
{
    if (!report)
        return;
    ddisp_context *context = report->context;
    memset(report, 0, sizeof *report);
    report->context = context;
}

/* ---- filling ---- */

static void add_slot(ddisp_report *report, const ddisp__launch *launch, uint32_t i, bool add)
{
    const ddisp__operand *operand = &launch->operands[i];
    const ddisp__slot *slot = add ? &operand->add : &operand->read;
    if (!slot->exists)
        return;
    uint32_t at = report->info.slot_count++;
    ddisp_report_slot *out = &report->slots[at];
    slot_text *text = &report->texts[at];
    bool frozen = add && !slot->wanted;
    out->size = (uint32_t)sizeof *out;
    out->param = i;
    out->is_add = add;
    out->backing = slot->backing;
    out->policy = frozen ? slot->policy : DDISP_POLICY_DEFAULT;
    out->requires_grad = (operand->flags & DDISP_TENSOR_REQUIRES_GRAD) != 0;
    out->bytes = slot->bytes;
    out->flags = launch->skip ? slot->report_flags & DDISP_REPORT_SLOT_TAKEN : slot->report_flags;
    if (report->info.status) { /* nothing was made or taken, but a fill may have been queued */
        bool held = slot->temporary && slot->backing != DDISP_BACKING_SHADOW;
        bool overwritten = (slot->report_flags & DDISP_REPORT_SLOT_FILLED) && !held &&
                           !(slot->report_flags & DDISP_REPORT_SLOT_MADE);
        out->flags = overwritten ? DDISP_REPORT_SLOT_UNDEFINED : 0;
    }
    (void)snprintf(out->reason, sizeof out->reason, "%s", slot->reason ? slot->reason : "");
    bool taken = slot->temporary && slot->backing != DDISP_BACKING_SHADOW &&
                 !(slot->report_flags & DDISP_REPORT_SLOT_CONVERTED);
    if (taken || slot->backing == DDISP_BACKING_SINK)
        report->info.extra_bytes += slot->bytes;
    static const char *const access[] = {"", "in", "out", "inout"};
    (void)snprintf(text->name, sizeof text->name, "%s", operand->param->name);
    (void)snprintf(text->access, sizeof text->access, "%s", access[operand->param->access]);
    ddisp__layout_format(operand->dtype, &operand->layout, text->tensor, sizeof text->tensor);
    const char *state = add ? (slot->wanted ? "requires grad" : "frozen")
                            : (slot->wanted ? "upstream given" : "upstream absent");
    (void)snprintf(text->state, sizeof text->state, "%s", state);
}

static void fill_code(ddisp_report *report, const ddisp__launch *launch)
{
    const struct ddisp__plan *plan = launch->plan;
    const ddisp__code *code = &launch->kernel->codes[plan->code];
    char names[80] = "";
    size_t used = 0;
    report->info.code = plan->code;
    report->info.mask = plan->mask;
    for (uint32_t i = 0; i < launch->count && used < sizeof names; i++)
        if (launch->operands[i].add.exists && (plan->mask >> i & 1))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? "," : "",
                                     launch->operands[i].param->name);
    if (launch->origin == DDISP_VARIANT_ORIGIN_BUILT)
        (void)snprintf(report->origin, sizeof report->origin,
                       "variant {%s} of code %u (%s) built in %.1f ms", names, plan->code,
                       code->desc.format, (double)launch->build_ns / 1e6);
    else if (launch->origin == DDISP_VARIANT_ORIGIN_LOADED)
        (void)snprintf(report->origin, sizeof report->origin,
                       "variant {%s} of code %u (%s) loaded from the kernel cache in %.1f ms",
                       names, plan->code, code->desc.format, (double)launch->build_ns / 1e6);
    else
        (void)snprintf(report->origin, sizeof report->origin, "variant {%s} of code %u (%s)%s",
                       names, plan->code, code->desc.format, launch->origin ? " reused" : "");
}

void ddisp__report_fill(ddisp_report *report, const ddisp__launch *launch, ddisp_status status)
{
    if (!report)
        return;
    report->info = (ddisp_report_info){.size = (uint32_t)sizeof report->info,
                                       .status = status,
                                       .mode = launch->mode,
                                       .skip = status ? DDISP_SKIP_FAILED : launch->skip,
                                       .variant = launch->origin,
                                       .items = launch->items,
                                       .build_ns = launch->build_ns};
    report->info.launched = !status && !launch->skip;
    const char *mode = launch->mode == DDISP_MODE_BACKWARD ? "backward" : "forward";
    if (launch->device)
        (void)snprintf(report->head, sizeof report->head, "%s %s on %s (%s, %s)",
                       launch->kernel->name, mode, launch->device->info.spec,
                       launch->device->info.name, launch->device->info.architecture);
    if (status && !launch->stream)
        return; /* the arguments could not be read */
    for (uint32_t i = 0; i < launch->count; i++) {
        add_slot(report, launch, i, true);
        add_slot(report, launch, i, false);
    }
    if (launch->plan)
        fill_code(report, launch);
    if (!launch->signature_size)
        return;
    memcpy(report->signature, launch->signature, launch->signature_size);
    report->signature_size = launch->signature_size;
    memcpy(report->info.signature, &launch->hash, sizeof report->info.signature);
    ddisp__signature_label(launch, report->label, sizeof report->label);
}

/* ---- reading ---- */

static ddisp_status check(const ddisp_report *report)
{
    return report ? DDISP_STATUS_OK : ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "report is NULL");
}

ddisp_status ddisp_report_get_info(const ddisp_report *report, ddisp_report_info *out_info)
{
    ddisp_status status = check(report);
    return status ? status
                  : ddisp__struct_write("out_info", out_info, sizeof *out_info, sizeof *out_info,
                                        &report->info);
}

ddisp_status ddisp_report_get_slot(const ddisp_report *report, uint32_t index,
                                   ddisp_report_slot *out_slot)
{
    ddisp_status status = check(report);
    if (status)
        return status;
    if (index >= report->info.slot_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "index is %u, the report has %u slots",
                           index, report->info.slot_count);
    return ddisp__struct_write("out_slot", out_slot, sizeof *out_slot, sizeof *out_slot,
                               &report->slots[index]);
}

static void describe_slot(const ddisp_report *report, uint32_t at, char *line, size_t capacity)
{
    const ddisp_report_slot *slot = &report->slots[at];
    const slot_text *text = &report->texts[at];
    char memory[96] = "";
    if (slot->bytes)
        (void)snprintf(memory, sizeof memory, ", %" PRIu64 " bytes", slot->bytes);
    (void)snprintf(line, capacity, "  %-8s %-5s %-20s %-15s -> %-8s %s%s%s%s%s\n", text->name,
                   text->access, text->tensor, text->state, ddisp_backing_name(slot->backing),
                   slot->reason, memory, slot->flags & DDISP_REPORT_SLOT_MADE ? ", made now" : "",
                   slot->flags & DDISP_REPORT_SLOT_TAKEN ? ", taken" : "",
                   slot->flags & DDISP_REPORT_SLOT_UNDEFINED ? ", content undefined" : "");
}

ddisp_status ddisp_report_format(const ddisp_report *report, char *buffer, uint64_t capacity,
                                 uint64_t *out_length)
{
    ddisp_status status = check(report);
    if (status)
        return status;
    size_t room = 1024 + report->info.slot_count * 400u, used = 0;
    char *text = ddisp__allocate(report->context, room);
    if (!text)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for the text");
    used += (size_t)snprintf(text, room, "%s\n", report->head);
    for (uint32_t i = 0; i < report->info.slot_count; i++) {
        describe_slot(report, i, text + used, 400);
        used += strlen(text + used);
    }
    if (report->info.status)
        used += (size_t)snprintf(text + used, room - used, "  failed: %s\n",
                                 ddisp_status_name(report->info.status));
    else if (report->info.launched)
        used += (size_t)snprintf(text + used, room - used, "  %s; %" PRIu64 " items launched\n",
                                 report->origin, report->info.items);
    else
        used += (size_t)snprintf(text + used, room - used, "  nothing launched: %s\n",
                                 skip_text(report->info.skip));
    status = ddisp__text_write(text, buffer, capacity, out_length);
    ddisp__release(report->context, text);
    return status;
}

ddisp_status ddisp_report_get_label(const ddisp_report *report, char *buffer, uint64_t capacity,
                                    uint64_t *out_length)
{
    ddisp_status status = check(report);
    return status ? status : ddisp__text_write(report->label, buffer, capacity, out_length);
}

ddisp_status ddisp_report_get_signature(const ddisp_report *report, uint8_t *buffer,
                                        uint64_t capacity, uint64_t *out_length)
{
    ddisp_status status = check(report);
    if (status)
        return status;
    if (out_length)
        *out_length = report->signature_size;
    if (!buffer && capacity)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "buffer is NULL, capacity is %" PRIu64,
                           capacity);
    if (capacity < report->signature_size)
        return ddisp__fail(DDISP_STATUS_BUFFER_TOO_SMALL,
                           "capacity is %" PRIu64 ", the signature has %u bytes", capacity,
                           report->signature_size);
    memcpy(buffer, report->signature, report->signature_size);
    return DDISP_STATUS_OK;
}
