/*
 * vulkan_instance.c - the driver: finds libvulkan, makes an instance per context, examines the
 * physical devices and describes those that meet the requirements (Vulkan 1.2 with buffer device
 * addresses, timeline semaphores and 64-bit integers). Devices are listed in the loader's order,
 * each once.
 */
#include "vulkan_internal.h"

#include <dlfcn.h>
#include <string.h>

static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;
static bool loader_ready;   /* libvulkan is loaded */
static bool instance_ready; /* volk's instance functions are loaded */

/** Opens libvulkan for good. NULL, with the reason, when that cannot be or it is no loader. */
static PFN_vkGetInstanceProcAddr find_loader(char *reason, size_t capacity)
{
    PFN_vkGetInstanceProcAddr function = NULL;
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        bool absent = !error || strstr(error, "No such file");
        (void)snprintf(reason, capacity, "libvulkan.so.1 %s%s: no Vulkan loader",
                       absent ? "not found" : "cannot be loaded: ", absent ? "" : error);
        library = dlopen("libvulkan.so", RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        return NULL;
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&function, &symbol, sizeof function);
    if (!function)
        (void)snprintf(reason, capacity,
                       "libvulkan.so.1 has no vkGetInstanceProcAddr: it is no Vulkan loader");
    return function;
}

/** Finds the loader and volk's functions of it, once per process. */
static bool open_loader(char *reason, size_t capacity)
{
    pthread_mutex_lock(&loader_lock);
    if (!loader_ready) {
        PFN_vkGetInstanceProcAddr function = find_loader(reason, capacity);
        if (function)
            volkInitializeCustom(function);
        loader_ready = function && vkCreateInstance;
        if (function && !loader_ready)
            (void)snprintf(reason, capacity,
                           "libvulkan.so.1 has no vkCreateInstance: it is no Vulkan loader");
    }
    bool ready = loader_ready;
    pthread_mutex_unlock(&loader_lock);
    return ready;
}

/** The loader's own functions serve every instance, so they are taken from the first one. */
static void load_instance_functions(VkInstance instance)
{
    pthread_mutex_lock(&loader_lock);
    if (!instance_ready)
        volkLoadInstanceOnly(instance);
    instance_ready = true;
    pthread_mutex_unlock(&loader_lock);
}

static ddisp_status create(const ddisp_backend_services *services, uint32_t api_version,
                           VkInstance *out_handle)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "libdiffdispatch",
        .pEngineName = "libdiffdispatch",
        .apiVersion = api_version,
    };
    const char *const labels = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
        .enabledExtensionCount = vulkan__labels_offered() ? 1 : 0,
        .ppEnabledExtensionNames = &labels,
    };
    VkResult result = vkCreateInstance(&info, NULL, out_handle);
    if (result == VK_SUCCESS)
        return DDISP_STATUS_OK;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, result,
                            "vkCreateInstance gave %s (%d)", vulkan__result_name(result),
                            (int)result);
    const char *reason = result == VK_ERROR_INCOMPATIBLE_DRIVER
                             ? "the Vulkan loader found no driver (an ICD, such as NVIDIA's or "
                               "Mesa's; VK_ICD_FILENAMES may point elsewhere)"
                         : result == VK_ERROR_LAYER_NOT_PRESENT
                             ? "a layer that VK_INSTANCE_LAYERS names is not installed"
                             : "the Vulkan loader could make no instance";
    return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, result,
                        "%s: vkCreateInstance gave %s (%d)", reason, vulkan__result_name(result),
                        (int)result);
}

static ddisp_status list_devices(vulkan__instance *instance, VkPhysicalDevice **out_handles,
                                 uint32_t *out_count)
{
    const ddisp_backend_services *services = instance->services;
    VkPhysicalDevice *handles = NULL;
    uint32_t count = 0;
    VkResult result = vkEnumeratePhysicalDevices(instance->handle, &count, NULL);
    if (result == VK_SUCCESS && count > 0) {
        handles = backend_allocate(services, count * sizeof *handles);
        if (!handles)
            return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                                "no host memory for %u Vulkan devices", count);
        result = vkEnumeratePhysicalDevices(instance->handle, &count, handles);
    }
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        backend_release(services, handles);
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, result,
                            "no Vulkan device: vkEnumeratePhysicalDevices gave %s (%d)",
                            vulkan__result_name(result), (int)result);
    }
    if (count == 0) {
        backend_release(services, handles);
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                            "the Vulkan drivers that are installed found no device");
    }
    *out_handles = handles;
    *out_count = count;
    return DDISP_STATUS_OK;
}

/** One device may be offered twice: by a driver that is listed twice, or by two of its manifests.
 */
static bool listed_before(const vulkan__instance *instance, const vulkan__adapter *adapter)
{
    for (uint32_t i = 0; i < instance->adapter_count; i++) {
        const vulkan__adapter *other = &instance->adapters[i];
        if (memcmp(other->properties11.deviceUUID, adapter->properties11.deviceUUID,
                   VK_UUID_SIZE) == 0 &&
            memcmp(other->properties11.driverUUID, adapter->properties11.driverUUID,
                   VK_UUID_SIZE) == 0)
            return true;
    }
    return false;
}

static ddisp_status examine(vulkan__instance *instance, const VkPhysicalDevice *handles,
                            uint32_t count)
{
    const ddisp_backend_services *services = instance->services;
    char reason[256] = "";
    instance->adapters = backend_allocate(services, count * sizeof *instance->adapters);
    if (!instance->adapters)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for %u Vulkan devices", count);
    for (uint32_t i = 0; i < count; i++) {
        vulkan__adapter *adapter = &instance->adapters[instance->adapter_count];
        memset(adapter, 0, sizeof *adapter);
        if (!vulkan__adapter_read(instance, handles[i], adapter, reason, sizeof reason)) {
            backend_log(services, DDISP_LOG_LEVEL_INFO, "vulkan: device left out: %s", reason);
            continue;
        }
        if (listed_before(instance, adapter)) {
            backend_log(services, DDISP_LOG_LEVEL_INFO, "vulkan: %s is listed twice, once is used",
                        adapter->properties.deviceName);
            continue;
        }
        instance->adapter_count++;
    }
    if (instance->adapter_count == 0)
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                            "no usable Vulkan device (%u found): %s", count, reason);
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__instance_open(const ddisp_backend_services *services, void **out_instance)
{
    *out_instance = NULL;
    char reason[256] = "";
    if (vulkan__exiting())
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0, "the process ends");
    if (!open_loader(reason, sizeof reason))
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0, "%s", reason);
    uint32_t version = volkGetInstanceVersion();
    if (version < VK_API_VERSION_1_2)
        return backend_fail(services, DDISP_STATUS_BACKEND_UNAVAILABLE, 0,
                            "the Vulkan loader is version %u.%u, 1.2 is needed",
                            VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    vulkan__instance *instance = backend_allocate(services, sizeof *instance);
    if (!instance)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for the Vulkan backend");
    instance->services = services;
    instance->api_version = version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;

    VkPhysicalDevice *handles = NULL;
    uint32_t count = 0;
    ddisp_status status = create(services, instance->api_version, &instance->handle);
    if (status == DDISP_STATUS_OK) {
        vulkan__exit_watch_instance();
        load_instance_functions(instance->handle);
        status = list_devices(instance, &handles, &count);
    }
    if (status == DDISP_STATUS_OK)
        status = examine(instance, handles, count);
    backend_release(services, handles);
    if (status != DDISP_STATUS_OK) {
        vulkan__instance_close(instance);
        return status;
    }
    *out_instance = instance;
    return DDISP_STATUS_OK;
}

void vulkan__instance_close(void *instance_handle)
{
    vulkan__instance *instance = instance_handle;
    if (instance->handle && !vulkan__exiting())
        vkDestroyInstance(instance->handle, NULL);
    backend_release(instance->services, instance->adapters);
    backend_release(instance->services, instance);
}
