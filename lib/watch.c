/*
 * watch.c - what deterministic launches on a stream could not add. Each parameter of a kernel has a
 * few words in device memory that belong to the stream; device code sets flags there, and the next
 * wait or read on the stream says so. Flags stay until they were reported. Here too: the words that
 * a search for a bound writes. Nothing here knows what a gradient is.
 */
#include "lower.h"

#include <stdio.h>
#include <string.h>

/* Parameters that a stream tells apart; all further ones share the last place. */
#define PLACES 256

typedef struct place {
    char kernel[128];
    char param[128];
    uint32_t index;
} place;

struct ddisp__watch {
    ddisp_backend_memory memory;
    bool armed;
    uint32_t count;
    ddisp__watch_words words[PLACES];
    place places[PLACES];
};

static ddisp_backend_range range_of(const struct ddisp__watch *watch, uint32_t first,
                                    uint32_t count)
{
    return (ddisp_backend_range){watch->memory.handle,
                                 watch->memory.address + first * sizeof(ddisp__watch_words),
                                 count * sizeof(ddisp__watch_words)};
}

/* The functions below hold the stream's lock. */

static ddisp_status zero(ddisp_stream *stream, const ddisp_backend_range *range)
{
    ddisp_device *device = stream->device;
    return ddisp__device_result(device,
                                device->table->fill(device->handle, stream->handle, range, 0, 8));
}

static ddisp_status make(ddisp_stream *stream)
{
    ddisp_device *device = stream->device;
    struct ddisp__watch *watch = ddisp__allocate(device->context, sizeof *watch);
    if (!watch)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for deterministic mode");
    ddisp_status status = ddisp__device_result(
        device, device->table->memory_allocate(device->handle, stream->handle, sizeof watch->words,
                                               &watch->memory));
    if (status) {
        ddisp__release(device->context, watch);
        return status;
    }
    ddisp_backend_range all = range_of(watch, 0, PLACES);
    status = zero(stream, &all);
    if (status) {
        device->table->memory_free(device->handle, stream->handle, &watch->memory);
        ddisp__release(device->context, watch);
        return status;
    }
    stream->watch = watch;
    return DDISP_STATUS_OK;
}

static uint32_t find(struct ddisp__watch *watch, const char *kernel, const char *param,
                     uint32_t index)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->places[i].index == index && !strcmp(watch->places[i].kernel, kernel) &&
            !strcmp(watch->places[i].param, param))
            return i;
    if (watch->count == PLACES)
        return PLACES - 1;
    place *new = &watch->places[watch->count];
    bool is_last = watch->count == PLACES - 1;
    (void)snprintf(new->kernel, sizeof new->kernel, "%s", is_last ? "(one of many)" : kernel);
    (void)snprintf(new->param, sizeof new->param, "%s", is_last ? "(one of many)" : param);
    new->index = index;
    return watch->count++;
}

ddisp_status ddisp__watch_place(ddisp_stream *stream, const char *kernel, const char *param,
                                uint32_t index, ddisp_backend_range *out_words)
{
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&stream->lock);
    if (!stream->watch)
        status = make(stream);
    if (!status)
        *out_words = range_of(stream->watch, find(stream->watch, kernel, param, index), 1);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

ddisp_status ddisp__watch_restart(ddisp_stream *stream, const ddisp_backend_range *words)
{
    ddisp_backend_range range = *words;
    range.address += offsetof(ddisp__watch_words, largest);
    range.size_bytes -= offsetof(ddisp__watch_words, largest);
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = zero(stream, &range);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

ddisp_status ddisp__watch_read(ddisp_stream *stream, const ddisp_backend_range *words,
                               ddisp__watch_words *out_words)
{
    ddisp_device *device = stream->device;
    pthread_mutex_lock(&stream->lock);
    ddisp_status status = device->table->download(device->handle, stream->handle, words, out_words);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

void ddisp__watch_arm(ddisp_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->watch->armed = true;
    pthread_mutex_unlock(&stream->lock);
}

/* ---- report */

static ddisp_status say(const place *where, uint32_t flags)
{
    return ddisp__fail_argument(
        DDISP_STATUS_BOUND_EXCEEDED, (int32_t)where->index,
        "launch %s: parameter '%s' (argument %u): its gradient was added to in deterministic mode, "
        "and%s%s%s: it lacks them",
        where->kernel, where->param, where->index,
        flags & DDISP__WATCH_NOT_FINITE ? " values were not finite" : "",
        flags & DDISP__WATCH_BEYOND_BOUND
            ? (flags & DDISP__WATCH_NOT_FINITE ? ", others beyond the declared bound"
                                               : " values were beyond the declared bound")
            : "",
        flags & DDISP__WATCH_MANY_ADDS ? " an element was given more values than were declared"
                                       : "");
}

/* Stream is locked and armed. */
static ddisp_status look(ddisp_stream *stream, place *out_place, uint32_t *out_flags)
{
    ddisp_device *device = stream->device;
    struct ddisp__watch *watch = stream->watch;
    ddisp_backend_range used = range_of(watch, 0, watch->count);
    ddisp_status status = ddisp__device_result(
        device, device->table->download(device->handle, stream->handle, &used, watch->words));
    for (uint32_t i = 0; i < watch->count && !status && !*out_flags; i++) {
        *out_flags = watch->words[i].flags;
        *out_place = watch->places[i];
    }
    if (!status && *out_flags)
        status = zero(stream, &used);
    watch->armed = status != DDISP_STATUS_OK;
    return status;
}

ddisp_status ddisp__watch_check(ddisp_stream *stream)
{
    place where;
    uint32_t flags = 0;
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&stream->lock);
    if (stream->watch && stream->watch->armed && !stream->capture)
        status = look(stream, &where, &flags);
    pthread_mutex_unlock(&stream->lock);
    return status || !flags ? status : say(&where, flags);
}

void ddisp__watch_drop(ddisp_stream *stream)
{
    ddisp_device *device = stream->device;
    struct ddisp__watch *watch = stream->watch;
    if (!watch)
        return;
    if (!ddisp__context_forked(device->context))
        device->table->memory_free(device->handle, stream->handle, &watch->memory);
    ddisp__release(device->context, watch);
    stream->watch = NULL;
}
