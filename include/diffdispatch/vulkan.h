/*
 * vulkan.h - what a program hands over that uses Vulkan itself. No header of Vulkan is needed:
 * dispatchable handles are pointers here, the others 64-bit numbers, structs of Vulkan are const
 * void *.
 *
 * All handles come from the system's loader (libvulkan.so.1). docs/streams.md has the rules.
 */
#ifndef DIFFDISPATCH_VULKAN_H
#define DIFFDISPATCH_VULKAN_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Types of the structs below. */
#define DDISP_CHAIN_VULKAN_NEEDS  0x40020001u
#define DDISP_CHAIN_VULKAN_DEVICE 0x40020002u
#define DDISP_CHAIN_VULKAN_BUFFER 0x40020003u

/** Most extensions that are ever asked for. */
#define DDISP_VULKAN_MAX_EXTENSIONS 32

/**
 * What a VkDevice should be created with to be wrapped. The pointers point into the struct itself
 * and to static strings: do not copy it.
 */
typedef struct ddisp_vulkan_needs {
    ddisp_chain head;      /**< sizeof(ddisp_vulkan_needs), DDISP_CHAIN_VULKAN_NEEDS, NULL */
    void *instance;        /**< in: VkInstance */
    void *physical_device; /**< in: VkPhysicalDevice */
    uint32_t api_version;  /**< in: VkApplicationInfo.apiVersion of the instance; at least 1.2 */
    uint32_t queue_flags;  /**< VkQueueFlags that the family of the queues must have */
    uint32_t buffer_usage; /**< VkBufferUsageFlags that a VkBuffer must have to be wrapped */
    uint32_t memory_flags; /**< VkMemoryAllocateFlags of the memory behind it */
    uint32_t extension_count;
    uint32_t reserved; /**< zero */
    /** device extensions to enable: those that this device has of the ones that are used. None is
     * required. */
    const char *extensions[DDISP_VULKAN_MAX_EXTENSIONS];
    /** VkPhysicalDeviceFeatures2 with a chain, for VkDeviceCreateInfo.pNext: the features that this
     * device has of the ones that are used. Required: bufferDeviceAddress, timelineSemaphore,
     * shaderInt64. */
    const void *features;
    uint64_t storage[256]; /**< where the features lie */
} ddisp_vulkan_needs;

/** Fills needs; head and the fields marked "in" are set. Returns what ddisp_backend_get_needs does;
 * UNSUPPORTED names what the device lacks. */
#define ddisp_vulkan_requirements(context, needs)                                                  \
    ddisp_backend_get_needs((context), "vulkan", &(needs)->head)

/** A queue of the application. */
typedef struct ddisp_vulkan_queue {
    void *queue;     /**< VkQueue */
    void *user_data; /**< handed to the functions */
    /** Called around every use of the queue by the library; both NULL when nobody else uses it.
     * They must not call the library. */
    void (*lock)(void *user_data);
    void (*unlock)(void *user_data);
} ddisp_vulkan_queue;

/** A device of the application, for ddisp_device_wrap(context, "vulkan", &desc.head, ...). */
typedef struct ddisp_vulkan_device_desc {
    ddisp_chain head;      /**< sizeof(ddisp_vulkan_device_desc), DDISP_CHAIN_VULKAN_DEVICE, NULL */
    void *instance;        /**< VkInstance */
    void *physical_device; /**< VkPhysicalDevice */
    void *device;          /**< VkDevice */
    uint32_t api_version;  /**< VkApplicationInfo.apiVersion of the instance */
    uint32_t queue_family; /**< of all queues */
    const ddisp_vulkan_queue *queues; /**< streams are spread over them */
    uint32_t queue_count;             /**< 1 to 8 */
    uint32_t extension_count;
    const char *const *extensions; /**< device extensions that were enabled */
    /** the pNext chain that the device was created with: structs of features in it say what was
     * enabled, others are passed over. ddisp_vulkan_needs.features will do when nothing else was
     * enabled. */
    const void *features;
    /** VkDeviceCreateInfo.pEnabledFeatures (VkPhysicalDeviceFeatures), or NULL */
    const void *core_features;
} ddisp_vulkan_device_desc;

/** A buffer of the application, for ddisp_buffer_wrap_native. */
typedef struct ddisp_vulkan_buffer_desc {
    ddisp_chain head; /**< sizeof(ddisp_vulkan_buffer_desc), DDISP_CHAIN_VULKAN_BUFFER, NULL */
    uint64_t buffer;  /**< VkBuffer, bound to memory */
    uint64_t buffer_size_bytes; /**< VkBufferCreateInfo.size */
    uint64_t offset_bytes;      /**< where the wrapped part begins */
    uint32_t usage;             /**< VkBufferCreateInfo.usage */
    uint32_t reserved;          /**< zero */
} ddisp_vulkan_buffer_desc;

#ifdef __cplusplus
}
#endif

#endif
