/*
 * vulkan_native.c - native arguments of an existing shader: where each goes, and whether that is
 * what the shader has. Storage buffers are compared by set and binding, push constants by their
 * bytes: each number or address of the block must be given, and be of its kind.
 *
 * In: a declared list and a module. Out: the first argument, descriptor or member that cannot be
 * right, by name. Needs no driver, except for the limits of a device.
 */
#include "vulkan_native.h"

#define MOST_LEAVES 128u

/* ---- places ---- */

static ddisp_status place_descriptor(const ddisp_backend_services *services,
                                     const ddisp_backend_code *code, const ddisp_entry *entry,
                                     uint32_t i, vulkan__natives *natives)
{
    const ddisp_native_arg *arg = &entry->native[i];
    vulkan__native_place *place = &natives->places[i];
    if (!backend_native_is_address(arg->source))
        return backend_native_fail(services, code, entry, i,
                                   "is a number and cannot be a storage buffer; give it as a push "
                                   "constant");
    if (arg->set >= VULKAN__MAX_SETS)
        return backend_native_fail(services, code, entry, i,
                                   "is in descriptor set %u, the backend takes 0 to %u", arg->set,
                                   VULKAN__MAX_SETS - 1);
    place->descriptor = true;
    place->set = arg->set;
    place->location = arg->location;
    for (uint32_t k = 0; k < i; k++)
        if (natives->places[k].descriptor && natives->places[k].set == arg->set &&
            natives->places[k].location == arg->location)
            return backend_native_fail(services, code, entry, i,
                                       "is at set %u, binding %u, as native argument %u is",
                                       arg->set, arg->location, k);
    natives->descriptor_count++;
    if (natives->set_count <= arg->set)
        natives->set_count = arg->set + 1;
    return DDISP_STATUS_OK;
}

static ddisp_status place_push(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const ddisp_entry *entry, uint32_t i,
                               uint32_t next, vulkan__natives *natives)
{
    const ddisp_native_arg *arg = &entry->native[i];
    vulkan__native_place *place = &natives->places[i];
    uint32_t size = backend_native_size(code, arg);
    bool number = arg->source != DDISP_SOURCE_SCALAR && !backend_native_is_address(arg->source);
    uint32_t wanted =
        arg->source == DDISP_SOURCE_SCALAR ? backend_dtype_size(code->params[arg->param].dtype) : 8;
    if (size != wanted && !(number && size == 4))
        return backend_native_fail(services, code, entry, i, "cannot have %u bytes: it is of %s%u",
                                   size, number ? "4 or " : "", wanted);
    uint32_t at =
        arg->flags & DDISP_NATIVE_LOCATION ? arg->location : (next + size - 1) / size * size;
    if (at % (size < 4 ? size : 4) != 0 || at > VULKAN__MAX_PUSH_BYTES ||
        size > VULKAN__MAX_PUSH_BYTES - at)
        return backend_native_fail(services, code, entry, i,
                                   "of %u bytes is at byte %u of the push constants; it must be at "
                                   "a multiple of its size and end before byte %u",
                                   size, at, VULKAN__MAX_PUSH_BYTES + 1);
    for (uint32_t k = 0; k < i; k++) {
        const vulkan__native_place *other = &natives->places[k];
        if (!other->descriptor && other->location < at + size &&
            at < other->location + other->size_bytes)
            return backend_native_fail(services, code, entry, i,
                                       "has the push constants' bytes %u to %u, and native "
                                       "argument %u has %u to %u",
                                       at, at + size - 1, k, other->location,
                                       other->location + other->size_bytes - 1);
    }
    place->location = at;
    place->size_bytes = size;
    if (natives->push_bytes < at + size)
        natives->push_bytes = (at + size + 3) / 4 * 4;
    return DDISP_STATUS_OK;
}

/** Joins an offset with the descriptor whose beginning it is counted from. */
static void join_offset(const ddisp_backend_code *code, const ddisp_entry *entry, uint32_t i,
                        vulkan__natives *natives)
{
    const ddisp_native_arg *arg = &entry->native[i];
    natives->places[i].data = VULKAN__NO_ARGUMENT;
    if (arg->source != DDISP_SOURCE_OFFSET)
        return;
    natives->places[i].element_bytes = backend_dtype_size(code->params[arg->param].dtype);
    for (uint32_t k = 0; k < natives->count; k++)
        if (entry->native[k].source == DDISP_SOURCE_DATA && entry->native[k].param == arg->param &&
            natives->places[k].descriptor)
            natives->places[i].data = k;
}

ddisp_status vulkan__native_place_all(const ddisp_backend_services *services,
                                      const ddisp_backend_code *code, const ddisp_entry *entry,
                                      vulkan__natives *out_natives)
{
    uint32_t next = 0;
    memset(out_natives, 0, sizeof *out_natives);
    out_natives->count = entry->native_count;
    if (entry->native_count > BACKEND_MAX_NATIVES)
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' has %u native arguments, the most is %u",
                            code->kernel_name, entry->name, entry->native_count,
                            BACKEND_MAX_NATIVES);
    for (uint32_t i = 0; i < entry->native_count; i++) {
        const ddisp_native_arg *arg = &entry->native[i];
        bool dimension = arg->source == DDISP_SOURCE_SHAPE || arg->source == DDISP_SOURCE_STRIDE;
        uint32_t rank = dimension ? code->params[arg->param].rank : 0;
        rank = rank < 8 ? rank : 8;
        if (dimension && arg->index >= rank)
            return backend_native_fail(services, code, entry, i, "is of a tensor of rank %u", rank);
        if (arg->space > DDISP_SPACE_PUSH_CONSTANT)
            return backend_native_fail(services, code, entry, i, "has the unknown space %u",
                                       arg->space);
        ddisp_status status = arg->space == DDISP_SPACE_DESCRIPTOR
                                  ? place_descriptor(services, code, entry, i, out_natives)
                                  : place_push(services, code, entry, i, next, out_natives);
        if (status != DDISP_STATUS_OK)
            return status;
        if (!out_natives->places[i].descriptor)
            next = out_natives->places[i].location + out_natives->places[i].size_bytes;
    }
    for (uint32_t i = 0; i < entry->native_count; i++)
        join_offset(code, entry, i, out_natives);
    return backend_native_complete(services, code, entry);
}

/* ---- descriptors ---- */

/** What a variable is, where it is bound to a set. */
typedef struct binding {
    uint32_t set, binding;
    bool buffer; /* a storage buffer, and one alone */
    const char *kind;
} binding;

/** False for variables that are not bound. */
static bool read_binding(const vulkan__spirv *module, const vulkan__instruction *variable,
                         binding *out)
{
    uint32_t id = vulkan__spirv_word(module, variable->at + 2), value;
    uint32_t class = vulkan__spirv_word(module, variable->at + 3);
    vulkan__instruction pointer, type;
    if ((class != SpvStorageClassStorageBuffer && class != SpvStorageClassUniform &&
         class != SpvStorageClassUniformConstant) ||
        !vulkan__spirv_decoration(module, id, SpvDecorationBinding, &out->binding))
        return false;
    out->set = 0;
    (void)vulkan__spirv_decoration(module, id, SpvDecorationDescriptorSet, &out->set);
    out->buffer = false;
    out->kind = class == SpvStorageClassUniform ? "a uniform buffer" : "an image or sampler";
    if (class == SpvStorageClassUniformConstant ||
        !vulkan__spirv_definition(module, vulkan__spirv_word(module, variable->at + 1), &pointer) ||
        pointer.opcode != SpvOpTypePointer ||
        !vulkan__spirv_definition(module, vulkan__spirv_word(module, pointer.at + 3), &type))
        return true;
    if (type.opcode != SpvOpTypeStruct) {
        out->kind = "an array of descriptors";
        return true;
    }
    uint32_t block = vulkan__spirv_word(module, type.at + 1);
    out->buffer = class == SpvStorageClassStorageBuffer ||
                  vulkan__spirv_decoration(module, block, SpvDecorationBufferBlock, &value);
    return true;
}

static ddisp_status check_used_bindings(const vulkan__spirv *module, const ddisp_entry *entry,
                                        const uint8_t *used, const vulkan__natives *natives)
{
    vulkan__instruction i = {0};
    binding found;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpVariable || !used[vulkan__spirv_word(module, i.at + 2)] ||
            !read_binding(module, &i, &found))
            continue;
        if (!found.buffer)
            return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry '%s' uses %s at set %u, binding %u; native "
                                "arguments are storage buffers and push constants",
                                module->kernel_name, entry->name, found.kind, found.set,
                                found.binding);
        bool declared = false;
        for (uint32_t k = 0; k < natives->count; k++)
            declared |= natives->places[k].descriptor && natives->places[k].set == found.set &&
                        natives->places[k].location == found.binding;
        if (!declared)
            return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry '%s' uses the storage buffer at set %u, binding "
                                "%u, which no native argument is declared for",
                                module->kernel_name, entry->name, found.set, found.binding);
    }
    return DDISP_STATUS_OK;
}

static bool has_buffer(const vulkan__spirv *module, const vulkan__native_place *place,
                       const char **out_kind)
{
    vulkan__instruction i = {0};
    binding found;
    *out_kind = "nothing";
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpVariable || !read_binding(module, &i, &found) ||
            found.set != place->set || found.binding != place->location)
            continue;
        if (found.buffer)
            return true;
        *out_kind = found.kind;
    }
    return false;
}

static ddisp_status check_declared_bindings(const vulkan__spirv *module,
                                            const ddisp_backend_code *code,
                                            const ddisp_entry *entry,
                                            const vulkan__natives *natives)
{
    const char *kind;
    for (uint32_t i = 0; i < natives->count; i++)
        if (natives->places[i].descriptor && !has_buffer(module, &natives->places[i], &kind))
            return backend_native_fail(module->services, code, entry, i,
                                       "is at set %u, binding %u, where the SPIR-V has %s instead "
                                       "of a storage buffer",
                                       natives->places[i].set, natives->places[i].location, kind);
    return DDISP_STATUS_OK;
}

/* ---- push constants ---- */

static bool is_float(const ddisp_backend_code *code, const ddisp_native_arg *arg)
{
    ddisp_dtype dtype =
        arg->source == DDISP_SOURCE_SCALAR ? code->params[arg->param].dtype : DDISP_DTYPE_ANY;
    return dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16 || dtype == DDISP_DTYPE_F32 ||
           dtype == DDISP_DTYPE_F64;
}

/** What lies at the bytes of an argument, where the argument is something else; else NULL. */
static const char *disagreement(const ddisp_backend_code *code, const ddisp_native_arg *arg,
                                const vulkan__native_place *place, const vulkan__leaf *leaf)
{
    bool bfloat =
        arg->source == DDISP_SOURCE_SCALAR && code->params[arg->param].dtype == DDISP_DTYPE_BF16;
    if (leaf->kind == VULKAN__LEAF_ADDRESS)
        return backend_native_is_address(arg->source) ? NULL : "an address";
    if (leaf->kind == VULKAN__LEAF_FLOAT && !is_float(code, arg))
        return "a floating-point number";
    if (leaf->kind == VULKAN__LEAF_INTEGER && is_float(code, arg) && !bfloat)
        return "an integer";
    bool pair = leaf->kind == VULKAN__LEAF_INTEGER && leaf->component_bytes == 4;
    if (place->size_bytes == leaf->component_bytes || (place->size_bytes == 8 && pair))
        return NULL;
    return leaf->component_bytes == 1   ? "a number of 1 byte"
           : leaf->component_bytes == 2 ? "a number of 2 bytes"
           : leaf->component_bytes == 4 ? "a number of 4 bytes"
                                        : "a number of 8 bytes";
}

static ddisp_status check_push_arguments(const vulkan__spirv *module,
                                         const ddisp_backend_code *code, const ddisp_entry *entry,
                                         const vulkan__natives *natives, uint64_t block_bytes,
                                         const vulkan__leaf *leaves, uint32_t leaf_count)
{
    for (uint32_t i = 0; i < natives->count; i++) {
        const vulkan__native_place *place = &natives->places[i];
        const vulkan__leaf *leaf = NULL;
        if (place->descriptor)
            continue;
        uint64_t end = place->location + place->size_bytes;
        for (uint32_t k = 0; k < leaf_count && !leaf; k++)
            if (leaves[k].offset <= place->location &&
                end <= leaves[k].offset + leaves[k].size_bytes)
                leaf = &leaves[k];
        if (!leaf || (place->location - leaf->offset) % leaf->component_bytes != 0)
            return backend_native_fail(module->services, code, entry, i,
                                       "has bytes %u to %u of the push constants; the SPIR-V has "
                                       "%" PRIu64 " bytes, and no number or address at these",
                                       place->location, (uint32_t)end - 1, block_bytes);
        const char *other = disagreement(code, &entry->native[i], place, leaf);
        if (other)
            return backend_native_fail(module->services, code, entry, i,
                                       "of %u bytes is at byte %u of the push constants, where the "
                                       "SPIR-V has %s",
                                       place->size_bytes, place->location, other);
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_push_members(const vulkan__spirv *module, const ddisp_entry *entry,
                                       const vulkan__natives *natives, uint32_t block,
                                       const vulkan__leaf *leaves, uint32_t leaf_count)
{
    for (uint32_t k = 0; k < leaf_count; k++) {
        uint64_t covered = 0;
        for (uint32_t i = 0; i < natives->count; i++)
            if (!natives->places[i].descriptor && leaves[k].offset <= natives->places[i].location &&
                natives->places[i].location < leaves[k].offset + leaves[k].size_bytes)
                covered += natives->places[i].size_bytes;
        if (covered == leaves[k].size_bytes)
            continue;
        char name[128];
        vulkan__spirv_member_name(module, block, leaves[k].member, name, sizeof name);
        return backend_fail(
            module->services, DDISP_STATUS_CODE_INVALID, 0,
            "kernel %s: entry '%s' takes member %u%s%s%s of its push constants, %u "
            "bytes at byte %" PRIu64 ", and native arguments give %" PRIu64 " bytes of it",
            module->kernel_name, entry->name, leaves[k].member, name[0] ? " ('" : "", name,
            name[0] ? "')" : "", leaves[k].size_bytes, leaves[k].offset, covered);
    }
    return DDISP_STATUS_OK;
}

/** The structure of the push constants that the entry uses (used NULL: may use); 0: none. */
static uint32_t push_block(const vulkan__spirv *module, const uint8_t *used)
{
    vulkan__instruction i = {0}, pointer;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction)
        if (i.opcode == SpvOpVariable &&
            vulkan__spirv_word(module, i.at + 3) == SpvStorageClassPushConstant &&
            (!used || used[vulkan__spirv_word(module, i.at + 2)]) &&
            vulkan__spirv_definition(module, vulkan__spirv_word(module, i.at + 1), &pointer) &&
            pointer.opcode == SpvOpTypePointer)
            return vulkan__spirv_word(module, pointer.at + 3);
    return 0;
}

static ddisp_status check_push(const vulkan__spirv *module, const ddisp_backend_code *code,
                               const ddisp_entry *entry, const uint8_t *used,
                               const vulkan__natives *natives)
{
    vulkan__leaf leaves[MOST_LEAVES];
    uint32_t block = push_block(module, used);
    bool must_have = block != 0;
    if (!block)
        block = push_block(module, NULL);
    uint32_t count = block ? vulkan__spirv_leaves(module, block, leaves, MOST_LEAVES) : 0;
    uint64_t bytes = block ? vulkan__spirv_type_bytes(module, block) : 0;
    if (count > MOST_LEAVES)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' takes more than %u numbers as push constants",
                            module->kernel_name, entry->name, MOST_LEAVES);
    ddisp_status status = check_push_arguments(module, code, entry, natives, bytes, leaves, count);
    if (status == DDISP_STATUS_OK && must_have)
        status = check_push_members(module, entry, natives, block, leaves, count);
    return status;
}

/* ---- both ---- */

ddisp_status vulkan__native_check(const vulkan__spirv *module, const ddisp_backend_code *code,
                                  const ddisp_entry *entry, const vulkan__entry *found)
{
    vulkan__natives natives;
    ddisp_status status = vulkan__native_place_all(module->services, code, entry, &natives);
    if (status != DDISP_STATUS_OK)
        return status;
    uint8_t *used = vulkan__spirv_mark_used(module, found);
    if (!used)
        return backend_fail(module->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for %u ids of SPIR-V", module->kernel_name,
                            module->bound);
    status = check_used_bindings(module, entry, used, &natives);
    if (status == DDISP_STATUS_OK)
        status = check_declared_bindings(module, code, entry, &natives);
    if (status == DDISP_STATUS_OK)
        status = check_push(module, code, entry, used, &natives);
    backend_release(module->services, used);
    return status;
}

ddisp_status vulkan__native_fits(vulkan__device *device, const ddisp_backend_code *code,
                                 const ddisp_entry *entry)
{
    const VkPhysicalDeviceLimits *limits = &device->adapter->properties.limits;
    vulkan__natives natives;
    ddisp_status status = vulkan__native_place_all(device->services, code, entry, &natives);
    if (status != DDISP_STATUS_OK)
        return status;
    const struct {
        const char *what;
        uint32_t needs, has;
    } tests[] = {
        {"bytes of push constants", natives.push_bytes, limits->maxPushConstantsSize},
        {"descriptor sets", natives.set_count, limits->maxBoundDescriptorSets},
        {"storage buffers", natives.descriptor_count, limits->maxPerStageDescriptorStorageBuffers},
    };
    for (uint32_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (tests[i].needs > tests[i].has)
            return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                                "kernel %s: entry '%s' needs %u %s, %s has %u; use the standard "
                                "argument block",
                                code->kernel_name, entry->name, tests[i].needs, tests[i].what,
                                device->adapter->properties.deviceName, tests[i].has);
    return DDISP_STATUS_OK;
}
