/*
 * code_bytes.c - what a code and a kernel are, as canonical bytes and their hash: everything that
 * can change what is computed, and nothing else. Names of kernels and parameters, function pointers
 * and where bytes lie stay out. docs/signature.md is the specification.
 */
#include "bytes.h"
#include "launch.h"

#include <string.h>

static void put_hash(ddisp__bytes *out, ddisp__hash hash)
{
    ddisp__bytes_number(out, hash.low, 8);
    ddisp__bytes_number(out, hash.high, 8);
}

/* Size and hash; the content itself as well where it has to be told apart for certain. */
static void put_content(ddisp__bytes *out, const void *bytes, uint64_t size_bytes, bool whole)
{
    ddisp__bytes_number(out, size_bytes, 8);
    put_hash(out, ddisp__hash_bytes(bytes ? bytes : "", size_bytes));
    if (whole)
        ddisp__bytes_put(out, bytes, size_bytes);
}

static void put_entry(ddisp__bytes *out, const ddisp_entry *entry)
{
    ddisp__bytes_number(out, entry->mode, 4);
    ddisp__bytes_text(out, entry->name);
    for (uint32_t k = 0; k < 3; k++)
        ddisp__bytes_number(out, entry->group_size[k], 4);
    ddisp__bytes_number(out, entry->function_id, 8);
    ddisp__bytes_number(out, entry->mask, 8);
    ddisp__bytes_number(out, entry->flags, 8);
    ddisp__bytes_number(out, entry->shared_bytes, 4);
    ddisp__bytes_number(out, entry->native_count, 4);
    for (uint32_t i = 0; i < entry->native_count; i++) {
        const ddisp_native_arg *arg = &entry->native[i];
        const uint32_t numbers[8] = {arg->source, arg->param,    arg->index,      arg->space,
                                     arg->set,    arg->location, arg->size_bytes, arg->flags};
        for (uint32_t k = 0; k < 8; k++)
            ddisp__bytes_number(out, numbers[k], 4);
    }
}

void ddisp__code_bytes(const ddisp_kernel *kernel, const ddisp__code *code, bool whole,
                       ddisp__bytes *out)
{
    const ddisp_code *desc = &code->desc;
    ddisp__bytes_text(out, desc->backend);
    ddisp__bytes_text(out, desc->format);
    ddisp__bytes_text(out, desc->options);
    put_content(out, desc->bytes, desc->size_bytes, whole);
    ddisp__bytes_number(out, desc->flags & ~DDISP_CODE_BORROWED, 8);
    ddisp__bytes_number(out, desc->header_count, 4);
    for (uint32_t i = 0; i < desc->header_count; i++) {
        ddisp__bytes_text(out, desc->headers[i].name);
        put_content(out, desc->headers[i].bytes, desc->headers[i].size_bytes, whole);
    }
    ddisp__bytes_number(out, kernel->param_count, 4);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const ddisp_code_param *p = &code->params[i];
        const uint32_t numbers[6] = {p->write_mode,   p->grad_dtype, p->layouts,
                                     p->grad_layouts, p->alignment,  p->switch_id};
        for (uint32_t k = 0; k < 6; k++)
            ddisp__bytes_number(out, numbers[k], 4);
    }
    ddisp__bytes_number(out, desc->entry_count, 4);
    for (uint32_t i = 0; i < desc->entry_count; i++)
        put_entry(out, &desc->entries[i]);
}

static ddisp_status hash_and_clear(ddisp__bytes *bytes, ddisp__hash *out_hash)
{
    bool failed = bytes->failed;
    if (!failed)
        *out_hash = ddisp__hash_bytes(bytes->data, bytes->size);
    ddisp__bytes_clear(bytes);
    return failed ? ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to hash a code")
                  : DDISP_STATUS_OK;
}

ddisp_status ddisp__code_hash(const ddisp_kernel *kernel, const ddisp__code *code,
                              ddisp__hash *out_hash)
{
    ddisp__bytes bytes = {.context = kernel->context};
    ddisp__code_bytes(kernel, code, false, &bytes);
    return hash_and_clear(&bytes, out_hash);
}

ddisp_status ddisp__kernel_hash(const ddisp_kernel *kernel, ddisp__hash *out_hash)
{
    ddisp__bytes bytes = {.context = kernel->context};
    ddisp__bytes_number(&bytes, kernel->param_count, 4);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const ddisp_param *p = &kernel->params[i];
        ddisp__bytes_number(&bytes, p->kind, 4);
        ddisp__bytes_number(&bytes, p->access, 4);
        ddisp__bytes_number(&bytes, p->dtype, 4);
        ddisp__bytes_number(&bytes, p->rank, 4);
        ddisp__bytes_number(&bytes, p->flags, 8);
    }
    ddisp__bytes_number(&bytes, kernel->code_count, 4);
    for (uint32_t i = 0; i < kernel->code_count; i++)
        put_hash(&bytes, kernel->codes[i].hash);
    return hash_and_clear(&bytes, out_hash);
}
