/*
 * test_order.c - the order in which a backward launch checks (docs/architecture.md, "Order of
 * checks"): each request here is wrong in two ways, and the earlier one answers.
 */
#include "cts.h"

struct request {
    ddisp_kernel *kernel;
    ddisp_tensor *a, *b, *y;
    ddisp_launch_options options;
    ddisp_report *report;
};

/* y = a b with an opaque kernel, both frozen, no upstream. */
static struct request make(cts *t, uint64_t a_flags, uint64_t b_flags, int64_t n)
{
    static const float data[3] = {1, 2, 3};
    struct request r = {.kernel = cts_kernel(t, &cts_mul_opaque), .report = cts_report(t)};
    r.a = cts_vector(t, n, a_flags, data);
    r.b = cts_vector(t, n, b_flags, data);
    r.y = cts_vector(t, n, CTS_GRAD, data);
    r.options = cts_options(DDISP_POLICY_AUTO, 0, r.report);
    return r;
}

static ddisp_status backward(struct request *r)
{
    return CTS_BACKWARD(r->kernel, &r->options, r->a, r->b, r->y);
}

static void arguments_come_before_reject(cts *t)
{
    struct request r = make(t, 0, 0, 3);
    int64_t n = 3;
    r.options.policy = DDISP_POLICY_REJECT;
    r.b = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, NULL);
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_DTYPE_MISMATCH, "'b'", "i32", "f32");
}

static void reject_comes_before_nothing_requires_grad(cts *t)
{
    struct request r = make(t, 0, 0, 3);
    r.options.policy = DDISP_POLICY_REJECT;
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_GRADIENT_REJECTED, "'a'");
}

static void reject_comes_before_missing_upstream(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 3);
    r.options.policy = DDISP_POLICY_REJECT;
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_GRADIENT_REJECTED, "'b'");
}

static void reject_names_the_parameter(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 3);
    ddisp_error error = DDISP_ZERO;
    error.size = (uint32_t)sizeof error;
    r.options.error = &error;
    r.options.policy = DDISP_POLICY_REJECT;
    CTS_OK(ddisp_tensor_set_grad(r.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_GRADIENT_REJECTED, "mul_opaque", "'b'", "reject");
    assert_int_equal(error.status, DDISP_STATUS_GRADIENT_REJECTED);
    assert_int_equal(error.argument, 1);
    assert_non_null(strstr(error.message, "'b'"));
    CTS_OK(ddisp_tensor_set_requires_grad(r.b, 1)); /* nothing frozen: nothing to reject */
    CTS_OK(backward(&r));
    CTS_GRADIENT(r.a, 1, 2, 3);
    CTS_GRADIENT(r.b, 1, 2, 3);
}

static void nothing_requires_grad_comes_before_missing_upstream(cts *t)
{
    struct request r = make(t, 0, 0, 3);
    ddisp_device_statistics before = cts_statistics(t);
    CTS_OK(backward(&r));
    assert_int_equal(cts_report_info(r.report).skip, DDISP_SKIP_NO_GRADIENT);
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.skips, before.skips + 1);
    assert_int_equal(after.variants_built, before.variants_built);
}

/* Skipped, and yet done: the outputs' gradients were taken, as the caller can rely on. */
static void nothing_requires_grad_takes_the_upstream(cts *t)
{
    struct request r = make(t, 0, 0, 3);
    CTS_OK(ddisp_tensor_set_grad(r.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(backward(&r));
    CTS_STATE(r.y, DDISP_GRAD_STATE_EMPTY);
    CTS_OK(ddisp_tensor_set_grad(r.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    r.options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    CTS_OK(backward(&r));
    CTS_STATE(r.y, DDISP_GRAD_STATE_PRESENT);
}

static void nothing_requires_grad_comes_before_the_policy(cts *t)
{
    struct request r = make(t, 0, 0, 3);
    r.options.policy = DDISP_POLICY_SPECIALIZE; /* which the code cannot honour */
    CTS_OK(backward(&r));
    assert_int_equal(cts_report_info(r.report).skip, DDISP_SKIP_NO_GRADIENT);
}

static void missing_upstream_comes_before_no_items(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 0);
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_MISSING_GRADIENT, "'y'");
}

static void missing_upstream_comes_before_the_policy(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 3);
    r.options.policy = DDISP_POLICY_SPECIALIZE;
    CTS_REFUSED(t, backward(&r), DDISP_STATUS_MISSING_GRADIENT, "'y'");
}

static void zero_upstream_comes_before_the_policy(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 3);
    r.options.policy = DDISP_POLICY_SPECIALIZE;
    r.options.flags = DDISP_LAUNCH_ZERO_UPSTREAM;
    CTS_OK(backward(&r));
    assert_int_equal(cts_report_info(r.report).skip, DDISP_SKIP_ZERO_UPSTREAM);
}

static void no_items_come_before_the_policy(cts *t)
{
    struct request r = make(t, CTS_GRAD, 0, 0);
    CTS_OK(ddisp_tensor_set_grad(r.y, cts_vector(t, 0, 0, NULL)));
    r.options.policy = DDISP_POLICY_SPECIALIZE;
    uint64_t launches = cts_statistics(t).launches;
    CTS_OK(backward(&r));
    assert_int_equal(cts_report_info(r.report).skip, DDISP_SKIP_NO_ITEMS);
    assert_int_equal(cts_statistics(t).launches, launches);
    CTS_STATE(r.y, DDISP_GRAD_STATE_EMPTY);
}

const cts_test cts_order_tests[] = {
    CTS_TEST(arguments_come_before_reject),
    CTS_TEST(reject_comes_before_nothing_requires_grad),
    CTS_TEST(reject_comes_before_missing_upstream),
    CTS_TEST(reject_names_the_parameter),
    CTS_TEST(nothing_requires_grad_comes_before_missing_upstream),
    CTS_TEST(nothing_requires_grad_takes_the_upstream),
    CTS_TEST(nothing_requires_grad_comes_before_the_policy),
    CTS_TEST(missing_upstream_comes_before_no_items),
    CTS_TEST(missing_upstream_comes_before_the_policy),
    CTS_TEST(zero_upstream_comes_before_the_policy),
    CTS_TEST(no_items_come_before_the_policy),
    CTS_END,
};
