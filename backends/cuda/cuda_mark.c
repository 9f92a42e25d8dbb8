/*
 * cuda_mark.c - tickets as recorded events.
 *
 * A ticket is a number; the newest marks have an event each. Events are recycled when their work
 * is seen to be done; when very many are pending the oldest event is taken, and its ticket is then
 * answered by the next one, which is later and so never wrong. Waits may overlap with everything
 * else on the stream: the lock guards the list of marks, and is never held while waiting.
 */
#include "cuda_code.h"

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

ddisp_status cuda__mark_wait(cuda__device *device, const cuda__stream *stream, cuda__stream *other,
                             uint64_t ticket)
{
    ddisp_status status = DDISP_STATUS_OK;
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
    return status;
}

void cuda__marks_destroy(cuda__device *device, cuda__mark *mark, bool entered)
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
