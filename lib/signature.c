/*
 * signature.c - the canonical bytes of a launch request, their hash, and a label for people. The
 * bytes hold everything that can change a backing, a choice of code or compiled code, written field
 * by field; extents, addresses and names stay out. A pure function of the request:
 * docs/signature.md is its specification, golden vectors pin it.
 */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#define SIGNATURE_VERSION 1

typedef struct writer {
    uint8_t *bytes;
    uint32_t size;
} writer;

static void put(writer *w, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        w->bytes[w->size++] = (uint8_t)(value >> (8 * i));
}

static void put_text(writer *w, const char *text)
{
    uint32_t length = (uint32_t)strnlen(text, 255);
    put(w, length, 1);
    memcpy(w->bytes + w->size, text, length);
    w->size += length;
}

/* Largest power of two that divides the address, as its exponent, up to what any code asks for. */
static uint32_t alignment_class(const ddisp__launch *launch, uint32_t i)
{
    uint32_t most = launch->kernel->alignments[i], exponent = 0;
    uint64_t address = launch->operands[i].address;
    while ((UINT32_C(2) << exponent) <= most && address % (UINT64_C(2) << exponent) == 0)
        exponent++;
    return exponent;
}

static void put_slots(writer *w, const ddisp__operand *operand)
{
    const ddisp__slot *add = &operand->add, *read = &operand->read;
    uint32_t bits = (uint32_t)add->exists | (uint32_t)add->wanted << 1 |
                    (uint32_t)read->exists << 2 | (uint32_t)read->wanted << 3;
    put(w, bits, 1);
    put(w, add->policy, 1);
    put(w, add->wanted ? add->gradient.dtype : 0, 1);
    put(w, add->wanted ? ddisp__layout_class(&add->gradient.layout) : 0, 1);
    put(w, read->wanted ? read->gradient.dtype : 0, 1);
    put(w, read->wanted ? ddisp__layout_class(&read->gradient.layout) : 0, 1);
}

void ddisp__signature_write(ddisp__launch *launch)
{
    const ddisp_device_info *info = &launch->device->info;
    bool backward = launch->mode == DDISP_MODE_BACKWARD;
    writer w = {.bytes = launch->signature};
    put(&w, 'D', 1);
    put(&w, 'S', 1);
    put(&w, SIGNATURE_VERSION, 1);
    put(&w, launch->mode, 1);
    put_text(&w, info->backend);
    put_text(&w, info->architecture);
    put(&w, info->vendor_id, 4);
    put(&w, info->device_id, 4);
    put(&w, info->features, 8);
    put(&w, launch->kernel->hash.low, 8);
    put(&w, launch->kernel->hash.high, 8);
    put(&w, backward ? launch->options.flags & ~DDISP_LAUNCH_DRY_RUN : 0, 8);
    put(&w, 64, 1); /* index width */
    put(&w, 0, 1);  /* deterministic mode */
    put(&w, 0, 1);  /* atomic mode */
    put(&w, launch->count, 1);
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        put(&w, operand->param->kind, 1);
        put(&w, operand->param->access, 1);
        put(&w, operand->dtype, 1);
        if (operand->param->kind == DDISP_PARAM_KIND_SCALAR)
            continue;
        put(&w, operand->layout.rank, 1);
        put(&w, ddisp__layout_class(&operand->layout), 1);
        put(&w, alignment_class(launch, i), 1);
        put(&w, operand->alias, 1);
        if (backward)
            put_slots(&w, operand);
    }
    launch->signature_size = w.size;
    launch->hash = ddisp__hash_bytes(launch->signature, w.size);
}

void ddisp__signature_label(const ddisp__launch *launch, char *text, size_t capacity)
{
    size_t used = 0;
#define APPEND(...)                                                                                \
    do {                                                                                           \
        if (used < capacity)                                                                       \
            used += (size_t)snprintf(text + used, capacity - used, __VA_ARGS__);                   \
    } while (0)
    APPEND("%s %s %s:%s", launch->kernel->name,
           launch->mode == DDISP_MODE_BACKWARD ? "backward" : "forward",
           launch->device->info.backend, launch->device->info.architecture);
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        APPEND("%s %s:%s", i ? "," : "", operand->param->name, ddisp_dtype_name(operand->dtype));
        if (operand->param->kind == DDISP_PARAM_KIND_TENSOR)
            APPEND("[%u]", operand->layout.rank);
        if (operand->add.exists)
            APPEND(operand->add.wanted ? " grad" : " frozen");
        if (operand->read.exists)
            APPEND(operand->read.wanted ? " upstream" : " zero");
    }
    APPEND(" #%016llx", (unsigned long long)launch->hash.high);
#undef APPEND
}
