/*
 * step_calls.c - the calls of a forward and backward step, in their order: kernels, tensors,
 * launches with scratch, sink and specialized code, a prepared and a recorded launch, events, the
 * result.
 */
#include "step.h"

#include "cts_kernels.h"

static ddisp_status make_kernel(run *r, const cts_source *source, ddisp_kernel **out_kernel)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = source->name;
    desc.params = source->params;
    desc.param_count = source->param_count;
    desc.param_size = (uint32_t)sizeof *source->params;
    desc.codes = source->codes;
    desc.code_count = source->code_count;
    desc.code_size = (uint32_t)sizeof *source->codes;
    return ddisp_kernel_create(r->context, &desc, out_kernel);
}

static ddisp_status make_opaque(run *r)
{
    return make_kernel(r, &cts_mul_opaque, &r->kernels[0]);
}

static ddisp_status make_switched(run *r)
{
    return make_kernel(r, &cts_mul, &r->kernels[1]);
}

static ddisp_status make_tensor(run *r, uint64_t flags, ddisp_tensor **out_tensor)
{
    const int64_t n = N;
    return ddisp_tensor_create(r->device, DDISP_DTYPE_F32, 1, &n, flags, out_tensor);
}

static ddisp_status make_a(run *r)
{
    return make_tensor(r, DDISP_TENSOR_REQUIRES_GRAD, &r->a);
}

static ddisp_status make_b(run *r)
{
    return make_tensor(r, 0, &r->b);
}

static ddisp_status make_y(run *r)
{
    return make_tensor(r, DDISP_TENSOR_REQUIRES_GRAD, &r->y);
}

static ddisp_status make_upstream(run *r)
{
    return make_tensor(r, 0, &r->upstream);
}

static ddisp_status write_a(run *r)
{
    float data[N];
    for (int i = 0; i < N; i++)
        data[i] = (float)i;
    return ddisp_tensor_write(r->a, data, sizeof data, NULL);
}

static ddisp_status write_b(run *r)
{
    float data[N];
    for (int i = 0; i < N; i++)
        data[i] = 3;
    return ddisp_tensor_write(r->b, data, sizeof data, NULL);
}

static ddisp_status fill_upstream(run *r)
{
    return ddisp_tensor_write(r->upstream, (const float[N]){1, 1, 1}, N * sizeof(float), NULL);
}

static ddisp_status launch(run *r, int kernel, ddisp_mode mode, ddisp_policy policy,
                           ddisp_stream *stream)
{
    const ddisp_arg args[3] = {DDISP_ARG(r->a), DDISP_ARG(r->b), DDISP_ARG(r->y)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    return ddisp_launch(r->kernels[kernel], mode, args, 3, &options, stream);
}

static ddisp_status forward(run *r)
{
    return launch(r, 0, DDISP_MODE_FORWARD, DDISP_POLICY_AUTO, NULL);
}

static ddisp_status set_upstream(run *r)
{
    return ddisp_tensor_set_grad(r->y, r->upstream);
}

static ddisp_status backward_scratch(run *r)
{
    return launch(r, 0, DDISP_MODE_BACKWARD, DDISP_POLICY_SCRATCH, NULL);
}

static ddisp_status backward_sink(run *r)
{
    return launch(r, 0, DDISP_MODE_BACKWARD, DDISP_POLICY_SINK, NULL);
}

static ddisp_status backward_specialized(run *r)
{
    return launch(r, 1, DDISP_MODE_BACKWARD, DDISP_POLICY_SPECIALIZE, NULL);
}

static ddisp_status make_plan(run *r)
{
    const ddisp_arg args[3] = {DDISP_ARG(r->a), DDISP_ARG(r->b), DDISP_ARG(r->y)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = DDISP_POLICY_SCRATCH;
    options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    return ddisp_plan_create(r->kernels[0], DDISP_MODE_BACKWARD, args, 3, &options, NULL, &r->plan);
}

static ddisp_status launch_plan(run *r)
{
    const ddisp_arg args[3] = {DDISP_ARG(r->a), DDISP_ARG(r->b), DDISP_ARG(r->y)};
    return ddisp_plan_launch(r->plan, args, 3, NULL);
}

static ddisp_status make_stream(run *r)
{
    return ddisp_stream_create(r->device, 0, &r->stream);
}

static ddisp_status settle(run *r)
{
    return ddisp_device_synchronize(r->device, DDISP_TIMEOUT_INFINITE);
}

/* Records a backward launch. A failure on the way throws the recording away. */
static ddisp_status record(run *r)
{
    ddisp_graph *graph = NULL;
    ddisp_status status = ddisp_stream_begin_capture(r->stream);
    if (status != DDISP_STATUS_OK)
        return status;
    status = launch(r, 0, DDISP_MODE_BACKWARD, DDISP_POLICY_SCRATCH, r->stream);
    ddisp_status ended = ddisp_stream_end_capture(r->stream, &graph);
    if (status != DDISP_STATUS_OK) {
        ddisp_graph_release(graph);
        return status;
    }
    r->graph = graph;
    return ended;
}

static ddisp_status replay(run *r)
{
    return ddisp_graph_launch(r->graph, r->stream);
}

static ddisp_status make_event(run *r, int which)
{
    return ddisp_event_create(r->device, DDISP_EVENT_TIMED, &r->events[which]);
}

static ddisp_status make_begin(run *r)
{
    return make_event(r, 0);
}

static ddisp_status make_end(run *r)
{
    return make_event(r, 1);
}

static ddisp_status record_begin(run *r)
{
    return ddisp_event_record(r->events[0], r->stream);
}

static ddisp_status record_end(run *r)
{
    return ddisp_event_record(r->events[1], r->stream);
}

static ddisp_status wait_for_end(run *r)
{
    return ddisp_event_synchronize(r->events[1], DDISP_TIMEOUT_INFINITE);
}

static ddisp_status fill_y(run *r)
{
    return ddisp_tensor_fill(r->y, 0, r->stream);
}

static ddisp_status ask_time(run *r)
{
    uint64_t ns;
    return ddisp_event_elapsed(r->events[0], r->events[1], &ns);
}

static ddisp_status read_gradient(run *r)
{
    ddisp_tensor *gradient = NULL;
    ddisp_status status = ddisp_tensor_grad(r->a, &gradient);
    if (status == DDISP_STATUS_OK)
        status = ddisp_tensor_read(gradient, r->found, sizeof r->found, NULL);
    ddisp_tensor_release(gradient);
    return status;
}

const step_call steps[] = {
#define STEP(function)                                                                             \
    {                                                                                              \
#function, function                                                                        \
    }
    STEP(make_opaque),   STEP(make_switched),
    STEP(make_a),        STEP(make_b),
    STEP(make_y),        STEP(make_upstream),
    STEP(write_a),       STEP(write_b),
    STEP(fill_upstream), STEP(forward),
    STEP(set_upstream),  STEP(backward_scratch),
    STEP(backward_sink), STEP(backward_specialized),
    STEP(make_plan),     STEP(launch_plan),
    STEP(make_stream),   STEP(settle),
    STEP(record),        STEP(make_begin),
    STEP(make_end),      STEP(record_begin),
    STEP(replay),        STEP(record_end),
    STEP(wait_for_end),  STEP(fill_y),
    STEP(ask_time),      STEP(read_gradient),
#undef STEP
};
const size_t step_count = sizeof steps / sizeof steps[0];
