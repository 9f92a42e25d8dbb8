/*
 * vulkan_launch.c - recording one dispatch: the argument block goes to memory that the device sees,
 * its address to the push constant, and a barrier before it where its accesses need one.
 */
#include "vulkan_internal.h"

#include <string.h>

ddisp_status vulkan__launch(void *device_handle, void *stream_handle,
                            const ddisp_backend_launch *launch)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    const vulkan__variant *variant = launch->variant;
    if (!launch->block)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "the Vulkan backend launches entries with the standard argument block; "
                            "this one has %u native arguments",
                            launch->native_count);
    vulkan__piece block;
    ddisp_status status =
        vulkan__ring_take(device, stream, &stream->arguments, launch->block_size_bytes, &block);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(block.mapped, launch->block, launch->block_size_bytes);

    const struct VolkDeviceTable *vk = &device->table;
    VkCommandBuffer commands = stream->open->commands;
    vulkan__batch_order(device, stream, launch->accesses, launch->access_count);
    if (stream->bound != variant->pipeline) {
        vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, variant->pipeline);
        stream->bound = variant->pipeline;
    }
    vk->vkCmdPushConstants(commands, variant->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           (uint32_t)sizeof block.address, &block.address);
    vk->vkCmdDispatch(commands, launch->grid[0], launch->grid[1], launch->grid[2]);
    return DDISP_STATUS_OK;
}
