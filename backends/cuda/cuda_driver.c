/*
 * cuda_driver.c - finds libcuda.so.1, fills the table of entry points, and turns driver results
 * into statuses and words.
 *
 * In: nothing but the dynamic linker. Out: one table for the process, and the mask of devices that
 * were lost in it. The library is never closed, nothing is registered for the end of the process,
 * and a missing driver is a sentence, not an error code.
 */
#include "cuda_internal.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    bool loaded;
    cu__api api;
    atomic_uint_fast64_t lost_devices;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char library_name[] = "libcuda.so.1";

/* The versioned symbol serves drivers, and tools that stand in for them, without the look-up. */
static void *find(void *library, cu__get_proc_address look_up, const char *name, const char *symbol,
                  int version)
{
    void *address = NULL;
    unsigned int found = 0;
    if (look_up && look_up(name, &address, version, CU__GET_PROC_ADDRESS_LEGACY_STREAM, &found) ==
                       CU__SUCCESS) {
        if (address) {
            return address;
        }
    }
    return dlsym(library, symbol);
}

/* Name of the first entry point that is missing, or NULL. */
static const char *fill(void *library, cu__api *api)
{
    cu__get_proc_address look_up = NULL;
    void *address = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&look_up, &address, sizeof look_up);
#define FIND(member, name, symbol, parameters)                                                     \
    address = find(library, look_up, name, #symbol, CU__MINIMUM_VERSION);                          \
    if (!address) {                                                                                \
        return #symbol;                                                                            \
    }                                                                                              \
    memcpy(&api->member, &address, sizeof address);
    CU__ENTRY_POINTS(FIND)
#undef FIND
#define FIND(member, name, symbol, parameters)                                                     \
    address = find(library, look_up, name, #symbol, CU__OPTIONAL_VERSION);                         \
    memcpy(&api->member, &address, sizeof address);
    CU__OPTIONAL_ENTRY_POINTS(FIND)
#undef FIND
    return NULL;
}

ddisp_status cuda__driver_load(const ddisp_backend_services *services, const cu__api **out_api)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&driver.lock);
    if (!driver.loaded) {
        void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char *reason = library ? NULL : dlerror();
        const char *missing = library ? fill(library, &driver.api) : NULL;
        if (!library && (!reason || strstr(reason, "No such file"))) {
            status = backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                                  "%s not found: no NVIDIA driver", library_name);
        } else if (!library) {
            status = backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                                  "%s cannot be loaded: %s", library_name, reason);
        } else if (missing) {
            status = backend_fail(
                services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                "%s has no %s: the NVIDIA driver is too old, a driver for CUDA %d.%d is needed",
                library_name, missing, CU__MINIMUM_VERSION / 1000, CU__MINIMUM_VERSION % 1000 / 10);
        }
        driver.loaded = status == DDISP_STATUS_OK;
    }
    pthread_mutex_unlock(&driver.lock);
    *out_api = &driver.api;
    return status;
}

bool cuda__driver_lost(int ordinal)
{
    return (atomic_load_explicit(&driver.lost_devices, memory_order_acquire) >> ordinal & 1) != 0;
}

bool cuda__driver_any_lost(void)
{
    return atomic_load_explicit(&driver.lost_devices, memory_order_acquire) != 0;
}

/* Results after which the context is useless. Spelled out here, because the driver is not asked
 * for their names: by then it must not be called. */
static const struct {
    cu__result result;
    const char *name;
    const char *text;
} fatal[] = {
    {CU__ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    {CU__ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable memory error"},
    {CU__ERROR_NVLINK_UNCORRECTABLE, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
     "uncorrectable NVLink error"},
    {CU__ERROR_CONTAINED, "CUDA_ERROR_CONTAINED", "contained hardware error"},
    {CU__ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "a kernel touched an address that is not there"},
    {CU__ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran too long"},
    {CU__ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
     "the primary context was reset or destroyed by someone else"},
    {CU__ERROR_ASSERT, "CUDA_ERROR_ASSERT", "an assertion failed in a kernel"},
    {CU__ERROR_HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR",
     "the call stack of a kernel is corrupt or too small"},
    {CU__ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "a kernel met an illegal instruction"},
    {CU__ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS",
     "a kernel used a misaligned address"},
    {CU__ERROR_INVALID_ADDRESS_SPACE, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "a kernel used an address of the wrong space"},
    {CU__ERROR_INVALID_PC, "CUDA_ERROR_INVALID_PC", "a kernel jumped to an invalid address"},
    {CU__ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed while it ran"},
    {CU__ERROR_TENSOR_MEMORY_LEAK, "CUDA_ERROR_TENSOR_MEMORY_LEAK",
     "a kernel ended without freeing tensor memory"},
    {CU__ERROR_MPS_CLIENT_TERMINATED, "CUDA_ERROR_MPS_CLIENT_TERMINATED",
     "the MPS server ended this client"},
    {CU__ERROR_EXTERNAL_DEVICE, "CUDA_ERROR_EXTERNAL_DEVICE",
     "an external device failed that the work depended on"},
};

static const char *fatal_text(cu__result result, const char **out_name)
{
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        if (fatal[i].result == result) {
            *out_name = fatal[i].name;
            return fatal[i].text;
        }
    }
    return NULL;
}

ddisp_status cuda__result_status(cu__result result)
{
    const char *name;
    if (fatal_text(result, &name)) {
        return DDISP_STATUS_DEVICE_LOST;
    }
    switch (result) {
    case CU__SUCCESS:
        return DDISP_STATUS_OK;
    case CU__ERROR_NOT_READY:
        return DDISP_STATUS_NOT_READY;
    case CU__ERROR_OUT_OF_MEMORY:
        return DDISP_STATUS_OUT_OF_DEVICE_MEMORY;
    case CU__ERROR_NOT_SUPPORTED:
        return DDISP_STATUS_UNSUPPORTED;
    case CU__ERROR_LAUNCH_OUT_OF_RESOURCES:
        return DDISP_STATUS_LIMIT_EXCEEDED;
    default:
        return DDISP_STATUS_DRIVER_ERROR;
    }
}

bool cuda__result_is_shutdown(cu__result result)
{
    return result == CU__ERROR_DEINITIALIZED || result == CU__ERROR_CONTEXT_IS_DESTROYED;
}

void cuda__result_format(const cu__api *api, cu__result result, const char *call, char *text,
                         size_t capacity)
{
    const char *name = NULL;
    const char *words = fatal_text(result, &name);
    if (!words) {
        if (api->get_error_name(result, &name) != CU__SUCCESS || !name) {
            name = "unknown result";
        }
        if (api->get_error_string(result, &words) != CU__SUCCESS || !words) {
            words = "no description";
        }
    }
    (void)snprintf(text, capacity, "%s: %s (%u): %s", call, name, result, words);
}

/* ---- failures of a device */

static void lose(int ordinal)
{
    atomic_fetch_or_explicit(&driver.lost_devices, UINT64_C(1) << ordinal, memory_order_release);
}

ddisp_status cuda__fail_closed(const cuda__instance *instance, int ordinal, cu__result result,
                               const char *call)
{
    char text[256];
    ddisp_status status = cuda__result_status(result);
    if (status == DDISP_STATUS_DEVICE_LOST) {
        lose(ordinal);
    }
    cuda__result_format(instance->api, result, call, text, sizeof text);
    return backend_fail(instance->services, status, result, "cuda:%d: %s", ordinal, text);
}

ddisp_status cuda__fail(cuda__device *device, cu__result result, const char *call)
{
    const cuda__instance instance = {.services = device->services, .api = device->api};
    return cuda__fail_closed(&instance, device->ordinal, result, call);
}

void cuda__note(cuda__device *device, cu__result result, const char *call)
{
    char text[256];
    if (result == CU__SUCCESS) {
        return;
    }
    if (cuda__result_status(result) == DDISP_STATUS_DEVICE_LOST) {
        lose(device->ordinal);
    }
    if (cuda__result_is_shutdown(result)) {
        return;
    }
    cuda__result_format(device->api, result, call, text, sizeof text);
    backend_log(device->services, DDISP_LOG_LEVEL_WARNING, "cuda:%d: while releasing: %s",
                device->ordinal, text);
}

/* While something is captured, calls that CUDA forbids the capturing thread (allocations, loading
 * of modules) are made with the leave to make them: none of them touches the capturing stream. */
static cu__result relax(cuda__device *device, cuda__scope *scope)
{
    if (atomic_load_explicit(&device->captures, memory_order_relaxed) == 0) {
        return CU__SUCCESS;
    }
    scope->capture_mode = CU__STREAM_CAPTURE_MODE_RELAXED;
    cu__result result = device->api->thread_exchange_capture_mode(&scope->capture_mode);
    scope->relaxed = result == CU__SUCCESS;
    return result;
}

ddisp_status cuda__enter(cuda__device *device, cuda__scope *scope)
{
    cu__context current = NULL;
    scope->pushed = scope->relaxed = false;
    if (cuda__driver_lost(device->ordinal)) {
        return backend_fail(device->services, DDISP_STATUS_DEVICE_LOST, 0,
                            "cuda:%d was lost earlier in this process; CUDA cannot be recovered "
                            "inside a process, start a new one",
                            device->ordinal);
    }
    cu__result result = device->api->ctx_get_current(&current);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuCtxGetCurrent");
    }
    if (current != device->context) {
        result = device->api->ctx_push_current(device->context);
        if (result != CU__SUCCESS) {
            return cuda__fail(device, result, "cuCtxPushCurrent");
        }
        scope->pushed = true;
    }
    result = relax(device, scope);
    if (result != CU__SUCCESS) {
        cuda__leave(device, scope);
        return cuda__fail(device, result, "cuThreadExchangeStreamCaptureMode");
    }
    return DDISP_STATUS_OK;
}

bool cuda__enter_release(cuda__device *device, cuda__scope *scope)
{
    cu__context current = NULL;
    scope->pushed = scope->relaxed = false;
    if (cuda__driver_lost(device->ordinal)) {
        return false;
    }
    /* Nothing comes after a release that could try again, so a refusal is asked about twice. */
    for (int attempt = 0; attempt < 2; attempt++) {
        cu__result result = device->api->ctx_get_current(&current);
        bool is_current = result == CU__SUCCESS && current == device->context;
        if (!is_current && cuda__result_status(result) != DDISP_STATUS_DEVICE_LOST) {
            result = device->api->ctx_push_current(device->context);
        }
        if (result == CU__SUCCESS) {
            scope->pushed = !is_current;
            cuda__note(device, relax(device, scope), "cuThreadExchangeStreamCaptureMode");
            if (!cuda__driver_lost(device->ordinal)) {
                return true;
            }
            cuda__leave(device, scope);
            return false;
        }
        cuda__note(device, result, "cuCtxPushCurrent");
        if (cuda__result_status(result) == DDISP_STATUS_DEVICE_LOST) {
            return false;
        }
    }
    return false;
}

void cuda__leave(cuda__device *device, const cuda__scope *scope)
{
    cu__context ignored = NULL;
    if (__builtin_expect(!scope->pushed && !scope->relaxed, 1)) {
        return;
    }
    unsigned int mode = scope->capture_mode;
    cu__result results[2] = {CU__SUCCESS, CU__SUCCESS};
    for (int attempt = 0; scope->relaxed && attempt < 2; attempt++) {
        results[0] = device->api->thread_exchange_capture_mode(&mode);
        if (results[0] == CU__SUCCESS ||
            cuda__result_status(results[0]) == DDISP_STATUS_DEVICE_LOST) {
            break;
        }
    }
    if (scope->pushed) {
        results[1] = device->api->ctx_pop_current(&ignored);
    }
    /* A failure here is that of earlier work. A loss is noted; the rest the next call reports. */
    for (int i = 0; i < 2; i++) {
        if (cuda__result_status(results[i]) == DDISP_STATUS_DEVICE_LOST) {
            lose(device->ordinal);
        }
    }
}
