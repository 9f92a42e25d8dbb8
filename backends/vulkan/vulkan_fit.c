/*
 * vulkan_fit.c - whether a device can run a SPIR-V module: its version, capabilities and extensions
 * against what was enabled when the device was opened. What is missing is said in words.
 */
#include "vulkan_native.h"

/** Fails when a need is not met; `what` is "capability" or "extension". */
static ddisp_status check_need(const vulkan__device *device, const vulkan__spirv *module,
                               const vulkan__need *need, const char *what)
{
    const vulkan__adapter *adapter = device->adapter;
    const char *name = adapter->properties.deviceName;
    const char *open = need->advice ? "; " : "", *advice = need->advice ? need->advice : "";
    if (VK_API_VERSION_MINOR(adapter->api_version) < need->minor_version)
        return backend_fail(module->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: the SPIR-V needs the %s %s (Vulkan 1.%u), %s offers 1.%u",
                            module->kernel_name, what, need->name, need->minor_version, name,
                            VK_API_VERSION_MINOR(adapter->api_version));
    if (need->any_of == 0 || (need->any_of & adapter->features))
        return DDISP_STATUS_OK;
    const char *extension = "";
    const char *feature = vulkan__feature_name((uint32_t)__builtin_ctzll(need->any_of), &extension);
    return backend_fail(
        module->services, DDISP_STATUS_UNSUPPORTED, 0,
        "kernel %s: the SPIR-V needs the %s %s (%s%s%s), which %s does not have%s%s",
        module->kernel_name, what, need->name, feature, extension[0] ? " of " : "", extension, name,
        open, advice);
}

static ddisp_status check_declarations(const vulkan__device *device, const vulkan__spirv *module)
{
    vulkan__instruction i = {0};
    ddisp_status status = DDISP_STATUS_OK;
    while (status == DDISP_STATUS_OK && vulkan__spirv_next(module, &i) &&
           i.opcode != SpvOpFunction) {
        if (i.opcode == SpvOpCapability) {
            uint32_t capability = vulkan__spirv_word(module, i.at + 1);
            const vulkan__need *need = vulkan__need_of_capability(capability);
            if (!need)
                return backend_fail(module->services, DDISP_STATUS_UNSUPPORTED, 0,
                                    "kernel %s: the SPIR-V needs capability %u, which the Vulkan "
                                    "backend does not enable",
                                    module->kernel_name, capability);
            status = check_need(device, module, need, "capability");
        } else if (i.opcode == SpvOpExtension) {
            char name[128];
            (void)vulkan__spirv_string(module, i.at + 1, i.at + i.length, name, sizeof name);
            const vulkan__need *need = vulkan__need_of_extension(name);
            if (!need)
                return backend_fail(module->services, DDISP_STATUS_UNSUPPORTED, 0,
                                    "kernel %s: the SPIR-V needs the extension %s, which the "
                                    "Vulkan backend does not enable",
                                    module->kernel_name, name);
            status = check_need(device, module, need, "extension");
        } else if (i.opcode == SpvOpExecutionModeId &&
                   vulkan__spirv_word(module, i.at + 2) == SpvExecutionModeLocalSizeId &&
                   !(device->adapter->features & VULKAN__BIT(MAINTENANCE4))) {
            return backend_fail(module->services, DDISP_STATUS_UNSUPPORTED, 0,
                                "kernel %s: the SPIR-V uses LocalSizeId (maintenance4), which %s "
                                "does not have; compile for Vulkan 1.2",
                                module->kernel_name, device->adapter->properties.deviceName);
        }
    }
    return status;
}

ddisp_status vulkan__code_fits(void *device_handle, const ddisp_backend_code *code)
{
    vulkan__device *device = device_handle;
    vulkan__spirv module;
    ddisp_status status = vulkan__spirv_open(device->services, code->kernel_name, code->code->bytes,
                                             code->code->size_bytes, &module);
    uint32_t most = device->adapter->api_version >= VK_API_VERSION_1_3 ? 6 : 5;
    uint32_t version = module.version >> 8 & 0xFF;
    if (status == DDISP_STATUS_OK && version > most)
        status =
            backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                         "kernel %s: the code is SPIR-V 1.%u, %s takes up to 1.%u",
                         code->kernel_name, version, device->adapter->properties.deviceName, most);
    if (status == DDISP_STATUS_OK)
        status = check_declarations(device, &module);
    for (uint32_t i = 0; i < code->code->entry_count && status == DDISP_STATUS_OK; i++)
        if (code->code->entries[i].native_count)
            status = vulkan__native_fits(device, code, &code->code->entries[i]);
    vulkan__spirv_close(&module);
    return status;
}
