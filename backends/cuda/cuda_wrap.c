/*
 * cuda_wrap.c - a device over a context of the application, which need not be the primary one.
 *
 * In: a ddisp_cuda_device_desc. Out: a device as any other; its context is never retained, reset or
 * destroyed.
 */
#include "backend_chain.h"
#include "cuda_internal.h"

#include <diffdispatch/cuda.h>

/* The device that a context is of, asked with the context current. */
static cu__result device_of(const cu__api *api, cu__context context, cu__device *out_device,
                            const char **out_call)
{
    cu__context ignored;
    *out_call = "cuCtxPushCurrent";
    cu__result result = api->ctx_push_current(context);
    if (result != CU__SUCCESS) {
        return result;
    }
    *out_call = "cuCtxGetDevice";
    result = api->ctx_get_device(out_device);
    cu__result popped = api->ctx_pop_current(&ignored);
    if (result == CU__SUCCESS && popped != CU__SUCCESS) {
        *out_call = "cuCtxPopCurrent";
        result = popped;
    }
    return result;
}

static ddisp_status find_index(const cuda__instance *instance, cu__context context,
                               uint32_t *out_index)
{
    const cu__api *api = instance->api;
    const char *call;
    cu__device wanted = 0, each;
    cu__result result = device_of(api, context, &wanted, &call);
    for (uint32_t i = 0; i < instance->device_count && result == CU__SUCCESS; i++) {
        call = "cuDeviceGet";
        result = api->device_get(&each, (int)i);
        if (result == CU__SUCCESS && each == wanted) {
            *out_index = i;
            return DDISP_STATUS_OK;
        }
    }
    if (result == CU__SUCCESS) {
        return backend_fail(instance->services, DDISP_STATUS_NOT_FOUND, 0,
                            "cuda: the context is of device %d, which is not among the first %u",
                            wanted, instance->device_count);
    }
    char text[256];
    cuda__result_format(api, result, call, text, sizeof text);
    return backend_fail(instance->services, cuda__result_status(result), result,
                        "cuda: the context cannot be used: %s", text);
}

ddisp_status cuda__device_wrap(void *instance_handle, const ddisp_chain *native,
                               ddisp_device_info *info, void **out_device)
{
    cuda__instance *instance = instance_handle;
    ddisp_cuda_device_desc desc;
    uint32_t index = 0;
    ddisp_status status =
        backend_chain_read(instance->services, native, DDISP_CHAIN_CUDA_DEVICE,
                           "ddisp_cuda_device_desc", &desc, (uint32_t)sizeof desc);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (!desc.context) {
        return backend_fail(instance->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "ddisp_cuda_device_desc.context is NULL");
    }
    status = find_index(instance, desc.context, &index);
    if (status == DDISP_STATUS_OK) {
        status = cuda__device_describe(instance, index, info);
    }
    if (status == DDISP_STATUS_OK) {
        status = cuda__device_make(instance, index, desc.context, out_device);
    }
    return status;
}
