/*
 * graph.c - graphs: recorded work with everything that it uses, replayed on any stream. The
 * recorded launches are kept as they were given to the backend, so that addresses and scalars can
 * be changed between replays. What is recorded, and when a recording is refused, is capture.c's
 * business.
 */
#include "graph_object.h"
#include "lower.h"
#include "trace.h"

#include <diffdispatch/device/ddisp_block.h>

#include <string.h>

static void release_launch(ddisp_context *context, ddisp__recorded *recorded)
{
    ddisp__release(context, recorded->block);
    ddisp__release(context, recorded->natives);
    ddisp__release(context, recorded->accesses);
    ddisp__release(context, recorded->operands);
    ddisp_kernel_release(recorded->kernel);
}

/* Waits for the replay that may still run. */
static ddisp_status await(ddisp_graph *graph)
{
    if (!graph->last)
        return DDISP_STATUS_OK;
    uint64_t ticket;
    ddisp_status status = ddisp__stream_mark(graph->last, &ticket);
    if (!status)
        status = ddisp__stream_await(graph->last, ticket, DDISP_TIMEOUT_INFINITE);
    return status;
}

void ddisp__graph_free(ddisp_graph *graph)
{
    ddisp_device *device = graph->device;
    ddisp_context *context = device->context;
    bool forked = ddisp__context_forked(context);
    if (!forked && !ddisp__device_lost(device))
        (void)await(graph);
    if (graph->handle && !forked)
        device->table->graph_release(device->handle, graph->handle);
    ddisp_stream_release(graph->last);
    for (uint32_t i = 0; i < graph->launches.count; i++)
        release_launch(context, ddisp__array_at(&graph->launches, i));
    for (uint32_t i = 0; i < graph->buffers.count; i++)
        ddisp_buffer_release(*(ddisp_buffer **)ddisp__array_at(&graph->buffers, i));
    ddisp__array_clear(context, &graph->launches);
    ddisp__array_clear(context, &graph->buffers);
    if (graph->holds_sink && !forked)
        ddisp__sink_hold(device, false);
    ddisp__release(context, graph);
    ddisp_device_release(device);
}

void ddisp_graph_retain(ddisp_graph *graph)
{
    if (graph)
        ddisp__reference_take(&graph->reference);
}

void ddisp_graph_release(ddisp_graph *graph)
{
    if (graph && ddisp__reference_drop(&graph->reference))
        ddisp__graph_free(graph);
}

uint32_t ddisp_graph_launch_count(const ddisp_graph *graph)
{
    return graph ? graph->launches.count : 0;
}

static ddisp_status check(ddisp_graph *graph)
{
    if (!graph)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "graph is NULL");
    return ddisp__device_check(graph->device, "graph");
}

/* ---- replay ---- */

/* Orders the stream behind the creation of what the graph uses; once as long as the stream is the
 * same. */
static ddisp_status move_to(ddisp_graph *graph, ddisp_stream *stream)
{
    uint64_t ticket;
    ddisp_status status = DDISP_STATUS_OK;
    if (graph->last == stream)
        return DDISP_STATUS_OK;
    if (graph->last) {
        status = ddisp__stream_mark(graph->last, &ticket);
        if (!status)
            status = ddisp__stream_wait(stream, graph->last, ticket);
    }
    for (uint32_t i = 0; i < graph->buffers.count && !status; i++)
        status = ddisp__buffer_use(*(ddisp_buffer **)ddisp__array_at(&graph->buffers, i), stream);
    for (uint32_t i = 0; i < graph->launches.count && !status; i++) {
        const ddisp__recorded *recorded = ddisp__array_at(&graph->launches, i);
        status = ddisp__variant_use(recorded->variant, stream);
    }
    if (!status && graph->holds_sink)
        status = ddisp__sink_note(graph->device, stream);
    if (status)
        return status;
    ddisp_stream_retain(stream);
    ddisp_stream_release(graph->last);
    graph->last = stream;
    return DDISP_STATUS_OK;
}

static ddisp_status replay(ddisp_graph *graph, ddisp_stream *stream)
{
    ddisp_device *device = graph->device;
    pthread_mutex_lock(&stream->lock);
    ddisp_status status =
        device->table->graph_launch(device->handle, stream->handle, graph->handle);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

static ddisp_status replay_traced(ddisp_graph *graph, ddisp_stream *stream)
{
    ddisp__traced traced = {stream, "graph", "graph", ddisp__time_ns(), 0};
    ddisp__trace_begin(&traced);
    ddisp_status status = replay(graph, stream);
    if (status)
        ddisp__trace_cancel(&traced);
    else
        ddisp__trace_end(&traced, NULL);
    return status;
}

ddisp_status ddisp_graph_launch(ddisp_graph *graph, ddisp_stream *stream)
{
    ddisp_status status = check(graph);
    if (status)
        return status;
    ddisp_device *device = graph->device;
    status = ddisp__stream_resolve(device, stream, &stream);
    if (!status)
        status = ddisp__capture_refuse(stream, "replaying a graph");
    if (!status)
        status = move_to(graph, stream);
    if (status)
        return status;
    status = __builtin_expect(device->context->trace != NULL, 0) ? replay_traced(graph, stream)
                                                                 : replay(graph, stream);
    if (!status)
        ddisp__device_count_launch(device, true);
    return status;
}

/* ---- update ---- */

static ddisp_status refuse(const ddisp__recorded *recorded, uint32_t argument, ddisp_status status,
                           const char *what)
{
    return ddisp__fail_argument(status, (int32_t)argument, "graph update %s: parameter '%s' %s",
                                recorded->kernel->name, recorded->kernel->params[argument].name,
                                what);
}

static ddisp_status change_scalar(ddisp__recorded *recorded, uint32_t argument,
                                  const ddisp_arg *arg)
{
    ddisp__operand *operand = &recorded->operands[argument];
    uint32_t size = ddisp_dtype_size(operand->dtype);
    if (!arg->scalar || arg->scalar_size != size)
        return refuse(recorded, argument, DDISP_STATUS_INVALID_ARGUMENT,
                      "is a scalar: its value has the size of its dtype");
    operand->scalar = 0;
    memcpy(&operand->scalar, arg->scalar, size);
    return DDISP_STATUS_OK;
}

static ddisp_status change_tensor(ddisp_graph *graph, ddisp__recorded *recorded, uint32_t argument,
                                  const ddisp_arg *arg)
{
    ddisp__operand *operand = &recorded->operands[argument];
    ddisp__layout layout;
    ddisp_dtype dtype;
    uint64_t address;
    ddisp_buffer *buffer = NULL;
    if (!arg->tensor == !arg->view)
        return refuse(recorded, argument, DDISP_STATUS_INVALID_ARGUMENT,
                      "needs a tensor or a view");
    if (arg->tensor) {
        if (arg->tensor->buffer->device != graph->device)
            return refuse(recorded, argument, DDISP_STATUS_DEVICE_MISMATCH, "is on another device");
        layout = arg->tensor->layout;
        dtype = arg->tensor->dtype;
        address = arg->tensor->address;
        buffer = arg->tensor->buffer;
    } else {
        ddisp_tensor_view view;
        ddisp_status status =
            ddisp__struct_read("view", arg->view, sizeof view, sizeof view, &view);
        if (!status)
            status = ddisp__layout_make("view", view.dtype, view.rank, view.shape, view.strides,
                                        &layout);
        if (status)
            return status;
        dtype = view.dtype;
        address = view.address;
    }
    if (dtype != operand->dtype)
        return refuse(recorded, argument, DDISP_STATUS_DTYPE_MISMATCH, "has another dtype");
    if (!ddisp__layout_equal(&layout, &operand->layout))
        return refuse(recorded, argument, DDISP_STATUS_LAYOUT_MISMATCH,
                      "has another shape or other strides");
    if (layout.numel && (!address || address % ddisp_dtype_size(dtype)))
        return refuse(recorded, argument, DDISP_STATUS_INVALID_ARGUMENT, "has no aligned address");
    if ((arg->grad_add && operand->add.backing != DDISP_BACKING_REAL) ||
        (arg->grad_read && operand->read.backing != DDISP_BACKING_REAL))
        return refuse(recorded, argument, DDISP_STATUS_INVALID_ARGUMENT,
                      "has no gradient of its own in the recorded launch");
    operand->address = layout.numel ? address : 0;
    operand->buffer = buffer;
    if (arg->grad_add)
        operand->add.gradient.address = arg->grad_add, operand->add.gradient.buffer = NULL;
    if (arg->grad_read)
        operand->read.gradient.address = arg->grad_read, operand->read.gradient.buffer = NULL;
    return DDISP_STATUS_OK;
}

static ddisp_status keep_buffer(ddisp_graph *graph, ddisp_buffer *buffer)
{
    if (!buffer)
        return DDISP_STATUS_OK;
    ddisp_buffer **place = ddisp__array_push(graph->device->context, &graph->buffers);
    if (!place)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to keep a buffer");
    ddisp_buffer_retain(buffer);
    *place = buffer;
    return graph->last ? ddisp__buffer_use(buffer, graph->last) : DDISP_STATUS_OK;
}

ddisp_status ddisp_graph_update(ddisp_graph *graph, uint32_t index, uint32_t argument,
                                const ddisp_arg *arg)
{
    ddisp_status status = check(graph);
    if (!status && !arg)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "arg is NULL");
    if (!status && index >= graph->launches.count)
        status =
            ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "index is %u, the graph has %u launches",
                        index, graph->launches.count);
    if (status)
        return status;
    ddisp__recorded *recorded = ddisp__array_at(&graph->launches, index);
    if (argument >= recorded->kernel->param_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "argument is %u, kernel %s has %u",
                           argument, recorded->kernel->name, recorded->kernel->param_count);
    ddisp__operand before = recorded->operands[argument];
    if (before.param->kind == DDISP_PARAM_KIND_SCALAR)
        status = change_scalar(recorded, argument, arg);
    else
        status = change_tensor(graph, recorded, argument, arg);
    if (!status)
        status = await(graph);
    if (!status)
        status = keep_buffer(graph, recorded->operands[argument].buffer);
    if (!status) {
        ddisp_backend_launch request = recorded->request;
        ddisp__block_relay(recorded->kernel, recorded->mode, recorded->code, recorded->items,
                           recorded->operands, &recorded->request, recorded->block,
                           recorded->natives, recorded->accesses);
        status = ddisp__device_result(
            graph->device, graph->device->table->graph_update(graph->device->handle, graph->handle,
                                                              index, &request));
    }
    if (status)
        recorded->operands[argument] = before;
    return status;
}
