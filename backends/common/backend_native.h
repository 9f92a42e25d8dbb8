/*
 * backend_native.h - native arguments, as far as they are the same for every backend whose kernels
 * take a list of them: which position each takes, how many bytes, whether the list is complete, and
 * how each is called in messages. Included by each backend's own files.
 *
 * In: a declared entry. Out: positions, or a sentence that names argument and parameter.
 */
#ifndef DDISP_BACKEND_NATIVE_H
#define DDISP_BACKEND_NATIVE_H

#include "backend_support.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/** Most native arguments of an entry; the core takes no more. */
#define BACKEND_MAX_NATIVES 128u
/** Room for what backend_native_describe writes. */
#define BACKEND_NATIVE_TEXT 256u

/** Where the arguments of an entry go. */
typedef struct backend_native_places {
    uint32_t count;
    uint8_t position[BACKEND_MAX_NATIVES]; /* of argument i */
    uint8_t argument[BACKEND_MAX_NATIVES]; /* at position i */
} backend_native_places;

/** Size of an element in bytes; 0 for ANY. */
static inline uint32_t backend_dtype_size(ddisp_dtype dtype)
{
    static const uint8_t sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dtype < sizeof sizes ? sizes[dtype] : 0;
}

/** It is filled with an address. */
static inline bool backend_native_is_address(ddisp_source source)
{
    return source == DDISP_SOURCE_DATA || source == DDISP_SOURCE_GRAD_ADD ||
           source == DDISP_SOURCE_GRAD_READ || source == DDISP_SOURCE_BLOCK;
}

/** Bytes of an argument: as declared, or by its kind. */
static inline uint32_t backend_native_size(const ddisp_backend_code *code,
                                           const ddisp_native_arg *arg)
{
    if (arg->size_bytes != 0) {
        return arg->size_bytes;
    }
    return arg->source == DDISP_SOURCE_SCALAR ? backend_dtype_size(code->params[arg->param].dtype)
                                              : 8;
}

/** Writes what a source gives, such as "the gradient of 'b' that is added to"; with code NULL
 * parameters are called by their number. */
static inline void backend_native_describe(const ddisp_backend_code *code,
                                           const ddisp_native_arg *arg, char *text, size_t capacity)
{
    char param[160];
    if (code) {
        const char *name = arg->param < code->param_count ? code->params[arg->param].name : "?";
        (void)snprintf(param, sizeof param, "'%.128s'", name);
    } else {
        (void)snprintf(param, sizeof param, "parameter %u", arg->param);
    }
    switch (arg->source) {
    case DDISP_SOURCE_DATA:
        (void)snprintf(text, capacity, "the address of %s", param);
        break;
    case DDISP_SOURCE_GRAD_ADD:
        (void)snprintf(text, capacity, "the gradient of %s that is added to", param);
        break;
    case DDISP_SOURCE_GRAD_READ:
        (void)snprintf(text, capacity, "the upstream gradient of %s", param);
        break;
    case DDISP_SOURCE_SHAPE:
        (void)snprintf(text, capacity, "extent %u of %s", arg->index, param);
        break;
    case DDISP_SOURCE_STRIDE:
        (void)snprintf(text, capacity, "stride %u of %s", arg->index, param);
        break;
    case DDISP_SOURCE_NUMEL:
        (void)snprintf(text, capacity, "the element count of %s", param);
        break;
    case DDISP_SOURCE_OFFSET:
        (void)snprintf(text, capacity, "the offset of %s", param);
        break;
    case DDISP_SOURCE_SCALAR:
        (void)snprintf(text, capacity, "the scalar %s", param);
        break;
    case DDISP_SOURCE_ITEMS:
        (void)snprintf(text, capacity, "the number of items");
        break;
    default:
        (void)snprintf(text, capacity, "the argument block");
        break;
    }
}

/** Fails with "kernel K: entry 'E': native argument I (what it is): " and the rest. */
__attribute__((format(printf, 5, 6))) static inline ddisp_status
backend_native_fail(const ddisp_backend_services *services, const ddisp_backend_code *code,
                    const ddisp_entry *entry, uint32_t i, const char *format, ...)
{
    char what[BACKEND_NATIVE_TEXT], rest[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    backend_native_describe(code, &entry->native[i], what, sizeof what);
    return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                        "kernel %s: entry '%s': native argument %u (%s) %s", code->kernel_name,
                        entry->name, i, what, rest);
}

static inline ddisp_status backend_native_check(const ddisp_backend_services *services,
                                                const ddisp_backend_code *code,
                                                const ddisp_entry *entry, uint32_t i)
{
    const ddisp_native_arg *arg = &entry->native[i];
    bool scalar = arg->source == DDISP_SOURCE_SCALAR;
    uint32_t size_bytes = backend_native_size(code, arg);
    uint32_t wanted = scalar ? backend_dtype_size(code->params[arg->param].dtype) : 8;
    if (arg->space != DDISP_SPACE_DEFAULT) {
        return backend_native_fail(services, code, entry, i,
                                   "is for a descriptor or push constant (space %u); a function "
                                   "has arguments only, space 0",
                                   arg->space);
    }
    bool number = !scalar && !backend_native_is_address(arg->source);
    if (size_bytes != wanted && !(number && size_bytes == 4)) {
        return backend_native_fail(services, code, entry, i, "cannot have %u bytes: it is of %s%u",
                                   size_bytes, number ? "4 or " : "", wanted);
    }
    bool dimension = arg->source == DDISP_SOURCE_SHAPE || arg->source == DDISP_SOURCE_STRIDE;
    uint32_t rank = dimension ? code->params[arg->param].rank : 0;
    rank = rank < 8 ? rank : 8;
    if (dimension && arg->index >= rank) {
        return backend_native_fail(services, code, entry, i, "is of a tensor of rank %u", rank);
    }
    return DDISP_STATUS_OK;
}

/** A gradient slot that the entry neither leaves out by its mask nor takes is a missing argument.
 */
static inline ddisp_status backend_native_complete(const ddisp_backend_services *services,
                                                   const ddisp_backend_code *code,
                                                   const ddisp_entry *entry)
{
    uint64_t adds = 0, reads = 0;
    uint64_t mask = entry->flags & DDISP_ENTRY_MASKED ? entry->mask : UINT64_MAX;
    for (uint32_t i = 0; i < entry->native_count; i++) {
        const ddisp_native_arg *arg = &entry->native[i];
        if (arg->source == DDISP_SOURCE_BLOCK) {
            return DDISP_STATUS_OK;
        }
        if (arg->source == DDISP_SOURCE_GRAD_ADD) {
            adds |= UINT64_C(1) << arg->param;
        } else if (arg->source == DDISP_SOURCE_GRAD_READ) {
            reads |= UINT64_C(1) << arg->param;
        }
    }
    for (uint32_t i = 0; i < code->param_count && entry->mode == DDISP_MODE_BACKWARD; i++) {
        const ddisp_param *param = &code->params[i];
        bool add = (param->access & DDISP_ACCESS_IN) && !(adds >> i & 1);
        bool read = (param->access & DDISP_ACCESS_OUT) && !(reads >> i & 1);
        if (!(param->flags & DDISP_PARAM_DIFFERENTIABLE) || !(mask >> i & 1) || !(add || read)) {
            continue;
        }
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s': no native argument is the gradient of '%s' "
                            "that is %s (DDISP_SOURCE_GRAD_%s, parameter %u); add it, or declare "
                            "the parameter without DDISP_PARAM_DIFFERENTIABLE",
                            code->kernel_name, entry->name, param->name, add ? "added to" : "read",
                            add ? "ADD" : "READ", i);
    }
    return DDISP_STATUS_OK;
}

/**
 * Finds the position of every argument: its location, or the position after the one before it in
 * the list. Each position is taken once, and none is left out. CODE_INVALID names the argument.
 */
static inline ddisp_status backend_native_place(const ddisp_backend_services *services,
                                                const ddisp_backend_code *code,
                                                const ddisp_entry *entry,
                                                backend_native_places *out_places)
{
    bool taken[BACKEND_MAX_NATIVES] = {false};
    uint32_t next = 0;
    if (entry->native_count > BACKEND_MAX_NATIVES) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' has %u native arguments, the most is %u",
                            code->kernel_name, entry->name, entry->native_count,
                            BACKEND_MAX_NATIVES);
    }
    out_places->count = entry->native_count;
    for (uint32_t i = 0; i < entry->native_count; i++) {
        const ddisp_native_arg *arg = &entry->native[i];
        ddisp_status status = backend_native_check(services, code, entry, i);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        uint32_t position = arg->flags & DDISP_NATIVE_LOCATION ? arg->location : next;
        if (position >= entry->native_count) {
            return backend_native_fail(services, code, entry, i,
                                       "is at position %u, and there are %u native arguments: "
                                       "positions are 0 to %u, without gaps",
                                       position, entry->native_count, entry->native_count - 1);
        }
        if (taken[position]) {
            return backend_native_fail(services, code, entry, i,
                                       "is at position %u, as native argument %u is", position,
                                       out_places->argument[position]);
        }
        taken[position] = true;
        out_places->position[i] = (uint8_t)position;
        out_places->argument[position] = (uint8_t)i;
        next = position + 1;
    }
    return backend_native_complete(services, code, entry);
}

/** A number of a launch fits into its bytes. LIMIT_EXCEEDED has both. */
static inline ddisp_status backend_native_fits(const ddisp_backend_services *services,
                                               const ddisp_backend_native *native, uint32_t i)
{
    char what[BACKEND_NATIVE_TEXT];
    ddisp_source source = native->arg->source;
    int64_t value = (int64_t)native->value;
    bool is_signed = source == DDISP_SOURCE_STRIDE;
    int64_t low = is_signed ? INT32_MIN : 0, high = is_signed ? INT32_MAX : UINT32_MAX;
    if (native->size_bytes != 4 || source == DDISP_SOURCE_SCALAR ||
        (value >= low && value <= high)) {
        return DDISP_STATUS_OK;
    }
    backend_native_describe(NULL, native->arg, what, sizeof what);
    return backend_fail(services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                        "native argument %u (%s) is %" PRId64
                        " and goes in 4 bytes, which hold %" PRId64 " to %" PRId64
                        "; give it 8 (size_bytes) if the kernel takes them",
                        i, what, value, low, high);
}

#endif
