/*
 * vulkan_wrap.c - the application's own objects: what its VkDevice has to be created with, a device
 * over it and its queues, and memory over a VkBuffer.
 *
 * In: structs of vulkan.h. Out: a device as any other, but one whose handle and queues are lent:
 * they are never destroyed, queues are used under the application's lock, and only they are waited
 * for.
 */
#include "backend_chain.h"
#include "vulkan_internal.h"

#include <diffdispatch/vulkan.h>

#include <inttypes.h>

_Static_assert(sizeof(vulkan__feature_chain) <= sizeof(((ddisp_vulkan_needs *)NULL)->storage),
               "the features do not fit into the storage of ddisp_vulkan_needs");

static ddisp_status invalid(const ddisp_backend_services *services, const char *what,
                            const char *wrong)
{
    return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0, "%s %s", what, wrong);
}

/* Versions that the backend knows; 0 when the instance's is too old, which is said. */
static uint32_t known_version(const ddisp_backend_services *services, uint32_t api_version)
{
    if (api_version >= VK_API_VERSION_1_3)
        return VK_API_VERSION_1_3;
    if (api_version >= VK_API_VERSION_1_2)
        return VK_API_VERSION_1_2;
    (void)backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                       "the VkInstance was created for Vulkan %u.%u (api_version), 1.2 is needed",
                       VK_API_VERSION_MAJOR(api_version), VK_API_VERSION_MINOR(api_version));
    return 0;
}

/* ---- what is needed */

/* Fills what it takes from the device; adapter is for working with. */
static ddisp_status fill_needs(vulkan__instance *instance, ddisp_vulkan_needs *needs,
                               vulkan__adapter *adapter)
{
    vulkan__instance theirs = {.services = instance->services,
                               .api_version =
                                   known_version(instance->services, needs->api_version)};
    vulkan__feature_chain have;
    const char *names[16];
    char reason[256];
    if (theirs.api_version == 0)
        return DDISP_STATUS_UNSUPPORTED;
    if (!vulkan__adapter_read(&theirs, needs->physical_device, adapter, reason, sizeof reason))
        return backend_fail(instance->services, DDISP_STATUS_UNSUPPORTED, 0, "%s", reason);
    needs->queue_flags = VK_QUEUE_COMPUTE_BIT;
    needs->buffer_usage = VULKAN__BUFFER_USAGE;
    needs->memory_flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    needs->extension_count = vulkan__features_extension_names(adapter->extensions, names);
    for (uint32_t i = 0; i < needs->extension_count; i++)
        needs->extensions[i] = names[i];
    vulkan__features_link(&have, adapter->api_version, adapter->extensions);
    vkGetPhysicalDeviceFeatures2(adapter->handle, &have.core);
    vulkan__feature_chain *want = (vulkan__feature_chain *)(void *)needs->storage;
    vulkan__features_want(&have, adapter->api_version, adapter->extensions, want);
    needs->features = &want->core;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__needs(void *instance_handle, ddisp_chain *chain)
{
    vulkan__instance *instance = instance_handle;
    const ddisp_backend_services *services = instance->services;
    ddisp_vulkan_needs *needs = (ddisp_vulkan_needs *)(void *)chain;
    ddisp_status status =
        backend_chain_check(services, chain, DDISP_CHAIN_VULKAN_NEEDS, "ddisp_vulkan_needs",
                            (uint32_t)sizeof(ddisp_vulkan_needs));
    if (status != DDISP_STATUS_OK)
        return status;
    if (!needs->instance || !needs->physical_device)
        return invalid(services,
                       needs->instance ? "ddisp_vulkan_needs.physical_device"
                                       : "ddisp_vulkan_needs.instance",
                       "is NULL");
    vulkan__adapter *adapter = backend_allocate(services, sizeof *adapter);
    if (!adapter)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory to examine a Vulkan device");
    status = fill_needs(instance, needs, adapter);
    backend_release(services, adapter);
    return status;
}

/* ---- devices */

static ddisp_status check_queues(const ddisp_backend_services *services,
                                 const ddisp_vulkan_device_desc *desc)
{
    if (desc->queue_count == 0 || desc->queue_count > VULKAN__MAX_QUEUES || !desc->queues)
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "ddisp_vulkan_device_desc.queue_count is %u with queues %s; 1 to %u "
                            "queues are taken",
                            desc->queue_count, desc->queues ? "given" : "NULL", VULKAN__MAX_QUEUES);
    for (uint32_t i = 0; i < desc->queue_count; i++)
        if (!desc->queues[i].queue || !desc->queues[i].lock != !desc->queues[i].unlock)
            return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                                "ddisp_vulkan_device_desc.queues[%u]: %s", i,
                                desc->queues[i].queue ? "lock and unlock go together"
                                                      : "queue is NULL");
    return DDISP_STATUS_OK;
}

static ddisp_status check_desc(const ddisp_backend_services *services,
                               const ddisp_vulkan_device_desc *desc)
{
    if (!desc->instance || !desc->physical_device || !desc->device)
        return invalid(services,
                       !desc->instance          ? "ddisp_vulkan_device_desc.instance"
                       : !desc->physical_device ? "ddisp_vulkan_device_desc.physical_device"
                                                : "ddisp_vulkan_device_desc.device",
                       "is NULL");
    if (desc->extension_count != 0 && !desc->extensions)
        return invalid(services, "ddisp_vulkan_device_desc.extensions", "is NULL");
    return check_queues(services, desc);
}

/* Fills the adapter with what the application enabled. */
static ddisp_status read_adapter(vulkan__instance *instance, const ddisp_vulkan_device_desc *desc,
                                 vulkan__adapter *adapter)
{
    vulkan__feature_chain enabled;
    char reason[256];
    uint32_t extensions =
        vulkan__features_enabled_extensions(desc->extensions, desc->extension_count);
    adapter->handle = desc->physical_device;
    adapter->queue_family = desc->queue_family;
    adapter->queue_count = desc->queue_count;
    adapter->api_version = known_version(instance->services, desc->api_version);
    if (adapter->api_version == 0)
        return DDISP_STATUS_UNSUPPORTED;
    vulkan__features_enabled(desc->features, desc->core_features, adapter->api_version, extensions,
                             &enabled);
    if (!vulkan__adapter_read_enabled(instance, extensions, &enabled, adapter, reason,
                                      sizeof reason))
        return backend_fail(instance->services, DDISP_STATUS_UNSUPPORTED, 0, "%s", reason);
    return DDISP_STATUS_OK;
}

static void lend(vulkan__device *device, const ddisp_vulkan_device_desc *desc)
{
    device->handle = desc->device;
    volkLoadDeviceTable(&device->table, device->handle);
    vulkan__labels_open(device, desc->instance);
    vulkan__exit_add(device);
    for (uint32_t i = 0; i < desc->queue_count; i++) {
        vulkan__queue *queue = &device->queues[i];
        queue->handle = desc->queues[i].queue;
        queue->outer_lock = desc->queues[i].lock;
        queue->outer_unlock = desc->queues[i].unlock;
        queue->user_data = desc->queues[i].user_data;
        (void)pthread_mutex_init(&queue->lock, NULL);
    }
    device->queue_count = desc->queue_count;
}

ddisp_status vulkan__device_wrap(void *instance_handle, const ddisp_chain *native,
                                 ddisp_device_info *info, void **out_device)
{
    vulkan__instance *instance = instance_handle;
    const ddisp_backend_services *services = instance->services;
    ddisp_vulkan_device_desc desc;
    ddisp_status status =
        backend_chain_read(services, native, DDISP_CHAIN_VULKAN_DEVICE, "ddisp_vulkan_device_desc",
                           &desc, (uint32_t)sizeof desc);
    if (status == DDISP_STATUS_OK)
        status = check_desc(services, &desc);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__adapter *adapter = backend_allocate(services, sizeof *adapter);
    if (!adapter)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory to examine a Vulkan device");
    status = read_adapter(instance, &desc, adapter);
    vulkan__device *device =
        status == DDISP_STATUS_OK ? vulkan__device_new(instance, adapter) : NULL;
    if (!device) {
        backend_release(services, adapter);
        return status == DDISP_STATUS_OK ? DDISP_STATUS_OUT_OF_MEMORY : status;
    }
    device->own_adapter = adapter;
    lend(device, &desc);
    status = vulkan__device_prepare(device);
    if (status != DDISP_STATUS_OK) {
        vulkan__device_close(device);
        return status;
    }
    vulkan__adapter_describe(adapter, info);
    *out_device = device;
    return DDISP_STATUS_OK;
}

/* ---- buffers */

/* A segment and block outside of the pool; vulkan__memory_release_import frees it. */
typedef struct lent {
    vulkan__segment segment;
    vulkan__block block;
} lent;

static const char *missing_usage(uint32_t usage)
{
    static const struct {
        VkBufferUsageFlagBits bit;
        const char *name;
    } needed[] = {
        {VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT"},
        {VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, "VK_BUFFER_USAGE_STORAGE_BUFFER_BIT"},
        {VK_BUFFER_USAGE_TRANSFER_SRC_BIT, "VK_BUFFER_USAGE_TRANSFER_SRC_BIT"},
        {VK_BUFFER_USAGE_TRANSFER_DST_BIT, "VK_BUFFER_USAGE_TRANSFER_DST_BIT"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!(usage & needed[i].bit))
            return needed[i].name;
    return NULL;
}

static ddisp_status check_buffer(const ddisp_backend_services *services,
                                 const ddisp_vulkan_buffer_desc *desc, uint64_t size_bytes)
{
    const char *missing = missing_usage(desc->usage);
    if (desc->buffer == 0)
        return invalid(services, "ddisp_vulkan_buffer_desc.buffer", "is 0");
    if (missing)
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "ddisp_vulkan_buffer_desc.usage is 0x%x, without %s: create the "
                            "VkBuffer with 0x%x (ddisp_vulkan_needs.buffer_usage)",
                            desc->usage, missing, VULKAN__BUFFER_USAGE);
    if (desc->offset_bytes > desc->buffer_size_bytes ||
        size_bytes > desc->buffer_size_bytes - desc->offset_bytes)
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "offset_bytes %" PRIu64 " and size_bytes %" PRIu64
                            " go past the end of the VkBuffer, which has %" PRIu64 " bytes",
                            desc->offset_bytes, size_bytes, desc->buffer_size_bytes);
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__memory_wrap(void *device_handle, const ddisp_chain *native,
                                 uint64_t size_bytes, ddisp_backend_memory *out_memory)
{
    vulkan__device *device = device_handle;
    ddisp_vulkan_buffer_desc desc;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = backend_chain_read(device->services, native, DDISP_CHAIN_VULKAN_BUFFER,
                                    "ddisp_vulkan_buffer_desc", &desc, (uint32_t)sizeof desc);
    if (status == DDISP_STATUS_OK)
        status = check_buffer(device->services, &desc, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    lent *made = backend_allocate(device->services, sizeof *made);
    if (!made)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for a wrapped VkBuffer");
    VkBuffer handle = (VkBuffer)(uintptr_t)desc.buffer;
    const VkBufferDeviceAddressInfo where = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = handle,
    };
    made->block.buffer.handle = handle;
    made->block.buffer.size_bytes = desc.buffer_size_bytes;
    made->block.buffer.address = device->table.vkGetBufferDeviceAddress(device->handle, &where);
    made->segment.block = &made->block;
    made->segment.offset = desc.offset_bytes;
    made->segment.size_bytes = size_bytes;
    out_memory->address = made->block.buffer.address + desc.offset_bytes;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = &made->segment;
    out_memory->host_pointer = NULL;
    return DDISP_STATUS_OK;
}
