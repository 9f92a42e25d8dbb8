/*
 * test_writes.c - how a code writes gradients, as it declares: by atomic adds, by plain adds, by
 * one store, reading back. The same tensor twice, broadcast inputs and gradients of other dtypes
 * come out right whatever the code does. Also cases 9, 10 and 24.
 */
#include "cts.h"

#define NEEDS_ACCUMULATION(t)                                                                      \
    do {                                                                                           \
        if (!cts_accumulates(t))                                                                   \
            CTS_SKIP(t, "the device does not accumulate");                                         \
    } while (0)

static ddisp_tensor *ones(cts *t, int64_t n)
{
    static const float values[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(n <= 16);
    return cts_vector(t, n, 0, values);
}

static void store_once_needs_no_fill(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_once);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *g = CTS_VECTOR(t, 0, 1, 10, 100);
    CTS_FORWARD(kernel, x, y);
    CTS_VALUES(y, 2, 4, 6);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    uint64_t fills = cts_statistics(t).fills;
    CTS_OK(CTS_BACKWARD(kernel, &options, x, y));
    CTS_GRADIENT(x, 2, 20, 200);
    assert_int_equal(cts_statistics(t).fills, fills);
    assert_int_equal(cts_slot(report, 0, true).flags, DDISP_REPORT_SLOT_MADE);
}

static void store_once_accumulates_into_what_is_there(cts *t)
{
    NEEDS_ACCUMULATION(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_once);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *g = CTS_VECTOR(t, 0, 1, 10, 100);
    ddisp_launch_options overwrite = cts_options(0, DDISP_LAUNCH_OVERWRITE, NULL);
    for (int i = 1; i <= 3; i++) {
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
        CTS_GRADIENT(x, 2 * i, 20 * i, 200 * i);
    }
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(CTS_BACKWARD(kernel, &overwrite, x, y));
    CTS_GRADIENT(x, 2, 20, 200);
    assert_int_equal(cts_statistics(t).scratch_bytes_live, 0);
}

/* Only the viewed elements are stored: the others must be zero, not what was in the memory. */
static void store_once_through_a_view_fills_the_rest(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_once);
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4), *view = NULL;
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    int64_t two = 2;
    CTS_OK(ddisp_tensor_as_strided(base, 1, &two, &two, cts_offset(base) + 1, &view));
    (void)cts_own(t, view);
    CTS_OK(ddisp_tensor_set_grad(y, ones(t, 2)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, view, y));
    CTS_GRADIENT(base, 0, 2, 0, 2);
}

static void plain_adds_of_one_tensor_twice_are_both_there(cts *t)
{
    NEEDS_ACCUMULATION(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_plain);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    for (int i = 1; i <= 2; i++) {
        CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 10, 100)));
        CTS_OK(CTS_BACKWARD(kernel, NULL, x, x, y));
        CTS_GRADIENT(x, 3 * i, 30 * i, 300 * i);
    }
}

/* A view of one cell as n elements, which shares the cell's gradient. */
static ddisp_tensor *expanded(cts *t, ddisp_tensor *cell, int64_t n)
{
    int64_t zero = 0;
    ddisp_tensor *view = NULL;
    CTS_OK(ddisp_tensor_as_strided(cell, 1, &n, &zero, cts_offset(cell), &view));
    return cts_own(t, view);
}

/* Non-atomic adds from many threads into one cell would lose most of them. */
static void plain_adds_into_a_broadcast_input_are_summed(cts *t)
{
    NEEDS_ACCUMULATION(t);
    enum { N = 5000 };
    static float data[N];
    for (int i = 0; i < N; i++)
        data[i] = 1;
    ddisp_kernel *kernel = cts_kernel(t, &cts_plain);
    ddisp_tensor *cell = CTS_VECTOR(t, CTS_GRAD, 3), *x = expanded(t, cell, N);
    ddisp_tensor *b = cts_vector(t, N, 0, data), *y = cts_vector(t, N, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_vector(t, N, 0, data);
    for (int i = 1; i <= 2; i++) {
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, NULL, x, b, y));
        CTS_GRADIENT(cell, 2 * N * i);
    }
}

static void reads_back_goes_to_scratch(cts *t, ddisp_write_mode mode)
{
    ddisp_code_param reads = {1, mode, DDISP_DTYPE_ANY, 0, 0, 0, 0, 0};
    ddisp_kernel *kernel = cts_kernel_with(t, &cts_mul_opaque, DDISP_CODE_ANY_LAYOUT, &reads);
    ddisp_report *report = cts_report(t);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, 0, 3, 4);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SINK, 0, report);
    CTS_OK(ddisp_tensor_set_grad(y, ones(t, 2)));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, a, b, y), DDISP_STATUS_UNSUPPORTED, "'b'",
                "sink");
    options.policy = DDISP_POLICY_AUTO;
    CTS_OK(CTS_BACKWARD(kernel, &options, a, b, y));
    assert_int_equal(cts_slot(report, 1, true).backing, DDISP_BACKING_SCRATCH);
    CTS_GRADIENT(a, 3, 4);
    CTS_NO_GRADIENT(b);
}

static void code_that_reads_back_gets_scratch(cts *t)
{
    reads_back_goes_to_scratch(t, DDISP_WRITE_MODE_READS_BACK);
}

static void unknown_code_gets_scratch(cts *t)
{
    reads_back_goes_to_scratch(t, DDISP_WRITE_MODE_UNKNOWN);
}

/* Case 9: a stride-0 input, and its gradient in the shape of the base. */
static void case_09_expanded_input(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *cell = CTS_VECTOR(t, CTS_GRAD, 2), *x = expanded(t, cell, 4);
    ddisp_tensor *y = cts_vector(t, 4, CTS_GRAD, NULL);
    CTS_FORWARD(kernel, x, y);
    CTS_VALUES(y, 4, 4, 4, 4);
    CTS_OK(ddisp_tensor_set_grad(y, ones(t, 4)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(cell, 16);
}

/* Case 10: broadcast along several axes; gradients come back reduced. y = 2 a + b. */
static void case_10_broadcast_gradients_are_reduced(cts *t)
{
    static const int64_t full[4] = {2, 3, 4, 5}, a_shape[4] = {2, 3, 1, 5},
                         b_shape[4] = {2, 1, 4, 5};
    static const int64_t a_strides[4] = {15, 5, 0, 1}, b_strides[4] = {20, 0, 5, 1};
    static float data[120];
    double values[40];
    for (int i = 0; i < 120; i++)
        data[i] = 1;
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    ddisp_tensor *a = cts_tensor(t, DDISP_DTYPE_F32, 4, a_shape, NULL, CTS_GRAD, data);
    ddisp_tensor *b = cts_tensor(t, DDISP_DTYPE_F32, 4, b_shape, NULL, CTS_GRAD, data);
    ddisp_tensor *y = cts_tensor(t, DDISP_DTYPE_F32, 4, full, NULL, CTS_GRAD, NULL);
    ddisp_tensor *wide_a = NULL, *wide_b = NULL, *gradient = NULL;
    CTS_OK(ddisp_tensor_as_strided(a, 4, full, a_strides, cts_offset(a), &wide_a));
    (void)cts_own(t, wide_a);
    CTS_OK(ddisp_tensor_as_strided(b, 4, full, b_strides, cts_offset(b), &wide_b));
    (void)cts_own(t, wide_b);
    CTS_OK(ddisp_tensor_set_grad(y, cts_tensor(t, DDISP_DTYPE_F32, 4, full, NULL, 0, data)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, wide_a, wide_b, y));
    CTS_OK(ddisp_tensor_grad(a, &gradient));
    assert_memory_equal(cts_tensor_info(cts_own(t, gradient)).shape, a_shape, sizeof a_shape);
    cts_read(gradient, values, 30);
    for (int i = 0; i < 30; i++)
        assert_true(values[i] == 8); /* 2, over 4 */
    CTS_OK(ddisp_tensor_grad(b, &gradient));
    assert_memory_equal(cts_tensor_info(cts_own(t, gradient)).shape, b_shape, sizeof b_shape);
    cts_read(gradient, values, 40);
    for (int i = 0; i < 40; i++)
        assert_true(values[i] == 3);
}

/* Case 24: many small contributions to one cell of a half-precision tensor. */
static void case_24_half_sums_do_not_stall(cts *t)
{
    NEEDS_ACCUMULATION(t);
    enum { N = 4096 };
    static const uint16_t one = 0x3c00;
    static float data[N];
    for (int i = 0; i < N; i++)
        data[i] = 0.5f; /* y = 2 x: each adds 1 */
    int64_t single = 1;
    ddisp_kernel *kernel = cts_kernel(t, &cts_half);
    ddisp_tensor *y = cts_vector(t, N, CTS_GRAD, NULL), *g = cts_vector(t, N, 0, data);
    for (uint64_t same = 0; same < 2; same++) {
        uint64_t flags = CTS_GRAD | (same ? DDISP_TENSOR_GRAD_SAME_DTYPE : 0);
        ddisp_tensor *cell = cts_tensor(t, DDISP_DTYPE_F16, 1, &single, NULL, flags, &one);
        ddisp_tensor *gradient = NULL;
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, NULL, expanded(t, cell, N), y));
        CTS_GRADIENT(cell, 4096);
        CTS_OK(ddisp_tensor_grad(cell, &gradient));
        assert_int_equal(cts_tensor_info(cts_own(t, gradient)).dtype,
                         same ? DDISP_DTYPE_F16 : DDISP_DTYPE_F32);
    }
}

/* The caller's gradient is f64, the code adds to f32. */
static void gradient_of_another_dtype_is_converted(cts *t)
{
    NEEDS_ACCUMULATION(t);
    int64_t n = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *own =
        cts_tensor(t, DDISP_DTYPE_F64, 1, &n, NULL, 0, (const double[]){0.125, 0.25, 0.5});
    CTS_OK(ddisp_tensor_set_grad(x, own));
    CTS_OK(ddisp_tensor_set_grad(y, ones(t, 3)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_VALUES(own, 2.125, 4.25, 6.5);
}

static void upstream_of_another_dtype_is_converted(cts *t)
{
    NEEDS_ACCUMULATION(t);
    static const uint16_t halves[3] = {0x3c00, 0xc000, 0x3800}; /* 1, -2, 0.5 */
    int64_t n = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_tensor(t, DDISP_DTYPE_F16, 1, &n, NULL, 0, halves);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(x, 2, -8, 3);
    CTS_VALUES(g, 1, -2, 0.5);
}

/* The code takes dense gradients only; the caller's are strided. */
static void gradient_of_another_layout_goes_through_a_temporary(cts *t)
{
    NEEDS_ACCUMULATION(t);
    ddisp_kernel *kernel = cts_kernel_with(t, &cts_square, DDISP_CODE_NULL_SAFE, NULL);
    int64_t n = 3, stride = 2;
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *own =
        cts_tensor(t, DDISP_DTYPE_F32, 1, &n, &stride, 0, (const float[]){10, 20, 30});
    ddisp_tensor *g = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, &stride, 0, (const float[]){1, 2, 3});
    CTS_OK(ddisp_tensor_set_grad(x, own));
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_VALUES(own, 12, 28, 48);
    CTS_VALUES(g, 1, 2, 3);
}

const cts_test cts_write_tests[] = {
    CTS_TEST(store_once_needs_no_fill),
    CTS_TEST(store_once_accumulates_into_what_is_there),
    CTS_TEST(store_once_through_a_view_fills_the_rest),
    CTS_TEST(plain_adds_of_one_tensor_twice_are_both_there),
    CTS_TEST(plain_adds_into_a_broadcast_input_are_summed),
    CTS_TEST(code_that_reads_back_gets_scratch),
    CTS_TEST(unknown_code_gets_scratch),
    CTS_TEST(case_09_expanded_input),
    CTS_TEST(case_10_broadcast_gradients_are_reduced),
    CTS_TEST(case_24_half_sums_do_not_stall),
    CTS_TEST(gradient_of_another_dtype_is_converted),
    CTS_TEST(upstream_of_another_dtype_is_converted),
    CTS_TEST(gradient_of_another_layout_goes_through_a_temporary),
    CTS_END,
};
