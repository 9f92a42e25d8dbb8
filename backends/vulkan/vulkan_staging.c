/*
 * vulkan_staging.c - memory that host and device both see, in pieces that live as long as the batch
 * they are used in: argument blocks, and bytes on their way to or from device memory. Chunks are
 * used again when the stream has passed the work that read them.
 */
#include "vulkan_internal.h"

#include <inttypes.h>

#define CHUNK_BYTES       (UINT64_C(256) << 10)
#define GRAPH_CHUNK_BYTES (UINT64_C(64) << 10)

/** All chunks of a ring together; beyond it a piece waits for earlier work. */
static uint64_t ring_bytes(vulkan__purpose purpose)
{
    return purpose == VULKAN__PURPOSE_DOWNLOAD ? UINT64_C(8) << 20 : UINT64_C(32) << 20;
}

static void make_first(vulkan__ring *ring, vulkan__chunk *chunk)
{
    vulkan__chunk **link = &ring->chunks;
    while (*link && *link != chunk)
        link = &(*link)->next;
    if (*link)
        *link = chunk->next;
    chunk->next = ring->chunks;
    ring->chunks = chunk;
    ring->turn++;
}

/** The chunk that is large enough and was used longest ago; NULL: none is large enough. */
static vulkan__chunk *oldest(const vulkan__ring *ring, uint64_t size_bytes)
{
    vulkan__chunk *best = NULL;
    for (vulkan__chunk *c = ring->chunks; c; c = c->next)
        if (c->buffer.size_bytes >= size_bytes && (!best || c->ticket < best->ticket))
            best = c;
    return best;
}

static ddisp_status add_chunk(vulkan__device *device, vulkan__ring *ring, uint64_t size_bytes,
                              bool of_graph)
{
    uint64_t size = of_graph ? GRAPH_CHUNK_BYTES : CHUNK_BYTES;
    if (size < size_bytes)
        size = size_bytes;
    uint64_t copied = ring->purpose == VULKAN__PURPOSE_ARGUMENTS && !of_graph ? size : 0;
    vulkan__chunk *chunk = backend_allocate(device->services, sizeof *chunk + copied);
    if (!chunk)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory to keep a staging buffer");
    const char *function = "";
    VkResult result = vulkan__buffer_create(device, ring->purpose, size, &chunk->buffer, &function);
    if (result == VK_SUCCESS && !chunk->buffer.mapped) {
        vulkan__buffer_destroy(device, &chunk->buffer);
        result = VK_ERROR_MEMORY_MAP_FAILED;
    }
    if (result != VK_SUCCESS) {
        backend_release(device->services, chunk);
        return vulkan__check(device, result, function);
    }
    make_first(ring, chunk);
    ring->size_bytes += size;
    return DDISP_STATUS_OK;
}

static bool has_room(const vulkan__ring *ring, uint64_t size_bytes)
{
    const vulkan__chunk *chunk = ring->chunks;
    return chunk && chunk->buffer.size_bytes - chunk->used >= size_bytes;
}

/** Makes the first chunk one with room for size_bytes. */
static ddisp_status find_room(vulkan__device *device, vulkan__stream *stream, vulkan__ring *ring,
                              uint64_t size_bytes)
{
    vulkan__chunk *chunk = oldest(ring, size_bytes);
    bool passed = chunk && vulkan__stream_passed(device, stream, chunk->ticket);
    if (!chunk || (!passed && ring->size_bytes + size_bytes <= ring_bytes(ring->purpose)))
        return add_chunk(device, ring, size_bytes, false);
    if (!passed) {
        ddisp_status status = vulkan__batch_submit(device, stream);
        if (status == DDISP_STATUS_OK)
            status = vulkan__stream_synchronize(device, stream, chunk->ticket, UINT64_MAX);
        if (status != DDISP_STATUS_OK)
            return status;
    }
    chunk->used = 0;
    make_first(ring, chunk);
    return DDISP_STATUS_OK;
}

static uint64_t round_up(uint64_t size_bytes)
{
    return (size_bytes + VULKAN__GRANULE - 1) / VULKAN__GRANULE * VULKAN__GRANULE;
}

/** The first chunk has room. */
static void cut(vulkan__chunk *chunk, uint64_t rounded, vulkan__piece *out_piece)
{
    out_piece->buffer = chunk->buffer.handle;
    out_piece->offset = chunk->used;
    out_piece->address = chunk->buffer.address + chunk->used;
    out_piece->mapped = chunk->buffer.mapped + chunk->used;
    chunk->used += rounded;
}

ddisp_status vulkan__ring_keep(vulkan__device *device, vulkan__ring *ring, uint64_t size_bytes,
                               vulkan__piece *out_piece)
{
    uint64_t rounded = round_up(size_bytes);
    ddisp_status status = DDISP_STATUS_OK;
    if (!has_room(ring, rounded))
        status = add_chunk(device, ring, rounded, true);
    if (status == DDISP_STATUS_OK)
        cut(ring->chunks, rounded, out_piece);
    return status;
}

ddisp_status vulkan__ring_take(vulkan__device *device, vulkan__stream *stream, vulkan__ring *ring,
                               uint64_t size_bytes, vulkan__piece *out_piece)
{
    uint64_t rounded = round_up(size_bytes);
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && stream->capture) {
        ring = vulkan__graph_ring(stream->capture, ring->purpose);
        status = vulkan__ring_keep(device, ring, size_bytes, out_piece);
        return status == DDISP_STATUS_OK ? vulkan__batch_begin(device, stream) : status;
    }
    if (status == DDISP_STATUS_OK && !has_room(ring, rounded))
        status = find_room(device, stream, ring, rounded);
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_begin(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    cut(ring->chunks, rounded, out_piece);
    ring->chunks->ticket = vulkan__stream_next_ticket(stream);
    return DDISP_STATUS_OK;
}

void vulkan__ring_close(vulkan__device *device, vulkan__ring *ring)
{
    while (ring->chunks) {
        vulkan__chunk *chunk = ring->chunks;
        ring->chunks = chunk->next;
        vulkan__buffer_destroy(device, &chunk->buffer);
        backend_release(device->services, chunk);
    }
    ring->size_bytes = 0;
}
