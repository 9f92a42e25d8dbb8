/*
 * launch_vulkan.c - an empty kernel through Vulkan by hand: push constants, dispatch and barrier
 * recorded into a command buffer of 64, the size of the library's batches, submitted as one;
 * and one recorded before and submitted again. The queue is shared by all threads, under a lock.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include "launch_raw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH      64
#define BUFFERS    8
#define PUSH_BYTES 128u

static struct {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    pthread_mutex_t lock;
} vk = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct lane {
    VkCommandPool pool;
    VkCommandBuffer commands[BUFFERS], recorded;
    VkFence fences[BUFFERS], done;
    bool submitted[BUFFERS];
    uint32_t open, count; /* the buffer that is recorded, launches in it */
    uint32_t push_bytes;
    unsigned char push[PUSH_BYTES];
};

static bool ok(VkResult code, const char *what)
{
    if (code != VK_SUCCESS)
        fprintf(stderr, "launch: %s gave %d\n", what, code);
    return code == VK_SUCCESS;
}

static void record(lane *self, VkCommandBuffer commands)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    vkCmdPipelineBarrier(commands, stages, stages, 0, 1, &memory, 0, NULL, 0, NULL);
    vkCmdPushConstants(commands, vk.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, self->push_bytes,
                       self->push);
    vkCmdDispatch(commands, 1, 1, 1);
}

static bool begin(VkCommandBuffer commands, VkCommandBufferUsageFlags flags)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = flags};
    if (!ok(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer"))
        return false;
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, vk.pipeline);
    return true;
}

static bool submit(VkCommandBuffer commands, VkFence fence)
{
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands};
    (void)pthread_mutex_lock(&vk.lock);
    VkResult code = vkQueueSubmit(vk.queue, 1, &info, fence);
    (void)pthread_mutex_unlock(&vk.lock);
    return ok(code, "vkQueueSubmit");
}

static bool await(lane *self, uint32_t i)
{
    if (!self->submitted[i])
        return true;
    self->submitted[i] = false;
    return ok(vkWaitForFences(vk.device, 1, &self->fences[i], VK_TRUE, UINT64_MAX),
              "vkWaitForFences") &&
           ok(vkResetFences(vk.device, 1, &self->fences[i]), "vkResetFences");
}

static bool flush(lane *self)
{
    uint32_t i = self->open;
    if (!self->count)
        return true;
    self->count = 0;
    self->open = (i + 1) % BUFFERS;
    self->submitted[i] = true;
    return ok(vkEndCommandBuffer(self->commands[i]), "vkEndCommandBuffer") &&
           submit(self->commands[i], self->fences[i]);
}

static bool launch(lane *self)
{
    if (self->count == BATCH && !flush(self))
        return false;
    if (!self->count &&
        !(await(self, self->open) &&
          begin(self->commands[self->open], VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)))
        return false;
    self->count++;
    record(self, self->commands[self->open]);
    return true;
}

static bool replay(lane *self)
{
    return submit(self->recorded, VK_NULL_HANDLE);
}

static bool wait(lane *self)
{
    bool good = true;
    for (uint32_t i = 0; i < BUFFERS; i++)
        good &= await(self, i);
    (void)pthread_mutex_lock(&vk.lock);
    good &= ok(vkQueueSubmit(vk.queue, 0, NULL, self->done), "vkQueueSubmit");
    (void)pthread_mutex_unlock(&vk.lock);
    return good &&
           ok(vkWaitForFences(vk.device, 1, &self->done, VK_TRUE, UINT64_MAX), "vkWaitForFences") &&
           ok(vkResetFences(vk.device, 1, &self->done), "vkResetFences");
}

static void close_lane(lane *self)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        vkDestroyFence(vk.device, self->fences[i], NULL);
    vkDestroyFence(vk.device, self->done, NULL);
    vkDestroyCommandPool(vk.device, self->pool, NULL);
    free(self);
}

static lane *open_lane(uint32_t block_bytes, uint32_t tensors)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    (void)block_bytes;
    lane *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->push_bytes = 8 * (tensors + 1) < PUSH_BYTES ? 8 * (tensors + 1) : PUSH_BYTES;
    bool good = ok(vkCreateCommandPool(vk.device, &pool, NULL, &self->pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = self->pool,
                                            .commandBufferCount = BUFFERS};
    good = good && ok(vkAllocateCommandBuffers(vk.device, &allocate, self->commands), "allocate");
    allocate.commandBufferCount = 1;
    good = good && ok(vkAllocateCommandBuffers(vk.device, &allocate, &self->recorded), "allocate");
    for (uint32_t i = 0; i < BUFFERS && good; i++)
        good = ok(vkCreateFence(vk.device, &fence, NULL, &self->fences[i]), "vkCreateFence");
    good = good && ok(vkCreateFence(vk.device, &fence, NULL, &self->done), "vkCreateFence") &&
           begin(self->recorded, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    for (int i = 0; i < GRAPH_LAUNCHES && good; i++)
        record(self, self->recorded);
    if (good && ok(vkEndCommandBuffer(self->recorded), "vkEndCommandBuffer"))
        return self;
    close_lane(self);
    return NULL;
}

static bool choose(const char *name)
{
    VkPhysicalDevice list[8];
    uint32_t count = 8;
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    if (volkInitialize() != VK_SUCCESS || vkCreateInstance(&info, NULL, &vk.instance) != VK_SUCCESS)
        return false;
    volkLoadInstance(vk.instance);
    (void)vkEnumeratePhysicalDevices(vk.instance, &count, list);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(list[i], &properties);
        if (strcmp(properties.deviceName, name) == 0)
            vk.physical = list[i];
    }
    return vk.physical != VK_NULL_HANDLE;
}

static bool open_device(const uint32_t *words, uint32_t size_bytes)
{
    const float priority = 1;
    const VkPhysicalDeviceFeatures features = {.shaderInt64 = VK_TRUE};
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .pEnabledFeatures = &features};
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                       .size = PUSH_BYTES};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    const VkShaderModuleCreateInfo shader = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                             .codeSize = size_bytes,
                                             .pCode = words};
    VkShaderModule module;
    if (!ok(vkCreateDevice(vk.physical, &info, NULL, &vk.device), "vkCreateDevice"))
        return false;
    volkLoadDevice(vk.device);
    vkGetDeviceQueue(vk.device, 0, 0, &vk.queue);
    if (!ok(vkCreatePipelineLayout(vk.device, &layout, NULL, &vk.layout), "layout") ||
        !ok(vkCreateShaderModule(vk.device, &shader, NULL, &module), "vkCreateShaderModule"))
        return false;
    const VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = vk.layout};
    return ok(vkCreateComputePipelines(vk.device, VK_NULL_HANDLE, 1, &pipeline, NULL, &vk.pipeline),
              "vkCreateComputePipelines");
}

const rival *launch_vulkan_open(const char *device_name, const uint32_t *words, uint32_t size_bytes)
{
    static const rival vulkan = {"vulkan", open_lane, launch, flush, replay, wait, close_lane};
    return choose(device_name) && open_device(words, size_bytes) ? &vulkan : NULL;
}
