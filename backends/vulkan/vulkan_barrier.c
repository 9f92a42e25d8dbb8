/*
 * vulkan_barrier.c - which commands of a stream must wait for which: the ranges read and written
 * since the last barrier are kept, and a command that touches one of them, with a write on either
 * side, gets a barrier first. A barrier orders everything earlier on the queue, so the ranges
 * outlive batches. Writes whose content nothing depends on (the sink) order nothing.
 */
#include "vulkan_internal.h"

static inline vulkan__interval interval_of(const ddisp_backend_range *range)
{
    uint64_t end = range->address + range->size_bytes;
    return (vulkan__interval){range->address, end < range->address ? UINT64_MAX : end};
}

static inline bool meets(const vulkan__interval *list, uint32_t count, vulkan__interval one)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].begin < one.end && one.begin < list[i].end)
            return true;
    return false;
}

/** Nothing depends on what lies there. */
static inline bool is_free(const ddisp_backend_access *access)
{
    return access->writes == 2 || access->range.size_bytes == 0;
}

static bool must_wait(const vulkan__tracker *tracker, const ddisp_backend_access *accesses,
                      uint32_t access_count)
{
    if (tracker->unknown)
        return true;
    if (access_count == 0) /* it may touch anything */
        return tracker->read_count + tracker->write_count > 0;
    for (uint32_t i = access_count; i > 0; i--) { /* results, which conflict most, come last */
        const ddisp_backend_access *access = &accesses[i - 1];
        if (is_free(access))
            continue;
        vulkan__interval one = interval_of(&access->range);
        if (meets(tracker->writes, tracker->write_count, one) ||
            (access->writes && meets(tracker->reads, tracker->read_count, one)))
            return true;
    }
    return false;
}

/** Leaves out what the first ranges hold already, so that the list does not grow in a loop. */
static uint32_t drop_covered(vulkan__interval *list, uint32_t earlier, uint32_t count)
{
    uint32_t kept = earlier;
    for (uint32_t i = earlier; i < count; i++) {
        vulkan__interval one = list[i];
        uint32_t k = earlier;
        while (k > 0 && (list[k - 1].begin > one.begin || one.end > list[k - 1].end))
            k--;
        if (k == 0)
            list[kept++] = one;
    }
    return kept;
}

/** Adds a command's accesses. They are not compared with each other, which would take the square of
 * their number. */
static void note(vulkan__tracker *tracker, const ddisp_backend_access *accesses,
                 uint32_t access_count)
{
    const uint32_t earlier_reads = tracker->read_count, earlier_writes = tracker->write_count;
    uint32_t reads = earlier_reads, writes = earlier_writes;
    if (access_count == 0)
        tracker->unknown = true;
    for (uint32_t i = 0; i < access_count; i++) {
        const ddisp_backend_access *access = &accesses[i];
        if (is_free(access))
            continue;
        if (reads == VULKAN__TRACKED_RANGES || writes == VULKAN__TRACKED_RANGES)
            tracker->unknown = true;
        else if (access->writes)
            tracker->writes[writes++] = interval_of(&access->range);
        else
            tracker->reads[reads++] = interval_of(&access->range);
    }
    tracker->read_count =
        earlier_reads ? drop_covered(tracker->reads, earlier_reads, reads) : reads;
    tracker->write_count =
        earlier_writes ? drop_covered(tracker->writes, earlier_writes, writes) : writes;
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
    if (must_wait(&stream->tracker, accesses, access_count))
        vulkan__batch_barrier(device, stream);
    note(&stream->tracker, accesses, access_count);
}
