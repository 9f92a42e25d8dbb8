/*
 * test_upstream.c - the gradients of outputs: a backward launch takes them, or keeps them on
 * request, or counts absent ones as zero on request; what the caller handed in is only read.
 */
#include "cts.h"

static void outputs_gradients_are_taken(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *g = CTS_VECTOR(t, 0, 5, 7);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
    CTS_FORWARD(kernel, x, y);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_STATE(y, DDISP_GRAD_STATE_PRESENT);
    CTS_OK(CTS_BACKWARD(kernel, &options, x, y));
    CTS_STATE(y, DDISP_GRAD_STATE_EMPTY);
    CTS_VALUES(g, 5, 7); /* untouched */
    assert_true(cts_slot(report, 1, false).flags & DDISP_REPORT_SLOT_TAKEN);
    CTS_GRADIENT(x, 10, 28);
    CTS_REFUSED(t, CTS_BACKWARD(kernel, NULL, x, y), DDISP_STATUS_MISSING_GRADIENT, "'y'");
}

static void keep_upstream_leaves_it_in_place(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options keep = cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_KEEP_UPSTREAM, report);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 5, 7)));
    CTS_OK(CTS_BACKWARD(kernel, &keep, x, y));
    CTS_GRADIENT(y, 5, 7);
    assert_false(cts_slot(report, 1, false).flags & DDISP_REPORT_SLOT_TAKEN);
    CTS_OK(CTS_BACKWARD(kernel, &keep, x, y));
    CTS_GRADIENT(y, 5, 7);
    CTS_GRADIENT(x, 20, 56);
}

/* z = y c, y = x^2: the gradient of y is made by the second launch and taken by the first. */
static void chain_empties_intermediates(cts *t)
{
    ddisp_kernel *square = cts_kernel(t, &cts_square), *mul = cts_kernel(t, &cts_mul);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 3, 4), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *c = CTS_VECTOR(t, 0, 5, 10), *z = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *ones = CTS_VECTOR(t, 0, 1, 1);
    for (int step = 1; step <= 3; step++) {
        CTS_FORWARD(square, x, y);
        CTS_FORWARD(mul, y, c, z);
        CTS_VALUES(z, 45, 160);
        CTS_OK(ddisp_tensor_set_grad(z, ones));
        CTS_OK(CTS_BACKWARD(mul, NULL, y, c, z));
        CTS_GRADIENT(y, 5, 10);
        CTS_OK(CTS_BACKWARD(square, NULL, x, y));
        CTS_STATE(y, DDISP_GRAD_STATE_EMPTY);
        CTS_STATE(z, DDISP_GRAD_STATE_EMPTY);
        CTS_NO_GRADIENT(c);
        CTS_GRADIENT(x, 30 * step, 80 * step); /* 2 x c a step */
    }
    assert_int_equal(cts_statistics(t).gradient_bytes_live, 8); /* that of x alone */
}

static void inout_takes_and_adds(cts *t)
{
    float k = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_inout);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *g = CTS_VECTOR(t, 0, 1, 10);
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG_SCALAR(&k)};
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL));
    CTS_VALUES(x, 3, 6);
    CTS_OK(ddisp_tensor_set_grad(x, g));
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, NULL, NULL));
    CTS_GRADIENT(x, 3, 30); /* k g, not g + k g */
    CTS_VALUES(g, 1, 10);
    k = 2;
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, NULL, NULL));
    CTS_GRADIENT(x, 6, 60);
}

static void missing_upstream_names_the_output(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_pair);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *p = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *q = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_error error = DDISP_ZERO;
    error.size = (uint32_t)sizeof error;
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    options.error = &error;
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, x, p, q), DDISP_STATUS_MISSING_GRADIENT, "pair",
                "'p'");
    CTS_OK(ddisp_tensor_set_grad(p, CTS_VECTOR(t, 0, 1, 1)));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, x, p, q), DDISP_STATUS_MISSING_GRADIENT, "pair",
                "'q'");
    assert_int_equal(error.status, DDISP_STATUS_MISSING_GRADIENT);
    assert_int_equal(error.argument, 2);
    assert_non_null(strstr(error.message, "'q'"));
    CTS_GRADIENT(p, 1, 1); /* not taken */
}

static void zero_upstream(cts *t, const cts_source *source, ddisp_backing absent)
{
    ddisp_kernel *kernel = cts_kernel(t, source);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options =
        cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_ZERO_UPSTREAM, report);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *p = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *q = cts_vector(t, 2, CTS_GRAD, NULL), *g = CTS_VECTOR(t, 0, 1, 10);

    CTS_OK(ddisp_tensor_set_grad(p, g));
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    CTS_GRADIENT(x, 2, 20);
    assert_int_equal(cts_slot(report, 1, false).backing, DDISP_BACKING_REAL);
    assert_int_equal(cts_slot(report, 2, false).backing, absent);
    CTS_STATE(q, DDISP_GRAD_STATE_EMPTY);

    CTS_OK(ddisp_tensor_set_grad(q, g));
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    CTS_GRADIENT(x, 5, 50);
    assert_int_equal(cts_slot(report, 1, false).backing, absent);

    CTS_OK(ddisp_tensor_set_grad(p, g));
    CTS_OK(ddisp_tensor_set_grad(q, g));
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    CTS_GRADIENT(x, 10, 100);
    assert_int_equal(cts_statistics(t).scratch_bytes_live, 0);
}

static void absent_upstream_of_one_output_is_omitted(cts *t)
{
    zero_upstream(t, &cts_pair, DDISP_BACKING_OMITTED);
}

static void absent_upstream_of_one_output_reads_zeros(cts *t)
{
    zero_upstream(t, &cts_pair_opaque, DDISP_BACKING_ZERO);
}

static void all_upstreams_zero_launches_nothing(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_pair_opaque);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options =
        cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_ZERO_UPSTREAM, report);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *p = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *q = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_device_statistics before = cts_statistics(t);
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    assert_int_equal(cts_report_info(report).skip, DDISP_SKIP_ZERO_UPSTREAM);
    assert_int_equal(cts_report_info(report).launched, 0);
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.skips, before.skips + 1);
    CTS_STATE(x, DDISP_GRAD_STATE_EMPTY);

    CTS_OK(ddisp_tensor_set_grad(x, CTS_VECTOR(t, 0, 3, 4)));
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    CTS_GRADIENT(x, 3, 4); /* plus zero */
    options.flags |= DDISP_LAUNCH_OVERWRITE;
    CTS_OK(CTS_BACKWARD(kernel, &options, x, p, q));
    CTS_STATE(x, DDISP_GRAD_STATE_EMPTY); /* replaced by zero */
}

/* One cell, seen n times: read through its stride, never written. Also sums over 2708 x 16. */
static void case_08_stride0_seed(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    int64_t zero[2] = {0, 0}, n = 4, wide[2] = {2708, 16};
    static float ones[2708 * 16];
    static double values[2708 * 16];
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        ones[i] = 1;
    ddisp_tensor *a = cts_vector(t, n, CTS_GRAD, (const float[]){1, 2, 3, 4});
    ddisp_tensor *b = cts_vector(t, n, CTS_GRAD, (const float[]){1, 2, 3, 4});
    ddisp_tensor *y = cts_vector(t, n, CTS_GRAD, NULL);
    ddisp_tensor *seed = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, zero, DDISP_TENSOR_READ_ONLY, ones);
    CTS_OK(ddisp_tensor_set_grad(y, seed));
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
    CTS_GRADIENT(a, 2, 2, 2, 2);
    CTS_GRADIENT(b, 1, 1, 1, 1);
    CTS_VALUES(seed, 1, 1, 1, 1);

    a = cts_tensor(t, DDISP_DTYPE_F32, 2, wide, NULL, CTS_GRAD, ones);
    b = cts_tensor(t, DDISP_DTYPE_F32, 2, wide, NULL, 0, ones);
    y = cts_tensor(t, DDISP_DTYPE_F32, 2, wide, NULL, CTS_GRAD, NULL);
    seed = cts_tensor(t, DDISP_DTYPE_F32, 2, wide, zero, 0, ones);
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_set_grad(y, seed));
    CTS_OK(CTS_BACKWARD(kernel, NULL, b, a, y));
    CTS_OK(ddisp_tensor_grad(a, &gradient));
    cts_read(cts_own(t, gradient), values, sizeof values / sizeof values[0]);
    double sum = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sum += values[i];
    assert_true(sum == 43328);
}

const cts_test cts_upstream_tests[] = {
    CTS_TEST(outputs_gradients_are_taken),
    CTS_TEST(keep_upstream_leaves_it_in_place),
    CTS_TEST(chain_empties_intermediates),
    CTS_TEST(inout_takes_and_adds),
    CTS_TEST(missing_upstream_names_the_output),
    CTS_TEST(absent_upstream_of_one_output_is_omitted),
    CTS_TEST(absent_upstream_of_one_output_reads_zeros),
    CTS_TEST(all_upstreams_zero_launches_nothing),
    CTS_TEST(case_08_stride0_seed),
    CTS_END,
};
