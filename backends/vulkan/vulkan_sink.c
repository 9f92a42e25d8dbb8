/*
 * vulkan_sink.c - the sink on Vulkan, one buffer whose address never moves, in the form that the
 * device's stated features allow (never found out by trying):
 *   unbound   a sparse-residency buffer with nothing bound, where such writes are discarded; not
 * for code that compares and swaps, whose loop might not end there aliased   a sparse buffer bound
 * over and over to one small block of memory imported  on a software device, host memory that shows
 * one small block over and over Nothing that is written there is ever read.
 */
#include "vulkan_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB        (UINT64_C(1) << 20)
#define SMALL      (2 * MIB) /* block up to FAR, and of imported ranges */
#define LARGE      (8 * MIB) /* block beyond */
#define FAR        (4096 * MIB)
#define MOST_BINDS 1024 /* of one vkQueueBindSparse */
#define MOST_MAPS  4096

vulkan__sink_form vulkan__sink_form_of(const vulkan__adapter *adapter, bool compare_and_swap)
{
    const VkPhysicalDeviceProperties *properties = &adapter->properties;
    if (adapter->binds_sparse && adapter->sparse_residency && !compare_and_swap &&
        properties->sparseProperties.residencyNonResidentStrict)
        return VULKAN__SINK_UNBOUND;
    if (adapter->binds_sparse && adapter->sparse_residency && adapter->sparse_aliased)
        return VULKAN__SINK_ALIASED;
    if (properties->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && adapter->imports_host_memory)
        return VULKAN__SINK_IMPORTED;
    return VULKAN__SINK_NONE;
}

const char *vulkan__sink_name(const vulkan__adapter *adapter)
{
    static const char *const names[] = {"none", "unbound", "aliased", "imported"};
    return names[vulkan__sink_form_of(adapter, false)];
}

static uint64_t longest(const vulkan__adapter *adapter, vulkan__sink_form form)
{
    uint64_t most = adapter->memory_bytes / LARGE * LARGE;
    if (form == VULKAN__SINK_IMPORTED)
        most = vulkan__adapter_max_allocation(adapter) / SMALL * SMALL;
    else if (most > adapter->properties.limits.sparseAddressSpaceSize / 4)
        most = adapter->properties.limits.sparseAddressSpaceSize / 4 / LARGE * LARGE;
    if (most > adapter->max_buffer_bytes)
        most = adapter->max_buffer_bytes / LARGE * LARGE;
    return most;
}

static ddisp_status make_buffer(vulkan__device *device, vulkan__sink *sink,
                                VkBufferCreateFlags flags, const void *next)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = next,
        .flags = flags,
        .size = sink->size_bytes,
        .usage = VULKAN__BUFFER_USAGE,
    };
    VkResult result = device->table.vkCreateBuffer(device->handle, &info, NULL, &sink->buffer);
    if (result != VK_SUCCESS)
        sink->buffer = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreateBuffer");
}

static uint64_t address_of(vulkan__device *device, VkBuffer buffer)
{
    const VkBufferDeviceAddressInfo where = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = buffer,
    };
    return device->table.vkGetBufferDeviceAddress(device->handle, &where);
}

/* ---- aliased ---- */

static ddisp_status allocate_block(vulkan__device *device, uint64_t size_bytes,
                                   VkDeviceMemory *out_memory)
{
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = size_bytes,
        .memoryTypeIndex = device->memory_types[VULKAN__PURPOSE_DEVICE],
    };
    VkResult result = device->table.vkAllocateMemory(device->handle, &info, NULL, out_memory);
    if (result != VK_SUCCESS)
        *out_memory = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkAllocateMemory");
}

static ddisp_status wait_fence(vulkan__device *device, VkFence fence)
{
    return vulkan__check(
        device, device->table.vkWaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX),
        "vkWaitForFences");
}

static ddisp_status bind(vulkan__device *device, const vulkan__sink *sink, VkFence fence,
                         const VkSparseMemoryBind *binds, uint32_t count)
{
    const VkSparseBufferMemoryBindInfo buffer = {
        .buffer = sink->buffer, .bindCount = count, .pBinds = binds};
    const VkBindSparseInfo info = {
        .sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO,
        .bufferBindCount = 1,
        .pBufferBinds = &buffer,
    };
    vulkan__queue *queue = &device->queues[0];
    vulkan__queue_lock(queue);
    VkResult result = device->table.vkQueueBindSparse(queue->handle, 1, &info, fence);
    vulkan__queue_unlock(queue);
    ddisp_status status = vulkan__check(device, result, "vkQueueBindSparse");
    if (status == DDISP_STATUS_OK)
        status = wait_fence(device, fence);
    if (status == DDISP_STATUS_OK)
        status = vulkan__check(device, device->table.vkResetFences(device->handle, 1, &fence),
                               "vkResetFences");
    return status;
}

/* Zeroes the first bytes of the sink, through which a new block is seen. */
static ddisp_status zero(vulkan__device *device, const vulkan__sink *sink, VkFence fence,
                         uint64_t offset, uint64_t size_bytes)
{
    const struct VolkDeviceTable *vk = &device->table;
    const VkCommandPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = device->adapter->queue_family,
    };
    VkCommandPool pool;
    ddisp_status status =
        vulkan__check(device, vk->vkCreateCommandPool(device->handle, &pool_info, NULL, &pool),
                      "vkCreateCommandPool");
    if (status != DDISP_STATUS_OK)
        return status;
    const VkCommandBufferAllocateInfo buffer_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkCommandBuffer commands;
    status =
        vulkan__check(device, vk->vkAllocateCommandBuffers(device->handle, &buffer_info, &commands),
                      "vkAllocateCommandBuffers");
    if (status == DDISP_STATUS_OK)
        status = vulkan__check(device, vk->vkBeginCommandBuffer(commands, &begin),
                               "vkBeginCommandBuffer");
    if (status == DDISP_STATUS_OK) {
        vk->vkCmdFillBuffer(commands, sink->buffer, offset, size_bytes, 0);
        status = vulkan__check(device, vk->vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    }
    if (status == DDISP_STATUS_OK) {
        const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                     .commandBufferCount = 1,
                                     .pCommandBuffers = &commands};
        vulkan__queue *queue = &device->queues[0];
        vulkan__queue_lock(queue);
        VkResult result = vk->vkQueueSubmit(queue->handle, 1, &submit, fence);
        vulkan__queue_unlock(queue);
        status = vulkan__check(device, result, "vkQueueSubmit");
        if (status == DDISP_STATUS_OK)
            status = wait_fence(device, fence);
        if (status == DDISP_STATUS_OK)
            status = vulkan__check(device, vk->vkResetFences(device->handle, 1, &fence),
                                   "vkResetFences");
    }
    vk->vkDestroyCommandPool(device->handle, pool, NULL);
    return status;
}

/* Binds block after block behind what is bound, up to end; each shows the same memory. */
static ddisp_status bind_range(vulkan__device *device, vulkan__sink *sink, VkFence fence,
                               VkDeviceMemory *memory, uint64_t block, uint64_t end)
{
    ddisp_status status = DDISP_STATUS_OK;
    bool fresh = *memory == VK_NULL_HANDLE;
    if (sink->bound_bytes >= end)
        return DDISP_STATUS_OK;
    if (fresh)
        status = allocate_block(device, block, memory);
    uint64_t first = sink->bound_bytes;
    while (status == DDISP_STATUS_OK && sink->bound_bytes < end) {
        VkSparseMemoryBind binds[MOST_BINDS];
        uint32_t count = 0;
        uint64_t at = sink->bound_bytes;
        for (; count < MOST_BINDS && at < end; count++, at += block)
            binds[count] = (VkSparseMemoryBind){
                .resourceOffset = at, .size = block, .memory = *memory, .memoryOffset = 0};
        status = bind(device, sink, fence, binds, count);
        if (status == DDISP_STATUS_OK)
            sink->bound_bytes = at;
    }
    if (status == DDISP_STATUS_OK && fresh)
        status = zero(device, sink, fence, first, block);
    return status;
}

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static ddisp_status grow_aliased(vulkan__device *device, vulkan__sink *sink, uint64_t size_bytes)
{
    const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence;
    ddisp_status status = vulkan__check(
        device, device->table.vkCreateFence(device->handle, &info, NULL, &fence), "vkCreateFence");
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t near_end = round_up(size_bytes < FAR ? size_bytes : FAR, SMALL);
    status = bind_range(device, sink, fence, &sink->small, SMALL, near_end);
    if (status == DDISP_STATUS_OK && size_bytes > FAR)
        status = bind_range(device, sink, fence, &sink->large, LARGE, round_up(size_bytes, LARGE));
    device->table.vkDestroyFence(device->handle, fence, NULL);
    return status;
}

/* ---- imported ---- */

static ddisp_status map_host(vulkan__device *device, vulkan__sink *sink)
{
    uint64_t piece = SMALL;
    while (piece < sink->size_bytes / MOST_MAPS)
        piece *= 2;
    int block = memfd_create("ddisp-sink", MFD_CLOEXEC);
    void *base = MAP_FAILED;
    if (block >= 0 && ftruncate(block, (off_t)piece) == 0)
        base = mmap(NULL, sink->size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    sink->host = base == MAP_FAILED ? NULL : base;
    bool mapped = sink->host != NULL;
    for (uint64_t at = 0; mapped && at < sink->size_bytes; at += piece) {
        uint64_t rest = sink->size_bytes - at;
        mapped = mmap(sink->host + at, rest < piece ? rest : piece, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, block, 0) != MAP_FAILED;
    }
    int error = errno;
    if (block >= 0)
        (void)close(block); /* the mappings keep it */
    if (!mapped)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, error,
                            "no host memory for a sink of %" PRIu64 " bytes: %s", sink->size_bytes,
                            strerror(error));
    sink->physical_bytes = piece;
    return DDISP_STATUS_OK;
}

static ddisp_status import_host(vulkan__device *device, vulkan__sink *sink)
{
    const struct VolkDeviceTable *vk = &device->table;
    const VkExternalMemoryHandleTypeFlagBits type =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = type};
    VkMemoryHostPointerPropertiesEXT pointer = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    ddisp_status status = map_host(device, sink);
    if (status == DDISP_STATUS_OK)
        status = make_buffer(device, sink, 0, &external);
    if (status == DDISP_STATUS_OK)
        status = vulkan__check(
            device,
            vk->vkGetMemoryHostPointerPropertiesEXT(device->handle, type, sink->host, &pointer),
            "vkGetMemoryHostPointerPropertiesEXT");
    if (status != DDISP_STATUS_OK)
        return status;
    VkMemoryRequirements needs;
    vk->vkGetBufferMemoryRequirements(device->handle, sink->buffer, &needs);
    uint32_t types = needs.memoryTypeBits & pointer.memoryTypeBits;
    if (types == 0)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "the device takes no host memory for a sink");
    const VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = type,
        .pHostPointer = sink->host,
    };
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .pNext = &import,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = sink->size_bytes,
        .memoryTypeIndex = (uint32_t)__builtin_ctz(types),
    };
    VkResult result = vk->vkAllocateMemory(device->handle, &info, NULL, &sink->small);
    if (result != VK_SUCCESS)
        sink->small = VK_NULL_HANDLE;
    status = vulkan__check(device, result, "vkAllocateMemory");
    if (status == DDISP_STATUS_OK)
        status = vulkan__check(device,
                               vk->vkBindBufferMemory(device->handle, sink->buffer, sink->small, 0),
                               "vkBindBufferMemory");
    sink->bound_bytes = sink->size_bytes;
    return status;
}

/* ---- both ---- */

static void destroy(vulkan__device *device, vulkan__sink *sink)
{
    const struct VolkDeviceTable *vk = &device->table;
    if (sink->buffer)
        vk->vkDestroyBuffer(device->handle, sink->buffer, NULL);
    if (sink->small)
        vk->vkFreeMemory(device->handle, sink->small, NULL);
    if (sink->large)
        vk->vkFreeMemory(device->handle, sink->large, NULL);
    if (sink->host)
        (void)munmap(sink->host, sink->size_bytes);
    memset(sink, 0, sizeof *sink);
}

static ddisp_status create(vulkan__device *device, vulkan__sink *sink, vulkan__sink_form form)
{
    VkBufferCreateFlags flags =
        VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT;
    if (form == VULKAN__SINK_ALIASED)
        flags |= VK_BUFFER_CREATE_SPARSE_ALIASED_BIT;
    sink->size_bytes = longest(device->adapter, form);
    ddisp_status status = form == VULKAN__SINK_IMPORTED ? import_host(device, sink)
                                                        : make_buffer(device, sink, flags, NULL);
    if (status == DDISP_STATUS_OK)
        sink->address = address_of(device, sink->buffer);
    else
        destroy(device, sink);
    return status;
}

ddisp_status vulkan__sink_acquire(void *device_handle, uint64_t size_bytes, uint64_t flags,
                                  ddisp_backend_range *out_range, uint64_t *out_physical_bytes)
{
    vulkan__device *device = device_handle;
    bool compare_and_swap = (flags & DDISP_BACKEND_SINK_COMPARE_AND_SWAP) != 0;
    vulkan__sink_form form = vulkan__sink_form_of(device->adapter, compare_and_swap);
    vulkan__sink *sink = &device->sinks[form == VULKAN__SINK_UNBOUND ? 0 : 1];
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && form == VULKAN__SINK_NONE)
        status = backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                              "the device has no sink for code that compares and swaps");
    if (status == DDISP_STATUS_OK && size_bytes > longest(device->adapter, form))
        status = backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0,
                              "a sink of %" PRIu64 " bytes was asked for, the longest has %" PRIu64,
                              size_bytes, longest(device->adapter, form));
    if (status == DDISP_STATUS_OK && !sink->buffer)
        status = create(device, sink, form);
    if (status == DDISP_STATUS_OK && form == VULKAN__SINK_ALIASED)
        status = grow_aliased(device, sink, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    if (form == VULKAN__SINK_ALIASED)
        sink->physical_bytes = (sink->small ? SMALL : 0) + (sink->large ? LARGE : 0);
    *out_range = (ddisp_backend_range){
        .handle = sink, .address = sink->address, .size_bytes = sink->size_bytes};
    *out_physical_bytes = device->sinks[0].physical_bytes + device->sinks[1].physical_bytes;
    return DDISP_STATUS_OK;
}

vulkan__sink *vulkan__sink_of(vulkan__device *device, const ddisp_backend_range *range)
{
    for (uint32_t i = 0; i < 2; i++)
        if (range->handle == &device->sinks[i])
            return &device->sinks[i];
    return NULL;
}

void vulkan__sink_trim(void *device_handle)
{
    vulkan__device *device = device_handle;
    destroy(device, &device->sinks[0]);
    destroy(device, &device->sinks[1]);
}
