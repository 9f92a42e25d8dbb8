/*
 * native_mul.h - y = a * b by functions and kernels of somebody else, for the tests of native
 * arguments on host and CUDA: their codes in every format, the tensors, and what must come out.
 */
#ifndef NATIVE_MUL_H
#define NATIVE_MUL_H

#include "native_fixture.h"

/** The device is the host, else CUDA. */
extern bool native_on_host;

#define NATIVE_FUNCTION(function) (ddisp_host_function)(void (*)(void))(function)

/** a and b (inputs) and y, f32 of rank 1, differentiable. */
extern const ddisp_param native_mul_params[3];
extern const ddisp_native_arg native_backward_args[6];

/** A code of the device: entries of mul forward and backward, of one format. */
typedef struct native_own_code {
    ddisp_entry entries[4];
    ddisp_code code;
} native_own_code;

/** The device's code of a format: the bytes alone; with entries mul_forward and mul_backward. */
void native_set_bytes(ddisp_code *code, const char *format);
void native_make_code(native_own_code *own, const char *format);
void native_add_entry(native_own_code *own, ddisp_mode mode, const char *name,
                      ddisp_host_function function, const ddisp_native_arg *args,
                      uint32_t arg_count);
/** "host-function" or "ptx". */
const char *native_usual_format(void);
/** Whether the device's formats have one. */
bool native_takes(const native_fixture *f, const char *format);
ddisp_status native_make_kernel(const native_fixture *f, const ddisp_param *params, uint32_t count,
                                const ddisp_code *codes, uint32_t code_count,
                                ddisp_kernel **out_kernel);
ddisp_kernel *native_mul_kernel(const native_fixture *f, const char *format);

ddisp_launch_options native_options(ddisp_policy policy, ddisp_report *report);
ddisp_report *native_report(const native_fixture *f);
/** Index of the code that a launch used. */
uint32_t native_code_used(const ddisp_report *report);
/** The tensor has no gradient, and asking for it says so. */
void native_expect_none(ddisp_tensor *tensor);

/** Tensors: a[i] = i % 7, b[i] = i % 5 + 1, an upstream of 2. */
typedef struct mul {
    int64_t n;
    float *values; /* room for a comparison */
    ddisp_tensor *a, *b, *y;
} mul;

void mul_make(const native_fixture *f, mul *m, int64_t n, uint64_t a_flags, uint64_t b_flags);
void mul_free(mul *m);
ddisp_status mul_launch(ddisp_kernel *kernel, ddisp_mode mode, const mul *m,
                        const ddisp_launch_options *options, ddisp_stream *stream);
void mul_expect_product(mul *m);
/** The gradient of a (or b) is that of `times` backward launches. */
void mul_expect_gradient(mul *m, bool of_a, float times);

/** Rooms of tests: on every device, and on those with groups. */
extern const struct CMUnitTest native_scale_tests[], native_group_tests[];
extern const size_t native_scale_test_count, native_group_test_count;

#endif
