/*
 * native_mul.c - see native_mul.h.
 */
#include "native_mul.h"

#include "mul_existing.cu.h"
#include "mul_existing.ptx.h"
#if NATIVE_HAVE_BINARY
#include "mul_existing.cubin.h"
#include "mul_existing.fatbin.h"
#endif

#include <stdlib.h>

bool native_on_host;

/* ---- the C functions */

typedef unsigned long long size;

static void mul_forward(const float *a, const float *b, float *y, size n)
{
    for (size i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void mul_backward(const float *a, const float *b, const float *gy, float *ga, float *gb,
                         size n)
{
    for (size i = 0; i < n; i++) {
        ga[i] += gy[i] * b[i];
        gb[i] += gy[i] * a[i];
    }
}

/* ---- kernels */

const ddisp_param native_mul_params[3] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
};
static const ddisp_native_arg forward_args[4] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0), DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_DATA, 2), DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};
const ddisp_native_arg native_backward_args[6] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0),      DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2), DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1),  DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};

/* One path for the test's life. */
static const char *library_path(void)
{
    const char *path = getenv("DDISP_TEST_NATIVE_LIBRARY");
    assert_non_null(path);
    return path;
}

void native_set_bytes(ddisp_code *code, const char *format)
{
    code->backend = native_on_host ? "host" : "cuda";
    code->format = format;
    if (!strcmp(format, "ptx")) {
        code->bytes = mul_existing_ptx;
        code->size_bytes = sizeof mul_existing_ptx - 1;
    } else if (!strcmp(format, "cuda-c++")) {
        code->bytes = mul_existing_cu;
        code->size_bytes = sizeof mul_existing_cu - 1;
    } else if (!strcmp(format, "host-library")) {
        code->bytes = library_path();
        code->size_bytes = strlen(library_path()) + 1;
    }
#if NATIVE_HAVE_BINARY
    if (!strcmp(format, "cubin")) {
        code->bytes = mul_existing_cubin;
        code->size_bytes = sizeof mul_existing_cubin;
    } else if (!strcmp(format, "fatbin")) {
        code->bytes = mul_existing_fatbin;
        code->size_bytes = sizeof mul_existing_fatbin;
    }
#endif
}

void native_add_entry(native_own_code *own, ddisp_mode mode, const char *name,
                      ddisp_host_function function, const ddisp_native_arg *args,
                      uint32_t arg_count)
{
    ddisp_entry entry = DDISP_ENTRY(mode, name, 128);
    entry.function = function;
    entry.function_id = native_on_host ? (uint64_t)mode : 0;
    entry.native = args;
    entry.native_count = arg_count;
    own->entries[own->code.entry_count++] = entry;
}

void native_make_code(native_own_code *own, const char *format)
{
    memset(own, 0, sizeof *own);
    native_set_bytes(&own->code, format);
    own->code.entries = own->entries;
    own->code.entry_size = (uint32_t)sizeof own->entries[0];
    bool pointers = !strcmp(format, "host-function");
    native_add_entry(own, DDISP_MODE_FORWARD, "mul_forward",
                     pointers ? NATIVE_FUNCTION(mul_forward) : NULL, forward_args, 4);
    native_add_entry(own, DDISP_MODE_BACKWARD, "mul_backward",
                     pointers ? NATIVE_FUNCTION(mul_backward) : NULL, native_backward_args, 6);
}

const char *native_usual_format(void)
{
    return native_on_host ? "host-function" : "ptx";
}

ddisp_status native_make_kernel(const native_fixture *f, const ddisp_param *params, uint32_t count,
                                const ddisp_code *codes, uint32_t code_count,
                                ddisp_kernel **out_kernel)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "existing";
    desc.params = params;
    desc.param_count = count;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = code_count;
    desc.code_size = (uint32_t)sizeof codes[0];
    return ddisp_kernel_create(f->context, &desc, out_kernel);
}

ddisp_kernel *native_mul_kernel(const native_fixture *f, const char *format)
{
    native_own_code own;
    ddisp_kernel *kernel = NULL;
    native_make_code(&own, format);
    NATIVE_OK(native_make_kernel(f, native_mul_params, 3, &own.code, 1, &kernel));
    return kernel;
}

/* ---- tensors of a multiplication: a[i] = i % 7, b[i] = i % 5 + 1, upstream 2 */

static float a_of(int64_t i)
{
    return (float)(i % 7);
}

static float b_of(int64_t i)
{
    return (float)(i % 5 + 1);
}

void mul_make(const native_fixture *f, mul *m, int64_t n, uint64_t a_flags, uint64_t b_flags)
{
    m->n = n;
    m->values = malloc((size_t)n * sizeof *m->values);
    assert_non_null(m->values);
    for (int64_t i = 0; i < n; i++)
        m->values[i] = a_of(i);
    m->a = native_vector(f, n, a_flags, m->values);
    for (int64_t i = 0; i < n; i++)
        m->values[i] = b_of(i);
    m->b = native_vector(f, n, b_flags, m->values);
    m->y = native_vector(f, n, DDISP_TENSOR_REQUIRES_GRAD, NULL);
    for (int64_t i = 0; i < n; i++)
        m->values[i] = 2;
    ddisp_tensor *upstream = native_vector(f, n, 0, m->values);
    NATIVE_OK(ddisp_tensor_set_grad(m->y, upstream));
    ddisp_tensor_release(upstream);
}

void mul_free(mul *m)
{
    ddisp_tensor_release(m->a);
    ddisp_tensor_release(m->b);
    ddisp_tensor_release(m->y);
    free(m->values);
}

ddisp_status mul_launch(ddisp_kernel *kernel, ddisp_mode mode, const mul *m,
                        const ddisp_launch_options *options, ddisp_stream *stream)
{
    const ddisp_arg args[3] = {DDISP_ARG(m->a), DDISP_ARG(m->b), DDISP_ARG(m->y)};
    return ddisp_launch(kernel, mode, args, 3, options, stream);
}

ddisp_launch_options native_options(ddisp_policy policy, ddisp_report *report)
{
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.report = report;
    return options;
}

void mul_expect_product(mul *m)
{
    for (int64_t i = 0; i < m->n; i++)
        m->values[i] = a_of(i) * b_of(i);
    native_values(m->y, m->values, m->n);
}

/* The gradient of a (or b) is that of `times` backward launches. */
void mul_expect_gradient(mul *m, bool of_a, float times)
{
    for (int64_t i = 0; i < m->n; i++)
        m->values[i] = times * 2 * (of_a ? b_of(i) : a_of(i));
    native_gradient(of_a ? m->a : m->b, m->values, m->n);
}

void native_expect_none(ddisp_tensor *tensor)
{
    ddisp_tensor *gradient = NULL;
    NATIVE_FAILS(ddisp_tensor_grad(tensor, &gradient), DDISP_STATUS_NO_GRADIENT, "");
}

ddisp_report *native_report(const native_fixture *f)
{
    ddisp_report *report = NULL;
    NATIVE_OK(ddisp_report_create(f->context, &report));
    return report;
}

uint32_t native_code_used(const ddisp_report *report)
{
    ddisp_report_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    NATIVE_OK(ddisp_report_get_info(report, &info));
    return info.code;
}

/* Whether the device's formats have one. */
bool native_takes(const native_fixture *f, const char *format)
{
    const char *found = strstr(f->info.formats, format);
    return found && (found == f->info.formats || found[-1] == ',');
}
