/*
 * vulkan_exit.c - the end of the process. Drivers take themselves down in handlers of their own,
 * and some (NVIDIA's) crash when they are called after that; yet a program may release what it
 * holds in an atexit handler or a global destructor. So a handler is registered behind the
 * driver's, which runs before it: from then on every device counts as lost and no function of it is
 * called any more. The handler itself calls no driver. Plugins are never unmapped, so it is always
 * there.
 */
#include "vulkan_internal.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER;
static vulkan__device *devices; /* open ones */
static bool watches_instance, watches_device;
static atomic_bool exiting;

/* Stands for every function of a device. Those that return nothing ignore the result. */
static VkResult gone(void)
{
    return VK_ERROR_DEVICE_LOST;
}

static void cut_off(void *functions, size_t size_bytes)
{
    VkResult (*const stub)(void) = gone;
    for (size_t i = 0; i + sizeof stub <= size_bytes; i += sizeof stub)
        memcpy((unsigned char *)functions + i, &stub, sizeof stub);
}

static void at_exit(void)
{
    pthread_mutex_lock(&exit_lock);
    atomic_store(&exiting, true);
    for (vulkan__device *device = devices; device; device = device->next_open) {
        atomic_store(&device->lost, true);
        cut_off(&device->table, sizeof device->table);
        cut_off(&device->labels, sizeof device->labels);
    }
    pthread_mutex_unlock(&exit_lock);
}

/* A driver registers its handlers when it makes its first instance or its first device. */
static void watch(bool *watches)
{
    if (!*watches)
        *watches = atexit(at_exit) == 0;
}

bool vulkan__exiting(void)
{
    return atomic_load(&exiting);
}

void vulkan__exit_watch_instance(void)
{
    pthread_mutex_lock(&exit_lock);
    watch(&watches_instance);
    pthread_mutex_unlock(&exit_lock);
}

void vulkan__exit_add(vulkan__device *device)
{
    pthread_mutex_lock(&exit_lock);
    watch(&watches_device);
    device->next_open = devices;
    devices = device;
    pthread_mutex_unlock(&exit_lock);
}

void vulkan__exit_remove(vulkan__device *device)
{
    pthread_mutex_lock(&exit_lock);
    for (vulkan__device **place = &devices; *place; place = &(*place)->next_open)
        if (*place == device) {
            *place = device->next_open;
            break;
        }
    pthread_mutex_unlock(&exit_lock);
}
