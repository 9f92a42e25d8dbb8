/*
 * vulkan_pool.c - device memory in pieces. Small allocations share blocks, so that the driver's
 * limit on the number of allocations is never met; large ones have a block of their own. A segment
 * that was freed behind pending work waits in its stream's list, where the same stream may take it
 * again at once (its work is ordered anyway) and everybody else after the work is done.
 *
 * Everything here is called with device->lock held and must call no service but allocate and
 * release.
 */
#include "vulkan_internal.h"

#include <string.h>

/** Index of the first block whose address is above `address`. */
static uint32_t block_above(const vulkan__device *device, uint64_t address)
{
    uint32_t low = 0, high = device->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (device->blocks[middle]->buffer.address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool reserve_block(vulkan__device *device)
{
    if (device->block_count < device->block_capacity)
        return true;
    uint32_t capacity = device->block_capacity ? device->block_capacity * 2 : 16;
    vulkan__block **blocks = backend_allocate(device->services, capacity * sizeof *blocks);
    if (!blocks)
        return false;
    if (device->block_count)
        memcpy(blocks, device->blocks, device->block_count * sizeof *blocks);
    backend_release(device->services, device->blocks);
    device->blocks = blocks;
    device->block_capacity = capacity;
    return true;
}

static void remove_block(vulkan__device *device, vulkan__block *block)
{
    uint32_t index = block_above(device, block->buffer.address) - 1;
    memmove(&device->blocks[index], &device->blocks[index + 1],
            (device->block_count - index - 1) * sizeof *device->blocks);
    device->block_count--;
    device->block_bytes -= block->buffer.size_bytes;
    vulkan__buffer_destroy(device, &block->buffer);
    while (block->first) {
        vulkan__segment *segment = block->first;
        block->first = segment->next;
        backend_release(device->services, segment);
    }
    backend_release(device->services, block);
}

static void link_free(vulkan__segment *segment)
{
    vulkan__block *block = segment->block;
    segment->free = true;
    segment->previous_free = NULL;
    segment->next_free = block->first_free;
    if (block->first_free)
        block->first_free->previous_free = segment;
    block->first_free = segment;
}

static void unlink_free(vulkan__segment *segment)
{
    if (segment->previous_free)
        segment->previous_free->next_free = segment->next_free;
    else
        segment->block->first_free = segment->next_free;
    if (segment->next_free)
        segment->next_free->previous_free = segment->previous_free;
    segment->free = false;
}

/** Marks a free segment used and makes what is beyond size_bytes a free segment of its own. */
static void use(vulkan__device *device, vulkan__segment *segment, uint64_t size_bytes)
{
    vulkan__segment *rest = NULL;
    unlink_free(segment);
    if (segment->size_bytes > size_bytes)
        rest = backend_allocate(device->services, sizeof *rest);
    if (rest) { /* without host memory the whole segment is used */
        rest->block = segment->block;
        rest->offset = segment->offset + size_bytes;
        rest->size_bytes = segment->size_bytes - size_bytes;
        rest->previous = segment;
        rest->next = segment->next;
        if (rest->next)
            rest->next->previous = rest;
        segment->next = rest;
        segment->size_bytes = size_bytes;
        if (segment->zeroed_bytes > size_bytes)
            segment->zeroed_bytes = size_bytes; /* the rest has another owner */
        link_free(rest);
    }
    segment->block->used_bytes += segment->size_bytes;
}

/** One that this stream freed, of about the size: later work of the stream may use it at once. */
static vulkan__segment *take_pending(vulkan__stream *stream, uint64_t size_bytes)
{
    vulkan__segment *previous = NULL;
    for (vulkan__segment *s = stream->pending; s; previous = s, s = s->next_pending) {
        if (s->size_bytes < size_bytes || s->size_bytes - size_bytes > size_bytes / 4)
            continue;
        if (previous)
            previous->next_pending = s->next_pending;
        else
            stream->pending = s->next_pending;
        if (stream->pending_last == s)
            stream->pending_last = previous;
        s->next_pending = NULL;
        return s;
    }
    return NULL;
}

/* An empty block of its own that is hardly longer than what is asked for. */
static vulkan__segment *take_dedicated(vulkan__device *device, uint64_t size_bytes)
{
    for (uint32_t i = 0; i < device->block_count; i++) {
        vulkan__segment *segment = device->blocks[i]->first;
        if (!device->blocks[i]->dedicated || !segment->free || segment->size_bytes < size_bytes ||
            segment->size_bytes - size_bytes > size_bytes / 4)
            continue;
        use(device, segment, segment->size_bytes);
        return segment;
    }
    return NULL;
}

vulkan__segment *vulkan__pool_take(vulkan__device *device, vulkan__stream *stream,
                                   uint64_t size_bytes)
{
    vulkan__segment *segment = take_pending(stream, size_bytes);
    if (!segment)
        segment = take_dedicated(device, size_bytes);
    if (segment)
        return segment;
    for (uint32_t i = 0; i < device->block_count; i++) {
        vulkan__block *block = device->blocks[i];
        if (block->dedicated || block->buffer.size_bytes - block->used_bytes < size_bytes)
            continue;
        for (segment = block->first_free; segment; segment = segment->next_free) {
            if (segment->size_bytes < size_bytes)
                continue;
            use(device, segment, size_bytes);
            return segment;
        }
    }
    return NULL;
}

vulkan__segment *vulkan__pool_add(vulkan__device *device, const vulkan__buffer *buffer,
                                  bool dedicated, uint64_t size_bytes)
{
    vulkan__block *block = backend_allocate(device->services, sizeof *block);
    vulkan__segment *segment = backend_allocate(device->services, sizeof *segment);
    if (!block || !segment || !reserve_block(device)) {
        backend_release(device->services, block);
        backend_release(device->services, segment);
        return NULL;
    }
    /* Segments begin where the address is a multiple of the granule. */
    uint64_t skew = (VULKAN__GRANULE - buffer->address % VULKAN__GRANULE) % VULKAN__GRANULE;
    block->buffer = *buffer;
    block->first = segment;
    block->used_bytes = skew;
    block->dedicated = dedicated;
    segment->block = block;
    segment->offset = skew;
    segment->size_bytes = (buffer->size_bytes - skew) / VULKAN__GRANULE * VULKAN__GRANULE;
    link_free(segment);
    uint32_t index = block_above(device, buffer->address);
    memmove(&device->blocks[index + 1], &device->blocks[index],
            (device->block_count - index) * sizeof *device->blocks);
    device->blocks[index] = block;
    device->block_count++;
    device->block_bytes += buffer->size_bytes;
    if (device->block_bytes > device->block_bytes_peak)
        device->block_bytes_peak = device->block_bytes;
    use(device, segment, dedicated ? segment->size_bytes : size_bytes);
    return segment;
}

static bool empty(const vulkan__block *block)
{
    return block->first->free && !block->first->next;
}

/** Joins a free segment with the free one behind it. */
static void join(vulkan__device *device, vulkan__segment *segment)
{
    vulkan__segment *next = segment->next;
    if (!segment->free || !next || !next->free)
        return;
    unlink_free(next);
    segment->size_bytes += next->size_bytes;
    segment->next = next->next;
    if (segment->next)
        segment->next->previous = segment;
    backend_release(device->services, next);
}

/* Whether an empty block is kept, so that a loop that frees and allocates makes no calls: one
 * shared one, and blocks of their own up to a quarter of the memory. */
static bool keeps(const vulkan__device *device, const vulkan__block *block)
{
    uint64_t kept_bytes = 0;
    for (uint32_t i = 0; i < device->block_count; i++) {
        const vulkan__block *other = device->blocks[i];
        if (!empty(other))
            continue;
        if (!block->dedicated && !other->dedicated && other != block)
            return false;
        if (other->dedicated)
            kept_bytes += other->buffer.size_bytes;
    }
    return !block->dedicated || kept_bytes <= device->adapter->memory_bytes / 4;
}

void vulkan__pool_return(vulkan__device *device, vulkan__segment *segment)
{
    vulkan__block *block = segment->block;
    link_free(segment);
    block->used_bytes -= segment->size_bytes;
    join(device, segment);
    if (segment->previous)
        join(device, segment->previous);
    if (!empty(block))
        return;
    if (!keeps(device, block))
        remove_block(device, block);
}

void vulkan__pool_reap(vulkan__device *device)
{
    vulkan__stream **link = &device->streams;
    while (*link) {
        vulkan__stream *stream = *link;
        while (stream->pending && vulkan__stream_passed(device, stream, stream->pending->ticket)) {
            vulkan__segment *segment = stream->pending;
            stream->pending = segment->next_pending;
            if (!stream->pending)
                stream->pending_last = NULL;
            segment->next_pending = NULL;
            vulkan__pool_return(device, segment);
        }
        if (atomic_load(&stream->destroyed) && !stream->pending &&
            vulkan__stream_passed(device, stream, atomic_load(&stream->submitted))) {
            vulkan__batch_recycle(device, stream);
            if (atomic_load(&stream->holds) == 0) {
                *link = stream->next;
                vulkan__stream_retire(device, stream);
                continue;
            }
        }
        link = &stream->next;
    }
}

void vulkan__pool_work_lost(vulkan__stream *stream)
{
    uint64_t submitted = atomic_load(&stream->submitted);
    for (vulkan__segment *segment = stream->pending; segment; segment = segment->next_pending) {
        if (segment->ticket <= submitted)
            continue;
        segment->ticket = submitted;
        segment->zeroed_bytes = 0;
    }
}

void vulkan__pool_trim(vulkan__device *device)
{
    for (uint32_t i = device->block_count; i > 0; i--)
        if (empty(device->blocks[i - 1]))
            remove_block(device, device->blocks[i - 1]);
}

vulkan__block *vulkan__pool_find(vulkan__device *device, uint64_t address, uint64_t size_bytes)
{
    uint32_t index = block_above(device, address);
    if (index == 0)
        return NULL;
    vulkan__block *block = device->blocks[index - 1];
    uint64_t offset = address - block->buffer.address;
    if (offset > block->buffer.size_bytes || size_bytes > block->buffer.size_bytes - offset)
        return NULL;
    return block;
}

void vulkan__pool_close(vulkan__device *device)
{
    while (device->block_count)
        remove_block(device, device->blocks[device->block_count - 1]);
    backend_release(device->services, device->blocks);
    device->blocks = NULL;
    device->block_capacity = 0;
}
