/*
 * test_cache_verdicts.c - verdicts on layout, alignment, aliases and sizes are those of the launch
 * at hand, never of an earlier one with the same kernel. The compiler plugin offers no
 * accumulation, so that what a code cannot take is refused here and not converted.
 */
#include "compiler_fixture.h"

#include <stdlib.h>

static int fresh(void **state)
{
    control_reset();
    *state = setting_open(NULL);
    return 0;
}

static int gone(void **state)
{
    setting_close(*state, true);
    return 0;
}

static ddisp_report *new_report(struct setting *s)
{
    ddisp_report *report;
    assert_ok(ddisp_report_create(s->context, &report));
    return report;
}

static ddisp_report_info info_of(ddisp_report *report)
{
    ddisp_report_info info = {.size = (uint32_t)sizeof info};
    assert_ok(ddisp_report_get_info(report, &info));
    return info;
}

/* ---- alignment */

/* Two codes: the first takes only addresses that 16 divides and adds 1, the second any and adds 2.
 */
static ddisp_kernel *aligned_first(struct setting *s, uint32_t codes)
{
    static const ddisp_entry entries[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "forward", 1)};
    static const char sources[2][32] = {"entry forward: $0 1 + >1\n", "entry forward: $0 2 + >1\n"};
    static const ddisp_code_param strict = {.param = 0, .alignment = 16};
    const ddisp_param params[2] = {DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, 0),
                                   DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, 0)};
    ddisp_code list[2] = {
        DDISP_CODE("compiler", "rpn", sources[0], strlen(sources[0]), entries, 0),
        DDISP_CODE("compiler", "rpn", sources[1], strlen(sources[1]), entries, 0)};
    list[0].params = &strict;
    list[0].param_count = 1;
    list[0].param_size = (uint32_t)sizeof strict;
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel = NULL;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "k";
    desc.params = params;
    desc.param_count = 2;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = list;
    desc.code_count = codes;
    desc.code_size = (uint32_t)sizeof list[0];
    assert_ok(ddisp_kernel_create(s->context, &desc, &kernel));
    return kernel;
}

/* Vectors of 8 over one buffer, the k-th beginning at element k: only every fourth is aligned. */
static void views_of(struct setting *s, ddisp_tensor *views[8])
{
    ddisp_buffer *buffer;
    const int64_t n = 8;
    float values[16];
    for (int i = 0; i < 16; i++)
        values[i] = (float)i;
    assert_ok(ddisp_buffer_create(s->device, sizeof values, &buffer));
    assert_ok(ddisp_buffer_write(buffer, 0, values, sizeof values, NULL));
    for (int k = 0; k < 8; k++)
        assert_ok(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 1, &n, NULL, k, 0, &views[k]));
    ddisp_buffer_release(buffer);
}

static void case_12_aligned_first_then_misaligned(void **state)
{
    struct setting *s = *state;
    static const int order[] = {0, 1, 4, 2, 0, 3, 1, 4, 5, 6, 7, 0};
    for (uint32_t codes = 1; codes <= 2; codes++) {
        ddisp_kernel *kernel = aligned_first(s, codes);
        ddisp_tensor *views[8], *y = vector(s, 0, NULL, 8);
        views_of(s, views);
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            int k = order[i];
            const ddisp_arg args[2] = {DDISP_ARG(views[k]), DDISP_ARG(y)};
            bool aligned = k % 4 == 0;
            ddisp_status status = ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL);
            if (!aligned && codes == 1) { /* before anything is launched, by name */
                assert_int_equal(status, DDISP_STATUS_LAYOUT_MISMATCH);
                assert_error_says("'x' is at an address that is no multiple of 16 bytes");
                continue;
            }
            assert_ok(status);
            float add = (float)k + (aligned ? 1.0f : 2.0f);
            EXPECT(y, 0 + add, 1 + add, 2 + add, 3 + add, 4 + add, 5 + add, 6 + add, 7 + add);
        }
        assert_int_equal(kernel_statistics(kernel).variants_built, codes);
        for (int k = 0; k < 8; k++)
            ddisp_tensor_release(views[k]);
        ddisp_tensor_release(y);
        ddisp_kernel_release(kernel);
    }
}

/* ---- shapes */

static void case_34_one_signature_for_all_sizes(void **state)
{
    struct setting *s = *state;
    static const int64_t sizes[] = {128, 200, 7, 1, 128, 200};
    ddisp_kernel *kernel = kernel_make(
        s, &(struct recipe){.source = "entry forward: $0 $1 + >2\n", .forward_only = true});
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i];
        float in[200], out[202], expected[202];
        for (int64_t k = 0; k < 202; k++)
            expected[k] = -1;
        for (int64_t k = 0; k < n; k++) {
            in[k] = (float)k;
            expected[k + 1] = 2 * in[k];
        }
        ddisp_buffer *buffer; /* with a guard on either side of what is written */
        ddisp_tensor *x = vector(s, 0, in, n), *y;
        for (int64_t k = 0; k < 202; k++)
            out[k] = -1;
        assert_ok(ddisp_buffer_create(s->device, sizeof out, &buffer));
        assert_ok(ddisp_buffer_write(buffer, 0, out, sizeof out, NULL));
        assert_ok(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 1, &n, NULL, 1, 0, &y));
        const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
        assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
        assert_ok(ddisp_buffer_read(buffer, 0, out, sizeof out, NULL));
        assert_memory_equal(out, expected, sizeof out);
        ddisp_tensor_release(x);
        ddisp_tensor_release(y);
        ddisp_buffer_release(buffer);
    }
    assert_int_equal(kernel_statistics(kernel).signatures, 1);
    assert_int_equal(kernel_statistics(kernel).variants_built, 1);
    ddisp_kernel_release(kernel);
}

/* ---- layouts and aliases of gradients */

/* A way to hand over a and b of y = a b, and whether a code that adds without atomics may run. */
struct way {
    const char *name;
    int64_t stride; /* of the gradient of a, 2 by 3 elements: row stride */
    bool same;      /* one tensor as a and b */
    bool one_gradient;
    ddisp_status expected;
};

static const struct way ways[] = {
    {"dense", 3, false, false, DDISP_STATUS_OK},
    {"strided", 5, false, false, DDISP_STATUS_OK},
    {"strided, rows overlap", 2, false, false, DDISP_STATUS_UNSUPPORTED},
    {"every row the same", 0, false, false, DDISP_STATUS_UNSUPPORTED},
    {"one tensor twice", 3, true, true, DDISP_STATUS_UNSUPPORTED},
    {"one tensor twice, two gradients", 3, true, false, DDISP_STATUS_OK},
    {"two tensors, one gradient", 3, false, true, DDISP_STATUS_UNSUPPORTED},
};
#define WAYS (sizeof ways / sizeof ways[0])

struct memory {
    float a[6], b[6], y[6], g[6], ga[16], gb[16];
};

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* The plugin's device addresses are host pointers, so that views may describe the test's memory. */
static ddisp_status launch_way(struct setting *s, ddisp_kernel *kernel, struct memory *m,
                               const struct way *way, ddisp_report *report)
{
    static const int64_t shape[2] = {2, 3};
    const int64_t gradient_strides[2] = {way->stride, 1};
    ddisp_tensor_view a = {.size = (uint32_t)sizeof a}, b = a, y = a;
    a.address = address_of(m->a);
    a.dtype = DDISP_DTYPE_F32;
    a.rank = 2;
    a.shape = shape;
    a.flags = DDISP_VIEW_REQUIRES_GRAD;
    b = y = a;
    b.address = address_of(way->same ? m->a : m->b);
    y.address = address_of(m->y);
    a.grad_add_strides = gradient_strides;
    if (way->one_gradient)
        b.grad_add_strides = gradient_strides;
    ddisp_arg args[3] = {DDISP_ARG_VIEW(&a), DDISP_ARG_VIEW(&b), DDISP_ARG_VIEW(&y)};
    args[0].grad_add = address_of(m->ga);
    args[1].grad_add = way->one_gradient ? address_of(m->ga) : address_of(m->gb);
    args[2].grad_read = address_of(m->g);
    ddisp_launch_options options = {.size = (uint32_t)sizeof options};
    options.device = s->device;
    options.report = report;
    return ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL);
}

static void check_way(struct setting *s, ddisp_kernel *kernel, const struct way *way)
{
    struct memory m;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 6; i++) {
        m.a[i] = (float)(i + 1);
        m.b[i] = (float)(10 * i + 10);
        m.g[i] = 1;
    }
    ddisp_status status = launch_way(s, kernel, &m, way, NULL);
    if (status != way->expected)
        fail_msg("%s: %s", way->name, ddisp_status_name(status));
    const float *other = way->same ? m.a : m.b;
    for (int row = 0; row < 2; row++)
        for (int column = 0; column < 3; column++) {
            float got = m.ga[row * way->stride + column];
            float expected = status ? 0 : other[3 * row + column];
            if (got != expected)
                fail_msg("%s: gradient [%d, %d] is %g instead of %g", way->name, row, column,
                         (double)got, (double)expected);
        }
}

/* After any one way, every other is judged as if it were the first. */
static void no_verdict_on_gradients_goes_stale(void **state)
{
    struct setting *s = *state;
    static const ddisp_code_param plain[2] = {
        {.param = 0, .write_mode = DDISP_WRITE_MODE_PLAIN_ADD},
        {.param = 1, .write_mode = DDISP_WRITE_MODE_PLAIN_ADD}};
    const struct recipe recipe = {
        .code_params = plain, .code_param_count = 2, .flags = DDISP_CODE_ANY_LAYOUT};
    for (size_t first = 0; first < WAYS; first++) {
        ddisp_kernel *kernel = kernel_make(s, &recipe);
        for (size_t second = 0; second < WAYS; second++) {
            check_way(s, kernel, &ways[first]);
            check_way(s, kernel, &ways[second]);
        }
        assert_true(kernel_statistics(kernel).variants_built <= 1);
        ddisp_kernel_release(kernel);
    }
}

/* Two codes: the first adds without atomics and is preferred where that is right. */
static ddisp_kernel *plain_first(struct setting *s)
{
    static const ddisp_entry entries[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "backward", 1)};
    static const ddisp_code_param plain[2] = {
        {.param = 0, .write_mode = DDISP_WRITE_MODE_PLAIN_ADD},
        {.param = 1, .write_mode = DDISP_WRITE_MODE_PLAIN_ADD}};
    const ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE)};
    ddisp_code codes[2] = {DDISP_CODE("compiler", "rpn", SOURCE_MUL, strlen(SOURCE_MUL), entries,
                                      DDISP_CODE_ANY_LAYOUT),
                           DDISP_CODE("compiler", "rpn", SOURCE_MUL, strlen(SOURCE_MUL), entries,
                                      DDISP_CODE_ANY_LAYOUT)};
    codes[0].params = plain;
    codes[0].param_count = 2;
    codes[0].param_size = (uint32_t)sizeof plain[0];
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel = NULL;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "k";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = 2;
    desc.code_size = (uint32_t)sizeof codes[0];
    assert_ok(ddisp_kernel_create(s->context, &desc, &kernel));
    return kernel;
}

static void no_choice_of_code_goes_stale(void **state)
{
    struct setting *s = *state;
    ddisp_report *report = new_report(s);
    for (size_t first = 0; first < WAYS; first++) {
        ddisp_kernel *kernel = plain_first(s);
        for (size_t second = 0; second < WAYS; second++)
            for (int k = 0; k < 2; k++) {
                const struct way *way = &ways[k ? second : first];
                struct memory m;
                memset(&m, 0, sizeof m);
                assert_ok(launch_way(s, kernel, &m, way, report));
                uint32_t code = info_of(report).code, expected = way->expected ? 1 : 0;
                if (code != expected)
                    fail_msg("%s: code %u instead of %u", way->name, code, expected);
            }
        assert_int_equal(kernel_statistics(kernel).variants_built, 2);
        ddisp_kernel_release(kernel);
    }
    ddisp_report_release(report);
}

/* A code that takes dense tensors alone. */
static void no_verdict_on_layouts_goes_stale(void **state)
{
    struct setting *s = *state;
    static const int64_t shape[2] = {2, 3};
    static const int64_t strides[][2] = {{3, 1}, {1, 2}, {0, 1}, {3, 1}, {7, 1}, {-3, -1}, {3, 1}};
    ddisp_kernel *kernel =
        kernel_make(s, &(struct recipe){.forward_only = true, .source = "entry forward: $0 >2\n"});
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        float memory[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, out[6] = {0};
        ddisp_tensor_view x = {.size = (uint32_t)sizeof x}, y = x;
        x.address = address_of(&memory[8]);
        x.dtype = DDISP_DTYPE_F32;
        x.rank = 2;
        x.shape = shape;
        y = x;
        x.strides = strides[i];
        y.address = address_of(out);
        const ddisp_arg args[3] = {DDISP_ARG_VIEW(&x), DDISP_ARG_VIEW(&x), DDISP_ARG_VIEW(&y)};
        ddisp_launch_options options = {.size = (uint32_t)sizeof options};
        options.device = s->device;
        ddisp_status status = ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, &options, NULL);
        if (strides[i][0] == 3) {
            assert_ok(status);
            assert_true(out[0] == 8 && out[5] == 13);
        } else {
            assert_int_equal(status, DDISP_STATUS_LAYOUT_MISMATCH);
            assert_error_says("which the code does not take");
        }
    }
    ddisp_kernel_release(kernel);
}

/* ---- plans */

/* Random requests: the plan that a kernel remembers is the one that a new kernel makes. */
static void remembered_plan_is_the_one_that_would_be_made(void **state)
{
    struct setting *s = *state;
    const struct recipe recipe = {.flags = DDISP_CODE_ANY_LAYOUT | DDISP_CODE_NULL_SAFE};
    ddisp_kernel *warm = kernel_make(s, &recipe);
    ddisp_report *reports[2] = {new_report(s), new_report(s)};
    uint32_t seed = 7;
    for (int round = 0; round < 400; round++) {
        ddisp_kernel *kernels[2] = {warm, kernel_make(s, &recipe)};
        seed = seed * 1664525u + 1013904223u;
        uint32_t bits = seed >> 8;
        uint64_t a_flags = bits & 1 ? DDISP_TENSOR_REQUIRES_GRAD : 0;
        uint64_t b_flags = bits & 2 || !a_flags ? DDISP_TENSOR_REQUIRES_GRAD : 0;
        const int64_t shape[2] = {2, 3}, strides[2] = {bits & 4 ? 3 : bits & 8 ? 5 : 0, 1};
        ddisp_tensor *a = tensor(s, DDISP_DTYPE_F32, 2, shape, strides, a_flags);
        ddisp_tensor *b = bits & 16 ? NULL : tensor(s, DDISP_DTYPE_F32, 2, shape, NULL, b_flags);
        ddisp_tensor *y = tensor(s, DDISP_DTYPE_F32, 2, shape, NULL, DDISP_TENSOR_REQUIRES_GRAD);
        ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b ? b : a), DDISP_ARG(y)};
        args[0].policy = args[1].policy = DDISP_POLICY_AUTO + (bits >> 5) % 5;
        for (int k = 0; k < 2; k++) {
            ddisp_launch_options options = {.size = (uint32_t)sizeof options};
            options.report = reports[k];
            options.flags = DDISP_LAUNCH_DRY_RUN | DDISP_LAUNCH_ZERO_UPSTREAM;
            assert_ok(ddisp_tensor_set_grad(y, y == a ? b : y));
            (void)ddisp_launch(kernels[k], DDISP_MODE_BACKWARD, args, 3, &options, NULL);
        }
        ddisp_report_info first = info_of(reports[0]), second = info_of(reports[1]);
        assert_int_equal(first.status, second.status);
        assert_int_equal(first.skip, second.skip);
        assert_int_equal(first.mask, second.mask);
        assert_int_equal(first.code, second.code);
        for (uint32_t i = 0; i < first.slot_count; i++) {
            ddisp_report_slot one = {.size = (uint32_t)sizeof one}, two = one;
            assert_ok(ddisp_report_get_slot(reports[0], i, &one));
            assert_ok(ddisp_report_get_slot(reports[1], i, &two));
            assert_int_equal(one.backing, two.backing);
        }
        ddisp_launch_options options = {.size = (uint32_t)sizeof options};
        options.flags = DDISP_LAUNCH_ZERO_UPSTREAM | DDISP_LAUNCH_KEEP_UPSTREAM;
        (void)ddisp_launch(warm, DDISP_MODE_BACKWARD, args, 3, &options, NULL); /* remembers */
        ddisp_tensor_release(a);
        ddisp_tensor_release(b);
        ddisp_tensor_release(y);
        ddisp_kernel_release(kernels[1]);
    }
    assert_true(kernel_statistics(warm).signatures > 10);
    ddisp_report_release(reports[0]);
    ddisp_report_release(reports[1]);
    ddisp_kernel_release(warm);
}

/* ---- case 53 */

static void case_53_scalars_of_another_size(void **state)
{
    struct setting *s = *state;
    const ddisp_param params[3] = {DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, 0),
                                   DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
                                   DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, 0)};
    const ddisp_param integer[3] = {params[0], DDISP_PARAM_SCALAR("k", DDISP_DTYPE_I32), params[2]};
    struct recipe recipe = {.source = "entry forward: $0 %0 * >1\n",
                            .params = params,
                            .param_count = 3,
                            .forward_only = true};
    ddisp_kernel *kernel = kernel_make(s, &recipe);
    recipe.params = integer;
    ddisp_kernel *counts = kernel_make(s, &recipe);
    ddisp_tensor *x = VECTOR(s, 0, 1, 3), *y = VECTOR(s, 0, -1, -1);
    const float four = 2;
    const double eight = 2;
    const int32_t small = 2;
    const int64_t large = 2;
    ddisp_arg args[4] = {DDISP_ARG(x), DDISP_ARG_SCALAR(&eight), DDISP_ARG(y), DDISP_ARG(y)};
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT,
                 "parameter 'k' (argument 1) is given 8 bytes, a f32 has 4",
                 ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    EXPECT(y, -1, -1);
    args[1] = (ddisp_arg)DDISP_ARG_SCALAR(&four);
    assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    EXPECT(y, 2, 6);
    args[1] = (ddisp_arg)DDISP_ARG_SCALAR(&large);
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "is given 8 bytes, a i32 has 4",
                 ddisp_launch(counts, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    args[1] = (ddisp_arg)DDISP_ARG_SCALAR(&small);
    assert_ok(ddisp_launch(counts, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    for (uint32_t count = 0; count <= 4; count += count == 2 ? 2 : 1) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "arg_count is %u, the kernel has 3 parameters",
                       count);
        assert_fails(DDISP_STATUS_INVALID_ARGUMENT, expected,
                     ddisp_launch(kernel, DDISP_MODE_FORWARD, args, count, NULL, NULL));
    }
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
    ddisp_kernel_release(counts);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_12_aligned_first_then_misaligned),
        TEST(case_34_one_signature_for_all_sizes),
        TEST(no_verdict_on_gradients_goes_stale),
        TEST(no_choice_of_code_goes_stale),
        TEST(no_verdict_on_layouts_goes_stale),
        TEST(remembered_plan_is_the_one_that_would_be_made),
        TEST(case_53_scalars_of_another_size),
    };
    return cmocka_run_group_tests_name("cache_verdicts", tests, NULL, NULL);
}
