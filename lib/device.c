/*
 * device.c - open devices: opening and closing them, their health, their counters.
 *
 * In comes a spec such as "auto" or "cuda:0", out goes one object per device and context. A device
 * that was lost stays lost and remembers its first cause. The last release waits for the device's
 * own stream; in a forked child nothing here calls a backend.
 */
#include "lower.h"

#include <string.h>

/* ---- opening and closing */

/* Frees the parts that exist. Nothing else refers to the device. */
static void destroy(ddisp_device *device)
{
    ddisp_context *context = device->context;
    bool forked = ddisp__context_forked(context);
    ddisp_error before = *ddisp__error();
    if (device->stream) {
        uint64_t ticket;
        if (!forked && ddisp__stream_mark(device->stream, &ticket) == DDISP_STATUS_OK)
            (void)ddisp__stream_await(device->stream, ticket, DDISP_TIMEOUT_INFINITE);
        ddisp__buffer_reap(device, true);
    }
    ddisp_stream_release(device->stream);
    if (device->handle && !forked)
        device->table->device_close(device->handle);
    ddisp__array_clear(context, &device->pending);
    ddisp__array_clear(context, &device->sink_streams);
    (void)pthread_mutex_destroy(&device->sink_lock);
    (void)pthread_mutex_destroy(&device->lock);
    ddisp__release(context, device);
    ddisp_context_release(context);
    ddisp__error_restore(&before);
}

static atomic_uint_fast64_t serials;

ddisp_status ddisp__device_make(ddisp_context *context, const ddisp__found *found,
                                const ddisp_chain *native, ddisp_device **out_device)
{
    ddisp_device *device = ddisp__allocate(context, sizeof *device);
    if (!device)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a device");
    ddisp__reference_start(&device->reference);
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->sink_lock, NULL);
    atomic_init(&device->lost, false);
    ddisp_context_retain(context);
    device->context = context;
    device->table = found->backend->table;
    device->info = found->info;
    device->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;

    void *instance = found->backend->instance;
    ddisp_status status = ddisp__device_result(
        device, native
                    ? device->table->device_wrap(instance, native, &device->info, &device->handle)
                    : device->table->device_open(instance, found->index, &device->handle));
    ddisp__signature_device(&device->info, &device->signature_head);
    if (status == DDISP_STATUS_OK)
        status = ddisp__stream_make(device, DDISP_BACKEND_STREAM_DEFAULT, &device->stream);
    if (status != DDISP_STATUS_OK) {
        destroy(device);
        return status;
    }
    *out_device = device;
    return DDISP_STATUS_OK;
}

/* Takes a reference unless the last one is gone: such a device is on its way out. */
static bool take_if_alive(ddisp_device *device)
{
    uint_fast32_t count = atomic_load_explicit(&device->reference.count, memory_order_relaxed);
    while (count != 0) {
        if (atomic_compare_exchange_weak_explicit(&device->reference.count, &count, count + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

/* Context is locked. */
static ddisp_device *find_open(ddisp_context *context, const ddisp__found *found)
{
    for (uint32_t i = 0; i < context->devices.count; i++) {
        ddisp_device *device = *(ddisp_device **)ddisp__array_at(&context->devices, i);
        if (!strcmp(device->info.spec, found->info.spec) && take_if_alive(device))
            return device;
    }
    return NULL;
}

ddisp_status ddisp_device_open(ddisp_context *context, const char *spec, ddisp_device **out_device)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!spec || !out_device)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL",
                           spec ? "out_device" : "spec");
    ddisp__found found;
    status = ddisp__device_find(context, spec, &found);
    if (status != DDISP_STATUS_OK)
        return status;

    (void)pthread_mutex_lock(&context->lock);
    ddisp_device *device = find_open(context, &found);
    ddisp_device **place = NULL;
    if (!device) {
        place = ddisp__array_push(context, &context->devices);
        status = place ? ddisp__device_make(context, &found, NULL, &device)
                       : ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a device");
        if (status == DDISP_STATUS_OK)
            *place = device;
        else if (place)
            context->devices.count--;
    }
    (void)pthread_mutex_unlock(&context->lock);
    if (status == DDISP_STATUS_OK)
        *out_device = device;
    return status;
}

void ddisp_device_retain(ddisp_device *device)
{
    if (device)
        ddisp__reference_take(&device->reference);
}

void ddisp_device_release(ddisp_device *device)
{
    if (!device || !ddisp__reference_drop(&device->reference))
        return;
    ddisp_context *context = device->context;
    bool forked = ddisp__context_forked(context);
    /* The lock may have been held by a thread that a forked child does not have. */
    if (!forked)
        (void)pthread_mutex_lock(&context->lock);
    for (uint32_t i = 0; i < context->devices.count; i++) {
        if (*(ddisp_device **)ddisp__array_at(&context->devices, i) == device) {
            ddisp__array_remove(&context->devices, i);
            break;
        }
    }
    if (!forked)
        (void)pthread_mutex_unlock(&context->lock);
    destroy(device);
}

/* ---- health */

/* OK unless NULL or forked. */
static ddisp_status check_handle(ddisp_device *device, const char *what)
{
    if (!device)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL", what);
    return ddisp__context_check(device->context);
}

ddisp_status ddisp__device_check(ddisp_device *device, const char *what)
{
    ddisp_status status = check_handle(device, what);
    if (status != DDISP_STATUS_OK)
        return status;
    /* lost_error does not change any more once lost is seen. */
    if (atomic_load_explicit(&device->lost, memory_order_acquire)) {
        ddisp__error_restore(&device->lost_error);
        return DDISP_STATUS_DEVICE_LOST;
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__device_result(ddisp_device *device, ddisp_status status)
{
    if (status == DDISP_STATUS_OK || status == DDISP_STATUS_NOT_READY)
        return status;
    if (ddisp__error()->status != status)
        (void)ddisp__fail(status, "backend %s gave no message: %s", device->info.backend,
                          ddisp_status_describe(status));
    if (status != DDISP_STATUS_DEVICE_LOST)
        return status;

    (void)pthread_mutex_lock(&device->lock);
    if (!atomic_load_explicit(&device->lost, memory_order_relaxed)) {
        ddisp_error cause = *ddisp__error();
        (void)ddisp__fail(status, "device %s was lost: %s", device->info.spec, cause.message);
        device->lost_error = *ddisp__error();
        device->lost_error.native_code = cause.native_code;
        atomic_store_explicit(&device->lost, true, memory_order_release);
    }
    (void)pthread_mutex_unlock(&device->lock);
    ddisp__error_restore(&device->lost_error);
    return status;
}

ddisp_status ddisp_device_status(ddisp_device *device)
{
    return ddisp__device_check(device, "device");
}

ddisp_status ddisp_device_synchronize(ddisp_device *device, uint64_t timeout_ns)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    return ddisp_stream_synchronize(device->stream, timeout_ns);
}

/* ---- what it is and what it did */

ddisp_status ddisp_device_get_info(ddisp_device *device, ddisp_device_info *out_info)
{
    ddisp_status status = check_handle(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    return ddisp__struct_write("out_info", out_info, offsetof(ddisp_device_info, driver_id),
                               sizeof *out_info, &device->info);
}

ddisp_status ddisp_device_get_statistics(ddisp_device *device,
                                         ddisp_device_statistics *out_statistics)
{
    ddisp_status status = check_handle(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_device_statistics statistics;
    const ddisp_device_statistics *counted = &device->statistics;
    (void)pthread_mutex_lock(&device->lock);
    memcpy(&statistics, counted, offsetof(ddisp_device_statistics, launches));
    (void)pthread_mutex_unlock(&device->lock);
    statistics.launches = __atomic_load_n(&counted->launches, __ATOMIC_RELAXED);
    statistics.skips = __atomic_load_n(&counted->skips, __ATOMIC_RELAXED);
    statistics.fills = __atomic_load_n(&counted->fills, __ATOMIC_RELAXED);
    statistics.variants_built = __atomic_load_n(&counted->variants_built, __ATOMIC_RELAXED);
    ddisp__pool_statistics(device, &statistics);
    return ddisp__struct_write("out_statistics", out_statistics,
                               offsetof(ddisp_device_statistics, bytes_cached), sizeof statistics,
                               &statistics);
}

/* Without the lock: launches from many threads count here. */
static void count(uint64_t *counter)
{
    (void)__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void ddisp__device_count_launch(ddisp_device *device, bool launched)
{
    count(launched ? &device->statistics.launches : &device->statistics.skips);
}

void ddisp__device_count_fill(ddisp_device *device)
{
    count(&device->statistics.fills);
}

void ddisp__device_count_variant(ddisp_device *device)
{
    count(&device->statistics.variants_built);
}
