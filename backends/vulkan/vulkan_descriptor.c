/*
 * vulkan_descriptor.c - storage buffers for shaders that take them by set and binding: layouts of a
 * variant, sets from pools that live as long as the batch or graph that uses them, and the buffer
 * and offset that a range of memory has. Where an argument shows nothing, a null descriptor, or a
 * small buffer where the device has none: what uses that is not run.
 */
#include "vulkan_native.h"

#define POOL_SETS        64u
#define POOL_DESCRIPTORS 512u
#define DUMMY_BYTES      256u

struct vulkan__sets {
    VkDescriptorPool pool;
    uint32_t sets_left, descriptors_left;
    vulkan__sets *next;
};

/* ---- layouts ---- */

static ddisp_status create_set_layout(vulkan__device *device, vulkan__variant *variant,
                                      uint32_t set)
{
    VkDescriptorSetLayoutBinding bindings[BACKEND_MAX_NATIVES];
    const vulkan__natives *natives = variant->natives;
    uint32_t count = 0;
    for (uint32_t i = 0; i < natives->count; i++)
        if (natives->places[i].descriptor && natives->places[i].set == set)
            bindings[count++] = (VkDescriptorSetLayoutBinding){
                .binding = natives->places[i].location,
                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                .descriptorCount = 1,
                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
            };
    const VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = count,
        .pBindings = bindings,
    };
    VkResult result = device->table.vkCreateDescriptorSetLayout(device->handle, &info, NULL,
                                                                &variant->set_layouts[set]);
    if (result != VK_SUCCESS)
        variant->set_layouts[set] = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreateDescriptorSetLayout");
}

ddisp_status vulkan__layouts_create(vulkan__device *device, vulkan__variant *variant)
{
    const vulkan__natives *natives = variant->natives;
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                       .size = natives->push_bytes};
    for (uint32_t set = 0; set < natives->set_count; set++) {
        ddisp_status status = create_set_layout(device, variant, set);
        if (status != DDISP_STATUS_OK)
            return status;
    }
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = natives->set_count,
        .pSetLayouts = variant->set_layouts,
        .pushConstantRangeCount = natives->push_bytes ? 1 : 0,
        .pPushConstantRanges = &range,
    };
    VkResult result =
        device->table.vkCreatePipelineLayout(device->handle, &info, NULL, &variant->layout);
    if (result != VK_SUCCESS)
        variant->layout = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreatePipelineLayout");
}

void vulkan__layouts_destroy(vulkan__device *device, vulkan__variant *variant)
{
    if (variant->layout)
        device->table.vkDestroyPipelineLayout(device->handle, variant->layout, NULL);
    for (uint32_t set = 0; set < VULKAN__MAX_SETS; set++)
        if (variant->set_layouts[set])
            device->table.vkDestroyDescriptorSetLayout(device->handle, variant->set_layouts[set],
                                                       NULL);
}

/* ---- sets ---- */

static void refill(vulkan__sets *pool)
{
    pool->sets_left = POOL_SETS;
    pool->descriptors_left = POOL_DESCRIPTORS;
}

static ddisp_status add_pool(vulkan__device *device, vulkan__sets **list)
{
    vulkan__sets *pool = backend_allocate(device->services, sizeof *pool);
    if (!pool)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for a pool of descriptor sets");
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, POOL_DESCRIPTORS};
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = POOL_SETS,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkResult result =
        device->table.vkCreateDescriptorPool(device->handle, &info, NULL, &pool->pool);
    if (result != VK_SUCCESS) {
        backend_release(device->services, pool);
        return vulkan__check(device, result, "vkCreateDescriptorPool");
    }
    refill(pool);
    pool->next = *list;
    *list = pool;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__sets_take(vulkan__device *device, vulkan__sets **list,
                               const vulkan__variant *variant, VkDescriptorSet *out_sets)
{
    const vulkan__natives *natives = variant->natives;
    ddisp_status status = DDISP_STATUS_OK;
    vulkan__sets *pool = *list;
    if (natives->set_count == 0)
        return DDISP_STATUS_OK;
    while (pool && (pool->sets_left < natives->set_count ||
                    pool->descriptors_left < natives->descriptor_count))
        pool = pool->next;
    if (!pool) {
        status = add_pool(device, list);
        pool = *list;
    }
    if (status != DDISP_STATUS_OK)
        return status;
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = pool->pool,
        .descriptorSetCount = natives->set_count,
        .pSetLayouts = variant->set_layouts,
    };
    status = vulkan__check(device,
                           device->table.vkAllocateDescriptorSets(device->handle, &info, out_sets),
                           "vkAllocateDescriptorSets");
    if (status == DDISP_STATUS_OK) {
        pool->sets_left -= natives->set_count;
        pool->descriptors_left -= natives->descriptor_count;
    }
    return status;
}

void vulkan__sets_reset(vulkan__device *device, vulkan__sets *list)
{
    for (; list; list = list->next) {
        if (list->sets_left == POOL_SETS)
            continue;
        (void)device->table.vkResetDescriptorPool(device->handle, list->pool, 0);
        refill(list);
    }
}

void vulkan__sets_close(vulkan__device *device, vulkan__sets **list)
{
    while (*list) {
        vulkan__sets *pool = *list;
        *list = pool->next;
        device->table.vkDestroyDescriptorPool(device->handle, pool->pool, NULL);
        backend_release(device->services, pool);
    }
}

/* ---- what a descriptor shows ---- */

static ddisp_status show_nothing(vulkan__device *device, VkDescriptorBufferInfo *out_info)
{
    ddisp_status status = DDISP_STATUS_OK;
    *out_info = (VkDescriptorBufferInfo){.buffer = VK_NULL_HANDLE, .range = VK_WHOLE_SIZE};
    if (device->adapter->features & VULKAN__BIT(NULL_DESCRIPTOR))
        return DDISP_STATUS_OK;
    pthread_mutex_lock(&device->builtin_lock);
    VkResult result = VK_SUCCESS;
    const char *function = "";
    if (!device->dummy.handle)
        result = vulkan__buffer_create(device, VULKAN__PURPOSE_DEVICE, DUMMY_BYTES, &device->dummy,
                                       &function);
    out_info->buffer = device->dummy.handle;
    pthread_mutex_unlock(&device->builtin_lock);
    if (result != VK_SUCCESS)
        status = vulkan__check(device, result, function);
    return status;
}

ddisp_status vulkan__descriptor_of(vulkan__device *device, const ddisp_backend_native *native,
                                   uint32_t index, VkDescriptorBufferInfo *out_info,
                                   uint64_t *out_lead)
{
    const VkPhysicalDeviceLimits *limits = &device->adapter->properties.limits;
    char what[BACKEND_NATIVE_TEXT], text[BACKEND_NATIVE_TEXT + 40];
    vulkan__place place;
    *out_lead = 0;
    if (native->range.address == 0 || native->range.size_bytes == 0)
        return show_nothing(device, out_info);
    backend_native_describe(NULL, native->arg, what, sizeof what);
    (void)snprintf(text, sizeof text, "native argument %u (%s)", index, what);
    ddisp_status status = vulkan__place_find(device, &native->range, text, &place);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t before = place.offset % limits->minStorageBufferOffsetAlignment;
    uint64_t bytes = native->range.size_bytes + before;
    if (bytes > limits->maxStorageBufferRange)
        return backend_fail(device->services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "%s has %" PRIu64 " bytes, %s shows at most %u in a storage buffer "
                            "(maxStorageBufferRange); pass its address instead",
                            text, bytes, device->adapter->properties.deviceName,
                            limits->maxStorageBufferRange);
    *out_info = (VkDescriptorBufferInfo){place.buffer, place.offset - before, bytes};
    *out_lead = native->value - (native->range.address - before);
    return DDISP_STATUS_OK;
}
