/*
 * cuda_variant.c - variants: an image of the code with some gradients left out, compiled by the
 * driver where need be, and loaded into the device's context.
 *
 * In: a code and which gradients exist. Out: a function to launch. What the driver's compiler says
 * against the code is passed on; limits and parameters of the compiled function are checked here,
 * with both numbers, so that no launch meets them.
 */
#include "cuda_code.h"

/* Dynamic and static shared memory together need no leave up to here. */
#define SHARED_WITHOUT_LEAVE_BYTES 49152u

/* The driver judged the code, rather than failed. */
static bool is_about_code(cu__result result)
{
    switch (result) {
    case CU__ERROR_INVALID_VALUE:
    case CU__ERROR_INVALID_IMAGE:
    case CU__ERROR_NO_BINARY_FOR_GPU:
    case CU__ERROR_INVALID_PTX:
    case CU__ERROR_JIT_COMPILER_NOT_FOUND:
    case CU__ERROR_UNSUPPORTED_PTX_VERSION:
    case CU__ERROR_JIT_COMPILATION_DISABLED:
    case CU__ERROR_UNSUPPORTED_DEVSIDE_SYNC:
    case CU__ERROR_INVALID_SOURCE:
    case CU__ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CU__ERROR_NOT_FOUND:
        return true;
    default:
        return false;
    }
}

ddisp_status cuda__reject(cuda__device *device, const ddisp_backend_variant *variant,
                          cu__result result, const char *call, const char *log)
{
    char text[256];
    if (!is_about_code(result)) {
        return cuda__fail(device, result, call);
    }
    cuda__result_format(device->api, result, call, text, sizeof text);
    return backend_fail(device->services, DDISP_STATUS_CODE_REJECTED, result,
                        "kernel %s, entry '%s': the driver rejected the %s code: %s%s%s",
                        variant->code->kernel_name, variant->entry_name,
                        variant->code->code->format, text, log[0] ? "\n" : "", log);
}

/* ---- images */

ddisp_status cuda__image_copy(const ddisp_backend_services *services, const char *kernel_name,
                              const void *bytes, uint64_t size_bytes, cuda__image *out_image)
{
    char *copy = backend_allocate(services, size_bytes + 1);
    if (!copy) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for a variant", kernel_name);
    }
    memcpy(copy, bytes, size_bytes);
    copy[size_bytes] = '\0';
    *out_image = (cuda__image){copy, size_bytes};
    return DDISP_STATUS_OK;
}

ddisp_status cuda__image_make(const ddisp_backend_services *services, int driver_version,
                              const char *architecture, const ddisp_backend_variant *variant,
                              cuda__image *out_image)
{
    const ddisp_code *code = variant->code->code;
    cuda__format format = cuda__format_of(code);
    uint64_t found_mask = 0;
    ddisp_status status = DDISP_STATUS_OK;
    if (format == CUDA__FORMAT_SOURCE) {
        return cuda__nvrtc_compile(services, driver_version, architecture, variant, out_image);
    }
    if (format == CUDA__FORMAT_PTX) {
        status = cuda__inspect_entry(services, variant->code, variant->entry, variant->entry_name,
                                     &found_mask);
    }
    if (status == DDISP_STATUS_OK) {
        status = cuda__image_copy(services, variant->code->kernel_name, code->bytes,
                                  code->size_bytes, out_image);
    }
    if (status == DDISP_STATUS_OK && format == CUDA__FORMAT_PTX) {
        (void)cuda__ptx_rewrite(code->bytes, code->size_bytes,
                                variant->switch_mask & ~variant->switches, out_image->bytes);
    }
    return status;
}

/* ---- loading */

/* log has CUDA__LOG_BYTES. */
static ddisp_status load(cuda__device *device, const ddisp_backend_variant *variant,
                         const cuda__image *image, char *log, cuda__variant *built)
{
    unsigned int options[2] = {CU__JIT_ERROR_LOG_BUFFER, CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)(CUDA__LOG_BYTES - 1)};
    cu__result result =
        device->api->module_load_data_ex(&built->module, image->bytes, 2, options, values);
    if (result != CU__SUCCESS) {
        built->module = NULL;
        return cuda__reject(device, variant, result, "cuModuleLoadDataEx", log);
    }
    result = device->api->module_get_function(&built->function, built->module, variant->entry_name);
    if (result != CU__SUCCESS) {
        return cuda__reject(device, variant, result, "cuModuleGetFunction", log);
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_shared(cuda__device *device, const ddisp_backend_variant *variant,
                                 const cuda__variant *built)
{
    uint32_t dynamic_bytes = variant->entry->shared_bytes;
    int static_bytes = 0;
    cu__result result = device->api->func_get_attribute(
        &static_bytes, CU__FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, built->function);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuFuncGetAttribute");
    }
    uint64_t bytes = (uint64_t)dynamic_bytes + (uint64_t)static_bytes;
    if (bytes > device->max_shared_bytes) {
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "kernel %s, entry '%s': needs %u bytes of dynamic and %d of static "
                            "shared memory per group, the device has %u",
                            variant->code->kernel_name, variant->entry_name, dynamic_bytes,
                            static_bytes, device->max_shared_bytes);
    }
    if (bytes <= SHARED_WITHOUT_LEAVE_BYTES || dynamic_bytes == 0) {
        return DDISP_STATUS_OK;
    }
    result = device->api->func_set_attribute(
        built->function, CU__FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)dynamic_bytes);
    return result == CU__SUCCESS ? DDISP_STATUS_OK
                                 : cuda__fail(device, result, "cuFuncSetAttribute");
}

static ddisp_status check_threads(cuda__device *device, const ddisp_backend_variant *variant,
                                  const cuda__variant *built)
{
    int limit = 0;
    uint64_t threads = 1;
    cu__result result = device->api->func_get_attribute(
        &limit, CU__FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, built->function);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuFuncGetAttribute");
    }
    for (uint32_t axis = 0; axis < 3; axis++) {
        threads *= cuda__group_size(variant->entry, axis);
    }
    if (threads > (uint64_t)limit) {
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "kernel %s, entry '%s': groups of %llu threads, the compiled code "
                            "runs with at most %d here (registers, .maxntid)",
                            variant->code->kernel_name, variant->entry_name,
                            (unsigned long long)threads, limit);
    }
    return DDISP_STATUS_OK;
}

/* What the driver knows of a function's parameters against the declaration; drivers before CUDA
 * 12.4 do not tell. Of PTX the text was read. */
static ddisp_status check_parameters(cuda__device *device, const ddisp_backend_variant *variant,
                                     const cuda__variant *built)
{
    cuda__param params[CUDA__MAX_PARAMS + 1] = {{0}};
    uint32_t count = 0;
    cu__result result = CU__SUCCESS;
    if (!device->api->func_get_param_info ||
        cuda__format_of(variant->code->code) == CUDA__FORMAT_PTX) {
        return DDISP_STATUS_OK;
    }
    for (; count <= CUDA__MAX_PARAMS; count++) {
        size_t offset_bytes = 0, size_bytes = 0;
        result =
            device->api->func_get_param_info(built->function, count, &offset_bytes, &size_bytes);
        if (result != CU__SUCCESS) {
            break;
        }
        params[count].size_bytes = size_bytes;
    }
    if (result != CU__SUCCESS && result != CU__ERROR_INVALID_VALUE) { /* that is the end */
        return cuda__fail(device, result, "cuFuncGetParamInfo");
    }
    if (count == 0) { /* nothing is told: a kernel that takes nothing reads nothing */
        return DDISP_STATUS_OK;
    }
    if (variant->entry->native) {
        return cuda__native_check(device->services, variant->code, variant->entry, params, count);
    }
    return cuda__block_check(device->services, variant->code, variant->entry_name, count,
                             params[0].size_bytes);
}

/* With the context current; unloads on failure. */
static ddisp_status build(cuda__device *device, const ddisp_backend_variant *variant,
                          const cuda__image *image, char *log, cuda__variant *built)
{
    ddisp_status status = load(device, variant, image, log, built);
    if (status == DDISP_STATUS_OK) {
        status = check_parameters(device, variant, built);
    }
    if (status == DDISP_STATUS_OK) {
        status = check_threads(device, variant, built);
    }
    if (status == DDISP_STATUS_OK) {
        status = check_shared(device, variant, built);
    }
    if (status != DDISP_STATUS_OK && built->module && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->module_unload(built->module), "cuModuleUnload");
    }
    return status;
}

ddisp_status cuda__variant_build(void *device_handle, const ddisp_backend_variant *variant,
                                 void **out_variant)
{
    cuda__device *device = device_handle;
    const ddisp_backend_services *services = device->services;
    char architecture[16];
    cuda__image image = {0};
    cuda__scope scope;
    ddisp_status status = cuda__code_fits(device, variant->code);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    (void)snprintf(architecture, sizeof architecture, "sm_%u",
                   device->capability_major * 10 + device->capability_minor);
    status = variant->artifact
                 ? cuda__artifact_image(device, variant, &image)
                 : cuda__image_make(services, device->version, architecture, variant, &image);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__variant *built = backend_allocate(services, sizeof *built);
    char *log = backend_allocate(services, CUDA__LOG_BYTES);
    if (!built || !log) {
        status =
            backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                         "kernel %s: no host memory for a variant", variant->code->kernel_name);
        goto done;
    }
    built->is_native = variant->entry->native != NULL;
    if (built->is_native) {
        status = backend_native_place(services, variant->code, variant->entry, &built->places);
    }
    if (status == DDISP_STATUS_OK) {
        status = cuda__enter(device, &scope);
    }
    if (status != DDISP_STATUS_OK) {
        goto done;
    }
    status = build(device, variant, &image, log, built);
    cuda__leave(device, &scope);
done:
    backend_release(services, log);
    backend_release(services, image.bytes);
    if (status != DDISP_STATUS_OK) {
        backend_release(services, built);
        return status;
    }
    *out_variant = built;
    return DDISP_STATUS_OK;
}

void cuda__variant_release(void *device_handle, void *variant_handle)
{
    cuda__device *device = device_handle;
    cuda__variant *variant = variant_handle;
    cuda__scope scope;
    if (cuda__enter_release(device, &scope)) {
        cuda__note(device, device->api->module_unload(variant->module), "cuModuleUnload");
        cuda__leave(device, &scope);
    }
    backend_release(device->services, variant);
}
