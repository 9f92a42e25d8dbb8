/*
 * vulkan_timed.c - marks that tell the device's time: a timestamp before the ticket is signalled,
 * kept after its work is done, because its time may be asked for later. The newest marks of a
 * stream are kept; older ones are written over, and asking for them is an error.
 */
#include "vulkan_internal.h"

#include <inttypes.h>

#define KEPT_MARKS 1024u

struct vulkan__timed {
    VkQueryPool pool;
    uint32_t next;
    uint64_t tickets[KEPT_MARKS]; /* guarded by device->lock */
};

/** Bits of a timestamp that count. */
static uint32_t valid_bits(const vulkan__device *device)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(device->adapter->handle, &count, families);
    uint32_t family = device->adapter->queue_family;
    return family < count ? families[family].timestampValidBits : 0;
}

static ddisp_status make(vulkan__device *device, vulkan__stream *stream)
{
    if (stream->timed)
        return DDISP_STATUS_OK;
    if (valid_bits(device) == 0)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "%s tells no time of its work", device->adapter->properties.deviceName);
    vulkan__timed *timed = backend_allocate(device->services, sizeof *timed);
    if (!timed)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for marks with time");
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = KEPT_MARKS,
    };
    VkResult result = device->table.vkCreateQueryPool(device->handle, &info, NULL, &timed->pool);
    if (result != VK_SUCCESS) {
        backend_release(device->services, timed);
        return vulkan__check(device, result, "vkCreateQueryPool");
    }
    stream->timed = timed;
    return DDISP_STATUS_OK;
}

static void note(vulkan__device *device, vulkan__timed *timed, uint32_t slot, uint64_t ticket)
{
    pthread_mutex_lock(&device->lock);
    timed->tickets[slot] = ticket;
    pthread_mutex_unlock(&device->lock);
}

ddisp_status vulkan__stream_mark_timed(void *device_handle, void *stream_handle,
                                       uint64_t *out_ticket)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = make(device, stream);
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_begin(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__timed *timed = stream->timed;
    uint32_t slot = timed->next++ % KEPT_MARKS;
    note(device, timed, slot, 0);
    VkCommandBuffer commands = stream->open->commands;
    device->table.vkCmdResetQueryPool(commands, timed->pool, slot, 1);
    device->table.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timed->pool,
                                      slot);
    status = vulkan__stream_mark(device, stream, out_ticket);
    if (status == DDISP_STATUS_OK)
        note(device, timed, slot, *out_ticket);
    return status;
}

/** Ticks of a mark whose work is done. */
static ddisp_status read_mark(vulkan__device *device, vulkan__stream *stream, uint64_t ticket,
                              uint64_t *out_ticks)
{
    vulkan__timed *timed = stream->timed;
    uint32_t slot = KEPT_MARKS;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; timed && ticket && i < KEPT_MARKS && slot == KEPT_MARKS; i++)
        if (timed->tickets[i] == ticket)
            slot = i;
    pthread_mutex_unlock(&device->lock);
    if (!timed || slot == KEPT_MARKS)
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "ticket %" PRIu64 " has no time: it was not marked with one, or %u "
                            "marks with time came after it on its stream",
                            ticket, KEPT_MARKS);
    ddisp_status status = vulkan__stream_query(device, stream, ticket);
    if (status != DDISP_STATUS_OK)
        return status;
    VkResult result =
        device->table.vkGetQueryPoolResults(device->handle, timed->pool, slot, 1, sizeof *out_ticks,
                                            out_ticks, sizeof *out_ticks, VK_QUERY_RESULT_64_BIT);
    return result == VK_NOT_READY ? DDISP_STATUS_NOT_READY
                                  : vulkan__check(device, result, "vkGetQueryPoolResults");
}

ddisp_status vulkan__stream_elapsed(void *device_handle, void *begin_stream, uint64_t begin_ticket,
                                    void *end_stream, uint64_t end_ticket, uint64_t *out_ns)
{
    vulkan__device *device = device_handle;
    uint64_t begin = 0, end = 0;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = read_mark(device, begin_stream, begin_ticket, &begin);
    if (status == DDISP_STATUS_OK)
        status = read_mark(device, end_stream, end_ticket, &end);
    if (status != DDISP_STATUS_OK)
        return status;
    uint32_t bits = valid_bits(device);
    uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t ticks = (end - begin) & mask; /* they start again from 0 now and then */
    double ns = (double)device->adapter->properties.limits.timestampPeriod;
    if (ticks > mask / 2)
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "the second mark was reached %g ns before the first",
                            (double)((begin - end) & mask) * ns);
    *out_ns = (uint64_t)((double)ticks * ns + 0.5);
    return DDISP_STATUS_OK;
}

void vulkan__timed_release(vulkan__device *device, vulkan__stream *stream)
{
    if (!stream->timed)
        return;
    device->table.vkDestroyQueryPool(device->handle, stream->timed->pool, NULL);
    backend_release(device->services, stream->timed);
    stream->timed = NULL;
}
