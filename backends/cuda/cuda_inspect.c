/*
 * cuda_inspect.c - whether code is what its declaration says, without a driver: sends each format
 * to its room, and is the room of PTX: entries are there, their geometry and parameters agree, and
 * which gradients can be switched off.
 *
 * In: a declared code. Out: a mask of switches, or a sentence with both numbers. A parameter counts
 * as switchable only when every backward entry that is not bound to one mask has its switch: a
 * gradient that is reported as removable must be removable wherever it could be touched.
 */
#include "cuda_code.h"

cuda__format cuda__format_of(const ddisp_code *code)
{
    static const char *const names[] = {
        [CUDA__FORMAT_PTX] = "ptx",
        [CUDA__FORMAT_CUBIN] = "cubin",
        [CUDA__FORMAT_FATBIN] = "fatbin",
        [CUDA__FORMAT_SOURCE] = "cuda-c++",
    };
    int format = CUDA__FORMAT_PTX;
    while (format < CUDA__FORMAT_OTHER && strcmp(code->format, names[format]) != 0) {
        format++;
    }
    return (cuda__format)format;
}

static ddisp_status unknown_format(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code)
{
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "format '%s' is not taken by cuda, only ptx, cubin, fatbin and cuda-c++",
                        code->code->format);
}

uint32_t cuda__group_size(const ddisp_entry *entry, uint32_t axis)
{
    if (entry->group_size[axis] != 0) {
        return entry->group_size[axis];
    }
    return axis == 0 ? 256 : 1;
}

static ddisp_status check_geometry(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code, const ddisp_entry *entry,
                                   const cuda__ptx_entry *found)
{
    uint32_t size[3];
    for (uint32_t axis = 0; axis < 3; axis++) {
        size[axis] = cuda__group_size(entry, axis);
    }
    if (found->required[0] && memcmp(found->required, size, sizeof size) != 0) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%.*s' requires groups of %u,%u,%u threads "
                            "(.reqntid), group_size is %u,%u,%u",
                            code->kernel_name, (int)found->name_length, found->name,
                            found->required[0], found->required[1], found->required[2], size[0],
                            size[1], size[2]);
    }
    uint64_t threads = (uint64_t)size[0] * size[1] * size[2];
    uint64_t maximum = (uint64_t)found->maximum[0] * found->maximum[1] * found->maximum[2];
    if (found->maximum[0] && threads > maximum) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%.*s' takes at most %" PRIu64 " threads per group "
                            "(.maxntid), group_size is %u,%u,%u = %" PRIu64,
                            code->kernel_name, (int)found->name_length, found->name, maximum,
                            size[0], size[1], size[2], threads);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__block_check(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const char *name,
                               uint32_t param_count, uint64_t param_bytes)
{
    bool by_value = code->block_size_bytes <= CUDA__MAX_BLOCK_BYTES;
    if (param_count != 1) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' has %u parameters, the standard argument "
                            "block is one; declare native arguments for other signatures",
                            code->kernel_name, name, param_count);
    }
    if (!by_value && param_bytes != 8) { /* also in an array of bytes, as nvcc writes constants */
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' takes %" PRIu64 " bytes by value, but an "
                            "argument block of %u bytes (more than %u) is passed as a pointer of 8",
                            code->kernel_name, name, param_bytes, code->block_size_bytes,
                            CUDA__MAX_BLOCK_BYTES);
    }
    if (by_value && param_bytes != code->block_size_bytes) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' takes a parameter of %" PRIu64
                            " bytes, the argument block of %u parameters has %u bytes",
                            code->kernel_name, name, param_bytes, code->param_count,
                            code->block_size_bytes);
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_parameters(const ddisp_backend_services *services,
                                     const ddisp_backend_code *code, const ddisp_entry *entry,
                                     const cuda__ptx_entry *found)
{
    char name[CUDA__ENTRY_NAME_BYTES];
    cuda__param params[CUDA__MAX_PARAMS];
    if (!entry->native) {
        (void)snprintf(name, sizeof name, "%.*s", (int)found->name_length, found->name);
        return cuda__block_check(services, code, name, found->param_count, found->param_bytes);
    }
    (void)cuda__ptx_params(code->code->bytes, code->code->size_bytes, found, params,
                           CUDA__MAX_PARAMS);
    return cuda__native_check(services, code, entry, params, found->param_count);
}

/* A switch of a parameter that the kernel does not have is a mistake in the code. */
static ddisp_status check_switches(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code, const cuda__ptx_entry *found,
                                   uint64_t mask)
{
    uint64_t known = code->param_count >= 64 ? UINT64_MAX : (UINT64_C(1) << code->param_count) - 1;
    if (mask & ~known) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%.*s' has DDISP_SWITCH(%d), the kernel has %u "
                            "parameters",
                            code->kernel_name, (int)found->name_length, found->name,
                            63 - __builtin_clzll(mask), code->param_count);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__inspect_entry(const ddisp_backend_services *services,
                                 const ddisp_backend_code *code, const ddisp_entry *entry,
                                 const char *name, uint64_t *out_switch_mask)
{
    cuda__ptx_reader reader;
    cuda__ptx_entry found;
    switch (cuda__ptx_find(&reader, code->code->bytes, code->code->size_bytes, name, &found,
                           out_switch_mask)) {
    case CUDA__PTX_MALFORMED:
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the ptx code is malformed or cut off: %s",
                            code->kernel_name, reader.why);
    case CUDA__PTX_MISSING:
        return backend_fail(services, DDISP_STATUS_NOT_FOUND, 0,
                            "kernel %s: the ptx code has no entry '%s' (declare it extern \"C\"; "
                            "the code has %u other entries)",
                            code->kernel_name, name, reader.entry_count);
    case CUDA__PTX_FOUND:
        break;
    }
    ddisp_status status = check_geometry(services, code, entry, &found);
    if (status == DDISP_STATUS_OK) {
        status = check_parameters(services, code, entry, &found);
    }
    if (status == DDISP_STATUS_OK) {
        status = check_switches(services, code, &found, *out_switch_mask);
    }
    return status;
}

void cuda__entry_name(const ddisp_entry *entry, char name[CUDA__ENTRY_NAME_BYTES])
{
    const char *mask = strstr(entry->name, "{mask}");
    if (mask && (entry->flags & DDISP_ENTRY_MASKED)) {
        (void)snprintf(name, CUDA__ENTRY_NAME_BYTES, "%.*s%" PRIu64 "%s", (int)(mask - entry->name),
                       entry->name, entry->mask, mask + strlen("{mask}"));
    } else {
        (void)snprintf(name, CUDA__ENTRY_NAME_BYTES, "%s", entry->name);
    }
}

static ddisp_status inspect_ptx(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, ddisp_backend_code_info *info)
{
    char name[CUDA__ENTRY_NAME_BYTES];
    bool any = false;
    info->switch_mask = 0;
    info->flags = 0;
    for (uint32_t i = 0; i < code->code->entry_count; i++) {
        const ddisp_entry *entry = &code->code->entries[i];
        uint64_t mask = 0;
        cuda__entry_name(entry, name);
        ddisp_status status = cuda__inspect_entry(services, code, entry, name, &mask);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        if (entry->mode == DDISP_MODE_BACKWARD && !(entry->flags & DDISP_ENTRY_MASKED) &&
            !strstr(entry->name, "{mask}")) {
            info->switch_mask = any ? info->switch_mask & mask : mask;
            any = true;
        }
    }
    if (cuda__ptx_swaps(code->code->bytes, code->code->size_bytes)) {
        info->flags = DDISP_BACKEND_CODE_COMPARE_AND_SWAP;
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                           ddisp_backend_code_info *info)
{
    switch (cuda__format_of(code->code)) {
    case CUDA__FORMAT_PTX:
        return inspect_ptx(services, code, info);
    case CUDA__FORMAT_CUBIN:
    case CUDA__FORMAT_FATBIN:
        return cuda__binary_inspect(services, code, info);
    case CUDA__FORMAT_SOURCE:
        return cuda__source_inspect(services, code, info);
    case CUDA__FORMAT_OTHER:
        break;
    }
    return unknown_format(services, code);
}

/* ---- what a device needs to be able to do */

/* First version of CUDA whose driver reads a version of PTX, as 1000 * major + 10 * minor. */
static uint32_t needed_driver(uint32_t major, uint32_t minor)
{
    if (major < 8) {
        return CU__MINIMUM_VERSION;
    }
    if (major == 8) {
        /* 8.6 skipped a release: it came with 12.7, 8.8 with 12.9. */
        return 12000 + 10 * (minor <= 5 ? minor : minor + 1);
    }
    return 1000 * (major + 4) + 10 * minor;
}

static ddisp_status ptx_fits(const cuda__device *device, const ddisp_backend_code *code)
{
    const ddisp_backend_services *services = device->services;
    cuda__ptx_reader reader;
    if (!cuda__ptx_open(&reader, code->code->bytes, code->code->size_bytes)) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0, "the ptx code is malformed: %s",
                            reader.why);
    }
    const cuda__ptx_header *header = &reader.header;
    uint32_t needed = needed_driver(header->version_major, header->version_minor);
    if ((uint32_t)device->version < needed) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "the code is PTX %u.%u, which needs a driver for CUDA %u.%u, and this "
                            "one is for CUDA %d.%d; lower .version if the code allows it",
                            header->version_major, header->version_minor, needed / 1000,
                            needed % 1000 / 10, device->version / 1000,
                            device->version % 1000 / 10);
    }
    uint32_t target = header->target_major * 10 + header->target_minor;
    uint32_t own = device->capability_major * 10 + device->capability_minor;
    bool fits = target <= own;
    if (header->target_suffix == 'a') {
        fits = target == own;
    } else if (header->target_suffix == 'f') {
        fits = target <= own && header->target_major == device->capability_major;
    }
    if (!fits) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "the code is for %s%s, and the device is sm_%u", header->target,
                            header->target_suffix == 'a'   ? " exactly"
                            : header->target_suffix == 'f' ? " and its family"
                                                           : " or newer",
                            own);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__code_fits(void *device_handle, const ddisp_backend_code *code)
{
    const cuda__device *device = device_handle;
    switch (cuda__format_of(code->code)) {
    case CUDA__FORMAT_PTX:
        return ptx_fits(device, code);
    case CUDA__FORMAT_CUBIN:
    case CUDA__FORMAT_FATBIN:
        return cuda__binary_fits(device, code);
    case CUDA__FORMAT_SOURCE:
        return cuda__nvrtc_check(device->services, device->version);
    case CUDA__FORMAT_OTHER:
        break;
    }
    return unknown_format(device->services, code);
}
