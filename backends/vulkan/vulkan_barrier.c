/*
 * vulkan_barrier.c - which commands of a stream must wait for which: the ranges read and written
 * since the last barrier are kept, and a command that touches one of them, with a write on either
 * side, gets a barrier first. A barrier orders everything earlier on the queue, so the ranges
 * outlive batches. Writes whose content nothing depends on (the sink) order nothing.
 */
#include "vulkan_internal.h"

#include <string.h>

static inline vulkan__interval interval_of(const ddisp_backend_range *range)
{
    uint64_t end = range->address + range->size_bytes;
    return (vulkan__interval){range->address, end < range->address ? UINT64_MAX : end};
}

/* ---- sets of ranges: sorted, and none touches another */

/** Index of the first range that ends at `address` or behind it. */
static inline uint32_t first_ending(const vulkan__ranges *set, uint64_t address)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (set->list[middle].end < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline bool meets(const vulkan__ranges *set, vulkan__interval one)
{
    if (set->count == 0 || one.end <= set->list[0].begin ||
        set->list[set->count - 1].end <= one.begin)
        return false;
    return set->list[first_ending(set, one.begin + 1)].begin < one.end;
}

/** False when there is no room. */
static bool insert(vulkan__ranges *set, vulkan__interval one)
{
    uint32_t i = first_ending(set, one.begin);
    if (i == set->count || one.end < set->list[i].begin) {
        if (set->count == VULKAN__TRACKED_RANGES)
            return false;
        memmove(&set->list[i + 1], &set->list[i], (set->count - i) * sizeof one);
        set->list[i] = one;
        set->count++;
        return true;
    }
    vulkan__interval *into = &set->list[i];
    into->begin = one.begin < into->begin ? one.begin : into->begin;
    if (one.end <= into->end)
        return true;
    into->end = one.end;
    uint32_t next = i + 1;
    while (next < set->count && set->list[next].begin <= into->end) {
        if (set->list[next].end > into->end)
            into->end = set->list[next].end;
        next++;
    }
    memmove(into + 1, &set->list[next], (set->count - next) * sizeof one);
    set->count -= next - i - 1;
    return true;
}

/* ---- what commands touch */

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
        return tracker->reads.count + tracker->writes.count > 0;
    for (uint32_t i = access_count; i > 0; i--) { /* results, which conflict most, come last */
        const ddisp_backend_access *access = &accesses[i - 1];
        if (is_free(access))
            continue;
        vulkan__interval one = interval_of(&access->range);
        if (meets(&tracker->writes, one) || (access->writes && meets(&tracker->reads, one)))
            return true;
    }
    return false;
}

static void note(vulkan__tracker *tracker, const ddisp_backend_access *accesses,
                 uint32_t access_count)
{
    if (access_count == 0)
        tracker->unknown = true;
    for (uint32_t i = 0; i < access_count; i++) {
        vulkan__ranges *set = accesses[i].writes ? &tracker->writes : &tracker->reads;
        vulkan__interval one = interval_of(&accesses[i].range);
        if (is_free(&accesses[i]))
            continue;
        /* Memory is often given out in ascending order. */
        bool behind = set->count == 0 || set->list[set->count - 1].end < one.begin;
        if (behind && set->count < VULKAN__TRACKED_RANGES)
            set->list[set->count++] = one;
        else if (!insert(set, one))
            tracker->unknown = true;
    }
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
    stream->tracker.reads.count = 0;
    stream->tracker.writes.count = 0;
    stream->tracker.unknown = false;
}

void vulkan__batch_order(vulkan__device *device, vulkan__stream *stream,
                         const ddisp_backend_access *accesses, uint32_t access_count)
{
    if (must_wait(&stream->tracker, accesses, access_count))
        vulkan__batch_barrier(device, stream);
    note(&stream->tracker, accesses, access_count);
}
