/*
 * cuda_artifact.c - compiled variants as bytes that may be kept: what PTX becomes when the driver's
 * linker compiles it, and what NVRTC makes of source.
 *
 * In: a variant; for source neither device nor driver is needed. Out: a cubin (or PTX, where NVRTC
 * does not know the architecture), and what it depends on besides the code. PTX is kept here only
 * where the driver does not; cubins and fatbins by nobody: loading them is all there is to do.
 */
#include "cuda_code.h"

#include <stdlib.h>

static int driver_version(const cuda__device *device)
{
    return device ? device->version : 0;
}

/* The driver keeps what it makes of PTX, unless it was told not to. What its linker makes instead,
 * which alone could be kept here, is code for linking: there an atomic add whose result nobody
 * reads still returns one, and divisions are calls. So it is the second choice. */
static bool driver_keeps_ptx(void)
{
    const char *disabled = getenv("CUDA_CACHE_DISABLE");
    return !disabled || strcmp(disabled, "1") != 0;
}

ddisp_status cuda__artifact_key(const ddisp_backend_services *services, void *device_handle,
                                const char *architecture, const ddisp_backend_variant *variant,
                                uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes)
{
    const cuda__device *device = device_handle;
    char driver[64] = "", compiler[3072] = "";
    cuda__format format = cuda__format_of(variant->code->code);
    ddisp_status status = DDISP_STATUS_OK;
    if (device) {
        (void)snprintf(driver, sizeof driver, "driver %d %s", device->version, device->release);
    }
    if (format == CUDA__FORMAT_SOURCE && !cuda__source_is_closed(variant->code->code)) {
        status = backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                              "kernel %s: the source includes files that are not among its headers",
                              variant->code->kernel_name);
    } else if (format == CUDA__FORMAT_SOURCE) {
        status = cuda__nvrtc_key(services, driver_version(device), architecture, variant, compiler,
                                 sizeof compiler);
    } else if (format != CUDA__FORMAT_PTX || !device) {
        status =
            backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0, "kernel %s: %s code is not kept%s",
                         variant->code->kernel_name, variant->code->code->format,
                         format == CUDA__FORMAT_PTX ? " without a device" : "");
    } else if (driver_keeps_ptx()) {
        status = backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                              "kernel %s: what becomes of PTX is kept by the driver",
                              variant->code->kernel_name);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    int length = snprintf((char *)buffer, capacity, "1 %s; %s", driver, compiler);
    if (length < 0 || (uint32_t)length >= capacity) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: the key of an artifact needs %d bytes, there are %u",
                            variant->code->kernel_name, length, capacity);
    }
    *out_size_bytes = (uint32_t)length;
    return DDISP_STATUS_OK;
}

/* ---- making */

/* PTX to a cubin for the device, with the context current. */
static ddisp_status link_image(cuda__device *device, const ddisp_backend_variant *variant,
                               cuda__image *image, char *log)
{
    const cu__api *api = device->api;
    unsigned int names[2] = {CU__JIT_ERROR_LOG_BUFFER, CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)(CUDA__LOG_BYTES - 1)};
    cu__link link = NULL;
    void *cubin = NULL;
    size_t size_bytes = 0;
    cuda__image linked = {0};
    cu__result result = api->link_create(2, names, values, &link);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuLinkCreate");
    }
    ddisp_status status = DDISP_STATUS_OK;
    result = api->link_add_data(link, CU__JIT_INPUT_PTX, image->bytes, image->size_bytes + 1,
                                variant->code->kernel_name, 0, NULL, NULL);
    if (result != CU__SUCCESS) {
        status = cuda__reject(device, variant, result, "cuLinkAddData", log);
        goto destroy;
    }
    result = api->link_complete(link, &cubin, &size_bytes); /* belongs to the link */
    if (result != CU__SUCCESS) {
        status = cuda__reject(device, variant, result, "cuLinkComplete", log);
        goto destroy;
    }
    status =
        cuda__image_copy(device->services, variant->code->kernel_name, cubin, size_bytes, &linked);
    if (status == DDISP_STATUS_OK) {
        backend_release(device->services, image->bytes);
        *image = linked;
    }
destroy:
    if (!cuda__driver_lost(device->ordinal)) {
        cuda__note(device, api->link_destroy(link), "cuLinkDestroy");
    }
    return status;
}

static bool is_elf(const void *bytes, uint64_t size_bytes)
{
    return size_bytes > 4 && memcmp(bytes, "\177ELF", 4) == 0;
}

ddisp_status cuda__artifact_make(const ddisp_backend_services *services, void *device_handle,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 void **out_bytes, uint64_t *out_size_bytes)
{
    cuda__device *device = device_handle;
    cuda__format format = cuda__format_of(variant->code->code);
    cuda__image image = {0};
    cuda__scope scope;
    char *log = NULL;
    if (format != CUDA__FORMAT_SOURCE && (format != CUDA__FORMAT_PTX || !device)) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "kernel %s: %s code is not compiled ahead%s",
                            variant->code->kernel_name, variant->code->code->format,
                            format == CUDA__FORMAT_PTX ? " without a device" : "");
    }
    ddisp_status status = device ? cuda__code_fits(device, variant->code) : DDISP_STATUS_OK;
    if (status == DDISP_STATUS_OK) {
        status = cuda__image_make(services, driver_version(device), architecture, variant, &image);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (device && !is_elf(image.bytes, image.size_bytes)) {
        log = backend_allocate(services, CUDA__LOG_BYTES);
        status = log ? cuda__enter(device, &scope)
                     : backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                    "kernel %s: no host memory for the compiler's log",
                                    variant->code->kernel_name);
        if (status == DDISP_STATUS_OK) {
            status = link_image(device, variant, &image, log);
            cuda__leave(device, &scope);
        }
        backend_release(services, log);
    }
    if (status != DDISP_STATUS_OK) {
        backend_release(services, image.bytes);
        return status;
    }
    *out_bytes = image.bytes;
    *out_size_bytes = image.size_bytes;
    return DDISP_STATUS_OK;
}

/* ---- using */

ddisp_status cuda__artifact_image(cuda__device *device, const ddisp_backend_variant *variant,
                                  cuda__image *out_image)
{
    const ddisp_backend_services *services = device->services;
    const void *bytes = variant->artifact;
    uint64_t size_bytes = variant->artifact_size_bytes, switches;
    uint32_t count;
    cuda__cubin cubin;
    cuda__ptx_reader reader;
    cuda__ptx_entry entry;
    const char *why = NULL;
    if (is_elf(bytes, size_bytes)) {
        why = cuda__cubin_open(&cubin, bytes, size_bytes);
        if (!why && !cuda__cubin_has(&cubin, variant->entry_name, &count)) {
            why = "it has no such entry";
        }
        if (!why && cuda__cubin_fits(services, &cubin, device->capability_major,
                                     device->capability_minor) != DDISP_STATUS_OK) {
            why = "it is for another architecture";
        }
    } else if (cuda__ptx_find(&reader, bytes, size_bytes, variant->entry_name, &entry, &switches) !=
               CUDA__PTX_FOUND) {
        why = "it is neither a cubin nor PTX with such an entry";
    }
    if (why) {
        return backend_fail(services, DDISP_STATUS_CODE_REJECTED, 0,
                            "kernel %s, entry '%s': the compiled code that was kept is of no use: "
                            "%s",
                            variant->code->kernel_name, variant->entry_name, why);
    }
    return cuda__image_copy(services, variant->code->kernel_name, bytes, size_bytes, out_image);
}
