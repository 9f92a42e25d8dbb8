/*
 * pool.c - how much memory a device's buffers may have, and what the backend keeps for later ones.
 *
 * Pools are the backends'. In: sizes about to be allocated, and a limit. Out: leave to allocate, or
 * a refusal with the figures; counters; memory given back when what is kept passes the limit.
 */
#include "lower.h"

#include <string.h>

/* False when the backend does not tell. */
static bool figures_of(ddisp_device *device, ddisp_backend_memory_figures *out_figures)
{
    *out_figures = (ddisp_backend_memory_figures){.size = sizeof *out_figures};
    if (!ddisp__table_offers(device->table, memory_figures) || ddisp__device_lost(device) ||
        ddisp__context_forked(device->context))
        return false;
    ddisp_error before = *ddisp__error();
    ddisp_status status =
        ddisp__device_result(device, device->table->memory_figures(device->handle, out_figures));
    ddisp__error_restore(&before);
    return status == DDISP_STATUS_OK;
}

ddisp_status ddisp__pool_trim(ddisp_device *device)
{
    if (!ddisp__table_offers(device->table, memory_trim))
        return DDISP_STATUS_OK;
    return ddisp__device_result(device, device->table->memory_trim(device->handle));
}

/* ---- the limit */

ddisp_status ddisp__pool_enter(ddisp_device *device, uint64_t size_bytes)
{
    uint64_t limit = atomic_load_explicit(&device->memory_limit, memory_order_relaxed);
    uint64_t before =
        atomic_fetch_add_explicit(&device->handed_out, size_bytes, memory_order_relaxed);
    if (limit == 0 || (before <= limit && size_bytes <= limit - before))
        return DDISP_STATUS_OK;
    ddisp__pool_leave(device, size_bytes);
    return ddisp__fail(DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
                       "%llu bytes were asked for, %llu are left of the limit of %llu bytes that "
                       "was set for device %s",
                       (unsigned long long)size_bytes,
                       (unsigned long long)(before < limit ? limit - before : 0),
                       (unsigned long long)limit, device->info.spec);
}

void ddisp__pool_leave(ddisp_device *device, uint64_t size_bytes)
{
    (void)atomic_fetch_sub_explicit(&device->handed_out, size_bytes, memory_order_relaxed);
}

/* What a trim could not take below the limit is not tried again until there is more. */
void ddisp__pool_keep_limit(ddisp_device *device)
{
    ddisp_backend_memory_figures figures;
    uint64_t limit = atomic_load_explicit(&device->memory_limit, memory_order_relaxed);
    if (limit == 0 || !figures_of(device, &figures))
        return;
    uint64_t floor = atomic_load_explicit(&device->trim_floor, memory_order_relaxed);
    if (figures.reserved_bytes > limit && figures.reserved_bytes > floor &&
        figures.cached_bytes != 0) {
        ddisp_error before = *ddisp__error();
        (void)ddisp__pool_trim(device);
        ddisp__error_restore(&before);
        if (!figures_of(device, &figures))
            return;
        floor = figures.reserved_bytes;
    }
    if (figures.reserved_bytes < floor)
        floor = figures.reserved_bytes;
    atomic_store_explicit(&device->trim_floor, floor, memory_order_relaxed);
}

ddisp_status ddisp_device_set_memory_limit(ddisp_device *device, uint64_t limit_bytes)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status != DDISP_STATUS_OK)
        return status;
    atomic_store_explicit(&device->memory_limit, limit_bytes, memory_order_relaxed);
    atomic_store_explicit(&device->trim_floor, 0, memory_order_relaxed);
    ddisp__pool_keep_limit(device);
    return ddisp__device_check(device, "device");
}

/* ---- counters */

static void raise_peak(uint64_t live, uint64_t *peak)
{
    if (live > *peak)
        *peak = live;
}

void ddisp__buffer_count(ddisp_device *device, ddisp__purpose purpose, uint64_t size_bytes,
                         bool allocated)
{
    ddisp_device_statistics *statistics = &device->statistics;
    /* Subtraction is addition of the complement. */
    uint64_t change = allocated ? size_bytes : 0 - size_bytes;
    if (!allocated)
        ddisp__pool_leave(device, size_bytes);
    (void)pthread_mutex_lock(&device->lock);
    if (allocated)
        statistics->allocations++;
    else
        statistics->frees++;
    statistics->bytes_live += change;
    raise_peak(statistics->bytes_live, &statistics->bytes_peak);
    if (purpose == DDISP__PURPOSE_GRADIENT) {
        statistics->gradient_bytes_live += change;
        raise_peak(statistics->gradient_bytes_live, &statistics->gradient_bytes_peak);
    } else if (purpose == DDISP__PURPOSE_SCRATCH) {
        statistics->scratch_bytes_live += change;
        raise_peak(statistics->scratch_bytes_live, &statistics->scratch_bytes_peak);
    }
    (void)pthread_mutex_unlock(&device->lock);
}

void ddisp__pool_statistics(ddisp_device *device, ddisp_device_statistics *statistics)
{
    ddisp_backend_memory_figures figures;
    bool told = figures_of(device, &figures);
    statistics->bytes_cached = told ? figures.cached_bytes : 0;
    statistics->bytes_reserved_peak = told ? figures.reserved_peak_bytes : statistics->bytes_peak;
    statistics->reuses = told ? figures.reuses : 0;
    statistics->memory_limit_bytes =
        atomic_load_explicit(&device->memory_limit, memory_order_relaxed);
}
