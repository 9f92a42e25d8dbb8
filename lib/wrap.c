/*
 * wrap.c - devices made of the application's own objects.
 *
 * In: a backend's name and one of its structs, which the core cannot read and hands on. Out: a
 * device like any other, but one that no spec opens and that is never found as opened already.
 */
#include "lower.h"

#include <stdio.h>
#include <string.h>

static ddisp_status find(ddisp_context *context, const char *name, const ddisp_chain *chain,
                         const char *what, const ddisp__backend **out_backend)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!name || !chain)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL", name ? what : "backend");
    return ddisp__backend_usable(context, name, strlen(name), out_backend);
}

ddisp_status ddisp_device_wrap(ddisp_context *context, const char *backend,
                               const ddisp_chain *native, ddisp_device **out_device)
{
    ddisp__found found = {.info = {.size = sizeof found.info}};
    ddisp_status status = find(context, backend, native, "native", &found.backend);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_device)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_device is NULL");
    if (!ddisp__table_offers(found.backend->table, device_wrap))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "backend '%s' makes no devices of the application's objects", backend);
    snprintf(found.info.spec, sizeof found.info.spec, "%.20s:wrapped", found.backend->info.name);
    snprintf(found.info.backend, sizeof found.info.backend, "%.31s", found.backend->info.name);
    return ddisp__device_make(context, &found, native, out_device);
}

ddisp_status ddisp_backend_get_needs(ddisp_context *context, const char *backend,
                                     ddisp_chain *needs)
{
    const ddisp__backend *found;
    ddisp_status status = find(context, backend, needs, "needs", &found);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!ddisp__table_offers(found->table, needs))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "backend '%s' needs nothing of the application's objects", backend);
    return found->table->needs(found->instance, needs);
}
