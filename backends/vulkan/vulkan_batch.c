/*
 * vulkan_batch.c - the commands of a stream: recorded into an open batch, ordered by barriers only
 * where one touches what another has written, and submitted as one. Each submission signals the
 * stream's timeline with its ticket, but for replays of graphs, many of which share one. A batch
 * whose submission failed for want of memory stays, and is submitted by the next call.
 */
#include "vulkan_internal.h"

static ddisp_status check_stream(vulkan__device *device, const vulkan__stream *stream)
{
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK || stream->failed == DDISP_STATUS_OK)
        return status;
    return backend_fail(device->services, stream->failed, 0,
                        "earlier work of this stream was lost: the driver could not finish "
                        "recording it; use another stream");
}

static void release_waits(vulkan__batch *batch)
{
    for (uint32_t i = 0; i < batch->wait_count; i++)
        atomic_fetch_sub(&batch->waits[i]->holds, 1);
    batch->wait_count = 0;
}

void vulkan__batch_release_waits(vulkan__stream *stream)
{
    if (stream->open)
        release_waits(stream->open);
    for (vulkan__batch *batch = stream->in_flight; batch; batch = batch->next)
        release_waits(batch);
}

void vulkan__batch_recycle(vulkan__device *device, vulkan__stream *stream)
{
    while (stream->in_flight && vulkan__stream_passed(device, stream, stream->in_flight->ticket)) {
        vulkan__batch *batch = stream->in_flight;
        stream->in_flight = batch->next;
        release_waits(batch);
        batch->next = stream->idle;
        stream->idle = batch;
    }
    if (!stream->in_flight)
        stream->in_flight_last = NULL;
}

static ddisp_status make_batch(vulkan__device *device, vulkan__stream *stream)
{
    vulkan__batch *batch = backend_allocate(device->services, sizeof *batch);
    if (!batch)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for a batch of commands");
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = stream->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkResult result =
        device->table.vkAllocateCommandBuffers(device->handle, &info, &batch->commands);
    if (result != VK_SUCCESS) {
        backend_release(device->services, batch);
        return vulkan__check(device, result, "vkAllocateCommandBuffers");
    }
    batch->next = stream->idle;
    stream->idle = batch;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__batch_open(vulkan__device *device, vulkan__stream *stream)
{
    ddisp_status status = check_stream(device, stream);
    if (status != DDISP_STATUS_OK || stream->open)
        return status;
    vulkan__batch_recycle(device, stream);
    status = vulkan__alive(device); /* that may have found it lost */
    if (status == DDISP_STATUS_OK && !stream->idle)
        status = make_batch(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__batch *batch = stream->idle;
    stream->idle = batch->next;
    vulkan__sets_reset(device, batch->sets);
    batch->next = NULL;
    batch->command_count = 0;
    batch->host_reads = false;
    batch->recording = false;
    batch->ended = false;
    stream->open = batch;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__batch_renew(vulkan__device *device, vulkan__stream *stream)
{
    if (stream->capture)
        return vulkan__graph_begin(device, stream);
    ddisp_status status = DDISP_STATUS_OK;
    if (stream->open &&
        (stream->open->ended || stream->open->command_count >= VULKAN__BATCH_COMMANDS))
        status = vulkan__batch_submit(device, stream);
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_open(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__batch *batch = stream->open;
    if (!batch->recording) {
        const VkCommandBufferBeginInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
        };
        status = vulkan__check(device, device->table.vkBeginCommandBuffer(batch->commands, &info),
                               "vkBeginCommandBuffer");
        if (status != DDISP_STATUS_OK)
            return status;
        batch->recording = true;
        stream->bound = VK_NULL_HANDLE;
        if (stream->borrowed)
            vulkan__outer_barrier(device, batch->commands);
    }
    batch->command_count++;
    return DDISP_STATUS_OK;
}

/** Ends recording. What the host reads of it was made visible before. */
static ddisp_status end(vulkan__device *device, vulkan__stream *stream, vulkan__batch *batch)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    if (batch->host_reads || device->memory_mapped)
        device->table.vkCmdPipelineBarrier(
            batch->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    if (stream->borrowed)
        vulkan__outer_barrier(device, batch->commands);
    VkResult result = device->table.vkEndCommandBuffer(batch->commands);
    if (result == VK_SUCCESS) {
        batch->ended = true;
        return DDISP_STATUS_OK;
    }
    /* No ticket can be had of this stream any more, so what was submitted must be done. */
    if (result != VK_ERROR_DEVICE_LOST)
        (void)vulkan__stream_synchronize(device, stream, atomic_load(&stream->submitted),
                                         UINT64_MAX);
    ddisp_status status = vulkan__check(device, result, "vkEndCommandBuffer");
    stream->failed = status;
    pthread_mutex_lock(&device->lock);
    vulkan__pool_work_lost(stream);
    pthread_mutex_unlock(&device->lock);
    stream->open = NULL;
    release_waits(batch);
    batch->next = stream->idle;
    stream->idle = batch;
    return status;
}

/** Submits what was recorded; ticket 0: the next ticket stands for it. */
static ddisp_status submit(vulkan__device *device, vulkan__stream *stream,
                           const vulkan__batch *batch, const VkCommandBuffer *commands,
                           uint32_t count, uint64_t ticket)
{
    VkSemaphore waits[VULKAN__BATCH_WAITS];
    VkPipelineStageFlags stages[VULKAN__BATCH_WAITS];
    uint32_t wait_count = batch ? batch->wait_count : 0;
    for (uint32_t i = 0; i < wait_count; i++) {
        waits[i] = batch->waits[i]->timeline;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait_count,
        .pWaitSemaphoreValues = batch ? batch->wait_tickets : NULL,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &ticket,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = ticket ? &values : NULL,
        .waitSemaphoreCount = wait_count,
        .pWaitSemaphores = waits,
        .pWaitDstStageMask = stages,
        .commandBufferCount = count,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = ticket ? 1 : 0,
        .pSignalSemaphores = &stream->timeline,
    };
    vulkan__queue_lock(stream->queue);
    VkResult result = device->table.vkQueueSubmit(stream->queue->handle, 1, &info, VK_NULL_HANDLE);
    vulkan__queue_unlock(stream->queue);
    return vulkan__check(device, result, "vkQueueSubmit");
}

static void note_submitted(vulkan__stream *stream, vulkan__batch *batch, uint64_t ticket)
{
    if (ticket == 0) {
        stream->silent++;
        return;
    }
    stream->silent = 0;
    atomic_store(&stream->submitted, ticket);
    if (!batch)
        return;
    batch->ticket = ticket;
    stream->open = NULL;
    if (stream->in_flight_last)
        stream->in_flight_last->next = batch;
    else
        stream->in_flight = batch;
    stream->in_flight_last = batch;
}

ddisp_status vulkan__batch_submit_with(vulkan__device *device, vulkan__stream *stream,
                                       VkCommandBuffer *recorded, uint32_t count)
{
    ddisp_status status = check_stream(device, stream);
    if (stream->capture) /* what was queued before was submitted then */
        return status;
    vulkan__batch *batch = stream->open;
    if (status == DDISP_STATUS_OK && batch && batch->recording && !batch->ended)
        status = end(device, stream, batch);
    if (status != DDISP_STATUS_OK || (!batch && count == 0 && stream->silent == 0))
        return status;
    /* Signals cost time, and a later one tells of all work before: replays in a row share one. */
    bool silent = !batch && count && stream->silent + 1 < VULKAN__SILENT_REPLAYS;
    uint64_t ticket = silent ? 0 : atomic_load(&stream->submitted) + 1;
    bool has_own = batch && batch->recording;
    if (has_own)
        recorded[0] = batch->commands;
    status = submit(device, stream, batch, recorded + (has_own ? 0 : 1), count + (has_own ? 1 : 0),
                    ticket);
    if (status == DDISP_STATUS_OK)
        note_submitted(stream, batch, ticket);
    return status;
}

ddisp_status vulkan__batch_submit(vulkan__device *device, vulkan__stream *stream)
{
    VkCommandBuffer own[1];
    return vulkan__batch_submit_with(device, stream, own, 0);
}
