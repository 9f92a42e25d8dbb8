/*
 * test_native_vulkan.c - existing shaders on Vulkan: storage buffers by set and binding, numbers
 * and addresses as push constants; frozen inputs through each policy; and lists that do not fit the
 * shader, which are refused by name.
 */
#include "native_fixture.h"

#include "mul_addresses.spv.h"
#include "mul_addresses_backward.spv.h"
#include "mul_buffers.spv.h"
#include "mul_buffers_backward.spv.h"
#include "mul_buffers_cas.spv.h"
#include "uniform.spv.h"

#define DESCRIPTOR(source, param, set, binding)                                                    \
    DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_##source, param, set, binding)
#define NUMBER4(source, param)                                                                     \
    {                                                                                              \
        DDISP_SOURCE_##source, (param), 0, 0, 0, 0, 4, 0                                           \
    }

static const ddisp_param params[4] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
};
static const ddisp_native_arg buffers_forward[5] = {
    DESCRIPTOR(DATA, 0, 0, 0), DESCRIPTOR(DATA, 1, 0, 3), DESCRIPTOR(DATA, 2, 0, 1),
    NUMBER4(NUMEL, 2), DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};
static const ddisp_native_arg buffers_backward[7] = {
    DESCRIPTOR(DATA, 0, 0, 0),           DESCRIPTOR(DATA, 1, 0, 3),
    DESCRIPTOR(GRAD_ADD, 0, 1, 0),       DESCRIPTOR(GRAD_ADD, 1, 1, 1),
    DESCRIPTOR(GRAD_READ, 2, 2, 0),      NUMBER4(ITEMS, 0),
    DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};
static const ddisp_native_arg addresses_forward[5] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0), DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_DATA, 2), NUMBER4(NUMEL, 2), DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};
static const ddisp_native_arg addresses_backward[7] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0),      DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2), NUMBER4(NUMEL, 2),
    DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3),    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1)};

const native_code native_buffers = {.params = params,
                                    .param_count = 4,
                                    .forward = mul_buffers_spv,
                                    .forward_bytes = sizeof mul_buffers_spv,
                                    .forward_args = buffers_forward,
                                    .forward_count = 5,
                                    .backward = mul_buffers_backward_spv,
                                    .backward_bytes = sizeof mul_buffers_backward_spv,
                                    .backward_args = buffers_backward,
                                    .backward_count = 7};
const native_code native_addresses = {.params = params,
                                      .param_count = 4,
                                      .forward = mul_addresses_spv,
                                      .forward_bytes = sizeof mul_addresses_spv,
                                      .forward_args = addresses_forward,
                                      .forward_count = 5,
                                      .backward = mul_addresses_backward_spv,
                                      .backward_bytes = sizeof mul_addresses_backward_spv,
                                      .backward_args = addresses_backward,
                                      .backward_count = 7};

#define N 200

/** The tensors of one multiplication, a[i] = i, b[i] = i + 1. */
typedef struct mul {
    ddisp_tensor *a, *b, *y;
    float product[N], grad_a[N], grad_b[N];
} mul;

static const float k = 2;

static mul mul_make(const native_fixture *f, uint64_t a_flags, uint64_t b_flags)
{
    mul m;
    float a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(i + 1);
        m.product[i] = k * a[i] * b[i];
        m.grad_a[i] = k * b[i];
        m.grad_b[i] = k * a[i];
    }
    m.a = native_vector(f, N, a_flags, a);
    m.b = native_vector(f, N, b_flags, b);
    m.y = native_vector(f, N, DDISP_TENSOR_REQUIRES_GRAD, NULL);
    return m;
}

static void mul_free(mul *m)
{
    ddisp_tensor_release(m->a);
    ddisp_tensor_release(m->b);
    ddisp_tensor_release(m->y);
}

static ddisp_status launch(ddisp_kernel *kernel, ddisp_mode mode, const mul *m, ddisp_policy policy,
                           uint64_t flags, ddisp_report *report)
{
    const ddisp_arg args[4] = {DDISP_ARG(m->a), DDISP_ARG(m->b), DDISP_ARG(m->y),
                               DDISP_ARG_SCALAR(&k)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.report = report;
    options.flags = flags;
    return ddisp_launch(kernel, mode, args, 4, &options, NULL);
}

static void computes(const native_fixture *f, const native_code *code)
{
    ddisp_kernel *kernel = NULL;
    NATIVE_OK(native_kernel(f, code, &kernel));
    mul m = mul_make(f, DDISP_TENSOR_REQUIRES_GRAD, DDISP_TENSOR_REQUIRES_GRAD);
    NATIVE_OK(launch(kernel, DDISP_MODE_FORWARD, &m, 0, 0, NULL));
    native_values(m.y, m.product, N);
    native_seed(f, m.y, N);
    NATIVE_OK(launch(kernel, DDISP_MODE_BACKWARD, &m, 0, 0, NULL));
    native_gradient(m.a, m.grad_a, N);
    native_gradient(m.b, m.grad_b, N);
    mul_free(&m);
    ddisp_kernel_release(kernel);
}

static void storage_buffers_compute(void **state)
{
    computes(native_of(state), &native_buffers);
}

static void addresses_compute(void **state)
{
    computes(native_of(state), &native_addresses);
}

/** More launches than a batch holds, with pools of descriptor sets used again. */
static void many_launches_use_sets_again(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    NATIVE_OK(native_kernel(f, &native_buffers, &kernel));
    mul m = mul_make(f, DDISP_TENSOR_REQUIRES_GRAD, 0);
    native_seed(f, m.y, N);
    for (int i = 0; i < 500; i++)
        NATIVE_OK(launch(kernel, DDISP_MODE_BACKWARD, &m, DDISP_POLICY_SCRATCH,
                         DDISP_LAUNCH_KEEP_UPSTREAM, NULL));
    float sum[N];
    for (int i = 0; i < N; i++)
        sum[i] = 500 * m.grad_a[i];
    native_gradient(m.a, sum, N);
    mul_free(&m);
    ddisp_kernel_release(kernel);
}

/* ---- frozen inputs */

/** a's gradient is right under the policy and b has none. Returns what b's slot was given. */
static ddisp_backing freeze_b(const native_fixture *f, ddisp_kernel *kernel, ddisp_policy policy)
{
    ddisp_report *report = NULL;
    ddisp_tensor *none = NULL;
    uint64_t bytes = 0;
    NATIVE_OK(ddisp_report_create(f->context, &report));
    mul m = mul_make(f, DDISP_TENSOR_REQUIRES_GRAD, 0);
    native_seed(f, m.y, N);
    NATIVE_OK(launch(kernel, DDISP_MODE_BACKWARD, &m, policy, 0, report));
    native_gradient(m.a, m.grad_a, N);
    NATIVE_FAILS(ddisp_tensor_grad(m.b, &none), DDISP_STATUS_NO_GRADIENT, "gradient");
    ddisp_backing backing = native_backing(report, 1, &bytes);
    if (backing == DDISP_BACKING_NULL)
        assert_int_equal(bytes, 0);
    if (backing == DDISP_BACKING_SCRATCH)
        assert_int_equal(bytes, N * sizeof(float));
    mul_free(&m);
    ddisp_report_release(report);
    return backing;
}

static bool has_sink(const native_fixture *f)
{
    return strcmp(f->info.sink, "none") != 0;
}

static void a_frozen_input_takes_the_best_that_there_is(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    bool nulls = (f->info.flags & DDISP_DEVICE_FLAG_NULL_DESCRIPTOR) != 0;
    NATIVE_OK(native_kernel(f, &native_buffers, &kernel));
    assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_AUTO), nulls         ? DDISP_BACKING_NULL
                                                             : has_sink(f) ? DDISP_BACKING_SINK
                                                                           : DDISP_BACKING_SCRATCH);
    ddisp_kernel_release(kernel);
}

static void every_policy_serves_a_frozen_buffer(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    NATIVE_OK(native_kernel(f, &native_buffers, &kernel));
    if (f->info.flags & DDISP_DEVICE_FLAG_NULL_DESCRIPTOR)
        assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_GUARD), DDISP_BACKING_NULL);
    if (has_sink(f))
        assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_SINK), DDISP_BACKING_SINK);
    assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_SCRATCH), DDISP_BACKING_SCRATCH);
    ddisp_kernel_release(kernel);
}

static void a_loop_that_swaps_gets_no_null_descriptor(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    native_code code = native_buffers;
    code.backward = mul_buffers_cas_spv;
    code.backward_bytes = sizeof mul_buffers_cas_spv;
    NATIVE_OK(native_kernel(f, &code, &kernel));
    mul m = mul_make(f, DDISP_TENSOR_REQUIRES_GRAD, 0);
    native_seed(f, m.y, N);
    NATIVE_FAILS(launch(kernel, DDISP_MODE_BACKWARD, &m, DDISP_POLICY_GUARD, 0, NULL),
                 DDISP_STATUS_UNSUPPORTED, "'b'", "descriptor", "swaps");
    mul_free(&m);
    assert_int_not_equal(freeze_b(f, kernel, DDISP_POLICY_AUTO), DDISP_BACKING_NULL);
    assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_SCRATCH), DDISP_BACKING_SCRATCH);
    ddisp_kernel_release(kernel);
}

static void an_address_is_guarded_only_where_it_is_tested(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    NATIVE_OK(native_kernel(f, &native_addresses, &kernel));
    mul m = mul_make(f, DDISP_TENSOR_REQUIRES_GRAD, 0);
    native_seed(f, m.y, N);
    NATIVE_FAILS(launch(kernel, DDISP_MODE_BACKWARD, &m, DDISP_POLICY_GUARD, 0, NULL),
                 DDISP_STATUS_UNSUPPORTED, "'b'", "null-safe");
    mul_free(&m);
    assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_AUTO),
                     has_sink(f) ? DDISP_BACKING_SINK : DDISP_BACKING_SCRATCH);
    assert_int_equal(freeze_b(f, kernel, DDISP_POLICY_SCRATCH), DDISP_BACKING_SCRATCH);
    ddisp_kernel_release(kernel);
}

/* ---- replay */

/** Native arguments lie in the recorded commands; other ones take their place. */
static void replays(const native_fixture *f, const native_code *code)
{
    static const float five = 5;
    ddisp_kernel *kernel = NULL;
    ddisp_stream *stream = NULL;
    ddisp_graph *graph = NULL;
    float other[N], scaled[N];
    NATIVE_OK(native_kernel(f, code, &kernel));
    NATIVE_OK(ddisp_stream_create(f->device, 0, &stream));
    mul m = mul_make(f, 0, 0);
    const ddisp_arg args[4] = {DDISP_ARG(m.a), DDISP_ARG(m.b), DDISP_ARG(m.y),
                               DDISP_ARG_SCALAR(&k)};
    NATIVE_OK(ddisp_device_synchronize(f->device, DDISP_TIMEOUT_INFINITE));
    NATIVE_OK(ddisp_stream_begin_capture(stream));
    for (int i = 0; i < 2; i++)
        NATIVE_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 4, NULL, stream));
    NATIVE_OK(ddisp_stream_end_capture(stream, &graph));
    for (int i = 0; i < 3; i++)
        NATIVE_OK(ddisp_graph_launch(graph, stream));
    NATIVE_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    native_values(m.y, m.product, N);

    for (int i = 0; i < N; i++) {
        other[i] = (float)(2 * i);
        scaled[i] = 5 * other[i] * (float)(i + 1);
    }
    ddisp_tensor *u = native_vector(f, N, 0, other);
    const ddisp_arg tensor = DDISP_ARG(u), scalar = DDISP_ARG_SCALAR(&five);
    NATIVE_OK(ddisp_graph_update(graph, 1, 0, &tensor));
    NATIVE_OK(ddisp_graph_update(graph, 1, 3, &scalar));
    ddisp_tensor_release(u);
    NATIVE_OK(ddisp_graph_launch(graph, stream));
    NATIVE_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    native_values(m.y, scaled, N);
    ddisp_graph_release(graph);
    ddisp_stream_release(stream);
    mul_free(&m);
    ddisp_kernel_release(kernel);
}

static void storage_buffers_are_replayed(void **state)
{
    replays(native_of(state), &native_buffers);
}

static void addresses_are_replayed(void **state)
{
    replays(native_of(state), &native_addresses);
}

/* ---- lists that do not fit */

/** A forward list with one argument changed, or left out (change NULL). */
#define REFUSED(f, code, list, at, change, ...)                                                    \
    do {                                                                                           \
        ddisp_native_arg changed[8];                                                               \
        ddisp_kernel *none = NULL;                                                                 \
        native_code other = (code);                                                                \
        refused_list(list, (code).forward_count, at, change, changed, &other.forward_count);       \
        other.forward_args = changed;                                                              \
        NATIVE_FAILS(native_kernel(f, &other, &none), DDISP_STATUS_CODE_INVALID, __VA_ARGS__);     \
        assert_null(none);                                                                         \
    } while (0)

static void refused_list(const ddisp_native_arg *list, uint32_t count, uint32_t at,
                         const ddisp_native_arg *change, ddisp_native_arg *out_list,
                         uint32_t *out_count)
{
    *out_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i != at)
            out_list[(*out_count)++] = list[i];
        else if (change)
            out_list[(*out_count)++] = *change;
}

static void storage_buffers_must_agree(void **state)
{
    native_fixture *f = native_of(state);
    static const ddisp_native_arg elsewhere = DESCRIPTOR(DATA, 1, 0, 2);
    static const ddisp_native_arg twice = DESCRIPTOR(DATA, 1, 0, 0);
    static const ddisp_native_arg far_set = DESCRIPTOR(DATA, 1, 99, 3);
    static const ddisp_native_arg number = DESCRIPTOR(NUMEL, 1, 0, 3);
    REFUSED(f, native_buffers, buffers_forward, 1, NULL, "set 0, binding 3", "no native argument");
    REFUSED(f, native_buffers, buffers_forward, 1, &elsewhere, "set 0, binding 3");
    REFUSED(f, native_buffers, buffers_forward, 1, &twice, "'b'", "set 0, binding 0", "argument 0");
    REFUSED(f, native_buffers, buffers_forward, 1, &far_set, "'b'", "99");
    REFUSED(f, native_buffers, buffers_forward, 1, &number, "'b'", "number");
    native_code extra = native_buffers;
    ddisp_native_arg list[6];
    ddisp_kernel *none = NULL;
    memcpy(list, buffers_forward, sizeof buffers_forward);
    list[5] = elsewhere;
    extra.forward_args = list;
    extra.forward_count = 6;
    NATIVE_FAILS(native_kernel(f, &extra, &none), DDISP_STATUS_CODE_INVALID, "argument 5",
                 "binding 2", "nothing");
}

static void push_constants_must_agree(void **state)
{
    native_fixture *f = native_of(state);
    static const ddisp_native_arg behind = {DDISP_SOURCE_SCALAR,  3, 0, 0, 0, 8, 0,
                                            DDISP_NATIVE_LOCATION};
    static const ddisp_native_arg odd = {DDISP_SOURCE_SCALAR,  3, 0, 0, 0, 6, 0,
                                         DDISP_NATIVE_LOCATION};
    static const ddisp_native_arg over = {DDISP_SOURCE_SCALAR,  3, 0, 0, 0, 0, 0,
                                          DDISP_NATIVE_LOCATION};
    static const ddisp_native_arg wide = DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2);
    static const ddisp_native_arg count = NUMBER4(NUMEL, 2);
    REFUSED(f, native_buffers, buffers_forward, 4, NULL, "'k'", "4 bytes at byte 4", "0 bytes");
    REFUSED(f, native_buffers, buffers_forward, 4, &behind, "'k'", "8 bytes", "bytes 8 to 11");
    REFUSED(f, native_buffers, buffers_forward, 4, &odd, "'k'", "byte 6");
    REFUSED(f, native_buffers, buffers_forward, 4, &over, "'k'", "argument 3 has 0 to 3");
    REFUSED(f, native_buffers, buffers_forward, 4, &count, "a floating-point number");
    REFUSED(f, native_buffers, buffers_forward, 3, &wide, "'y'", "bytes 0 to 7");
    REFUSED(f, native_addresses, addresses_forward, 0, &wide, "an address");
    REFUSED(f, native_addresses, addresses_forward, 1, NULL, "push constants");
}

static void other_things_must_agree(void **state)
{
    native_fixture *f = native_of(state);
    native_code code = native_buffers;
    ddisp_kernel *none = NULL;
    code.group = 32;
    NATIVE_FAILS(native_kernel(f, &code, &none), DDISP_STATUS_CODE_INVALID, "32", "64");
    code = native_buffers;
    code.forward = uniform_spv;
    code.forward_bytes = sizeof uniform_spv;
    NATIVE_FAILS(native_kernel(f, &code, &none), DDISP_STATUS_CODE_INVALID, "uniform buffer",
                 "binding 1");
    code = native_buffers;
    code.backward_count = 3; /* without b's gradient */
    NATIVE_FAILS(native_kernel(f, &code, &none), DDISP_STATUS_CODE_INVALID, "gradient of 'b'",
                 "added to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_buffers_compute),
        cmocka_unit_test(addresses_compute),
        cmocka_unit_test(many_launches_use_sets_again),
        cmocka_unit_test(a_frozen_input_takes_the_best_that_there_is),
        cmocka_unit_test(every_policy_serves_a_frozen_buffer),
        cmocka_unit_test(a_loop_that_swaps_gets_no_null_descriptor),
        cmocka_unit_test(an_address_is_guarded_only_where_it_is_tested),
        cmocka_unit_test(storage_buffers_are_replayed),
        cmocka_unit_test(addresses_are_replayed),
        cmocka_unit_test(storage_buffers_must_agree),
        cmocka_unit_test(push_constants_must_agree),
        cmocka_unit_test(other_things_must_agree),
    };
    struct CMUnitTest all[32];
    size_t count = sizeof tests / sizeof tests[0];
    memcpy(all, tests, sizeof tests);
    memcpy(all + count, native_limit_tests, native_limit_test_count * sizeof all[0]);
    count += native_limit_test_count;
    memcpy(all + count, native_broken_tests, native_broken_test_count * sizeof all[0]);
    return _cmocka_run_group_tests("native vulkan", all, count + native_broken_test_count,
                                   native_open, native_close);
}
