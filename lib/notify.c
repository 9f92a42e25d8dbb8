/*
 * notify.c - functions of the host that are called when work of a device is done.
 *
 * In: an event and a function. Out: one call of it, from the context's one thread for that, which
 * is started at first use and ends with the context. Drivers' own threads call nobody, and no lock
 * is held while a function runs. A waiting function holds its stream and device, and so the
 * context; when the last reference goes inside one, the thread ends by itself.
 */
#include "lower.h"

/* The work waited for first is waited for this long before all others are asked about. */
#define ROUND_NS UINT64_C(1000000)

typedef struct entry {
    struct entry *next;
    ddisp_device *device; /* referenced */
    ddisp_stream *stream; /* referenced; NULL: there is no work */
    uint64_t ticket;
    ddisp_notify_function function;
    void *user_data;
} entry;

struct ddisp__notifier {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t work;
    entry *first, *last; /* not seen by the thread yet */
    bool ended;
    bool detached; /* it ended inside one of its own functions: the thread frees this */
};

/* ---- the thread */

static void finish(entry *done, ddisp_status status)
{
    ddisp_device *device = done->device;
    done->function(done->user_data, status);
    ddisp_stream_release(done->stream);
    ddisp__release(device->context, done);
    ddisp_device_release(device);
}

static ddisp_status outcome(const entry *waiting)
{
    if (ddisp__device_lost(waiting->device))
        return DDISP_STATUS_DEVICE_LOST;
    return waiting->stream ? ddisp__stream_query(waiting->stream, waiting->ticket)
                           : DDISP_STATUS_OK;
}

static bool is_behind(const entry *list, const entry *one)
{
    while (list != one && list->stream != one->stream)
        list = list->next;
    return list != one && one->stream;
}

/* Calls the functions whose work is done; those of one stream in order. */
static bool run_done(entry **list)
{
    bool any = false;
    for (entry **link = list; *link;) {
        entry *one = *link;
        ddisp_status status = is_behind(*list, one) ? DDISP_STATUS_NOT_READY : outcome(one);
        if (status == DDISP_STATUS_NOT_READY) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        finish(one, status);
        any = true;
    }
    return any;
}

static void destroy(struct ddisp__notifier *notifier)
{
    (void)pthread_cond_destroy(&notifier->work);
    (void)pthread_mutex_destroy(&notifier->lock);
    ddisp__release(NULL, notifier);
}

static void *run(void *user)
{
    struct ddisp__notifier *notifier = user;
    entry *waiting = NULL;
    for (;;) {
        entry **end = &waiting;
        while (*end)
            end = &(*end)->next;
        (void)pthread_mutex_lock(&notifier->lock);
        while (!waiting && !notifier->first && !notifier->ended)
            (void)pthread_cond_wait(&notifier->work, &notifier->lock);
        *end = notifier->first;
        notifier->first = notifier->last = NULL;
        bool detached = notifier->detached;
        (void)pthread_mutex_unlock(&notifier->lock);
        if (!waiting && detached)
            destroy(notifier);
        if (!waiting)
            return NULL;
        if (!run_done(&waiting))
            (void)ddisp__stream_await(waiting->stream, waiting->ticket, ROUND_NS);
    }
}

/* ---- for the rest of the core */

/* The context's notifier, made when there is none. NULL, with the error recorded. */
static struct ddisp__notifier *find(ddisp_context *context)
{
    (void)pthread_mutex_lock(&context->lock);
    struct ddisp__notifier *notifier = context->notifier;
    if (!notifier && (notifier = ddisp__allocate(NULL, sizeof *notifier))) {
        (void)pthread_mutex_init(&notifier->lock, NULL);
        (void)pthread_cond_init(&notifier->work, NULL);
        if (!ddisp__thread_start(&notifier->thread, "ddisp-notify", run, notifier)) {
            destroy(notifier);
            notifier = NULL;
        }
        context->notifier = notifier;
    }
    (void)pthread_mutex_unlock(&context->lock);
    if (!notifier)
        (void)ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no thread to call functions of the host");
    return notifier;
}

void ddisp__notify_end(ddisp_context *context)
{
    struct ddisp__notifier *notifier = context->notifier;
    if (!notifier || ddisp__context_forked(context)) /* a forked child does not have the thread */
        return;
    context->notifier = NULL;
    bool inside = pthread_equal(notifier->thread, pthread_self());
    (void)pthread_mutex_lock(&notifier->lock);
    notifier->ended = true;
    notifier->detached = inside;
    (void)pthread_cond_signal(&notifier->work);
    (void)pthread_mutex_unlock(&notifier->lock);
    if (inside) {
        (void)pthread_detach(notifier->thread);
        return;
    }
    (void)pthread_join(notifier->thread, NULL);
    destroy(notifier);
}

ddisp_status ddisp__notify_add(ddisp_device *device, ddisp_stream *stream, uint64_t ticket,
                               ddisp_notify_function function, void *user_data)
{
    ddisp_context *context = device->context;
    entry *added = ddisp__allocate(context, sizeof *added);
    if (!added)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory to note a function");
    struct ddisp__notifier *notifier = find(context);
    if (!notifier) {
        ddisp__release(context, added);
        return DDISP_STATUS_OUT_OF_MEMORY;
    }
    ddisp_device_retain(device);
    ddisp_stream_retain(stream);
    *added = (entry){.device = device,
                     .stream = stream,
                     .ticket = ticket,
                     .function = function,
                     .user_data = user_data};
    (void)pthread_mutex_lock(&notifier->lock);
    if (notifier->last)
        notifier->last->next = added;
    else
        notifier->first = added;
    notifier->last = added;
    (void)pthread_cond_signal(&notifier->work);
    (void)pthread_mutex_unlock(&notifier->lock);
    return DDISP_STATUS_OK;
}
