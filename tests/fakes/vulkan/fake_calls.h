/*
 * fake_calls.h - the functions that the stand-in loader counts: everything the Vulkan backend uses.
 *   RESULT(name, change, parameters, arguments)          gives a VkResult: can be made to fail
 *   SILENT(name, change, parameters, arguments)          gives nothing
 * change: objects that a call which succeeds adds (1) or, as an expression, takes away.
 * Those with a body of their own in fake_vulkan.c are marked OWN_RESULT or OWN_SILENT.
 */
#ifndef FAKE_CALLS_H
#define FAKE_CALLS_H

#define DEVICE_ VkDevice device

#define FAKE_CALLS(RESULT, OWN_RESULT, SILENT, OWN_SILENT)                                         \
    RESULT(vkCreateInstance, 1,                                                                    \
           (const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks,              \
            VkInstance *out),                                                                      \
           (info, callbacks, out))                                                                 \
    SILENT(vkDestroyInstance, -(instance != NULL),                                                 \
           (VkInstance instance, const VkAllocationCallbacks *callbacks), (instance, callbacks))   \
    RESULT(vkEnumeratePhysicalDevices, 0,                                                          \
           (VkInstance instance, uint32_t * count, VkPhysicalDevice * list),                       \
           (instance, count, list))                                                                \
    OWN_RESULT(vkEnumerateDeviceExtensionProperties, 0,                                            \
               (VkPhysicalDevice physical, const char *layer, uint32_t *count,                     \
                VkExtensionProperties *list),                                                      \
               (physical, layer, count, list))                                                     \
    OWN_SILENT(vkGetPhysicalDeviceProperties, 0,                                                   \
               (VkPhysicalDevice physical, VkPhysicalDeviceProperties * properties),               \
               (physical, properties))                                                             \
    OWN_SILENT(vkGetPhysicalDeviceProperties2, 0,                                                  \
               (VkPhysicalDevice physical, VkPhysicalDeviceProperties2 * properties),              \
               (physical, properties))                                                             \
    OWN_SILENT(vkGetPhysicalDeviceFeatures2, 0,                                                    \
               (VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 * features),                  \
               (physical, features))                                                               \
    OWN_RESULT(vkCreateDevice, 1,                                                                  \
               (VkPhysicalDevice physical, const VkDeviceCreateInfo *info,                         \
                const VkAllocationCallbacks *callbacks, VkDevice *out),                            \
               (physical, info, callbacks, out))                                                   \
    SILENT(vkDestroyDevice, -(device != NULL), (DEVICE_, const VkAllocationCallbacks *callbacks),  \
           (device, callbacks))                                                                    \
    SILENT(vkGetDeviceQueue, 0, (DEVICE_, uint32_t family, uint32_t index, VkQueue * out),         \
           (device, family, index, out))                                                           \
    RESULT(vkDeviceWaitIdle, 0, (DEVICE_), (device))                                               \
    RESULT(vkCreateBuffer, 1,                                                                      \
           (DEVICE_, const VkBufferCreateInfo *info, const VkAllocationCallbacks *callbacks,       \
            VkBuffer *out),                                                                        \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyBuffer, -(buffer != VK_NULL_HANDLE),                                           \
           (DEVICE_, VkBuffer buffer, const VkAllocationCallbacks *callbacks),                     \
           (device, buffer, callbacks))                                                            \
    SILENT(vkGetBufferMemoryRequirements, 0,                                                       \
           (DEVICE_, VkBuffer buffer, VkMemoryRequirements * out), (device, buffer, out))          \
    RESULT(vkAllocateMemory, 1,                                                                    \
           (DEVICE_, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks,     \
            VkDeviceMemory *out),                                                                  \
           (device, info, callbacks, out))                                                         \
    SILENT(vkFreeMemory, -(memory != VK_NULL_HANDLE),                                              \
           (DEVICE_, VkDeviceMemory memory, const VkAllocationCallbacks *callbacks),               \
           (device, memory, callbacks))                                                            \
    RESULT(vkBindBufferMemory, 0,                                                                  \
           (DEVICE_, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset),                 \
           (device, buffer, memory, offset))                                                       \
    RESULT(vkMapMemory, 0,                                                                         \
           (DEVICE_, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size,                \
            VkMemoryMapFlags flags, void **out),                                                   \
           (device, memory, offset, size, flags, out))                                             \
    RESULT(vkCreatePipelineLayout, 1,                                                              \
           (DEVICE_, const VkPipelineLayoutCreateInfo *info,                                       \
            const VkAllocationCallbacks *callbacks, VkPipelineLayout *out),                        \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyPipelineLayout, -(layout != VK_NULL_HANDLE),                                   \
           (DEVICE_, VkPipelineLayout layout, const VkAllocationCallbacks *callbacks),             \
           (device, layout, callbacks))                                                            \
    RESULT(vkCreateShaderModule, 1,                                                                \
           (DEVICE_, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *callbacks, \
            VkShaderModule *out),                                                                  \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyShaderModule, -(module != VK_NULL_HANDLE),                                     \
           (DEVICE_, VkShaderModule module, const VkAllocationCallbacks *callbacks),               \
           (device, module, callbacks))                                                            \
    RESULT(vkCreateComputePipelines, 1,                                                            \
           (DEVICE_, VkPipelineCache cache, uint32_t count,                                        \
            const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *callbacks,      \
            VkPipeline *out),                                                                      \
           (device, cache, count, infos, callbacks, out))                                          \
    SILENT(vkDestroyPipeline, -(pipeline != VK_NULL_HANDLE),                                       \
           (DEVICE_, VkPipeline pipeline, const VkAllocationCallbacks *callbacks),                 \
           (device, pipeline, callbacks))                                                          \
    RESULT(vkCreateSemaphore, 1,                                                                   \
           (DEVICE_, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *callbacks,    \
            VkSemaphore *out),                                                                     \
           (device, info, callbacks, out))                                                         \
    OWN_SILENT(vkDestroySemaphore, -(semaphore != VK_NULL_HANDLE),                                 \
               (DEVICE_, VkSemaphore semaphore, const VkAllocationCallbacks *callbacks),           \
               (device, semaphore, callbacks))                                                     \
    OWN_RESULT(vkGetSemaphoreCounterValue, 0, (DEVICE_, VkSemaphore semaphore, uint64_t * value),  \
               (device, semaphore, value))                                                         \
    OWN_RESULT(vkWaitSemaphores, 0, (DEVICE_, const VkSemaphoreWaitInfo *info, uint64_t timeout),  \
               (device, info, timeout))                                                            \
    RESULT(vkCreateCommandPool, 1,                                                                 \
           (DEVICE_, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *callbacks,  \
            VkCommandPool *out),                                                                   \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyCommandPool, -(pool != VK_NULL_HANDLE),                                        \
           (DEVICE_, VkCommandPool pool, const VkAllocationCallbacks *callbacks),                  \
           (device, pool, callbacks))                                                              \
    RESULT(vkAllocateCommandBuffers, 0,                                                            \
           (DEVICE_, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out),               \
           (device, info, out))                                                                    \
    RESULT(vkBeginCommandBuffer, 0,                                                                \
           (VkCommandBuffer commands, const VkCommandBufferBeginInfo *info), (commands, info))     \
    OWN_RESULT(vkEndCommandBuffer, 0, (VkCommandBuffer commands), (commands))                      \
    OWN_RESULT(vkQueueSubmit, 0,                                                                   \
               (VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence),          \
               (queue, count, infos, fence))                                                       \
    RESULT(vkCreateFence, 1,                                                                       \
           (DEVICE_, const VkFenceCreateInfo *info, const VkAllocationCallbacks *callbacks,        \
            VkFence *out),                                                                         \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyFence, -(fence != VK_NULL_HANDLE),                                             \
           (DEVICE_, VkFence fence, const VkAllocationCallbacks *callbacks),                       \
           (device, fence, callbacks))                                                             \
    RESULT(vkResetFences, 0, (DEVICE_, uint32_t count, const VkFence *fences),                     \
           (device, count, fences))                                                                \
    RESULT(vkWaitForFences, 0,                                                                     \
           (DEVICE_, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t timeout),       \
           (device, count, fences, all, timeout))                                                  \
    RESULT(vkQueueWaitIdle, 0, (VkQueue queue), (queue))                                           \
    RESULT(vkCreateQueryPool, 1,                                                                   \
           (DEVICE_, const VkQueryPoolCreateInfo *info, const VkAllocationCallbacks *callbacks,    \
            VkQueryPool *out),                                                                     \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyQueryPool, -(pool != VK_NULL_HANDLE),                                          \
           (DEVICE_, VkQueryPool pool, const VkAllocationCallbacks *callbacks),                    \
           (device, pool, callbacks))                                                              \
    RESULT(vkGetQueryPoolResults, 0,                                                               \
           (DEVICE_, VkQueryPool pool, uint32_t first, uint32_t count, size_t size, void *data,    \
            VkDeviceSize stride, VkQueryResultFlags flags),                                        \
           (device, pool, first, count, size, data, stride, flags))                                \
    RESULT(vkCreateDescriptorSetLayout, 1,                                                         \
           (DEVICE_, const VkDescriptorSetLayoutCreateInfo *info,                                  \
            const VkAllocationCallbacks *callbacks, VkDescriptorSetLayout *out),                   \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyDescriptorSetLayout, -(layout != VK_NULL_HANDLE),                              \
           (DEVICE_, VkDescriptorSetLayout layout, const VkAllocationCallbacks *callbacks),        \
           (device, layout, callbacks))                                                            \
    RESULT(vkCreateDescriptorPool, 1,                                                              \
           (DEVICE_, const VkDescriptorPoolCreateInfo *info,                                       \
            const VkAllocationCallbacks *callbacks, VkDescriptorPool *out),                        \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyDescriptorPool, -(pool != VK_NULL_HANDLE),                                     \
           (DEVICE_, VkDescriptorPool pool, const VkAllocationCallbacks *callbacks),               \
           (device, pool, callbacks))                                                              \
    RESULT(vkAllocateDescriptorSets, 0,                                                            \
           (DEVICE_, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out),               \
           (device, info, out))                                                                    \
    RESULT(vkCreatePipelineCache, 1,                                                               \
           (DEVICE_, const VkPipelineCacheCreateInfo *info,                                        \
            const VkAllocationCallbacks *callbacks, VkPipelineCache *out),                         \
           (device, info, callbacks, out))                                                         \
    SILENT(vkDestroyPipelineCache, -(cache != VK_NULL_HANDLE),                                     \
           (DEVICE_, VkPipelineCache cache, const VkAllocationCallbacks *callbacks),               \
           (device, cache, callbacks))                                                             \
    RESULT(vkGetPipelineCacheData, 0, (DEVICE_, VkPipelineCache cache, size_t * size, void *data), \
           (device, cache, size, data))                                                            \
    RESULT(vkQueueBindSparse, 0,                                                                   \
           (VkQueue queue, uint32_t count, const VkBindSparseInfo *infos, VkFence fence),          \
           (queue, count, infos, fence))                                                           \
    RESULT(vkGetMemoryHostPointerPropertiesEXT, 0,                                                 \
           (DEVICE_, VkExternalMemoryHandleTypeFlagBits type, const void *pointer,                 \
            VkMemoryHostPointerPropertiesEXT *out),                                                \
           (device, type, pointer, out))                                                           \
    SILENT(vkCmdBindPipeline, 0,                                                                   \
           (VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline),             \
           (commands, point, pipeline))                                                            \
    SILENT(vkCmdPushConstants, 0,                                                                  \
           (VkCommandBuffer commands, VkPipelineLayout layout, VkShaderStageFlags stages,          \
            uint32_t offset, uint32_t size, const void *values),                                   \
           (commands, layout, stages, offset, size, values))                                       \
    OWN_SILENT(vkCmdDispatch, 0, (VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z),   \
               (commands, x, y, z))                                                                \
    OWN_SILENT(vkCmdBeginDebugUtilsLabelEXT, 0,                                                    \
               (VkCommandBuffer commands, const VkDebugUtilsLabelEXT *label), (commands, label))   \
    OWN_SILENT(vkCmdEndDebugUtilsLabelEXT, 0, (VkCommandBuffer commands), (commands))              \
    OWN_RESULT(vkSetDebugUtilsObjectNameEXT, 0,                                                    \
               (DEVICE_, const VkDebugUtilsObjectNameInfoEXT *info), (device, info))               \
    SILENT(vkCmdCopyBuffer, 0,                                                                     \
           (VkCommandBuffer commands, VkBuffer source, VkBuffer destination, uint32_t count,       \
            const VkBufferCopy *regions),                                                          \
           (commands, source, destination, count, regions))                                        \
    SILENT(vkCmdFillBuffer, 0,                                                                     \
           (VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset, VkDeviceSize size,     \
            uint32_t word),                                                                        \
           (commands, buffer, offset, size, word))                                                 \
    SILENT(vkCmdPipelineBarrier, 0,                                                                \
           (VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,          \
            VkDependencyFlags flags, uint32_t memory_count, const VkMemoryBarrier *memory,         \
            uint32_t buffer_count, const VkBufferMemoryBarrier *buffers, uint32_t image_count,     \
            const VkImageMemoryBarrier *images),                                                   \
           (commands, from, to, flags, memory_count, memory, buffer_count, buffers, image_count,   \
            images))

#endif
