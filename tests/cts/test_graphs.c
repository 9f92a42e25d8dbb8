/*
 * test_graphs.c - work recorded from a stream and replayed: a replay does what the calls would have
 * done, what needs results is refused while work is recorded, gradients must be left as they were
 * found, and arguments can be changed between replays.
 */
#include "cts.h"

/* A stream that records. NULL: the device cannot, and the test is skipped. */
static ddisp_stream *capturing(cts *t)
{
    ddisp_stream *stream = cts_stream(t);
    ddisp_status status = ddisp_stream_begin_capture(stream);
    if (status == DDISP_STATUS_UNSUPPORTED) {
        cts_skip(t, "%s cannot record work", t->info.spec);
        return NULL;
    }
    CTS_OK(status);
    return stream;
}

static ddisp_graph *captured(ddisp_stream *stream)
{
    ddisp_graph *graph = NULL;
    CTS_OK(ddisp_stream_end_capture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

static ddisp_status launch(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                           uint32_t count, uint64_t flags, ddisp_stream *stream)
{
    ddisp_launch_options options = cts_options(0, flags, NULL);
    return ddisp_launch(kernel, mode, args, count, &options, stream);
}

/* ---- a step of training */

typedef struct model {
    ddisp_kernel *kernel;
    ddisp_tensor *w, *y, *gradient, *sum;
} model;

/* y = w * w with a gradient for w that is there, ones for y, and a sum of all y. */
static model make_model(cts *t, ddisp_kernel *kernel)
{
    model m = {.kernel = kernel,
               .w = CTS_VECTOR(t, CTS_GRAD, 1, 2, -4),
               .y = CTS_VECTOR(t, CTS_GRAD, 0, 0, 0),
               .sum = CTS_VECTOR(t, 0, 0, 0, 0)};
    CTS_OK(ddisp_tensor_grad(m.w, &m.gradient));
    (void)cts_own(t, m.gradient);
    CTS_OK(ddisp_tensor_set_grad(m.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    return m;
}

/* Forward, backward, w -= gradient / 8, which leaves 3/4 of w. */
static void step(const model *m, ddisp_stream *stream)
{
    const ddisp_arg args[2] = {DDISP_ARG(m->w), DDISP_ARG(m->y)};
    CTS_OK(launch(m->kernel, DDISP_MODE_FORWARD, args, 2, 0, stream));
    CTS_OK(ddisp_tensor_accumulate(m->sum, m->y, 1, NULL, stream));
    CTS_OK(launch(m->kernel, DDISP_MODE_BACKWARD, args, 2,
                  DDISP_LAUNCH_OVERWRITE | DDISP_LAUNCH_KEEP_UPSTREAM, stream));
    CTS_OK(ddisp_tensor_accumulate(m->w, m->gradient, -0.125, NULL, stream));
}

static void same_values(ddisp_tensor *a, ddisp_tensor *b, const char *what)
{
    double left[3], right[3];
    cts_read(a, left, 3);
    cts_read(b, right, 3);
    for (int i = 0; i < 3; i++)
        CTS_CHECK(left[i] == right[i], "%s: element %d is %g replayed and %g directly", what, i,
                  left[i], right[i]);
}

static void ten_replays_are_ten_steps(cts *t)
{
    ddisp_stream *other = cts_stream(t);
    if (!cts_accumulates(t))
        CTS_SKIP(t, "%s does not add tensors", t->info.spec);
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    model replayed = make_model(t, kernel), direct = make_model(t, kernel);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    step(&replayed, stream);
    ddisp_graph *graph = captured(stream);
    assert_int_equal(ddisp_graph_launch_count(graph), 2);
    CTS_VALUES(replayed.w, 1, 2, -4); /* nothing has run */
    for (int i = 0; i < 10; i++) {
        CTS_OK(ddisp_graph_launch(graph, i < 6 ? stream : other));
        step(&direct, stream);
    }
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_stream_synchronize(other, DDISP_TIMEOUT_INFINITE));
    same_values(replayed.w, direct.w, "w");
    same_values(replayed.y, direct.y, "y");
    same_values(replayed.gradient, direct.gradient, "the gradient");
    same_values(replayed.sum, direct.sum, "the sum");
    const double w = 59049.0 / 1048576.0; /* (3/4)^10 */
    CTS_VALUES(replayed.w, w, 2 * w, -4 * w);
    ddisp_graph_release(graph);
}

/* Each replay adds to what the one before left, and nobody waits; the graph goes while they run. */
static void replays_in_a_row_add_up(cts *t)
{
    model m = make_model(t, cts_kernel(t, &cts_square));
    const ddisp_arg args[2] = {DDISP_ARG(m.w), DDISP_ARG(m.y)};
    const uint64_t keep = DDISP_LAUNCH_KEEP_UPSTREAM;
    CTS_OK(launch(m.kernel, DDISP_MODE_BACKWARD, args, 2, keep, NULL)); /* makes the gradient */
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(m.kernel, DDISP_MODE_BACKWARD, args, 2, keep, stream));
    ddisp_graph *graph = captured(stream);
    for (int i = 0; i < 99; i++)
        CTS_OK(ddisp_graph_launch(graph, stream));
    ddisp_graph_release(graph);
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(m.gradient, 200, 400, -800);
}

/* Work before a replay on its stream is seen by it, and its results by work behind it. */
static void a_replay_is_ordered_with_the_work_around_it(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    ddisp_tensor *z = cts_vector(t, 3, 0, NULL), *u = cts_vector(t, 3, 0, NULL);
    const ddisp_arg first[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    const ddisp_arg second[2] = {DDISP_ARG(y), DDISP_ARG(z)};
    const ddisp_arg third[2] = {DDISP_ARG(z), DDISP_ARG(u)};
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, second, 2, 0, stream));
    ddisp_graph *graph = captured(stream);
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, first, 2, 0, stream));
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, third, 2, 0, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(u, 1, 256, 6561);
    ddisp_graph_release(graph);
}

/* A graph keeps what it uses: everything else is gone when it runs. */
static void a_graph_keeps_what_it_uses(cts *t)
{
    const int64_t three = 3;
    const float values[3] = {1, 2, 3};
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = NULL, *z = cts_vector(t, 3, 0, NULL), *y = NULL;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &three, 0, &x));
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &three, 0, &y));
    CTS_OK(ddisp_tensor_write(x, values, sizeof values, NULL));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    const ddisp_arg first[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    const ddisp_arg second[2] = {DDISP_ARG(y), DDISP_ARG(z)};
    ddisp_stream *stream = capturing(t);
    if (stream) {
        CTS_OK(launch(kernel, DDISP_MODE_FORWARD, first, 2, 0, stream));
        CTS_OK(launch(kernel, DDISP_MODE_FORWARD, second, 2, 0, stream));
    }
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    if (!stream)
        return;
    ddisp_graph *graph = captured(stream);
    ddisp_tensor *more = CTS_VECTOR(t, 0, 9, 9, 9); /* where x may have been */
    CTS_OK(ddisp_graph_launch(graph, NULL));
    CTS_VALUES(z, 1, 16, 81);
    CTS_VALUES(more, 9, 9, 9);
    ddisp_graph_release(graph);
}

/* Long sums and deterministic scatter-adds compute in memory of their own, which is the graph's:
 * each replay begins with it as the first did. */
static void sums_are_recorded_with_the_memory_they_need(cts *t)
{
    enum { N = 70000 };
    static double ones[N];
    int64_t n = N, one = 1, zero = 0;
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
    if (!cts_accumulates(t))
        CTS_SKIP(t, "%s does not add tensors", t->info.spec);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ddisp_tensor *from = cts_numbers(t, DDISP_DTYPE_F32, 1, &n, NULL, ones), *index = NULL;
    ddisp_tensor *place = cts_numbers(t, DDISP_DTYPE_I32, 1, &one, NULL, (const double[]){1});
    ddisp_tensor *sum = CTS_VECTOR(t, 0, 0), *cells = CTS_VECTOR(t, 0, 0, 0, 0);
    CTS_OK(ddisp_tensor_as_strided(place, 1, &n, &zero, cts_offset(place), &index));
    (void)cts_own(t, index);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(ddisp_tensor_accumulate(sum, from, 1, NULL, stream));
    CTS_OK(ddisp_tensor_scatter_add(cells, 0, index, from, &options, stream));
    ddisp_graph *graph = captured(stream);
    ddisp_tensor *more = cts_numbers(t, DDISP_DTYPE_F32, 1, &n, NULL, ones);
    for (int i = 0; i < 3; i++)
        CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(sum, 3 * N);
    CTS_VALUES(cells, 0, 3 * N, 0);
    cts_read(more, ones, N);
    for (int i = 0; i < N; i++)
        CTS_CHECK(ones[i] == 1, "element %d of other memory is %g, not 1", i, ones[i]);
    ddisp_graph_release(graph);
}

/* ---- what is refused while work is recorded */

static void results_are_refused_while_work_is_recorded(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = CTS_VECTOR(t, 0, 7, 7, 7);
    const ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    float values[3] = {0};
    ddisp_event *event = NULL;
    CTS_OK(ddisp_event_create(t->device, 0, &event));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (stream) {
        CTS_OK(launch(kernel, DDISP_MODE_FORWARD, args, 2, 0, stream));
        CTS_FAILS(ddisp_tensor_read(y, values, sizeof values, stream), DDISP_STATUS_UNSUPPORTED,
                  "captures");
        CTS_FAILS(ddisp_tensor_write(x, values, sizeof values, stream), DDISP_STATUS_UNSUPPORTED,
                  "captures");
        CTS_FAILS(ddisp_stream_synchronize(stream, 0), DDISP_STATUS_UNSUPPORTED, "captures");
        CTS_FAILS(ddisp_stream_flush(stream), DDISP_STATUS_UNSUPPORTED, "captures");
        CTS_FAILS(ddisp_event_record(event, stream), DDISP_STATUS_UNSUPPORTED, "an event");
        CTS_FAILS(ddisp_stream_wait_event(stream, event), DDISP_STATUS_UNSUPPORTED, "an event");
        CTS_FAILS(ddisp_stream_begin_capture(stream), DDISP_STATUS_INVALID_ARGUMENT, "already");
    }
    ddisp_event_release(event);
    if (!stream)
        return;
    ddisp_graph *graph = captured(stream);
    CTS_VALUES(y, 7, 7, 7);
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(y, 1, 4, 9); /* what was refused is not in it */
    ddisp_graph_release(graph);
    CTS_FAILS(ddisp_stream_end_capture(stream, &graph), DDISP_STATUS_INVALID_ARGUMENT,
              "does not capture");
    CTS_FAILS(ddisp_stream_begin_capture(NULL), DDISP_STATUS_INVALID_ARGUMENT, "stream");
    CTS_FAILS(ddisp_graph_launch(NULL, stream), DDISP_STATUS_INVALID_ARGUMENT, "graph");
}

/* A backward launch that makes a gradient would start otherwise when it is repeated. */
static void a_gradient_must_be_left_as_it_was(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    const ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    ddisp_graph *graph = NULL;
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(kernel, DDISP_MODE_BACKWARD, args, 2, DDISP_LAUNCH_KEEP_UPSTREAM, stream));
    CTS_FAILS(ddisp_stream_end_capture(stream, &graph), DDISP_STATUS_UNSUPPORTED, "square", "empty",
              "present");
    assert_null(graph);
    CTS_STATE(x, DDISP_GRAD_STATE_EMPTY);
    CTS_STATE(y, DDISP_GRAD_STATE_PRESENT);
    /* The stream runs its work again. */
    CTS_OK(launch(kernel, DDISP_MODE_BACKWARD, args, 2, 0, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_GRADIENT(x, 2, 4, 6);
}

static void an_unfinished_capture_leaves_nothing(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = CTS_VECTOR(t, 0, 7, 7, 7);
    const ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    ddisp_stream *stream = NULL;
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_stream_create(t->device, 0, &stream));
    ddisp_status status = ddisp_stream_begin_capture(stream);
    if (!status)
        status = launch(kernel, DDISP_MODE_FORWARD, args, 2, 0, stream);
    ddisp_stream_release(stream);
    if (status == DDISP_STATUS_UNSUPPORTED)
        CTS_SKIP(t, "%s cannot record work", t->info.spec);
    CTS_OK(status);
    CTS_VALUES(y, 7, 7, 7);
}

/* ---- frozen inputs */

static void frozen_inputs_are_backed_in_every_replay(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *b = CTS_VECTOR(t, 0, 4, 5, 6);
    ddisp_tensor *y = cts_vector(t, 3, CTS_GRAD, NULL), *gradient = NULL;
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    CTS_OK(ddisp_tensor_grad(a, &gradient));
    (void)cts_own(t, gradient);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 2)));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(kernel, DDISP_MODE_BACKWARD, args, 3, DDISP_LAUNCH_KEEP_UPSTREAM, stream));
    ddisp_graph *graph = captured(stream);
    for (int i = 0; i < 3; i++)
        CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_GRADIENT(a, 12, 15, 36);
    CTS_NO_GRADIENT(b);
    CTS_VALUES(b, 4, 5, 6);
    ddisp_graph_release(graph);
}

/* ---- other arguments */

static void replay(ddisp_graph *graph, ddisp_stream *stream)
{
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
}

static void arguments_change_between_replays(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_scale);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *u = CTS_VECTOR(t, 0, 10, 20, 30);
    ddisp_tensor *y = cts_vector(t, 3, 0, NULL), *z = CTS_VECTOR(t, 0, 7, 7, 7);
    ddisp_tensor *longer = CTS_VECTOR(t, 0, 1, 2, 3, 4);
    const float two = 2, five = 5;
    const double wide = 5;
    const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG_SCALAR(&two), DDISP_ARG(y)};
    const ddisp_arg scalar = DDISP_ARG_SCALAR(&five), wrong = DDISP_ARG_SCALAR(&wide);
    const ddisp_arg other = DDISP_ARG(u), output = DDISP_ARG(z), misfit = DDISP_ARG(longer);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, args, 3, 0, stream));
    ddisp_graph *graph = captured(stream);
    replay(graph, stream);
    CTS_VALUES(y, 2, 4, 6);
    CTS_OK(ddisp_graph_update(graph, 0, 1, &scalar));
    replay(graph, stream);
    CTS_VALUES(y, 5, 10, 15);
    CTS_FAILS(ddisp_graph_update(graph, 0, 1, &wrong), DDISP_STATUS_INVALID_ARGUMENT, "'k'");
    CTS_FAILS(ddisp_graph_update(graph, 0, 0, &misfit), DDISP_STATUS_LAYOUT_MISMATCH, "'x'");
    CTS_FAILS(ddisp_graph_update(graph, 1, 0, &other), DDISP_STATUS_INVALID_ARGUMENT, "index");
    CTS_FAILS(ddisp_graph_update(graph, 0, 9, &other), DDISP_STATUS_INVALID_ARGUMENT, "argument");
    CTS_OK(ddisp_graph_update(graph, 0, 0, &other));
    replay(graph, stream);
    CTS_VALUES(y, 50, 100, 150);
    CTS_OK(ddisp_graph_update(graph, 0, 2, &output));
    CTS_OK(ddisp_graph_launch(graph, stream)); /* and while a replay is pending */
    CTS_OK(ddisp_graph_update(graph, 0, 1, &args[1]));
    CTS_VALUES(z, 50, 100, 150);
    replay(graph, stream);
    CTS_VALUES(z, 20, 40, 60);
    CTS_VALUES(y, 50, 100, 150);
    CTS_VALUES(x, 1, 2, 3);
    ddisp_graph_release(graph);
}

/* Launches that had nothing to do with each other do after a change. */
static void a_changed_argument_is_waited_for(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    float ones[4096];
    double found[4096];
    for (int i = 0; i < 4096; i++)
        ones[i] = 3;
    ddisp_tensor *x = cts_vector(t, 4096, 0, ones), *y = cts_vector(t, 4096, 0, NULL);
    ddisp_tensor *u = cts_vector(t, 4096, 0, ones), *z = cts_vector(t, 4096, 0, NULL);
    const ddisp_arg first[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    const ddisp_arg second[2] = {DDISP_ARG(u), DDISP_ARG(z)};
    const ddisp_arg joined = DDISP_ARG(y);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_stream *stream = capturing(t);
    if (!stream)
        return;
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, first, 2, 0, stream));
    CTS_OK(launch(kernel, DDISP_MODE_FORWARD, second, 2, 0, stream));
    ddisp_graph *graph = captured(stream);
    CTS_OK(ddisp_graph_update(graph, 1, 0, &joined));
    replay(graph, stream);
    cts_read(z, found, 4096);
    for (int i = 0; i < 4096; i++)
        CTS_CHECK(found[i] == 81, "element %d is %g, not 81", i, found[i]);
    ddisp_graph_release(graph);
}

/* A signature says nothing of extents: the geometry of a prepared launch follows its arguments,
 * also when they are the same as in the launch before. */
static void a_plan_serves_other_extents(cts *t)
{
    enum { MANY = 3000 };
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    float threes[MANY];
    double found[MANY];
    ddisp_plan *plan;
    for (int i = 0; i < MANY; i++)
        threes[i] = 3;
    ddisp_tensor *u = CTS_VECTOR(t, 0, 2, 4), *v = cts_vector(t, 2, 0, NULL);
    ddisp_tensor *x = cts_vector(t, MANY, 0, threes), *y = cts_vector(t, MANY, 0, NULL);
    const ddisp_arg few[2] = {DDISP_ARG(u), DDISP_ARG(v)};
    const ddisp_arg many[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    CTS_OK(ddisp_plan_create(kernel, DDISP_MODE_FORWARD, few, 2, NULL, NULL, &plan));
    for (int i = 0; i < 2; i++) {
        CTS_OK(ddisp_tensor_fill(y, 0, NULL));
        CTS_OK(ddisp_plan_launch(plan, many, 2, NULL));
        cts_read(y, found, MANY);
        for (int k = 0; k < MANY; k++)
            CTS_CHECK(found[k] == 9, "launch %d: element %d is %g, not 9", i, k, found[k]);
    }
    CTS_OK(ddisp_plan_launch(plan, few, 2, NULL));
    CTS_OK(ddisp_plan_launch(plan, few, 2, NULL));
    CTS_VALUES(v, 4, 16);
    ddisp_plan_release(plan);
}

/* A refused argument is refused however often it comes, and leaves what the plan had. */
static void a_plan_refuses_as_often_as_it_is_asked(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    const int64_t shape[1] = {2};
    ddisp_plan *plan;
    ddisp_tensor *u = CTS_VECTOR(t, 0, 2, 4), *v = CTS_VECTOR(t, 0, 0, 0), *other;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_I32, 1, shape, 0, &other));
    const ddisp_arg good[2] = {DDISP_ARG(u), DDISP_ARG(v)};
    const ddisp_arg bad[2] = {DDISP_ARG(u), DDISP_ARG(other)};
    CTS_OK(ddisp_plan_create(kernel, DDISP_MODE_FORWARD, good, 2, NULL, NULL, &plan));
    for (int i = 0; i < 3; i++)
        CTS_FAILS(ddisp_plan_launch(plan, bad, 2, NULL), DDISP_STATUS_DTYPE_MISMATCH, "argument 1");
    CTS_VALUES(v, 0, 0);
    CTS_OK(ddisp_plan_launch(plan, good, 2, NULL));
    CTS_VALUES(v, 4, 16);
    ddisp_plan_release(plan);
    ddisp_tensor_release(other);
}

/* The same tensors come again, with other gradients each time. */
static void a_plan_looks_at_gradients_each_time(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_launch_options options = cts_options(0, DDISP_LAUNCH_KEEP_UPSTREAM, NULL);
    ddisp_plan *plan;
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 2, 3), *b = CTS_VECTOR(t, CTS_GRAD, 5, 7);
    ddisp_tensor *y = CTS_VECTOR(t, CTS_GRAD, 0, 0), *ones = CTS_VECTOR(t, 0, 1, 1);
    ddisp_tensor *tens = CTS_VECTOR(t, 0, 10, 10);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    CTS_OK(ddisp_tensor_set_grad(y, ones));
    CTS_OK(ddisp_plan_create(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL, &plan));
    CTS_OK(ddisp_plan_launch(plan, args, 3, NULL));
    CTS_OK(ddisp_plan_launch(plan, args, 3, NULL));
    CTS_GRADIENT(a, 10, 14);
    CTS_OK(ddisp_tensor_set_grad(y, tens));
    CTS_OK(ddisp_tensor_clear_grad(a));
    CTS_OK(ddisp_plan_launch(plan, args, 3, NULL));
    CTS_GRADIENT(a, 50, 70);
    CTS_GRADIENT(b, 24, 36);
    CTS_OK(ddisp_tensor_set_requires_grad(b, 0));
    for (int i = 0; i < 2; i++)
        CTS_FAILS(ddisp_plan_launch(plan, args, 3, NULL), DDISP_STATUS_INVALID_ARGUMENT,
                  "another signature");
    CTS_GRADIENT(a, 50, 70);
    CTS_OK(ddisp_tensor_set_requires_grad(b, 1));
    CTS_OK(ddisp_plan_launch(plan, args, 3, NULL));
    CTS_GRADIENT(a, 100, 140);
    CTS_GRADIENT(b, 20, 30);
    CTS_OK(ddisp_tensor_clear_grad(y));
    CTS_FAILS(ddisp_plan_launch(plan, args, 3, NULL), DDISP_STATUS_MISSING_GRADIENT, "upstream");
    CTS_GRADIENT(a, 100, 140);
    ddisp_plan_release(plan);
}

const cts_test cts_graph_tests[] = {
    CTS_TEST(a_plan_looks_at_gradients_each_time),
    CTS_TEST(a_plan_refuses_as_often_as_it_is_asked),
    CTS_TEST(ten_replays_are_ten_steps),
    CTS_TEST(replays_in_a_row_add_up),
    CTS_TEST(a_replay_is_ordered_with_the_work_around_it),
    CTS_TEST(a_graph_keeps_what_it_uses),
    CTS_TEST(sums_are_recorded_with_the_memory_they_need),
    CTS_TEST(results_are_refused_while_work_is_recorded),
    CTS_TEST(a_gradient_must_be_left_as_it_was),
    CTS_TEST(an_unfinished_capture_leaves_nothing),
    CTS_TEST(frozen_inputs_are_backed_in_every_replay),
    CTS_TEST(arguments_change_between_replays),
    CTS_TEST(a_changed_argument_is_waited_for),
    CTS_TEST(a_plan_serves_other_extents),
    CTS_END,
};
