/*
 * test_aliases.c - a range that a launch writes overlaps no other range of it, except where two add
 * slots are the same. Also cases 11 and 34.
 */
#include "cts.h"

/* Two tensors of three elements in one buffer of six, starting at elements 0 and `at`. */
struct neighbours {
    ddisp_tensor *whole, *first, *second;
};

static struct neighbours make(cts *t, int64_t at, uint64_t flags)
{
    struct neighbours n = {.whole = CTS_VECTOR(t, flags, 1, 2, 3, 4, 5, 6)};
    int64_t three = 3;
    CTS_OK(ddisp_tensor_as_strided(n.whole, 1, &three, NULL, cts_offset(n.whole), &n.first));
    (void)cts_own(t, n.first);
    CTS_OK(ddisp_tensor_as_strided(n.whole, 1, &three, NULL, cts_offset(n.whole) + at, &n.second));
    (void)cts_own(t, n.second);
    return n;
}

static void output_may_not_overlap_an_input(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *b = CTS_VECTOR(t, 0, 1, 1, 1);
    for (int64_t at = 0; at < 3; at++) {
        struct neighbours n = make(t, at, 0);
        CTS_REFUSED(t,
                    cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(n.first, b, n.second), NULL),
                    DDISP_STATUS_ALIASED, "mul", "'y'", "'a'");
    }
    struct neighbours n = make(t, 3, 0); /* side by side */
    CTS_FORWARD(kernel, n.first, b, n.second);
    CTS_VALUES(n.whole, 1, 2, 3, 1, 2, 3);
}

static void outputs_may_not_overlap_each_other(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_pair);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 1, 1);
    for (int64_t at = 0; at < 3; at++) {
        struct neighbours n = make(t, at, 0);
        CTS_REFUSED(t,
                    cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, n.first, n.second), NULL),
                    DDISP_STATUS_ALIASED, "pair", "'q'", "'p'");
    }
}

/* Even and odd elements of one buffer share no byte. */
static void interleaved_tensors_do_not_overlap(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *whole = CTS_VECTOR(t, 0, 1, 2, 3, 4, 5, 6), *even = NULL, *odd = NULL;
    int64_t three = 3, two = 2;
    CTS_OK(ddisp_tensor_as_strided(whole, 1, &three, &two, cts_offset(whole), &even));
    (void)cts_own(t, even);
    CTS_OK(ddisp_tensor_as_strided(whole, 1, &three, &two, cts_offset(whole) + 1, &odd));
    (void)cts_own(t, odd);
    ddisp_status status = cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(even, odd), NULL);
    if (status == DDISP_STATUS_OK)
        CTS_VALUES(whole, 1, 1, 3, 9, 5, 25);
    else /* the check may be careful, but then it says so */
        CTS_FAILS(status, DDISP_STATUS_ALIASED, "'y'");
}

static void inputs_may_overlap(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    struct neighbours n = make(t, 1, 0);
    ddisp_tensor *y = cts_vector(t, 3, 0, NULL);
    CTS_FORWARD(kernel, n.first, n.second, y);
    CTS_VALUES(y, 2, 6, 12);
}

/* Overlapping views of one leaf: their add slots overlap without being the same. */
static void overlapping_add_slots_are_refused_or_right(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    struct neighbours n = make(t, 1, CTS_GRAD);
    ddisp_tensor *y = cts_vector(t, 3, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    ddisp_status status = CTS_BACKWARD(kernel, NULL, n.first, n.second, y);
    if (status == DDISP_STATUS_OK)
        CTS_GRADIENT(n.whole, 2, 3, 3, 1, 0, 0);
    else
        CTS_FAILS(status, DDISP_STATUS_ALIASED, "linear", "'b'");
}

static void identical_add_slots_are_allowed(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, CTS_GRAD, 3, 4);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL), *g = CTS_VECTOR(t, 0, 0, 0);
    CTS_OK(ddisp_tensor_set_grad(a, g));
    CTS_OK(ddisp_tensor_set_grad(b, g));
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 10)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
    CTS_VALUES(g, 3, 30);
}

static void gradient_may_not_overlap_data_or_upstream(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, 0, 3, 4);
    ddisp_tensor *y = CTS_VECTOR(t, CTS_GRAD, 3, 8), *g = CTS_VECTOR(t, 0, 1, 1);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(ddisp_tensor_set_grad(a, g));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, NULL, a, b, y), DDISP_STATUS_ALIASED, "'a'", "'y'");
    CTS_OK(ddisp_tensor_set_grad(a, b));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, NULL, a, b, y), DDISP_STATUS_ALIASED, "'a'", "'b'");
    CTS_OK(ddisp_tensor_set_grad(a, NULL));
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
    CTS_GRADIENT(a, 3, 4);
}

static void case_11_overlapping_outputs(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    int64_t four = 4, zero = 0, rows[2] = {3, 2}, ones[2] = {1, 1}, one[2] = {3, 1},
            flat[2] = {1, 0};
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3, 4);
    ddisp_tensor *wide = cts_tensor(t, DDISP_DTYPE_F32, 2, rows, NULL, 0, NULL);
    ddisp_tensor *column =
        cts_tensor(t, DDISP_DTYPE_F32, 2, one, NULL, 0, (const float[]){1, 2, 3});
    ddisp_tensor *expanded = cts_tensor(t, DDISP_DTYPE_F32, 1, &four, &zero, 0, NULL);
    ddisp_tensor *overlapping = cts_tensor(t, DDISP_DTYPE_F32, 2, rows, ones, 0, NULL);
    ddisp_tensor *size_one = cts_tensor(t, DDISP_DTYPE_F32, 2, one, flat, 0, NULL);
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, expanded), NULL),
                DDISP_STATUS_ALIASED, "'y'");
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(wide, overlapping), NULL),
                DDISP_STATUS_ALIASED, "'y'");
    CTS_FORWARD(kernel, column, size_one); /* stride 0 on an axis of one element is legal */
    CTS_VALUES(size_one, 1, 4, 9);
}

/* The same kernel over 128, 200 and 7 elements. */
static void case_34_cached_kernel_with_another_shape(cts *t)
{
    static const int64_t sizes[] = {128, 200, 7};
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    for (int s = 0; s < 3; s++) {
        float a[200], b[200];
        double values[200];
        for (int i = 0; i < 200; i++) {
            a[i] = (float)i;
            b[i] = (float)(1000 * s);
        }
        ddisp_tensor *y = cts_vector(t, sizes[s], 0, NULL);
        CTS_FORWARD(kernel, cts_vector(t, sizes[s], 0, a), cts_vector(t, sizes[s], 0, b), y);
        cts_read(y, values, (size_t)sizes[s]);
        for (int i = 0; i < sizes[s]; i++)
            assert_true(values[i] == 2 * i + 1000 * s);
    }
}

const cts_test cts_alias_tests[] = {
    CTS_TEST(output_may_not_overlap_an_input),
    CTS_TEST(outputs_may_not_overlap_each_other),
    CTS_TEST(interleaved_tensors_do_not_overlap),
    CTS_TEST(inputs_may_overlap),
    CTS_TEST(overlapping_add_slots_are_refused_or_right),
    CTS_TEST(identical_add_slots_are_allowed),
    CTS_TEST(gradient_may_not_overlap_data_or_upstream),
    CTS_TEST(case_11_overlapping_outputs),
    CTS_TEST(case_34_cached_kernel_with_another_shape),
    CTS_END,
};
