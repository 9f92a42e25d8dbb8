/*
 * fake_work.c - the stand-in driver's streams and events. Work is done when it is queued; an event
 * can pretend for a number of queries that it was not.
 */
#include "fake_internal.h"

#include <stdlib.h>

struct CUevent_st {
    bool recorded, timed;
    uint64_t queries_left;
};

/* ---- streams and events */

cu__result cuStreamCreate(cu__stream *out_stream, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_stream_create);
    if (result == CU__SUCCESS && flags != CU__STREAM_NON_BLOCKING) {
        result = CU__ERROR_INVALID_VALUE; /* the library makes no other kind */
    }
    if (result == CU__SUCCESS) {
        *out_stream = calloc(1, sizeof **out_stream);
        (*out_stream)->context = fake_current();
        (*out_stream)->next = fake.all_streams;
        fake.all_streams = *out_stream;
        fake.streams++;
    }
    return fake_end(result);
}

cu__result cuStreamDestroy_v2(cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_stream_destroy);
    if (fake_releases(result)) {
        for (cu__stream *link = &fake.all_streams; *link; link = &(*link)->next) {
            if (*link == stream) {
                *link = stream->next;
                break;
            }
        }
        fake_abandon(stream);
        free(stream);
        fake.streams--;
    }
    return fake_end(result);
}

cu__result cuStreamSynchronize(cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_stream_synchronize);
    if (result == CU__SUCCESS && stream && stream->context != fake_current()) {
        result = CU__ERROR_INVALID_HANDLE;
    }
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return fake_end(result);
}

cu__result cuStreamGetCtx(cu__stream stream, cu__context *out_context)
{
    cu__result result = fake_begin_current(FAKE_stream_get_ctx);
    *out_context = stream ? stream->context : fake_current();
    return fake_end(result);
}

cu__result cuStreamWaitEvent(cu__stream stream, cu__event event, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_stream_wait_event);
    if (result == CU__SUCCESS && (!event->recorded || flags != 0)) {
        result = CU__ERROR_INVALID_HANDLE;
    }
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return fake_end(result);
}

cu__result cuEventCreate(cu__event *out_event, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_event_create);
    if (result == CU__SUCCESS && flags != CU__EVENT_DISABLE_TIMING && flags != CU__EVENT_DEFAULT) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        *out_event = calloc(1, sizeof **out_event);
        (*out_event)->timed = flags == CU__EVENT_DEFAULT;
        fake.events++;
    }
    return fake_end(result);
}

cu__result cuEventDestroy_v2(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_destroy);
    if (fake_releases(result)) {
        free(event);
        fake.events--;
    }
    return fake_end(result);
}

cu__result cuEventRecord(cu__event event, cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_event_record);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the library records none */
    }
    if (result == CU__SUCCESS) {
        event->recorded = true;
        event->queries_left = fake.delay;
    }
    return fake_end(result);
}

cu__result cuEventQuery(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_query);
    if (result == CU__SUCCESS && event->queries_left > 0) {
        event->queries_left--;
        result = CU__ERROR_NOT_READY;
    }
    return fake_end(result);
}

cu__result cuEventSynchronize(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_synchronize);
    if (result == CU__SUCCESS) {
        event->queries_left = 0;
    }
    return fake_end(result);
}

cu__result cuEventElapsedTime(float *out_milliseconds, cu__event begin, cu__event end)
{
    cu__result result = fake_begin_current(FAKE_event_elapsed_time);
    if (result == CU__SUCCESS &&
        !(begin->recorded && begin->timed && end->recorded && end->timed)) {
        result = CU__ERROR_INVALID_HANDLE;
    }
    if (result == CU__SUCCESS && (begin->queries_left > 0 || end->queries_left > 0)) {
        result = CU__ERROR_NOT_READY;
    }
    *out_milliseconds = fake.elapsed;
    return fake_end(result);
}
