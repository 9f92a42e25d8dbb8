/*
 * cuda_device.c - what devices there are, what each can do, and opening one: its primary context
 * (shared with everybody in the process who uses the runtime API) and a memory pool of our own.
 *
 * In: an instance and an index. Out: a description, or a device. The primary context is retained
 * and released, never reset, and no flag of it is changed. Describing needs no context.
 */
#include "cuda_code.h"

#include <string.h>

ddisp_status cuda__device_count(void *instance_handle, uint32_t *out_count)
{
    const cuda__instance *instance = instance_handle;
    *out_count = instance->device_count;
    return DDISP_STATUS_OK;
}

/* The device exists and was not lost. */
static ddisp_status check_index(const cuda__instance *instance, uint32_t index)
{
    if (index >= instance->device_count) {
        return backend_fail(instance->services, DDISP_STATUS_NOT_FOUND, 0,
                            "cuda:%u does not exist, the driver shows %u devices", index,
                            instance->device_count);
    }
    if (cuda__driver_lost((int)index)) {
        return backend_fail(instance->services, DDISP_STATUS_DEVICE_LOST, 0,
                            "cuda:%u was lost earlier in this process; CUDA cannot be recovered "
                            "inside a process, start a new one",
                            index);
    }
    return DDISP_STATUS_OK;
}

/* ---- description */

enum {
    CAPABILITY_MAJOR,
    CAPABILITY_MINOR,
    GRID_X,
    GRID_Y,
    GRID_Z,
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    BLOCK_THREADS,
    SHARED_BYTES,
    WARP_SIZE,
    MULTIPROCESSORS,
    VIRTUAL_MEMORY,
    POOLS,
    ATTRIBUTE_COUNT,
};

static ddisp_status read_attributes(const cuda__instance *instance, int ordinal, cu__device handle,
                                    int values[ATTRIBUTE_COUNT])
{
    static const unsigned int names[ATTRIBUTE_COUNT] = {
        [CAPABILITY_MAJOR] = CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        [CAPABILITY_MINOR] = CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        [GRID_X] = CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
        [GRID_Y] = CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        [GRID_Z] = CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
        [BLOCK_X] = CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
        [BLOCK_Y] = CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
        [BLOCK_Z] = CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
        [BLOCK_THREADS] = CU__DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        [SHARED_BYTES] = CU__DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        [WARP_SIZE] = CU__DEVICE_ATTRIBUTE_WARP_SIZE,
        [MULTIPROCESSORS] = CU__DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        [VIRTUAL_MEMORY] = CU__DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        [POOLS] = CU__DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    };
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        cu__result result = instance->api->device_get_attribute(&values[i], names[i], handle);
        if (result != CU__SUCCESS) {
            return cuda__fail_closed(instance, ordinal, result, "cuDeviceGetAttribute");
        }
    }
    return DDISP_STATUS_OK;
}

static void format_uuid(const cu__uuid *uuid, char text[40])
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < sizeof uuid->bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text[at++] = '-';
        }
        text[at++] = digits[(unsigned char)uuid->bytes[i] >> 4];
        text[at++] = digits[(unsigned char)uuid->bytes[i] & 15];
    }
    text[at] = '\0';
}

/* Such as "580.159.04"; the driver itself tells only the version of CUDA. */
static void read_release(bool fake, char release[32])
{
    FILE *file = fake ? NULL : fopen("/sys/module/nvidia/version", "re");
    release[0] = '\0';
    if (file) {
        if (fscanf(file, "%31[0-9.]", release) != 1) {
            release[0] = '\0';
        }
        (void)fclose(file);
    }
}

/* "580.159.04 (CUDA 13.0)" */
static void describe_driver(int version, bool fake, char *text, size_t capacity)
{
    char release[32];
    read_release(fake, release);
    int major = version / 1000, minor = version % 1000 / 10;
    if (release[0]) {
        (void)snprintf(text, capacity, "%s (CUDA %d.%d)", release, major, minor);
    } else {
        (void)snprintf(text, capacity, "CUDA %d.%d", major, minor);
    }
}

static void describe_abilities(const int values[ATTRIBUTE_COUNT], bool compiles,
                               ddisp_device_info *info)
{
    int capability = values[CAPABILITY_MAJOR] * 10 + values[CAPABILITY_MINOR];
    (void)snprintf(info->architecture, sizeof info->architecture, "sm_%d", capability);
    (void)snprintf(info->formats, sizeof info->formats, "ptx,cubin,fatbin%s",
                   compiles ? ",cuda-c++" : "");
    (void)snprintf(info->specializes, sizeof info->specializes, "ptx%s",
                   compiles ? ",cuda-c++" : "");
    (void)snprintf(info->sink, sizeof info->sink, values[VIRTUAL_MEMORY] ? "aliased" : "none");
    info->atomic_add_f16 = capability >= 70 ? DDISP_SUPPORT_NATIVE : DDISP_SUPPORT_EMULATED;
    info->atomic_add_bf16 = capability >= 90 ? DDISP_SUPPORT_NATIVE : DDISP_SUPPORT_EMULATED;
    info->atomic_add_f32 = DDISP_SUPPORT_NATIVE;
    info->atomic_add_f64 = capability >= 60 ? DDISP_SUPPORT_NATIVE : DDISP_SUPPORT_EMULATED;
    info->atomic_add_i64 = DDISP_SUPPORT_NATIVE;
    for (int axis = 0; axis < 3; axis++) {
        info->max_group_count[axis] = (uint32_t)values[GRID_X + axis];
        info->max_group_size[axis] = (uint32_t)values[BLOCK_X + axis];
    }
    info->max_group_threads = (uint32_t)values[BLOCK_THREADS];
    info->max_block_bytes = CUDA__MAX_BLOCK_BYTES;
    /* Many times what fits at once: groups that end early make room for others. */
    info->preferred_group_count = (uint32_t)values[MULTIPROCESSORS] * 512;
    info->max_shared_bytes = (uint32_t)values[SHARED_BYTES];
    info->subgroup_size = (uint32_t)values[WARP_SIZE];
}

ddisp_status cuda__device_describe(void *instance_handle, uint32_t index, ddisp_device_info *info)
{
    const cuda__instance *instance = instance_handle;
    const cu__api *api = instance->api;
    cu__device handle;
    cu__uuid uuid;
    size_t memory_bytes = 0;
    int values[ATTRIBUTE_COUNT];
    ddisp_status status = check_index(instance, index);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = api->device_get(&handle, (int)index);
    if (result != CU__SUCCESS) {
        return cuda__fail_closed(instance, (int)index, result, "cuDeviceGet");
    }
    result = api->device_get_name(info->name, (int)sizeof info->name, handle);
    if (result != CU__SUCCESS) {
        return cuda__fail_closed(instance, (int)index, result, "cuDeviceGetName");
    }
    info->name[sizeof info->name - 1] = '\0';
    result = api->device_get_uuid((struct CUuuid_st *)(void *)&uuid, handle);
    if (result != CU__SUCCESS) {
        return cuda__fail_closed(instance, (int)index, result, "cuDeviceGetUuid");
    }
    result = api->device_total_mem(&memory_bytes, handle);
    if (result != CU__SUCCESS) {
        return cuda__fail_closed(instance, (int)index, result, "cuDeviceTotalMem");
    }
    status = read_attributes(instance, (int)index, handle, values);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    bool fake = strncmp(info->name, "fake", 4) == 0;
    format_uuid(&uuid, info->uuid);
    describe_driver(instance->version, fake, info->driver, sizeof info->driver);
    describe_abilities(values, cuda__nvrtc_found(instance->version), info);
    info->rank = fake ? 0 : 100;
    info->flags = fake ? DDISP_DEVICE_FLAG_FAKE : 0;
    info->memory_bytes = memory_bytes;
    info->max_allocation_bytes = memory_bytes;
    info->driver_version = (uint32_t)instance->version;
    info->vendor_id = fake ? 0 : 0x10de;
    info->dlpack_device_type = 2; /* kDLCUDA, numbered as the runtime and the driver do */
    info->dlpack_device_id = (int32_t)index;
    return DDISP_STATUS_OK;
}

/* ---- opening */

/* Freed memory stays in the pool, so that taking it again asks nothing of the system. */
static ddisp_status make_pool(cuda__device *device)
{
    cu__pool_properties properties = {
        .allocation_type = CU__MEM_ALLOCATION_TYPE_PINNED,
        .location_type = CU__MEM_LOCATION_TYPE_DEVICE,
        .location_id = device->handle,
    };
    uint64_t threshold_bytes = UINT64_MAX;
    cu__result result = device->api->mem_pool_create(
        &device->pool, (const struct CUmemPoolProps_st *)(const void *)&properties);
    if (result == CU__ERROR_NOT_SUPPORTED) {
        device->pool = NULL;
        return DDISP_STATUS_OK;
    }
    if (result != CU__SUCCESS) {
        device->pool = NULL;
        return cuda__fail(device, result, "cuMemPoolCreate");
    }
    result = device->api->mem_pool_set_attribute(device->pool, CU__MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                 &threshold_bytes);
    if (result != CU__SUCCESS) {
        ddisp_status status = cuda__fail(device, result, "cuMemPoolSetAttribute");
        if (!cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->mem_pool_destroy(device->pool), "cuMemPoolDestroy");
        }
        device->pool = NULL;
        return status;
    }
    return DDISP_STATUS_OK;
}

static ddisp_status read_device(cuda__device *device, const cuda__instance *instance,
                                bool *out_pools)
{
    int values[ATTRIBUTE_COUNT];
    size_t memory_bytes = 0;
    cu__result result = device->api->device_get(&device->handle, device->ordinal);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuDeviceGet");
    }
    result = device->api->device_total_mem(&memory_bytes, device->handle);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuDeviceTotalMem");
    }
    ddisp_status status = read_attributes(instance, device->ordinal, device->handle, values);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    read_release(false, device->release);
    device->memory_bytes = memory_bytes;
    device->capability_major = (uint32_t)values[CAPABILITY_MAJOR];
    device->capability_minor = (uint32_t)values[CAPABILITY_MINOR];
    device->max_shared_bytes = (uint32_t)values[SHARED_BYTES];
    device->multiprocessors = (uint32_t)values[MULTIPROCESSORS];
    device->virtual_memory = values[VIRTUAL_MEMORY] != 0;
    *out_pools = values[POOLS] != 0;
    return DDISP_STATUS_OK;
}

ddisp_status cuda__device_open(void *instance, uint32_t index, void **out_device)
{
    return cuda__device_make(instance, index, NULL, out_device);
}

/* The context that is used, and what is made in it. */
static ddisp_status enter_device(cuda__device *device, cu__context borrowed, bool pools)
{
    device->context = borrowed;
    device->borrowed = borrowed != NULL;
    if (!borrowed) {
        cu__result result = device->api->primary_ctx_retain(&device->context, device->handle);
        if (result != CU__SUCCESS) {
            return cuda__fail(device, result, "cuDevicePrimaryCtxRetain");
        }
    }
    ddisp_status status = pools ? make_pool(device) : DDISP_STATUS_OK;
    if (status != DDISP_STATUS_OK && !borrowed && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->primary_ctx_release(device->handle),
                   "cuDevicePrimaryCtxRelease");
    }
    return status;
}

ddisp_status cuda__device_make(cuda__instance *instance, uint32_t index, cu__context borrowed,
                               void **out_device)
{
    const ddisp_backend_services *services = instance->services;
    bool pools = false;
    ddisp_status status = check_index(instance, index);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__device *device = backend_allocate(services, sizeof *device);
    if (!device) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%u: no host memory for the device", index);
    }
    device->services = services;
    device->api = instance->api;
    device->ordinal = (int)index;
    device->version = instance->version;
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->builtin.lock, NULL);
    status = read_device(device, instance, &pools);
    if (status == DDISP_STATUS_OK) {
        status = enter_device(device, borrowed, pools);
    }
    if (status != DDISP_STATUS_OK) {
        (void)pthread_mutex_destroy(&device->builtin.lock);
        (void)pthread_mutex_destroy(&device->lock);
        backend_release(services, device);
        return status;
    }
    *out_device = device;
    return DDISP_STATUS_OK;
}

void cuda__device_close(void *device_handle)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    if (cuda__enter_release(device, &scope)) {
        /* Releasing the last reference destroys the context: streams that were destroyed with work
         * still queued must be through by then. */
        cuda__note(device, device->api->ctx_synchronize(), "cuCtxSynchronize");
        cuda__sink_release(device);
        cuda__builtin_release(device);
        if (device->pool && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->mem_pool_destroy(device->pool), "cuMemPoolDestroy");
        }
        cuda__leave(device, &scope);
    }
    if (!device->borrowed && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->primary_ctx_release(device->handle),
                   "cuDevicePrimaryCtxRelease");
    }
    (void)pthread_mutex_destroy(&device->builtin.lock);
    (void)pthread_mutex_destroy(&device->lock);
    backend_release(device->services, device);
}
