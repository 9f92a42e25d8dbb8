/*
 * capture.c - recording a stream's work. The backend records what is queued; here is collected what
 * the work uses (buffers, kernels, the sink), and how the gradients were that it touches: a replay
 * starts with them as they are, so the recording must leave them as it found them. Nothing recorded
 * runs before the first replay.
 */
#include "graph_object.h"
#include "lower.h"

#include <string.h>

/* A tensor whose gradient was touched, as it was before. */
typedef struct touched {
    ddisp_tensor *tensor;     /* referenced */
    ddisp__gradient gradient; /* buffer referenced */
    const char *kernel;       /* for the message; names live as long as the graph's kernels */
    uint32_t param;
} touched;

struct ddisp__capture {
    ddisp_graph *graph;
    ddisp__array touched;
};

ddisp_status ddisp__capture_refuse(ddisp_stream *stream, const char *what)
{
    if (!stream->capture)
        return DDISP_STATUS_OK;
    return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "stream captures: %s cannot be recorded", what);
}

/* ---- collecting ---- */

ddisp_status ddisp__capture_buffer(ddisp__capture *capture, ddisp_buffer *buffer)
{
    ddisp__array *buffers = &capture->graph->buffers;
    for (uint32_t i = buffers->count; i-- > 0;)
        if (*(ddisp_buffer **)ddisp__array_at(buffers, i) == buffer)
            return DDISP_STATUS_OK;
    ddisp_buffer **place = ddisp__array_push(capture->graph->device->context, buffers);
    if (!place)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to record a buffer");
    ddisp_buffer_retain(buffer);
    *place = buffer;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__capture_owner(ddisp__capture *capture, const ddisp__launch *launch,
                                  ddisp_tensor *owner)
{
    for (uint32_t i = 0; i < capture->touched.count; i++)
        if (((const touched *)ddisp__array_at(&capture->touched, i))->tensor == owner)
            return DDISP_STATUS_OK;
    touched *place = ddisp__array_push(capture->graph->device->context, &capture->touched);
    if (!place)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to record a gradient");
    ddisp_tensor_retain(owner);
    ddisp_buffer_retain(owner->gradient.buffer);
    *place =
        (touched){.tensor = owner, .gradient = owner->gradient, .kernel = launch->kernel->name};
    for (uint32_t i = 0; i < launch->count; i++)
        if (launch->operands[i].tensor && ddisp__tensor_owner(launch->operands[i].tensor) == owner)
            place->param = i;
    return DDISP_STATUS_OK;
}

static bool copy_array(ddisp_context *context, void *out_copy, const void *items,
                       uint64_t size_bytes)
{
    void *copy = size_bytes ? ddisp__duplicate(context, items, size_bytes) : NULL;
    memcpy(out_copy, &copy, sizeof copy);
    return copy || !size_bytes;
}

ddisp_status ddisp__capture_launch(ddisp__capture *capture, const ddisp__launch *launch,
                                   const ddisp_backend_launch *request)
{
    ddisp_context *context = capture->graph->device->context;
    ddisp__recorded *recorded = ddisp__array_push(context, &capture->graph->launches);
    if (!recorded)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to record a launch");
    ddisp_kernel_retain(launch->kernel);
    *recorded = (ddisp__recorded){.kernel = launch->kernel,
                                  .variant = launch->plan->variant,
                                  .mode = launch->mode,
                                  .code = launch->plan->code,
                                  .items = launch->items,
                                  .request = *request};
    if (!copy_array(context, &recorded->block, request->block, request->block_size_bytes) ||
        !copy_array(context, &recorded->natives, request->natives,
                    request->native_count * sizeof *request->natives) ||
        !copy_array(context, &recorded->accesses, request->accesses,
                    request->access_count * sizeof *request->accesses) ||
        !copy_array(context, &recorded->operands, launch->operands,
                    launch->count * sizeof launch->operands[0]))
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to record a launch");
    recorded->request.block = recorded->block;
    recorded->request.natives = recorded->natives;
    recorded->request.accesses = recorded->accesses;
    for (uint32_t i = 0; i < launch->count; i++) {
        recorded->operands[i].tensor = NULL;
        recorded->operands[i].add.temporary = recorded->operands[i].read.temporary = NULL;
    }
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__capture_sink(ddisp__capture *capture)
{
    if (!capture->graph->holds_sink)
        ddisp__sink_hold(capture->graph->device, true);
    capture->graph->holds_sink = true;
    return DDISP_STATUS_OK;
}

/* ---- begin and end ---- */

static void free_capture(ddisp__capture *capture)
{
    ddisp_context *context = capture->graph->device->context;
    ddisp_context_retain(context);
    for (uint32_t i = 0; i < capture->touched.count; i++) {
        touched *t = ddisp__array_at(&capture->touched, i);
        ddisp_buffer_release(t->gradient.buffer);
        ddisp_tensor_release(t->tensor);
    }
    ddisp__array_clear(context, &capture->touched);
    ddisp_graph_release(capture->graph);
    ddisp__release(context, capture);
    ddisp_context_release(context);
}

static ddisp__capture *new_capture(ddisp_device *device)
{
    ddisp__capture *capture = ddisp__allocate(device->context, sizeof *capture);
    ddisp_graph *graph = ddisp__allocate(device->context, sizeof *graph);
    if (!capture || !graph) {
        ddisp__release(device->context, capture);
        ddisp__release(device->context, graph);
        return NULL;
    }
    ddisp__reference_start(&graph->reference);
    ddisp_device_retain(device);
    graph->device = device;
    graph->launches.item_size = (uint32_t)sizeof(ddisp__recorded);
    graph->buffers.item_size = (uint32_t)sizeof(ddisp_buffer *);
    capture->graph = graph;
    capture->touched.item_size = (uint32_t)sizeof(touched);
    return capture;
}

static ddisp_status check(ddisp_stream *stream)
{
    if (!stream)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "stream is NULL");
    ddisp_status status = ddisp__device_check(stream->device, "stream");
    if (!status && stream->owned_by_device)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                             "stream is the device's own; capture one made by ddisp_stream_create");
    return status;
}

ddisp_status ddisp_stream_begin_capture(ddisp_stream *stream)
{
    ddisp_status status = check(stream);
    if (status)
        return status;
    ddisp_device *device = stream->device;
    uint64_t ticket = 0;
    if (stream->capture)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "stream captures already");
    if (!ddisp__table_offers(device->table, capture_begin))
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "device %s cannot record work",
                           device->info.spec);
    status = ddisp__stream_mark(stream, &ticket);
    if (status)
        return status;
    ddisp__capture *capture = new_capture(device);
    if (!capture)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a capture");
    pthread_mutex_lock(&stream->lock);
    status = device->table->capture_begin(device->handle, stream->handle);
    if (!status) {
        stream->capture = capture;
        stream->capture_ticket = ticket;
        stream->capture_thread = pthread_self();
    }
    pthread_mutex_unlock(&stream->lock);
    status = ddisp__device_result(device, status);
    if (status)
        free_capture(capture);
    return status;
}

static bool same_gradient(const ddisp__gradient *a, const ddisp__gradient *b)
{
    return a->buffer == b->buffer && a->address == b->address;
}

/* Every touched gradient is as it was; else the first that is not is named. */
static ddisp_status compare(const ddisp__capture *capture)
{
    for (uint32_t i = 0; i < capture->touched.count; i++) {
        const touched *t = ddisp__array_at(&capture->touched, i);
        pthread_mutex_lock(&t->tensor->lock);
        bool same = same_gradient(&t->tensor->gradient, &t->gradient);
        bool now = t->tensor->gradient.buffer != NULL;
        pthread_mutex_unlock(&t->tensor->lock);
        if (!same)
            return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                               "the gradient of argument %u of kernel %s was %s when the capture "
                               "began and is %s now, so a replay would start differently; clear or "
                               "take it before the capture ends",
                               t->param, t->kernel, t->gradient.buffer ? "present" : "empty",
                               now ? (t->gradient.buffer ? "another" : "present") : "empty");
    }
    return DDISP_STATUS_OK;
}

static void put_back(ddisp__capture *capture)
{
    for (uint32_t i = 0; i < capture->touched.count; i++) {
        touched *t = ddisp__array_at(&capture->touched, i);
        pthread_mutex_lock(&t->tensor->lock);
        ddisp_buffer *dropped = t->tensor->gradient.buffer;
        t->tensor->gradient = t->gradient;
        ddisp__tensor_changed(t->tensor);
        pthread_mutex_unlock(&t->tensor->lock);
        t->gradient.buffer = NULL; /* its reference went to the tensor */
        ddisp_buffer_release(dropped);
    }
}

ddisp_status ddisp_stream_end_capture(ddisp_stream *stream, ddisp_graph **out_graph)
{
    ddisp_status status = check(stream);
    if (!status && !out_graph)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_graph is NULL");
    if (!status && !stream->capture)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "stream does not capture");
    if (!status && !pthread_equal(stream->capture_thread, pthread_self()))
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                             "the capture was begun by another thread, which alone may end it; it "
                             "goes on");
    if (status)
        return status;
    ddisp_device *device = stream->device;
    ddisp__capture *capture = stream->capture;
    ddisp_status verdict = compare(capture);
    ddisp_error error = *ddisp__error();
    pthread_mutex_lock(&stream->lock);
    status = device->table->capture_end(device->handle, stream->handle,
                                        verdict ? NULL : &capture->graph->handle);
    status = ddisp__device_result(device, status);
    if (!verdict && status) {
        verdict = status;
        error = *ddisp__error();
    }
    if (status && !ddisp__device_lost(device)) /* it may still go on */
        (void)device->table->capture_end(device->handle, stream->handle, NULL);
    stream->capture = NULL;
    pthread_mutex_unlock(&stream->lock);
    if (verdict) {
        status = verdict;
        ddisp__error_restore(&error);
    }
    if (status) {
        put_back(capture);
    } else {
        ddisp_graph_retain(capture->graph);
        *out_graph = capture->graph;
    }
    free_capture(capture);
    return status;
}

void ddisp__capture_drop(ddisp_stream *stream)
{
    ddisp__capture *capture = stream->capture;
    ddisp_device *device = stream->device;
    if (!capture)
        return;
    if (!ddisp__context_forked(device->context) && !ddisp__device_lost(device))
        (void)device->table->capture_end(device->handle, stream->handle, NULL);
    stream->capture = NULL;
    put_back(capture);
    free_capture(capture);
}
