/*
 * host_variant.c - codes that are C functions: what is wrong with them, and what a launch calls.
 *
 * In: codes of format "host-function" (pointers) and "host-library" (names in a shared object).
 * Out: a variant that holds the function of one entry. A function cannot be changed, so that
 * nothing is switched off here: the core picks the entry that was written for a gradient mask.
 */
#include "host_internal.h"

#include <string.h>

static const char *mode_name(ddisp_mode mode)
{
    return mode == DDISP_MODE_FORWARD ? "forward" : "backward";
}

static bool is_library(const ddisp_code *code)
{
    return strcmp(code->format, "host-library") == 0;
}

static ddisp_status check_format(const ddisp_backend_services *services,
                                 const ddisp_backend_code *code)
{
    if (strcmp(code->code->format, "host-function") == 0 || is_library(code->code)) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "kernel %s: the host backend does not take code format '%s'; it takes "
                        "host-function and host-library",
                        code->kernel_name, code->code->format);
}

static ddisp_status check_natives(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code)
{
    ddisp_status status = check_format(services, code);
    for (uint32_t i = 0; status == DDISP_STATUS_OK && i < code->code->entry_count; i++) {
        const ddisp_entry *entry = &code->code->entries[i];
        status = entry->native ? host__native_check(services, code, entry) : DDISP_STATUS_OK;
    }
    return status;
}

static ddisp_status check_function(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code, uint32_t i)
{
    const ddisp_entry *entry = &code->code->entries[i];
    if (!entry->function) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry %u (%s) of the host-function code has no function; "
                            "set its field 'function'",
                            code->kernel_name, i, mode_name(entry->mode));
    }
    if (entry->function_id == 0) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry %u (%s) of the host-function code has function id 0; "
                            "give each function an id of its own that stays the same over runs",
                            code->kernel_name, i, mode_name(entry->mode));
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                           ddisp_backend_code_info *info)
{
    ddisp_status status = check_format(services, code);
    bool library = status == DDISP_STATUS_OK && is_library(code->code);
    for (uint32_t i = 0; status == DDISP_STATUS_OK && !library && i < code->code->entry_count;
         i++) {
        status = check_function(services, code, i);
    }
    if (status == DDISP_STATUS_OK) {
        status = check_natives(services, code);
    }
    if (status == DDISP_STATUS_OK && library) {
        status = host__library_inspect(services, code);
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
    return check_natives(device->services, code);
}

ddisp_status host__variant_build(void *device_handle, const ddisp_backend_variant *variant,
                                 void **out_variant)
{
    host_device *device = device_handle;
    const ddisp_backend_services *services = device->services;
    const ddisp_backend_code *code = variant->code;
    ddisp_host_function function = variant->entry->function;
    ddisp_status status = DDISP_STATUS_OK;
    if (is_library(code->code)) {
        status = host__library_find(services, code, variant->entry_name, &function);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    host_variant *own = backend_allocate(services, sizeof *own);
    if (!own) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for a variant of kernel %s (%zu bytes)",
                            code->kernel_name, sizeof *own);
    }
    own->function = function;
    if (variant->entry->native) {
        status = host__native_make(services, code, variant->entry, function, &own->native);
    }
    if (status != DDISP_STATUS_OK) {
        backend_release(services, own);
        return status;
    }
    *out_variant = own;
    return DDISP_STATUS_OK;
}

void host__variant_release(void *device_handle, void *variant_handle)
{
    host_device *device = device_handle;
    host_variant *variant = variant_handle;
    host__native_release(device->services, variant->native);
    backend_release(device->services, variant);
}
