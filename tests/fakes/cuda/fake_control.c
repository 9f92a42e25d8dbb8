/*
 * fake_control.c - the stand-in driver's other side: settings, failures and counts, as tests see
 * them, and what every entry point does first and last.
 *
 * Every entry point begins with fake_begin and ends with fake_end, which hold one lock in between.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const names[FAKE_COUNT] = {
#define NAME(member, name, symbol, parameters) name,
    CU__ENTRY_POINTS(NAME) CU__OPTIONAL_ENTRY_POINTS(NAME)
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
    fake.virtual_memory = true;
    fake.proc_address = setting("FAKE_CUDA_PROC_ADDRESS", 1) != 0;
    fake.max_threads = 1024;
    fake.static_shared_bytes = 0;
    fake.param_count = 0;
    fake.elapsed = 1.5f;
    fake.kernel_name = NULL;
    fake.kernel = NULL;
    fake.launcher = NULL;
}

void fake_lock(void)
{
    pthread_mutex_lock(&fake.lock);
    if (!fake.started) {
        set_defaults();
    }
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_reset(void)
{
    fake_lock();
    set_defaults();
    fake_unlock();
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
    fake_lock();
    fake.fail_in = nth;
    fake.fail_call = -1;
    fake.fail_result = result;
    fake.failed = false;
    fake_unlock();
}

void fake_cuda_fail_function(const char *name, uint64_t nth, cu__result result)
{
    fake_lock();
    fake.fail_in = nth;
    fake.fail_call = find(name);
    fake.fail_result = result;
    fake.failed = false;
    fake_unlock();
}

int fake_cuda_failed(void)
{
    fake_lock();
    bool failed = fake.failed;
    fake_unlock();
    return failed;
}

void fake_cuda_lose_at(uint64_t nth, cu__result result)
{
    fake_lock();
    fake.lose_in = nth;
    fake.lose_result = result;
    fake.lost = false;
    fake_unlock();
}

int fake_cuda_lost(void)
{
    fake_lock();
    bool lost = fake.lost;
    fake_unlock();
    return lost;
}

uint64_t fake_cuda_call_count(const char *name)
{
    fake_lock();
    uint64_t count = name ? fake.calls[find(name)] : fake.call_count;
    fake_unlock();
    return count;
}

const char *fake_cuda_last_call(void)
{
    fake_lock();
    const char *name = fake.last_call < 0 ? "" : names[fake.last_call];
    fake_unlock();
    return name;
}

#define SETTER(function, type, field)                                                              \
    void function(type value)                                                                      \
    {                                                                                              \
        fake_lock();                                                                               \
        fake.field = value;                                                                        \
        fake_unlock();                                                                             \
    }
SETTER(fake_cuda_delay, uint64_t, delay)
SETTER(fake_cuda_set_memory, uint64_t, memory_bytes)
SETTER(fake_cuda_set_version, int, version)
SETTER(fake_cuda_set_pools, int, pools)
SETTER(fake_cuda_set_launcher, fake_cuda_launcher, launcher)
SETTER(fake_cuda_set_virtual_memory, int, virtual_memory)
SETTER(fake_cuda_set_elapsed, float, elapsed)

void fake_cuda_set_capability(int major, int minor)
{
    fake_lock();
    fake.capability_major = major;
    fake.capability_minor = minor;
    fake_unlock();
}

void fake_cuda_set_function_limits(int max_threads, int static_shared_bytes)
{
    fake_lock();
    fake.max_threads = max_threads;
    fake.static_shared_bytes = static_shared_bytes;
    fake_unlock();
}

void fake_cuda_set_function_params(const size_t *sizes_bytes, size_t count)
{
    fake_lock();
    memcpy(fake.param_sizes, sizes_bytes, count * sizeof *sizes_bytes);
    fake.param_count = count;
    fake_unlock();
}

void fake_cuda_register_kernel(const char *name, fake_cuda_kernel function)
{
    fake_lock();
    fake.kernel_name = name;
    fake.kernel = function;
    fake_unlock();
}

#define LIVE(function, field)                                                                      \
    uint64_t function(void)                                                                        \
    {                                                                                              \
        fake_lock();                                                                               \
        uint64_t count = fake.field;                                                               \
        fake_unlock();                                                                             \
        return count;                                                                              \
    }
LIVE(fake_cuda_live_allocations, allocations)
LIVE(fake_cuda_live_host_allocations, host_allocations)
LIVE(fake_cuda_live_pools, pool_count)
LIVE(fake_cuda_live_streams, streams)
LIVE(fake_cuda_live_events, events)
LIVE(fake_cuda_live_modules, modules)
LIVE(fake_cuda_live_virtual, reservations + fake.physical_allocations + fake.mappings)
LIVE(fake_cuda_live_links, links)
LIVE(fake_cuda_live_graphs, graphs)

uint64_t fake_cuda_live_contexts(void)
{
    uint64_t count = 0;
    fake_lock();
    for (int i = 0; i < FAKE_DEVICES; i++) {
        count += fake.contexts[i].references;
    }
    fake_unlock();
    return count;
}

uint64_t fake_cuda_live(void)
{
    return fake_cuda_live_allocations() + fake_cuda_live_host_allocations() +
           fake_cuda_live_contexts() + fake_cuda_live_pools() + fake_cuda_live_streams() +
           fake_cuda_live_events() + fake_cuda_live_modules() + fake_cuda_live_virtual() +
           fake_cuda_live_links() + fake_cuda_live_graphs();
}

/* ---- every call */

cu__result fake_begin(int call)
{
    fake_lock();
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

bool fake_releases(cu__result result)
{
    return result == CU__SUCCESS || fake.injected;
}

cu__result fake_end(cu__result result)
{
    fake_unlock();
    return result;
}
