/*
 * cuda_stream.c - streams: made here or the application's, in order of which all other rooms queue
 * their work. Tickets are in cuda_mark.c.
 */
#include "cuda_code.h"

#include <time.h>

/* ---- making and destroying */

/* With the context current. A handle of the application's is looked at, else one is made. */
static ddisp_status take_handle(cuda__device *device, cuda__stream *stream, const uint64_t *native)
{
    cu__context context = NULL;
    cu__result result;
    if (!native) {
        result = device->api->stream_create(&stream->handle, CU__STREAM_NON_BLOCKING);
        return result == CU__SUCCESS ? DDISP_STATUS_OK
                                     : cuda__fail(device, result, "cuStreamCreate");
    }
    if (*native == CU__STREAM_PER_THREAD) {
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "cuda:%d: CU_STREAM_PER_THREAD is another stream in each thread; wrap "
                            "one made by cuStreamCreate",
                            device->ordinal);
    }
    stream->borrowed = true;
    stream->handle = (cu__stream)(uintptr_t)*native;
    result = device->api->stream_get_ctx(stream->handle, &context);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuStreamGetCtx");
    }
    return context == device->context
               ? DDISP_STATUS_OK
               : backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                              "cuda:%d: the stream belongs to another context than the device's "
                              "(the primary one, unless the device is wrapped)",
                              device->ordinal);
}

static ddisp_status make_stream(cuda__device *device, const uint64_t *native, void **out_stream)
{
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__stream *stream = backend_allocate(device->services, sizeof *stream);
    if (!stream) {
        status = backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "cuda:%d: no host memory for a stream", device->ordinal);
        goto leave;
    }
    status = take_handle(device, stream, native);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, stream);
        goto leave;
    }
    (void)pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_lock(&device->lock);
    stream->next = device->streams;
    device->streams = stream;
    pthread_mutex_unlock(&device->lock);
    *out_stream = stream;
leave:
    cuda__leave(device, &scope);
    return status;
}

/* The device's own stream is as independent of the legacy stream as any other. */
ddisp_status cuda__stream_create(void *device, uint64_t flags, void **out_stream)
{
    (void)flags;
    return make_stream(device, NULL, out_stream);
}

ddisp_status cuda__stream_wrap(void *device, uint64_t native_handle, void **out_stream)
{
    return make_stream(device, &native_handle, out_stream);
}

/* Gives back what the driver holds, as long as it may be called. */
static void release_driver_side(cuda__device *device, cuda__stream *stream)
{
    if (stream->deferred) {
        cuda__memory_reap(device, stream, true);
    }
    if (stream->staging && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->stream_synchronize(stream->handle), "cuStreamSynchronize");
        cuda__staging_release(device, stream, cuda__driver_lost(device->ordinal));
    }
    if (stream->block_address && !cuda__driver_lost(device->ordinal)) {
        cuda__memory_give(device, stream, stream->block_address);
    }
}

void cuda__stream_destroy(void *device_handle, void *stream_handle)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__scope scope;
    (void)cuda__capture_end(device, stream, NULL);
    pthread_mutex_lock(&device->lock);
    for (cuda__stream **link = &device->streams; *link; link = &(*link)->next) {
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
    bool entered = cuda__enter_release(device, &scope);
    cuda__capture_forget(device, stream, entered);
    if (entered) {
        release_driver_side(device, stream);
    }
    cuda__marks_destroy(device, stream->oldest, entered);
    cuda__marks_destroy(device, stream->spare, entered);
    cuda__timed_release(device, stream, entered);
    cuda__staging_release(device, stream, true);
    while (stream->deferred) {
        cuda__allocation *allocation = stream->deferred;
        stream->deferred = allocation->next;
        backend_release(device->services, allocation);
    }
    if (entered) {
        if (!stream->borrowed && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->stream_destroy(stream->handle), "cuStreamDestroy");
        }
        cuda__leave(device, &scope);
    }
    (void)pthread_mutex_destroy(&stream->lock);
    backend_release(device->services, stream);
}

/* ---- the table's functions */

ddisp_status cuda__stream_flush(void *device_handle, void *stream_handle)
{
    const cuda__device *device = device_handle;
    (void)stream_handle; /* CUDA hands work over as it is queued */
    if (cuda__driver_lost(device->ordinal)) {
        return backend_fail(device->services, DDISP_STATUS_DEVICE_LOST, 0,
                            "cuda:%d was lost earlier in this process", device->ordinal);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__stream_mark(void *device_handle, void *stream_handle, uint64_t *out_ticket)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = cuda__stream_record(device, stream_handle, out_ticket);
    cuda__leave(device, &scope);
    return status;
}

ddisp_status cuda__stream_wait(void *device_handle, void *stream_handle, void *other_stream,
                               uint64_t ticket)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = cuda__mark_wait(device, stream_handle, other_stream, ticket);
    cuda__leave(device, &scope);
    return status;
}

ddisp_status cuda__stream_query(void *device_handle, void *stream_handle, uint64_t ticket)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = cuda__stream_test(device, stream_handle, ticket);
    cuda__leave(device, &scope);
    return status;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Asks again and again, at growing distances up to 1 ms. */
static ddisp_status await_until(cuda__device *device, cuda__stream *stream, uint64_t ticket,
                                uint64_t timeout_ns)
{
    uint64_t start_ns = now_ns(), pause_ns = 1000;
    for (;;) {
        ddisp_status status = cuda__stream_test(device, stream, ticket);
        uint64_t passed_ns = now_ns() - start_ns;
        if (status != DDISP_STATUS_NOT_READY) {
            return status;
        }
        if (passed_ns >= timeout_ns) {
            return backend_fail(device->services, DDISP_STATUS_TIMEOUT, 0,
                                "cuda:%d: the work was not done after %llu ns", device->ordinal,
                                (unsigned long long)timeout_ns);
        }
        uint64_t left_ns = timeout_ns - passed_ns;
        struct timespec pause = {0, (long)(pause_ns < left_ns ? pause_ns : left_ns)};
        (void)nanosleep(&pause, NULL);
        pause_ns = pause_ns < 500000 ? pause_ns * 2 : 1000000;
    }
}

ddisp_status cuda__stream_synchronize(void *device_handle, void *stream_handle, uint64_t ticket,
                                      uint64_t timeout_ns)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = timeout_ns == UINT64_MAX ? cuda__stream_await(device, stream_handle, ticket)
                                      : await_until(device, stream_handle, ticket, timeout_ns);
    cuda__leave(device, &scope);
    return status;
}
