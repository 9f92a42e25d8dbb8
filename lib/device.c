/*
 * device.c - devices: which there are, opening them by name, what they are, and their health.
 *
 * In comes a spec such as "auto" or "cuda:0", out goes one object per device and context. A device
 * that was lost stays lost and remembers its first cause. The last release waits for the device's
 * own stream; in a forked child nothing here calls a backend.
 */
#include "objects.h"

#include <stdio.h>
#include <string.h>

/* ---- enumeration */

struct found {
    const ddisp__backend *backend;
    uint32_t index;
    ddisp_device_info info;
    ddisp_status status; /* of describing it */
};

static void describe(const ddisp__backend *backend, uint32_t index, struct found *out_found)
{
    ddisp_device_info info = {.size = sizeof info};
    out_found->backend = backend;
    out_found->index = index;
    out_found->status = backend->table->device_describe(backend->instance, index, &info);
    if (out_found->status != DDISP_STATUS_OK)
        info = (ddisp_device_info){.size = sizeof info};
    snprintf(info.spec, sizeof info.spec, "%.20s:%u", backend->info.name, index);
    snprintf(info.backend, sizeof info.backend, "%.31s", backend->info.name);
    out_found->info = info;
}

/* Describes every device into an array, highest rank first; equal ranks in order of loading. */
static ddisp_status find_all(ddisp_context *context, ddisp__array *out_found)
{
    *out_found = (ddisp__array){.item_size = sizeof(struct found)};
    for (uint32_t i = 0; i < context->backends.count; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        for (uint32_t k = 0; backend->instance && k < backend->info.device_count; k++) {
            struct found found;
            describe(backend, k, &found);
            if (!ddisp__array_push(context, out_found)) {
                ddisp__array_clear(context, out_found);
                return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY,
                                   "no host memory for the list of devices");
            }
            struct found *list = out_found->items;
            uint32_t place = out_found->count - 1;
            for (; place > 0 && list[place - 1].info.rank < found.info.rank; place--)
                list[place] = list[place - 1];
            list[place] = found;
        }
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_device_count(ddisp_context *context, uint32_t *out_count)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_count is NULL");

    uint32_t count = 0;
    for (uint32_t i = 0; i < context->backends.count; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        count += backend->instance ? backend->info.device_count : 0;
    }
    *out_count = count;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_device_describe(ddisp_context *context, uint32_t index,
                                   ddisp_device_info *out_info)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp__array list;
    status = find_all(context, &list);
    if (status != DDISP_STATUS_OK)
        return status;

    if (index >= list.count) {
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "index is %u, but there are %u devices",
                             index, list.count);
    } else {
        const struct found *found = ddisp__array_at(&list, index);
        status = ddisp__struct_write("out_info", out_info, sizeof *out_info, sizeof *out_info,
                                     &found->info);
    }
    ddisp__array_clear(context, &list);
    return status;
}

/* ---- specs */

static const ddisp__backend *find_backend(ddisp_context *context, const char *name, size_t length)
{
    const ddisp__backend *refused = NULL;
    for (uint32_t i = 0; i < context->backends.count; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        if (strlen(backend->info.name) != length || memcmp(backend->info.name, name, length) != 0)
            continue;
        if (backend->table)
            return backend;
        if (!refused)
            refused = backend;
    }
    return refused;
}

/* Says for each backend why it offers nothing. */
static ddisp_status fail_no_device(ddisp_context *context)
{
    char reasons[400] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < context->backends.count && used < sizeof reasons; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        const char *reason = backend->instance ? "it has no devices" : backend->info.reason;
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s",
                                 used ? "; " : "", backend->info.name, reason);
    }
    return ddisp__fail(DDISP_STATUS_NOT_FOUND, "no backend offers a device (%s)",
                       reasons[0] ? reasons
                                  : "no backend was found: set DDISP_BACKEND_PATH to the directory "
                                    "that holds ddisp-host.so");
}

static ddisp_status find_auto(ddisp_context *context, struct found *out_found)
{
    ddisp__array list;
    ddisp_status status = find_all(context, &list);
    if (status != DDISP_STATUS_OK)
        return status;
    if (list.count)
        *out_found = *(const struct found *)ddisp__array_at(&list, 0);
    else
        status = fail_no_device(context);
    ddisp__array_clear(context, &list);
    return status;
}

/* Hexadecimal digits are compared, dashes and case are not. */
static bool uuid_equal(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, "-");
        b += strspn(b, "-");
        int x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a;
        int y = *b >= 'A' && *b <= 'Z' ? *b + 32 : *b;
        if (x != y)
            return false;
        if (x == '\0')
            return true;
        a++;
        b++;
    }
}

static ddisp_status find_uuid(const ddisp__backend *backend, const char *uuid,
                              struct found *out_found)
{
    for (uint32_t i = 0; i < backend->info.device_count; i++) {
        describe(backend, i, out_found);
        if (out_found->info.uuid[0] && uuid_equal(out_found->info.uuid, uuid))
            return DDISP_STATUS_OK;
    }
    return ddisp__fail(DDISP_STATUS_NOT_FOUND, "none of the %u devices of backend '%s' has UUID %s",
                       backend->info.device_count, backend->info.name, uuid);
}

static bool parse_index(const char *text, uint32_t *out_index)
{
    uint64_t index = 0;
    if (!text[0])
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        index = index * 10 + (uint64_t)(*text - '0');
        if (index > UINT32_MAX)
            return false;
    }
    *out_index = (uint32_t)index;
    return true;
}

static ddisp_status find_device(ddisp_context *context, const char *spec, struct found *out_found)
{
    if (!strcmp(spec, "auto"))
        return find_auto(context, out_found);

    size_t length = strcspn(spec, ":");
    const char *rest = spec[length] ? spec + length + 1 : NULL;
    bool by_uuid = rest && !strncmp(rest, "uuid=", 5);
    uint32_t index = 0;
    if (length == 0 || (by_uuid && !rest[5]) || (rest && !by_uuid && !parse_index(rest, &index)))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "spec is '%.100s'; it can be \"auto\", a backend such as \"host\", "
                           "\"cuda:0\" with an index or \"vulkan:uuid=...\"",
                           spec);

    const ddisp__backend *backend = find_backend(context, spec, length);
    if (!backend)
        return ddisp__fail(DDISP_STATUS_NOT_FOUND,
                           "there is no backend '%.*s'; %u candidates were looked at (ddisp-info "
                           "lists them)",
                           (int)(length < 100 ? length : 100), spec, context->backends.count);
    if (!backend->instance)
        return ddisp__fail(DDISP_STATUS_BACKEND_UNAVAILABLE, "backend '%s' cannot be used: %s",
                           backend->info.name, backend->info.reason);
    if (by_uuid)
        return find_uuid(backend, rest + 5, out_found);
    if (index >= backend->info.device_count)
        return ddisp__fail(
            DDISP_STATUS_NOT_FOUND, "there is no device %s:%u; backend '%s' has %u devices",
            backend->info.name, index, backend->info.name, backend->info.device_count);
    describe(backend, index, out_found);
    return DDISP_STATUS_OK;
}

/* ---- opening and closing */

/* Frees the parts that exist. Nothing else refers to the device. */
static void destroy(ddisp_device *device)
{
    ddisp_context *context = device->context;
    bool forked = context->fork_generation != ddisp__fork_generation();
    ddisp_error before = *ddisp__error();
    if (device->stream)
        ddisp__buffer_reap(device, true);
    ddisp_stream_release(device->stream);
    if (device->handle && !forked)
        device->table->device_close(device->handle);
    ddisp__array_clear(context, &device->pending);
    (void)pthread_mutex_destroy(&device->lock);
    ddisp__release(context, device);
    ddisp_context_release(context);
    ddisp__error_restore(&before);
}

static ddisp_status make_stream(ddisp_device *device)
{
    ddisp_stream *stream = ddisp__allocate(device->context, sizeof *stream);
    if (!stream)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a stream");
    ddisp_status status = ddisp__device_result(
        device, device->table->stream_create(device->handle, DDISP_BACKEND_STREAM_DEFAULT,
                                             &stream->handle));
    if (status != DDISP_STATUS_OK) {
        ddisp__release(device->context, stream);
        return status;
    }
    ddisp__reference_start(&stream->reference);
    (void)pthread_mutex_init(&stream->lock, NULL);
    stream->device = device;
    stream->owned_by_device = true;
    device->stream = stream;
    return DDISP_STATUS_OK;
}

static ddisp_status make_device(ddisp_context *context, const struct found *found,
                                ddisp_device **out_device)
{
    ddisp_device *device = ddisp__allocate(context, sizeof *device);
    if (!device)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a device");
    ddisp__reference_start(&device->reference);
    (void)pthread_mutex_init(&device->lock, NULL);
    atomic_init(&device->lost, false);
    ddisp_context_retain(context);
    device->context = context;
    device->table = found->backend->table;
    device->info = found->info;

    ddisp_status status =
        ddisp__device_result(device, device->table->device_open(found->backend->instance,
                                                                found->index, &device->handle));
    if (status == DDISP_STATUS_OK)
        status = make_stream(device);
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
static ddisp_device *find_open(ddisp_context *context, const struct found *found)
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
    struct found found;
    status = find_device(context, spec, &found);
    if (status != DDISP_STATUS_OK)
        return status;
    if (found.status != DDISP_STATUS_OK)
        return found.status;

    (void)pthread_mutex_lock(&context->lock);
    ddisp_device *device = find_open(context, &found);
    ddisp_device **place = NULL;
    if (!device) {
        place = ddisp__array_push(context, &context->devices);
        status = place ? make_device(context, &found, &device)
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
    bool forked = context->fork_generation != ddisp__fork_generation();
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
    return ddisp__struct_write("out_info", out_info, sizeof *out_info, sizeof *out_info,
                               &device->info);
}

ddisp_status ddisp_device_get_statistics(ddisp_device *device,
                                         ddisp_device_statistics *out_statistics)
{
    ddisp_status status = check_handle(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    (void)pthread_mutex_lock(&device->lock);
    ddisp_device_statistics statistics = device->statistics;
    (void)pthread_mutex_unlock(&device->lock);
    return ddisp__struct_write("out_statistics", out_statistics, sizeof statistics,
                               sizeof statistics, &statistics);
}

static void count(ddisp_device *device, uint64_t *counter)
{
    (void)pthread_mutex_lock(&device->lock);
    ++*counter;
    (void)pthread_mutex_unlock(&device->lock);
}

void ddisp__device_count_launch(ddisp_device *device, bool launched)
{
    count(device, launched ? &device->statistics.launches : &device->statistics.skips);
}

void ddisp__device_count_fill(ddisp_device *device)
{
    count(device, &device->statistics.fills);
}

void ddisp__device_count_variant(ddisp_device *device)
{
    count(device, &device->statistics.variants_built);
}
