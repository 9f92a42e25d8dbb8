/*
 * trace.c - DDISP_TRACE=file: what was launched, as a trace that Chrome and Perfetto show; and
 * ranges for NVIDIA's tools.
 *
 * In: each launch, with the host's time and timed tickets around its work. Out: one event a launch.
 * The file is whole JSON after every write: an event and the end of the list are written at once,
 * over the end before, with room for the device's time, which is put there when it is known. One
 * file a process, whatever contexts it has; nothing has to be closed. Never fails a launch: what
 * cannot be written is left out.
 */
#define _GNU_SOURCE /* syscall */
#include "trace.h"
#include "lower.h"
#include "ranges.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENT_BYTES 8192
#define ROOM_BYTES  24 /* of a device time, which starts as "null" */

/* A launch whose device time is not known yet. */
typedef struct waiting {
    struct waiting *next;
    ddisp_stream *stream; /* not counted: a stream that ends is left before */
    uint64_t begin, end;
    off_t place;
} waiting;

struct ddisp__trace {
    pthread_mutex_t lock; /* guards the fields below; a stream's lock is taken inside */
    int file;             /* -1: none */
    off_t at;             /* of the end of the list */
    bool has_events;
    waiting *first, *last;
    bool has_tool; /* that reads ranges */
    ddisp__ranges ranges;
};

static struct ddisp__trace process_trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* ---- opening */

static bool put(struct ddisp__trace *trace, const char *text, size_t length, off_t at)
{
    while (length > 0) {
        ssize_t written = pwrite(trace->file, text, length, at);
        if (written <= 0)
            return false;
        text += written;
        at += written;
        length -= (size_t)written;
    }
    return true;
}

static void open_trace(void)
{
    static const char head[] = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
    struct ddisp__trace *trace = &process_trace;
    const char *path = ddisp__environment("DDISP_TRACE");
    trace->has_tool = ddisp__ranges_find(&trace->ranges);
    if (!path || !*path)
        return;
    trace->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    trace->at = (off_t)(sizeof head - 1);
    if (trace->file >= 0 &&
        !(put(trace, head, sizeof head - 1, 0) && put(trace, "\n]}\n", 4, trace->at))) {
        (void)close(trace->file);
        trace->file = -1;
    }
    if (trace->file < 0)
        fprintf(stderr, "diffdispatch: warning: DDISP_TRACE: %s cannot be written\n", path);
}

ddisp__trace *ddisp__trace_open(void)
{
    (void)pthread_once(&opened, open_trace);
    return process_trace.file >= 0 || process_trace.has_tool ? &process_trace : NULL;
}

/* ---- device times */

/* Stores the time of the first that waits. False when its work is not done. */
static bool settle(struct ddisp__trace *trace, waiting *one, bool wait)
{
    ddisp_stream *stream = one->stream;
    ddisp_device *device = stream->device;
    char text[ROOM_BYTES + 1];
    uint64_t ns = 0;
    ddisp_status status = DDISP_STATUS_DEVICE_LOST;
    if (!ddisp__device_lost(device) && !ddisp__context_forked(device->context)) {
        if (wait)
            (void)device->table->stream_synchronize(device->handle, stream->handle, one->end,
                                                    DDISP_TIMEOUT_INFINITE);
        (void)pthread_mutex_lock(&stream->lock);
        status = device->table->stream_elapsed(device->handle, stream->handle, one->begin,
                                               stream->handle, one->end, &ns);
        (void)pthread_mutex_unlock(&stream->lock);
    }
    if (status == DDISP_STATUS_NOT_READY && !wait)
        return false;
    int length = snprintf(text, sizeof text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
    if (status == DDISP_STATUS_OK && length > 0)
        (void)put(trace, text, (size_t)length, one->place);
    return true;
}

/* Of one stream, waiting for it, or of all whose work is done. Trace is locked. */
static void settle_all(struct ddisp__trace *trace, const ddisp_stream *only)
{
    waiting **link = &trace->first;
    trace->last = NULL;
    while (*link) {
        waiting *one = *link;
        if ((only && one->stream != only) || !settle(trace, one, only != NULL)) {
            trace->last = one;
            link = &one->next;
            continue;
        }
        *link = one->next;
        ddisp__release(NULL, one);
    }
}

void ddisp__trace_poll(ddisp__trace *trace)
{
    ddisp_error before = *ddisp__error();
    (void)pthread_mutex_lock(&trace->lock);
    settle_all(trace, NULL);
    (void)pthread_mutex_unlock(&trace->lock);
    ddisp__error_restore(&before);
}

void ddisp__trace_leave(ddisp_stream *stream)
{
    ddisp__trace *trace = stream->device->context->trace;
    if (ddisp__context_forked(stream->device->context))
        return;
    (void)pthread_mutex_lock(&trace->lock);
    settle_all(trace, stream);
    (void)pthread_mutex_unlock(&trace->lock);
}

/* ---- events */

/* A timed ticket; 0 when the stream gives none now. */
static uint64_t mark(ddisp_stream *stream)
{
    ddisp_device *device = stream->device;
    uint64_t ticket = 0;
    ddisp_status status = DDISP_STATUS_UNSUPPORTED;
    (void)pthread_mutex_lock(&stream->lock);
    if (!stream->capture && ddisp__table_offers(device->table, stream_mark_timed) &&
        ddisp__table_offers(device->table, stream_elapsed))
        status = device->table->stream_mark_timed(device->handle, stream->handle, &ticket);
    (void)pthread_mutex_unlock(&stream->lock);
    return status == DDISP_STATUS_OK ? ticket : 0;
}

void ddisp__trace_begin(ddisp__traced *traced)
{
    const ddisp__trace *trace = traced->stream->device->context->trace;
    if (trace->has_tool)
        (void)trace->ranges.push(traced->name);
    traced->begin = trace->file >= 0 ? mark(traced->stream) : 0;
}

void ddisp__trace_cancel(const ddisp__traced *traced)
{
    const ddisp__trace *trace = traced->stream->device->context->trace;
    if (trace->has_tool)
        (void)trace->ranges.pop();
}

static void write_backings(const ddisp__launch *launch, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < 2 * launch->count && used < capacity; i++) {
        const ddisp__operand *operand = &launch->operands[i / 2];
        const ddisp__slot *slot = i % 2 ? &operand->read : &operand->add;
        if (slot->exists)
            used += (size_t)snprintf(text + used, capacity - used, "%s\"%s.%s\": \"%s\"",
                                     used ? ", " : "", operand->param->name, i % 2 ? "read" : "add",
                                     ddisp_backing_name(slot->backing));
    }
    if (used >= capacity) /* cut text would be no JSON */
        text[0] = 0;
}

/* Everything up to the device time. */
static int describe(const ddisp__traced *traced, const ddisp__launch *launch, char *text,
                    size_t capacity)
{
    char label[2048] = "", backings[4096] = "";
    const char *mode = "";
    uint64_t host_ns = ddisp__time_ns() - traced->host_ns;
    if (launch) {
        mode = launch->mode == DDISP_MODE_BACKWARD ? "backward" : "forward";
        ddisp__signature_label(launch, label, sizeof label);
        write_backings(launch, backings, sizeof backings);
    }
    return snprintf(text, capacity,
                    "{\"name\": \"%s%s%s\", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": %ld, "
                    "\"tid\": %ld, \"ts\": %" PRIu64 ".%03u, \"dur\": %" PRIu64
                    ".%03u, \"args\": {\"kernel\": \"%s\", \"mode\": \"%s\", \"how\": \"%s\", "
                    "\"device\": \"%s\", \"recorded\": %s, \"signature\": \"%s\", "
                    "\"backings\": {%s}, \"device_us\": ",
                    traced->name, *mode ? " " : "", mode, traced->how, (long)getpid(),
                    syscall(SYS_gettid), traced->host_ns / 1000, (unsigned)(traced->host_ns % 1000),
                    host_ns / 1000, (unsigned)(host_ns % 1000), traced->name, mode, traced->how,
                    traced->stream->device->info.spec, traced->stream->capture ? "true" : "false",
                    label, backings);
}

/* Trace is locked. */
static void add(struct ddisp__trace *trace, const ddisp__traced *traced, uint64_t end, char *text,
                size_t used)
{
    char line[EVENT_BYTES + 64];
    int length = snprintf(line, sizeof line, "%s\n  %s%-*s}}\n]}\n", trace->has_events ? "," : "",
                          text, ROOM_BYTES, "null");
    if (length < 0 || (size_t)length >= sizeof line || !put(trace, line, (size_t)length, trace->at))
        return;
    off_t place = trace->at + (trace->has_events ? 1 : 0) + 3 + (off_t)used;
    trace->at += length - 4;
    trace->has_events = true;
    waiting *one = traced->begin && end ? ddisp__allocate(NULL, sizeof *one) : NULL;
    if (!one)
        return;
    *one = (waiting){NULL, traced->stream, traced->begin, end, place};
    if (trace->last)
        trace->last->next = one;
    else
        trace->first = one;
    trace->last = one;
}

void ddisp__trace_end(const ddisp__traced *traced, const ddisp__launch *launch)
{
    ddisp__trace *trace = traced->stream->device->context->trace;
    char text[EVENT_BYTES];
    ddisp_error before = *ddisp__error();
    ddisp__trace_cancel(traced);
    if (trace->file < 0)
        return;
    int used = describe(traced, launch, text, sizeof text);
    uint64_t end = traced->begin ? mark(traced->stream) : 0;
    (void)pthread_mutex_lock(&trace->lock);
    if (used > 0 && (size_t)used < sizeof text)
        add(trace, traced, end, text, (size_t)used);
    settle_all(trace, NULL);
    (void)pthread_mutex_unlock(&trace->lock);
    ddisp__error_restore(&before);
}
