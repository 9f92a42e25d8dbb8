/*
 * vulkan_barrier.c - which commands of a stream must wait for which: the ranges read and written
 * since the last barrier are kept, and a command that touches one of them, with a write on either
 * side, gets a barrier first. A barrier orders everything earlier on the queue, so the ranges
 * outlive batches. Writes whose content nothing depends on (the sink) order nothing.
 */
#include "vulkan_internal.h"

static vulkan__interval interval_of(const ddisp_backend_range *range)
{
    uint64_t end = range->address + range->size_bytes;
    return (vulkan__interval){range->address, end < range->address ? UINT64_MAX : end};
}

static bool touches(const vulkan__interval *list, uint32_t count, vulkan__interval one)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].begin < one.end && one.begin < list[i].end)
            return true;
    return false;
}

static bool conflicts(const vulkan__tracker *tracker, const ddisp_backend_access *accesses,
                      uint32_t access_count)
{
    if (tracker->unknown)
        return true;
    if (access_count == 0) /* it may touch anything */
        return tracker->read_count + tracker->write_count > 0;
    for (uint32_t i = 0; i < access_count; i++) {
        if (accesses[i].writes == 2 || accesses[i].range.size_bytes == 0)
            continue;
        vulkan__interval one = interval_of(&accesses[i].range);
        if (touches(tracker->writes, tracker->write_count, one) ||
            (accesses[i].writes && touches(tracker->reads, tracker->read_count, one)))
            return true;
    }
    return false;
}

static void note(vulkan__tracker *tracker, const ddisp_backend_access *access)
{
    vulkan__interval *list = access->writes ? tracker->writes : tracker->reads;
    uint32_t *count = access->writes ? &tracker->write_count : &tracker->read_count;
    vulkan__interval one = interval_of(&access->range);
    for (uint32_t i = 0; i < *count; i++)
        if (list[i].begin <= one.begin && one.end <= list[i].end)
            return;
    if (*count == VULKAN__TRACKED_RANGES)
        tracker->unknown = true;
    else
        list[(*count)++] = one;
}

void vulkan__full_barrier(vulkan__device *device, VkCommandBuffer commands)
{
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    device->table.vkCmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void vulkan__outer_barrier(vulkan__device *device, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    device->table.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &barrier, 0, NULL,
                                       0, NULL);
}

void vulkan__batch_barrier(vulkan__device *device, vulkan__stream *stream)
{
    vulkan__full_barrier(device, stream->open->commands);
    stream->tracker.read_count = 0;
    stream->tracker.write_count = 0;
    stream->tracker.unknown = false;
}

void vulkan__batch_order(vulkan__device *device, vulkan__stream *stream,
                         const ddisp_backend_access *accesses, uint32_t access_count)
{
    if (conflicts(&stream->tracker, accesses, access_count))
        vulkan__batch_barrier(device, stream);
    if (access_count == 0)
        stream->tracker.unknown = true;
    for (uint32_t i = 0; i < access_count; i++)
        if (accesses[i].writes != 2 && accesses[i].range.size_bytes != 0)
            note(&stream->tracker, &accesses[i]);
}
