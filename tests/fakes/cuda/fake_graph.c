/*
 * fake_graph.c - the stand-in driver's capture of streams, and graphs. A graph is a list of nodes
 * in the order of recording; an executable one has copies of them.
 *
 * What a capturing thread may not do (unless its mode is relaxed), and what a capturing stream does
 * not allow, fails and spoils the capture, as with the real driver.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
    struct CUgraphNode_st *first, **end;
};

struct CUgraphExec_st {
    cu__graph graph; /* whose nodes those of this one stand for, in order */
    struct CUgraphNode_st *first;
};

static __thread unsigned int mode; /* 0: global, as threads begin */

/* ---- what is forbidden */

bool fake_spoils(cu__stream stream)
{
    if (stream && stream->capturing) {
        stream->spoiled = true;
        return true;
    }
    return false;
}

cu__result fake_begin_unsafe(int call)
{
    cu__result result = fake_begin_current(call);
    if (result != CU__SUCCESS || mode == CU__STREAM_CAPTURE_MODE_RELAXED) {
        return result;
    }
    for (cu__stream each = fake.all_streams; each; each = each->next) {
        if (each->capturing && pthread_equal(each->thread, pthread_self())) {
            each->spoiled = true;
            result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

cu__result cuThreadExchangeStreamCaptureMode(unsigned int *new_mode)
{
    cu__result result = fake_begin(FAKE_thread_exchange_capture_mode);
    if (result == CU__SUCCESS && *new_mode > CU__STREAM_CAPTURE_MODE_RELAXED) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        unsigned int before = mode;
        mode = *new_mode;
        *new_mode = before;
    }
    return fake_end(result);
}

/* ---- capture */

static void free_nodes(struct CUgraphNode_st *node)
{
    while (node) {
        struct CUgraphNode_st *next = node->next;
        free(node);
        node = next;
    }
}

static void free_graph(cu__graph graph)
{
    free_nodes(graph->first);
    free(graph);
    fake.graphs--;
}

void fake_abandon(cu__stream stream)
{
    if (stream && stream->capturing) {
        free_graph(stream->capturing);
        stream->capturing = NULL;
    }
}

struct CUgraphNode_st *fake_record(cu__stream stream)
{
    if (!stream || !stream->capturing) {
        return NULL;
    }
    struct CUgraphNode_st *node = calloc(1, sizeof *node);
    *stream->capturing->end = node;
    stream->capturing->end = &node->next;
    stream->last = node;
    return node;
}

cu__result cuStreamBeginCapture_v2(cu__stream stream, unsigned int capture_mode)
{
    cu__result result = fake_begin_current(FAKE_stream_begin_capture);
    if (result == CU__SUCCESS && (!stream || stream->capturing)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (result == CU__SUCCESS && capture_mode != CU__STREAM_CAPTURE_MODE_THREAD_LOCAL) {
        result = CU__ERROR_INVALID_VALUE; /* the library asks for no other */
    }
    if (result == CU__SUCCESS) {
        stream->capturing = calloc(1, sizeof *stream->capturing);
        stream->capturing->end = &stream->capturing->first;
        stream->thread = pthread_self();
        stream->spoiled = false;
        stream->last = NULL;
        fake.graphs++;
    }
    return fake_end(result);
}

cu__result cuStreamEndCapture(cu__stream stream, cu__graph *out_graph)
{
    cu__result result = fake_begin_current(FAKE_stream_end_capture);
    *out_graph = NULL;
    if (!stream || !stream->capturing) {
        return fake_end(CU__ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (!pthread_equal(stream->thread, pthread_self())) {
        return fake_end(CU__ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
    if (result == CU__SUCCESS && stream->spoiled) {
        result = CU__ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result == CU__SUCCESS) {
        *out_graph = stream->capturing;
    } else {
        free_graph(stream->capturing);
    }
    stream->capturing = NULL;
    return fake_end(result);
}

cu__result cuStreamGetCaptureInfo_v2(cu__stream stream, unsigned int *out_status, uint64_t *out_id,
                                     cu__graph *out_graph, const cu__graph_node **out_dependencies,
                                     size_t *out_count)
{
    cu__result result = fake_begin_current(FAKE_stream_get_capture_info);
    if (result == CU__SUCCESS) {
        *out_status = stream->capturing ? CU__STREAM_CAPTURE_STATUS_ACTIVE : 0;
        *out_dependencies = &stream->last;
        *out_count = stream->last ? 1 : 0;
        if (out_id || out_graph) {
            result = CU__ERROR_INVALID_VALUE; /* not asked for by the library */
        }
    }
    return fake_end(result);
}

/* ---- graphs */

cu__result cuGraphInstantiateWithFlags(cu__graph_exec *out_exec, cu__graph graph,
                                       unsigned long long flags)
{
    cu__result result = fake_begin_current(FAKE_graph_instantiate);
    if (result == CU__SUCCESS && flags != 0) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        *out_exec = calloc(1, sizeof **out_exec);
        (*out_exec)->graph = graph;
        struct CUgraphNode_st **end = &(*out_exec)->first;
        for (const struct CUgraphNode_st *each = graph->first; each; each = each->next) {
            *end = malloc(sizeof **end);
            **end = *each;
            (*end)->next = NULL;
            end = &(*end)->next;
        }
        fake.graphs++;
    }
    return fake_end(result);
}

cu__result cuGraphLaunch(cu__graph_exec exec, cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_graph_launch);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the library records none */
    }
    if (result == CU__SUCCESS) {
        for (const struct CUgraphNode_st *each = exec->first; each; each = each->next) {
            each->run(each);
        }
    }
    return fake_end(result);
}

cu__result cuGraphExecKernelNodeSetParams_v2(cu__graph_exec exec, cu__graph_node node,
                                             const struct CUDA_KERNEL_NODE_PARAMS_v2_st *params)
{
    cu__result result = fake_begin_current(FAKE_graph_exec_kernel_node_set_params);
    cu__kernel_node_params given;
    memcpy(&given, params, sizeof given);
    struct CUgraphNode_st *own = exec->first;
    const struct CUgraphNode_st *each = exec->graph->first;
    while (each && each != node) {
        each = each->next;
        own = own->next;
    }
    if (result == CU__SUCCESS &&
        (!each || !each->function || given.extra || given.kernel || given.context)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        memcpy(own->grid, given.grid, sizeof own->grid);
        memcpy(own->group, given.block, sizeof own->group);
        result = fake_fill_kernel(own, given.function, given.parameters) ? CU__SUCCESS
                                                                         : CU__ERROR_INVALID_VALUE;
    }
    return fake_end(result);
}

cu__result cuGraphExecDestroy(cu__graph_exec exec)
{
    cu__result result = fake_begin_current(FAKE_graph_exec_destroy);
    if (fake_releases(result)) {
        free_nodes(exec->first);
        free(exec);
        fake.graphs--;
    }
    return fake_end(result);
}

cu__result cuGraphDestroy(cu__graph graph)
{
    cu__result result = fake_begin_current(FAKE_graph_destroy);
    if (fake_releases(result)) {
        free_graph(graph);
    }
    return fake_end(result);
}
