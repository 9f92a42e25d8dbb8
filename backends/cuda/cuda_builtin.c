/*
 * cuda_builtin.c - the backend's own kernels: compiled by the driver from the PTX that is part of
 * the plugin, a module at a time, when one of its kernels is first wanted; and launched.
 *
 * Compiling takes tens of milliseconds a module, once per device and process; the driver keeps what
 * it compiled on disk for the next process. Modules go with the device.
 */
#include "cuda_operations.h"

#include "elements_f32.ptx.h"
#include "elements_f64.ptx.h"
#include "fixed_f32.ptx.h"
#include "fixed_f64.ptx.h"
#include "moves.ptx.h"
#include "pairs.ptx.h"
#include "pairs_sm90.ptx.h"
#include "quads_sm90.ptx.h"
#include "reduce_f32.ptx.h"
#include "reduce_f64.ptx.h"
#include "scatter_f32.ptx.h"
#include "scatter_f64.ptx.h"
#include "shadow.ptx.h"

#include <string.h>

#define LOG_BYTES 4096u

enum {
    MOVES,
    PAIRS,
    ELEMENTS,
    REDUCE = ELEMENTS + 2,
    SCATTER = REDUCE + 2,
    FIXED = SCATTER + 2,
    SHADOW = FIXED + 2,
    QUADS
};

static const char *const texts[CUDA__BUILTIN_MODULES] = {
    [MOVES] = moves_ptx,           [PAIRS] = pairs_ptx,
    [ELEMENTS] = elements_f32_ptx, [ELEMENTS + 1] = elements_f64_ptx,
    [REDUCE] = reduce_f32_ptx,     [REDUCE + 1] = reduce_f64_ptx,
    [SCATTER] = scatter_f32_ptx,   [SCATTER + 1] = scatter_f64_ptx,
    [FIXED] = fixed_f32_ptx,       [FIXED + 1] = fixed_f64_ptx,
    [SHADOW] = shadow_ptx,         [QUADS] = quads_sm90_ptx,
};

static const struct {
    const char *name;
    int module;
} kernels[CUDA__KERNEL_COUNT] = {
    [CUDA__KERNEL_FILL] = {"ddisp_fill", MOVES},
    [CUDA__KERNEL_COPY] = {"ddisp_copy", MOVES},
    [CUDA__KERNEL_ADD_PAIRS] = {"ddisp_add_pairs", PAIRS},
    [CUDA__KERNEL_ADD_QUADS] = {"ddisp_add_quads", QUADS},
    [CUDA__KERNEL_SHADOW] = {"ddisp_shadow", SHADOW},
#define TWICE(kernel, name, module)                                                                \
    [CUDA__KERNEL_##kernel] = {"ddisp_" name "_f32", module},                                      \
    [CUDA__KERNEL_##kernel + 1] = {"ddisp_" name "_f64", (module) + 1},
    TWICE(STORE, "store", ELEMENTS) TWICE(ADD, "add", ELEMENTS) TWICE(ADD_ANY, "add_any", ELEMENTS)
        TWICE(ADD_HALVES, "add_halves", ELEMENTS) TWICE(UPDATE, "update", ELEMENTS)
            TWICE(UPDATE_WORDS, "update_words", ELEMENTS) TWICE(REDUCE, "reduce", REDUCE)
                TWICE(SCATTER, "scatter", SCATTER) TWICE(SCATTER_WIDE, "scatter_wide", SCATTER)
                    TWICE(SCATTER_SHARED, "scatter_shared", SCATTER) TWICE(FIXED, "fixed", FIXED)
                        TWICE(FIXED_WIDE, "fixed_wide", FIXED)
                            TWICE(FIXED_SHARED, "fixed_shared", FIXED)
                                TWICE(PREPARE, "prepare", FIXED) TWICE(FINISH, "finish", FIXED)
#undef TWICE
};

static ddisp_status load(cuda__device *device, int module, cu__module *out_module)
{
    char *log = backend_allocate(device->services, LOG_BYTES);
    unsigned int options[2] = {CU__JIT_ERROR_LOG_BUFFER, CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
    const char *text = texts[module];
    char words[256];
    if (!log) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory to load kernels of the library",
                            device->ordinal);
    }
    if (module == PAIRS && device->capability_major >= 9) {
        text = pairs_sm90_ptx;
    }
    cu__result result = device->api->module_load_data_ex(out_module, text, 2, options, values);
    ddisp_status status = cuda__result_status(result);
    if (status == DDISP_STATUS_DEVICE_LOST) {
        status = cuda__fail(device, result, "cuModuleLoadDataEx");
    } else if (result != CU__SUCCESS) {
        cuda__result_format(device->api, result, "cuModuleLoadDataEx", words, sizeof words);
        status = backend_fail(device->services, status, result,
                              "cuda:%d: the driver did not load kernels of the library: %s%s%s",
                              device->ordinal, words, log[0] ? "\n" : "", log);
    }
    backend_release(device->services, log);
    return status;
}

static ddisp_status find(cuda__device *device, uint32_t kernel, cu__function *out_function)
{
    cuda__builtin *builtin = &device->builtin;
    cu__module *module = &builtin->modules[kernels[kernel].module];
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&builtin->lock);
    if (!builtin->functions[kernel]) {
        cu__function function = NULL;
        if (!*module) {
            status = load(device, kernels[kernel].module, module);
        }
        if (status == DDISP_STATUS_OK) {
            cu__result result =
                device->api->module_get_function(&function, *module, kernels[kernel].name);
            if (result != CU__SUCCESS) {
                status = cuda__fail(device, result, "cuModuleGetFunction");
                function = NULL;
            }
        } else {
            *module = NULL;
        }
        builtin->functions[kernel] = function;
    }
    *out_function = builtin->functions[kernel];
    pthread_mutex_unlock(&builtin->lock);
    return status;
}

ddisp_status cuda__builtin_launch(cuda__device *device, cuda__stream *stream, uint32_t kernel,
                                  uint64_t groups, uint32_t shared_bytes, const void *work)
{
    cu__function function;
    void *parameters[1];
    if (groups == 0) {
        return DDISP_STATUS_OK;
    }
    if (groups > INT32_MAX) {
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "cuda:%d: the work needs %llu groups, the device takes %d",
                            device->ordinal, (unsigned long long)groups, INT32_MAX);
    }
    ddisp_status status = find(device, kernel, &function);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    memcpy(&parameters[0], &work, sizeof parameters[0]);
    cu__result result =
        device->api->launch_kernel(function, (unsigned int)groups, 1, 1, WORK_GROUP, 1, 1,
                                   shared_bytes, stream->handle, parameters, NULL);
    return result == CU__SUCCESS ? DDISP_STATUS_OK : cuda__fail(device, result, "cuLaunchKernel");
}

ddisp_status cuda__builtin_fill(cuda__device *device, uint32_t kernel, uint32_t shared_bytes,
                                uint64_t *out_groups)
{
    cu__function function;
    int groups = 0;
    ddisp_status status = find(device, kernel, &function);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = device->api->occupancy(&groups, function, WORK_GROUP, shared_bytes);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    }
    *out_groups = (uint64_t)(groups > 0 ? groups : 1) * device->multiprocessors;
    return DDISP_STATUS_OK;
}

ddisp_status cuda__work_take(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                             cu__address *out_address)
{
    if (stream->recording) {
        return cuda__graph_memory(device, stream, size_bytes, out_address);
    }
    return cuda__memory_take(device, stream, size_bytes, out_address);
}

void cuda__work_give(cuda__device *device, cuda__stream *stream, cu__address address)
{
    if (!stream->recording && !cuda__driver_lost(device->ordinal)) {
        cuda__memory_give(device, stream, address);
    }
}

void cuda__builtin_release(cuda__device *device)
{
    for (int i = 0; i < CUDA__BUILTIN_MODULES; i++) {
        if (device->builtin.modules[i] && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->module_unload(device->builtin.modules[i]),
                       "cuModuleUnload");
        }
    }
}
