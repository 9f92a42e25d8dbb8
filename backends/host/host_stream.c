/*
 * host_stream.c - in-order queues of work, and tickets that mark points in them.
 *
 * In: operations. Out: their effects, in order, and a count of those that are done. The device's
 * own stream holds nothing: its callers do the work themselves. Other streams start one worker
 * thread with their first operation. A destroyed stream is retired: its worker runs what is queued
 * and ends, and a later call joins it, so that destroying never waits for a kernel.
 */
#include "host_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

typedef struct wait_operation {
    host_operation operation;
    host_stream *other; /* referenced */
    uint64_t ticket;
} wait_operation;

static void drop(host_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    host__times_release(stream);
    (void)pthread_cond_destroy(&stream->progress);
    (void)pthread_cond_destroy(&stream->work);
    (void)pthread_mutex_destroy(&stream->lock);
    backend_release(stream->device->services, stream);
}

static void *worker(void *user)
{
    host_stream *stream = user;
    (void)pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->closing) {
            (void)pthread_cond_wait(&stream->work, &stream->lock);
        }
        host_operation *operation = stream->first;
        if (!operation) {
            break;
        }
        stream->first = operation->next;
        if (!stream->first) {
            stream->last = NULL;
        }
        (void)pthread_mutex_unlock(&stream->lock);
        operation->run(stream->device, operation);
        (void)pthread_mutex_lock(&stream->lock);
        stream->done++;
        (void)pthread_cond_broadcast(&stream->progress);
    }
    stream->ended = true;
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/** Starts the worker. It takes no signal of the program's but those that its own code raises. */
static int start(host_stream *stream)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)sigdelset(&blocked, own[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int code = pthread_create(&stream->thread, NULL, worker, stream);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        stream->started = true;
        (void)pthread_setname_np(stream->thread, "ddisp-stream");
    }
    return code;
}

static void append(host_stream *stream, host_operation *operation)
{
    operation->next = NULL;
    if (stream->last) {
        stream->last->next = operation;
    } else {
        stream->first = operation;
    }
    stream->last = operation;
    stream->queued++;
    (void)pthread_cond_signal(&stream->work);
}

bool host__stream_is_inline(const host_stream *stream)
{
    return stream->is_inline && !stream->recording;
}

ddisp_status host__stream_submit(host_stream *stream, host_operation *operation,
                                 uint64_t *out_ticket)
{
    int code = 0;
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->recording) {
        host__graph_append(stream->recording, operation);
        *out_ticket = stream->queued;
    } else if (stream->started || (code = start(stream)) == 0) {
        append(stream, operation);
        *out_ticket = stream->queued;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (code != 0) {
        return backend_fail(stream->device->services, DDISP_STATUS_DRIVER_ERROR, code,
                            "host: no thread for a stream (error %d); use fewer streams or raise "
                            "the limit of threads",
                            code);
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__stream_run(host_device *device, host_stream *stream, host_operation *operation)
{
    uint64_t ticket;
    if (host__stream_is_inline(stream)) {
        operation->run(device, operation);
        return DDISP_STATUS_OK;
    }
    ddisp_status status = host__stream_submit(stream, operation, &ticket);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, operation);
    }
    return status;
}

bool host__stream_defer(host_stream *stream, host_operation *operation)
{
    (void)pthread_mutex_lock(&stream->lock);
    bool busy = stream->done < stream->queued;
    if (busy) {
        append(stream, operation);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return busy;
}

/** The point in monotonic time that lies timeout_ns ahead; false when it is too far to be told. */
static bool deadline(uint64_t timeout_ns, struct timespec *out_time)
{
    const uint64_t second = UINT64_C(1000000000);
    if (timeout_ns > (UINT64_C(1) << 62)) {
        return false;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, out_time);
    uint64_t nanoseconds = (uint64_t)out_time->tv_nsec + timeout_ns;
    out_time->tv_sec += (time_t)(nanoseconds / second);
    out_time->tv_nsec = (long)(nanoseconds % second);
    return true;
}

bool host__stream_reach(host_stream *stream, uint64_t ticket, uint64_t timeout_ns)
{
    struct timespec end;
    bool bounded = deadline(timeout_ns, &end);
    int code = 0;
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->done < ticket && code != ETIMEDOUT) {
        code = bounded ? pthread_cond_timedwait(&stream->progress, &stream->lock, &end)
                       : pthread_cond_wait(&stream->progress, &stream->lock);
    }
    bool reached = stream->done >= ticket;
    (void)pthread_mutex_unlock(&stream->lock);
    return reached;
}

void host__stream_reap(host_device *device, bool all)
{
    host_stream *ended = NULL;
    (void)pthread_mutex_lock(&device->lock);
    host_stream **link = &device->retired;
    while (*link) {
        host_stream *stream = *link;
        (void)pthread_mutex_lock(&stream->lock);
        bool take = all || stream->ended;
        (void)pthread_mutex_unlock(&stream->lock);
        if (!take) {
            link = &stream->next_retired;
            continue;
        }
        *link = stream->next_retired;
        stream->next_retired = ended;
        ended = stream;
    }
    (void)pthread_mutex_unlock(&device->lock);
    while (ended) {
        host_stream *stream = ended;
        ended = stream->next_retired;
        (void)pthread_join(stream->thread, NULL);
        drop(stream);
    }
}

/** Makes the stream's lock and conditions; all or none. */
static int make_locks(host_stream *stream)
{
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    if (code != 0) {
        return code;
    }
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (code == 0) {
        code = pthread_cond_init(&stream->progress, &attributes);
    }
    (void)pthread_condattr_destroy(&attributes);
    if (code != 0) {
        return code;
    }
    code = pthread_cond_init(&stream->work, NULL);
    if (code != 0) {
        goto no_work;
    }
    code = pthread_mutex_init(&stream->lock, NULL);
    if (code == 0) {
        return 0;
    }
    (void)pthread_cond_destroy(&stream->work);
no_work:
    (void)pthread_cond_destroy(&stream->progress);
    return code;
}

ddisp_status host__stream_create(void *device_handle, uint64_t flags, void **out_stream)
{
    host_device *device = device_handle;
    host__stream_reap(device, false);
    host_stream *stream = backend_allocate(device->services, sizeof *stream);
    if (!stream) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for a stream (%zu bytes)", sizeof *stream);
    }
    int code = make_locks(stream);
    if (code != 0) {
        backend_release(device->services, stream);
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, code,
                            "host: no mutex or condition for a stream (error %d)", code);
    }
    stream->device = device;
    stream->is_inline = (flags & DDISP_BACKEND_STREAM_DEFAULT) != 0;
    atomic_init(&stream->references, 1);
    stream->queued = stream->done = 1; /* so that no mark is 0, which is before everything */
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

void host__stream_destroy(void *device_handle, void *stream_handle)
{
    host_device *device = device_handle;
    host_stream *stream = stream_handle;
    if (stream->recording) {
        (void)host__capture_end(device, stream, NULL);
    }
    (void)pthread_mutex_lock(&stream->lock);
    bool started = stream->started;
    stream->closing = true;
    (void)pthread_cond_signal(&stream->work);
    (void)pthread_mutex_unlock(&stream->lock);
    if (!started) {
        drop(stream);
        return;
    }
    (void)pthread_mutex_lock(&device->lock);
    stream->next_retired = device->retired;
    device->retired = stream;
    (void)pthread_mutex_unlock(&device->lock);
    host__stream_reap(device, false);
}

/** Nothing to do: a worker takes its work as it comes. */
ddisp_status host__stream_flush(void *device, void *stream)
{
    (void)device;
    (void)stream;
    return DDISP_STATUS_OK;
}

ddisp_status host__stream_mark(void *device, void *stream_handle, uint64_t *out_ticket)
{
    host_stream *stream = stream_handle;
    (void)device;
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->is_inline) {
        stream->done = ++stream->queued;
    }
    *out_ticket = stream->queued;
    (void)pthread_mutex_unlock(&stream->lock);
    return DDISP_STATUS_OK;
}

static void run_wait(host_device *device, host_operation *operation)
{
    wait_operation *wait = (wait_operation *)operation;
    (void)host__stream_reach(wait->other, wait->ticket, UINT64_MAX);
    drop(wait->other);
    backend_release(device->services, wait);
}

ddisp_status host__stream_wait(void *device_handle, void *stream_handle, void *other_handle,
                               uint64_t ticket)
{
    host_device *device = device_handle;
    host_stream *stream = stream_handle, *other = other_handle;
    if (stream->is_inline) {
        (void)host__stream_reach(other, ticket, UINT64_MAX);
        return DDISP_STATUS_OK;
    }
    if (stream == other || host__stream_reach(other, ticket, 0)) {
        return DDISP_STATUS_OK;
    }
    wait_operation *wait = backend_allocate(device->services, sizeof *wait);
    if (!wait) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a wait (%zu bytes)", sizeof *wait);
    }
    wait->operation.run = run_wait;
    wait->other = other;
    wait->ticket = ticket;
    atomic_fetch_add_explicit(&other->references, 1, memory_order_relaxed);
    uint64_t own_ticket;
    ddisp_status status = host__stream_submit(stream, &wait->operation, &own_ticket);
    if (status != DDISP_STATUS_OK) {
        drop(other);
        backend_release(device->services, wait);
    }
    return status;
}

ddisp_status host__stream_query(void *device, void *stream_handle, uint64_t ticket)
{
    host_stream *stream = stream_handle;
    (void)device;
    (void)pthread_mutex_lock(&stream->lock);
    bool done = stream->done >= ticket;
    (void)pthread_mutex_unlock(&stream->lock);
    return done ? DDISP_STATUS_OK : DDISP_STATUS_NOT_READY;
}

ddisp_status host__stream_synchronize(void *device_handle, void *stream_handle, uint64_t ticket,
                                      uint64_t timeout_ns)
{
    host_device *device = device_handle;
    if (host__stream_reach(stream_handle, ticket, timeout_ns)) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(device->services, DDISP_STATUS_TIMEOUT, 0,
                        "host: the stream's work was not done after %llu ns; wait longer or ask "
                        "again",
                        (unsigned long long)timeout_ns);
}
