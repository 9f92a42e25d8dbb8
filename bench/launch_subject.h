/*
 * launch_subject.h - what one thread of bench/launch launches with: an empty kernel of so many
 * tensors, dynamic, prepared and recorded, and the rival's queue.
 */
#ifndef DDISP_BENCH_LAUNCH_SUBJECT_H
#define DDISP_BENCH_LAUNCH_SUBJECT_H

#include "bench.h"
#include "launch_raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_TENSORS 32
#define LAUNCHES     256 /* of a block */
#define OUTPUTS      1024

/* What is measured. */
enum kind { BARE, DYNAMIC, PREPARED, BARE_GRAPH, GRAPH, KINDS };

extern ddisp_context *context;
extern ddisp_device *device;
extern const rival *other;
/** One thread on the host: nothing is handed to another. */
extern bool in_caller;
/** Each forward launch has another result than the OUTPUTS - 1 before it. */
extern bool changes;

typedef struct subject {
    ddisp_kernel *kernel;
    ddisp_mode mode;
    uint32_t tensors;
    ddisp_stream *stream;
    ddisp_stream *on; /* where it is launched; NULL: in the caller's thread (host) */
    ddisp_arg args[MOST_TENSORS];
    ddisp_tensor **outputs; /* where arguments change; else NULL */
    uint32_t turn;
    ddisp_launch_options options;
    ddisp_plan *plan;
    ddisp_graph *graph;
    lane *lane;
} subject;

/** What the device is compared with; NULL: it cannot be launched on by hand. */
const rival *find_rival(const ddisp_device_info *info);
/** serial: tells kernels of as many tensors apart; dtype ANY: of any, without gradients. */
ddisp_kernel *make_kernel(uint32_t tensors, ddisp_dtype dtype, uint32_t serial);
ddisp_tensor *make_tensor(uint64_t flags);
/** bare: with the rival's queue. */
void prepare(subject *s, ddisp_kernel *kernel, ddisp_mode mode, uint32_t tensors, bool bare);
void finish(subject *s);
/** One launch or replay. */
void one(subject *s, enum kind kind);
/** Hands what was queued to the device. */
void hand_over(subject *s, enum kind kind);
void await(subject *s, enum kind kind);
/** Nanoseconds of CPU time a launch (or a replay). */
double block_of(subject *s, enum kind kind);
uint64_t clock_ns(clockid_t clock);

#endif
