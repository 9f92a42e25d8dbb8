/*
 * cuda_backend.c - the plugin's door: the table, the query, and the instance that found a driver.
 *
 * Nothing here or behind it touches the driver before open is called. open says in words why there
 * is no driver, a driver that is too old, or no device.
 */
#include "cuda_code.h"

/* Why the driver cannot be used, in words. */
static ddisp_status unavailable(const ddisp_backend_services *services, const cu__api *api,
                                cu__result result, const char *call)
{
    char text[256];
    const size_t capacity = sizeof text;
    if (result == CU__ERROR_STUB_LIBRARY) {
        (void)snprintf(text, capacity,
                       "libcuda.so.1 is a stub library for linking (CUDA_ERROR_STUB_LIBRARY, 34), "
                       "not a driver: take the toolkit's stubs directory out of LD_LIBRARY_PATH");
    } else if (result == CU__ERROR_NO_DEVICE) {
        (void)snprintf(text, capacity,
                       "the NVIDIA driver sees no device (CUDA_ERROR_NO_DEVICE, 100): none is "
                       "there, or CUDA_VISIBLE_DEVICES hides it");
    } else if (result == CU__ERROR_SYSTEM_DRIVER_MISMATCH) {
        (void)snprintf(text, capacity,
                       "libcuda.so.1 and the kernel module are of different versions "
                       "(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803): restart the machine");
    } else {
        cuda__result_format(api, result, call, text, capacity);
    }
    return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, result, "%s", text);
}

/* A driver that is there, new enough, and sees a device. */
static ddisp_status start(const ddisp_backend_services *services, cuda__instance *instance)
{
    const cu__api *api = instance->api;
    int count = 0;
    cu__result result = api->init(0);
    if (result != CU__SUCCESS) {
        return unavailable(services, api, result, "cuInit");
    }
    result = api->driver_get_version(&instance->version);
    if (result != CU__SUCCESS) {
        return unavailable(services, api, result, "cuDriverGetVersion");
    }
    if (instance->version < CU__MINIMUM_VERSION) {
        return backend_fail(
            services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
            "the NVIDIA driver is for CUDA %d.%d, and CUDA %d.%d or newer is needed: update the "
            "driver",
            instance->version / 1000, instance->version % 1000 / 10, CU__MINIMUM_VERSION / 1000,
            CU__MINIMUM_VERSION % 1000 / 10);
    }
    result = api->device_get_count(&count);
    if (result != CU__SUCCESS) {
        return unavailable(services, api, result, "cuDeviceGetCount");
    }
    if (count <= 0) {
        return unavailable(services, api, CU__ERROR_NO_DEVICE, "cuDeviceGetCount");
    }
    instance->device_count =
        (uint32_t)count < CUDA__MAX_DEVICES ? (uint32_t)count : CUDA__MAX_DEVICES;
    return DDISP_STATUS_OK;
}

static ddisp_status backend_open(const ddisp_backend_services *services, void **out_instance)
{
    const cu__api *api;
    if (cuda__driver_any_lost()) {
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                            "a CUDA device was lost earlier in this process; CUDA cannot be "
                            "recovered inside a process, start a new one");
    }
    ddisp_status status = cuda__driver_load(services, &api);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__instance *instance = backend_allocate(services, sizeof *instance);
    if (!instance) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda: no host memory for the instance");
    }
    instance->services = services;
    instance->api = api;
    status = start(services, instance);
    if (status != DDISP_STATUS_OK) {
        backend_release(services, instance);
        return status;
    }
    *out_instance = instance;
    return DDISP_STATUS_OK;
}

static void backend_close(void *instance_handle)
{
    cuda__instance *instance = instance_handle;
    backend_release(instance->services, instance);
}

static const ddisp_backend_table table = {
    .size = (uint32_t)sizeof(ddisp_backend_table),
    .abi = DDISP_BACKEND_ABI,
    .name = "cuda",
    .version = DDISP_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .device_count = cuda__device_count,
    .device_describe = cuda__device_describe,
    .device_open = cuda__device_open,
    .device_close = cuda__device_close,
    .memory_allocate = cuda__memory_allocate,
    .memory_free = cuda__memory_free,
    .memory_import = cuda__memory_import,
    .memory_release_import = cuda__memory_release_import,
    .upload = cuda__upload,
    .download = cuda__download,
    .fill = cuda__fill,
    .copy = cuda__copy,
    .stream_create = cuda__stream_create,
    .stream_destroy = cuda__stream_destroy,
    .stream_flush = cuda__stream_flush,
    .stream_mark = cuda__stream_mark,
    .stream_wait = cuda__stream_wait,
    .stream_query = cuda__stream_query,
    .stream_synchronize = cuda__stream_synchronize,
    .inspect = cuda__inspect,
    .code_fits = cuda__code_fits,
    .variant_build = cuda__variant_build,
    .variant_release = cuda__variant_release,
    .launch = cuda__launch,
    .sink_acquire = cuda__sink_acquire,
    .sink_trim = cuda__sink_trim,
    .fill_elements = cuda__fill_elements,
    .accumulate = cuda__accumulate,
    .scatter_add = cuda__scatter_add,
    .fold = cuda__fold,
    .artifact_key = cuda__artifact_key,
    .artifact_make = cuda__artifact_make,
    .stream_wrap = cuda__stream_wrap,
    .stream_mark_timed = cuda__stream_mark_timed,
    .stream_elapsed = cuda__stream_elapsed,
    .capture_begin = cuda__capture_begin,
    .capture_end = cuda__capture_end,
    .graph_launch = cuda__graph_launch,
    .graph_update = cuda__graph_update,
    .graph_release = cuda__graph_release,
    .memory_trim = cuda__memory_trim,
    .memory_figures = cuda__memory_figures,
    .device_wrap = cuda__device_wrap,
};

DDISP_API ddisp_status ddisp_cuda_backend_query(uint32_t core_abi,
                                                const ddisp_backend_services *services,
                                                const ddisp_backend_table **out_table);

ddisp_status ddisp_cuda_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                                      const ddisp_backend_table **out_table)
{
    if (core_abi >> 16 != DDISP_BACKEND_ABI_MAJOR || core_abi < DDISP_BACKEND_ABI) {
        return backend_fail(services, DDISP_STATUS_INCOMPATIBLE, 0,
                            "the cuda plugin speaks plugin ABI %d.%d, the library %u.%u",
                            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR, core_abi >> 16,
                            core_abi & 0xFFFFu);
    }
    *out_table = &table;
    return DDISP_STATUS_OK;
}
