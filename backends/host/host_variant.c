/*
 * host_variant.c - codes that are C functions: what is wrong with them, and what a launch calls.
 *
 * In: codes of format "host-function". Out: a variant that holds the function of one entry. A
 * function cannot be changed, so that nothing is switched off here: the core picks the entry that
 * was written for a gradient mask.
 */
#include "host_internal.h"

#include <string.h>

static const char *mode_name(ddisp_mode mode)
{
    return mode == DDISP_MODE_FORWARD ? "forward" : "backward";
}

static ddisp_status check_format(const ddisp_backend_services *services,
                                 const ddisp_backend_code *code)
{
    if (strcmp(code->code->format, "host-function") == 0) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "kernel %s: the host backend does not take code format '%s'; it takes "
                        "host-function",
                        code->kernel_name, code->code->format);
}

static ddisp_status check_arguments(const ddisp_backend_services *services, const char *kernel_name,
                                    const ddisp_entry *entry)
{
    if (!entry->native && entry->native_count == 0) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "kernel %s: the %s entry takes %u native arguments; the host backend calls "
                        "functions with the standard argument block only",
                        kernel_name, mode_name(entry->mode), entry->native_count);
}

ddisp_status host__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                           ddisp_backend_code_info *info)
{
    ddisp_status status = check_format(services, code);
    for (uint32_t i = 0; status == DDISP_STATUS_OK && i < code->code->entry_count; i++) {
        const ddisp_entry *entry = &code->code->entries[i];
        if (!entry->function) {
            return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry %u (%s) of the host-function code has no "
                                "function; set its field 'function'",
                                code->kernel_name, i, mode_name(entry->mode));
        }
        if (entry->function_id == 0) {
            return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry %u (%s) of the host-function code has function "
                                "id 0; give each function an id of its own that stays the same "
                                "over runs",
                                code->kernel_name, i, mode_name(entry->mode));
        }
        status = check_arguments(services, code->kernel_name, entry);
    }
    if (status == DDISP_STATUS_OK) {
        info->switch_mask = 0;
        info->flags = 0;
    }
    return status;
}

ddisp_status host__code_fits(void *device_handle, const ddisp_backend_code *code)
{
    host_device *device = device_handle;
    ddisp_status status = check_format(device->services, code);
    for (uint32_t i = 0; status == DDISP_STATUS_OK && i < code->code->entry_count; i++) {
        status = check_arguments(device->services, code->kernel_name, &code->code->entries[i]);
    }
    return status;
}

ddisp_status host__variant_build(void *device_handle, const ddisp_backend_variant *variant,
                                 void **out_variant)
{
    host_device *device = device_handle;
    ddisp_status status =
        check_arguments(device->services, variant->code->kernel_name, variant->entry);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    host_variant *own = backend_allocate(device->services, sizeof *own);
    if (!own) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for a variant of kernel %s (%zu bytes)",
                            variant->code->kernel_name, sizeof *own);
    }
    own->function = variant->entry->function;
    *out_variant = own;
    return DDISP_STATUS_OK;
}

void host__variant_release(void *device_handle, void *variant)
{
    host_device *device = device_handle;
    backend_release(device->services, variant);
}
