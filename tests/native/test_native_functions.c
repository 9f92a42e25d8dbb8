/*
 * test_native_functions.c - existing C functions and CUDA kernels, which know nothing of this
 * library, driven through its API: raw pointers and a length. With an input frozen they run through
 * the sink where the device has one.
 *   argument: host, cuda, or nvrtc (CUDA kernels as source)
 */
#include "native_mul.h"

/* ---- all gradients, one frozen, in one format */

static void drive(const native_fixture *f, const char *format)
{
    ddisp_kernel *kernel = native_mul_kernel(f, format);
    ddisp_report *report = native_report(f);
    bool has_sink = strcmp(f->info.sink, "none") != 0;
    uint64_t bytes = 0;
    mul m;
    mul_make(f, &m, 100000, DDISP_TENSOR_REQUIRES_GRAD, DDISP_TENSOR_REQUIRES_GRAD);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_FORWARD, &m, NULL, NULL));
    mul_expect_product(&m);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, NULL, NULL));
    mul_expect_gradient(&m, true, 1);
    mul_expect_gradient(&m, false, 1);
    mul_free(&m);

    mul_make(f, &m, 100000, DDISP_TENSOR_REQUIRES_GRAD, 0);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, report);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
    assert_int_equal(native_backing(report, 1, &bytes),
                     has_sink ? DDISP_BACKING_SINK : DDISP_BACKING_SCRATCH);
    mul_expect_gradient(&m, true, 1);
    native_expect_none(m.b);
    mul_free(&m);
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}

static void existing_code_runs_with_its_own_arguments(void **state)
{
    drive(native_of(state), native_usual_format());
}

static void functions_of_a_library_run(void **state)
{
    drive(native_of(state), "host-library");
}

static void source_runs_through_nvrtc(void **state)
{
    drive(native_of(state), "cuda-c++");
}

#if NATIVE_HAVE_BINARY
static void fatbin_runs(void **state)
{
    drive(native_of(state), "fatbin");
}

/* The cubin is for sm_90; elsewhere the PTX behind it serves, and the report says so. */
static void first_code_that_fits_is_taken(void **state)
{
    const native_fixture *f = native_of(state);
    native_own_code cubin, ptx;
    ddisp_kernel *kernel = NULL;
    ddisp_report *report = native_report(f);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, report);
    mul m;
    native_make_code(&cubin, "cubin");
    native_make_code(&ptx, "ptx");
    const ddisp_code codes[2] = {cubin.code, ptx.code};
    NATIVE_OK(native_make_kernel(f, native_mul_params, 3, codes, 2, &kernel));
    mul_make(f, &m, 1000, DDISP_TENSOR_REQUIRES_GRAD, DDISP_TENSOR_REQUIRES_GRAD);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
    assert_int_equal(native_code_used(report), strcmp(f->info.architecture, "sm_90") != 0);
    mul_expect_gradient(&m, true, 1);
    mul_expect_gradient(&m, false, 1);
    mul_free(&m);
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}
#endif

/* ---- policies */

static void frozen_input_costs_no_memory_through_the_sink(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = native_mul_kernel(f, native_usual_format());
    ddisp_report *report = native_report(f);
    ddisp_device_statistics before = DDISP_ZERO, after = DDISP_ZERO;
    bool has_sink = strcmp(f->info.sink, "none") != 0;
    uint64_t bytes = 0;
    mul m;
    before.size = after.size = (uint32_t)sizeof before;
    mul_make(f, &m, 3 << 20, DDISP_TENSOR_REQUIRES_GRAD, 0); /* 12 MiB each */
    ddisp_launch_options options = native_options(DDISP_POLICY_SINK, report);
    if (!has_sink) {
        NATIVE_FAILS(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL),
                     DDISP_STATUS_UNSUPPORTED, "existing", "'b'", "no sink");
    } else {
        NATIVE_OK(ddisp_device_get_statistics(f->device, &before));
        NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
        NATIVE_OK(ddisp_device_get_statistics(f->device, &after));
        assert_int_equal(native_backing(report, 1, &bytes), DDISP_BACKING_SINK);
        assert_true(after.sink_bytes_live <= 16 << 20);
        assert_int_equal(after.scratch_bytes_live, before.scratch_bytes_live);
        mul_expect_gradient(&m, true, 1);
        native_expect_none(m.b);
    }
    mul_free(&m);
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}

static void other_policies_hold_or_say_why_not(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = native_mul_kernel(f, native_usual_format());
    ddisp_report *report = native_report(f);
    uint64_t bytes = 0;
    mul m;
    mul_make(f, &m, 1000, 0, DDISP_TENSOR_REQUIRES_GRAD);
    ddisp_launch_options options = native_options(DDISP_POLICY_SCRATCH, report);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
    assert_int_equal(native_backing(report, 0, &bytes), DDISP_BACKING_SCRATCH);
    assert_true(bytes >= 4000);
    mul_expect_gradient(&m, false, 1);
    native_expect_none(m.a);
    native_seed(f, m.y, m.n);
    options.policy = DDISP_POLICY_GUARD;
    NATIVE_FAILS(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL),
                 DDISP_STATUS_UNSUPPORTED, "'a'", "null-safe");
    options.policy = DDISP_POLICY_SPECIALIZE;
    NATIVE_FAILS(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL),
                 DDISP_STATUS_UNSUPPORTED, "'a'", "specialize");
    mul_expect_gradient(&m, false, 1); /* as before */
    mul_free(&m);
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}

/* One entry for each mask, by the pattern of its name. */
static void entries_of_masks_leave_gradients_out(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    ddisp_report *report = native_report(f);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, report);
    native_own_code own;
    native_make_code(&own, native_on_host ? "host-library" : "ptx");
    own.entries[1].name = "mul_backward_{mask}";
    NATIVE_OK(native_make_kernel(f, native_mul_params, 3, &own.code, 1, &kernel));
    for (uint32_t which = 1; which < 4; which++) {
        uint64_t bytes = 0;
        mul m;
        mul_make(f, &m, 1000, which & 1 ? DDISP_TENSOR_REQUIRES_GRAD : 0,
                 which & 2 ? DDISP_TENSOR_REQUIRES_GRAD : 0);
        NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
        for (uint32_t i = 0; i < 2; i++) {
            bool wanted = which >> i & 1;
            assert_int_equal(native_backing(report, i, &bytes),
                             wanted ? DDISP_BACKING_REAL : DDISP_BACKING_OMITTED);
            if (wanted)
                mul_expect_gradient(&m, i == 0, 1);
            else
                native_expect_none(i == 0 ? m.a : m.b);
        }
        mul_free(&m);
    }
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}

/* Switches of source are for existing kernels too. */
static void macros_leave_gradients_out(void **state)
{
    static const char source[] =
        "extern \"C\" __global__ void mul_backward(const float *a, const float *b, const float "
        "*gy,\n"
        "                                        float *ga, float *gb, unsigned long long n)\n"
        "{\n"
        "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
        "    if (i < n) {\n"
        "        if (DDISP_SWITCH_0) atomicAdd(ga + i, gy[i] * b[i]);\n"
        "        if (DDISP_SWITCH_1) atomicAdd(gb + i, gy[i] * a[i]);\n"
        "    }\n"
        "}\n";
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = NULL;
    ddisp_report *report = native_report(f);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, report);
    uint64_t bytes = 0;
    native_own_code own;
    mul m;
    native_make_code(&own, "cuda-c++");
    own.code.bytes = source;
    own.code.size_bytes = sizeof source - 1;
    own.entries[0] = own.entries[1];
    own.code.entry_count = 1;
    NATIVE_OK(native_make_kernel(f, native_mul_params, 3, &own.code, 1, &kernel));
    mul_make(f, &m, 1000, DDISP_TENSOR_REQUIRES_GRAD, 0);
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL));
    assert_int_equal(native_backing(report, 1, &bytes), DDISP_BACKING_OMITTED);
    mul_expect_gradient(&m, true, 1);
    native_expect_none(m.b);
    mul_free(&m);
    ddisp_report_release(report);
    ddisp_kernel_release(kernel);
}

/* ---- lists that cannot be right */

static ddisp_status try_backward(const native_fixture *f, const ddisp_native_arg *args,
                                 uint32_t arg_count)
{
    native_own_code own;
    ddisp_kernel *kernel = NULL;
    native_make_code(&own, native_usual_format());
    own.entries[1].native = args;
    own.entries[1].native_count = arg_count;
    ddisp_status status = native_make_kernel(f, native_mul_params, 3, &own.code, 1, &kernel);
    ddisp_kernel_release(kernel);
    return status;
}

static void missing_gradient_is_found_when_the_kernel_is_made(void **state)
{
    const native_fixture *f = native_of(state);
    static const ddisp_native_arg args[5] = {
        DDISP_NATIVE(DDISP_SOURCE_DATA, 0), DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
        DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2), DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
        DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};
    NATIVE_FAILS(try_backward(f, args, 5), DDISP_STATUS_CODE_INVALID, "existing",
                 "gradient of 'b' that is added to", "GRAD_ADD");
}

static void swapped_arguments_are_found_when_the_kernel_is_made(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_native_arg args[6];
    memcpy(args, native_backward_args, sizeof args);
    args[4] = native_backward_args[5];
    args[5] = native_backward_args[4];
    NATIVE_FAILS(try_backward(f, args, 6), DDISP_STATUS_CODE_INVALID, "existing", "mul_backward",
                 "native argument 4 (the element count of 'y')", "address");
    memcpy(args, native_backward_args, sizeof args);
    args[5].size_bytes = 4;
    NATIVE_FAILS(try_backward(f, args, 6), DDISP_STATUS_CODE_INVALID,
                 "native argument 5 (the element count of 'y') has 4 bytes", "has 8");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, native_open, native_close)

/* On every device; on the host alone; on CUDA alone; with NVRTC. */
static const struct CMUnitTest common_tests[] = {
    TEST(existing_code_runs_with_its_own_arguments),
    TEST(frozen_input_costs_no_memory_through_the_sink),
    TEST(other_policies_hold_or_say_why_not),
    TEST(entries_of_masks_leave_gradients_out),
    TEST(missing_gradient_is_found_when_the_kernel_is_made),
};
static const struct CMUnitTest host_tests[] = {
    TEST(functions_of_a_library_run),
};
static const struct CMUnitTest cuda_tests[] = {
#if NATIVE_HAVE_BINARY
    TEST(fatbin_runs),
    TEST(first_code_that_fits_is_taken),
#endif
    TEST(swapped_arguments_are_found_when_the_kernel_is_made),
};
static const struct CMUnitTest nvrtc_tests[] = {
    TEST(source_runs_through_nvrtc),
    TEST(macros_leave_gradients_out),
};

static struct CMUnitTest chosen[64];
static size_t chosen_count;

static void choose(const struct CMUnitTest *tests, size_t count)
{
    assert_true(chosen_count + count <= sizeof chosen / sizeof chosen[0]);
    memcpy(chosen + chosen_count, tests, count * sizeof *tests);
    chosen_count += count;
}

#define CHOOSE(tests) choose(tests, sizeof(tests) / sizeof((tests)[0]))

/* What is missing on this machine, or NULL. */
static const char *missing(bool compiler)
{
    static char reason[1024];
    ddisp_context *context = NULL;
    native_fixture f = {0};
    f.info.size = (uint32_t)sizeof f.info;
    if (ddisp_context_create(NULL, &context) != DDISP_STATUS_OK ||
        ddisp_device_open(context, native_spec, &f.device) != DDISP_STATUS_OK ||
        ddisp_device_get_info(f.device, &f.info) != DDISP_STATUS_OK)
        (void)ddisp_last_error(reason, sizeof reason, NULL);
    else if (compiler && !native_takes(&f, "cuda-c++"))
        (void)snprintf(reason, sizeof reason, "%s takes %s: NVRTC of the CUDA toolkit is not found",
                       f.info.spec, f.info.formats);
    ddisp_device_release(f.device);
    ddisp_context_release(context);
    return reason[0] ? reason : NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "host";
    bool compiler = strcmp(what, "nvrtc") == 0;
    native_spec = compiler ? "cuda" : what;
    native_on_host = strcmp(native_spec, "host") == 0;
    const char *reason = missing(compiler);
    if (reason) {
        (void)printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    if (compiler) {
        CHOOSE(nvrtc_tests);
    } else {
        CHOOSE(common_tests);
        choose(native_scale_tests, native_scale_test_count);
        if (native_on_host) {
            CHOOSE(host_tests);
        } else {
            CHOOSE(cuda_tests);
            choose(native_group_tests, native_group_test_count);
        }
    }
    return _cmocka_run_group_tests(what, chosen, chosen_count, NULL, NULL);
}
