/*
 * kernel_code.c - the codes of a kernel: copied, checked against the declared parameters, hashed,
 * and inspected by their backend (which needs no device, so that a broken code is found when the
 * kernel is made and not at its first launch). Whether a device can run a code is asked later, in
 * variant.c.
 */
#include "launch.h"

#include <stdio.h>
#include <string.h>

/* Copies a string; NULL becomes "". */
static bool own_string(ddisp_context *context, const char *text, const char **out_copy)
{
    *out_copy = ddisp__duplicate_string(context, text ? text : "");
    return *out_copy != NULL;
}

static ddisp_status check_native(const ddisp_kernel *kernel, const ddisp_entry *entry,
                                 const char *where)
{
    if (entry->native_count > DDISP__MAX_NATIVES)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: %u native arguments, the most is %u",
                           where, entry->native_count, DDISP__MAX_NATIVES);
    if (entry->native_count && !entry->native)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: native is NULL", where);
    for (uint32_t i = 0; i < entry->native_count; i++) {
        const ddisp_native_arg *arg = &entry->native[i];
        if (arg->source < DDISP_SOURCE_DATA || arg->source > DDISP_SOURCE_BLOCK)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s: native argument %u: unknown source %u", where, i, arg->source);
        bool needs_param = arg->source != DDISP_SOURCE_ITEMS && arg->source != DDISP_SOURCE_BLOCK;
        if (!needs_param)
            continue;
        if (arg->param >= kernel->param_count)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s: native argument %u: parameter %u of %u", where, i, arg->param,
                               kernel->param_count);
        const ddisp_param *param = &kernel->params[arg->param];
        bool scalar = param->kind == DDISP_PARAM_KIND_SCALAR;
        if (scalar != (arg->source == DDISP_SOURCE_SCALAR))
            return ddisp__fail(
                DDISP_STATUS_INVALID_ARGUMENT,
                "%s: native argument %u: source %u does not fit parameter '%s', a %s", where, i,
                arg->source, param->name, scalar ? "scalar" : "tensor");
        bool differentiable = (param->flags & DDISP_PARAM_DIFFERENTIABLE) != 0;
        bool add = arg->source == DDISP_SOURCE_GRAD_ADD,
             read = arg->source == DDISP_SOURCE_GRAD_READ;
        if ((add && !(differentiable && (param->access & DDISP_ACCESS_IN))) ||
            (read && !(differentiable && (param->access & DDISP_ACCESS_OUT))))
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s: native argument %u: parameter '%s' has no gradient to %s",
                               where, i, param->name, add ? "add to" : "read");
    }
    return DDISP_STATUS_OK;
}

static ddisp_status copy_entries(ddisp_kernel *kernel, ddisp__code *code, const ddisp_code *from,
                                 uint32_t index)
{
    ddisp_entry *entries =
        ddisp__allocate(kernel->context, from->entry_count * sizeof *entries + 1);
    if (!entries)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for entries");
    code->desc.entries = entries;
    code->desc.entry_count = 0;
    code->desc.entry_size = (uint32_t)sizeof *entries;
    for (uint32_t i = 0; i < from->entry_count; i++) {
        ddisp_entry entry;
        char where[64];
        (void)snprintf(where, sizeof where, "codes[%u].entries", index);
        ddisp_status status = ddisp__kernel_read_item(where, from->entries, from->entry_size,
                                                      sizeof entry, i, &entry);
        if (status)
            return status;
        (void)snprintf(where, sizeof where, "codes[%u].entries[%u]", index, i);
        if (entry.mode != DDISP_MODE_FORWARD && entry.mode != DDISP_MODE_BACKWARD)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: unknown mode %u", where,
                               entry.mode);
        if (entry.flags & ~(DDISP_ENTRY_MASKED | DDISP_ENTRY_LOOPS))
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s: unknown flags 0x%llx", where,
                               (unsigned long long)entry.flags);
        status = check_native(kernel, &entry, where);
        if (status)
            return status;
        entries[i] = entry;
        entries[i].name = NULL;
        entries[i].native = NULL;
        code->desc.entry_count = i + 1;
        if (entry.native_count)
            entries[i].native = ddisp__duplicate(kernel->context, entry.native,
                                                 entry.native_count * sizeof *entry.native);
        if (!own_string(kernel->context, entry.name, &entries[i].name) ||
            (entry.native_count && !entries[i].native))
            return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for an entry");
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_code_param(const ddisp_code_param *p, const char *name, uint32_t index,
                                     uint32_t i)
{
    const char *what = NULL;
    uint32_t value = 0;
    if (p->write_mode > DDISP_WRITE_MODE_UNKNOWN) {
        what = "unknown write_mode";
        value = p->write_mode;
    } else if ((p->layouts | p->grad_layouts) & ~DDISP_LAYOUT_ANY) {
        what = "unknown layouts";
        value = p->layouts | p->grad_layouts;
    } else if (p->grad_dtype && !ddisp__dtype_differentiable(p->grad_dtype)) {
        what = "grad_dtype is not f16, bf16, f32 or f64 but";
        value = p->grad_dtype;
    } else if (p->alignment & (p->alignment - 1)) {
        what = "alignment is no power of two:";
        value = p->alignment;
    } else if (p->reserved) {
        what = "reserved is not 0 but";
        value = p->reserved;
    }
    return what ? ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "codes[%u].params[%u] ('%s'): %s %u",
                              index, i, name, what, value)
                : DDISP_STATUS_OK;
}

static ddisp_status copy_code_params(ddisp_kernel *kernel, ddisp__code *code,
                                     const ddisp_code *from, uint32_t index)
{
    bool any = (from->flags & DDISP_CODE_ANY_LAYOUT) != 0;
    char where[64];
    (void)snprintf(where, sizeof where, "codes[%u].params", index);
    for (uint32_t i = 0; i < kernel->param_count; i++)
        code->params[i] = (ddisp_code_param){.param = i};
    if (from->param_count && !from->params)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "codes[%u].params is NULL", index);
    for (uint32_t i = 0; i < from->param_count; i++) {
        ddisp_code_param p;
        ddisp_status status =
            ddisp__kernel_read_item(where, from->params, from->param_size, sizeof p, i, &p);
        if (status)
            return status;
        if (p.param >= kernel->param_count)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "codes[%u].params[%u]: parameter %u of %u", index, i, p.param,
                               kernel->param_count);
        status = check_code_param(&p, kernel->params[p.param].name, index, i);
        if (status)
            return status;
        code->params[p.param] = p;
        code->switch_ids[p.param] = p.switch_id;
    }
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        ddisp_code_param *p = &code->params[i];
        if (!p->layouts)
            p->layouts = any ? DDISP_LAYOUT_ANY : DDISP_LAYOUT_DENSE;
        if (!p->grad_layouts)
            p->grad_layouts = any ? DDISP_LAYOUT_ANY : p->layouts;
        if (p->alignment > kernel->alignments[i])
            kernel->alignments[i] = p->alignment;
        kernel->write_modes[i] |= (uint8_t)(1u << p->write_mode);
        p->layouts |= DDISP_LAYOUT_DENSE;
        p->grad_layouts |= DDISP_LAYOUT_DENSE;
    }
    return DDISP_STATUS_OK;
}

/* The files that a source includes: names, and bytes unless they are borrowed. */
static ddisp_status copy_headers(ddisp_kernel *kernel, ddisp__code *code, const ddisp_code *from,
                                 uint32_t index)
{
    ddisp_context *context = kernel->context;
    if (!from->header_count)
        return DDISP_STATUS_OK;
    if (!from->headers)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "codes[%u].headers is NULL, header_count is %u", index,
                           from->header_count);
    ddisp_header *headers = ddisp__allocate(context, from->header_count * sizeof *headers);
    if (!headers)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for headers");
    code->desc.headers = headers;
    code->desc.header_size = (uint32_t)sizeof *headers;
    for (uint32_t i = 0; i < from->header_count; i++) {
        ddisp_header header;
        char where[64];
        (void)snprintf(where, sizeof where, "codes[%u].headers", index);
        ddisp_status status = ddisp__kernel_read_item(where, from->headers, from->header_size,
                                                      sizeof header, i, &header);
        if (status)
            return status;
        if (!header.name || !header.name[0])
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s[%u] has no name", where, i);
        if (!header.bytes && header.size_bytes)
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s[%u] ('%s'): bytes is NULL, size_bytes is %llu", where, i,
                               header.name, (unsigned long long)header.size_bytes);
        headers[i] = header;
        headers[i].bytes = NULL;
        code->desc.header_count = i + 1;
        bool named = own_string(context, header.name, &headers[i].name);
        headers[i].bytes = code->desc.flags & DDISP_CODE_BORROWED
                               ? header.bytes
                               : ddisp__duplicate(context, header.bytes, header.size_bytes);
        if (!named || (!headers[i].bytes && header.bytes))
            return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for header '%s'",
                               header.name);
    }
    return DDISP_STATUS_OK;
}

static ddisp_status inspect(ddisp_kernel *kernel, ddisp__code *code, uint32_t index)
{
    code->backend_code = (ddisp_backend_code){.size = (uint32_t)sizeof code->backend_code,
                                              .param_count = kernel->param_count,
                                              .kernel_name = kernel->name,
                                              .code = &code->desc,
                                              .params = kernel->params,
                                              .switch_ids = code->switch_ids,
                                              .block_size_bytes = kernel->block_size_bytes};
    const ddisp_backend_table *table = ddisp__loader_table(kernel->context, code->desc.backend);
    if (!table)
        return DDISP_STATUS_OK;
    code->info.size = (uint32_t)sizeof code->info;
    ddisp_status status = table->inspect(ddisp__services(), &code->backend_code, &code->info);
    if (status == DDISP_STATUS_UNSUPPORTED)
        return DDISP_STATUS_OK; /* a format for others: another code may serve this backend */
    if (status) {
        ddisp_error error = *ddisp__error();
        return ddisp__fail(status, "kernel %s: code %u (%s %s): %s", kernel->name, index,
                           code->desc.backend, code->desc.format, error.message);
    }
    code->inspected = true;
    return DDISP_STATUS_OK;
}

static ddisp_status copy_code(ddisp_kernel *kernel, const ddisp_code *from, uint32_t index)
{
    ddisp_context *context = kernel->context;
    ddisp__code *code = &kernel->codes[index];
    if (!from->backend || !from->format)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "codes[%u].%s is NULL", index,
                           !from->backend ? "backend" : "format");
    if (!from->bytes && from->size_bytes)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "codes[%u].bytes is NULL, size_bytes is %llu", index,
                           (unsigned long long)from->size_bytes);
    if (!from->entries || !from->entry_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "codes[%u] has no entries", index);
    const uint64_t known = DDISP_CODE_NULL_SAFE | DDISP_CODE_BORROWED | DDISP_CODE_ANY_LAYOUT |
                           DDISP_CODE_PRE_REDUCES | DDISP_CODE_DETERMINISTIC;
    if (from->flags & ~known)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "codes[%u]: unknown flags 0x%llx", index,
                           (unsigned long long)(from->flags & ~known));
    code->desc = (ddisp_code){.size_bytes = from->size_bytes, .flags = from->flags};
    if (!own_string(context, from->backend, &code->desc.backend) ||
        !own_string(context, from->format, &code->desc.format) ||
        !own_string(context, from->options, &code->desc.options))
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a code");
    code->desc.bytes = from->bytes;
    if (from->bytes && !(from->flags & DDISP_CODE_BORROWED))
        code->desc.bytes = ddisp__duplicate(context, from->bytes, from->size_bytes);
    if (from->bytes && !code->desc.bytes)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a code of %llu bytes",
                           (unsigned long long)from->size_bytes);
    ddisp_status status = copy_entries(kernel, code, from, index);
    if (!status)
        status = copy_code_params(kernel, code, from, index);
    if (!status)
        status = copy_headers(kernel, code, from, index);
    if (!status)
        status = ddisp__code_hash(kernel, code, &code->hash);
    return status ? status : inspect(kernel, code, index);
}

ddisp_status ddisp__kernel_copy_codes(ddisp_kernel *kernel, const ddisp_kernel_desc *desc)
{
    kernel->codes = ddisp__allocate(kernel->context, desc->code_count * sizeof(ddisp__code) + 1);
    if (!kernel->codes)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for codes");
    kernel->code_count = desc->code_count;
    for (uint32_t i = 0; i < desc->code_count; i++) {
        ddisp_code from;
        ddisp_status status =
            ddisp__kernel_read_grown("codes", desc->codes, desc->code_size,
                                     offsetof(ddisp_code, headers), sizeof from, i, &from);
        if (!status)
            status = copy_code(kernel, &from, i);
        if (status)
            return status;
    }
    return DDISP_STATUS_OK;
}

void ddisp__kernel_release_codes(ddisp_kernel *kernel)
{
    ddisp_context *context = kernel->context;
    for (uint32_t i = 0; i < kernel->code_count && kernel->codes; i++) {
        const ddisp_code *desc = &kernel->codes[i].desc;
        for (uint32_t k = 0; k < desc->entry_count; k++) {
            ddisp__release_const(context, desc->entries[k].name);
            ddisp__release_const(context, desc->entries[k].native);
        }
        ddisp__release_const(context, desc->entries);
        for (uint32_t k = 0; k < desc->header_count; k++) {
            ddisp__release_const(context, desc->headers[k].name);
            if (!(desc->flags & DDISP_CODE_BORROWED))
                ddisp__release_const(context, desc->headers[k].bytes);
        }
        ddisp__release_const(context, desc->headers);
        if (!(desc->flags & DDISP_CODE_BORROWED))
            ddisp__release_const(context, desc->bytes);
        ddisp__release_const(context, desc->backend);
        ddisp__release_const(context, desc->format);
        ddisp__release_const(context, desc->options);
    }
    ddisp__release(context, kernel->codes);
}
