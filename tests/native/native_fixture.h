/*
 * native_fixture.h - a device that takes native arguments, and short ways to make kernels, tensors
 * and launches for it.
 */
#ifndef NATIVE_FIXTURE_H
#define NATIVE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/diffdispatch.h>

typedef struct native_fixture {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_device_info info;
} native_fixture;

/** What native_open opens: "vulkan" unless a program sets it. */
extern const char *native_spec;

int native_open(void **state);
int native_close(void **state);
/** To be called first by each test: skips it where there is no device. */
native_fixture *native_of(void **state);

/** The call returns `status`, and its message contains every text that follows. */
#define NATIVE_FAILS(call, status, ...)                                                            \
    native_fails((call), (status), #call, (const char *[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void native_fails(ddisp_status status, ddisp_status expected, const char *call,
                  const char *const *texts, const char *file, int line);
#define NATIVE_OK(call) native_fails((call), DDISP_STATUS_OK, #call, NULL, __FILE__, __LINE__)

/** One entry of one code, and the kernel around it. */
typedef struct native_code {
    const ddisp_param *params;
    uint32_t param_count;
    const void *forward, *backward; /* SPIR-V, NULL: none */
    uint64_t forward_bytes, backward_bytes;
    const ddisp_native_arg *forward_args, *backward_args;
    uint32_t forward_count, backward_count;
    uint64_t flags;
    uint32_t group;       /* 0: 64 */
    uint64_t entry_flags; /* DDISP_ENTRY_... */
} native_code;
/** y = k * a * b through storage buffers, and through addresses. */
extern const native_code native_buffers, native_addresses;
ddisp_status native_kernel(const native_fixture *f, const native_code *code,
                           ddisp_kernel **out_kernel);

ddisp_tensor *native_vector(const native_fixture *f, int64_t n, uint64_t flags,
                            const float *values);
/** Every element is as expected. */
void native_values(ddisp_tensor *tensor, const float *expected, int64_t n);
/** The gradient is. */
void native_gradient(ddisp_tensor *tensor, const float *expected, int64_t n);
/** The gradient of an output: ones. */
void native_seed(const native_fixture *f, ddisp_tensor *tensor, int64_t n);
/** What the add slot of a parameter was given. */
ddisp_backing native_backing(const ddisp_report *report, uint32_t param, uint64_t *out_bytes);

/** Rooms of tests. */
extern const struct CMUnitTest native_limit_tests[];
extern const size_t native_limit_test_count;
extern const struct CMUnitTest native_broken_tests[];
extern const size_t native_broken_test_count;

#endif
