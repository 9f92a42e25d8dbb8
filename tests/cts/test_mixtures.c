/*
 * test_mixtures.c - the main job: y = a b run backward with every mixture of inputs that require a
 * gradient, under every policy, with a kernel that specializes and with one that touches every
 * gradient. Gradients come out exactly where they were asked for, nothing anywhere else, and the
 * report says what backed each slot.
 */
#include "cts.h"

enum { A, B, Y };
enum { N = 5 };

static const float a_data[N] = {1, 2, 3, 4, 5}, b_data[N] = {10, 20, 30, 40, 50},
                   g_data[N] = {1, 2, 3, 4, 5};

static const ddisp_policy policies[] = {
    DDISP_POLICY_DEFAULT, DDISP_POLICY_AUTO,    DDISP_POLICY_SPECIALIZE, DDISP_POLICY_GUARD,
    DDISP_POLICY_SINK,    DDISP_POLICY_SCRATCH, DDISP_POLICY_REJECT,
};

static bool has_sink(const cts *t)
{
    return strcmp(t->info.sink, "none") != 0 && t->info.sink[0];
}

/* What a frozen input's slot gets under a policy; NONE: the policy cannot be honoured. */
static ddisp_backing backing_of(const cts *t, bool opaque, ddisp_policy policy)
{
    ddisp_backing sink = has_sink(t) ? DDISP_BACKING_SINK : DDISP_BACKING_NONE;
    switch (policy) {
    case DDISP_POLICY_SPECIALIZE:
        return opaque ? DDISP_BACKING_NONE : DDISP_BACKING_OMITTED;
    case DDISP_POLICY_GUARD:
        return opaque ? DDISP_BACKING_NONE : DDISP_BACKING_NULL;
    case DDISP_POLICY_SINK:
        return sink;
    case DDISP_POLICY_SCRATCH:
        return DDISP_BACKING_SCRATCH;
    default:
        return !opaque ? DDISP_BACKING_OMITTED : sink ? sink : DDISP_BACKING_SCRATCH;
    }
}

struct mixture {
    cts *t;
    bool opaque;
    ddisp_policy policy;
    bool a_grad, b_grad;
    ddisp_tensor *a, *b, *y, *g;
    ddisp_kernel *kernel;
    ddisp_report *report;
};

static void make(struct mixture *m)
{
    cts *t = m->t;
    m->a = cts_vector(t, N, m->a_grad ? CTS_GRAD : 0, a_data);
    m->b = cts_vector(t, N, m->b_grad ? CTS_GRAD : 0, b_data);
    m->y = cts_vector(t, N, CTS_GRAD, NULL);
    m->g = cts_vector(t, N, 0, g_data);
    CTS_FORWARD(m->kernel, m->a, m->b, m->y);
    CTS_OK(ddisp_tensor_set_grad(m->y, m->g));
}

static void check_slot(struct mixture *m, uint32_t param, bool grad, ddisp_backing frozen)
{
    ddisp_report_slot slot = cts_slot(m->report, param, true);
    assert_int_equal(slot.requires_grad, grad);
    if (grad) {
        assert_int_equal(slot.backing, DDISP_BACKING_REAL);
        assert_true(slot.flags & DDISP_REPORT_SLOT_MADE);
        assert_int_equal(slot.bytes, N * sizeof(float));
    } else {
        CTS_CHECK(slot.backing == frozen, "policy %s: parameter %u is backed by %s instead of %s",
                  ddisp_policy_name(m->policy), param, ddisp_backing_name(slot.backing),
                  ddisp_backing_name(frozen));
        if (frozen == DDISP_BACKING_OMITTED || frozen == DDISP_BACKING_NULL)
            assert_int_equal(slot.bytes, 0);
        if (frozen == DDISP_BACKING_SCRATCH)
            assert_int_equal(slot.bytes, N * sizeof(float));
    }
}

static void check_gradients(struct mixture *m)
{
    if (m->a_grad)
        CTS_GRADIENT(m->a, 10, 40, 90, 160, 250); /* g b */
    else
        CTS_NO_GRADIENT(m->a);
    if (m->b_grad)
        CTS_GRADIENT(m->b, 1, 4, 9, 16, 25); /* g a */
    else
        CTS_NO_GRADIENT(m->b);
    CTS_VALUES(m->a, 1, 2, 3, 4, 5);
    CTS_VALUES(m->b, 10, 20, 30, 40, 50);
    CTS_VALUES(m->y, 10, 40, 90, 160, 250);
    CTS_VALUES(m->g, 1, 2, 3, 4, 5);
}

static void check_refused(struct mixture *m, const ddisp_launch_options *options,
                          ddisp_status status)
{
    cts *t = m->t;
    CTS_REFUSED(t, CTS_BACKWARD(m->kernel, options, m->a, m->b, m->y), status, "mul",
                m->a_grad ? "'b'" : "'a'");
    assert_int_equal(cts_report_info(m->report).launched, 0);
    assert_int_equal(cts_report_info(m->report).status, status);
}

static void check_launched(struct mixture *m, ddisp_backing frozen, uint64_t launches)
{
    cts *t = m->t;
    ddisp_report_info info = cts_report_info(m->report);
    int frozen_count = !m->a_grad + !m->b_grad;
    if (frozen_count == 2) {
        assert_int_equal(info.skip, DDISP_SKIP_NO_GRADIENT);
        assert_int_equal(info.launched, 0);
        assert_int_equal(cts_statistics(t).launches, launches);
    } else {
        assert_int_equal(info.skip, DDISP_SKIP_NONE);
        assert_int_equal(info.launched, 1);
        assert_int_equal(info.items, N);
        assert_int_equal(cts_statistics(t).launches, launches + 1);
        check_slot(m, A, m->a_grad, frozen);
        check_slot(m, B, m->b_grad, frozen);
        assert_int_equal(cts_slot(m->report, Y, false).backing, DDISP_BACKING_REAL);
        if (frozen != DDISP_BACKING_SINK)
            assert_int_equal(info.extra_bytes, frozen_count == 1 && frozen == DDISP_BACKING_SCRATCH
                                                   ? N * sizeof(float)
                                                   : 0);
    }
    check_gradients(m);
}

/* One row of the table: a policy and a mixture. */
static void run_mixture(struct mixture *m)
{
    cts *t = m->t;
    make(m);
    ddisp_launch_options options = cts_options(m->policy, 0, m->report);
    ddisp_backing frozen = backing_of(t, m->opaque, m->policy);
    bool any = m->a_grad || m->b_grad, all = m->a_grad && m->b_grad;

    if (m->policy == DDISP_POLICY_REJECT && !all) {
        check_refused(m, &options, DDISP_STATUS_GRADIENT_REJECTED);
    } else if (any && !all && !frozen) {
        check_refused(m, &options, DDISP_STATUS_UNSUPPORTED);
    } else {
        uint64_t launches = cts_statistics(t).launches;
        CTS_OK(CTS_BACKWARD(m->kernel, &options, m->a, m->b, m->y));
        check_launched(m, frozen, launches);
    }
}

static void run_policy(cts *t, bool opaque, ddisp_policy policy)
{
    struct mixture m = {.t = t, .opaque = opaque, .policy = policy};
    m.kernel = cts_kernel(t, opaque ? &cts_mul_opaque : &cts_mul);
    m.report = cts_report(t);
    for (int mixture = 0; mixture < 4; mixture++) {
        m.a_grad = mixture & 1;
        m.b_grad = mixture & 2;
        run_mixture(&m);
    }
}

static void frozen_input_gets_no_gradient_switched(cts *t)
{
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++)
        run_policy(t, false, policies[p]);
}

static void frozen_input_gets_no_gradient_opaque(cts *t)
{
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++)
        run_policy(t, true, policies[p]);
}

/* Code that does not specialize, but tests addresses: AUTO takes guard, and no memory. */
static void auto_takes_guard_when_code_only_tests_addresses(cts *t)
{
    static const ddisp_policy both[] = {DDISP_POLICY_AUTO, DDISP_POLICY_GUARD};
    struct mixture m = {.t = t, .a_grad = true};
    m.kernel = cts_kernel(t, &cts_mul_guarded);
    m.report = cts_report(t);
    for (int p = 0; p < 2; p++) {
        uint64_t launches = cts_statistics(t).launches + 1; /* make() launches forward */
        m.policy = both[p];
        make(&m);
        ddisp_launch_options options = cts_options(m.policy, 0, m.report);
        CTS_OK(CTS_BACKWARD(m.kernel, &options, m.a, m.b, m.y));
        check_launched(&m, DDISP_BACKING_NULL, launches);
    }
    make(&m);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SPECIALIZE, 0, m.report);
    check_refused(&m, &options, DDISP_STATUS_UNSUPPORTED);
}

static void argument_policy_overrides_the_launch(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_report *report = cts_report(t);
    struct mixture m = {.t = t, .kernel = kernel, .report = report, .a_grad = true};
    make(&m);
    ddisp_arg args[3] = {DDISP_ARG(m.a), DDISP_ARG_POLICY(m.b, DDISP_POLICY_SCRATCH),
                         DDISP_ARG(m.y)};
    ddisp_launch_options options = cts_options(DDISP_POLICY_REJECT, 0, report);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    ddisp_report_slot slot = cts_slot(report, B, true);
    assert_int_equal(slot.backing, DDISP_BACKING_SCRATCH);
    assert_int_equal(slot.policy, DDISP_POLICY_SCRATCH);
    check_gradients(&m);

    args[1].policy = DDISP_POLICY_REJECT;
    options.policy = DDISP_POLICY_SCRATCH;
    CTS_OK(ddisp_tensor_set_grad(m.y, m.g));
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL),
                DDISP_STATUS_GRADIENT_REJECTED, "'b'");
}

/* What frozen inputs write must go nowhere even when many cells are written many times. */
static void scratch_is_given_back(cts *t)
{
    enum { LARGE = 100000 };
    int64_t n = LARGE;
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_tensor *a = cts_vector(t, n, CTS_GRAD, NULL), *b = cts_vector(t, n, 0, NULL);
    ddisp_tensor *y = cts_vector(t, n, CTS_GRAD, NULL), *g = cts_vector(t, n, 0, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SCRATCH, 0, NULL);
    uint64_t live = cts_statistics(t).bytes_live;
    for (int i = 0; i < 5; i++) {
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, &options, a, b, y));
    }
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.scratch_bytes_live, 0);
    assert_int_equal(after.bytes_live, live + LARGE * sizeof(float)); /* the gradient of a */
    assert_true(after.scratch_bytes_peak >= LARGE * sizeof(float));
}

const cts_test cts_mixture_tests[] = {
    CTS_TEST(frozen_input_gets_no_gradient_switched),
    CTS_TEST(frozen_input_gets_no_gradient_opaque),
    CTS_TEST(auto_takes_guard_when_code_only_tests_addresses),
    CTS_TEST(argument_policy_overrides_the_launch),
    CTS_TEST(scratch_is_given_back),
    CTS_END,
};
