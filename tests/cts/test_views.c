/*
 * test_views.c - views: of a tensor that requires a gradient (they share it), detached (they do
 * not), and tensors described in place by the caller, with explicit gradient addresses, as a
 * framework passes them.
 */
#include "cts.h"

/* Elements 1, 3, 5 of a tensor of 6. */
static ddisp_tensor *odd_elements(cts *t, ddisp_tensor *base)
{
    int64_t shape[1] = {3}, stride[1] = {2};
    ddisp_tensor *view = NULL;
    CTS_OK(ddisp_tensor_as_strided(base, 1, shape, stride, cts_offset(base) + 1, &view));
    return cts_own(t, view);
}

static void view_shares_the_gradient_of_its_base(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4, 5, 6);
    ddisp_tensor *view = odd_elements(t, base), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    CTS_STATE(view, DDISP_GRAD_STATE_EMPTY);
    CTS_FORWARD(kernel, view, y);
    CTS_VALUES(y, 4, 16, 36);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, view, y));
    CTS_GRADIENT(base, 0, 4, 0, 8, 0, 12); /* the whole base was filled first */
    CTS_GRADIENT(view, 4, 8, 12);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, view, y));
    CTS_GRADIENT(base, 0, 8, 0, 16, 0, 24);
}

static void view_of_a_view_shares_too(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    int64_t shape[1] = {2}, stride[1] = {-4};
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4, 5, 6), *view = NULL;
    ddisp_tensor *odd = odd_elements(t, base), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_as_strided(odd, 1, shape, stride, cts_offset(base) + 5, &view));
    (void)cts_own(t, view);
    CTS_FORWARD(kernel, view, y);
    CTS_VALUES(y, 36, 4);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 10)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, view, y));
    CTS_GRADIENT(base, 0, 40, 0, 0, 0, 12);
}

static void gradient_outlives_view_and_base(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *base = NULL, *view = NULL, *gradient = NULL;
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    int64_t n = 4, half = 2;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, CTS_GRAD, &base));
    CTS_OK(ddisp_tensor_write(base, (const float[]){1, 2, 3, 4}, 16, NULL));
    CTS_OK(ddisp_tensor_as_strided(base, 1, &half, NULL, 2, &view));
    ddisp_tensor_release(base); /* the view holds it */
    (void)cts_own(t, view);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, view, y));
    CTS_OK(ddisp_tensor_grad(view, &gradient));
    CTS_VALUES(cts_own(t, gradient), 6, 8);
}

/* An output that is a view gives away only its own elements of the gradient. */
static void output_view_takes_only_its_elements(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *g = CTS_VECTOR(t, 0, 1, 2, 3, 4, 5, 6);
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 0, 0, 0, 0, 0, 0);
    ddisp_tensor *y = odd_elements(t, base);
    CTS_OK(ddisp_tensor_set_grad(base, g));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(x, 4, 16, 36); /* 2 x g at 1, 3, 5 */
    CTS_GRADIENT(base, 1, 0, 3, 0, 5, 0);
    CTS_VALUES(g, 1, 2, 3, 4, 5, 6);          /* the caller's buffer is only read */
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y)); /* adds zeros */
    CTS_GRADIENT(x, 4, 16, 36);
}

static void detached_tensor_shares_memory_but_no_gradient(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *detached = NULL;
    ddisp_tensor *y = cts_vector(t, 3, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_detach(x, &detached));
    (void)cts_own(t, detached);
    CTS_NO_GRADIENT(detached);
    assert_int_equal(cts_address(detached), cts_address(x));
    CTS_FORWARD(kernel, x, detached, y);
    CTS_VALUES(y, 1, 4, 9);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, detached, y));
    CTS_GRADIENT(x, 1, 2, 3); /* through a alone: half of 2 x */
    CTS_NO_GRADIENT(detached);

    ddisp_tensor *view = NULL;
    int64_t n = 2;
    CTS_OK(ddisp_tensor_as_strided(detached, 1, &n, NULL, cts_offset(x), &view));
    CTS_NO_GRADIENT(cts_own(t, view));
    CTS_OK(ddisp_tensor_set_requires_grad(detached, 1)); /* its own from now on */
    CTS_STATE(detached, DDISP_GRAD_STATE_EMPTY);
    CTS_GRADIENT(x, 1, 2, 3);
}

/* ---- tensors described in place */

static ddisp_tensor_view described(ddisp_tensor *tensor, const int64_t *shape, uint64_t flags)
{
    ddisp_tensor_view view = DDISP_ZERO;
    view.size = (uint32_t)sizeof view;
    view.dtype = DDISP_DTYPE_F32;
    view.rank = 1;
    view.flags = flags;
    view.address = cts_address(tensor);
    view.shape = shape;
    return view;
}

static void described_tensors_need_no_handles(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    int64_t n = 3;
    ddisp_tensor *a = CTS_VECTOR(t, 0, 1, 2, 3), *b = CTS_VECTOR(t, 0, 4, 5, 6);
    ddisp_tensor *y = cts_vector(t, 3, 0, NULL), *g = CTS_VECTOR(t, 0, 1, 10, 100);
    ddisp_tensor *ga = CTS_VECTOR(t, 0, 1000, 1000, 1000);
    ddisp_tensor_view va = described(a, &n, DDISP_VIEW_REQUIRES_GRAD), vb = described(b, &n, 0),
                      vy = described(y, &n, DDISP_VIEW_REQUIRES_GRAD);
    ddisp_arg args[3] = {DDISP_ARG_VIEW(&va), DDISP_ARG_VIEW(&vb), DDISP_ARG_VIEW(&vy)};
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    options.device = t->device;
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, &options, NULL));
    CTS_VALUES(y, 4, 10, 18);
    args[0].grad_add = cts_address(ga);
    args[2].grad_read = cts_address(g);
    uint64_t allocations = cts_statistics(t).allocations;
    for (int i = 1; i <= 2; i++) { /* explicit addresses are never taken */
        CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
        CTS_VALUES(ga, 1000 + 4 * i, 1000 + 50 * i, 1000 + 600 * i);
        CTS_VALUES(g, 1, 10, 100);
    }
    options.flags = DDISP_LAUNCH_OVERWRITE;
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    CTS_VALUES(ga, 4, 50, 600);
    assert_int_equal(cts_statistics(t).allocations, allocations);
}

static void described_tensors_have_strides_and_gradient_strides(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    int64_t n = 3, minus_one = -1, two = 2, zero = 0;
    ddisp_tensor *a = CTS_VECTOR(t, 0, 1, 2, 3), *b = CTS_VECTOR(t, 0, 4, 5, 6);
    ddisp_tensor *y = cts_vector(t, 3, 0, NULL), *g = CTS_VECTOR(t, 0, 10);
    ddisp_tensor *ga = CTS_VECTOR(t, 0, 0, 0, 0, 0, 0);
    ddisp_tensor_view va = described(a, &n, DDISP_VIEW_REQUIRES_GRAD), vb = described(b, &n, 0),
                      vy = described(y, &n, DDISP_VIEW_REQUIRES_GRAD);
    va.address += 8; /* 3, 2, 1 */
    va.strides = &minus_one;
    va.grad_add_strides = &two;
    vy.grad_read_strides = &zero;
    ddisp_arg args[3] = {DDISP_ARG_VIEW(&va), DDISP_ARG_VIEW(&vb), DDISP_ARG_VIEW(&vy)};
    args[0].grad_add = cts_address(ga);
    args[2].grad_read = cts_address(g);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    options.device = t->device;
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, &options, NULL));
    CTS_VALUES(y, 12, 10, 6);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    CTS_VALUES(ga, 40, 0, 50, 0, 60);
}

/* Handles and addresses mix: an explicit address overrides the stored gradient, which stays. */
static void explicit_addresses_override_stored_gradients(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_tensor *gx = CTS_VECTOR(t, 0, 0, 0), *gy = CTS_VECTOR(t, 0, 3, 3);
    CTS_OK(ddisp_tensor_set_grad(x, CTS_VECTOR(t, 0, 7, 7)));
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 8, 8)));
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    args[0].grad_add = cts_address(gx);
    args[1].grad_read = cts_address(gy);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, NULL, NULL));
    CTS_VALUES(gx, 6, 12);
    CTS_GRADIENT(x, 7, 7);
    CTS_GRADIENT(y, 8, 8);
}

static void described_tensor_without_gradient_address_is_missing_one(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    int64_t n = 2;
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2), *y = CTS_VECTOR(t, 0, 0, 0);
    ddisp_tensor *g = CTS_VECTOR(t, 0, 1, 1);
    ddisp_tensor_view vx = described(x, &n, DDISP_VIEW_REQUIRES_GRAD), vy = described(y, &n, 0);
    ddisp_arg args[2] = {DDISP_ARG_VIEW(&vx), DDISP_ARG_VIEW(&vy)};
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    options.device = t->device;
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, &options, NULL),
                DDISP_STATUS_MISSING_GRADIENT, "'y'");
    args[1].grad_read = cts_address(g);
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, &options, NULL),
                DDISP_STATUS_MISSING_GRADIENT, "'x'");
}

const cts_test cts_view_tests[] = {
    CTS_TEST(view_shares_the_gradient_of_its_base),
    CTS_TEST(view_of_a_view_shares_too),
    CTS_TEST(gradient_outlives_view_and_base),
    CTS_TEST(output_view_takes_only_its_elements),
    CTS_TEST(detached_tensor_shares_memory_but_no_gradient),
    CTS_TEST(described_tensors_need_no_handles),
    CTS_TEST(described_tensors_have_strides_and_gradient_strides),
    CTS_TEST(explicit_addresses_override_stored_gradients),
    CTS_TEST(described_tensor_without_gradient_address_is_missing_one),
    CTS_END,
};
