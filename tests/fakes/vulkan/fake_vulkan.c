/*
 * fake_vulkan.c - the stand-in loader: it finds the real one, wraps the functions of fake_calls.h,
 * counts, fails and hides as fake_control.c was told. Functions that are not in the list are those
 * of the real loader.
 */
#include "fake_state.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The real functions. */
static struct {
    PFN_vkGetInstanceProcAddr get_instance;
    PFN_vkGetDeviceProcAddr get_device;
#define POINTER(name, change, parameters, arguments) PFN_##name name;
    FAKE_CALLS(POINTER, POINTER, POINTER, POINTER)
#undef POINTER
} real;

/* ---- every call */

/** Whether a call of a device can say that it is lost. */
static bool can_lose(int call)
{
    return call != NUMBER_vkCreateInstance && call != NUMBER_vkEnumeratePhysicalDevices &&
           call != NUMBER_vkEnumerateDeviceExtensionProperties && call != NUMBER_vkCreateDevice &&
           call != NUMBER_vkSetDebugUtilsObjectNameEXT;
}

static void count(int call)
{
    fake.calls[call]++;
    fake.call_count++;
    if (fake.log) {
        (void)fprintf(fake.log, "%s\n", fake_names[call]);
        (void)fflush(fake.log);
    }
}

/** Counts a call that gives a result. True when it gives *out_result and does nothing. */
static bool enter(int call, VkResult *out_result)
{
    bool stop = false, quiet = false;
    fake_lock();
    count(call);
    if (fake.lost && can_lose(call)) {
        fake.calls_after_loss++;
        *out_result = VK_ERROR_DEVICE_LOST;
        stop = true;
    } else if (fake.lose_in && can_lose(call) && --fake.lose_in == 0) {
        fake.lost = fake_names[call];
        *out_result = VK_ERROR_DEVICE_LOST;
        stop = quiet = true;
    } else if (fake.fail_in && (fake.fail_call == CALL_ANY || fake.fail_call == call) &&
               --fake.fail_in == 0) {
        fake.failed = fake_names[call];
        *out_result = (VkResult)fake.fail_result;
        stop = true;
        quiet = *out_result == VK_ERROR_DEVICE_LOST;
    }
    VkDevice device = fake.device;
    fake_unlock();
    /* The real device still works: let it end, so that what it uses can be destroyed. */
    if (quiet && device)
        (void)real.vkDeviceWaitIdle(device);
    return stop;
}

static void enter_silent(int call, int change)
{
    fake_lock();
    count(call);
    fake.live += change;
    if (fake.lost && change == 0 && strncmp(fake_names[call], "vkDestroy", 9) != 0 &&
        strcmp(fake_names[call], "vkFreeMemory") != 0)
        fake.calls_after_loss++;
    fake_unlock();
}

static VkResult leave(VkResult result, int change)
{
    if (result < 0 || change == 0)
        return result;
    fake_lock();
    fake.live += change;
    fake_unlock();
    return result;
}

#define WRAP_RESULT(name, change, parameters, arguments)                                           \
    static VKAPI_ATTR VkResult VKAPI_CALL wrap_##name parameters                                   \
    {                                                                                              \
        VkResult result;                                                                           \
        if (enter(NUMBER_##name, &result))                                                         \
            return result;                                                                         \
        return leave(real.name arguments, change);                                                 \
    }
#define WRAP_SILENT(name, change, parameters, arguments)                                           \
    static VKAPI_ATTR void VKAPI_CALL wrap_##name parameters                                       \
    {                                                                                              \
        enter_silent(NUMBER_##name, change);                                                       \
        real.name arguments;                                                                       \
    }
#define DECLARE_RESULT(name, change, parameters, arguments)                                        \
    static VKAPI_ATTR VkResult VKAPI_CALL wrap_##name parameters;
#define DECLARE_SILENT(name, change, parameters, arguments)                                        \
    static VKAPI_ATTR void VKAPI_CALL wrap_##name parameters;
FAKE_CALLS(WRAP_RESULT, DECLARE_RESULT, WRAP_SILENT, DECLARE_SILENT)

/* ---- those with a body of their own */

static void change_properties(VkPhysicalDeviceProperties *properties)
{
    char old[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    memcpy(old, properties->deviceName, sizeof old);
    (void)snprintf(properties->deviceName, sizeof old, "fake over %.200s", old);
    fake_lock();
    if (fake_hidden("vulkan1.3") && properties->apiVersion >= VK_API_VERSION_1_3)
        properties->apiVersion = VK_API_VERSION_1_2;
    if (fake_hidden("vulkan1.2"))
        properties->apiVersion = VK_API_VERSION_1_1;
    fake_unlock();
}

static VKAPI_ATTR void VKAPI_CALL wrap_vkGetPhysicalDeviceProperties(
    VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    enter_silent(NUMBER_vkGetPhysicalDeviceProperties, 0);
    real.vkGetPhysicalDeviceProperties(physical, properties);
    change_properties(properties);
}

static VKAPI_ATTR void VKAPI_CALL wrap_vkGetPhysicalDeviceProperties2(
    VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    enter_silent(NUMBER_vkGetPhysicalDeviceProperties2, 0);
    real.vkGetPhysicalDeviceProperties2(physical, properties);
    change_properties(&properties->properties);
}

static VKAPI_ATTR void VKAPI_CALL
wrap_vkGetPhysicalDeviceFeatures2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features)
{
    enter_silent(NUMBER_vkGetPhysicalDeviceFeatures2, 0);
    real.vkGetPhysicalDeviceFeatures2(physical, features);
    fake_lock();
    if (fake_hidden("shaderInt64"))
        features->features.shaderInt64 = VK_FALSE;
    for (VkBaseOutStructure *s = features->pNext; s; s = s->pNext) {
        if (s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
            continue;
        VkPhysicalDeviceVulkan12Features *v12 = (void *)s;
        if (fake_hidden("bufferDeviceAddress"))
            v12->bufferDeviceAddress = VK_FALSE;
        if (fake_hidden("timelineSemaphore"))
            v12->timelineSemaphore = VK_FALSE;
    }
    fake_unlock();
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkEnumerateDeviceExtensionProperties(
    VkPhysicalDevice physical, const char *layer, uint32_t *number, VkExtensionProperties *list)
{
    VkResult result;
    if (enter(NUMBER_vkEnumerateDeviceExtensionProperties, &result))
        return result;
    result = real.vkEnumerateDeviceExtensionProperties(physical, layer, number, list);
    if (!list)
        return result;
    fake_lock();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *number; i++)
        if (!fake_hidden(list[i].extensionName))
            list[kept++] = list[i];
    *number = kept;
    fake_unlock();
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkCreateDevice(VkPhysicalDevice physical,
                                                          const VkDeviceCreateInfo *info,
                                                          const VkAllocationCallbacks *callbacks,
                                                          VkDevice *out)
{
    VkResult result;
    if (enter(NUMBER_vkCreateDevice, &result))
        return result;
    result = real.vkCreateDevice(physical, info, callbacks, out);
    if (result == VK_SUCCESS) {
        fake_lock();
        fake.device = *out;
        fake.lost = NULL;
        fake_unlock();
    }
    return leave(result, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkGetSemaphoreCounterValue(VkDevice device,
                                                                      VkSemaphore semaphore,
                                                                      uint64_t *value)
{
    VkResult result;
    if (enter(NUMBER_vkGetSemaphoreCounterValue, &result))
        return result;
    result = real.vkGetSemaphoreCounterValue(device, semaphore, value);
    fake_lock();
    if (fake.hold)
        *value = 0;
    fake_unlock();
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkWaitSemaphores(VkDevice device,
                                                            const VkSemaphoreWaitInfo *info,
                                                            uint64_t timeout)
{
    VkResult result;
    if (enter(NUMBER_vkWaitSemaphores, &result))
        return result;
    fake_lock();
    bool hold = fake.hold && timeout < UINT64_C(500000000);
    fake_unlock();
    return hold ? VK_TIMEOUT : real.vkWaitSemaphores(device, info, timeout);
}

/** Where the last value that a submission signals is kept. Locked. */
static uint64_t *value_of(VkSemaphore semaphore)
{
    int unused = -1;
    for (int slot = 0; slot < MOST_SEMAPHORES; slot++) {
        if (fake.semaphores[slot] == semaphore)
            return &fake.values[slot];
        if (!fake.semaphores[slot] && unused < 0)
            unused = slot;
    }
    if (unused < 0)
        abort(); /* a test with more than the table holds must not pass by luck */
    fake.semaphores[unused] = semaphore;
    fake.values[unused] = 0;
    return &fake.values[unused];
}

static VKAPI_ATTR void VKAPI_CALL wrap_vkDestroySemaphore(VkDevice device, VkSemaphore semaphore,
                                                          const VkAllocationCallbacks *callbacks)
{
    enter_silent(NUMBER_vkDestroySemaphore, -(semaphore != VK_NULL_HANDLE));
    fake_lock();
    for (int slot = 0; slot < MOST_SEMAPHORES; slot++)
        if (semaphore && fake.semaphores[slot] == semaphore)
            fake.semaphores[slot] = VK_NULL_HANDLE;
    fake_unlock();
    real.vkDestroySemaphore(device, semaphore, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkQueueSubmit(VkQueue queue, uint32_t number,
                                                         const VkSubmitInfo *infos, VkFence fence)
{
    VkResult result;
    if (enter(NUMBER_vkQueueSubmit, &result))
        return result;
    fake_lock();
    for (uint32_t i = 0; i < number; i++) {
        const VkTimelineSemaphoreSubmitInfo *values = infos[i].pNext;
        for (uint32_t k = 0; k < infos[i].waitSemaphoreCount; k++)
            if (*value_of(infos[i].pWaitSemaphores[k]) < values->pWaitSemaphoreValues[k])
                fake.early_waits++;
        for (uint32_t k = 0; k < infos[i].signalSemaphoreCount; k++)
            *value_of(infos[i].pSignalSemaphores[k]) = values->pSignalSemaphoreValues[k];
    }
    fake_unlock();
    return real.vkQueueSubmit(queue, number, infos, fence);
}

/* ---- labels */

static VKAPI_ATTR void VKAPI_CALL
wrap_vkCmdBeginDebugUtilsLabelEXT(VkCommandBuffer commands, const VkDebugUtilsLabelEXT *label)
{
    enter_silent(NUMBER_vkCmdBeginDebugUtilsLabelEXT, 0);
    fake_lock();
    fake.labels_broken += fake.labelled != NULL;
    fake.labelled = commands;
    (void)snprintf(fake.label, sizeof fake.label, "%s", label->pLabelName);
    fake_unlock();
    real.vkCmdBeginDebugUtilsLabelEXT(commands, label);
}

static VKAPI_ATTR void VKAPI_CALL wrap_vkCmdEndDebugUtilsLabelEXT(VkCommandBuffer commands)
{
    enter_silent(NUMBER_vkCmdEndDebugUtilsLabelEXT, 0);
    fake_lock();
    fake.labels_broken += fake.labelled != commands;
    fake.labelled = NULL;
    fake_unlock();
    real.vkCmdEndDebugUtilsLabelEXT(commands);
}

static VKAPI_ATTR VkResult VKAPI_CALL
wrap_vkSetDebugUtilsObjectNameEXT(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info)
{
    VkResult result;
    if (enter(NUMBER_vkSetDebugUtilsObjectNameEXT, &result))
        return result;
    fake_lock();
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE)
        (void)snprintf(fake.pipeline_name, sizeof fake.pipeline_name, "%s", info->pObjectName);
    fake_unlock();
    return real.vkSetDebugUtilsObjectNameEXT(device, info);
}

static VKAPI_ATTR void VKAPI_CALL wrap_vkCmdDispatch(VkCommandBuffer commands, uint32_t x,
                                                     uint32_t y, uint32_t z)
{
    enter_silent(NUMBER_vkCmdDispatch, 0);
    fake_lock();
    fake.dispatches_labelled += fake.labelled == commands;
    fake_unlock();
    real.vkCmdDispatch(commands, x, y, z);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_vkEndCommandBuffer(VkCommandBuffer commands)
{
    VkResult result;
    if (enter(NUMBER_vkEndCommandBuffer, &result))
        return result;
    fake_lock();
    fake.labels_broken += fake.labelled == commands;
    fake_unlock();
    return real.vkEndCommandBuffer(commands);
}

/* ---- finding functions */

static void open_real(void)
{
    static const char *const usual[] = {
        "/usr/lib/x86_64-linux-gnu/libvulkan.so.1", "/usr/lib/aarch64-linux-gnu/libvulkan.so.1",
        "/usr/lib64/libvulkan.so.1", "/usr/lib/libvulkan.so.1", "/usr/local/lib/libvulkan.so.1"};
    const char *path = getenv("DDISP_FAKE_VULKAN_REAL");
    void *library = path && path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof usual / sizeof usual[0]; i++)
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    memcpy(&real.get_instance, &symbol, sizeof symbol);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char *name);
FAKE_VULKAN_API VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                                               const char *name);

/** The wrapper of a function that is in the list, after the real one was noted; else the real one.
 */
static PFN_vkVoidFunction wrapped(const char *name, PFN_vkVoidFunction function)
{
    if (!function)
        return NULL;
#define LOOK(call, change, parameters, arguments)                                                  \
    if (strcmp(name, #call) == 0) {                                                                \
        real.call = (PFN_##call)function;                                                          \
        return (PFN_vkVoidFunction)wrap_##call;                                                    \
    }
    FAKE_CALLS(LOOK, LOOK, LOOK, LOOK)
#undef LOOK
    return function;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char *name)
{
    fake_lock();
    PFN_vkVoidFunction function = wrapped(name, real.get_device(device, name));
    fake_unlock();
    return function;
}

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    fake_lock();
    if (!real.get_instance)
        open_real();
    PFN_vkVoidFunction function = real.get_instance ? real.get_instance(instance, name) : NULL;
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        function = (PFN_vkVoidFunction)vkGetInstanceProcAddr;
    } else if (function && strcmp(name, "vkGetDeviceProcAddr") == 0) {
        real.get_device = (PFN_vkGetDeviceProcAddr)function;
        function = (PFN_vkVoidFunction)get_device;
    } else {
        function = wrapped(name, function);
    }
    fake_unlock();
    return function;
}
