/*
 * test_deterministic_limits.c - deterministic mode in users' kernels: what does not fit is
 * reported, what cannot be done is refused by name, and what else a launch has (frozen inputs,
 * reports, signatures, plans, captures, streams, contexts) goes with it.
 */
#include "problem.h"

#include <math.h>

/* ---- what does not fit */

static void values_beyond_the_bound_are_reported(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    const struct {
        double value;
        const char *text;
    } cases[] = {{1.5, "beyond the declared bound"},
                 {-3e38, "beyond the declared bound"},
                 {INFINITY, "not finite"},
                 {NAN, "not finite"}};
    ddisp_bound bound = problem_bound(1, 0);
    ddisp_launch_options options = problem_options(0, NULL, &bound);
    for (int i = 0; i < 4; i++) {
        problem p = problem_spoilt(t, cases[i].value);
        float unused[3];
        ddisp_tensor *gradient = NULL;
        CTS_OK(problem_run(&p, kernel, &options));
        CTS_OK(ddisp_tensor_grad(p.x, &gradient));
        if (i % 2)
            CTS_FAILS(ddisp_tensor_read(gradient, unused, sizeof unused, NULL),
                      DDISP_STATUS_BOUND_EXCEEDED, "bins_f32", "'x'", cases[i].text);
        else
            CTS_FAILS(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE),
                      DDISP_STATUS_BOUND_EXCEEDED, "bins_f32", "'x'", cases[i].text);
        CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE)); /* said once */
        CTS_VALUES(gradient, 99, 0, 0);
        ddisp_tensor_release(gradient);
        problem_drop(&p);
    }
    problem p = problem_spoilt(t, 1); /* and nothing is left of it */
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_GRADIENT(p.x, 100, 0, 0);
    problem_drop(&p);
}

static void more_adds_than_declared_are_reported(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_bound bound = problem_bound(1, 64); /* 100 of them are between 2^62 and 2^63 */
    ddisp_launch_options options = problem_options(0, NULL, &bound);
    problem p = problem_spoilt(t, 1);
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_FAILS(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE),
              DDISP_STATUS_BOUND_EXCEEDED, "bins_f32", "more values than were declared");
    problem_drop(&p);
}

static void values_that_are_not_finite_change_nothing(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    const double values[] = {NAN, INFINITY, -INFINITY};
    ddisp_launch_options options = problem_options(0, NULL, NULL);
    problem warm = problem_spoilt(t, 1);
    CTS_OK(problem_run(&warm, kernel, &options));
    problem_drop(&warm);
    for (int i = 0; i < 3; i++) {
        problem p = problem_spoilt(t, values[i]);
        CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_BOUND_EXCEEDED, "bins_f32",
                    "'x'", "not finite");
        CTS_STATE(p.x, DDISP_GRAD_STATE_EMPTY);
        problem_drop(&p);
    }
}

static void zeros_have_a_bound(cts *t)
{
    NEEDS_INTEGERS(t);
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = cts_kernel(t, &cts_bins[type][1]);
        problem p = problem_make(t, type, 10, 2, 0);
        problem_load(&p);
        ddisp_launch_options options = problem_options(0, NULL, NULL);
        CTS_OK(problem_run(&p, kernel, &options));
        CTS_GRADIENT(p.x, 0, 0);
        problem_drop(&p);
    }
}

static void bounds_are_checked(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    problem p = problem_spoilt(t, 1);
    ddisp_bound bound = problem_bound(-1, 0);
    ddisp_launch_options options = problem_options(0, NULL, &bound);
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds[0].bound");
    bound.bound = NAN;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds[0].bound");
    bound.bound = INFINITY;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds[0].bound");
    bound = problem_bound(1, UINT64_MAX);
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds[0].adds");
    bound = problem_bound(1, 0);
    bound.param = 4;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds[0].param");
    bound.param = INDEX;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT, "'index'",
                "bound");
    bound.param = X;
    bound.reserved = 1;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT, "reserved");
    options.bounds = NULL;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT,
                "bounds is NULL");
    options.bounds = &bound;
    options.bound_size = 3;
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_INVALID_ARGUMENT, "bounds");
    problem_drop(&p);
}

/* ---- mixtures and reports */

static void frozen_inputs_cost_nothing(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F64][1]);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = problem_options(0, report, NULL);
    for (int frozen = 0; frozen < 2; frozen++) {
        problem p = problem_make(t, F64, 100, 3, 0);
        ddisp_tensor **which = frozen ? &p.x : &p.s;
        int64_t shape = frozen ? 3 : 1;
        *which = cts_tensor(t, DDISP_DTYPE_F64, 1, &shape, NULL, 0, NULL);
        for (int64_t i = 0; i < p.items; i++)
            p.values[i] = 0.5;
        problem_load(&p);
        CTS_OK(problem_run(&p, kernel, &options));
        assert_int_equal(cts_slot(report, frozen ? X : S, true).backing, DDISP_BACKING_OMITTED);
        ddisp_report_slot slot = cts_slot(report, frozen ? S : X, true);
        assert_int_equal(slot.backing, DDISP_BACKING_SHADOW);
        assert_int_equal(slot.bytes, frozen ? 16 : 48);
        assert_int_equal(cts_report_info(report).extra_bytes, 0);
        char text[2048];
        CTS_OK(ddisp_report_format(report, text, sizeof text, NULL));
        CTS_CHECK(strstr(text, "-> shadow"), "the report says nothing of a shadow:\n%s", text);
        if (frozen)
            CTS_GRADIENT(p.s, 50);
        else
            CTS_GRADIENT(p.x, 50, 0, 0);
        CTS_NO_GRADIENT(*which);
        assert_int_equal(cts_statistics(t).scratch_bytes_live, 0);
        problem_drop(&p);
    }
}

static void other_policies_serve_beside_a_shadow(cts *t)
{
    NEEDS_INTEGERS(t);
    const ddisp_policy policies[] = {DDISP_POLICY_GUARD, DDISP_POLICY_SCRATCH, DDISP_POLICY_SINK};
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    for (int i = 0; i < 3; i++) {
        ddisp_launch_options options = problem_options(0, NULL, NULL);
        problem p = problem_spoilt(t, 2);
        const int64_t one = 1;
        options.policy = policies[i];
        p.s = cts_tensor(t, DDISP_DTYPE_F32, 1, &one, NULL, 0, NULL);
        ddisp_status status = problem_run(&p, kernel, &options);
        if (status != DDISP_STATUS_UNSUPPORTED || policies[i] != DDISP_POLICY_SINK) {
            CTS_OK(status);
            CTS_GRADIENT(p.x, 101, 0, 0);
        }
        problem_drop(&p);
    }
}

static void a_dry_run_tells_of_the_shadow(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = problem_options(DDISP_LAUNCH_DRY_RUN, report, NULL);
    problem p = problem_spoilt(t, 1);
    cts_note(t);
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_UNCHANGED(t);
    assert_int_equal(cts_slot(report, X, true).backing, DDISP_BACKING_SHADOW);
    problem_drop(&p);
}

static void the_signature_says_so(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    problem p = problem_spoilt(t, 1);
    ddisp_arg args[4] = {DDISP_ARG(p.x), DDISP_ARG(p.n), DDISP_ARG(p.s), DDISP_ARG(p.y)};
    for (uint32_t on = 0; on < 2; on++) {
        ddisp_launch_options options = cts_options(0, on ? DDISP_LAUNCH_DETERMINISTIC : 0, NULL);
        ddisp_signature signature = DDISP_ZERO;
        ddisp_signature_info info = DDISP_ZERO;
        char text[2048];
        signature.size = (uint32_t)sizeof signature;
        info.size = (uint32_t)sizeof info;
        CTS_OK(ddisp_launch_signature(kernel, DDISP_MODE_BACKWARD, args, 4, &options, NULL,
                                      &signature));
        CTS_OK(ddisp_signature_decode(signature.bytes, signature.byte_count, &info));
        assert_int_equal(info.deterministic, on);
        assert_int_equal(info.flags, 0);
        CTS_OK(
            ddisp_signature_format(signature.bytes, signature.byte_count, text, sizeof text, NULL));
        assert_int_equal(strstr(text, "deterministic") != NULL, on);
    }
    problem_drop(&p);
}

/* ---- what cannot be done */

static void opaque_code_is_refused(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, 0, 3, 4);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_launch_options options = problem_options(0, NULL, NULL);
    CTS_FORWARD(kernel, a, b, y);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, a, b, y), DDISP_STATUS_UNSUPPORTED, "mul_opaque",
                "'a'", "DDISP_CODE_DETERMINISTIC");
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
    CTS_GRADIENT(a, 3, 4);
}

static void one_store_needs_no_shadow(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_once);
    ddisp_report *report = cts_report(t);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_launch_options options = problem_options(0, report, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 10)));
    CTS_OK(CTS_BACKWARD(kernel, &options, x, y));
    CTS_GRADIENT(x, 2, 20);
    assert_int_equal(cts_slot(report, 0, true).backing, DDISP_BACKING_REAL);
}

/* The same code with another declaration: the block does not know of it. */
static ddisp_kernel *declared(cts *t, cts_source *source, ddisp_param params[4], uint32_t inout,
                              const ddisp_code_param *code_param)
{
    *source = cts_bins[F32][1];
    memcpy(params, source->params, 4 * sizeof *params);
    if (inout < 4)
        params[inout].access = DDISP_ACCESS_INOUT;
    source->params = params;
    return cts_kernel_with(t, source, source->codes[0].flags, code_param);
}

static void kernels_that_write_run_once(cts *t)
{
    NEEDS_INTEGERS(t);
    cts_source source;
    ddisp_param params[4];
    ddisp_bound bound = problem_bound(1, 0);
    ddisp_launch_options open = problem_options(DDISP_LAUNCH_ZERO_UPSTREAM, NULL, NULL);
    ddisp_launch_options told = problem_options(DDISP_LAUNCH_ZERO_UPSTREAM, NULL, &bound);
    ddisp_kernel *kernel = declared(t, &source, params, S, NULL);
    problem p = problem_spoilt(t, 1);
    CTS_REFUSED(t, problem_run(&p, kernel, &open), DDISP_STATUS_UNSUPPORTED, "bins_f32", "'x'",
                "'s'", "inout", "options.bounds");
    CTS_OK(problem_run(&p, kernel, &told));
    CTS_GRADIENT(p.x, 100, 0, 0);
    CTS_GRADIENT(p.s, 100);
    problem_drop(&p);
}

static void gradients_written_directly_are_written_once(cts *t)
{
    NEEDS_INTEGERS(t);
    cts_source source;
    ddisp_param params[4];
    ddisp_code_param plain = {.param = S,
                              .write_mode = DDISP_WRITE_MODE_PLAIN_ADD,
                              .layouts = DDISP_LAYOUT_ANY,
                              .grad_layouts = DDISP_LAYOUT_ANY};
    ddisp_bound bound = problem_bound(1, 0);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options open = problem_options(0, NULL, NULL);
    ddisp_launch_options told = problem_options(0, report, &bound);
    ddisp_kernel *kernel = declared(t, &source, params, 4, &plain);
    problem p = problem_spoilt(t, 1);
    CTS_REFUSED(t, problem_run(&p, kernel, &open), DDISP_STATUS_UNSUPPORTED, "'x'", "'s'",
                "written directly");
    CTS_OK(problem_run(&p, kernel, &told));
    CTS_GRADIENT(p.s, 100);
    CTS_GRADIENT(p.x, 100, 0, 0);
    assert_int_equal(cts_slot(report, S, true).backing, DDISP_BACKING_REAL);
    assert_int_equal(cts_slot(report, X, true).backing, DDISP_BACKING_SHADOW);
    problem_drop(&p);
}

static void code_that_reads_back_is_refused(cts *t)
{
    cts_source source;
    ddisp_param params[4];
    ddisp_code_param reads = {.param = S,
                              .write_mode = DDISP_WRITE_MODE_READS_BACK,
                              .layouts = DDISP_LAYOUT_ANY,
                              .grad_layouts = DDISP_LAYOUT_ANY};
    ddisp_launch_options options = problem_options(0, NULL, NULL);
    ddisp_kernel *kernel = declared(t, &source, params, 4, &reads);
    problem p = problem_spoilt(t, 1);
    CTS_REFUSED(t, problem_run(&p, kernel, &options), DDISP_STATUS_UNSUPPORTED, "bins_f32", "'s'",
                "read its gradient back");
    problem_drop(&p);
}

/* ---- plans, captures, streams, contexts */

static void plans_are_deterministic(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_bound bound = problem_bound(2, 0);
    for (int declared_bound = 0; declared_bound < 2; declared_bound++) {
        ddisp_launch_options options = problem_options(0, NULL, declared_bound ? &bound : NULL);
        problem p = problem_spoilt(t, 2);
        ddisp_arg args[4] = {DDISP_ARG(p.x), DDISP_ARG(p.n), DDISP_ARG(p.s), DDISP_ARG(p.y)};
        ddisp_plan *plan = NULL;
        CTS_OK(ddisp_plan_create(kernel, DDISP_MODE_BACKWARD, args, 4, &options, NULL, &plan));
        for (int i = 1; i <= 3; i++) {
            CTS_OK(ddisp_tensor_set_grad(p.y, problem_upstream(&p)));
            CTS_OK(ddisp_plan_launch(plan, args, 4, NULL));
            CTS_GRADIENT(p.x, 101 * i, 0, 0);
        }
        ddisp_plan_release(plan);
        problem_drop(&p);
    }
}

static void captures_are_refused(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_bound bound = problem_bound(1, 0);
    ddisp_launch_options options = problem_options(0, NULL, &bound);
    ddisp_stream *stream = cts_stream(t);
    problem p = problem_spoilt(t, 1);
    ddisp_arg args[4] = {DDISP_ARG(p.x), DDISP_ARG(p.n), DDISP_ARG(p.s), DDISP_ARG(p.y)};
    ddisp_status status = ddisp_stream_begin_capture(stream);
    if (status == DDISP_STATUS_UNSUPPORTED) {
        problem_drop(&p);
        CTS_SKIP(t, "the device does not capture");
    }
    CTS_OK(status);
    CTS_FAILS(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 4, &options, stream),
              DDISP_STATUS_UNSUPPORTED, "bins_f32", "deterministic", "captures");
    ddisp_graph *graph = NULL;
    CTS_OK(ddisp_stream_end_capture(stream, &graph));
    ddisp_graph_release(graph);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 4, &options, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_GRADIENT(p.x, 100, 0, 0);
    problem_drop(&p);
}

static void each_stream_reports_its_own(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_bound bound = problem_bound(1, 0);
    ddisp_launch_options options = problem_options(0, NULL, &bound);
    ddisp_stream *streams[2] = {cts_stream(t), cts_stream(t)};
    ddisp_event *event = NULL;
    problem p[2] = {problem_spoilt(t, 1), problem_spoilt(t, 7)};
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_event_create(t->device, 0, &event));
    for (int i = 0; i < 2; i++) {
        ddisp_arg args[4] = {DDISP_ARG(p[i].x), DDISP_ARG(p[i].n), DDISP_ARG(p[i].s),
                             DDISP_ARG(p[i].y)};
        CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 4, &options, streams[i]));
    }
    CTS_OK(ddisp_event_record(event, streams[1]));
    CTS_OK(ddisp_stream_synchronize(streams[0], DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_event_synchronize(event, DDISP_TIMEOUT_INFINITE)); /* no word of the stream */
    CTS_FAILS(ddisp_stream_synchronize(streams[1], DDISP_TIMEOUT_INFINITE),
              DDISP_STATUS_BOUND_EXCEEDED, "bins_f32");
    CTS_OK(ddisp_stream_synchronize(streams[1], DDISP_TIMEOUT_INFINITE));
    ddisp_event_release(event);
    problem_drop(&p[0]);
    problem_drop(&p[1]);
}

/* Release functions of the fixture belong to its context; this one has everything of its own. */
static void a_context_can_ask_for_it(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.flags = DDISP_CONTEXT_DETERMINISTIC;
    cts other = {0};
    CTS_OK(ddisp_context_create(&desc, &other.context));
    CTS_OK(ddisp_device_open(other.context, t->info.spec, &other.device));
    cts *inner = cts_begin(other.context, other.device);
    ddisp_kernel *kernel = cts_kernel(inner, &cts_bins[F32][1]);
    ddisp_kernel *opaque = cts_kernel(inner, &cts_mul_opaque);
    ddisp_report *report = cts_report(inner);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
    problem p = problem_spoilt(inner, 2);
    CTS_OK(problem_run(&p, kernel, &options));
    assert_int_equal(cts_slot(report, X, true).backing, DDISP_BACKING_SHADOW);
    CTS_GRADIENT(p.x, 101, 0, 0);
    problem_drop(&p);
    ddisp_tensor *a = CTS_VECTOR(inner, CTS_GRAD, 1, 2), *b = CTS_VECTOR(inner, 0, 3, 4);
    ddisp_tensor *y = cts_vector(inner, 2, CTS_GRAD, NULL);
    CTS_FORWARD(opaque, a, b, y);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(inner, 0, 1, 1)));
    CTS_REFUSED(inner, CTS_BACKWARD(opaque, NULL, a, b, y), DDISP_STATUS_UNSUPPORTED, "mul_opaque");
    CTS_OK(ddisp_tensor_accumulate(a, b, 1, NULL, NULL));
    CTS_VALUES(a, 4, 6);
    cts_finish(inner);
    cts_end(inner);
    ddisp_device_release(other.device);
    ddisp_context_release(other.context);
}

const cts_test cts_deterministic_limit_tests[] = {
    CTS_TEST(values_beyond_the_bound_are_reported),
    CTS_TEST(more_adds_than_declared_are_reported),
    CTS_TEST(values_that_are_not_finite_change_nothing),
    CTS_TEST(zeros_have_a_bound),
    CTS_TEST(bounds_are_checked),
    CTS_TEST(frozen_inputs_cost_nothing),
    CTS_TEST(other_policies_serve_beside_a_shadow),
    CTS_TEST(a_dry_run_tells_of_the_shadow),
    CTS_TEST(the_signature_says_so),
    CTS_TEST(opaque_code_is_refused),
    CTS_TEST(one_store_needs_no_shadow),
    CTS_TEST(kernels_that_write_run_once),
    CTS_TEST(gradients_written_directly_are_written_once),
    CTS_TEST(code_that_reads_back_is_refused),
    CTS_TEST(plans_are_deterministic),
    CTS_TEST(captures_are_refused),
    CTS_TEST(each_stream_reports_its_own),
    CTS_TEST(a_context_can_ask_for_it),
    CTS_END,
};
