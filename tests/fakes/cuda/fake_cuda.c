/*
 * fake_cuda.c - the stand-in driver: counting and failing of calls, devices and contexts.
 *
 * Every entry point begins with fake_begin and ends with fake_end, which hold one lock in between.
 * A released primary context, a call without a current context or an address outside of live memory
 * is an error as with the real driver, so that a backend that relies on luck is found out.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct CUctx_st foreign = {-1, 1};
static __thread cu__context stack[32];
static __thread int depth;

static const char *const names[FAKE_COUNT] = {
#define NAME(member, name, symbol, parameters) name,
    CU__ENTRY_POINTS(NAME)
#undef NAME
};

/* ---- settings */

static int setting(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value && value[0] ? atoi(value) : otherwise;
}

static void set_defaults(void)
{
    fake.started = true;
    memset(fake.calls, 0, sizeof fake.calls);
    fake.call_count = 0;
    fake.last_call = -1;
    fake.fail_in = 0;
    fake.failed = false;
    fake.lose_in = 0;
    fake.lost = false;
    fake.delay = 0;
    fake.memory_bytes = UINT64_C(64) << 20;
    fake.init_result = (cu__result)setting("FAKE_CUDA_INIT_RESULT", CU__SUCCESS);
    fake.version = setting("FAKE_CUDA_VERSION", 13000);
    fake.device_count = setting("FAKE_CUDA_DEVICES", 1);
    if (fake.device_count > FAKE_DEVICES) {
        fake.device_count = FAKE_DEVICES;
    }
    fake.capability_major = 9;
    fake.capability_minor = 0;
    fake.pools = setting("FAKE_CUDA_POOLS", 1) != 0;
    fake.proc_address = setting("FAKE_CUDA_PROC_ADDRESS", 1) != 0;
    fake.max_threads = 1024;
    fake.static_shared_bytes = 0;
    fake.kernel_name = NULL;
    fake.kernel = NULL;
}

static void lock(void)
{
    pthread_mutex_lock(&fake.lock);
    if (!fake.started) {
        set_defaults();
    }
}

static void unlock(void)
{
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_reset(void)
{
    lock();
    set_defaults();
    unlock();
}

static int find(const char *name)
{
    for (int i = 0; i < FAKE_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    abort(); /* a test that misspells a name must not pass */
}

void fake_cuda_fail_at(uint64_t nth, cu__result result)
{
    lock();
    fake.fail_in = nth;
    fake.fail_call = -1;
    fake.fail_result = result;
    fake.failed = false;
    unlock();
}

void fake_cuda_fail_function(const char *name, uint64_t nth, cu__result result)
{
    lock();
    fake.fail_in = nth;
    fake.fail_call = find(name);
    fake.fail_result = result;
    fake.failed = false;
    unlock();
}

int fake_cuda_failed(void)
{
    lock();
    bool failed = fake.failed;
    unlock();
    return failed;
}

void fake_cuda_lose_at(uint64_t nth, cu__result result)
{
    lock();
    fake.lose_in = nth;
    fake.lose_result = result;
    fake.lost = false;
    unlock();
}

int fake_cuda_lost(void)
{
    lock();
    bool lost = fake.lost;
    unlock();
    return lost;
}

uint64_t fake_cuda_call_count(const char *name)
{
    lock();
    uint64_t count = name ? fake.calls[find(name)] : fake.call_count;
    unlock();
    return count;
}

const char *fake_cuda_last_call(void)
{
    lock();
    const char *name = fake.last_call < 0 ? "" : names[fake.last_call];
    unlock();
    return name;
}

#define SETTER(function, type, field)                                                              \
    void function(type value)                                                                      \
    {                                                                                              \
        lock();                                                                                    \
        fake.field = value;                                                                        \
        unlock();                                                                                  \
    }
SETTER(fake_cuda_delay, uint64_t, delay)
SETTER(fake_cuda_set_memory, uint64_t, memory_bytes)
SETTER(fake_cuda_set_version, int, version)
SETTER(fake_cuda_set_pools, int, pools)

void fake_cuda_set_capability(int major, int minor)
{
    lock();
    fake.capability_major = major;
    fake.capability_minor = minor;
    unlock();
}

void fake_cuda_set_function_limits(int max_threads, int static_shared_bytes)
{
    lock();
    fake.max_threads = max_threads;
    fake.static_shared_bytes = static_shared_bytes;
    unlock();
}

void fake_cuda_register_kernel(const char *name, fake_cuda_kernel function)
{
    lock();
    fake.kernel_name = name;
    fake.kernel = function;
    unlock();
}

#define LIVE(function, field)                                                                      \
    uint64_t function(void)                                                                        \
    {                                                                                              \
        lock();                                                                                    \
        uint64_t count = fake.field;                                                               \
        unlock();                                                                                  \
        return count;                                                                              \
    }
LIVE(fake_cuda_live_allocations, allocations)
LIVE(fake_cuda_live_host_allocations, host_allocations)
LIVE(fake_cuda_live_pools, pool_count)
LIVE(fake_cuda_live_streams, streams)
LIVE(fake_cuda_live_events, events)
LIVE(fake_cuda_live_modules, modules)

uint64_t fake_cuda_live_contexts(void)
{
    uint64_t count = 0;
    lock();
    for (int i = 0; i < FAKE_DEVICES; i++) {
        count += fake.contexts[i].references;
    }
    unlock();
    return count;
}

uint64_t fake_cuda_live(void)
{
    return fake_cuda_live_allocations() + fake_cuda_live_host_allocations() +
           fake_cuda_live_contexts() + fake_cuda_live_pools() + fake_cuda_live_streams() +
           fake_cuda_live_events() + fake_cuda_live_modules();
}

cu__context fake_cuda_foreign_context(void)
{
    return &foreign;
}

cu__context fake_cuda_current_context(void)
{
    return fake_current();
}

/* ---- every call */

cu__result fake_begin(int call)
{
    lock();
    fake.calls[call]++;
    fake.call_count++;
    fake.last_call = call;
    fake.injected = false;
    if (fake.lose_in > 0 && --fake.lose_in == 0) {
        fake.lost = true;
    }
    if (fake.lost) {
        return fake.lose_result;
    }
    if (fake.fail_in > 0 && (fake.fail_call < 0 || fake.fail_call == call) && --fake.fail_in == 0) {
        fake.failed = true;
        fake.injected = true;
        return fake.fail_result;
    }
    if (!fake.initialized && call != FAKE_init && call != FAKE_driver_get_version &&
        call != FAKE_get_error_name && call != FAKE_get_error_string) {
        return CU__ERROR_NOT_INITIALIZED;
    }
    return CU__SUCCESS;
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

bool fake_releases(cu__result result)
{
    return result == CU__SUCCESS || fake.injected;
}

cu__result fake_end(cu__result result)
{
    unlock();
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
    lock();
    *out_address = NULL;
    *out_symbol_status = 1;
    if (fake.proc_address && flags == CU__GET_PROC_ADDRESS_LEGACY_STREAM &&
        cuda_version >= CU__MINIMUM_VERSION) {
#define FIND(member, name, entry, parameters)                                                      \
    if (strcmp(symbol, name) == 0) {                                                               \
        found = (function)(void (*)(void))entry;                                                   \
    }
        CU__ENTRY_POINTS(FIND)
#undef FIND
    }
    if (found) {
        memcpy(out_address, &found, sizeof found);
        *out_symbol_status = 0;
        result = CU__SUCCESS;
    }
    unlock();
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

cu__result cuCtxSynchronize(void)
{
    return fake_end(fake_begin_current(FAKE_ctx_synchronize));
}
