/*
 * test_cases.c - public bug reports of this field, each as a small test named after its number in
 * the project's list: what is put in, and what is right. Others are in the room that they belong
 * to.
 */
#include "cts.h"

/* Case 2: an update of one component wrote through the null gradient of a frozen input. */
static void case_02_component_of_a_frozen_input(cts *t)
{
    static const float ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int64_t shape[2] = {4, 3};
    ddisp_kernel *kernel = cts_kernel(t, &cts_component), *after = cts_kernel(t, &cts_square);
    for (int frozen = 0; frozen < 2; frozen++) {
        ddisp_tensor *v =
            cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, frozen == 0 ? 0 : CTS_GRAD, ones);
        ddisp_tensor *s = CTS_VECTOR(t, frozen == 0 ? CTS_GRAD : 0, 1);
        ddisp_tensor *y = cts_vector(t, 4, CTS_GRAD, NULL), *z = cts_vector(t, 4, 0, NULL);
        CTS_FORWARD(kernel, v, s, y);
        CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1, 1)));
        CTS_OK(CTS_BACKWARD(kernel, NULL, v, s, y));
        if (frozen == 0) {
            CTS_GRADIENT(s, 4);
            CTS_NO_GRADIENT(v);
        } else {
            CTS_GRADIENT(v, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0);
            CTS_NO_GRADIENT(s);
        }
        CTS_FORWARD(after, y, z); /* a trivial launch still succeeds */
        CTS_VALUES(z, 1, 1, 1, 1);
    }
}

/* Case 3: switching requires_grad off freed a gradient that a struct still pointed to. */
static void case_03_switching_off_in_an_argument_list(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4), *b = CTS_VECTOR(t, CTS_GRAD, 5, 6, 7, 8);
    ddisp_tensor *y = cts_vector(t, 4, CTS_GRAD, NULL), *g = CTS_VECTOR(t, 0, 1, 1, 1, 1);
    ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    CTS_OK(ddisp_tensor_set_requires_grad(a, 0));
    ddisp_tensor *sevens = NULL; /* likely where the gradient of a was */
    int64_t n = 4;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &sevens));
    (void)cts_own(t, sevens);
    CTS_OK(ddisp_tensor_write(sevens, (const float[]){7, 7, 7, 7}, 16, NULL));
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    CTS_VALUES(sevens, 7, 7, 7, 7);
    CTS_GRADIENT(b, 2, 4, 6, 8);
    CTS_NO_GRADIENT(a);
    CTS_OK(ddisp_tensor_set_requires_grad(a, 1)); /* off and on: fresh, from zero */
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    CTS_GRADIENT(a, 5, 6, 7, 8);
    CTS_GRADIENT(b, 3, 6, 9, 12);
}

/* Case 4: code looked at argument 0 only; nothing that requires a gradient crashed. */
static void case_04_first_argument_frozen(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *a = CTS_VECTOR(t, 0, 3), *b = CTS_VECTOR(t, CTS_GRAD, 5), *gradient = a;
    ddisp_tensor *frozen = CTS_VECTOR(t, 0, 5), *y = cts_vector(t, 1, CTS_GRAD, NULL);
    CTS_FORWARD(kernel, a, b, y);
    CTS_VALUES(y, 15);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
    CTS_GRADIENT(b, 3);
    CTS_FAILS(ddisp_tensor_grad(a, &gradient), DDISP_STATUS_NO_GRADIENT, "gradient");
    assert_null(gradient);

    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1)));
    ddisp_device_statistics before = cts_statistics(t);
    CTS_OK(CTS_BACKWARD(kernel, NULL, a, frozen, y));
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.launches, before.launches);
}

/* Case 5: absent, empty and zero gradients are three things. */
static void case_05_absent_empty_zero(cts *t)
{
    ddisp_kernel *mul = cts_kernel(t, &cts_mul), *component = cts_kernel(t, &cts_component);
    ddisp_tensor *absent = CTS_VECTOR(t, 0, 1, 2), *other = CTS_VECTOR(t, CTS_GRAD, 1, 2);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(mul, NULL, absent, other, y));
    CTS_NO_GRADIENT(absent);

    int64_t shape[2] = {0, 3};
    ddisp_tensor *nothing = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, CTS_GRAD, NULL);
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_grad(nothing, &gradient));
    ddisp_tensor_info info = cts_tensor_info(cts_own(t, gradient));
    assert_int_equal(info.numel, 0);
    assert_int_equal(info.shape[1], 3);
    CTS_STATE(nothing, DDISP_GRAD_STATE_PRESENT);

    /* Components 1 and 2 are never touched by the kernel: exactly zero, not what was there. */
    shape[0] = 2;
    ddisp_tensor *v =
        cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, CTS_GRAD, (const float[]){1, 2, 3, 4, 5, 6});
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(component, NULL, v, CTS_VECTOR(t, 0, 10), y));
    CTS_GRADIENT(v, 10, 0, 0, 10, 0, 0);
}

/* Case 6: gradients twice as large, or left from before. */
static void case_06_accumulate_and_overwrite(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_tensor *ones = CTS_VECTOR(t, 0, 1, 1, 1), *own = CTS_VECTOR(t, 0, 0, 0, 0);
    ddisp_launch_options keep = cts_options(0, DDISP_LAUNCH_KEEP_UPSTREAM, NULL);
    ddisp_launch_options overwrite =
        cts_options(0, DDISP_LAUNCH_KEEP_UPSTREAM | DDISP_LAUNCH_OVERWRITE, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, ones));
    CTS_OK(ddisp_tensor_set_grad(x, own));
    CTS_OK(CTS_BACKWARD(kernel, &keep, x, y));
    CTS_VALUES(own, 2, 4, 6);
    CTS_OK(CTS_BACKWARD(kernel, &keep, x, y));
    CTS_VALUES(own, 4, 8, 12);
    CTS_OK(CTS_BACKWARD(kernel, &overwrite, x, y));
    CTS_GRADIENT(x, 2, 4, 6);
    CTS_OK(CTS_BACKWARD(kernel, &overwrite, x, y));
    CTS_GRADIENT(x, 2, 4, 6);
    CTS_OK(ddisp_tensor_set_grad(x, CTS_VECTOR(t, 0, 10, 10, 10)));
    CTS_OK(CTS_BACKWARD(kernel, &keep, x, y));
    CTS_GRADIENT(x, 12, 14, 16);
}

/* Case 7: the number of elements changes; nothing of the old size may be left. */
static void case_07_size_changes(cts *t)
{
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const int64_t sizes[] = {8, 4, 16};
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    for (int s = 0; s < 3; s++) {
        double values[16];
        ddisp_tensor *x = cts_vector(t, sizes[s], CTS_GRAD, ones), *gradient = NULL;
        ddisp_tensor *y = cts_vector(t, sizes[s], CTS_GRAD, NULL);
        CTS_OK(ddisp_tensor_set_grad(y, cts_vector(t, sizes[s], 0, ones)));
        CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
        CTS_OK(ddisp_tensor_grad(x, &gradient));
        assert_int_equal(cts_tensor_info(cts_own(t, gradient)).numel, sizes[s]);
        cts_read(gradient, values, (size_t)sizes[s]);
        for (int i = 0; i < sizes[s]; i++)
            assert_true(values[i] == 2);
    }
}

/* Case 15: strides of axes of size 1 mean nothing, and are given back as they came. */
static void case_15_strides_of_size_one_axes(cts *t)
{
    static const int64_t shape[5] = {1, 3, 1, 4, 1};
    static const int64_t strides[3][5] = {{0, 4, 0, 1, 0}, {12, 4, 4, 1, 1}, {99, 4, 77, 1, 55}};
    ddisp_kernel *kernel = cts_kernel_with(t, &cts_square, 0, NULL); /* takes dense alone */
    ddisp_report *report = cts_report(t);
    ddisp_report_info first = DDISP_ZERO;
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    for (int s = 0; s < 3; s++) {
        ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_F32, 5, shape, strides[s], CTS_GRAD, data);
        ddisp_tensor *y = cts_tensor(t, DDISP_DTYPE_F32, 5, shape, strides[s], 0, NULL);
        ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
        ddisp_tensor_info info = cts_tensor_info(x);
        assert_memory_equal(info.strides, strides[s], sizeof strides[s]);
        CTS_OK(cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options));
        CTS_VALUES(y, 0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121);
        ddisp_report_info now = cts_report_info(report);
        if (s == 0)
            first = now;
        assert_memory_equal(now.signature, first.signature, 16);
    }
}

/* Cases 17 and 18: nothing to compute is no error, and leaves none behind. */
static void case_17_no_elements(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *empty = NULL;
    int64_t zero = 0;
    CTS_OK(ddisp_buffer_create(t->device, 0, &buffer));
    assert_int_equal(ddisp_buffer_size(buffer), 0);
    ddisp_status write = ddisp_buffer_write(buffer, 0, "", 0, NULL);
    ddisp_buffer_release(buffer);
    CTS_OK(write);
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &zero, CTS_GRAD, &empty));
    (void)cts_own(t, empty);
    CTS_OK(ddisp_tensor_write(empty, "", 0, NULL));
    CTS_OK(ddisp_tensor_read(empty, NULL, 0, NULL));
    ddisp_tensor *b = cts_vector(t, 0, 0, NULL), *y = cts_vector(t, 0, CTS_GRAD, NULL);
    uint64_t launches = cts_statistics(t).launches;
    CTS_OK(cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(empty, b, y), &options));
    assert_int_equal(cts_report_info(report).skip, DDISP_SKIP_NO_ITEMS);
    CTS_OK(ddisp_tensor_set_grad(y, cts_vector(t, 0, 0, NULL)));
    CTS_OK(CTS_BACKWARD(kernel, &options, empty, b, y));
    assert_int_equal(cts_report_info(report).skip, DDISP_SKIP_NO_ITEMS);
    assert_int_equal(cts_statistics(t).launches, launches);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_status(t->device));

    ddisp_tensor *full = CTS_VECTOR(t, 0, 2, 3), *z = cts_vector(t, 2, 0, NULL);
    CTS_FORWARD(kernel, full, full, z);
    CTS_VALUES(z, 4, 9);
}

static void case_18_shape_of_an_empty_gradient(cts *t)
{
    int64_t shape[3] = {0, 16, 3};
    ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_F32, 3, shape, NULL, CTS_GRAD, NULL);
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_grad(x, &gradient));
    ddisp_tensor_info info = cts_tensor_info(cts_own(t, gradient));
    assert_int_equal(info.rank, 3);
    assert_memory_equal(info.shape, shape, sizeof shape);
    assert_int_equal(info.numel, 0);
    assert_int_equal(info.address, 0);
}

/* Case 19: no dimensions, no strides. */
static void case_19_rank_zero_and_null_strides(cts *t)
{
    static const float three = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_F32, 0, NULL, NULL, CTS_GRAD, &three);
    ddisp_tensor *y = cts_tensor(t, DDISP_DTYPE_F32, 0, NULL, NULL, CTS_GRAD, NULL);
    assert_int_equal(cts_tensor_info(x).numel, 1);
    CTS_FORWARD(kernel, x, y);
    CTS_VALUES(y, 9);
    CTS_OK(ddisp_tensor_set_grad(
        y, cts_tensor(t, DDISP_DTYPE_F32, 0, NULL, NULL, 0, (const float[]){1})));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(x, 6);
    int64_t shape[2] = {2, 3};
    ddisp_tensor_info info =
        cts_tensor_info(cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, 0, NULL));
    assert_int_equal(info.strides[0], 3);
    assert_int_equal(info.strides[1], 1);
}

/* Case 26: an integer argument in a differentiable function; it has no gradient and needs none. */
static void case_26_integer_argument(cts *t)
{
    int64_t n = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_index);
    ddisp_tensor *v = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3);
    ddisp_tensor *i = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, (const int32_t[]){1, 2, 3});
    ddisp_tensor *y = cts_vector(t, 3, CTS_GRAD, NULL);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_REJECT, 0, report);
    CTS_FORWARD(kernel, v, i, y);
    CTS_VALUES(y, 1, 4, 9);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, &options, v, i, y)); /* not frozen: it has no slot */
    CTS_GRADIENT(v, 1, 2, 3);
    CTS_NO_GRADIENT(i);
    assert_int_equal(cts_report_info(report).slot_count, 2);
}

/* Case 27: two kernels of one name, queued back to back, are two kernels. */
static void case_27_same_name_other_code(cts *t)
{
    cts_source renamed = cts_square;
    renamed.name = "mul";
    ddisp_kernel *a = cts_kernel(t, &cts_mul), *b = cts_kernel(t, &renamed);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 5), *ten = CTS_VECTOR(t, 0, 10);
    ddisp_tensor *y = cts_vector(t, 1, 0, NULL), *z = cts_vector(t, 1, 0, NULL);
    for (int i = 0; i < 100; i++) {
        CTS_FORWARD(a, x, ten, y);
        CTS_FORWARD(b, x, z);
    }
    CTS_VALUES(y, 50);
    CTS_VALUES(z, 25);
}

const cts_test cts_case_tests[] = {
    CTS_TEST(case_02_component_of_a_frozen_input),
    CTS_TEST(case_03_switching_off_in_an_argument_list),
    CTS_TEST(case_04_first_argument_frozen),
    CTS_TEST(case_05_absent_empty_zero),
    CTS_TEST(case_06_accumulate_and_overwrite),
    CTS_TEST(case_07_size_changes),
    CTS_TEST(case_15_strides_of_size_one_axes),
    CTS_TEST(case_17_no_elements),
    CTS_TEST(case_18_shape_of_an_empty_gradient),
    CTS_TEST(case_19_rank_zero_and_null_strides),
    CTS_TEST(case_26_integer_argument),
    CTS_TEST(case_27_same_name_other_code),
    CTS_END,
};
