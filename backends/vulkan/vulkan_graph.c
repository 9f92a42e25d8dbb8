/*
 * vulkan_graph.c - recording a stream's commands so that they can be submitted again and again,
 * also while they run (vulkan_replay.c).
 *
 * In: commands that would have gone into a batch. Out: command buffers, with the argument blocks
 * and descriptor sets that they use, owned by the graph. The arguments of a launch of the standard
 * block lie in its block; native arguments lie in the commands themselves, so such a launch has a
 * command buffer of its own.
 *
 * Other arguments may touch other memory, so every launch waits for all before it and is waited
 * for by all behind it. The first command waits for all earlier work, an earlier replay too.
 */
#include "vulkan_graph.h"

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
    if (*items)
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

ddisp_status vulkan__graph_allocate(vulkan__device *device, vulkan__graph *graph,
                                    VkCommandBuffer *out_commands)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = graph->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkResult result = device->table.vkAllocateCommandBuffers(device->handle, &info, out_commands);
    if (result != VK_SUCCESS)
        *out_commands = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkAllocateCommandBuffers");
}

ddisp_status vulkan__graph_commands_begin(vulkan__device *device, VkCommandBuffer commands)
{
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
    };
    return vulkan__check(device, device->table.vkBeginCommandBuffer(commands, &info),
                         "vkBeginCommandBuffer");
}

static ddisp_status begin_segment(vulkan__device *device, vulkan__stream *stream,
                                  vulkan__graph *graph)
{
    void *items = graph->buffers;
    if (!reserve(device, &items, graph->buffer_count + 1, &graph->buffer_capacity,
                 sizeof *graph->buffers))
        return no_memory(device);
    graph->buffers = items;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    ddisp_status status = vulkan__graph_allocate(device, graph, &commands);
    if (status == DDISP_STATUS_OK)
        status = vulkan__graph_commands_begin(device, commands);
    if (status != DDISP_STATUS_OK)
        return status; /* the buffer stays in the pool, and goes with it */
    graph->buffers[++graph->buffer_count] = commands;
    graph->batch.commands = commands;
    graph->batch.recording = true;
    stream->bound = VK_NULL_HANDLE;
    if (graph->buffer_count == 1) /* behind all earlier work of the stream that it is run on */
        vulkan__batch_barrier(device, stream);
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__graph_commands_end(vulkan__device *device, VkCommandBuffer commands)
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
    return vulkan__check(device, device->table.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

ddisp_status vulkan__graph_check(vulkan__device *device, const vulkan__graph *graph)
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
    ddisp_status status = vulkan__graph_check(device, graph);
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
    ddisp_status status = vulkan__graph_commands_end(device, graph->batch.commands);
    if (status != DDISP_STATUS_OK)
        graph->failed = status;
    return status;
}

ddisp_status vulkan__graph_split(vulkan__device *device, vulkan__stream *stream)
{
    ddisp_status status = end_segment(device, stream->capture);
    return status == DDISP_STATUS_OK ? vulkan__graph_begin(device, stream) : status;
}

/** What a native launch needs to be given other arguments. */
static bool note_native(vulkan__device *device, vulkan__graph *graph, vulkan__recorded *it,
                        const vulkan__piece *block, const VkDescriptorSet *sets)
{
    vulkan__native_form *form = backend_allocate(device->services, sizeof *form);
    if (!form)
        return false;
    form->commands = graph->batch.commands;
    if (block)
        form->block = *block;
    memcpy(form->sets, sets, it->variant->natives->set_count * sizeof *sets);
    it->buffer = graph->buffer_count;
    it->forms = form;
    return true;
}

ddisp_status vulkan__graph_note(vulkan__device *device, vulkan__stream *stream,
                                const ddisp_backend_launch *launch, const vulkan__piece *block,
                                const VkDescriptorSet *sets)
{
    vulkan__graph *graph = stream->capture;
    void *items = graph->launches;
    if (!reserve(device, &items, graph->launch_count, &graph->launch_capacity,
                 sizeof *graph->launches)) {
        graph->failed = DDISP_STATUS_OUT_OF_MEMORY;
        return no_memory(device);
    }
    graph->launches = items;
    vulkan__recorded *it = &graph->launches[graph->launch_count];
    memset(it, 0, sizeof *it);
    it->variant = launch->variant;
    it->block_bytes = launch->block_size_bytes;
    memcpy(it->grid, launch->grid, sizeof it->grid);
    if (!it->variant->natives) {
        it->block = *block;
    } else if (!note_native(device, graph, it, block, sets)) {
        graph->failed = DDISP_STATUS_OUT_OF_MEMORY;
        return no_memory(device);
    }
    graph->launch_count++;
    return it->variant->natives ? end_segment(device, graph) : DDISP_STATUS_OK;
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
        status = vulkan__graph_check(device, graph);
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

static void release_launch(vulkan__device *device, vulkan__recorded *it)
{
    while (it->forms) {
        vulkan__native_form *form = it->forms;
        it->forms = form->next;
        backend_release(device->services, form);
    }
    backend_release(device->services, it->changed);
}

void vulkan__graph_release(void *device_handle, void *graph_handle)
{
    vulkan__device *device = device_handle;
    vulkan__graph *graph = graph_handle;
    /* Who waited for it may have failed to. */
    if (graph->stream && !vulkan__stream_passed(device, graph->stream, graph->ticket) &&
        vulkan__device_idle(device) == VK_ERROR_DEVICE_LOST)
        atomic_store(&device->lost, true);
    device->table.vkDestroyCommandPool(device->handle, graph->pool, NULL);
    vulkan__sets_close(device, &graph->batch.sets);
    vulkan__ring_close(device, &graph->arguments);
    vulkan__ring_close(device, &graph->upload);
    while (graph->memory_count)
        vulkan__buffer_destroy(device, &graph->memory[--graph->memory_count]);
    while (graph->launch_count)
        release_launch(device, &graph->launches[--graph->launch_count]);
    backend_release(device->services, graph->memory);
    backend_release(device->services, graph->buffers);
    backend_release(device->services, graph->launches);
    backend_release(device->services, graph);
}
