/*
 * test_bad_launches.c - launches that ask for what cannot be: wrong counts, kinds, dtypes, ranks,
 * sizes, devices, flags and layouts. Each gives its status and names the parameter with the
 * numbers; nothing is made, launched or taken.
 */
#include "cts.h"

struct launch {
    ddisp_kernel *kernel;
    ddisp_arg args[3];
    ddisp_launch_options options;
};

/* y = a b, ready to run backward. */
static struct launch make(cts *t)
{
    ddisp_tensor *y = CTS_VECTOR(t, CTS_GRAD, 7, 7, 7);
    struct launch l = {.kernel = cts_kernel(t, &cts_mul),
                       .args = {DDISP_ARG(CTS_VECTOR(t, CTS_GRAD, 1, 2, 3)),
                                DDISP_ARG(CTS_VECTOR(t, 0, 1, 2, 3)), DDISP_ARG(y)}};
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1)));
    l.options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    return l;
}

static ddisp_status run(struct launch *l, ddisp_mode mode)
{
    return ddisp_launch(l->kernel, mode, l->args, 3, &l->options, NULL);
}

/* Both modes refuse, and nothing has changed; then, put right, both work. */
#define BOTH_REFUSE(t, l, status, ...)                                                             \
    do {                                                                                           \
        CTS_REFUSED(t, run(l, DDISP_MODE_FORWARD), status, __VA_ARGS__);                           \
        CTS_REFUSED(t, run(l, DDISP_MODE_BACKWARD), status, __VA_ARGS__);                          \
    } while (0)

static void argument_count_is_checked(cts *t)
{
    struct launch l = make(t);
    CTS_REFUSED(t, ddisp_launch(l.kernel, DDISP_MODE_BACKWARD, l.args, 2, &l.options, NULL),
                DDISP_STATUS_INVALID_ARGUMENT, "mul", "2", "3");
    ddisp_arg more[4] = {l.args[0], l.args[1], l.args[2], l.args[2]};
    CTS_REFUSED(t, ddisp_launch(l.kernel, DDISP_MODE_BACKWARD, more, 4, &l.options, NULL),
                DDISP_STATUS_INVALID_ARGUMENT, "mul", "4", "3");
    CTS_REFUSED(t, ddisp_launch(l.kernel, DDISP_MODE_BACKWARD, NULL, 3, &l.options, NULL),
                DDISP_STATUS_INVALID_ARGUMENT, "args");
    CTS_REFUSED(t, ddisp_launch(NULL, DDISP_MODE_BACKWARD, l.args, 3, &l.options, NULL),
                DDISP_STATUS_INVALID_ARGUMENT, "kernel");
}

static void unknown_values_are_refused(cts *t)
{
    struct launch l = make(t);
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    CTS_REFUSED(t, run(&l, 0), bad, "mode", "0");
    CTS_REFUSED(t, run(&l, 7), bad, "mode", "7");
    l.options.policy = 99;
    BOTH_REFUSE(t, &l, bad, "policy", "99");
    l.options.policy = DDISP_POLICY_AUTO;
    l.args[1].policy = 99;
    BOTH_REFUSE(t, &l, bad, "'b'", "policy", "99");
    l.args[1].policy = DDISP_POLICY_DEFAULT;
    l.options.flags = UINT64_C(1) << 50;
    BOTH_REFUSE(t, &l, bad, "flags");
    l.options.flags = 0;
    l.args[0].flags = 1;
    BOTH_REFUSE(t, &l, bad, "'a'", "flags");
    l.args[0].flags = 0;
    l.args[0].reserved = 1;
    BOTH_REFUSE(t, &l, bad, "'a'");
    l.args[0].reserved = 0;
    l.options.reserved = 1;
    BOTH_REFUSE(t, &l, bad, "reserved");
    l.options.reserved = 0;
    ddisp_chain chain = {(uint32_t)sizeof chain, 77, NULL};
    l.options.next = &chain;
    BOTH_REFUSE(t, &l, bad, "next", "77");
    l.options.next = NULL;
    CTS_OK(run(&l, DDISP_MODE_BACKWARD));
    CTS_GRADIENT(l.args[0].tensor, 1, 2, 3);
}

static void argument_is_one_of_tensor_view_scalar(cts *t)
{
    struct launch l = make(t);
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    ddisp_tensor *b = l.args[1].tensor;
    ddisp_tensor_view view = DDISP_ZERO;
    float k = 1;
    view.size = (uint32_t)sizeof view;
    l.args[1].tensor = NULL;
    BOTH_REFUSE(t, &l, bad, "'b'", "NULL");
    l.args[1].scalar = &k;
    l.args[1].scalar_size = 4;
    BOTH_REFUSE(t, &l, bad, "'b'", "scalar");
    l.args[1].tensor = b;
    BOTH_REFUSE(t, &l, bad, "'b'", "scalar");
    l.args[1].scalar = NULL;
    l.args[1].scalar_size = 0;
    l.args[1].view = &view;
    BOTH_REFUSE(t, &l, bad, "'b'", "view");
}

static void dtype_and_rank_are_those_declared(cts *t)
{
    struct launch l = make(t);
    int64_t n = 3, shape[2] = {1, 3};
    ddisp_tensor *b = l.args[1].tensor;
    l.args[1].tensor = cts_tensor(t, DDISP_DTYPE_F64, 1, &n, NULL, 0, NULL);
    BOTH_REFUSE(t, &l, DDISP_STATUS_DTYPE_MISMATCH, "mul", "'b'", "f64[3]", "f32");
    l.args[1].tensor = b;

    ddisp_kernel *component = cts_kernel(t, &cts_component);
    ddisp_tensor *v = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3);
    ddisp_tensor *s = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, 0, NULL);
    ddisp_tensor *y = cts_vector(t, 1, CTS_GRAD, NULL);
    CTS_REFUSED(t, CTS_BACKWARD(component, NULL, v, s, y), DDISP_STATUS_RANK_MISMATCH, "component",
                "'v'", "f32[3]", "2");
    v = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, CTS_GRAD, NULL);
    CTS_REFUSED(t, CTS_BACKWARD(component, NULL, v, s, y), DDISP_STATUS_RANK_MISMATCH, "'s'",
                "f32[1,3]", "1");
}

static void scalars_have_the_size_of_their_dtype(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_scale);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = cts_vector(t, 2, CTS_GRAD, NULL);
    float k = 2;
    double wide = 2;
    ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG_SCALAR(&wide), DDISP_ARG(y)};
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL), bad, "'k'", "8",
                "4");
    args[1] = (ddisp_arg)DDISP_ARG(x);
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL), bad, "'k'",
                "scalar");
    args[1] = (ddisp_arg){.scalar_size = 4};
    CTS_REFUSED(t, ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL), bad, "'k'",
                "NULL");
    args[1] = (ddisp_arg)DDISP_ARG_SCALAR(&k);
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    CTS_VALUES(y, 2, 4);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 10)));
    k = -3; /* copied at each launch */
    CTS_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    CTS_GRADIENT(x, -3, -30);
}

/* A device of another context is another device, even if it is the same hardware. */
static void objects_of_another_device_are_refused(cts *t)
{
    struct launch l = make(t);
    ddisp_context *context = NULL;
    ddisp_device *device = NULL;
    ddisp_tensor *foreign = NULL;
    ddisp_stream *stream = NULL;
    int64_t n = 3;
    CTS_OK(ddisp_context_create(NULL, &context));
    ddisp_status status = ddisp_device_open(context, t->info.spec, &device);
    if (!status)
        status = ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &foreign);
    if (!status)
        status = ddisp_stream_create(device, 0, &stream);
    ddisp_device_release(device); /* the tensor holds it */
    ddisp_context_release(context);
    (void)cts_own(t, foreign);
    CTS_OK(status);
    ddisp_tensor *b = l.args[1].tensor;
    l.args[1].tensor = foreign;
    BOTH_REFUSE(t, &l, DDISP_STATUS_DEVICE_MISMATCH, "'b'");
    l.args[1].tensor = b;
    CTS_REFUSED(t, ddisp_launch(l.kernel, DDISP_MODE_BACKWARD, l.args, 3, NULL, stream),
                DDISP_STATUS_DEVICE_MISMATCH, "");
    CTS_REFUSED(t, ddisp_tensor_write(b, (const float[]){1, 2, 3}, 12, stream),
                DDISP_STATUS_DEVICE_MISMATCH, "stream");
    CTS_REFUSED(t, ddisp_tensor_set_grad(l.args[0].tensor, foreign), DDISP_STATUS_DEVICE_MISMATCH,
                "grad");
    ddisp_stream_release(stream);
}

static void kernel_without_code_for_the_device_is_refused(cts *t)
{
    struct launch l = make(t);
    ddisp_code codes[8];
    uint32_t count = 0;
    for (uint32_t i = 0; i < cts_mul.code_count; i++)
        if (strcmp(cts_mul.codes[i].backend, t->info.backend) != 0)
            codes[count++] = cts_mul.codes[i];
    cts_source others = cts_mul;
    others.codes = codes;
    others.code_count = count;
    l.kernel = cts_kernel(t, &others);
    BOTH_REFUSE(t, &l, DDISP_STATUS_NO_CODE, "mul", t->info.backend);
}

/* Only forward: backward has no code, and says which mode it wants. */
static void kernel_without_code_for_the_mode_is_refused(cts *t)
{
    struct launch l = make(t);
    ddisp_code codes[8];
    for (uint32_t i = 0; i < cts_mul.code_count; i++) {
        codes[i] = cts_mul.codes[i];
        if (codes[i].entries[0].mode == DDISP_MODE_FORWARD)
            codes[i].entry_count = 1;
    }
    cts_source forward = cts_mul;
    uint32_t count = 0; /* modules that serve only backward go */
    for (uint32_t i = 0; i < cts_mul.code_count; i++)
        if (codes[i].entries[0].mode == DDISP_MODE_FORWARD)
            codes[count++] = codes[i];
    forward.codes = codes;
    forward.code_count = count;
    l.kernel = cts_kernel(t, &forward);
    CTS_OK(run(&l, DDISP_MODE_FORWARD));
    CTS_REFUSED(t, run(&l, DDISP_MODE_BACKWARD), DDISP_STATUS_NO_CODE, "mul", "backward");
}

static void layouts_that_the_code_does_not_take_are_refused(cts *t)
{
    ddisp_kernel *dense = cts_kernel_with(t, &cts_mul, DDISP_CODE_NULL_SAFE, NULL);
    int64_t n = 3, stride = 2;
    struct launch l = make(t);
    l.kernel = dense;
    ddisp_tensor *b = l.args[1].tensor;
    l.args[1].tensor = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, &stride, 0, (const float[]){1, 2, 3});
    BOTH_REFUSE(t, &l, DDISP_STATUS_LAYOUT_MISMATCH, "mul", "'b'");
    l.args[1].tensor = b;
    CTS_OK(run(&l, DDISP_MODE_FORWARD));
    CTS_VALUES(l.args[2].tensor, 1, 4, 9);
}

static void integers_are_refused_where_gradients_flow(cts *t)
{
    static const ddisp_param any[2] = {DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_ANY,
                                                   DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
                                       DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32,
                                                   DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE)};
    cts_source source = cts_square;
    source.params = any;
    ddisp_kernel *kernel = cts_kernel(t, &source);
    int64_t n = 2;
    ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, NULL);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    CTS_REFUSED(t, CTS_BACKWARD(kernel, NULL, x, y), DDISP_STATUS_DTYPE_MISMATCH, "'x'", "i32");
}

static void described_tensors_are_checked(cts *t)
{
    struct launch l = make(t);
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    int64_t n = 3, negative = -3, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    ddisp_tensor_view good = DDISP_ZERO, view;
    good.size = (uint32_t)sizeof good;
    good.dtype = DDISP_DTYPE_F32;
    good.rank = 1;
    good.address = cts_address(l.args[1].tensor);
    good.shape = &n;
    l.args[1] = (ddisp_arg)DDISP_ARG_VIEW(&view);
#define WRONG(field, value, status, ...)                                                           \
    view = good;                                                                                   \
    view.field = (value);                                                                          \
    BOTH_REFUSE(t, &l, status, "'b'", __VA_ARGS__)
    WRONG(size, 4, bad, "size");
    WRONG(dtype, 99, bad, "dtype");
    WRONG(flags, UINT64_C(1) << 40, bad, "flags");
    WRONG(shape, NULL, bad, "shape");
    WRONG(shape, &negative, bad, "-3");
    WRONG(address, 0, bad, "address");
    WRONG(address, good.address + 2, bad, "address");
#undef WRONG
    view = good;
    view.rank = 9;
    view.shape = nine;
    BOTH_REFUSE(t, &l, bad, "'b'", "rank", "9");
    view.rank = 2;
    view.shape = huge;
    BOTH_REFUSE(t, &l, DDISP_STATUS_OVERFLOW, "'b'");
    view = good;
    CTS_OK(run(&l, DDISP_MODE_BACKWARD));
    CTS_GRADIENT(l.args[0].tensor, 1, 2, 3);
}

static void gradient_addresses_must_have_a_slot(cts *t)
{
    struct launch l = make(t);
    uint64_t address = cts_address(CTS_VECTOR(t, 0, 0, 0, 0));
    l.args[1].grad_add = address; /* b is frozen */
    CTS_REFUSED(t, run(&l, DDISP_MODE_BACKWARD), DDISP_STATUS_NO_GRADIENT, "'b'", "grad_add");
    l.args[1].grad_add = 0;
    l.args[1].grad_read = address; /* b is no output */
    CTS_REFUSED(t, run(&l, DDISP_MODE_BACKWARD), DDISP_STATUS_INVALID_ARGUMENT, "'b'", "grad_read");
    l.args[1].grad_read = 0;
    l.args[2].grad_add = address; /* y is no input */
    CTS_REFUSED(t, run(&l, DDISP_MODE_BACKWARD), DDISP_STATUS_INVALID_ARGUMENT, "'y'", "grad_add");
    l.args[2].grad_add = 0;
    l.args[0].grad_add = address + 1;
    CTS_REFUSED(t, run(&l, DDISP_MODE_BACKWARD), DDISP_STATUS_INVALID_ARGUMENT, "'a'", "grad_add");
}

const cts_test cts_bad_launch_tests[] = {
    CTS_TEST(argument_count_is_checked),
    CTS_TEST(unknown_values_are_refused),
    CTS_TEST(argument_is_one_of_tensor_view_scalar),
    CTS_TEST(dtype_and_rank_are_those_declared),
    CTS_TEST(scalars_have_the_size_of_their_dtype),
    CTS_TEST(objects_of_another_device_are_refused),
    CTS_TEST(kernel_without_code_for_the_device_is_refused),
    CTS_TEST(kernel_without_code_for_the_mode_is_refused),
    CTS_TEST(layouts_that_the_code_does_not_take_are_refused),
    CTS_TEST(integers_are_refused_where_gradients_flow),
    CTS_TEST(described_tensors_are_checked),
    CTS_TEST(gradient_addresses_must_have_a_slot),
    CTS_END,
};
