/*
 * host_graph.c - recording a stream's operations as a list, and running the list again.
 *
 * In: operations that would have been queued. Out: a graph that owns them; each run of it is one
 * operation of the stream that it is launched on. Launches can be given other arguments: their
 * operation is replaced.
 */
#include "host_internal.h"

struct host_graph {
    host_operation *first, *last;
};

typedef struct replay_operation {
    host_operation operation;
    const host_graph *graph;
} replay_operation;

void host__graph_append(host_graph *graph, host_operation *operation)
{
    operation->kept = true;
    operation->next = NULL;
    if (graph->last) {
        graph->last->next = operation;
    } else {
        graph->first = operation;
    }
    graph->last = operation;
}

ddisp_status host__capture_begin(void *device_handle, void *stream_handle)
{
    host_device *device = device_handle;
    host_stream *stream = stream_handle;
    host_graph *graph = backend_allocate(device->services, sizeof *graph);
    if (!graph) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for a graph (%zu bytes)", sizeof *graph);
    }
    (void)pthread_mutex_lock(&stream->lock);
    bool records = stream->recording != NULL;
    if (!records) {
        stream->recording = graph;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (records) {
        backend_release(device->services, graph);
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "host: the stream records already");
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__capture_end(void *device_handle, void *stream_handle, void **out_graph)
{
    host_stream *stream = stream_handle;
    (void)pthread_mutex_lock(&stream->lock);
    host_graph *graph = stream->recording;
    stream->recording = NULL;
    (void)pthread_mutex_unlock(&stream->lock);
    if (out_graph) {
        *out_graph = graph;
    } else if (graph) {
        host__graph_release(device_handle, graph);
    }
    return DDISP_STATUS_OK;
}

static void run_replay(host_device *device, host_operation *operation)
{
    const replay_operation *own = (const replay_operation *)operation;
    for (host_operation *each = own->graph->first; each; each = each->next) {
        each->run(device, each);
    }
    host__operation_done(device, operation);
}

ddisp_status host__graph_launch(void *device_handle, void *stream, void *graph)
{
    host_device *device = device_handle;
    replay_operation *own = backend_allocate(device->services, sizeof *own);
    if (!own) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a graph (%zu bytes)", sizeof *own);
    }
    own->operation.run = run_replay;
    own->graph = graph;
    return host__stream_run(device, stream, &own->operation);
}

/* The link to recorded launch number index, counting launches only; NULL when there are fewer. */
static host_operation **find(host_graph *graph, uint32_t index)
{
    for (host_operation **link = &graph->first; *link; link = &(*link)->next) {
        if ((*link)->is_launch && index-- == 0) {
            return link;
        }
    }
    return NULL;
}

ddisp_status host__graph_update(void *device_handle, void *graph_handle, uint32_t index,
                                const ddisp_backend_launch *launch)
{
    host_device *device = device_handle;
    host_graph *graph = graph_handle;
    host_operation **link = find(graph, index), *fresh = NULL;
    if (!link) {
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "host: the graph has no recorded launch %u", index);
    }
    ddisp_status status = host__launch_operation(device, launch, &fresh);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    host_operation *old = *link;
    fresh->kept = true;
    fresh->next = old->next;
    *link = fresh;
    if (graph->last == old) {
        graph->last = fresh;
    }
    backend_release(device->services, old);
    return DDISP_STATUS_OK;
}

void host__graph_release(void *device_handle, void *graph_handle)
{
    host_device *device = device_handle;
    host_graph *graph = graph_handle;
    while (graph->first) {
        host_operation *operation = graph->first;
        graph->first = operation->next;
        backend_release(device->services, operation);
    }
    backend_release(device->services, graph);
}
