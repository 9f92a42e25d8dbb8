/*
 * counting_vulkan.c - stands before the Vulkan loader, as libvulkan.so.1, and sums what is
 * allocated through vkAllocateMemory: the view from outside that bench/memory has of a Vulkan
 * device. Every call goes on unchanged to the loader that DDISP_COUNTED_VULKAN names.
 *
 * In: LD_LIBRARY_PATH with this library's folder. Out: counted_vulkan_peak_bytes(), for the same
 * process.
 */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                                       const char *name);
VISIBLE uint64_t counted_vulkan_peak_bytes(void);

static struct {
    pthread_mutex_t lock;
    PFN_vkGetInstanceProcAddr get;
    PFN_vkGetDeviceProcAddr get_of_device;
    PFN_vkAllocateMemory allocate;
    PFN_vkFreeMemory release;
    uint64_t bytes, peak_bytes;
    struct piece {
        struct piece *next;
        VkDeviceMemory memory;
        uint64_t bytes;
    } * pieces;
} counted = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t counted_vulkan_peak_bytes(void)
{
    pthread_mutex_lock(&counted.lock);
    uint64_t bytes = counted.peak_bytes;
    pthread_mutex_unlock(&counted.lock);
    return bytes;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *callbacks,
                                               VkDeviceMemory *out)
{
    VkResult result = counted.allocate(device, info, callbacks, out);
    struct piece *piece = result == VK_SUCCESS ? malloc(sizeof *piece) : NULL;
    if (!piece)
        return result;
    pthread_mutex_lock(&counted.lock);
    *piece = (struct piece){counted.pieces, *out, info->allocationSize};
    counted.pieces = piece;
    counted.bytes += info->allocationSize;
    if (counted.bytes > counted.peak_bytes)
        counted.peak_bytes = counted.bytes;
    pthread_mutex_unlock(&counted.lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice device, VkDeviceMemory memory,
                                          const VkAllocationCallbacks *callbacks)
{
    counted.release(device, memory, callbacks);
    pthread_mutex_lock(&counted.lock);
    for (struct piece **link = &counted.pieces; *link; link = &(*link)->next)
        if ((*link)->memory == memory) {
            struct piece *gone = *link;
            counted.bytes -= gone->bytes;
            *link = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&counted.lock);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_of_device(VkDevice device, const char *name)
{
    PFN_vkVoidFunction function = counted.get_of_device(device, name);
    if (function && strcmp(name, "vkAllocateMemory") == 0) {
        counted.allocate = (PFN_vkAllocateMemory)function;
        return (PFN_vkVoidFunction)allocate;
    }
    if (function && strcmp(name, "vkFreeMemory") == 0) {
        counted.release = (PFN_vkFreeMemory)function;
        return (PFN_vkVoidFunction)release;
    }
    return function;
}

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (!counted.get) {
        const char *path = getenv("DDISP_COUNTED_VULKAN");
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        if (!symbol) {
            fprintf(stderr, "DDISP_COUNTED_VULKAN names no Vulkan loader\n");
            return NULL;
        }
        memcpy(&counted.get, &symbol, sizeof counted.get);
    }
    PFN_vkVoidFunction function = counted.get(instance, name);
    if (function && strcmp(name, "vkGetDeviceProcAddr") == 0) {
        counted.get_of_device = (PFN_vkGetDeviceProcAddr)function;
        return (PFN_vkVoidFunction)get_of_device;
    }
    return function;
}
