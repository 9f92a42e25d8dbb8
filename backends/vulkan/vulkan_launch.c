/*
 * vulkan_launch.c - recording one dispatch: the argument block goes to memory that the device sees,
 * its address to the push constant, and a barrier before it where its accesses need one. Entries
 * with native arguments are given those instead.
 */
#include "vulkan_native.h"

static void bind(vulkan__device *device, vulkan__stream *stream, const vulkan__variant *variant)
{
    if (stream->bound == variant->pipeline)
        return;
    device->table.vkCmdBindPipeline(stream->open->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                    variant->pipeline);
    stream->bound = variant->pipeline;
    stream->pushed = 0; /* by whom, and to which layout, is not known */
}

/** The barrier before the dispatch. A graph's launches may be given other memory, so they wait for
 * everything. */
static void order(vulkan__device *device, vulkan__stream *stream,
                  const ddisp_backend_launch *launch)
{
    if (stream->capture)
        vulkan__batch_order(device, stream, NULL, 0);
    else
        vulkan__batch_order(device, stream, launch->accesses, launch->access_count);
}

static ddisp_status take_block(vulkan__device *device, vulkan__stream *stream,
                               const ddisp_backend_launch *launch, vulkan__piece *out_block)
{
    return vulkan__arguments_write(device, stream, launch->block, launch->block_size_bytes,
                                   out_block);
}

static ddisp_status launch_native(vulkan__device *device, vulkan__stream *stream,
                                  const ddisp_backend_launch *launch)
{
    const vulkan__variant *variant = launch->variant;
    vulkan__native_values values;
    VkDescriptorSet sets[VULKAN__MAX_SETS];
    vulkan__piece block;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = vulkan__native_fill(device, launch, &values);
    if (status == DDISP_STATUS_OK && stream->capture)
        status = vulkan__graph_split(device, stream);
    if (status == DDISP_STATUS_OK)
        status = values.wants_block ? take_block(device, stream, launch, &block)
                                    : vulkan__batch_begin(device, stream);
    if (status == DDISP_STATUS_OK)
        status = vulkan__sets_take(device, &stream->open->sets, variant, sets);
    if (status != DDISP_STATUS_OK)
        return status;
    if (values.wants_block)
        vulkan__native_block(&values, &block, launch->block_size_bytes);
    vulkan__native_write(device, variant, &values, sets);
    order(device, stream, launch);
    bind(device, stream, variant);
    vulkan__native_record(device, stream->open->commands, variant, &values, sets, launch->grid);
    return stream->capture ? vulkan__graph_note(device, stream, launch,
                                                values.wants_block ? &block : NULL, sets)
                           : DDISP_STATUS_OK;
}

ddisp_status vulkan__launch(void *device_handle, void *stream_handle,
                            const ddisp_backend_launch *launch)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    const vulkan__variant *variant = launch->variant;
    vulkan__piece block;
    if (variant->natives)
        return launch_native(device, stream, launch);
    ddisp_status status = take_block(device, stream, launch, &block);
    if (status != DDISP_STATUS_OK)
        return status;
    order(device, stream, launch);
    bind(device, stream, variant);
    VkCommandBuffer commands = stream->open->commands;
    if (stream->pushed != block.address) {
        device->table.vkCmdPushConstants(commands, variant->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                         (uint32_t)sizeof block.address, &block.address);
        stream->pushed = block.address;
    }
    vulkan__dispatch(device, commands, variant, launch->grid);
    return stream->capture ? vulkan__graph_note(device, stream, launch, &block, NULL)
                           : DDISP_STATUS_OK;
}
