/*
 * vulkan_label.c - names for tools that look at the driver's calls (VK_EXT_debug_utils): a label
 * around each dispatch of a kernel and a name for its pipeline.
 *
 * The loader itself always offers the extension, so it tells nothing of a tool; the environment
 * variables do by which tools and layers are started. Without one of them nothing is enabled, and a
 * dispatch pays a branch. That a tool cannot be told a name is no failure.
 */
#include "vulkan_internal.h"

#include <stdlib.h>
#include <string.h>

/** Longer names are cut. */
#define LONGEST_NAME    256
#define MOST_EXTENSIONS 64 /* of instances; there are 30 */

static bool is_set(const char *variable)
{
    const char *value = secure_getenv(variable);
    return value && *value;
}

/** Whether somebody looks. */
static bool wanted(void)
{
    static const char *const tools[] = {"VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE",
                                        "ENABLE_VULKAN_RENDERDOC_CAPTURE", "NVTX_INJECTION64_PATH"};
    const char *choice = secure_getenv("DDISP_LABELS");
    if (choice && *choice)
        return strcmp(choice, "0") != 0;
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
        if (is_set(tools[i]))
            return true;
    return false;
}

bool vulkan__labels_offered(void)
{
    VkExtensionProperties list[MOST_EXTENSIONS];
    uint32_t count = MOST_EXTENSIONS;
    if (!wanted() || !vkEnumerateInstanceExtensionProperties)
        return false;
    VkResult result = vkEnumerateInstanceExtensionProperties(NULL, &count, list);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0)
            return true;
    return false;
}

void vulkan__labels_open(vulkan__device *device, VkInstance instance)
{
    if (!wanted())
        return;
    PFN_vkVoidFunction begin = vkGetInstanceProcAddr(instance, "vkCmdBeginDebugUtilsLabelEXT");
    PFN_vkVoidFunction end = vkGetInstanceProcAddr(instance, "vkCmdEndDebugUtilsLabelEXT");
    PFN_vkVoidFunction name = vkGetInstanceProcAddr(instance, "vkSetDebugUtilsObjectNameEXT");
    if (!begin || !end || !name) /* the instance was created without the extension */
        return;
    device->labels.begin = (PFN_vkCmdBeginDebugUtilsLabelEXT)begin;
    device->labels.end = (PFN_vkCmdEndDebugUtilsLabelEXT)end;
    device->labels.name = (PFN_vkSetDebugUtilsObjectNameEXT)name;
}

ddisp_status vulkan__label_variant(vulkan__device *device, vulkan__variant *variant,
                                   const char *kernel, const char *entry)
{
    char text[LONGEST_NAME];
    if (!device->labels.name)
        return DDISP_STATUS_OK;
    uint64_t size_bytes = strlen(kernel) + 1;
    variant->label = backend_allocate(device->services, size_bytes);
    if (!variant->label)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for a label", kernel);
    memcpy(variant->label, kernel, size_bytes);
    (void)snprintf(text, sizeof text, "%s: %s", kernel, entry);
    const VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = VK_OBJECT_TYPE_PIPELINE,
        .objectHandle = (uint64_t)(uintptr_t)variant->pipeline,
        .pObjectName = text,
    };
    (void)device->labels.name(device->handle, &info);
    return DDISP_STATUS_OK;
}

void vulkan__label_dispatch(const vulkan__device *device, VkCommandBuffer commands,
                            const vulkan__variant *variant, const uint32_t grid[3])
{
    const VkDebugUtilsLabelEXT label = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT,
                                        .pLabelName = variant->label};
    device->labels.begin(commands, &label);
    device->table.vkCmdDispatch(commands, grid[0], grid[1], grid[2]);
    device->labels.end(commands);
}
