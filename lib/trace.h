/*
 * trace.h - what the launch path tells the trace. A context without one pays a branch.
 */
#ifndef DDISP_LIB_TRACE_H
#define DDISP_LIB_TRACE_H

#include "launch.h"

/** The process's trace when DDISP_TRACE names a file or a tool reads NVTX ranges, else NULL. */
ddisp__trace *ddisp__trace_open(void);

/** A launch, or a replay, that is being traced. */
typedef struct ddisp__traced {
    ddisp_stream *stream;
    const char *name; /* of the kernel; "graph" */
    const char *how;  /* "launch", "plan", "graph" */
    uint64_t host_ns; /* when the caller came */
    uint64_t begin;   /* timed ticket before the work; 0: none */
} ddisp__traced;

/** Right before the work is queued. */
void ddisp__trace_begin(ddisp__traced *traced);
/** After it. launch: with plan and operands; NULL for a graph. */
void ddisp__trace_end(const ddisp__traced *traced, const ddisp__launch *launch);
/** When the work failed. */
void ddisp__trace_cancel(const ddisp__traced *traced);
/** Writes the device times that are known by now. */
void ddisp__trace_poll(ddisp__trace *trace);
/** Waits for the traced work of a stream that is about to end. */
void ddisp__trace_leave(ddisp_stream *stream);

#endif
