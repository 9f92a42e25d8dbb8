/*
 * raw_vulkan.c - the benchmark's rival on Vulkan: a device of its own, buffers with addresses, two
 * pipelines, and command buffers recorded by hand.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include "raw.h"

#include "hand_both.spv.h"
#include "hand_one.spv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { A, B, GY, GA, GB, BUFFERS };

typedef struct push {
    uint64_t address[BUFFERS];
    uint64_t n;
} push;

typedef struct vulkan {
    raw base;
    uint64_t n;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkPipelineLayout layout;
    VkPipeline one, both;
    VkBuffer buffer[BUFFERS];
    VkDeviceMemory memory[BUFFERS];
    push push;
} vulkan;

static bool ok(VkResult code, const char *what)
{
    if (code != VK_SUCCESS)
        fprintf(stderr, "vulkan: %s gave %d\n", what, code);
    return code == VK_SUCCESS;
}

static bool choose(vulkan *v, const char *name)
{
    VkPhysicalDevice list[8];
    uint32_t count = 8;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    if (volkInitialize() != VK_SUCCESS || vkCreateInstance(&info, NULL, &v->instance) != VK_SUCCESS)
        return false;
    volkLoadInstance(v->instance);
    (void)vkEnumeratePhysicalDevices(v->instance, &count, list);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(list[i], &properties);
        if (strcmp(properties.deviceName, name) == 0) {
            v->physical = list[i];
            return true;
        }
    }
    return false;
}

static bool open_device(vulkan *v)
{
    float priority = 1;
    const char *extension = VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
        .shaderBufferFloat32Atomics = VK_TRUE,
        .shaderBufferFloat32AtomicAdd = VK_TRUE};
    VkPhysicalDeviceVulkan12Features features12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = &atomics,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &features12,
                                          .features = {.shaderInt64 = VK_TRUE}};
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 1,
                               .ppEnabledExtensionNames = &extension};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (!ok(vkCreateDevice(v->physical, &info, NULL, &v->device), "vkCreateDevice"))
        return false;
    volkLoadDevice(v->device);
    vkGetDeviceQueue(v->device, 0, 0, &v->queue);
    if (!ok(vkCreateCommandPool(v->device, &pool, NULL, &v->pool), "vkCreateCommandPool") ||
        !ok(vkCreateFence(v->device, &fence, NULL, &v->fence), "vkCreateFence"))
        return false;
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = v->pool,
                                            .commandBufferCount = 1};
    return ok(vkAllocateCommandBuffers(v->device, &allocate, &v->commands),
              "vkAllocateCommandBuffers");
}

static bool make_pipeline(vulkan *v, const uint32_t *words, size_t size, VkPipeline *out_pipeline)
{
    VkShaderModule module;
    VkShaderModuleCreateInfo shader = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = words};
    if (!ok(vkCreateShaderModule(v->device, &shader, NULL, &module), "vkCreateShaderModule"))
        return false;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = v->layout};
    VkResult code =
        vkCreateComputePipelines(v->device, VK_NULL_HANDLE, 1, &info, NULL, out_pipeline);
    vkDestroyShaderModule(v->device, module, NULL);
    return ok(code, "vkCreateComputePipelines");
}

static bool make_buffer(vulkan *v, int i)
{
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = v->n * 4,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags};
    VkPhysicalDeviceMemoryProperties memory;
    VkMemoryRequirements needs;
    if (!ok(vkCreateBuffer(v->device, &info, NULL, &v->buffer[i]), "vkCreateBuffer"))
        return false;
    vkGetBufferMemoryRequirements(v->device, v->buffer[i], &needs);
    vkGetPhysicalDeviceMemoryProperties(v->physical, &memory);
    allocate.allocationSize = needs.size;
    for (uint32_t k = memory.memoryTypeCount; k-- > 0;)
        if ((needs.memoryTypeBits >> k & 1) &&
            (memory.memoryTypes[k].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
            allocate.memoryTypeIndex = k;
    if (!ok(vkAllocateMemory(v->device, &allocate, NULL, &v->memory[i]), "vkAllocateMemory") ||
        !ok(vkBindBufferMemory(v->device, v->buffer[i], v->memory[i], 0), "vkBindBufferMemory"))
        return false;
    VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                       .buffer = v->buffer[i]};
    v->push.address[i] = vkGetBufferDeviceAddress(v->device, &where);
    return true;
}

static void barrier(vulkan *v)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    vkCmdPipelineBarrier(v->commands, stages, stages, 0, 1, &memory, 0, NULL, 0, NULL);
}

static void record(vulkan *v, enum raw_work work)
{
    if (work == RAW_COPY) {
        VkBufferCopy region = {.size = v->n * 4};
        vkCmdCopyBuffer(v->commands, v->buffer[B], v->buffer[GB], 1, &region);
        barrier(v);
        return;
    }
    if (work == RAW_SCRATCH) {
        vkCmdFillBuffer(v->commands, v->buffer[GB], 0, VK_WHOLE_SIZE, 0);
        barrier(v);
    }
    vkCmdBindPipeline(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                      work == RAW_ONE ? v->one : v->both);
    vkCmdPushConstants(v->commands, v->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof v->push,
                       &v->push);
    vkCmdDispatch(v->commands, (uint32_t)((v->n + 255) / 256), 1, 1);
    barrier(v);
}

static bool run(raw *self, enum raw_work work, uint32_t count)
{
    vulkan *v = (vulkan *)self;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &v->commands};
    if (!ok(vkBeginCommandBuffer(v->commands, &begin), "vkBeginCommandBuffer"))
        return false;
    for (uint32_t i = 0; i < count; i++)
        record(v, work);
    return ok(vkEndCommandBuffer(v->commands), "vkEndCommandBuffer") &&
           ok(vkQueueSubmit(v->queue, 1, &submit, v->fence), "vkQueueSubmit") &&
           ok(vkWaitForFences(v->device, 1, &v->fence, VK_TRUE, UINT64_MAX), "vkWaitForFences") &&
           ok(vkResetFences(v->device, 1, &v->fence), "vkResetFences");
}

static uint64_t memory(raw *self)
{
    (void)self;
    return 0;
}

static void close_vulkan(raw *self)
{
    vulkan *v = (vulkan *)self;
    if (v->device) {
        for (int i = 0; i < BUFFERS; i++) {
            vkDestroyBuffer(v->device, v->buffer[i], NULL);
            vkFreeMemory(v->device, v->memory[i], NULL);
        }
        vkDestroyPipeline(v->device, v->one, NULL);
        vkDestroyPipeline(v->device, v->both, NULL);
        vkDestroyPipelineLayout(v->device, v->layout, NULL);
        vkDestroyFence(v->device, v->fence, NULL);
        vkDestroyCommandPool(v->device, v->pool, NULL);
        vkDestroyDevice(v->device, NULL);
    }
    if (v->instance)
        vkDestroyInstance(v->instance, NULL);
    free(v);
}

raw *raw_vulkan_open(uint64_t n, const char *device_name)
{
    vulkan *v = calloc(1, sizeof *v);
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = sizeof v->push};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    if (!v)
        return NULL;
    v->base = (raw){"vulkan", run, memory, close_vulkan};
    v->n = v->push.n = n;
    bool good = choose(v, device_name) && open_device(v) &&
                ok(vkCreatePipelineLayout(v->device, &layout, NULL, &v->layout), "layout") &&
                make_pipeline(v, hand_one_spv, sizeof hand_one_spv, &v->one) &&
                make_pipeline(v, hand_both_spv, sizeof hand_both_spv, &v->both);
    for (int i = 0; i < BUFFERS && good; i++)
        good = make_buffer(v, i);
    if (good)
        return &v->base;
    close_vulkan(&v->base);
    return NULL;
}
