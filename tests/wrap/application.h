/*
 * application.h - a program that uses Vulkan itself: an instance, a device and a queue of its own,
 * and buffers whose memory it sees. Everything is found through vkGetInstanceProcAddr, so that it
 * works with any loader that the test is linked with.
 */
#ifndef DDISP_TESTS_APPLICATION_H
#define DDISP_TESTS_APPLICATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <diffdispatch/diffdispatch.h>
#include <diffdispatch/vulkan.h>

/** The functions that the application calls. */
#define APPLICATION_CALLS(X)                                                                       \
    X(vkDestroyInstance)                                                                           \
    X(vkEnumeratePhysicalDevices)                                                                  \
    X(vkGetPhysicalDeviceMemoryProperties)                                                         \
    X(vkCreateDevice)                                                                              \
    X(vkDestroyDevice)                                                                             \
    X(vkGetDeviceQueue)                                                                            \
    X(vkDeviceWaitIdle)                                                                            \
    X(vkQueueWaitIdle)                                                                             \
    X(vkQueueSubmit)                                                                               \
    X(vkCreateBuffer)                                                                              \
    X(vkDestroyBuffer)                                                                             \
    X(vkGetBufferMemoryRequirements)                                                               \
    X(vkAllocateMemory)                                                                            \
    X(vkFreeMemory)                                                                                \
    X(vkBindBufferMemory)                                                                          \
    X(vkMapMemory)                                                                                 \
    X(vkCreateCommandPool)                                                                         \
    X(vkDestroyCommandPool)                                                                        \
    X(vkAllocateCommandBuffers)                                                                    \
    X(vkBeginCommandBuffer)                                                                        \
    X(vkEndCommandBuffer)                                                                          \
    X(vkCmdFillBuffer)                                                                             \
    X(vkCmdCopyBuffer)

typedef struct application {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkPhysicalDeviceMemoryProperties memory;
    ddisp_context *context;
    ddisp_vulkan_needs needs;
    int locked; /* the queue is locked so often now */
    int locks;  /* and was in all */
#define MEMBER(name) PFN_##name name;
    APPLICATION_CALLS(MEMBER)
#undef MEMBER
} application;

typedef struct application_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t size_bytes;
    float *values;
} application_buffer;

/** cmocka's setup and teardown of a group. Without Vulkan every test is skipped. */
int application_open(void **state);
int application_close(void **state);
/** To be called first by each test. */
application *application_of(void **state);

/** Makes the application's device with these structs and extensions. */
VkDevice application_device(application *app, const void *features,
                            const VkPhysicalDeviceFeatures *core, uint32_t extension_count,
                            const char *const *extensions);
/** Describes the application's device for wrapping; the queue is stored in *queue. */
ddisp_vulkan_device_desc application_desc(application *app, ddisp_vulkan_queue *queue);
/** A buffer in memory that the host sees. */
application_buffer application_buffer_make(application *app, VkBufferUsageFlags usage,
                                           uint64_t size_bytes);
void application_buffer_end(application *app, application_buffer *buffer);
/** Submits a fill with a float, or, with source, a copy; does not wait. */
void application_submit(application *app, VkBuffer target, VkBuffer source, uint64_t size_bytes,
                        float value);

#define APP_OK(call) application_expects((call), DDISP_STATUS_OK, "", #call, __LINE__)
/** The call gives status, and its message has the text. */
#define APP_FAILS(call, status, text) application_expects((call), (status), (text), #call, __LINE__)
void application_expects(ddisp_status status, ddisp_status expected, const char *text,
                         const char *call, int line);

#endif
