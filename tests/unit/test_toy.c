/*
 * test_toy.c - the job on the plugin of tests/plugins/toy: y = a * b, forward and backward, with a
 * frozen input, through nothing but the public API and a backend that the library never heard of.
 */
#include "check.h"

#include <diffdispatch/device/ddisp_block.h>

#define COUNT 5

static void forward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const float *a = (const float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, 0)->data;
    const float *b = (const float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, 1)->data;
    float *y = (float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, 2)->data;
    for (uint64_t i = begin; i < end; i++)
        y[i] = a[i] * b[i];
}

/* Adds to every gradient slot that has an address. */
static void backward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *a = DDISP_BLOCK_TENSOR(block, 0), *b = DDISP_BLOCK_TENSOR(block, 1);
    const float *upstream = (const float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, 2)->grad_read;
    for (uint64_t i = begin; i < end; i++) {
        if (a->grad_add)
            ((float *)(uintptr_t)a->grad_add)[i] +=
                upstream[i] * ((const float *)(uintptr_t)b->data)[i];
        if (b->grad_add)
            ((float *)(uintptr_t)b->grad_add)[i] +=
                upstream[i] * ((const float *)(uintptr_t)a->data)[i];
    }
}

struct fixture {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_tensor *a, *b, *y, *upstream;
};

static const float a_values[COUNT] = {1, 2, 3, 4, 5};
static const float b_values[COUNT] = {10, 20, 30, 40, 50};
static const float upstream_values[COUNT] = {1, 1, 2, 2, 3};

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    const int64_t shape[1] = {COUNT};
    const ddisp_dtype f32 = DDISP_DTYPE_F32;
    const uint64_t grad = DDISP_TENSOR_REQUIRES_GRAD;
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = sizeof desc;
    desc.backends = "toy";
    desc.backend_path = TOY_DIRECTORY;
    memset(f, 0, sizeof *f);
    *state = f;
    return ddisp_context_create(&desc, &f->context) ||
           ddisp_device_open(f->context, "auto", &f->device) ||
           ddisp_tensor_create(f->device, f32, 1, shape, grad, &f->a) ||
           ddisp_tensor_create(f->device, f32, 1, shape, 0, &f->b) ||
           ddisp_tensor_create(f->device, f32, 1, shape, grad, &f->y) ||
           ddisp_tensor_create(f->device, f32, 1, shape, 0, &f->upstream) ||
           ddisp_tensor_write(f->a, a_values, sizeof a_values, NULL) ||
           ddisp_tensor_write(f->b, b_values, sizeof b_values, NULL) ||
           ddisp_tensor_write(f->upstream, upstream_values, sizeof upstream_values, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    ddisp_tensor_release(f->a);
    ddisp_tensor_release(f->b);
    ddisp_tensor_release(f->y);
    ddisp_tensor_release(f->upstream);
    ddisp_device_release(f->device);
    ddisp_context_release(f->context);
    return 0;
}

/* The kernel with one code of the toy, whose flags are given. */
static ddisp_kernel *make_kernel(struct fixture *f, const char *format, uint64_t flags)
{
    ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    };
    ddisp_entry entries[2] = {DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, forward, 1),
                              DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, backward, 2)};
    ddisp_code code = DDISP_CODE("toy", format, NULL, 0, entries, flags);
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel = NULL;
    desc.size = sizeof desc;
    desc.name = "mul";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = sizeof params[0];
    desc.codes = &code;
    desc.code_count = 1;
    desc.code_size = sizeof code;
    assert_ok(ddisp_kernel_create(f->context, &desc, &kernel));
    return kernel;
}

/* Runs forward and backward with b frozen; returns the backing of b's slot. */
static ddisp_backing run(struct fixture *f, uint64_t code_flags, ddisp_policy policy)
{
    float y[COUNT], gradient[COUNT];
    ddisp_tensor *ga = NULL, *gb = NULL;
    ddisp_report *report;
    ddisp_report_info info = {.size = sizeof info};
    ddisp_report_slot slot = {.size = sizeof slot};
    ddisp_backing backing = DDISP_BACKING_NONE;
    ddisp_launch_options options = {.size = sizeof options, .policy = policy};
    ddisp_kernel *kernel = make_kernel(f, "host-function", code_flags);
    ddisp_arg args[3] = {DDISP_ARG(f->a), DDISP_ARG(f->b), DDISP_ARG(f->y)};
    assert_ok(ddisp_report_create(f->context, &report));
    options.report = report;

    assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    assert_ok(ddisp_tensor_read(f->y, y, sizeof y, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_float_equal(y[i], a_values[i] * b_values[i], 0);

    assert_ok(ddisp_tensor_set_grad(f->y, f->upstream));
    assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    assert_ok(ddisp_tensor_grad(f->a, &ga));
    assert_ok(ddisp_tensor_read(ga, gradient, sizeof gradient, NULL));
    static const float expected[COUNT] = {10, 20, 60, 80, 150}; /* upstream * b, by hand */
    for (int i = 0; i < COUNT; i++)
        assert_float_equal(gradient[i], expected[i], 0);
    assert_int_equal(ddisp_tensor_grad(f->b, &gb), DDISP_STATUS_NO_GRADIENT);
    assert_null(gb);

    assert_ok(ddisp_report_get_info(report, &info));
    for (uint32_t i = 0; i < info.slot_count; i++) {
        assert_ok(ddisp_report_get_slot(report, i, &slot));
        if (slot.param == 1 && slot.is_add)
            backing = slot.backing;
    }
    ddisp_report_release(report);
    ddisp_tensor_release(ga);
    ddisp_kernel_release(kernel);
    return backing;
}

static void frozen_input_of_a_plain_code_gets_scratch(void **state)
{
    ddisp_device_statistics statistics = {.size = sizeof statistics};
    struct fixture *f = *state;
    assert_int_equal(run(f, 0, DDISP_POLICY_AUTO), DDISP_BACKING_SCRATCH);
    assert_ok(ddisp_device_get_statistics(f->device, &statistics));
    assert_int_equal(statistics.scratch_bytes_peak, COUNT * sizeof(float));
    assert_int_equal(statistics.scratch_bytes_live, 0);
}

static void frozen_input_of_a_null_safe_code_gets_null(void **state)
{
    ddisp_device_statistics statistics = {.size = sizeof statistics};
    struct fixture *f = *state;
    assert_int_equal(run(f, DDISP_CODE_NULL_SAFE, DDISP_POLICY_AUTO), DDISP_BACKING_NULL);
    assert_ok(ddisp_device_get_statistics(f->device, &statistics));
    assert_int_equal(statistics.scratch_bytes_peak, 0);
}

/* What the plugin does not offer is refused with the reason, by the core. */
static void missing_abilities_are_refused_in_words(void **state)
{
    struct fixture *f = *state;
    ddisp_kernel *kernel = make_kernel(f, "host-function", DDISP_CODE_NULL_SAFE);
    ddisp_arg args[3] = {DDISP_ARG(f->a), DDISP_ARG(f->b), DDISP_ARG(f->y)};
    ddisp_launch_options options = {.size = sizeof options, .policy = DDISP_POLICY_SINK};
    assert_ok(ddisp_tensor_set_grad(f->y, f->upstream));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "sink",
                 ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    options.policy = DDISP_POLICY_SPECIALIZE;
    assert_fails(DDISP_STATUS_UNSUPPORTED, "speciali",
                 ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    ddisp_kernel_release(kernel);
}

static void reason_of_the_plugin_for_refusing_a_code_is_passed_on(void **state)
{
    struct fixture *f = *state;
    ddisp_kernel *kernel = make_kernel(f, "something-else", 0);
    ddisp_arg args[3] = {DDISP_ARG(f->a), DDISP_ARG(f->b), DDISP_ARG(f->y)};
    assert_fails(DDISP_STATUS_NO_CODE, "toy: only the format host-function is taken",
                 ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    ddisp_kernel_release(kernel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frozen_input_of_a_plain_code_gets_scratch),
        TEST(frozen_input_of_a_null_safe_code_gets_null),
        TEST(missing_abilities_are_refused_in_words),
        TEST(reason_of_the_plugin_for_refusing_a_code_is_passed_on),
    };
    return cmocka_run_group_tests_name("toy", tests, NULL, NULL);
}
