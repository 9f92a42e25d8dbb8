/*
 * signature.c - the canonical bytes of a launch request, their hash, and a label for people. The
 * bytes hold everything that can change a backing, a choice of code or compiled code, written field
 * by field; extents, addresses and names stay out. A pure function of the request:
 * docs/signature.md is its specification, golden vectors pin it. Every launch comes through here,
 * so that what does not change with the launch is written once per device.
 */
#include "signature.h"
#include "launch.h"

#include <stdio.h>
#include <string.h>

/* Where the next byte goes, and a number's way there: the target is little-endian (base.h). */
typedef struct writer {
    uint8_t *at;
} writer;

static void put(writer *w, uint64_t value, uint32_t bytes)
{
    memcpy(w->at, &value, bytes);
    w->at += bytes;
}

static void put_text(writer *w, const char *text)
{
    size_t length = strnlen(text, DDISP__SIGNATURE_TEXT);
    put(w, length, 1);
    memcpy(w->at, text, length);
    w->at += length;
}

/* ---- what is the device's */

void ddisp__signature_device(const ddisp_device_info *info, ddisp__signature_head *out_head)
{
    writer w = {out_head->bytes};
    put(&w, 'D', 1);
    put(&w, 'S', 1);
    put(&w, DDISP__SIGNATURE_VERSION, 1);
    put_text(&w, info->backend);
    put_text(&w, info->architecture);
    put(&w, info->vendor_id, 4);
    put(&w, info->device_id, 4);
    put(&w, info->driver_id, 4);
    put(&w, info->features, 8);
    out_head->size = (uint32_t)(w.at - out_head->bytes);
}

/* ---- what is the launch's */

/* Exponent of the largest power of two that divides the address, up to what any code asks for. */
static uint32_t alignment_class(const ddisp__launch *launch, uint32_t i)
{
    uint32_t most = launch->kernel->alignments[i];
    uint64_t address = launch->operands[i].address;
    if (most < 2)
        return 0;
    uint32_t limit = 31 - (uint32_t)__builtin_clz(most);
    uint32_t exponent = address ? (uint32_t)__builtin_ctzll(address) : limit;
    return exponent < limit ? exponent : limit;
}

/* Broadcast elements share memory by their class; others may too, by their strides. */
static uint32_t layout_class(const ddisp__layout *layout)
{
    uint32_t class = ddisp__layout_class(layout);
    if (class == DDISP_LAYOUT_STRIDED && ddisp__layout_self_overlaps(layout))
        class |= DDISP__SIGNATURE_OVERLAPS;
    return class;
}

/* What two add slots with the same memory have in common: an address, or before there is one, the
 * tensor that will store it. */
static uint64_t memory_of(const ddisp__launch *launch, uint32_t i)
{
    const ddisp__operand *operand = &launch->operands[i];
    if (!operand->add.wanted)
        return 0;
    if (operand->add.gradient.address || operand->add.is_explicit || !operand->tensor)
        return operand->add.gradient.address;
    return (uint64_t)(uintptr_t)ddisp__tensor_owner(operand->tensor);
}

/* Notes in each add slot the first one before it that has the same memory. */
static void find_shared_gradients(ddisp__launch *launch)
{
    enum { PLACES = 4 * DDISP_MAX_PARAMS };
    uint8_t first[PLACES]; /* 1 + operand, by its memory */
    memset(first, 0, sizeof first);
    for (uint32_t i = 0; i < launch->count; i++) {
        uint64_t memory = memory_of(launch, i);
        launch->operands[i].add.alias = 0;
        if (!memory)
            continue;
        uint32_t place = (uint32_t)(memory * UINT64_C(0x9E3779B97F4A7C15) >> 56);
        while (first[place] && memory_of(launch, first[place] - 1u) != memory)
            place = (place + 1) % PLACES;
        if (first[place])
            launch->operands[i].add.alias = first[place];
        else
            first[place] = (uint8_t)(i + 1);
    }
}

static void put_slots(writer *w, const ddisp__launch *launch, uint32_t i)
{
    const ddisp__slot *add = &launch->operands[i].add, *read = &launch->operands[i].read;
    put(w,
        (uint32_t)add->exists | (uint32_t)add->wanted << 1 | (uint32_t)read->exists << 2 |
            (uint32_t)read->wanted << 3,
        1);
    put(w, add->policy, 1);
    put(w, add->exists ? launch->kernel->write_modes[i] : 0, 1);
    put(w, add->wanted ? add->gradient.dtype : 0, 1);
    put(w, add->wanted ? layout_class(&add->gradient.layout) : 0, 1);
    put(w, add->alias, 1);
    put(w, read->wanted ? read->gradient.dtype : 0, 1);
    put(w, read->wanted ? layout_class(&read->gradient.layout) : 0, 1);
}

void ddisp__signature_write(ddisp__launch *launch)
{
    const ddisp__signature_head *head = &launch->device->signature_head;
    bool backward = launch->mode == DDISP_MODE_BACKWARD;
    writer w = {launch->signature};
    memcpy(w.at, head->bytes, sizeof head->bytes); /* a fixed size is copied faster */
    w.at += head->size;
    put(&w, launch->kernel->hash.low, 8);
    put(&w, launch->kernel->hash.high, 8);
    put(&w, launch->mode, 1);
    put(&w, backward ? launch->options.flags & ~DDISP_LAUNCH_DRY_RUN : 0, 8);
    put(&w, 64, 1); /* index width */
    put(&w, 0, 1);  /* deterministic mode */
    put(&w, 0, 1);  /* atomic mode */
    put(&w, launch->count, 1);
    if (backward)
        find_shared_gradients(launch);
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        put(&w, operand->param->kind, 1);
        put(&w, operand->param->access, 1);
        put(&w, operand->dtype, 1);
        if (operand->param->kind == DDISP_PARAM_KIND_SCALAR)
            continue;
        put(&w, operand->layout.rank, 1);
        put(&w, layout_class(&operand->layout), 1);
        put(&w, alignment_class(launch, i), 1);
        put(&w, operand->alias, 1);
        if (backward)
            put_slots(&w, launch, i);
    }
    launch->signature_size = (uint32_t)(w.at - launch->signature);
    launch->hash = ddisp__hash_bytes(launch->signature, launch->signature_size);
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
