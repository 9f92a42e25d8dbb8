/*
 * vulkan_inspect.c - what a code of a kernel is, without a driver: its entries are there, their
 * group sizes and arguments are those declared, and which parameters it has switches for; and what
 * it needs of a device. Findings are reported by name; nothing is changed.
 */
#include "vulkan_native.h"

#include <string.h>

static uint32_t declared_size(const ddisp_entry *entry, uint32_t axis)
{
    return entry->group_size[axis] ? entry->group_size[axis] : axis == 0 ? 256 : 1;
}

/** Names of the compute entries that are there, for messages. */
static void list_entries(const vulkan__spirv *module, char *text, size_t capacity)
{
    size_t used = 0;
    vulkan__instruction i = {0};
    text[0] = 0;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction && used < capacity) {
        char name[128];
        if (i.opcode != SpvOpEntryPoint ||
            vulkan__spirv_word(module, i.at + 1) != SpvExecutionModelGLCompute)
            continue;
        (void)vulkan__spirv_string(module, i.at + 3, i.at + i.length, name, sizeof name);
        int length = snprintf(text + used, capacity - used, "%s'%s'", used ? ", " : "", name);
        used += length > 0 ? (size_t)length : 0;
    }
    if (used == 0)
        (void)snprintf(text, capacity, "none");
}

static ddisp_status check_group(const vulkan__spirv *module, const ddisp_entry *entry,
                                const vulkan__entry *found)
{
    vulkan__group group = vulkan__spirv_group(module, found);
    if (!group.found)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' of the SPIR-V has no LocalSize",
                            module->kernel_name, entry->name);
    for (uint32_t axis = 0; axis < 3; axis++) {
        uint32_t declared = declared_size(entry, axis);
        bool literal = group.size[axis] != 0 && group.spec_id[axis] == VULKAN__NO_SPEC_ID;
        if (literal && group.size[axis] != declared)
            return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry '%s' is declared with a group size of %u on "
                                "axis %u, the SPIR-V has LocalSize %u",
                                module->kernel_name, entry->name, declared, axis, group.size[axis]);
        for (uint32_t other = 0; other < axis; other++)
            if (group.spec_id[axis] != VULKAN__NO_SPEC_ID &&
                group.spec_id[axis] == group.spec_id[other] &&
                declared != declared_size(entry, other))
                return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                    "kernel %s: entry '%s' takes its group size on axes %u and %u "
                                    "from specialization constant %u, but %u and %u are declared",
                                    module->kernel_name, entry->name, other, axis,
                                    group.spec_id[axis], declared_size(entry, other), declared);
    }
    return DDISP_STATUS_OK;
}

/** A standard entry is given 8 bytes of push constants and nothing else. */
static ddisp_status check_arguments(const vulkan__spirv *module, const ddisp_entry *entry,
                                    const vulkan__entry *found)
{
    vulkan__instruction i = {0}, pointer;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpVariable)
            continue;
        uint32_t variable = vulkan__spirv_word(module, i.at + 2);
        uint32_t class = vulkan__spirv_word(module, i.at + 3);
        uint32_t set = 0, binding = 0;
        if (!vulkan__spirv_uses(module, found, variable))
            continue;
        if (class == SpvStorageClassPushConstant &&
            vulkan__spirv_definition(module, vulkan__spirv_word(module, i.at + 1), &pointer) &&
            pointer.opcode == SpvOpTypePointer) {
            uint64_t bytes =
                vulkan__spirv_type_bytes(module, vulkan__spirv_word(module, pointer.at + 3));
            if (bytes > 8)
                return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                    "kernel %s: entry '%s' takes %llu bytes of push constants; the "
                                    "standard argument block is given as its address in 8",
                                    module->kernel_name, entry->name, (unsigned long long)bytes);
        }
        if ((class == SpvStorageClassStorageBuffer || class == SpvStorageClassUniform ||
             class == SpvStorageClassUniformConstant) &&
            vulkan__spirv_decoration(module, variable, SpvDecorationBinding, &binding)) {
            (void)vulkan__spirv_decoration(module, variable, SpvDecorationDescriptorSet, &set);
            return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry '%s' uses a descriptor at set %u, binding %u; an "
                                "entry that takes the standard argument block has none",
                                module->kernel_name, entry->name, set, binding);
        }
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_entry(const vulkan__spirv *module, const ddisp_backend_code *code,
                                const ddisp_entry *entry)
{
    vulkan__entry found;
    if (!vulkan__spirv_entry(module, entry->name, &found)) {
        char names[400];
        list_entries(module, names, sizeof names);
        return backend_fail(module->services, DDISP_STATUS_NOT_FOUND, 0,
                            "kernel %s: the SPIR-V has no compute entry '%s' (it has: %s)",
                            module->kernel_name, entry->name, names);
    }
    ddisp_status status = check_group(module, entry, &found);
    if (status == DDISP_STATUS_OK)
        status = entry->native_count ? vulkan__native_check(module, code, entry, &found)
                                     : check_arguments(module, entry, &found);
    return status;
}

uint32_t vulkan__switch_id(const ddisp_backend_code *code, uint32_t param)
{
    return code->switch_ids[param] ? code->switch_ids[param] : DDISP_SPIRV_SWITCH_BASE + param;
}

static ddisp_status find_switches(const vulkan__spirv *module, const ddisp_backend_code *code,
                                  uint64_t *out_mask)
{
    *out_mask = 0;
    for (uint32_t i = 0; i < code->param_count; i++) {
        uint32_t id = vulkan__switch_id(code, i);
        vulkan__spec spec = vulkan__spirv_spec(module, id);
        if (spec == VULKAN__SPEC_SWITCH)
            *out_mask |= UINT64_C(1) << i;
        if (code->switch_ids[i] == 0)
            continue;
        if (spec != VULKAN__SPEC_SWITCH)
            return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: specialization constant %u is declared as the switch "
                                "of parameter '%s', but the SPIR-V has %s",
                                module->kernel_name, id, code->params[i].name,
                                spec == VULKAN__SPEC_ABSENT
                                    ? "none with this id"
                                    : "it as something else than a boolean or 32-bit integer");
        for (uint32_t k = 0; k < code->param_count; k++)
            if (k != i && vulkan__switch_id(code, k) == id)
                return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                                    "kernel %s: specialization constant %u is the switch of both "
                                    "'%s' and '%s'",
                                    module->kernel_name, id, code->params[i].name,
                                    code->params[k].name);
    }
    return DDISP_STATUS_OK;
}

static bool compares_and_swaps(const vulkan__spirv *module)
{
    vulkan__instruction i = {0};
    while (vulkan__spirv_next(module, &i))
        if (i.opcode == SpvOpAtomicCompareExchange || i.opcode == SpvOpAtomicCompareExchangeWeak)
            return true;
    return false;
}

/* 64-bit integer atomics are what the headers add only where DDISP_DETERMINISTIC was defined. */
static ddisp_status check_deterministic(const vulkan__spirv *module, const ddisp_code *code)
{
    vulkan__instruction i = {0};
    bool adds = false;
    for (uint32_t k = 0; k < code->entry_count; k++)
        adds |= code->entries[k].mode == DDISP_MODE_BACKWARD;
    if (!adds || !(code->flags & DDISP_CODE_DETERMINISTIC))
        return DDISP_STATUS_OK;
    while (vulkan__spirv_next(module, &i) && i.opcode == SpvOpCapability)
        if (vulkan__spirv_word(module, i.at + 1) == SpvCapabilityInt64Atomics)
            return DDISP_STATUS_OK;
    return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                        "kernel %s: the code is declared DDISP_CODE_DETERMINISTIC, but the SPIR-V "
                        "does not have the capability Int64Atomics: define DDISP_DETERMINISTIC "
                        "before ddisp.glsl is included",
                        module->kernel_name);
}

ddisp_status vulkan__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                             ddisp_backend_code_info *info)
{
    vulkan__spirv module;
    uint64_t switches = 0;
    if (strcmp(code->code->format, "spirv") != 0)
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: the Vulkan backend takes code of format 'spirv', not '%s'",
                            code->kernel_name, code->code->format);
    ddisp_status status = vulkan__spirv_open(services, code->kernel_name, code->code->bytes,
                                             code->code->size_bytes, &module);
    for (uint32_t i = 0; status == DDISP_STATUS_OK && i < code->code->entry_count; i++)
        status = check_entry(&module, code, &code->code->entries[i]);
    if (status == DDISP_STATUS_OK)
        status = check_deterministic(&module, code->code);
    if (status == DDISP_STATUS_OK)
        status = find_switches(&module, code, &switches);
    if (status == DDISP_STATUS_OK) {
        info->switch_mask = switches;
        info->flags = compares_and_swaps(&module) ? DDISP_BACKEND_CODE_COMPARE_AND_SWAP : 0;
    }
    vulkan__spirv_close(&module);
    return status;
}
