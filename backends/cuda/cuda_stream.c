/*
 * cuda_stream.c - streams, and tickets as recorded events.
 *
 * A ticket is a number; the newest marks have an event each. Events are recycled when their work
 * is seen to be done; when very many are pending the oldest event is taken, and its ticket is then
 * answered by the next one, which is later and so never wrong. Waits may overlap with everything
 * else on the stream: the lock guards the list of marks, and is never held while waiting.
 */
#include "cuda_code.h"

#include <time.h>

#define MARK_LIMIT 256u

/* ---- marks; the stream's lock is held in all of these */

/* First mark that covers the ticket. There is one for every ticket given out and not known done. */
static cuda__mark *covering(const cuda__stream *stream, uint64_t ticket)
{
    cuda__mark *mark = stream->oldest;
    while (mark && mark->ticket < ticket) {
        mark = mark->next;
    }
    return mark;
}

static cuda__mark *detach(cuda__stream *stream, cuda__mark **link)
{
    cuda__mark *mark = *link;
    *link = mark->next;
    if (stream->newest == mark) {
        stream->newest = NULL;
        for (cuda__mark *each = stream->oldest; each; each = each->next) {
            stream->newest = each;
        }
    }
    return mark;
}

static void keep(cuda__stream *stream, cuda__mark *mark)
{
    mark->next = stream->spare;
    stream->spare = mark;
}

static void note_done(cuda__stream *stream, uint64_t ticket)
{
    if (ticket > stream->done_ticket) {
        stream->done_ticket = ticket;
    }
    while (stream->oldest && stream->oldest->ticket <= stream->done_ticket &&
           stream->oldest->waiters == 0) {
        keep(stream, detach(stream, &stream->oldest));
    }
}

static ddisp_status make_mark(cuda__device *device, cuda__stream *stream, cuda__mark **out_mark)
{
    cuda__mark *mark = backend_allocate(device->services, sizeof *mark);
    if (!mark) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory for a mark", device->ordinal);
    }
    cu__result result = device->api->event_create(&mark->event, CU__EVENT_DISABLE_TIMING);
    if (result != CU__SUCCESS) {
        backend_release(device->services, mark);
        return cuda__fail(device, result, "cuEventCreate");
    }
    stream->mark_count++;
    *out_mark = mark;
    return DDISP_STATUS_OK;
}

/* A mark whose event may be recorded. */
static ddisp_status find_mark(cuda__device *device, cuda__stream *stream, cuda__mark **out_mark)
{
    if (!stream->spare && stream->oldest && stream->oldest->waiters == 0) {
        cu__result result = device->api->event_query(stream->oldest->event);
        if (result == CU__SUCCESS) {
            note_done(stream, stream->oldest->ticket);
        } else if (result != CU__ERROR_NOT_READY) {
            return cuda__fail(device, result, "cuEventQuery");
        }
    }
    if (stream->spare) {
        *out_mark = stream->spare;
        stream->spare = stream->spare->next;
        return DDISP_STATUS_OK;
    }
    if (stream->mark_count >= MARK_LIMIT) {
        for (cuda__mark **link = &stream->oldest; *link; link = &(*link)->next) {
            if ((*link)->waiters == 0) {
                *out_mark = detach(stream, link);
                return DDISP_STATUS_OK;
            }
        }
    }
    return make_mark(device, stream, out_mark);
}

ddisp_status cuda__stream_record(cuda__device *device, cuda__stream *stream, uint64_t *out_ticket)
{
    cuda__mark *mark = NULL;
    if (stream->recording) { /* the event would be recorded, and say nothing until it is replayed */
        return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0,
                            "cuda:%d: a stream that records cannot be marked", device->ordinal);
    }
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = find_mark(device, stream, &mark);
    if (status != DDISP_STATUS_OK) {
        goto unlock;
    }
    cu__result result = device->api->event_record(mark->event, stream->handle);
    if (result != CU__SUCCESS) {
        keep(stream, mark);
        status = cuda__fail(device, result, "cuEventRecord");
        goto unlock;
    }
    mark->ticket = ++stream->last_ticket;
    mark->next = NULL;
    if (stream->newest) {
        stream->newest->next = mark;
    } else {
        stream->oldest = mark;
    }
    stream->newest = mark;
    *out_ticket = mark->ticket;
unlock:
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static ddisp_status unknown_ticket(cuda__device *device, const cuda__stream *stream,
                                   uint64_t ticket)
{
    return backend_fail(device->services, DDISP_STATUS_INTERNAL, 0,
                        "cuda:%d: ticket %llu was never given out, the last is %llu",
                        device->ordinal, (unsigned long long)ticket,
                        (unsigned long long)stream->last_ticket);
}

ddisp_status cuda__stream_test(cuda__device *device, cuda__stream *stream, uint64_t ticket)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&stream->lock);
    if (ticket > stream->done_ticket) {
        const cuda__mark *mark = covering(stream, ticket);
        cu__result result = mark ? device->api->event_query(mark->event) : CU__SUCCESS;
        if (!mark) {
            status = unknown_ticket(device, stream, ticket);
        } else if (result == CU__SUCCESS) {
            note_done(stream, mark->ticket);
        } else if (result == CU__ERROR_NOT_READY) {
            status = DDISP_STATUS_NOT_READY;
        } else {
            status = cuda__fail(device, result, "cuEventQuery");
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

ddisp_status cuda__stream_await(cuda__device *device, cuda__stream *stream, uint64_t ticket)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&stream->lock);
    if (ticket <= stream->done_ticket) {
        goto unlock;
    }
    cuda__mark *mark = covering(stream, ticket);
    if (!mark) {
        status = unknown_ticket(device, stream, ticket);
        goto unlock;
    }
    mark->waiters++;
    pthread_mutex_unlock(&stream->lock);
    cu__result result = device->api->event_synchronize(mark->event);
    pthread_mutex_lock(&stream->lock);
    mark->waiters--;
    if (result == CU__SUCCESS) {
        note_done(stream, mark->ticket);
    } else {
        status = cuda__fail(device, result, "cuEventSynchronize");
    }
unlock:
    pthread_mutex_unlock(&stream->lock);
    return status;
}

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
                              "primary one",
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

static void destroy_marks(cuda__device *device, cuda__mark *mark, bool entered)
{
    while (mark) {
        cuda__mark *next = mark->next;
        if (entered && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->event_destroy(mark->event), "cuEventDestroy");
        }
        backend_release(device->services, mark);
        mark = next;
    }
}

void cuda__stream_destroy(void *device_handle, void *stream_handle)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__scope scope;
    if (stream->recording) {
        (void)cuda__capture_end(device, stream, NULL);
    }
    pthread_mutex_lock(&device->lock);
    for (cuda__stream **link = &device->streams; *link; link = &(*link)->next) {
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
    bool entered = cuda__enter_release(device, &scope);
    if (entered) {
        release_driver_side(device, stream);
    }
    destroy_marks(device, stream->oldest, entered);
    destroy_marks(device, stream->spare, entered);
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
    const cuda__stream *stream = stream_handle;
    cuda__stream *other = other_stream;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&other->lock);
    if (ticket > other->done_ticket) {
        const cuda__mark *mark = covering(other, ticket);
        cu__result result =
            mark ? device->api->stream_wait_event(stream->handle, mark->event, 0) : CU__SUCCESS;
        if (!mark) {
            status = unknown_ticket(device, other, ticket);
        } else if (result != CU__SUCCESS) {
            status = cuda__fail(device, result, "cuStreamWaitEvent");
        }
    }
    pthread_mutex_unlock(&other->lock);
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
