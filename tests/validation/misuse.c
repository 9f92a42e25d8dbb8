/*
 * Makes one deliberate mistake with Vulkan: a buffer of 0 bytes. tools/test runs it under the
 * validation layer and wants a message, so that silence of the layer in other tests means
 * something.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <vulkan/vulkan.h>

int main(void)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &application};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queue};
    const VkBufferCreateInfo buffer_info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                            .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkBuffer buffer = VK_NULL_HANDLE;
    uint32_t count = 1;

    if (vkCreateInstance(&instance_info, NULL, &instance) != VK_SUCCESS) {
        fprintf(stderr, "no Vulkan instance\n");
        return 2;
    }
    VkResult result = vkEnumeratePhysicalDevices(instance, &count, &physical);
    if ((result != VK_SUCCESS && result != VK_INCOMPLETE) || count == 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device) != VK_SUCCESS) {
        fprintf(stderr, "no Vulkan device\n");
        return 2;
    }
    if (vkCreateBuffer(device, &buffer_info, NULL, &buffer) == VK_SUCCESS)
        vkDestroyBuffer(device, buffer, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
