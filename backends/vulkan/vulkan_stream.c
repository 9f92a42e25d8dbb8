/*
 * vulkan_stream.c - streams: a queue, a timeline semaphore whose values are the tickets, and the
 * waits between them. A wait is only submitted for a ticket that was submitted before. Destroyed
 * streams stay until their work is done and nobody waits for their timeline.
 */
#include "vulkan_internal.h"

#include <inttypes.h>

static ddisp_status create_objects(vulkan__device *device, vulkan__stream *stream)
{
    const struct VolkDeviceTable *vk = &device->table;
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo semaphore = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    VkResult result = vk->vkCreateSemaphore(device->handle, &semaphore, NULL, &stream->timeline);
    if (result != VK_SUCCESS) {
        stream->timeline = VK_NULL_HANDLE;
        return vulkan__check(device, result, "vkCreateSemaphore");
    }
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags =
            VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = device->adapter->queue_family,
    };
    result = vk->vkCreateCommandPool(device->handle, &pool, NULL, &stream->pool);
    if (result != VK_SUCCESS)
        stream->pool = VK_NULL_HANDLE;
    return vulkan__check(device, result, "vkCreateCommandPool");
}

/** queue NULL: each new stream takes the next one. */
static ddisp_status make_stream(vulkan__device *device, vulkan__queue *queue,
                                vulkan__stream **out_stream)
{
    vulkan__stream *stream = backend_allocate(device->services, sizeof *stream);
    if (!stream)
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "no host memory for a stream");
    if (!queue)
        queue = &device->queues[atomic_fetch_add(&device->next_queue, 1) % device->queue_count];
    stream->queue = queue;
    stream->arguments.purpose = VULKAN__PURPOSE_ARGUMENTS;
    stream->upload.purpose = VULKAN__PURPOSE_UPLOAD;
    stream->download.purpose = VULKAN__PURPOSE_DOWNLOAD;
    ddisp_status status = create_objects(device, stream);
    if (status != DDISP_STATUS_OK)
        vulkan__stream_dispose(device, stream);
    else
        *out_stream = stream;
    return status;
}

/** Takes a retired stream. Its tickets go on from where they were. */
static vulkan__stream *take_retired(vulkan__device *device, const vulkan__queue *queue)
{
    pthread_mutex_lock(&device->lock);
    vulkan__stream **link = &device->retired;
    while (*link && ((*link)->failed != DDISP_STATUS_OK || (queue && (*link)->queue != queue)))
        link = &(*link)->next;
    vulkan__stream *stream = *link;
    if (stream)
        *link = stream->next;
    pthread_mutex_unlock(&device->lock);
    return stream;
}

void vulkan__stream_retire(vulkan__device *device, vulkan__stream *stream)
{
    /* Not destroyed: Mesa's queue thread (22.3) still touches a timeline after its waiters woke. */
    vulkan__batch_release_waits(stream);
    vulkan__ring_close(device, &stream->arguments);
    vulkan__ring_close(device, &stream->upload);
    vulkan__ring_close(device, &stream->download);
    stream->next = device->retired;
    device->retired = stream;
}

static ddisp_status add_stream(vulkan__device *device, vulkan__queue *queue, void **out_stream)
{
    *out_stream = NULL;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__stream *stream = take_retired(device, queue);
    if (!stream)
        status = make_stream(device, queue, &stream);
    if (status != DDISP_STATUS_OK)
        return status;
    stream->borrowed = queue != NULL;
    atomic_store(&stream->destroyed, false);
    pthread_mutex_lock(&device->lock);
    stream->next = device->streams;
    device->streams = stream;
    pthread_mutex_unlock(&device->lock);
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__stream_create(void *device, uint64_t flags, void **out_stream)
{
    (void)flags;
    return add_stream(device, NULL, out_stream);
}

ddisp_status vulkan__stream_wrap(void *device_handle, uint64_t native_handle, void **out_stream)
{
    vulkan__device *device = device_handle;
    if (!device->own_adapter)
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "%s was opened by the library, whose queues are its own; wrap the "
                            "application's device to wrap its queues",
                            device->adapter->properties.deviceName);
    for (uint32_t i = 0; i < device->queue_count; i++)
        if ((uint64_t)(uintptr_t)device->queues[i].handle == native_handle)
            return add_stream(device, &device->queues[i], out_stream);
    return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                        "VkQueue 0x%" PRIx64 " is none of the %u that the device was wrapped with",
                        native_handle, device->queue_count);
}

static void release_batches(vulkan__device *device, vulkan__batch *batch)
{
    while (batch) {
        vulkan__batch *next = batch->next;
        vulkan__sets_close(device, &batch->sets);
        backend_release(device->services, batch);
        batch = next;
    }
}

void vulkan__stream_dispose(vulkan__device *device, vulkan__stream *stream)
{
    vulkan__batch_release_waits(stream);
    vulkan__ring_close(device, &stream->arguments);
    vulkan__ring_close(device, &stream->upload);
    vulkan__ring_close(device, &stream->download);
    vulkan__timed_release(device, stream);
    if (stream->pool) /* frees the command buffers */
        device->table.vkDestroyCommandPool(device->handle, stream->pool, NULL);
    if (stream->timeline)
        device->table.vkDestroySemaphore(device->handle, stream->timeline, NULL);
    release_batches(device, stream->open);
    release_batches(device, stream->in_flight);
    release_batches(device, stream->idle);
    backend_release(device->services, stream);
}

void vulkan__stream_destroy(void *device_handle, void *stream_handle)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    if (stream->capture)
        (void)vulkan__capture_end(device, stream, NULL);
    ddisp_status status = vulkan__batch_submit(device, stream);
    if (status != DDISP_STATUS_OK && status != DDISP_STATUS_DEVICE_LOST)
        backend_log(device->services, DDISP_LOG_LEVEL_WARNING,
                    "vulkan: a stream was destroyed with work that could not be submitted");
    if (status != DDISP_STATUS_OK)
        stream->failed = status; /* so that nothing is made of it again */
    atomic_store(&stream->destroyed, true);
    pthread_mutex_lock(&device->lock);
    vulkan__pool_reap(device);
    pthread_mutex_unlock(&device->lock);
}

ddisp_status vulkan__stream_flush(void *device, void *stream)
{
    return vulkan__batch_submit(device, stream);
}

ddisp_status vulkan__stream_mark(void *device, void *stream_handle, uint64_t *out_ticket)
{
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__batch_submit(device, stream);
    if (status == DDISP_STATUS_OK)
        *out_ticket = atomic_load(&stream->submitted);
    return status;
}

uint64_t vulkan__stream_next_ticket(const vulkan__stream *stream)
{
    bool unsignalled = stream->silent || (stream->open && !stream->capture);
    return atomic_load(&stream->submitted) + (unsignalled ? 1 : 0);
}

static void note_completed(vulkan__stream *stream, uint64_t ticket)
{
    if (atomic_load(&stream->completed) < ticket)
        atomic_store(&stream->completed, ticket); /* a lower value only costs a question */
}

/** The timeline's value. Some drivers set all bits of it when the device is lost. */
static VkResult read_timeline(vulkan__device *device, const vulkan__stream *stream,
                              uint64_t *out_value)
{
    VkResult result =
        device->table.vkGetSemaphoreCounterValue(device->handle, stream->timeline, out_value);
    return result == VK_SUCCESS && *out_value == UINT64_MAX ? VK_ERROR_DEVICE_LOST : result;
}

bool vulkan__stream_passed(vulkan__device *device, vulkan__stream *stream, uint64_t ticket)
{
    if (ticket <= atomic_load(&stream->completed) || atomic_load(&device->lost))
        return true;
    if (ticket > atomic_load(&stream->submitted))
        return false;
    uint64_t value = 0;
    VkResult result = read_timeline(device, stream, &value);
    if (result == VK_ERROR_DEVICE_LOST) {
        atomic_store(&device->lost, true);
        return true;
    }
    if (result == VK_SUCCESS)
        note_completed(stream, value);
    return result == VK_SUCCESS && ticket <= value;
}

/** OK for tickets that were given out, which are those of submitted work. */
static ddisp_status check_ticket(vulkan__device *device, const vulkan__stream *stream,
                                 uint64_t ticket)
{
    uint64_t submitted = atomic_load(&stream->submitted);
    if (ticket <= submitted)
        return DDISP_STATUS_OK;
    return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                        "ticket %" PRIu64 " was not given out; the stream's last is %" PRIu64,
                        ticket, submitted);
}

ddisp_status vulkan__stream_wait(void *device_handle, void *stream_handle, void *other_handle,
                                 uint64_t ticket)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle, *other = other_handle;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = check_ticket(device, other, ticket);
    if (status != DDISP_STATUS_OK)
        return status;
    if (other == stream || vulkan__stream_passed(device, other, ticket))
        return vulkan__alive(device);
    /* Work recorded before the wait must not wait. */
    if (stream->open && (stream->open->recording || stream->open->ended ||
                         stream->open->wait_count == VULKAN__BATCH_WAITS))
        status = vulkan__batch_submit(device, stream);
    if (status == DDISP_STATUS_OK)
        status = vulkan__batch_open(device, stream);
    if (status != DDISP_STATUS_OK)
        return status;
    vulkan__batch *batch = stream->open;
    for (uint32_t i = 0; i < batch->wait_count; i++) {
        if (batch->waits[i] != other)
            continue;
        if (batch->wait_tickets[i] < ticket)
            batch->wait_tickets[i] = ticket;
        return DDISP_STATUS_OK;
    }
    atomic_fetch_add(&other->holds, 1);
    batch->waits[batch->wait_count] = other;
    batch->wait_tickets[batch->wait_count] = ticket;
    batch->wait_count++;
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__stream_query(void *device_handle, void *stream_handle, uint64_t ticket)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__alive(device);
    if (status != DDISP_STATUS_OK || ticket <= atomic_load(&stream->completed))
        return status;
    status = check_ticket(device, stream, ticket);
    if (status != DDISP_STATUS_OK)
        return status;
    uint64_t value = 0;
    status =
        vulkan__check(device, read_timeline(device, stream, &value), "vkGetSemaphoreCounterValue");
    if (status != DDISP_STATUS_OK)
        return status;
    note_completed(stream, value);
    return ticket <= value ? DDISP_STATUS_OK : DDISP_STATUS_NOT_READY;
}

/* Not every driver ends a wait when the device is lost (NVIDIA's does not), but each says so to who
 * submits: a wait goes in slices, and behind each comes an empty submission. */
static VkResult wait_for(vulkan__device *device, vulkan__stream *stream, uint64_t ticket,
                         uint64_t timeout_ns)
{
    const uint64_t slice_ns = UINT64_C(500000000);
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &stream->timeline,
        .pValues = &ticket,
    };
    for (;;) {
        uint64_t wait_ns = timeout_ns < slice_ns ? timeout_ns : slice_ns;
        VkResult result = device->table.vkWaitSemaphores(device->handle, &info, wait_ns);
        if (result != VK_TIMEOUT || timeout_ns == 0)
            return result;
        vulkan__queue_lock(stream->queue);
        result = device->table.vkQueueSubmit(stream->queue->handle, 0, NULL, VK_NULL_HANDLE);
        vulkan__queue_unlock(stream->queue);
        if (result != VK_SUCCESS)
            return result;
        if (timeout_ns != UINT64_MAX)
            timeout_ns -= wait_ns;
        if (timeout_ns == 0)
            return VK_TIMEOUT;
    }
}

ddisp_status vulkan__stream_synchronize(void *device_handle, void *stream_handle, uint64_t ticket,
                                        uint64_t timeout_ns)
{
    vulkan__device *device = device_handle;
    vulkan__stream *stream = stream_handle;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK)
        status = check_ticket(device, stream, ticket);
    if (status != DDISP_STATUS_OK)
        return status;
    if (ticket > atomic_load(&stream->completed)) {
        VkResult result = wait_for(device, stream, ticket, timeout_ns);
        if (result == VK_TIMEOUT)
            return backend_fail(device->services, DDISP_STATUS_TIMEOUT, result,
                                "%s: the work was not done after %" PRIu64 " ns",
                                device->adapter->properties.deviceName, timeout_ns);
        status = vulkan__check(device, result, "vkWaitSemaphores");
        if (status != DDISP_STATUS_OK)
            return status;
        note_completed(stream, ticket);
    }
    pthread_mutex_lock(&device->lock);
    vulkan__pool_reap(device);
    pthread_mutex_unlock(&device->lock);
    return DDISP_STATUS_OK;
}
