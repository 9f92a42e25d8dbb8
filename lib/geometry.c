/*
 * geometry.c - how many work items a launch has and how many groups run them. Limits of the device
 * are checked here, before anything is allocated, with both numbers in the message.
 */
#include "launch.h"

#include <inttypes.h>

uint32_t ddisp__geometry_items_param(const ddisp_kernel *kernel)
{
    static const ddisp_access order[3] = {DDISP_ACCESS_OUT, DDISP_ACCESS_INOUT, DDISP_ACCESS_IN};
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (kernel->params[i].flags & DDISP_PARAM_ITEMS)
            return i;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < kernel->param_count; i++)
            if (kernel->params[i].kind == DDISP_PARAM_KIND_TENSOR &&
                kernel->params[i].access == order[k])
                return i;
    return UINT32_MAX;
}

static int64_t default_items(const ddisp__launch *launch)
{
    uint32_t i = launch->kernel->items_param;
    return i < launch->count ? launch->operands[i].layout.numel : 1;
}

ddisp_status ddisp__geometry_items(ddisp__launch *launch)
{
    const uint64_t *asked = launch->options.items;
    launch->axes[0] = launch->axes[1] = launch->axes[2] = 1;
    if (!asked[0] && !asked[1] && !asked[2]) {
        launch->items = launch->axes[0] = (uint64_t)default_items(launch);
        return DDISP_STATUS_OK;
    }
    uint64_t items = 1;
    for (uint32_t k = 0; k < 3; k++) {
        launch->axes[k] = asked[k] ? asked[k] : 1;
        if (__builtin_mul_overflow(items, launch->axes[k], &items))
            return ddisp__fail(DDISP_STATUS_OVERFLOW,
                               "launch %s: options.items: the product exceeds 64 bits",
                               launch->kernel->name);
    }
    launch->items = items;
    return DDISP_STATUS_OK;
}

void ddisp__geometry_group(const ddisp_entry *entry, uint32_t group_size[3])
{
    for (uint32_t k = 0; k < 3; k++)
        group_size[k] = entry->group_size[k] ? entry->group_size[k] : (k == 0 ? 256 : 1);
}

static ddisp_status check_group(const ddisp__launch *launch, const uint32_t group_size[3])
{
    const ddisp_device_info *info = &launch->device->info;
    uint64_t threads = 1;
    for (uint32_t k = 0; k < 3; k++) {
        threads *= group_size[k];
        if (group_size[k] > info->max_group_size[k])
            return ddisp__fail(DDISP_STATUS_LIMIT_EXCEEDED,
                               "launch %s: group size on axis %c is %u, the limit of %s is %u",
                               launch->kernel->name, "xyz"[k], group_size[k], info -> spec,
                               info -> max_group_size[k]);
    }
    if (threads > info->max_group_threads)
        return ddisp__fail(DDISP_STATUS_LIMIT_EXCEEDED,
                           "launch %s: a group of %ux%ux%u has %" PRIu64
                           " threads, the limit of %s is %u",
                           launch->kernel->name, group_size[0], group_size[1], group_size[2],
                           threads, info->spec, info->max_group_threads);
    return DDISP_STATUS_OK;
}

/* Groups per axis that cover the items, before limits. */
static void cover(const ddisp__launch *launch, const ddisp_entry *entry,
                  const uint32_t group_size[3], uint64_t groups[3])
{
    const ddisp_device_info *info = &launch->device->info;
    for (uint32_t k = 0; k < 3; k++)
        groups[k] = launch->axes[k] / group_size[k] + (launch->axes[k] % group_size[k] != 0);
    if (!(entry->flags & DDISP_ENTRY_LOOPS))
        return;
    uint64_t most = info->preferred_group_count ? info->preferred_group_count : 1024;
    if (most > info->max_group_count[0])
        most = info->max_group_count[0];
    uint64_t threads = (uint64_t)group_size[0] * group_size[1] * group_size[2];
    uint64_t needed = launch->items / threads + (launch->items % threads != 0);
    groups[0] = needed < most ? needed : most;
    groups[1] = groups[2] = 1;
}

ddisp_status ddisp__geometry_grid(const ddisp__launch *launch, const ddisp_entry *entry,
                                  uint32_t grid[3])
{
    const ddisp_device_info *info = &launch->device->info;
    const uint32_t *asked = launch->options.grid;
    uint32_t group_size[3];
    uint64_t groups[3];
    grid[0] = grid[1] = grid[2] = 0;
    if (info->max_group_count[0] == 0)
        return DDISP_STATUS_OK;
    ddisp__geometry_group(entry, group_size);
    ddisp_status status = check_group(launch, group_size);
    if (status)
        return status;
    if (entry->shared_bytes > info->max_shared_bytes)
        return ddisp__fail(DDISP_STATUS_LIMIT_EXCEEDED,
                           "launch %s: %u bytes of shared memory per group, the limit of %s is %u",
                           launch->kernel->name, entry->shared_bytes, info->spec,
                           info->max_shared_bytes);
    if (asked[0] || asked[1] || asked[2])
        for (uint32_t k = 0; k < 3; k++)
            groups[k] = asked[k] ? asked[k] : 1;
    else
        cover(launch, entry, group_size, groups);
    for (uint32_t k = 0; k < 3; k++) {
        if (groups[k] > info->max_group_count[k])
            return ddisp__fail(DDISP_STATUS_LIMIT_EXCEEDED,
                               "launch %s: %" PRIu64
                               " groups on axis %c, the limit of %s is %u; a code that loops "
                               "over items (DDISP_ENTRY_LOOPS) takes any number",
                               launch->kernel->name, groups[k], "xyz"[k], info -> spec,
                               info -> max_group_count[k]);
        grid[k] = (uint32_t)groups[k];
    }
    return DDISP_STATUS_OK;
}
