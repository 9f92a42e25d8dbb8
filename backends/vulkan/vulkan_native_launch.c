/*
 * vulkan_native_launch.c - the arguments of one launch of an existing shader: numbers and addresses
 * into the bytes of the push constants, ranges of memory into descriptors. A descriptor can only
 * begin at some offsets; where a tensor does not, the bytes between go to the shader as its offset
 * in elements, or the launch is refused.
 */
#include "vulkan_native.h"

/** An element that is not where the descriptor begins needs an offset that the shader knows. */
static ddisp_status check_lead(vulkan__device *device, const ddisp_backend_launch *launch,
                               const vulkan__natives *natives, uint32_t i, uint64_t lead)
{
    const ddisp_native_arg *arg = launch->natives[i].arg;
    char what[BACKEND_NATIVE_TEXT];
    if (lead == 0)
        return DDISP_STATUS_OK;
    const char *advice = arg->source == DDISP_SOURCE_DATA
                             ? "give the shader the offset (DDISP_SOURCE_OFFSET)"
                             : "only data can have an offset";
    for (uint32_t k = 0; k < natives->count; k++)
        if (natives->places[k].data == i && launch->natives[k].arg->source == DDISP_SOURCE_OFFSET) {
            if (natives->places[k].element_bytes)
                return DDISP_STATUS_OK;
            advice = "declare the parameter with a dtype, so that its offset can be counted";
        }
    backend_native_describe(NULL, arg, what, sizeof what);
    return backend_fail(
        device->services, DDISP_STATUS_LAYOUT_MISMATCH, 0,
        "native argument %u (%s): element (0, ..., 0) lies %" PRIu64
        " bytes behind an offset that %s can bind, a multiple of %" PRIu64
        "; %s, or pass a tensor that begins there",
        i, what, lead, device->adapter->properties.deviceName,
        (uint64_t)device->adapter->properties.limits.minStorageBufferOffsetAlignment, advice);
}

static ddisp_status fill_descriptors(vulkan__device *device, const ddisp_backend_launch *launch,
                                     vulkan__native_values *values, uint64_t *leads)
{
    const vulkan__natives *natives = ((const vulkan__variant *)launch->variant)->natives;
    for (uint32_t i = 0; i < natives->count; i++) {
        leads[i] = 0;
        if (!natives->places[i].descriptor)
            continue;
        if (launch->natives[i].arg->source == DDISP_SOURCE_BLOCK) {
            values->wants_block = true;
            values->block_descriptor = i;
            continue;
        }
        ddisp_status status =
            vulkan__descriptor_of(device, &launch->natives[i], i, &values->buffers[i], &leads[i]);
        if (status == DDISP_STATUS_OK)
            status = check_lead(device, launch, natives, i, leads[i]);
        if (status != DDISP_STATUS_OK)
            return status;
    }
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__native_fill(vulkan__device *device, const ddisp_backend_launch *launch,
                                 vulkan__native_values *out_values)
{
    const vulkan__natives *natives = ((const vulkan__variant *)launch->variant)->natives;
    uint64_t leads[BACKEND_MAX_NATIVES];
    memset(out_values->push, 0, sizeof out_values->push);
    out_values->wants_block = false;
    out_values->block_push = out_values->block_descriptor = VULKAN__NO_ARGUMENT;
    if (launch->native_count != natives->count)
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "the launch has %u native arguments, the entry takes %u",
                            launch->native_count, natives->count);
    ddisp_status status = fill_descriptors(device, launch, out_values, leads);
    for (uint32_t i = 0; i < natives->count && status == DDISP_STATUS_OK; i++) {
        const vulkan__native_place *place = &natives->places[i];
        ddisp_backend_native native = launch->natives[i];
        if (place->descriptor)
            continue;
        if (native.arg->source == DDISP_SOURCE_BLOCK) {
            out_values->wants_block = true;
            out_values->block_push = place->location;
        } else if (place->data != VULKAN__NO_ARGUMENT && place->element_bytes &&
                   launch->natives[place->data].range.address) {
            native.value = leads[place->data] / place->element_bytes;
        }
        status = backend_native_fits(device->services, &native, i);
        memcpy(out_values->push + place->location, &native.value, place->size_bytes);
    }
    return status;
}

void vulkan__native_block(vulkan__native_values *values, const vulkan__piece *block,
                          uint32_t size_bytes)
{
    if (values->block_push != VULKAN__NO_ARGUMENT)
        memcpy(values->push + values->block_push, &block->address, sizeof block->address);
    if (values->block_descriptor != VULKAN__NO_ARGUMENT)
        values->buffers[values->block_descriptor] =
            (VkDescriptorBufferInfo){block->buffer, block->offset, size_bytes};
}

void vulkan__native_write(vulkan__device *device, const vulkan__variant *variant,
                          const vulkan__native_values *values, const VkDescriptorSet *sets)
{
    const vulkan__natives *natives = variant->natives;
    VkWriteDescriptorSet writes[BACKEND_MAX_NATIVES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < natives->count; i++)
        if (natives->places[i].descriptor)
            writes[count++] = (VkWriteDescriptorSet){
                .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                .dstSet = sets[natives->places[i].set],
                .dstBinding = natives->places[i].location,
                .descriptorCount = 1,
                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                .pBufferInfo = &values->buffers[i],
            };
    if (count)
        device->table.vkUpdateDescriptorSets(device->handle, count, writes, 0, NULL);
}

void vulkan__native_record(vulkan__device *device, VkCommandBuffer commands,
                           const vulkan__variant *variant, const vulkan__native_values *values,
                           const VkDescriptorSet *sets, const uint32_t grid[3])
{
    const struct VolkDeviceTable *vk = &device->table;
    const vulkan__natives *natives = variant->natives;
    if (natives->set_count)
        vk->vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, variant->layout, 0,
                                    natives->set_count, sets, 0, NULL);
    if (natives->push_bytes)
        vk->vkCmdPushConstants(commands, variant->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                               natives->push_bytes, values->push);
    vulkan__dispatch(device, commands, variant, grid);
}
