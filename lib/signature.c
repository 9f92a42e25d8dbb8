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

/* Writes the low bytes of a number and returns where the next go. Eight are written whatever the
 * width: the target is little-endian (base.h), and there is room behind every signature. */
static inline uint8_t *put(uint8_t *at, uint64_t value, uint32_t width)
{
    memcpy(at, &value, sizeof value);
    return at + width;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t length = strnlen(text, DDISP__SIGNATURE_TEXT);
    at = put(at, length, 1);
    memcpy(at, text, length);
    return at + length;
}

/* ---- what is the device's */

void ddisp__signature_device(const ddisp_device_info *info, ddisp__signature_head *out_head)
{
    uint8_t *at = out_head->bytes;
    at = put(at, 'D', 1);
    at = put(at, 'S', 1);
    at = put(at, DDISP__SIGNATURE_VERSION, 1);
    at = put_text(at, info->backend);
    at = put_text(at, info->architecture);
    at = put(at, info->vendor_id, 4);
    at = put(at, info->device_id, 4);
    at = put(at, info->driver_id, 4);
    at = put(at, info->features, 8);
    out_head->size = (uint32_t)(at - out_head->bytes);
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
static uint32_t layout_class_of_others(const ddisp__layout *layout)
{
    uint32_t class = ddisp__layout_class(layout);
    if (class == DDISP_LAYOUT_STRIDED && ddisp__layout_self_overlaps(layout))
        class |= DDISP__SIGNATURE_OVERLAPS;
    return class;
}

/* Nearly all tensors are dense, which is seen at a glance. */
static inline uint32_t layout_class(const ddisp__layout *layout)
{
    return ddisp__layout_is_dense(layout) ? DDISP_LAYOUT_DENSE : layout_class_of_others(layout);
}

/* What two add slots with the same memory have in common: an address, or before there is one, the
 * tensor that will store it. */
static uint64_t memory_of(const ddisp__operand *operand)
{
    if (operand->add.gradient.address || operand->add.is_explicit || !operand->tensor)
        return operand->add.gradient.address;
    return (uint64_t)(uintptr_t)ddisp__tensor_owner(operand->tensor);
}

/* Add slots seen so far, by their memory. */
typedef struct gradients {
    uint64_t memory[DDISP_MAX_PARAMS];        /* per operand */
    uint64_t used[4 * DDISP_MAX_PARAMS / 64]; /* bits: places that were set */
    uint8_t first[4 * DDISP_MAX_PARAMS];      /* operand */
} gradients;

/* 1 + index of the first add slot that has this one's memory, 0 when it is the first. */
static uint32_t gradient_alias(gradients *seen, const ddisp__operand *operand, uint32_t i)
{
    const uint32_t places = sizeof seen->first;
    uint64_t memory = memory_of(operand);
    if (!memory)
        return 0;
    uint32_t place = (uint32_t)(memory * UINT64_C(0x9E3779B97F4A7C15) >> 56);
    for (; seen->used[place / 64] >> place % 64 & 1; place = (place + 1) % places)
        if (seen->memory[seen->first[place]] == memory)
            return seen->first[place] + 1u;
    seen->used[place / 64] |= UINT64_C(1) << place % 64;
    seen->first[place] = (uint8_t)i;
    seen->memory[i] = memory;
    return 0;
}

/* Eight bytes: slots, policy, write modes; dtype, layout and alias of the gradient; dtype and
 * layout of the upstream. */
static uint64_t slots_of(ddisp__launch *launch, ddisp__operand *operand, uint32_t i,
                         gradients *seen)
{
    ddisp__slot *add = &operand->add;
    const ddisp__slot *read = &operand->read;
    uint64_t bytes = (uint64_t)add->exists | (uint64_t)add->wanted << 1 |
                     (uint64_t)read->exists << 2 | (uint64_t)read->wanted << 3 |
                     (uint64_t)add->policy << 8;
    add->alias = 0;
    add->is_shared = false;
    if (add->exists)
        bytes |= (uint64_t)launch->kernel->write_modes[i] << 16;
    if (add->wanted) {
        add->alias = gradient_alias(seen, operand, i);
        if (add->alias)
            add->is_shared = launch->operands[add->alias - 1].add.is_shared = true;
        bytes |= (uint64_t)add->gradient.dtype << 24 |
                 (uint64_t)layout_class(&add->gradient.layout) << 32 | (uint64_t)add->alias << 40;
    }
    if (read->wanted)
        bytes |= (uint64_t)read->gradient.dtype << 48 |
                 (uint64_t)layout_class(&read->gradient.layout) << 56;
    return bytes;
}

/* Seven bytes of a tensor: kind, access, dtype, rank; classes of layout, alignment and alias. */
static uint64_t tensor_of(const ddisp__launch *launch, const ddisp__operand *operand, uint32_t i)
{
    return (uint64_t)operand->param->kind | (uint64_t)operand->param->access << 8 |
           (uint64_t)operand->dtype << 16 | (uint64_t)operand->layout.rank << 24 |
           (uint64_t)layout_class(&operand->layout) << 32 |
           (uint64_t)alignment_class(launch, i) << 40 | (uint64_t)operand->alias << 48;
}

void ddisp__signature_bytes(ddisp__launch *launch)
{
    const ddisp__signature_head *head = &launch->device->signature_head;
    const uint64_t elsewhere = DDISP_LAUNCH_DRY_RUN | DDISP_LAUNCH_DETERMINISTIC;
    bool backward = launch->mode == DDISP_MODE_BACKWARD;
    gradients seen;
    if (backward)
        memset(seen.used, 0, sizeof seen.used);
    memcpy(launch->signature, head->bytes, sizeof head->bytes); /* a fixed size is copied faster */
    uint8_t *at = launch->signature + head->size;
    at = put(at, launch->kernel->hash.low, 8);
    at = put(at, launch->kernel->hash.high, 8);
    at = put(at, launch->mode, 1);
    at = put(at, backward ? launch->options.flags & ~elsewhere : 0, 8);
    at = put(at, 64, 1); /* index width */
    at = put(at, ddisp__launch_deterministic(launch), 1);
    at = put(at, 0, 1); /* atomic mode */
    at = put(at, launch->count, 1);
    for (uint32_t i = 0; i < launch->count; i++) {
        ddisp__operand *operand = &launch->operands[i];
        if (operand->param->kind == DDISP_PARAM_KIND_SCALAR) {
            at = put(at,
                     DDISP_PARAM_KIND_SCALAR | operand->param->access << 8 | operand->dtype << 16,
                     3);
            continue;
        }
        at = put(at, tensor_of(launch, operand, i), 7);
        if (backward)
            at = put(at, slots_of(launch, operand, i, &seen), 8);
    }
    launch->signature_size = (uint32_t)(at - launch->signature);
}

void ddisp__signature_write(ddisp__launch *launch)
{
    ddisp__signature_bytes(launch);
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
