/*
 * host_timed.c - marks that tell the time at which a stream's work reached them, by the monotonic
 * clock.
 *
 * In: streams. Out: tickets, and the time between two of them. The newest marks of a stream are
 * kept, in a bounded number; asking for older ones is an error.
 */
#include "host_internal.h"

#include <time.h>

#define TIME_LIMIT 4096u

/** The time of a ticket. Belongs to its stream, whose lock guards it. */
typedef struct host_time {
    struct host_time *next;
    uint64_t ticket;
    uint64_t ns;
    bool reached;
} host_time;

typedef struct time_operation {
    host_operation operation;
    host_stream *stream; /* runs this operation, so that it is there */
    host_time *time;
} time_operation;

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void run_time(host_device *device, host_operation *operation)
{
    time_operation *own = (time_operation *)operation;
    uint64_t now = now_ns();
    (void)pthread_mutex_lock(&own->stream->lock);
    own->time->ns = now;
    own->time->reached = true;
    (void)pthread_mutex_unlock(&own->stream->lock);
    host__operation_done(device, operation);
}

/* Adds a time to the stream's, and drops the oldest past the limit. */
static void keep(host_stream *stream, host_time *time, uint64_t ticket)
{
    host_time *dropped = NULL;
    (void)pthread_mutex_lock(&stream->lock);
    time->ticket = ticket;
    if (stream->last_time) {
        stream->last_time->next = time;
    } else {
        stream->first_time = time;
    }
    stream->last_time = time;
    if (++stream->time_count > TIME_LIMIT && stream->first_time->reached) {
        dropped = stream->first_time;
        stream->first_time = dropped->next;
        stream->time_count--;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    backend_release(stream->device->services, dropped);
}

ddisp_status host__stream_mark_timed(void *device_handle, void *stream_handle, uint64_t *out_ticket)
{
    host_device *device = device_handle;
    host_stream *stream = stream_handle;
    ddisp_status status = DDISP_STATUS_OK;
    host_time *time = backend_allocate(device->services, sizeof *time);
    time_operation *own = backend_allocate(device->services, sizeof *own);
    if (!time || !own) {
        status = backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "host: no memory for a mark (%zu bytes)", sizeof *time + sizeof *own);
    } else {
        own->operation.run = run_time;
        own->stream = stream;
        own->time = time;
        if (stream->is_inline) {
            run_time(device, &own->operation);
            status = host__stream_mark(device, stream, out_ticket);
            own = NULL;
        } else {
            status = host__stream_submit(stream, &own->operation, out_ticket);
        }
    }
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, own);
        backend_release(device->services, time);
        return status;
    }
    keep(stream, time, *out_ticket);
    return DDISP_STATUS_OK;
}

/* A copy of a ticket's time; INVALID_ARGUMENT when there is none. */
static ddisp_status find(host_device *device, host_stream *stream, uint64_t ticket, host_time *copy)
{
    (void)pthread_mutex_lock(&stream->lock);
    const host_time *time = stream->first_time;
    while (time && time->ticket != ticket) {
        time = time->next;
    }
    if (time) {
        *copy = *time;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return time ? DDISP_STATUS_OK
                : backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                               "host: ticket %llu has no time: it was not marked with one, or %u "
                               "marks with time came after it on its stream",
                               (unsigned long long)ticket, TIME_LIMIT);
}

ddisp_status host__stream_elapsed(void *device_handle, void *begin_stream, uint64_t begin_ticket,
                                  void *end_stream, uint64_t end_ticket, uint64_t *out_ns)
{
    host_device *device = device_handle;
    host_time begin = {0}, end = {0};
    ddisp_status status = find(device, begin_stream, begin_ticket, &begin);
    if (status == DDISP_STATUS_OK) {
        status = find(device, end_stream, end_ticket, &end);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (!begin.reached || !end.reached) {
        return DDISP_STATUS_NOT_READY;
    }
    if (end.ns < begin.ns) {
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "host: the second mark was reached %llu ns before the first",
                            (unsigned long long)(begin.ns - end.ns));
    }
    *out_ns = end.ns - begin.ns;
    return DDISP_STATUS_OK;
}

void host__times_release(host_stream *stream)
{
    while (stream->first_time) {
        host_time *time = stream->first_time;
        stream->first_time = time->next;
        backend_release(stream->device->services, time);
    }
}
