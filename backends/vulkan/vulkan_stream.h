/*
 * vulkan_stream.h - streams of the Vulkan backend: the batches that commands are recorded into, the
 * memory and descriptor sets that these use, and graphs. Included by vulkan_internal.h.
 */
#ifndef DDISP_VULKAN_STREAM_H
#define DDISP_VULKAN_STREAM_H

#include "vulkan_internal.h"

/** Commands in a batch before it is submitted by itself. */
#define VULKAN__BATCH_COMMANDS 64
/** Other streams that one batch can wait for. */
#define VULKAN__BATCH_WAITS 8
/** Replays in a row that signal nothing. */
#define VULKAN__SILENT_REPLAYS 64
/** Ranges that the barrier tracker remembers, of reads and of writes each. */
#define VULKAN__TRACKED_RANGES 128
/** Argument blocks that are found again; a power of two. */
#define VULKAN__KEPT_BLOCKS 256u

/* ---- host-visible memory of a stream (vulkan_staging.c) */

typedef struct vulkan__chunk {
    vulkan__buffer buffer;
    uint64_t used;
    uint64_t ticket; /* last work that uses it */
    struct vulkan__chunk *next;
    uint8_t copy[]; /* of arguments: what was written, where the host can read it fast */
} vulkan__chunk;

/** Chunks of one purpose; the first is the one that pieces are taken from. */
typedef struct vulkan__ring {
    vulkan__purpose purpose;
    vulkan__chunk *chunks;
    uint64_t size_bytes; /* of all chunks */
    uint32_t turn;       /* counts first chunks: what was taken of an earlier one may be gone */
} vulkan__ring;

typedef struct vulkan__piece {
    VkBuffer buffer;
    uint64_t offset;
    uint64_t address;
    uint8_t *mapped;
} vulkan__piece;

/** Memory that stays valid for work recorded in the stream's present batch. May submit and wait. */
ddisp_status vulkan__ring_take(vulkan__device *device, vulkan__stream *stream, vulkan__ring *ring,
                               uint64_t size_bytes, vulkan__piece *out_piece);
/** Memory of a graph's ring, which is never used again. */
ddisp_status vulkan__ring_keep(vulkan__device *device, vulkan__ring *ring, uint64_t size_bytes,
                               vulkan__piece *out_piece);
void vulkan__ring_close(vulkan__device *device, vulkan__ring *ring);

/* ---- argument blocks (vulkan_arguments.c) */

/** Where a block lies in the first chunk of a stream's arguments. */
typedef struct vulkan__kept {
    uint32_t turn; /* of the ring */
    uint32_t offset;
    uint32_t size_bytes;
} vulkan__kept;

/** The block where the device sees it, for a launch in the stream's present batch, which is open
 * for its commands. May submit and wait. */
ddisp_status vulkan__arguments_write(vulkan__device *device, vulkan__stream *stream,
                                     const void *block, uint32_t size_bytes,
                                     vulkan__piece *out_piece);

/* ---- descriptor sets (vulkan_descriptor.c) */

/** Makes the pools of a list usable again; no work uses their sets. */
void vulkan__sets_reset(vulkan__device *device, vulkan__sets *list);
void vulkan__sets_close(vulkan__device *device, vulkan__sets **list);

/* ---- streams (vulkan_stream.c, vulkan_batch.c, vulkan_barrier.c) */

/** Commands of one submission. */
typedef struct vulkan__batch {
    VkCommandBuffer commands;
    uint64_t ticket;
    uint32_t command_count;
    uint32_t wait_count;
    bool host_reads; /* the host reads what it writes */
    bool recording;  /* vkBeginCommandBuffer was called */
    bool ended;      /* and vkEndCommandBuffer: only the submission is missing */
    vulkan__stream *waits[VULKAN__BATCH_WAITS];
    uint64_t wait_tickets[VULKAN__BATCH_WAITS];
    vulkan__sets *sets; /* pools of the descriptor sets that it uses */
    struct vulkan__batch *next;
} vulkan__batch;

typedef struct vulkan__interval {
    uint64_t begin, end;
} vulkan__interval;

/** A set of addresses: sorted, and no range touches another. */
typedef struct vulkan__ranges {
    uint32_t count;
    vulkan__interval list[VULKAN__TRACKED_RANGES];
} vulkan__ranges;

/** What commands have touched since the last barrier. */
typedef struct vulkan__tracker {
    vulkan__ranges reads, writes;
    bool unknown; /* a command whose ranges are not known */
} vulkan__tracker;

struct vulkan__stream {
    vulkan__queue *queue;
    VkSemaphore timeline;
    VkCommandPool pool;
    atomic_uint_fast64_t submitted; /* ticket of the last submission */
    atomic_uint_fast64_t completed; /* last value seen of the timeline */
    uint32_t silent;   /* submissions since then, which the next ticket stands for too */
    atomic_uint holds; /* batches of other streams that wait for the timeline */
    atomic_bool destroyed;
    bool borrowed;       /* the application submits to the queue too, in whose order this work is */
    ddisp_status failed; /* recorded work was lost: every later call says so */
    vulkan__batch *open; /* not submitted */
    vulkan__batch *in_flight; /* oldest first */
    vulkan__batch *in_flight_last;
    vulkan__batch *idle;
    VkPipeline bound; /* in the open batch */
    uint64_t pushed;  /* the block's address, to a pipeline that is still bound; 0: none */
    vulkan__tracker tracker;
    vulkan__ring arguments, upload, download;
    vulkan__kept kept[VULKAN__KEPT_BLOCKS];
    vulkan__graph *capture; /* that commands are recorded into, NULL: they are run */
    vulkan__timed *timed;   /* NULL until the first mark with time */
    /* guarded by device->lock */
    vulkan__segment *pending; /* freed here, oldest first */
    vulkan__segment *pending_last;
    vulkan__stream *next;
};

ddisp_status vulkan__stream_create(void *device, uint64_t flags, void **out_stream);
ddisp_status vulkan__stream_wrap(void *device, uint64_t native_handle, void **out_stream);
void vulkan__stream_destroy(void *device, void *stream);
/** Keeps a stream that was destroyed and is done for another one. device->lock is held. */
void vulkan__stream_retire(vulkan__device *device, vulkan__stream *stream);
/** Destroys the driver's objects; the device is idle. */
void vulkan__stream_dispose(vulkan__device *device, vulkan__stream *stream);
ddisp_status vulkan__stream_flush(void *device, void *stream);
ddisp_status vulkan__stream_mark(void *device, void *stream, uint64_t *out_ticket);
ddisp_status vulkan__stream_wait(void *device, void *stream, void *other_stream, uint64_t ticket);
ddisp_status vulkan__stream_query(void *device, void *stream, uint64_t ticket);
ddisp_status vulkan__stream_synchronize(void *device, void *stream, uint64_t ticket,
                                        uint64_t timeout_ns);

ddisp_status vulkan__stream_mark_timed(void *device, void *stream, uint64_t *out_ticket);
ddisp_status vulkan__stream_elapsed(void *device, void *begin_stream, uint64_t begin_ticket,
                                    void *end_stream, uint64_t end_ticket, uint64_t *out_ns);
void vulkan__timed_release(vulkan__device *device, vulkan__stream *stream);

/** Ticket that the work queued so far will have. */
uint64_t vulkan__stream_next_ticket(const vulkan__stream *stream);
/** True when the work of the ticket is done; asks the driver at most once. Never fails. */
bool vulkan__stream_passed(vulkan__device *device, vulkan__stream *stream, uint64_t ticket);

/** The batch to add to; makes one. */
ddisp_status vulkan__batch_open(vulkan__device *device, vulkan__stream *stream);
/** Opens the batch for commands, submitting a full one first. Failure has recorded nothing. */
ddisp_status vulkan__batch_renew(vulkan__device *device, vulkan__stream *stream);
/** Submits the open batch, if there is one; all that was submitted has a ticket then. */
ddisp_status vulkan__batch_submit(vulkan__device *device, vulkan__stream *stream);
/** Submits the open batch, if there is one, and behind it recorded[1] to recorded[count];
 * recorded[0] is room for the batch's commands. */
ddisp_status vulkan__batch_submit_with(vulkan__device *device, vulkan__stream *stream,
                                       VkCommandBuffer *recorded, uint32_t count);
/** Lets go of the streams that its batches wait for. */
void vulkan__batch_release_waits(vulkan__stream *stream);
/** Makes batches whose work is done usable again. */
void vulkan__batch_recycle(vulkan__device *device, vulkan__stream *stream);
/** Before a command that makes these accesses: a barrier where an earlier command needs one. */
void vulkan__batch_order(vulkan__device *device, vulkan__stream *stream,
                         const ddisp_backend_access *accesses, uint32_t access_count);
/** Orders everything before it before everything behind it. The batch is recording. */
void vulkan__batch_barrier(vulkan__device *device, vulkan__stream *stream);

/** The same, for any command buffer. */
void vulkan__full_barrier(vulkan__device *device, VkCommandBuffer commands);
/** Orders work of every kind, also outside of the library, before and behind it. */
void vulkan__outer_barrier(vulkan__device *device, VkCommandBuffer commands);

/** vulkan__batch_renew where the open batch does not have room for one command more. */
static inline ddisp_status vulkan__batch_begin(vulkan__device *device, vulkan__stream *stream)
{
    vulkan__batch *batch = stream->open;
    if (!batch || !batch->recording || batch->ended || stream->capture || stream->failed ||
        batch->command_count >= VULKAN__BATCH_COMMANDS || atomic_load(&device->lost))
        return vulkan__batch_renew(device, stream);
    batch->command_count++;
    return DDISP_STATUS_OK;
}

/* ---- graphs (vulkan_graph.c, vulkan_replay.c) */

ddisp_status vulkan__capture_begin(void *device, void *stream);
ddisp_status vulkan__capture_end(void *device, void *stream, void **out_graph);
ddisp_status vulkan__graph_launch(void *device, void *stream, void *graph);
ddisp_status vulkan__graph_update(void *device, void *graph, uint32_t index,
                                  const ddisp_backend_launch *launch);
void vulkan__graph_release(void *device, void *graph);
/** The five below are for streams that capture. Memory that lives as long as the graph. */
vulkan__ring *vulkan__graph_ring(vulkan__graph *graph, vulkan__purpose purpose);
/** The same, for a command to compute in. */
ddisp_status vulkan__graph_memory(vulkan__device *device, vulkan__stream *stream,
                                  uint64_t size_bytes, const vulkan__buffer **out_buffer);
/** Opens the graph's commands. */
ddisp_status vulkan__graph_begin(vulkan__device *device, vulkan__stream *stream);
/** The same, in a command buffer of their own. */
ddisp_status vulkan__graph_split(vulkan__device *device, vulkan__stream *stream);
/** Keeps what a launch that was recorded needs to be given other arguments. */
ddisp_status vulkan__graph_note(vulkan__device *device, vulkan__stream *stream,
                                const ddisp_backend_launch *launch, const vulkan__piece *block,
                                const VkDescriptorSet *sets);

/* ---- copies (vulkan_copy.c) */

ddisp_status vulkan__upload(void *device, void *stream, const ddisp_backend_range *destination,
                            const void *data);
ddisp_status vulkan__download(void *device, void *stream, const ddisp_backend_range *source,
                              void *data);
ddisp_status vulkan__fill(void *device, void *stream, const ddisp_backend_range *destination,
                          uint64_t pattern, uint32_t pattern_size_bytes);
ddisp_status vulkan__copy(void *device, void *stream, const ddisp_backend_range *destination,
                          const ddisp_backend_range *source);

#endif
