/*
 * cuda_graph.c - recording a stream's work as a CUDA graph, running it again, and giving recorded
 * launches other arguments.
 *
 * In: work that the core queues between begin and end. Out: a graph that remembers the node of each
 * launch in order (fills, copies and accumulations have nodes too, which nobody asks for), and that
 * owns device memory: that which recorded work computes in, and argument blocks which go by
 * pointer. Those are written at once, through a stream of the graph's own, because what is recorded
 * runs later and often. The stream that
 * records is never queried, waited for, or asked for memory meanwhile.
 */
#include "cuda_code.h"
#include "cuda_operations.h"

typedef struct recorded {
    cu__graph_node node;
    cu__address block_address; /* 0: none */
} recorded;

/* Memory that recorded work computes in. */
typedef struct kept {
    struct kept *next;
    cu__address address;
} kept;

struct cuda__graph {
    cu__graph handle;
    cu__graph_exec exec;
    cu__stream uploads; /* NULL: no block went by pointer */
    recorded *launches;
    uint32_t count, capacity;
    bool broken; /* a launch was recorded that has no place in the list */
    /* memory of a launch that is being recorded; the graph's, also when that fails */
    cu__address unused_block;
    kept *memory;
};

/* ---- argument blocks */

static ddisp_status take_memory(cuda__device *device, cuda__graph *graph, uint64_t size_bytes,
                                cu__address *out_address)
{
    const cu__api *api = device->api;
    cu__result result;
    if (!graph->uploads) {
        result = api->stream_create(&graph->uploads, CU__STREAM_NON_BLOCKING);
        if (result != CU__SUCCESS) {
            graph->uploads = NULL;
            return cuda__fail(device, result, "cuStreamCreate");
        }
    }
    cuda__stream own = {.handle = graph->uploads};
    return cuda__memory_take(device, &own, size_bytes, out_address);
}

static void give_memory(cuda__device *device, const cuda__graph *graph, cu__address address)
{
    cuda__stream own = {.handle = graph->uploads};
    if (address && !cuda__driver_lost(device->ordinal)) {
        cuda__memory_give(device, &own, address);
    }
}

/* Writes a block, and returns when it is written. */
static ddisp_status write_block(cuda__device *device, const cuda__graph *graph, cu__address address,
                                const ddisp_backend_launch *launch)
{
    const cu__api *api = device->api;
    cu__result result =
        api->memcpy_htod_async(address, launch->block, launch->block_size_bytes, graph->uploads);
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuMemcpyHtoDAsync");
    }
    result = api->stream_synchronize(graph->uploads);
    return result == CU__SUCCESS ? DDISP_STATUS_OK
                                 : cuda__fail(device, result, "cuStreamSynchronize");
}

/* ---- while it is recorded */

ddisp_status cuda__graph_memory(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                                cu__address *out_address)
{
    cuda__graph *graph = stream->recording;
    kept *memory = backend_allocate(device->services, sizeof *memory);
    if (!memory) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory to record work", device->ordinal);
    }
    ddisp_status status = take_memory(device, graph, size_bytes, &memory->address);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, memory);
        return status;
    }
    memory->next = graph->memory;
    graph->memory = memory;
    *out_address = memory->address;
    return DDISP_STATUS_OK;
}

static ddisp_status grow(cuda__device *device, cuda__graph *graph)
{
    if (graph->count < graph->capacity) {
        return DDISP_STATUS_OK;
    }
    uint32_t capacity = graph->capacity ? graph->capacity * 2 : 16;
    recorded *launches = backend_allocate(device->services, capacity * sizeof *launches);
    if (!launches) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "cuda:%d: no host memory to record launch %u", device->ordinal,
                            graph->count);
    }
    if (graph->count > 0) {
        memcpy(launches, graph->launches, graph->count * sizeof *launches);
    }
    backend_release(device->services, graph->launches);
    graph->launches = launches;
    graph->capacity = capacity;
    return DDISP_STATUS_OK;
}

ddisp_status cuda__graph_prepare(cuda__device *device, cuda__stream *stream,
                                 const ddisp_backend_launch *launch, cu__address *out_address)
{
    cuda__graph *graph = stream->recording;
    ddisp_status status = grow(device, graph);
    if (status != DDISP_STATUS_OK || !cuda__block_by_pointer(launch)) {
        return status;
    }
    give_memory(device, graph, graph->unused_block); /* of a launch that failed */
    graph->unused_block = 0;
    status = take_memory(device, graph, launch->block_size_bytes, &graph->unused_block);
    if (status == DDISP_STATUS_OK) {
        status = write_block(device, graph, graph->unused_block, launch);
    }
    *out_address = graph->unused_block;
    return status;
}

ddisp_status cuda__graph_note(cuda__device *device, cuda__stream *stream, cu__address block_address)
{
    cuda__graph *graph = stream->recording;
    unsigned int state = 0;
    const cu__graph_node *nodes = NULL;
    size_t count = 0;
    cu__result result =
        device->api->stream_get_capture_info(stream->handle, &state, NULL, NULL, &nodes, &count);
    /* Everything is recorded on one stream, so that the next node depends on this one alone. */
    if (result == CU__SUCCESS && state == CU__STREAM_CAPTURE_STATUS_ACTIVE && count == 1) {
        graph->launches[graph->count++] = (recorded){nodes[0], block_address};
        graph->unused_block = 0;
        return DDISP_STATUS_OK;
    }
    graph->broken = true;
    if (result != CU__SUCCESS) {
        return cuda__fail(device, result, "cuStreamGetCaptureInfo");
    }
    return backend_fail(device->services, DDISP_STATUS_DRIVER_ERROR, 0,
                        "cuda:%d: a launch was recorded, but the capture is in state %u with %zu "
                        "last nodes: something else used the stream",
                        device->ordinal, state, count);
}

/* ---- begin and end */

ddisp_status cuda__capture_begin(void *device_handle, void *stream_handle)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cuda__graph *graph = backend_allocate(device->services, sizeof *graph);
    if (!graph) {
        status = backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "cuda:%d: no host memory for a graph", device->ordinal);
        goto leave;
    }
    cu__result result =
        device->api->stream_begin_capture(stream->handle, CU__STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (result != CU__SUCCESS) {
        backend_release(device->services, graph);
        status = cuda__fail(device, result, "cuStreamBeginCapture");
        goto leave;
    }
    pthread_mutex_lock(&device->lock);
    stream->recording = graph;
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_add_explicit(&device->captures, 1, memory_order_relaxed);
leave:
    cuda__leave(device, &scope);
    return status;
}

/* Gives back what the driver holds, as long as it may be called; the graph too. */
static void release(cuda__device *device, cuda__graph *graph, bool entered)
{
    const cu__api *api = device->api;
    if (entered && graph->exec && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, api->graph_exec_destroy(graph->exec), "cuGraphExecDestroy");
    }
    if (entered && graph->handle && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, api->graph_destroy(graph->handle), "cuGraphDestroy");
    }
    for (uint32_t i = 0; i < graph->count && entered; i++) {
        give_memory(device, graph, graph->launches[i].block_address);
    }
    if (entered) {
        give_memory(device, graph, graph->unused_block);
    }
    while (graph->memory) {
        kept *memory = graph->memory;
        graph->memory = memory->next;
        if (entered) {
            give_memory(device, graph, memory->address);
        }
        backend_release(device->services, memory);
    }
    if (entered && graph->uploads && !cuda__driver_lost(device->ordinal)) {
        cuda__note(device, api->stream_destroy(graph->uploads), "cuStreamDestroy");
    }
    backend_release(device->services, graph->launches);
    backend_release(device->services, graph);
}

static ddisp_status instantiate(cuda__device *device, cuda__graph *graph)
{
    if (graph->broken) {
        return backend_fail(device->services, DDISP_STATUS_DRIVER_ERROR, 0,
                            "cuda:%d: the recording is of no use: a launch in it failed halfway",
                            device->ordinal);
    }
    cu__result result = device->api->graph_instantiate(&graph->exec, graph->handle, 0);
    if (result != CU__SUCCESS) {
        graph->exec = NULL;
        return cuda__fail(device, result, "cuGraphInstantiate");
    }
    return DDISP_STATUS_OK;
}

/* Ends the driver's capture. OK when there is none any more; *out_broken: and nothing came of it.
 */
static ddisp_status end_capture(cuda__device *device, const cuda__stream *stream,
                                cuda__graph *graph, bool *out_broken)
{
    if (graph->handle) { /* an earlier end got as far */
        return DDISP_STATUS_OK;
    }
    cu__result result = device->api->stream_end_capture(stream->handle, &graph->handle);
    if (result == CU__SUCCESS) {
        return DDISP_STATUS_OK;
    }
    graph->handle = NULL;
    *out_broken = result != CU__ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return cuda__fail(device, result, "cuStreamEndCapture");
}

/* The stream runs its work again, whatever became of the driver's capture. */
static void forget(cuda__device *device, cuda__stream *stream, cuda__graph *graph, bool entered)
{
    pthread_mutex_lock(&device->lock);
    stream->recording = NULL;
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_sub_explicit(&device->captures, 1, memory_order_relaxed);
    if (graph) {
        release(device, graph, entered);
    }
}

void cuda__capture_forget(cuda__device *device, cuda__stream *stream, bool entered)
{
    if (stream->recording) {
        forget(device, stream, stream->recording, entered);
    }
}

/* Throws the recording away. Only the thread that began can end the driver's capture; from another
 * one it ends with the stream. */
static ddisp_status abandon(cuda__device *device, cuda__stream *stream)
{
    cuda__graph *graph = stream->recording;
    cuda__scope scope;
    bool broken = false;
    if (!graph) {
        return DDISP_STATUS_OK;
    }
    bool entered = cuda__enter_release(device, &scope);
    ddisp_status status = DDISP_STATUS_OK;
    if (!entered && !cuda__driver_lost(device->ordinal)) {
        return backend_fail(device->services, DDISP_STATUS_DRIVER_ERROR, 0,
                            "cuda:%d: its context cannot be made current, so that the recording "
                            "goes on",
                            device->ordinal);
    }
    if (entered) {
        status = end_capture(device, stream, graph, &broken);
        if (status != DDISP_STATUS_OK && !broken && stream->borrowed) {
            backend_log(device->services, DDISP_LOG_LEVEL_WARNING,
                        "cuda:%d: a stream of the application still captures; the thread that "
                        "began has to end that",
                        device->ordinal);
        }
    }
    forget(device, stream, graph, entered);
    if (entered) {
        cuda__leave(device, &scope);
    }
    return status;
}

ddisp_status cuda__capture_end(void *device_handle, void *stream_handle, void **out_graph)
{
    cuda__device *device = device_handle;
    cuda__stream *stream = stream_handle;
    cuda__graph *graph = stream->recording;
    cuda__scope scope;
    bool broken = false;
    if (!out_graph) {
        return abandon(device, stream);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status; /* it goes on, until it is thrown away */
    }
    status = end_capture(device, stream, graph, &broken);
    if (status == DDISP_STATUS_OK) {
        status = instantiate(device, graph);
        broken = status != DDISP_STATUS_OK;
    }
    if (status == DDISP_STATUS_OK) {
        *out_graph = graph;
    }
    if (status == DDISP_STATUS_OK || broken) {
        forget(device, stream, broken ? graph : NULL, true);
    }
    cuda__leave(device, &scope);
    return status;
}

/* ---- running and changing */

ddisp_status cuda__graph_launch(void *device_handle, void *stream_handle, void *graph_handle)
{
    cuda__device *device = device_handle;
    const cuda__stream *stream = stream_handle;
    const cuda__graph *graph = graph_handle;
    cuda__scope scope;
    ddisp_status status = cuda__enter(device, &scope);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__result result = device->api->graph_launch(graph->exec, stream->handle);
    if (result != CU__SUCCESS) {
        status = cuda__fail(device, result, "cuGraphLaunch");
    }
    cuda__leave(device, &scope);
    return status;
}

/* With the context current. */
static ddisp_status update(cuda__device *device, const cuda__graph *graph, const recorded *launch,
                           const ddisp_backend_launch *request)
{
    const cuda__variant *variant = request->variant;
    cuda__arguments arguments;
    arguments.block_address = launch->block_address;
    ddisp_status status = cuda__arguments_fill(device, request, &arguments);
    if (status == DDISP_STATUS_OK && launch->block_address) {
        status = write_block(device, graph, launch->block_address, request);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    cu__kernel_node_params params = {
        .function = variant->function,
        .grid = {request->grid[0], request->grid[1], request->grid[2]},
        .block = {request->group_size[0], request->group_size[1], request->group_size[2]},
        .shared_bytes = request->shared_bytes,
        .parameters = arguments.parameters,
    };
    cu__result result = device->api->graph_exec_kernel_node_set_params(
        graph->exec, launch->node,
        (const struct CUDA_KERNEL_NODE_PARAMS_v2_st *)(const void *)&params);
    return result == CU__SUCCESS ? DDISP_STATUS_OK
                                 : cuda__fail(device, result, "cuGraphExecKernelNodeSetParams");
}

ddisp_status cuda__graph_update(void *device_handle, void *graph_handle, uint32_t index,
                                const ddisp_backend_launch *launch)
{
    cuda__device *device = device_handle;
    const cuda__graph *graph = graph_handle;
    cuda__scope scope;
    if (index >= graph->count) {
        return backend_fail(device->services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "cuda:%d: recorded launch %u of %u", device->ordinal, index,
                            graph->count);
    }
    ddisp_status status = cuda__enter(device, &scope);
    if (status == DDISP_STATUS_OK) {
        status = update(device, graph, &graph->launches[index], launch);
        cuda__leave(device, &scope);
    }
    return status;
}

void cuda__graph_release(void *device_handle, void *graph_handle)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    bool entered = cuda__enter_release(device, &scope);
    release(device, graph_handle, entered);
    if (entered) {
        cuda__leave(device, &scope);
    }
}
