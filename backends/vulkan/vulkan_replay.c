/*
 * vulkan_replay.c - submitting a graph's commands again, and giving its launches other arguments.
 *
 * A replay waits for nothing on the host: the commands may be in flight many times, one behind the
 * other in their stream's order. So nothing that a replay in flight may read is written by the
 * host. Arguments of the standard block change by a copy on the device, between the replays;
 * a native launch is recorded once more, into another command buffer with other sets. Where nothing
 * is in flight, blocks are written in place.
 */
#include "vulkan_graph.h"

/** No replay reads the graph's memory. */
static bool is_idle(vulkan__device *device, const vulkan__graph *graph)
{
    return !graph->stream || vulkan__stream_passed(device, graph->stream, graph->ticket);
}

/* ---- replay ---- */

/** Notes that work up to the stream's present end uses the graph. */
static void note_use(vulkan__graph *graph, vulkan__stream *stream)
{
    graph->stream = stream;
    graph->ticket = vulkan__stream_next_ticket(stream);
}

/** Copies a changed block on the device; ordered is set behind the first of them. */
static ddisp_status record_change(vulkan__device *device, vulkan__stream *stream,
                                  vulkan__graph *graph, vulkan__recorded *it, bool *ordered)
{
    vulkan__piece piece;
    ddisp_status status =
        vulkan__ring_take(device, stream, &stream->upload, it->block_bytes, &piece);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(piece.mapped, it->changed, it->block_bytes);
    if (!*ordered)
        vulkan__batch_barrier(device, stream);
    *ordered = true;
    const VkBufferCopy region = {piece.offset, it->block.offset, it->block_bytes};
    device->table.vkCmdCopyBuffer(stream->open->commands, piece.buffer, it->block.buffer, 1,
                                  &region);
    stream->tracker.unknown = true;
    note_use(graph, stream);
    return DDISP_STATUS_OK;
}

static ddisp_status apply_changes(vulkan__device *device, vulkan__stream *stream,
                                  vulkan__graph *graph)
{
    bool idle = is_idle(device, graph), ordered = false;
    for (uint32_t i = 0; i < graph->launch_count && graph->change_count; i++) {
        vulkan__recorded *it = &graph->launches[i];
        ddisp_status status = DDISP_STATUS_OK;
        if (!it->is_changed)
            continue;
        if (idle)
            memcpy(it->block.mapped, it->changed, it->block_bytes);
        else
            status = record_change(device, stream, graph, it, &ordered);
        if (status != DDISP_STATUS_OK)
            return status;
        it->is_changed = false;
        graph->change_count--;
    }
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__graph_launch(void *device_handle, void *stream_handle, void *graph_handle)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    vulkan__graph *graph = graph_handle;
    ddisp_status status = vulkan__graph_check(device, graph);
    if (status == DDISP_STATUS_OK && graph->stream && graph->stream != stream)
        status = vulkan__stream_wait(device, stream, graph->stream, graph->ticket);
    if (status == DDISP_STATUS_OK && graph->change_count)
        status = apply_changes(device, stream, graph);
    if (status == DDISP_STATUS_OK && stream->borrowed)
        status = vulkan__batch_begin(device, stream); /* which holds an outer barrier */
    if (status == DDISP_STATUS_OK && graph->buffer_count)
        status = vulkan__batch_submit_with(device, stream, graph->buffers, graph->buffer_count);
    if (status != DDISP_STATUS_OK)
        return status;
    stream->tracker.unknown = true;
    graph->stream = stream;
    graph->ticket = atomic_load(&stream->submitted) + (stream->silent ? 1 : 0);
    /* What ends the application's waiting follows with the next flush; it was queued already. */
    return stream->borrowed ? vulkan__batch_begin(device, stream) : DDISP_STATUS_OK;
}

/* ---- update ---- */

/** Keeps a block for the next replay, or writes it where no replay is in flight. */
static ddisp_status change_block(vulkan__device *device, vulkan__graph *graph, vulkan__recorded *it,
                                 const void *block)
{
    if (is_idle(device, graph)) {
        memcpy(it->block.mapped, block, it->block_bytes);
        graph->change_count -= it->is_changed;
        it->is_changed = false;
        return DDISP_STATUS_OK;
    }
    if (!it->changed)
        it->changed = backend_allocate(device->services, it->block_bytes);
    if (!it->changed)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for the arguments of a recorded launch");
    memcpy(it->changed, block, it->block_bytes);
    graph->change_count += !it->is_changed;
    it->is_changed = true;
    return DDISP_STATUS_OK;
}

static ddisp_status make_form(vulkan__device *device, vulkan__graph *graph,
                              const vulkan__variant *variant, vulkan__native_form **out_form)
{
    vulkan__native_form *form = backend_allocate(device->services, sizeof *form);
    if (!form)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for the arguments of a recorded launch");
    ddisp_status status = vulkan__sets_take(device, &graph->batch.sets, variant, form->sets);
    if (status == DDISP_STATUS_OK)
        *out_form = form;
    else
        backend_release(device->services, form);
    return status;
}

/** A form of the launch that is not the present one and that no replay uses. */
static ddisp_status take_form(vulkan__device *device, vulkan__graph *graph, vulkan__recorded *it,
                              vulkan__native_form **out_form)
{
    for (vulkan__native_form **link = &it->forms->next; *link; link = &(*link)->next) {
        vulkan__native_form *form = *link;
        if (form->stream && !vulkan__stream_passed(device, form->stream, form->ticket))
            continue;
        *link = form->next;
        *out_form = form;
        return DDISP_STATUS_OK;
    }
    return make_form(device, graph, it->variant, out_form);
}

static ddisp_status record_form(vulkan__device *device, vulkan__graph *graph,
                                const vulkan__recorded *it, const ddisp_backend_launch *launch,
                                vulkan__native_values *values, vulkan__native_form *form)
{
    ddisp_status status = DDISP_STATUS_OK;
    if (!form->commands)
        status = vulkan__graph_allocate(device, graph, &form->commands);
    if (status == DDISP_STATUS_OK && values->wants_block && !form->block.mapped)
        status = vulkan__ring_keep(device, &graph->arguments, it->block_bytes, &form->block);
    if (status == DDISP_STATUS_OK)
        status = vulkan__graph_commands_begin(device, form->commands);
    if (status != DDISP_STATUS_OK)
        return status;
    if (values->wants_block) {
        memcpy(form->block.mapped, launch->block, it->block_bytes);
        vulkan__native_block(values, &form->block, it->block_bytes);
    }
    vulkan__native_write(device, it->variant, values, form->sets);
    vulkan__full_barrier(device, form->commands);
    device->table.vkCmdBindPipeline(form->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                    it->variant->pipeline);
    vulkan__native_record(device, form->commands, it->variant, values, form->sets, it->grid);
    return vulkan__graph_commands_end(device, form->commands);
}

/** Records the launch once more; the present form stays until that is done. */
static ddisp_status change_native(vulkan__device *device, vulkan__graph *graph,
                                  vulkan__recorded *it, const ddisp_backend_launch *launch)
{
    vulkan__native_values values;
    vulkan__native_form *form = NULL, *present = it->forms;
    ddisp_status status = vulkan__native_fill(device, launch, &values);
    if (status == DDISP_STATUS_OK)
        status = take_form(device, graph, it, &form);
    if (status != DDISP_STATUS_OK)
        return status;
    status = record_form(device, graph, it, launch, &values, form);
    if (status != DDISP_STATUS_OK) {
        if (form->commands) /* in a state that is not known */
            device->table.vkFreeCommandBuffers(device->handle, graph->pool, 1, &form->commands);
        form->commands = VK_NULL_HANDLE;
        form->stream = NULL;
        form->next = present->next;
        present->next = form;
        return status;
    }
    present->stream = graph->stream;
    present->ticket = graph->ticket;
    form->next = present;
    it->forms = form;
    graph->buffers[it->buffer] = form->commands;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__graph_update(void *device_handle, void *graph_handle, uint32_t index,
                                  const ddisp_backend_launch *launch)
{
    vulkan__device *device = device_handle;
    vulkan__graph *graph = graph_handle;
    ddisp_status status = vulkan__graph_check(device, graph);
    if (status == DDISP_STATUS_OK && index >= graph->launch_count)
        status = backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                              "the graph has %u recorded launches, and no number %u",
                              graph->launch_count, index);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__recorded *it = &graph->launches[index];
    return it->variant->natives ? change_native(device, graph, it, launch)
                                : change_block(device, graph, it, launch->block);
}
