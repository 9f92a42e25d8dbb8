/*
 * cuda_timed.c - marks that tell the device's time: a second event beside that of the ticket, kept
 * after its work is done, because its time may be asked for later.
 *
 * In: streams. Out: tickets, and the time between two of them. The newest marks of a stream are
 * kept, in a bounded number; older ones are recorded anew, and asking for them is an error.
 */
#include "cuda_internal.h"

#define TIMED_LIMIT 4096u

/* The stream's lock is held. */
static cuda__mark *find(const cuda__stream *stream, uint64_t ticket)
{
    cuda__mark *mark = stream->first_timed;
    while (mark && mark->ticket != ticket) {
        mark = mark->next;
    }
    return mark;
}

static void append(cuda__stream *stream, cuda__mark *mark)
{
    mark->next = NULL;
    if (stream->last_timed) {
        stream->last_timed->next = mark;
    } else {
        stream->first_timed = mark;
    }
    stream->last_timed = mark;
}

/* A mark whose event may be recorded, in no list. */
static ddisp_status take(cuda__device *device, cuda__stream *stream, cuda__mark **out_mark)
{
    cuda__mark *oldest = stream->first_timed;
    if (stream->timed_count >= TIMED_LIMIT && oldest->waiters == 0) {
        stream->first_timed = oldest->next;
        if (!stream->first_timed) {
            stream->last_timed = NULL;
        }
        *out_mark = oldest;
        return DDISP_STATUS_OK;
    }
    cuda__mark *mark = backend_allocate(device->services, sizeof *mark);
    if (!mark) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory for a mark", device->ordinal);
    }
    cu__result result = device->api->event_create(&mark->event, CU__EVENT_DEFAULT);
    if (result != CU__SUCCESS) {
        backend_release(device->services, mark);
        return cuda__fail(device, result, "cuEventCreate");
    }
    stream->timed_count++;
    *out_mark = mark;
    return DDISP_STATUS_OK;
}

/* Gives a mark that is in no list back, with its event. */
static void drop(cuda__device *device, cuda__stream *stream, cuda__mark *mark)
{
    if (!cuda__driver_lost(device->ordinal)) {
        cuda__note(device, device->api->event_destroy(mark->event), "cuEventDestroy");
    }
    stream->timed_count--;
    backend_release(device->services, mark);
}

/* With the context current. */
static ddisp_status mark_timed(cuda__device *device, cuda__stream *stream, uint64_t *out_ticket)
{
    cuda__mark *mark = NULL;
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = take(device, stream, &mark);
    pthread_mutex_unlock(&stream->lock);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = device->api->event_record(mark->event, stream->handle);
    status = result == CU__SUCCESS ? cuda__stream_record(device, stream, out_ticket)
                                   : cuda__fail(device, result, "cuEventRecord");
    pthread_mutex_lock(&stream->lock);
    if (status == DDISP_STATUS_OK) {
        mark->ticket = *out_ticket;
        append(stream, mark);
    } else {
        drop(device, stream, mark);
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

ddisp_status cuda__stream_mark_timed(void *device_handle, void *stream_handle, uint64_t *out_ticket)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status == DDISP_STATUS_OK) {
        status = mark_timed(device, stream_handle, out_ticket);
        cuda__leave(device, &scope);
    }
    return status;
}

/* ---- time */

/* Finds a mark and keeps its event from being recorded anew. */
static ddisp_status hold(cuda__device *device, cuda__stream *stream, uint64_t ticket,
                         cuda__mark **out_mark)
{
    pthread_mutex_lock(&stream->lock);
    cuda__mark *mark = find(stream, ticket);
    if (mark) {
        mark->waiters++;
    }
    pthread_mutex_unlock(&stream->lock);
    *out_mark = mark;
    return mark ? DDISP_STATUS_OK
                : backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                               "cuda:%d: ticket %llu has no time: it was not marked with one, or "
                               "%u marks with time came after it on its stream",
                               device->ordinal, (unsigned long long)ticket, TIMED_LIMIT);
}

static void let_go(cuda__stream *stream, cuda__mark *mark)
{
    pthread_mutex_lock(&stream->lock);
    mark->waiters--;
    pthread_mutex_unlock(&stream->lock);
}

static ddisp_status elapsed(cuda__device *device, cu__event begin, cu__event end, uint64_t *out_ns)
{
    float milliseconds = 0;
    cu__result result =
        device->api->event_query(end); /* to ask for the time too early is an error */
    if (result == CU__SUCCESS) {
        result = device->api->event_query(begin);
    }
    if (result == CU__SUCCESS) {
        result = device->api->event_elapsed_time(&milliseconds, begin, end);
    }
    if (result == CU__ERROR_NOT_READY) {
        return DDISP_STATUS_NOT_READY;
    }
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuEventElapsedTime");
    }
    if (!(milliseconds >= 0)) {
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "cuda:%d: the second mark was reached %g ms before the first",
                            device->ordinal, -(double)milliseconds);
    }
    *out_ns = (uint64_t)((double)milliseconds * 1e6 + 0.5);
    return DDISP_STATUS_OK;
}

ddisp_status cuda__stream_elapsed(void *device_handle, void *begin_handle, uint64_t begin_ticket,
                                  void *end_handle, uint64_t end_ticket, uint64_t *out_ns)
{
    cuda__device *device = device_handle;
    cuda__stream *begin_stream = begin_handle, *end_stream = end_handle;
    cuda__mark *begin = NULL, *end = NULL;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    status = hold(device, begin_stream, begin_ticket, &begin);
    if (status == DDISP_STATUS_OK) {
        status = hold(device, end_stream, end_ticket, &end);
    }
    if (status == DDISP_STATUS_OK) {
        status = elapsed(device, begin->event, end->event, out_ns);
    }
    if (begin) {
        let_go(begin_stream, begin);
    }
    if (end) {
        let_go(end_stream, end);
    }
    cuda__leave(device, &scope);
    return status;
}

void cuda__timed_release(cuda__device *device, cuda__stream *stream, bool entered)
{
    while (stream->first_timed) {
        cuda__mark *mark = stream->first_timed;
        stream->first_timed = mark->next;
        if (entered && !cuda__driver_lost(device->ordinal)) {
            cuda__note(device, device->api->event_destroy(mark->event), "cuEventDestroy");
        }
        backend_release(device->services, mark);
    }
}
