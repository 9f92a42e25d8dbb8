/*
 * application.c - see application.h.
 */
#include "application.h"

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                               const char *name);

static char unavailable[600];

void application_expects(ddisp_status status, ddisp_status expected, const char *text,
                         const char *call, int line)
{
    char message[1024] = "";
    (void)ddisp_last_error(message, sizeof message, NULL);
    if (status != expected)
        fail_msg("line %d: %s gave %s, not %s: %s", line, call, ddisp_status_name(status),
                 ddisp_status_name(expected), message);
    if (expected != DDISP_STATUS_OK && !strstr(message, text))
        fail_msg("line %d: no '%s' in: %s", line, text, message);
}

static bool make_instance(application *app)
{
    const VkApplicationInfo info = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &info};
    PFN_vkCreateInstance make =
        (PFN_vkCreateInstance)vkGetInstanceProcAddr(NULL, "vkCreateInstance");
    if (!make || make(&create, NULL, &app->instance) != VK_SUCCESS)
        return false;
#define FIND(name) app->name = (PFN_##name)vkGetInstanceProcAddr(app->instance, #name);
    APPLICATION_CALLS(FIND)
#undef FIND
    uint32_t count = 1;
    VkResult result = app->vkEnumeratePhysicalDevices(app->instance, &count, &app->physical);
    return (result == VK_SUCCESS || result == VK_INCOMPLETE) && count == 1;
}

VkDevice application_device(application *app, const void *features,
                            const VkPhysicalDeviceFeatures *core, uint32_t extension_count,
                            const char *const *extensions)
{
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .pNext = features,
                                       .pEnabledFeatures = core,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue,
                                       .enabledExtensionCount = extension_count,
                                       .ppEnabledExtensionNames = extensions};
    VkDevice device = VK_NULL_HANDLE;
    if (app->vkCreateDevice(app->physical, &create, NULL, &device) != VK_SUCCESS)
        fail_msg("vkCreateDevice failed");
    return device;
}

static void make_device(application *app)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    app->device = application_device(app, app->needs.features, NULL, app->needs.extension_count,
                                     app->needs.extensions);
    app->vkGetDeviceQueue(app->device, 0, 0, &app->queue);
    app->vkGetPhysicalDeviceMemoryProperties(app->physical, &app->memory);
    assert_int_equal(app->vkCreateCommandPool(app->device, &pool, NULL, &app->pool), VK_SUCCESS);
}

int application_open(void **state)
{
    static application app;
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.backends = "vulkan";
    memset(&app, 0, sizeof app);
    *state = &app;
    if (ddisp_context_create(&desc, &app.context) != DDISP_STATUS_OK)
        return -1;
    if (!make_instance(&app)) {
        (void)snprintf(unavailable, sizeof unavailable, "there is no Vulkan device");
        return 0;
    }
    app.needs.head.size = (uint32_t)sizeof app.needs;
    app.needs.head.type = DDISP_CHAIN_VULKAN_NEEDS;
    app.needs.instance = app.instance;
    app.needs.physical_device = app.physical;
    app.needs.api_version = VK_API_VERSION_1_3;
    if (ddisp_vulkan_requirements(app.context, &app.needs) != DDISP_STATUS_OK) {
        (void)ddisp_last_error(unavailable, sizeof unavailable, NULL);
        return 0;
    }
    make_device(&app);
    return 0;
}

int application_close(void **state)
{
    application *app = *state;
    ddisp_context_release(app->context);
    if (app->device) {
        (void)app->vkDeviceWaitIdle(app->device);
        app->vkDestroyCommandPool(app->device, app->pool, NULL);
        app->vkDestroyDevice(app->device, NULL);
    }
    if (app->instance)
        app->vkDestroyInstance(app->instance, NULL);
    return 0;
}

application *application_of(void **state)
{
    application *app = *state;
    if (!app->device) {
        print_message("# skipped: %s\n", unavailable);
        skip();
    }
    app->locks = 0;
    return app;
}

static void lock(void *user_data)
{
    application *app = user_data;
    app->locked++;
    app->locks++;
}

static void unlock(void *user_data)
{
    ((application *)user_data)->locked--;
}

ddisp_vulkan_device_desc application_desc(application *app, ddisp_vulkan_queue *queue)
{
    ddisp_vulkan_device_desc desc = DDISP_ZERO;
    *queue =
        (ddisp_vulkan_queue){.queue = app->queue, .user_data = app, .lock = lock, .unlock = unlock};
    desc.head.size = (uint32_t)sizeof desc;
    desc.head.type = DDISP_CHAIN_VULKAN_DEVICE;
    desc.instance = app->instance;
    desc.physical_device = app->physical;
    desc.device = app->device;
    desc.api_version = VK_API_VERSION_1_3;
    desc.queues = queue;
    desc.queue_count = 1;
    desc.extension_count = app->needs.extension_count;
    desc.extensions = app->needs.extensions;
    desc.features = app->needs.features;
    return desc;
}

/* ---- buffers and work of the application's own */

application_buffer application_buffer_make(application *app, VkBufferUsageFlags usage,
                                           uint64_t size_bytes)
{
    application_buffer made = {.size_bytes = size_bytes};
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkBufferCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size_bytes, .usage = usage};
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = app->needs.memory_flags};
    VkMemoryRequirements needs;
    void *mapped = NULL;
    assert_int_equal(app->vkCreateBuffer(app->device, &create, NULL, &made.handle), VK_SUCCESS);
    app->vkGetBufferMemoryRequirements(app->device, made.handle, &needs);
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags,
                                     .allocationSize = needs.size};
    for (uint32_t i = app->memory.memoryTypeCount; i-- > 0;)
        if ((needs.memoryTypeBits >> i & 1) &&
            (app->memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            allocate.memoryTypeIndex = i;
    assert_int_equal(app->vkAllocateMemory(app->device, &allocate, NULL, &made.memory), VK_SUCCESS);
    assert_int_equal(app->vkBindBufferMemory(app->device, made.handle, made.memory, 0), VK_SUCCESS);
    assert_int_equal(app->vkMapMemory(app->device, made.memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                     VK_SUCCESS);
    made.values = mapped;
    return made;
}

void application_buffer_end(application *app, application_buffer *buffer)
{
    app->vkDestroyBuffer(app->device, buffer->handle, NULL);
    app->vkFreeMemory(app->device, buffer->memory, NULL);
}

void application_submit(application *app, VkBuffer target, VkBuffer source, uint64_t size_bytes,
                        float value)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = app->pool,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkBufferCopy region = {.size = size_bytes};
    VkCommandBuffer commands;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(app->vkAllocateCommandBuffers(app->device, &allocate, &commands), VK_SUCCESS);
    assert_int_equal(app->vkBeginCommandBuffer(commands, &begin), VK_SUCCESS);
    if (source)
        app->vkCmdCopyBuffer(commands, source, target, 1, &region);
    else
        app->vkCmdFillBuffer(commands, target, 0, size_bytes, bits);
    assert_int_equal(app->vkEndCommandBuffer(commands), VK_SUCCESS);
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &commands};
    assert_int_equal(app->locked, 0);
    assert_int_equal(app->vkQueueSubmit(app->queue, 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
}
