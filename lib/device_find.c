/*
 * device_find.c - which devices there are, and which one a spec names.
 *
 * In come the usable backends of a context, out go descriptions, highest rank first. Nothing is
 * opened here, and no backend is known by name.
 */
#include "lower.h"

#include <stdio.h>
#include <string.h>

/* ---- enumeration */

static ddisp_status describe(const ddisp__backend *backend, uint32_t index, ddisp__found *out_found)
{
    ddisp_device_info info = {.size = sizeof info};
    out_found->backend = backend;
    out_found->index = index;
    ddisp_status status = backend->table->device_describe(backend->instance, index, &info);
    if (status != DDISP_STATUS_OK)
        info = (ddisp_device_info){.size = sizeof info};
    snprintf(info.spec, sizeof info.spec, "%.20s:%u", backend->info.name, index);
    snprintf(info.backend, sizeof info.backend, "%.31s", backend->info.name);
    out_found->info = info;
    if (status != DDISP_STATUS_OK && ddisp__error()->status != status)
        return ddisp__fail(status, "backend %s cannot describe device %s: %s", info.backend,
                           info.spec, ddisp_status_describe(status));
    return status;
}

/* Adds a device behind those of the same or a higher rank. */
static bool insert(ddisp_context *context, ddisp__array *list, const ddisp__found *found)
{
    if (!ddisp__array_push(context, list))
        return false;
    ddisp__found *items = list->items;
    uint32_t place = list->count - 1;
    for (; place > 0 && items[place - 1].info.rank < found->info.rank; place--)
        items[place] = items[place - 1];
    items[place] = *found;
    return true;
}

/* Device `index` of all, highest rank first, equal ranks in order of loading. out_found is set only
 * when index is below out_count. */
static ddisp_status find_ranked(ddisp_context *context, uint32_t index, uint32_t *out_count,
                                ddisp__found *out_found)
{
    ddisp__array list = {.item_size = sizeof(ddisp__found)};
    ddisp_error before = *ddisp__error();
    ddisp_status status = DDISP_STATUS_OK;
    for (uint32_t i = 0; i < context->backends.count; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        for (uint32_t k = 0; backend->instance && k < backend->info.device_count; k++) {
            ddisp__found found;
            (void)describe(backend, k, &found); /* a failure: rank 0, and told below */
            if (!insert(context, &list, &found))
                status = DDISP_STATUS_OUT_OF_MEMORY;
        }
    }
    ddisp__error_restore(&before);
    if (status != DDISP_STATUS_OK)
        (void)ddisp__fail(status, "no host memory for the list of devices");
    *out_count = list.count;
    if (status == DDISP_STATUS_OK && index < list.count) {
        const ddisp__found *found = ddisp__array_at(&list, index);
        status = describe(found->backend, found->index, out_found);
    }
    ddisp__array_clear(context, &list);
    return status;
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
    uint32_t count;
    ddisp__found found;
    status = find_ranked(context, index, &count, &found);
    if (status != DDISP_STATUS_OK)
        return status;
    if (index >= count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "index is %u, but there are %u devices",
                           index, count);
    return ddisp__struct_write("out_info", out_info, offsetof(ddisp_device_info, driver_id),
                               sizeof *out_info, &found.info);
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

static ddisp_status find_auto(ddisp_context *context, ddisp__found *out_found)
{
    uint32_t count;
    ddisp_status status = find_ranked(context, 0, &count, out_found);
    return status == DDISP_STATUS_OK && count == 0 ? fail_no_device(context) : status;
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
                              ddisp__found *out_found)
{
    for (uint32_t i = 0; i < backend->info.device_count; i++) {
        if (describe(backend, i, out_found) != DDISP_STATUS_OK)
            continue;
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

ddisp_status ddisp__backend_usable(ddisp_context *context, const char *name, size_t length,
                                   const ddisp__backend **out_backend)
{
    const ddisp__backend *backend = find_backend(context, name, length);
    if (!backend)
        return ddisp__fail(DDISP_STATUS_NOT_FOUND,
                           "there is no backend '%.*s'; %u candidates were looked at (ddisp-info "
                           "lists them)",
                           (int)(length < 100 ? length : 100), name, context->backends.count);
    if (!backend->instance)
        return ddisp__fail(DDISP_STATUS_BACKEND_UNAVAILABLE, "backend '%s' cannot be used: %s",
                           backend->info.name, backend->info.reason);
    *out_backend = backend;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__device_find(ddisp_context *context, const char *spec, ddisp__found *out_found)
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

    const ddisp__backend *backend = NULL;
    ddisp_status status = ddisp__backend_usable(context, spec, length, &backend);
    if (status != DDISP_STATUS_OK)
        return status;
    if (by_uuid)
        return find_uuid(backend, rest + 5, out_found);
    if (index >= backend->info.device_count)
        return ddisp__fail(
            DDISP_STATUS_NOT_FOUND, "there is no device %s:%u; backend '%s' has %u devices",
            backend->info.name, index, backend->info.name, backend->info.device_count);
    return describe(backend, index, out_found);
}
