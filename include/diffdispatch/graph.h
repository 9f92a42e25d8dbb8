/*
 * graph.h - launches made once and repeated: prepared launches (plans), and whole steps of work
 * captured from a stream and replayed (graphs).
 */
#ifndef DIFFDISPATCH_GRAPH_H
#define DIFFDISPATCH_GRAPH_H

#include "launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ddisp_plan ddisp_plan;
typedef struct ddisp_graph ddisp_graph;

/* ---- prepared launches ---- */

/**
 * Prepares a launch: everything that ddisp_launch would check, resolve and build for these
 * arguments is done now; nothing is launched or changed. options.report and options.error are not
 * kept. Returns what ddisp_launch would.
 */
DDISP_API ddisp_status ddisp_plan_create(ddisp_kernel *kernel, ddisp_mode mode,
                                         const ddisp_arg *args, uint32_t arg_count,
                                         const ddisp_launch_options *options, ddisp_stream *stream,
                                         ddisp_plan **out_plan);
DDISP_API void ddisp_plan_retain(ddisp_plan *plan);
/** Gives a reference back, at any time. */
DDISP_API void ddisp_plan_release(ddisp_plan *plan);
/**
 * Launches a plan with other tensors or addresses of the same signature: dtypes, ranks, layouts,
 * requires_grad and presence of gradients as when it was made, on the same device. A plan is used
 * by one thread at a time. stream: NULL for the device's own. Returns what ddisp_launch would;
 * INVALID_ARGUMENT when the signature is another, which changes nothing.
 */
DDISP_API ddisp_status ddisp_plan_launch(ddisp_plan *plan, const ddisp_arg *args,
                                         uint32_t arg_count, ddisp_stream *stream);

/* ---- replay ---- */

/**
 * Begins to capture: from now until the end, launches, fills, copies and accumulations on stream
 * (made by ddisp_stream_create) are recorded instead of run. What needs their results (reads,
 * writes, waits, events, synchronization) is refused on this stream with UNSUPPORTED. The calling
 * thread alone may end the capture. Returns OK,
 * INVALID_ARGUMENT (stream is NULL, the device's own, or captures already), UNSUPPORTED,
 * OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_stream_begin_capture(ddisp_stream *stream);
/**
 * Ends the capture and gives the recorded work as a graph, which keeps everything that it uses
 * alive. The gradients that the recorded work touched must be as they were at the beginning (a
 * gradient that was empty must be empty again), so that every replay starts alike; otherwise the
 * capture is thrown away, those gradients are put back, and UNSUPPORTED names the kernel and
 * parameter. A driver that cannot end it has the same effect. From another thread than that which
 * began, the call is refused and the capture goes on. Returns OK, INVALID_ARGUMENT (not capturing,
 * another thread), UNSUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_stream_end_capture(ddisp_stream *stream, ddisp_graph **out_graph);
/**
 * Runs the recorded work on stream (of the same device; NULL: the device's own), after the work
 * that is queued there. A graph is used by one thread at a time; its launches run one after
 * another. Returns OK, INVALID_ARGUMENT, DEVICE_MISMATCH, DRIVER_ERROR, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_graph_launch(ddisp_graph *graph, ddisp_stream *stream);
/** Number of kernel launches recorded. 0 for NULL. */
DDISP_API uint32_t ddisp_graph_launch_count(const ddisp_graph *graph);
/**
 * Gives recorded kernel launch `index` (0 to count - 1) another value or address for one argument,
 * for later replays: a scalar, or a tensor of the same dtype and layout; a tensor's gradient
 * addresses change only where arg gives explicit ones. Waits for pending replays. Returns OK,
 * INVALID_ARGUMENT, DTYPE_MISMATCH, LAYOUT_MISMATCH, DEVICE_MISMATCH, OUT_OF_MEMORY, DRIVER_ERROR,
 * DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_graph_update(ddisp_graph *graph, uint32_t index, uint32_t argument,
                                          const ddisp_arg *arg);
DDISP_API void ddisp_graph_retain(ddisp_graph *graph);
/** Gives a reference back, at any time; waits for pending replays when it is the last. */
DDISP_API void ddisp_graph_release(ddisp_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
