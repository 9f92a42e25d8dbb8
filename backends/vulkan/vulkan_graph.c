/*
 * vulkan_graph.c - recording a stream's commands so that they can be submitted again and again.
 *
 * In: commands that would have gone into a batch. Out: command buffers, with the argument blocks
 * and descriptor sets that they use, owned by the graph. A launch of the standard block is given
 * other arguments by writing over its block. Native arguments lie in the commands themselves, so
 * such a launch has a command buffer of its own, which is recorded again.
 *
 * Other arguments may touch other memory, so every launch waits for all before it and is waited
 * for by all behind it. A graph's commands are submitted once at a time.
 */
#include "vulkan_native.h"

#include <inttypes.h>

/** A launch as it was recorded. */
typedef struct recorded {
    const vulkan__variant *variant;
    uint8_t *mapped; /* of its argument block; NULL: it has none */
    vulkan__piece block;
    uint32_t block_bytes;
    uint32_t buffer; /* of a native one: its command buffer */
    uint32_t grid[3];
    VkDescriptorSet sets[VULKAN__MAX_SETS];
} recorded;

struct vulkan__graph {
    VkCommandPool pool;
    vulkan__batch batch; /* that is recorded into */
    VkCommandBuffer *buffers;
    uint32_t buffer_count, buffer_capacity;
    recorded *launches;
    uint32_t launch_count, launch_capacity;
    vulkan__ring arguments, upload;
    vulkan__buffer *memory; /* that commands compute in */
    uint32_t memory_count, memory_capacity;
    vulkan__tracker tracker; /* the stream's, from before */
    ddisp_status failed;     /* what was recorded cannot be used */
    vulkan__stream *stream;  /* of the last submission */
    uint64_t ticket;
};

static ddisp_status no_memory(vulkan__device *device)
{
    return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                        "no host memory to record commands");
}

/** Makes room for one more item; the array stays when there is no memory. */
static bool reserve(vulkan__device *device, void **items, uint32_t count, uint32_t *capacity,
                    size_t item_bytes)
{
    if (count < *capacity)
        return true;
    uint32_t more = *capacity ? 2 * *capacity : 16;
    void *grown = backend_allocate(device->services, (uint64_t)more * item_bytes);
    if (!grown)
        return false;
    if (count)
        memcpy(grown, *items, count * item_bytes);
    backend_release(device->services, *items);
    *items = grown;
    *capacity = more;
    return true;
}

/* ---- recording ---- */

vulkan__ring *vulkan__graph_ring(vulkan__graph *graph, vulkan__purpose purpose)
{
    return purpose == VULKAN__PURPOSE_ARGUMENTS ? &graph->arguments : &graph->upload;
}

ddisp_status vulkan__graph_memory(vulkan__device *device, vulkan__stream *stream,
                                  uint64_t size_bytes, const vulkan__buffer **out_buffer)
{
    vulkan__graph *graph = stream->capture;
    void *items = graph->memory;
    const char *function = "";
    if (!reserve(device, &items, graph->memory_count, &graph->memory_capacity,
                 sizeof *graph->memory))
        return no_memory(device);
    graph->memory = items;
    vulkan__buffer *buffer = &graph->memory[graph->memory_count];
    VkResult result =
        vulkan__buffer_create(device, VULKAN__PURPOSE_DEVICE, size_bytes, buffer, &function);
    if (result != VK_SUCCESS)
        return vulkan__check(device, result, function);
    graph->memory_count++;
    *out_buffer = buffer;
    return DDISP_STATUS_OK;
}

static ddisp_status begin_commands(vulkan__device *device, VkCommandBuffer commands)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    return vulkan__check(device, device->table.vkBeginCommandBuffer(commands, &info),
                         "vkBeginCommandBuffer");
}

static ddisp_status begin_segment(vulkan__device *device, vulkan__stream *stream,
                                  vulkan__graph *graph)
{
    void *items = graph->buffers;
    if (!reserve(device, &items, graph->buffer_count, &graph->buffer_capacity,
                 sizeof *graph->buffers))
        return no_memory(device);
    graph->buffers = items;
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = graph->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkCommandBuffer commands = VK_NULL_HANDLE;
    ddisp_status status = vulkan__check(
        device, device->table.vkAllocateCommandBuffers(device->handle, &info, &commands),
        "vkAllocateCommandBuffers");
    if (status == DDISP_STATUS_OK)
        status = begin_commands(device, commands);
    if (status != DDISP_STATUS_OK)
        return status; /* the buffer stays in the pool, and goes with it */
    graph->buffers[graph->buffer_count++] = commands;
    graph->batch.commands = commands;
    graph->batch.recording = true;
    stream->bound = VK_NULL_HANDLE;
    if (graph->buffer_count == 1) /* behind all earlier work of the stream that it is run on */
        vulkan__batch_barrier(device, stream);
    return DDISP_STATUS_OK;
}

static ddisp_status end_commands(vulkan__device *device, vulkan__graph *graph,
                                 VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    if (device->memory_mapped)
        device->table.vkCmdPipelineBarrier(
            commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    ddisp_status status =
        vulkan__check(device, device->table.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    if (status != DDISP_STATUS_OK)
        graph->failed = status;
    return status;
}

static ddisp_status check_graph(vulkan__device *device, const vulkan__graph *graph)
{
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK || graph->failed == DDISP_STATUS_OK)
        return status;
    return backend_fail(device->services, graph->failed, 0,
                        "the driver could not finish recording this graph; capture it anew");
}

ddisp_status vulkan__graph_begin(vulkan__device *device, vulkan__stream *stream)
{
    vulkan__graph *graph = stream->capture;
    ddisp_status status = check_graph(device, graph);
    stream->open = &graph->batch;
    if (status == DDISP_STATUS_OK && !graph->batch.recording)
        status = begin_segment(device, stream, graph);
    return status;
}

static ddisp_status end_segment(vulkan__device *device, vulkan__graph *graph)
{
    if (!graph->batch.recording)
        return DDISP_STATUS_OK;
    graph->batch.recording = false;
    return end_commands(device, graph, graph->batch.commands);
}

ddisp_status vulkan__graph_split(vulkan__device *device, vulkan__stream *stream)
{
    ddisp_status status = end_segment(device, stream->capture);
    return status == DDISP_STATUS_OK ? vulkan__graph_begin(device, stream) : status;
}

ddisp_status vulkan__graph_note(vulkan__device *device, vulkan__stream *stream,
                                const ddisp_backend_launch *launch, const vulkan__piece *block,
                                const VkDescriptorSet *sets)
{
    vulkan__graph *graph = stream->capture;
    const vulkan__variant *variant = launch->variant;
    void *items = graph->launches;
    if (!reserve(device, &items, graph->launch_count, &graph->launch_capacity,
                 sizeof *graph->launches)) {
        graph->failed = DDISP_STATUS_OUT_OF_MEMORY;
        return no_memory(device);
    }
    graph->launches = items;
    recorded *it = &graph->launches[graph->launch_count++];
    memset(it, 0, sizeof *it);
    it->variant = variant;
    it->buffer = graph->buffer_count - 1;
    memcpy(it->grid, launch->grid, sizeof it->grid);
    if (block) {
        it->block = *block;
        it->mapped = block->mapped;
        it->block_bytes = launch->block_size_bytes;
    }
    if (sets && variant->natives)
        memcpy(it->sets, sets, variant->natives->set_count * sizeof *sets);
    stream->tracker.unknown = true; /* what follows waits for it */
    return variant->natives ? end_segment(device, graph) : DDISP_STATUS_OK;
}

/* ---- begin and end ---- */

ddisp_status vulkan__capture_begin(void *device_handle, void *stream_handle)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__batch_submit(device, stream);
    if (status == DDISP_STATUS_OK && stream->capture)
        status = backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                              "the stream records already");
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__graph *graph = backend_allocate(device->services, sizeof *graph);
    if (!graph)
        return no_memory(device);
    const VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = device->adapter->queue_family,
    };
    VkResult result = device->table.vkCreateCommandPool(device->handle, &info, NULL, &graph->pool);
    if (result != VK_SUCCESS) {
        backend_release(device->services, graph);
        return vulkan__check(device, result, "vkCreateCommandPool");
    }
    graph->arguments.purpose = VULKAN__PURPOSE_ARGUMENTS;
    graph->upload.purpose = VULKAN__PURPOSE_UPLOAD;
    graph->tracker = stream->tracker;
    memset(&stream->tracker, 0, sizeof stream->tracker);
    stream->capture = graph;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__capture_end(void *device_handle, void *stream_handle, void **out_graph)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__graph *graph = stream->capture;
    if (!graph && !out_graph)
        return DDISP_STATUS_OK;
    if (!graph)
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "the stream does not record");
    ddisp_status status = end_segment(device, graph);
    if (status == DDISP_STATUS_OK && out_graph)
        status = check_graph(device, graph);
    stream->capture = NULL;
    stream->open = NULL;
    stream->bound = VK_NULL_HANDLE;
    stream->tracker = graph->tracker;
    if (status == DDISP_STATUS_OK && out_graph)
        *out_graph = graph;
    else
        vulkan__graph_release(device, graph);
    return out_graph ? status : DDISP_STATUS_OK;
}

void vulkan__graph_release(void *device_handle, void *graph_handle)
{
    vulkan__device *device = device_handle;
    vulkan__graph *graph = graph_handle;
    device->table.vkDestroyCommandPool(device->handle, graph->pool, NULL);
    vulkan__sets_close(device, &graph->batch.sets);
    vulkan__ring_close(device, &graph->arguments);
    vulkan__ring_close(device, &graph->upload);
    while (graph->memory_count)
        vulkan__buffer_destroy(device, &graph->memory[--graph->memory_count]);
    backend_release(device->services, graph->memory);
    backend_release(device->services, graph->buffers);
    backend_release(device->services, graph->launches);
    backend_release(device->services, graph);
}

/* ---- replay ---- */

static ddisp_status submit(vulkan__device *device, vulkan__stream *stream,
                           const vulkan__graph *graph, uint64_t ticket)
{
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &ticket,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .commandBufferCount = graph->buffer_count,
        .pCommandBuffers = graph->buffers,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &stream->timeline,
    };
    vulkan__queue_lock(stream->queue);
    VkResult result = device->table.vkQueueSubmit(stream->queue->handle, 1, &info, VK_NULL_HANDLE);
    vulkan__queue_unlock(stream->queue);
    return vulkan__check(device, result, "vkQueueSubmit");
}

ddisp_status vulkan__graph_launch(void *device_handle, void *stream_handle, void *graph_handle)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__graph *graph = graph_handle;
    ddisp_status status = check_graph(device, graph);
    if (status == DDISP_STATUS_OK && graph->stream)
        status = vulkan__stream_synchronize(device, graph->stream, graph->ticket, UINT64_MAX);
    if (status == DDISP_STATUS_OK && stream->borrowed)
        status = vulkan__batch_begin(device, stream); /* which holds an outer barrier */
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_submit(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t ticket = atomic_load(&stream->submitted) + 1;
    status = submit(device, stream, graph, ticket);
    if (status != DDISP_STATUS_OK)
        return status;
    atomic_store(&stream->submitted, ticket);
    stream->tracker.unknown = true;
    graph->stream = stream;
    graph->ticket = ticket;
    /* What ends the application's waiting follows with the next flush; it was queued already. */
    return stream->borrowed ? vulkan__batch_begin(device, stream) : DDISP_STATUS_OK;
}

/* ---- update ---- */

/** Records a native launch again; its sets are written already. */
static ddisp_status record_again(vulkan__device *device, vulkan__graph *graph, const recorded *it,
                                 const vulkan__native_values *values)
{
    VkCommandBuffer commands = graph->buffers[it->buffer];
    ddisp_status status = begin_commands(device, commands);
    if (status != DDISP_STATUS_OK) {
        graph->failed = status;
        return status;
    }
    vulkan__full_barrier(device, commands);
    device->table.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                    it->variant->pipeline);
    vulkan__native_record(device, commands, it->variant, values, it->sets, it->grid);
    return end_commands(device, graph, commands);
}

ddisp_status vulkan__graph_update(void *device_handle, void *graph_handle, uint32_t index,
                                  const ddisp_backend_launch *launch)
{
    vulkan__device *device = device_handle;
    vulkan__graph *graph = graph_handle;
    vulkan__native_values values;
    ddisp_status status = check_graph(device, graph);
    if (status == DDISP_STATUS_OK && index >= graph->launch_count)
        status = backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                              "the graph has %u recorded launches, and no number %u",
                              graph->launch_count, index);
    if (status != DDISP_STATUS_OK)
        return status;
    const recorded *it = &graph->launches[index];
    if (it->variant->natives)
        status = vulkan__native_fill(device, launch, &values);
    if (status != DDISP_STATUS_OK)
        return status;
    if (it->mapped)
        memcpy(it->mapped, launch->block, it->block_bytes);
    if (!it->variant->natives)
        return DDISP_STATUS_OK;
    if (values.wants_block)
        vulkan__native_block(&values, &it->block, it->block_bytes);
    vulkan__native_write(device, it->variant, &values, it->sets);
    return record_again(device, graph, it, &values);
}
