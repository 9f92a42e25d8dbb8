/*
 * test_gradients.c - the gradients of inputs over several launches: they accumulate, are replaced
 * on request, are made once and in backward only, belong to the caller when the caller set them;
 * and the three states a gradient can be in.
 */
#include "cts.h"

/* y = x^2 with x = [1,2,3] and upstream 1: gradient [2,4,6]. */
struct square {
    ddisp_kernel *kernel;
    ddisp_tensor *x, *y, *ones;
};

static struct square make_square(cts *t)
{
    struct square s = {cts_kernel(t, &cts_square), CTS_VECTOR(t, CTS_GRAD, 1, 2, 3),
                       cts_vector(t, 3, CTS_GRAD, NULL), CTS_VECTOR(t, 0, 1, 1, 1)};
    CTS_FORWARD(s.kernel, s.x, s.y);
    CTS_VALUES(s.y, 1, 4, 9);
    return s;
}

static void backward(struct square *s, uint64_t flags)
{
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, flags, NULL);
    CTS_OK(ddisp_tensor_set_grad(s->y, s->ones));
    CTS_OK(CTS_BACKWARD(s->kernel, &options, s->x, s->y));
}

static void gradients_accumulate_over_backwards(cts *t)
{
    struct square s = make_square(t);
    for (int i = 1; i <= 3; i++) {
        backward(&s, 0);
        CTS_GRADIENT(s.x, 2 * i, 4 * i, 6 * i);
    }
}

static void gradient_is_made_once(cts *t)
{
    struct square s = make_square(t);
    ddisp_device_statistics before = cts_statistics(t);
    backward(&s, 0);
    ddisp_device_statistics first = cts_statistics(t);
    assert_int_equal(first.allocations, before.allocations + 1);
    assert_int_equal(first.gradient_bytes_live, before.gradient_bytes_live + 12);
    backward(&s, 0);
    assert_int_equal(cts_statistics(t).allocations, first.allocations);
}

/* Fresh memory is full of what was there before: a gradient that is made must be filled. */
static void made_gradient_starts_from_zero(cts *t)
{
    enum { N = 4096 };
    int64_t n = N;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    float ones[N];
    double values[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ddisp_tensor *x = cts_vector(t, n, CTS_GRAD, ones), *y = cts_vector(t, n, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_vector(t, n, 0, ones);
    for (int round = 0; round < 8; round++) {
        ddisp_tensor *dirt = NULL; /* gives back memory full of 1 */
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &dirt));
        ddisp_status status = ddisp_tensor_write(dirt, ones, sizeof ones, NULL);
        ddisp_tensor_release(dirt);
        CTS_OK(status);
        CTS_OK(ddisp_tensor_clear_grad(x));
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
        ddisp_tensor *gradient = NULL;
        CTS_OK(ddisp_tensor_grad(x, &gradient));
        cts_read(cts_own(t, gradient), values, N);
        for (int i = 0; i < N; i++)
            CTS_CHECK(values[i] == 2, "round %d: element %d is %g instead of 2", round, i,
                      values[i]);
    }
}

static void overwrite_replaces(cts *t)
{
    struct square s = make_square(t);
    backward(&s, 0);
    backward(&s, DDISP_LAUNCH_OVERWRITE);
    CTS_GRADIENT(s.x, 2, 4, 6);
    backward(&s, DDISP_LAUNCH_OVERWRITE);
    CTS_GRADIENT(s.x, 2, 4, 6);
    backward(&s, 0);
    CTS_GRADIENT(s.x, 4, 8, 12);
}

static void gradient_set_by_the_caller_is_added_to_in_place(cts *t)
{
    struct square s = make_square(t);
    ddisp_tensor *own = CTS_VECTOR(t, 0, 10, 10, 10);
    CTS_OK(ddisp_tensor_set_grad(s.x, own));
    uint64_t allocations = cts_statistics(t).allocations;
    backward(&s, 0);
    CTS_GRADIENT(s.x, 12, 14, 16);
    CTS_VALUES(own, 12, 14, 16);
    assert_int_equal(cts_statistics(t).allocations, allocations);

    backward(&s, DDISP_LAUNCH_OVERWRITE);
    CTS_GRADIENT(s.x, 2, 4, 6);
}

static void gradient_may_be_strided(cts *t)
{
    struct square s = make_square(t);
    int64_t shape[1] = {3}, reversed[1] = {-2};
    ddisp_tensor *own =
        cts_tensor(t, DDISP_DTYPE_F32, 1, shape, reversed, 0, (const float[]){10, 20, 30});
    CTS_OK(ddisp_tensor_set_grad(s.x, own));
    backward(&s, 0);
    CTS_VALUES(own, 12, 24, 36);
}

static void clear_makes_the_gradient_empty(cts *t)
{
    struct square s = make_square(t);
    backward(&s, 0);
    CTS_STATE(s.x, DDISP_GRAD_STATE_PRESENT);
    CTS_OK(ddisp_tensor_clear_grad(s.x));
    CTS_STATE(s.x, DDISP_GRAD_STATE_EMPTY);
    assert_int_equal(cts_statistics(t).gradient_bytes_live, 0);
    backward(&s, 0);
    CTS_GRADIENT(s.x, 2, 4, 6);
    CTS_OK(ddisp_tensor_set_grad(s.x, NULL));
    CTS_STATE(s.x, DDISP_GRAD_STATE_EMPTY);
}

static void states_are_none_empty_present(cts *t)
{
    ddisp_tensor *frozen = CTS_VECTOR(t, 0, 1, 2), *leaf = CTS_VECTOR(t, CTS_GRAD, 1, 2);
    CTS_NO_GRADIENT(frozen);
    CTS_STATE(leaf, DDISP_GRAD_STATE_EMPTY);
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_grad(leaf, &gradient)); /* asked for: made, zero-filled */
    (void)cts_own(t, gradient);
    CTS_STATE(leaf, DDISP_GRAD_STATE_PRESENT);
    CTS_GRADIENT(leaf, 0, 0);
    CTS_NO_GRADIENT(gradient); /* gradients have no gradients */
    CTS_FAILS(ddisp_tensor_set_grad(frozen, leaf), DDISP_STATUS_NO_GRADIENT, "gradient");
    CTS_FAILS(ddisp_tensor_clear_grad(frozen), DDISP_STATUS_NO_GRADIENT, "gradient");
    CTS_NO_GRADIENT(frozen);
}

/* The gradient tensor shows the stored one: it sees later launches, and can be written. */
static void gradient_tensor_shares_memory(cts *t)
{
    struct square s = make_square(t);
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_grad(s.x, &gradient));
    (void)cts_own(t, gradient);
    backward(&s, 0);
    CTS_VALUES(gradient, 2, 4, 6);
    CTS_OK(ddisp_tensor_write(gradient, (const float[]){1, 1, 1}, 12, NULL));
    backward(&s, 0);
    CTS_GRADIENT(s.x, 3, 5, 7);
    CTS_OK(ddisp_tensor_clear_grad(s.x)); /* what was handed out stays valid */
    CTS_VALUES(gradient, 3, 5, 7);
}

static void switching_requires_grad(cts *t)
{
    struct square s = make_square(t);
    backward(&s, 0);
    CTS_OK(ddisp_tensor_set_requires_grad(s.x, 0));
    CTS_NO_GRADIENT(s.x);
    assert_int_equal(cts_statistics(t).gradient_bytes_live, 0);
    CTS_OK(ddisp_tensor_set_grad(s.y, s.ones));
    uint64_t launches = cts_statistics(t).launches;
    CTS_OK(CTS_BACKWARD(s.kernel, NULL, s.x, s.y));
    assert_int_equal(cts_statistics(t).launches, launches);
    CTS_NO_GRADIENT(s.x);
    CTS_OK(ddisp_tensor_set_requires_grad(s.x, 1));
    CTS_STATE(s.x, DDISP_GRAD_STATE_EMPTY);
    backward(&s, 0);
    CTS_GRADIENT(s.x, 2, 4, 6); /* fresh, nothing carried over */
}

static void forward_allocates_no_gradient(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, CTS_GRAD, 3, 4);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_device_statistics before = cts_statistics(t);
    CTS_FORWARD(kernel, a, b, y);
    ddisp_device_statistics after = cts_statistics(t);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.fills, before.fills);
    assert_int_equal(after.launches, before.launches + 1);
    CTS_STATE(a, DDISP_GRAD_STATE_EMPTY);
    CTS_STATE(b, DDISP_GRAD_STATE_EMPTY);
    CTS_STATE(y, DDISP_GRAD_STATE_EMPTY);
    CTS_VALUES(y, 3, 8);
}

static void same_tensor_twice_adds_twice(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *y = cts_vector(t, 3, CTS_GRAD, NULL);
    CTS_FORWARD(kernel, x, x, y);
    CTS_VALUES(y, 1, 4, 9);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, x, y));
    CTS_GRADIENT(x, 2, 4, 6);
}

/* Many items add into one cell: only atomic adds give the sum. */
static void contended_adds_give_the_sum(cts *t)
{
    enum { N = 20000 };
    static float rows[3 * N], ones[N];
    for (int i = 0; i < N; i++) {
        rows[3 * i] = ones[i] = 1;
        rows[3 * i + 1] = rows[3 * i + 2] = -7;
    }
    ddisp_kernel *kernel = cts_kernel(t, &cts_component);
    ddisp_tensor *v = cts_tensor(t, DDISP_DTYPE_F32, 2, (const int64_t[]){N, 3}, NULL, 0, rows);
    ddisp_tensor *s = CTS_VECTOR(t, CTS_GRAD, 1), *y = cts_vector(t, N, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_vector(t, N, 0, ones);
    for (int round = 1; round <= 3; round++) {
        CTS_OK(ddisp_tensor_set_grad(y, g));
        CTS_OK(CTS_BACKWARD(kernel, NULL, v, s, y));
        CTS_GRADIENT(s, round * N);
    }
}

static void half_input_has_a_single_gradient(cts *t)
{
    static const uint16_t halves[4] = {0x3c00, 0x4000, 0x4200, 0xc500}; /* 1 2 3 -5 */
    int64_t n = 4;
    ddisp_kernel *kernel = cts_kernel(t, &cts_half);
    ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_F16, 1, &n, NULL, CTS_GRAD, halves);
    ddisp_tensor *y = cts_vector(t, n, CTS_GRAD, NULL), *gradient = NULL;
    CTS_FORWARD(kernel, x, y);
    CTS_VALUES(y, 2, 4, 6, -10);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 2, 3, 4)));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(x, 2, 4, 6, 8);
    CTS_OK(ddisp_tensor_grad(x, &gradient));
    assert_int_equal(cts_tensor_info(cts_own(t, gradient)).dtype, DDISP_DTYPE_F32);
}

static void double_output_has_a_double_upstream(cts *t)
{
    int64_t n = 3;
    ddisp_kernel *kernel = cts_kernel(t, &cts_widen);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1.5, 2.5, -3.5);
    ddisp_tensor *y = cts_tensor(t, DDISP_DTYPE_F64, 1, &n, NULL, CTS_GRAD, NULL);
    ddisp_tensor *g = cts_tensor(t, DDISP_DTYPE_F64, 1, &n, NULL, 0, (const double[]){0.25, 4, -8});
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    ddisp_status status = cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options);
    if (status == DDISP_STATUS_NO_CODE && strcmp(t->info.backend, "vulkan") == 0)
        CTS_SKIP(t, "the device has no 64-bit floats in shaders");
    CTS_OK(status);
    CTS_VALUES(y, 1.5, 2.5, -3.5);
    CTS_OK(ddisp_tensor_set_grad(y, g));
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, y));
    CTS_GRADIENT(x, 0.25, 4, -8);
}

const cts_test cts_gradient_tests[] = {
    CTS_TEST(gradients_accumulate_over_backwards),
    CTS_TEST(gradient_is_made_once),
    CTS_TEST(made_gradient_starts_from_zero),
    CTS_TEST(overwrite_replaces),
    CTS_TEST(gradient_set_by_the_caller_is_added_to_in_place),
    CTS_TEST(gradient_may_be_strided),
    CTS_TEST(clear_makes_the_gradient_empty),
    CTS_TEST(states_are_none_empty_present),
    CTS_TEST(gradient_tensor_shares_memory),
    CTS_TEST(switching_requires_grad),
    CTS_TEST(forward_allocates_no_gradient),
    CTS_TEST(same_tensor_twice_adds_twice),
    CTS_TEST(contended_adds_give_the_sum),
    CTS_TEST(half_input_has_a_single_gradient),
    CTS_TEST(double_output_has_a_double_upstream),
    CTS_END,
};
