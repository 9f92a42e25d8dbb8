/*
 * fake_cuda.c - the stand-in driver: finding entry points, devices and contexts.
 *
 * A released primary context, a call without a current context or an address outside of live memory
 * is an error as with the real driver, so that a backend that relies on luck is found out.
 */
#include "fake_internal.h"

#include <string.h>

static struct CUctx_st foreign = {-1, 1}, lent = {0, 1};
static __thread cu__context stack[32];
static __thread int depth;

/* ---- the context that is current on a thread */

cu__context fake_cuda_foreign_context(void)
{
    return &foreign;
}

cu__context fake_cuda_lent_context(void)
{
    return &lent;
}

cu__context fake_cuda_current_context(void)
{
    return fake_current();
}

cu__result fake_begin_current(int call)
{
    cu__result result = fake_begin(call);
    if (result == CU__SUCCESS &&
        (depth == 0 || stack[depth - 1] == &foreign || stack[depth - 1]->references == 0)) {
        return CU__ERROR_INVALID_CONTEXT;
    }
    return result;
}

cu__context fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* ---- the driver as a whole */

typedef cu__result (*function)(void);

__attribute__((visibility("default"))) cu__result
cuGetProcAddress_v2(const char *symbol, void **out_address, int cuda_version, uint64_t flags,
                    unsigned int *out_symbol_status);

cu__result cuGetProcAddress_v2(const char *symbol, void **out_address, int cuda_version,
                               uint64_t flags, unsigned int *out_symbol_status)
{
    cu__result result = CU__ERROR_NOT_FOUND;
    function found = NULL;
    fake_lock();
    *out_address = NULL;
    *out_symbol_status = 1;
    if (fake.proc_address && flags == CU__GET_PROC_ADDRESS_LEGACY_STREAM &&
        cuda_version >= CU__MINIMUM_VERSION) {
#define FIND(member, name, entry, parameters)                                                      \
    if (strcmp(symbol, name) == 0) {                                                               \
        found = (function)(void (*)(void))entry;                                                   \
    }
        CU__ENTRY_POINTS(FIND)
        if (cuda_version >= CU__OPTIONAL_VERSION && fake.version >= CU__OPTIONAL_VERSION) {
            CU__OPTIONAL_ENTRY_POINTS(FIND)
        }
#undef FIND
    }
    if (found) {
        memcpy(out_address, &found, sizeof found);
        *out_symbol_status = 0;
        result = CU__SUCCESS;
    }
    fake_unlock();
    return result;
}

cu__result cuInit(unsigned int flags)
{
    cu__result result = fake_begin(FAKE_init);
    if (result == CU__SUCCESS) {
        result = flags == 0 ? fake.init_result : CU__ERROR_INVALID_VALUE;
        fake.initialized = result == CU__SUCCESS;
    }
    return fake_end(result);
}

cu__result cuDriverGetVersion(int *out_version)
{
    cu__result result = fake_begin(FAKE_driver_get_version);
    *out_version = fake.version;
    return fake_end(result);
}

static const char *error_name(cu__result result)
{
    switch (result) {
    case CU__ERROR_INVALID_VALUE:
        return "CUDA_ERROR_INVALID_VALUE";
    case CU__ERROR_OUT_OF_MEMORY:
        return "CUDA_ERROR_OUT_OF_MEMORY";
    case CU__ERROR_INVALID_PTX:
        return "CUDA_ERROR_INVALID_PTX";
    case CU__ERROR_UNKNOWN:
        return "CUDA_ERROR_UNKNOWN";
    default:
        return "CUDA_ERROR_OTHER";
    }
}

cu__result cuGetErrorName(cu__result error, const char **out)
{
    cu__result result = fake_begin(FAKE_get_error_name);
    *out = error_name(error);
    return fake_end(result);
}

cu__result cuGetErrorString(cu__result error, const char **out)
{
    cu__result result = fake_begin(FAKE_get_error_string);
    *out = error == CU__ERROR_OUT_OF_MEMORY ? "out of memory" : "said by the fake";
    return fake_end(result);
}

/* ---- devices */

cu__result cuDeviceGetCount(int *out_count)
{
    cu__result result = fake_begin(FAKE_device_get_count);
    *out_count = fake.device_count;
    return fake_end(result);
}

cu__result cuDeviceGet(cu__device *out_device, int ordinal)
{
    cu__result result = fake_begin(FAKE_device_get);
    if (result == CU__SUCCESS && (ordinal < 0 || ordinal >= fake.device_count)) {
        result = CU__ERROR_INVALID_DEVICE;
    }
    *out_device = ordinal;
    return fake_end(result);
}

cu__result cuDeviceGetName(char *name, int capacity, cu__device device)
{
    cu__result result = fake_begin(FAKE_device_get_name);
    (void)device;
    if (result == CU__SUCCESS) {
        strncpy(name, "fake", (size_t)capacity);
    }
    return fake_end(result);
}

cu__result cuDeviceGetUuid_v2(struct CUuuid_st *out_uuid, cu__device device)
{
    cu__result result = fake_begin(FAKE_device_get_uuid);
    unsigned char bytes[16] = {0xfa, 0xce, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0};
    bytes[15] = (unsigned char)device;
    if (result == CU__SUCCESS) {
        memcpy(out_uuid, bytes, sizeof bytes);
    }
    return fake_end(result);
}

cu__result cuDeviceTotalMem_v2(size_t *out_size_bytes, cu__device device)
{
    cu__result result = fake_begin(FAKE_device_total_mem);
    (void)device;
    *out_size_bytes = fake.memory_bytes;
    return fake_end(result);
}

cu__result cuDeviceGetAttribute(int *out_value, unsigned int attribute, cu__device device)
{
    static const struct {
        unsigned int attribute;
        int value;
    } values[] = {
        {CU__DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU__DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU__DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 10},
        {CU__DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 101376},
    };
    cu__result result = fake_begin(FAKE_device_get_attribute);
    (void)device;
    if (result != CU__SUCCESS) {
        return fake_end(result);
    }
    *out_value = attribute == CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? fake.capability_major
                 : attribute == CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
                     ? fake.capability_minor
                 : attribute == CU__DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED ? fake.pools
                 : attribute == CU__DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
                     ? fake.virtual_memory
                     : -1;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (values[i].attribute == attribute) {
            *out_value = values[i].value;
        }
    }
    return fake_end(*out_value < 0 ? CU__ERROR_INVALID_VALUE : CU__SUCCESS);
}

/* ---- contexts */

cu__result cuDevicePrimaryCtxRetain(cu__context *out_context, cu__device device)
{
    cu__result result = fake_begin(FAKE_primary_ctx_retain);
    if (result == CU__SUCCESS) {
        fake.contexts[device].ordinal = device;
        fake.contexts[device].references++;
        *out_context = &fake.contexts[device];
    }
    return fake_end(result);
}

cu__result cuDevicePrimaryCtxRelease_v2(cu__device device)
{
    cu__result result = fake_begin(FAKE_primary_ctx_release);
    if (fake.contexts[device].references == 0) {
        return fake_end(CU__ERROR_INVALID_CONTEXT);
    }
    if (fake_releases(result)) {
        fake.contexts[device].references--;
    }
    return fake_end(result);
}

cu__result cuCtxGetCurrent(cu__context *out_context)
{
    cu__result result = fake_begin(FAKE_ctx_get_current);
    *out_context = fake_current();
    return fake_end(result);
}

cu__result cuCtxPushCurrent_v2(cu__context context)
{
    cu__result result = fake_begin(FAKE_ctx_push_current);
    if (result == CU__SUCCESS && (!context || depth == (int)(sizeof stack / sizeof stack[0]))) {
        result = CU__ERROR_INVALID_CONTEXT;
    }
    if (result == CU__SUCCESS) {
        stack[depth++] = context;
    }
    return fake_end(result);
}

cu__result cuCtxPopCurrent_v2(cu__context *out_context)
{
    cu__result result = fake_begin(FAKE_ctx_pop_current);
    if (depth == 0) {
        return fake_end(CU__ERROR_INVALID_CONTEXT);
    }
    *out_context = stack[--depth];
    return fake_end(result);
}

cu__result cuCtxGetDevice(cu__device *out_device)
{
    cu__result result = fake_begin_current(FAKE_ctx_get_device);
    *out_device = fake_current() ? fake_current()->ordinal : -1;
    return fake_end(result);
}

cu__result cuCtxSynchronize(void)
{
    return fake_end(fake_begin_unsafe(FAKE_ctx_synchronize));
}
