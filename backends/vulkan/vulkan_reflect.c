/*
 * vulkan_reflect.c - questions to a SPIR-V module whose structure was found sound: entry points,
 * decorations, specialization constants, group sizes and sizes of types. Operands are not trusted:
 * ids are looked up, recursion is bounded.
 */
#include "vulkan_spirv.h"

#include <string.h>

#define DEEPEST_TYPE 16

bool vulkan__spirv_decoration(const vulkan__spirv *module, uint32_t id, SpvDecoration decoration,
                              uint32_t *out_value)
{
    vulkan__instruction i = {0};
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpDecorate || vulkan__spirv_word(module, i.at + 1) != id ||
            vulkan__spirv_word(module, i.at + 2) != (uint32_t)decoration)
            continue;
        *out_value = i.length > 3 ? vulkan__spirv_word(module, i.at + 3) : 0;
        return true;
    }
    return false;
}

/** True when text is pattern with its first "{mask}" replaced by a decimal number. */
static bool matches(const char *text, const char *pattern)
{
    const char *mask = strstr(pattern, "{mask}");
    if (!mask)
        return strcmp(text, pattern) == 0;
    size_t before = (size_t)(mask - pattern);
    if (strncmp(text, pattern, before) != 0)
        return false;
    size_t digits = strspn(text + before, "0123456789");
    return digits > 0 && strcmp(text + before + digits, mask + strlen("{mask}")) == 0;
}

bool vulkan__spirv_entry(const vulkan__spirv *module, const char *name, vulkan__entry *out_entry)
{
    vulkan__instruction i = {0};
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        char text[512];
        if (i.opcode != SpvOpEntryPoint ||
            vulkan__spirv_word(module, i.at + 1) != SpvExecutionModelGLCompute)
            continue;
        uint32_t behind =
            vulkan__spirv_string(module, i.at + 3, i.at + i.length, text, sizeof text);
        if (!matches(text, name))
            continue;
        out_entry->function = vulkan__spirv_word(module, i.at + 2);
        out_entry->interface_begin = behind;
        out_entry->interface_end = i.at + i.length;
        return true;
    }
    return false;
}

bool vulkan__spirv_uses(const vulkan__spirv *module, const vulkan__entry *entry, uint32_t variable)
{
    if (module->version < 0x00010400u)
        return true;
    for (uint32_t k = entry->interface_begin; k < entry->interface_end; k++)
        if (vulkan__spirv_word(module, k) == variable)
            return true;
    return false;
}

/** Reads one axis of a group size from the constant that holds it. */
static void read_axis(const vulkan__spirv *module, uint32_t id, uint32_t axis, vulkan__group *group)
{
    vulkan__instruction constant;
    if (!vulkan__spirv_definition(module, id, &constant) ||
        (constant.opcode != SpvOpConstant && constant.opcode != SpvOpSpecConstant))
        return; /* computed at specialization: 0, not known */
    group->size[axis] = vulkan__spirv_word(module, constant.at + 3);
    uint32_t spec_id;
    if (constant.opcode == SpvOpSpecConstant &&
        vulkan__spirv_decoration(module, id, SpvDecorationSpecId, &spec_id))
        group->spec_id[axis] = spec_id;
}

/** The constant that is decorated as the size of every group of the module, if there is one. */
static bool read_workgroup_size(const vulkan__spirv *module, vulkan__group *group)
{
    vulkan__instruction i = {0}, constant;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpDecorate || i.length < 4 ||
            vulkan__spirv_word(module, i.at + 2) != SpvDecorationBuiltIn ||
            vulkan__spirv_word(module, i.at + 3) != SpvBuiltInWorkgroupSize)
            continue;
        if (!vulkan__spirv_definition(module, vulkan__spirv_word(module, i.at + 1), &constant) ||
            (constant.opcode != SpvOpConstantComposite &&
             constant.opcode != SpvOpSpecConstantComposite) ||
            constant.length != 6)
            return false;
        for (uint32_t axis = 0; axis < 3; axis++)
            read_axis(module, vulkan__spirv_word(module, constant.at + 3 + axis), axis, group);
        return true;
    }
    return false;
}

vulkan__group vulkan__spirv_group(const vulkan__spirv *module, const vulkan__entry *entry)
{
    vulkan__group group = {0};
    for (uint32_t axis = 0; axis < 3; axis++)
        group.spec_id[axis] = VULKAN__NO_SPEC_ID;
    group.found = read_workgroup_size(module, &group);
    vulkan__instruction i = {0};
    while (!group.found && vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if ((i.opcode != SpvOpExecutionMode && i.opcode != SpvOpExecutionModeId) || i.length != 6 ||
            vulkan__spirv_word(module, i.at + 1) != entry->function)
            continue;
        uint32_t mode = vulkan__spirv_word(module, i.at + 2);
        group.by_id = i.opcode == SpvOpExecutionModeId && mode == SpvExecutionModeLocalSizeId;
        group.found =
            group.by_id || (i.opcode == SpvOpExecutionMode && mode == SpvExecutionModeLocalSize);
        for (uint32_t axis = 0; axis < 3 && group.found; axis++) {
            uint32_t word = vulkan__spirv_word(module, i.at + 3 + axis);
            if (group.by_id)
                read_axis(module, word, axis, &group);
            else
                group.size[axis] = word;
        }
    }
    return group;
}

vulkan__spec vulkan__spirv_spec(const vulkan__spirv *module, uint32_t spec_id)
{
    vulkan__instruction i = {0}, constant, type;
    vulkan__spec found = VULKAN__SPEC_ABSENT;
    /* Compilers may emit several constants with one id; all are set, so all must be switches. */
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpDecorate || i.length < 4 ||
            vulkan__spirv_word(module, i.at + 2) != SpvDecorationSpecId ||
            vulkan__spirv_word(module, i.at + 3) != spec_id)
            continue;
        if (!vulkan__spirv_definition(module, vulkan__spirv_word(module, i.at + 1), &constant))
            continue;
        bool boolean =
            constant.opcode == SpvOpSpecConstantTrue || constant.opcode == SpvOpSpecConstantFalse;
        bool integer =
            constant.opcode == SpvOpSpecConstant &&
            vulkan__spirv_definition(module, vulkan__spirv_word(module, constant.at + 1), &type) &&
            type.opcode == SpvOpTypeInt && vulkan__spirv_word(module, type.at + 2) == 32;
        if (!boolean && !integer)
            return VULKAN__SPEC_OTHER;
        found = VULKAN__SPEC_SWITCH;
    }
    return found;
}

bool vulkan__spirv_member_decoration(const vulkan__spirv *module, uint32_t type, uint32_t member,
                                     SpvDecoration decoration, uint32_t *out_value)
{
    vulkan__instruction i = {0};
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpMemberDecorate || i.length < 5 ||
            vulkan__spirv_word(module, i.at + 1) != type ||
            vulkan__spirv_word(module, i.at + 2) != member ||
            vulkan__spirv_word(module, i.at + 3) != (uint32_t)decoration)
            continue;
        *out_value = vulkan__spirv_word(module, i.at + 4);
        return true;
    }
    return false;
}

static uint64_t type_bytes(const vulkan__spirv *module, uint32_t type, int depth);

static uint64_t struct_bytes(const vulkan__spirv *module, const vulkan__instruction *type,
                             int depth)
{
    uint64_t size = 0;
    uint32_t id = vulkan__spirv_word(module, type->at + 1);
    for (uint32_t member = 0; member + 2 < type->length; member++) {
        uint32_t offset = 0, stride = 0;
        uint32_t member_type = vulkan__spirv_word(module, type->at + 2 + member);
        (void)vulkan__spirv_member_decoration(module, id, member, SpvDecorationOffset, &offset);
        uint64_t bytes = type_bytes(module, member_type, depth);
        vulkan__instruction definition;
        if (vulkan__spirv_definition(module, member_type, &definition) &&
            definition.opcode == SpvOpTypeMatrix &&
            vulkan__spirv_member_decoration(module, id, member, SpvDecorationMatrixStride, &stride))
            bytes = (uint64_t)stride * vulkan__spirv_word(module, definition.at + 3);
        if (offset + bytes > size)
            size = offset + bytes;
    }
    return size;
}

static uint64_t array_bytes(const vulkan__spirv *module, const vulkan__instruction *type, int depth)
{
    uint32_t stride = 0;
    vulkan__instruction length;
    uint64_t element = type_bytes(module, vulkan__spirv_word(module, type->at + 2), depth);
    if (vulkan__spirv_decoration(module, vulkan__spirv_word(module, type->at + 1),
                                 SpvDecorationArrayStride, &stride))
        element = stride;
    if (!vulkan__spirv_definition(module, vulkan__spirv_word(module, type->at + 3), &length) ||
        (length.opcode != SpvOpConstant && length.opcode != SpvOpSpecConstant))
        return element;
    return element * vulkan__spirv_word(module, length.at + 3);
}

static uint64_t type_bytes(const vulkan__spirv *module, uint32_t type, int depth)
{
    vulkan__instruction definition;
    if (depth == 0 || !vulkan__spirv_definition(module, type, &definition))
        return 0;
    uint32_t at = definition.at;
    switch (definition.opcode) {
    case SpvOpTypeInt:
    case SpvOpTypeFloat:
        return vulkan__spirv_word(module, at + 2) / 8;
    case SpvOpTypePointer:
        return 8;
    case SpvOpTypeVector:
    case SpvOpTypeMatrix:
        return type_bytes(module, vulkan__spirv_word(module, at + 2), depth - 1) *
               vulkan__spirv_word(module, at + 3);
    case SpvOpTypeArray:
        return array_bytes(module, &definition, depth - 1);
    case SpvOpTypeStruct:
        return struct_bytes(module, &definition, depth - 1);
    default:
        return 0;
    }
}

uint64_t vulkan__spirv_type_bytes(const vulkan__spirv *module, uint32_t type)
{
    return type_bytes(module, type, DEEPEST_TYPE);
}
