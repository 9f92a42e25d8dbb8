/*
 * graph_object.h - a recorded launch and the graph that holds it, shared by capture.c and graph.c.
 */
#ifndef DDISP_LIB_GRAPH_OBJECT_H
#define DDISP_LIB_GRAPH_OBJECT_H

#include "capture.h"

#include <diffdispatch/graph.h>

/** A kernel launch as it was handed to the backend; request points to the arrays beside it. */
typedef struct ddisp__recorded {
    ddisp_kernel *kernel; /* referenced: keeps the variant */
    ddisp__variant *variant;
    ddisp_mode mode;
    uint32_t code;
    uint64_t items;
    ddisp_backend_launch request;
    unsigned char *block;
    ddisp_backend_native *natives;
    ddisp_backend_access *accesses;
    ddisp__operand *operands; /* one per parameter; their buffers are kept by the graph */
} ddisp__recorded;

struct ddisp_graph {
    ddisp__reference reference;
    ddisp_device *device;  /* referenced */
    void *handle;          /* the backend's */
    ddisp_stream *last;    /* referenced: stream of the last replay, ordered behind all buffers */
    ddisp__array launches; /* of ddisp__recorded */
    ddisp__array buffers;  /* of ddisp_buffer *, referenced */
    bool holds_sink;
};

/** Frees a graph, also a half-made one. */
void ddisp__graph_free(ddisp_graph *graph);

#endif
