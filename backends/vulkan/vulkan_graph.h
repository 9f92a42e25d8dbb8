/*
 * vulkan_graph.h - what recording (vulkan_graph.c) and replaying (vulkan_replay.c) a graph share.
 */
#ifndef DDISP_VULKAN_GRAPH_H
#define DDISP_VULKAN_GRAPH_H

#include "vulkan_native.h"

/** A native launch with one list of arguments: those that replays in flight use stay as they are.
 */
typedef struct vulkan__native_form {
    VkCommandBuffer commands; /* VK_NULL_HANDLE: none yet, or recording failed */
    VkDescriptorSet sets[VULKAN__MAX_SETS];
    vulkan__piece block;    /* mapped NULL: none was needed yet */
    vulkan__stream *stream; /* whose replays used it until the ticket; NULL: none */
    uint64_t ticket;
    struct vulkan__native_form *next;
} vulkan__native_form;

/** A launch as it was recorded. */
typedef struct vulkan__recorded {
    const vulkan__variant *variant;
    vulkan__piece block; /* of a launch that is not native */
    uint32_t block_bytes;
    uint8_t *changed; /* the next replay's block, where the present one could not be written */
    bool is_changed;
    uint32_t buffer; /* of a native one: its command buffer's index */
    uint32_t grid[3];
    vulkan__native_form *forms; /* of a native one: the present one, then others */
} vulkan__recorded;

struct vulkan__graph {
    VkCommandPool pool;
    vulkan__batch batch;      /* that is recorded into */
    VkCommandBuffer *buffers; /* from 1 on; 0 is room for a batch's, see batch_submit_with */
    uint32_t buffer_count, buffer_capacity;
    vulkan__recorded *launches;
    uint32_t launch_count, launch_capacity;
    uint32_t change_count; /* launches whose is_changed is set */
    vulkan__ring arguments, upload;
    vulkan__buffer *memory; /* that commands compute in */
    uint32_t memory_count, memory_capacity;
    vulkan__tracker tracker; /* the stream's, from before */
    ddisp_status failed;     /* what was recorded cannot be used */
    vulkan__stream *stream;  /* of the last replay; NULL: there was none */
    uint64_t ticket;
};

/** OK, or why no graph can be used any more. */
ddisp_status vulkan__graph_check(vulkan__device *device, const vulkan__graph *graph);
/** A command buffer of the graph, which is its pool's also after a failure. */
ddisp_status vulkan__graph_allocate(vulkan__device *device, vulkan__graph *graph,
                                    VkCommandBuffer *out_commands);
ddisp_status vulkan__graph_commands_begin(vulkan__device *device, VkCommandBuffer commands);
ddisp_status vulkan__graph_commands_end(vulkan__device *device, VkCommandBuffer commands);

#endif
