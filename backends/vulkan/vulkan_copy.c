/*
 * vulkan_copy.c - moving bytes in stream order. Host bytes go through staging memory on every
 * device, so that a call returns without waiting for earlier work. Copies take any size and offset;
 * vkCmdFillBuffer takes multiples of four only, so odd ends and 8-byte patterns are copied.
 */
#include "vulkan_internal.h"

#include <string.h>

#define PIECE_BYTES (UINT64_C(4) << 20)
#define SEED_BYTES  (UINT64_C(64) << 10) /* of an 8-byte pattern; doubled from there */

static ddisp_backend_access access_of(const ddisp_backend_range *range, uint64_t offset,
                                      uint64_t size_bytes, uint32_t writes)
{
    return (ddisp_backend_access){
        .range = {range->handle, range->address + offset, size_bytes},
        .writes = writes,
    };
}

static void record_copy(vulkan__device *device, vulkan__stream *stream, VkBuffer source,
                        uint64_t source_offset, VkBuffer destination, uint64_t destination_offset,
                        uint64_t size_bytes)
{
    const VkBufferCopy region = {source_offset, destination_offset, size_bytes};
    device->table.vkCmdCopyBuffer(stream->open->commands, source, destination, 1, &region);
}

ddisp_status vulkan__upload(void *device_handle, void *stream_handle,
                            const ddisp_backend_range *destination, const void *data)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__place place;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && destination->size_bytes)
        status = vulkan__place_find(device, destination, "upload", &place);
    for (uint64_t done = 0; status == DDISP_STATUS_OK && done < destination->size_bytes;) {
        uint64_t rest = destination->size_bytes - done;
        uint64_t size = rest < PIECE_BYTES ? rest : PIECE_BYTES;
        vulkan__piece piece;
        status = vulkan__ring_take(device, stream, &stream->upload, size, &piece);
        if (status != DDISP_STATUS_OK)
            break;
        memcpy(piece.mapped, (const unsigned char *)data + done, size);
        ddisp_backend_access access = access_of(destination, done, size, 1);
        vulkan__batch_order(device, stream, &access, 1);
        record_copy(device, stream, piece.buffer, piece.offset, place.buffer, place.offset + done,
                    size);
        done += size;
        if (done < destination->size_bytes) /* the device copies while the host does */
            status = vulkan__batch_submit(device, stream);
    }
    return status;
}

ddisp_status vulkan__download(void *device_handle, void *stream_handle,
                              const ddisp_backend_range *source, void *data)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__place place;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && source->size_bytes)
        status = vulkan__place_find(device, source, "download", &place);
    for (uint64_t done = 0; status == DDISP_STATUS_OK && done < source->size_bytes;) {
        uint64_t rest = source->size_bytes - done;
        uint64_t size = rest < PIECE_BYTES ? rest : PIECE_BYTES;
        vulkan__piece piece;
        status = vulkan__ring_take(device, stream, &stream->download, size, &piece);
        if (status != DDISP_STATUS_OK)
            break;
        ddisp_backend_access access = access_of(source, done, size, 0);
        vulkan__batch_order(device, stream, &access, 1);
        record_copy(device, stream, place.buffer, place.offset + done, piece.buffer, piece.offset,
                    size);
        stream->open->host_reads = true;
        uint64_t ticket = 0;
        status = vulkan__stream_mark(device, stream, &ticket);
        if (status == DDISP_STATUS_OK)
            status = vulkan__stream_synchronize(device, stream, ticket, UINT64_MAX);
        if (status == DDISP_STATUS_OK)
            memcpy((unsigned char *)data + done, piece.mapped, size);
        done += size;
    }
    return status;
}

ddisp_status vulkan__copy(void *device_handle, void *stream_handle,
                          const ddisp_backend_range *destination, const ddisp_backend_range *source)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__place to, from;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK || destination->size_bytes == 0)
        return status;
    status = vulkan__place_find(device, destination, "copy", &to);
    if (status == DDISP_STATUS_OK)
        status = vulkan__place_find(device, source, "copy", &from);
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_begin(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    const ddisp_backend_access accesses[2] = {
        access_of(destination, 0, destination->size_bytes, 1),
        access_of(source, 0, destination->size_bytes, 0),
    };
    vulkan__batch_order(device, stream, accesses, 2);
    record_copy(device, stream, from.buffer, from.offset, to.buffer, to.offset,
                destination->size_bytes);
    return DDISP_STATUS_OK;
}

/** Fills with a pattern that repeats after four bytes; `bytes` holds it twice. */
static ddisp_status fill_words(vulkan__device *device, vulkan__stream *stream,
                               const ddisp_backend_range *destination, const vulkan__place *place,
                               const uint8_t bytes[8])
{
    uint64_t size = destination->size_bytes;
    uint64_t head = (4 - place->offset % 4) % 4;
    if (head > size)
        head = size;
    uint64_t tail = (size - head) % 4, middle = size - head - tail;
    vulkan__piece piece = {0};
    ddisp_status status = head || tail
                              ? vulkan__ring_take(device, stream, &stream->upload, 8, &piece)
                              : vulkan__batch_begin(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    ddisp_backend_access access = access_of(destination, 0, size, 1);
    vulkan__batch_order(device, stream, &access, 1);
    const uint8_t *turned = bytes + head % 4; /* the pattern as it begins behind the head */
    if (head) {
        memcpy(piece.mapped, bytes, head);
        record_copy(device, stream, piece.buffer, piece.offset, place->buffer, place->offset, head);
    }
    if (tail) {
        memcpy(piece.mapped + 4, turned, tail);
        record_copy(device, stream, piece.buffer, piece.offset + 4, place->buffer,
                    place->offset + head + middle, tail);
    }
    if (middle) {
        uint32_t word;
        memcpy(&word, turned, sizeof word);
        device->table.vkCmdFillBuffer(stream->open->commands, place->buffer, place->offset + head,
                                      middle, word);
    }
    return DDISP_STATUS_OK;
}

/** Fills with eight bytes: some are uploaded, then what is there is copied behind itself. */
static ddisp_status fill_pairs(vulkan__device *device, vulkan__stream *stream,
                               const ddisp_backend_range *destination, const vulkan__place *place,
                               const uint8_t bytes[8])
{
    uint64_t size = destination->size_bytes;
    uint64_t done = size < SEED_BYTES ? size : SEED_BYTES;
    vulkan__piece piece;
    ddisp_status status = vulkan__ring_take(device, stream, &stream->upload, done, &piece);
    if (status != DDISP_STATUS_OK)
        return status;
    for (uint64_t i = 0; i < done; i += 8)
        memcpy(piece.mapped + i, bytes, 8);
    ddisp_backend_access access = access_of(destination, 0, size, 1);
    vulkan__batch_order(device, stream, &access, 1);
    record_copy(device, stream, piece.buffer, piece.offset, place->buffer, place->offset, done);
    while (done < size) {
        uint64_t next = size - done < done ? size - done : done;
        vulkan__batch_barrier(device, stream);
        record_copy(device, stream, place->buffer, place->offset, place->buffer,
                    place->offset + done, next);
        done += next;
    }
    vulkan__batch_order(device, stream, &access, 1);
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__fill(void *device_handle, void *stream_handle,
                          const ddisp_backend_range *destination, uint64_t pattern,
                          uint32_t pattern_size_bytes)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__place place;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK || destination->size_bytes == 0)
        return status;
    status = vulkan__place_find(device, destination, "fill", &place);
    if (status != DDISP_STATUS_OK)
        return status;
    uint8_t bytes[8];
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(pattern >> (8 * (i % pattern_size_bytes)));
    if (memcmp(bytes, bytes + 4, 4) == 0)
        return fill_words(device, stream, destination, &place, bytes);
    return fill_pairs(device, stream, destination, &place, bytes);
}
