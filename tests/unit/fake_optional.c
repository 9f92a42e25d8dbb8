/*
 * fake_optional.c - the functions of the fake backend that a backend may lack: time, recording, and
 * figures of its memory. Its clock stands at 1000 ns per mark.
 */
#include "fake.h"

struct fake_optional fake_optional;

static ddisp_status mark_timed(void *device, void *stream, uint64_t *out_ticket)
{
    return fake_table()->stream_mark(device, stream, out_ticket);
}

static ddisp_status elapsed(void *device, void *begin_stream, uint64_t begin, void *end_stream,
                            uint64_t end, uint64_t *out_ns)
{
    ddisp_status status = fake_table()->stream_query(device, begin_stream, begin);
    if (status == DDISP_STATUS_OK)
        status = fake_table()->stream_query(device, end_stream, end);
    if (status != DDISP_STATUS_OK)
        return status;
    if (end < begin)
        return fake_outcome_of("stream_elapsed", DDISP_STATUS_INVALID_ARGUMENT);
    *out_ns = (end - begin) * 1000;
    return DDISP_STATUS_OK;
}

static ddisp_status capture_begin(void *device, void *stream)
{
    (void)device;
    (void)stream;
    ddisp_status status = fake_outcome("capture_begin");
    fake_optional.recording = status == DDISP_STATUS_OK;
    return status;
}

/* A failure leaves it going. */
static ddisp_status capture_end(void *device, void *stream, void **out_graph)
{
    (void)device;
    (void)stream;
    if (!out_graph) {
        fake_optional.thrown_away += fake_optional.recording;
        fake_optional.recording = false;
        return DDISP_STATUS_OK;
    }
    ddisp_status status = fake_outcome("capture_end");
    if (status != DDISP_STATUS_OK)
        return status;
    fake_optional.recording = false;
    *out_graph = &fake_optional;
    fake_optional.graphs++;
    return DDISP_STATUS_OK;
}

static ddisp_status graph_launch(void *device, void *stream, void *graph)
{
    (void)device;
    (void)stream;
    (void)graph;
    return fake_outcome("graph_launch");
}

static void graph_release(void *device, void *graph)
{
    (void)device;
    (void)graph;
    fake_optional.graphs--;
}

static ddisp_status memory_trim(void *device)
{
    (void)device;
    fake_optional.trims++;
    fake_optional.figures.reserved_bytes -= fake_optional.figures.cached_bytes;
    fake_optional.figures.cached_bytes = 0;
    return fake_outcome("memory_trim");
}

static ddisp_status memory_figures(void *device, ddisp_backend_memory_figures *figures)
{
    (void)device;
    *figures = fake_optional.figures;
    return fake_outcome("memory_figures");
}

void fake_offer_all(ddisp_backend_table *table)
{
    fake_optional = (struct fake_optional){.recording = false};
    table->stream_mark_timed = mark_timed;
    table->stream_elapsed = elapsed;
    table->capture_begin = capture_begin;
    table->capture_end = capture_end;
    table->graph_launch = graph_launch;
    table->graph_release = graph_release;
    table->memory_trim = memory_trim;
    table->memory_figures = memory_figures;
}
