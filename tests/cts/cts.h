/*
 * cts.h - the fixture of the conformance suite.
 *
 * Every test is a function that is handed a `cts *`: a context, one device, and makers of tensors,
 * kernels and reports that are released after the test. Tensors lie between two guards of canary
 * bytes; at the end of a test the guards must be whole, the device must work, and every byte that
 * was allocated must have been given back.
 */
#ifndef CTS_H
#define CTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/diffdispatch.h>

#include "kernels/cts_kernels.h"

typedef struct cts {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_device_info info;
    struct cts_private *own;
} cts;

typedef struct cts_test {
    const char *name;
    void (*run)(cts *t);
    const char *backends;      /* where it has a meaning; NULL: everywhere */
    uint64_t allocation_bytes; /* least that a device must give in one piece */
} cts_test;
#define CTS_TEST(function)              CTS_TEST_NEEDS(NULL, 0, function)
#define CTS_TEST_ON(backends, function) CTS_TEST_NEEDS(backends, 0, function)
#define CTS_TEST_NEEDS(backends, allocation_bytes, function)                                       \
    {                                                                                              \
#function, function, backends, allocation_bytes                                            \
    }

#define CTS_END                                                                                    \
    {                                                                                              \
        NULL, NULL, NULL, 0                                                                        \
    }
/* The rooms of tests, each ended by CTS_END. */
extern const cts_test cts_mixture_tests[], cts_gradient_tests[], cts_upstream_tests[],
    cts_order_tests[], cts_memory_tests[], cts_view_tests[], cts_signature_tests[],
    cts_report_tests[], cts_bad_object_tests[], cts_bad_kernel_tests[], cts_bad_launch_tests[],
    cts_alias_tests[], cts_struct_tests[], cts_thread_tests[], cts_stream_tests[], cts_case_tests[],
    cts_code_tests[], cts_write_tests[], cts_graph_tests[], cts_accumulate_tests[],
    cts_copy_tests[], cts_scatter_tests[], cts_scatter_many_tests[], cts_scatter_bits_tests[],
    cts_sink_tests[], cts_event_tests[], cts_pool_tests[], cts_lasting_tests[],
    cts_deterministic_tests[], cts_deterministic_limit_tests[], cts_repeat_tests[];

/** Ends the test as skipped, with a reason (printf). Only from the test function itself. */
#define CTS_SKIP(t, ...)                                                                           \
    do {                                                                                           \
        cts_skip((t), __VA_ARGS__);                                                                \
        return;                                                                                    \
    } while (0)
void cts_skip(cts *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- results of calls */

/** The call returns OK; else the test fails with its message. */
#define CTS_OK(call) cts_ok((call), #call, __FILE__, __LINE__)
/** The call returns `status`, and its message contains every text that follows. */
#define CTS_FAILS(call, status, ...)                                                               \
    cts_fails((call), (status), #call, __FILE__, __LINE__, (const char *[]){__VA_ARGS__, NULL})
void cts_ok(ddisp_status status, const char *call, const char *file, int line);
void cts_fails(ddisp_status status, ddisp_status expected, const char *call, const char *file,
               int line, const char *const *texts);
/** Fails the test with a formatted message. */
_Noreturn void cts_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define CTS_CHECK(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            cts_fail(__FILE__, __LINE__, __VA_ARGS__);                                             \
    } while (0)

/* ---- tensors. All belong to the fixture; retain one to keep it. */

/** Bytes of canary before and after every tensor, and their value, which is also the first content
 * of a tensor that is made without data. */
#define CTS_GUARD  UINT64_C(256)
#define CTS_CANARY 0xAA

/** f32 tensor of rank 1 with the given values (NULL: canaries). */
ddisp_tensor *cts_vector(cts *t, int64_t n, uint64_t flags, const float *values);
/** The same, from literals: CTS_VECTOR(t, flags, 1, 2, 3). */
#define CTS_VECTOR(t, flags, ...)                                                                  \
    cts_vector((t), (int64_t)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (flags),      \
               (const float[]){__VA_ARGS__})
/** Any tensor; strides NULL: dense; data (dense, row-major) NULL: canaries. */
ddisp_tensor *cts_tensor(cts *t, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                         const int64_t *strides, uint64_t flags, const void *data);
/** Hands a tensor that the test made (or was given) to the fixture for release. */
ddisp_tensor *cts_own(cts *t, ddisp_tensor *tensor);
/** Element of its buffer where element (0, ..., 0) of a tensor of the fixture lies. */
int64_t cts_offset(ddisp_tensor *tensor);
ddisp_tensor_info cts_tensor_info(ddisp_tensor *tensor);
uint64_t cts_address(ddisp_tensor *tensor);

#define CTS_GRAD DDISP_TENSOR_REQUIRES_GRAD

/** The tensor's elements, exactly, in row-major order. */
#define CTS_VALUES(tensor, ...)                                                                    \
    cts_values((tensor), (const double[]){__VA_ARGS__},                                            \
               sizeof((const double[]){__VA_ARGS__}) / sizeof(double), #tensor, __FILE__,          \
               __LINE__)
void cts_values(ddisp_tensor *tensor, const double *expected, size_t count, const char *what,
                const char *file, int line);
/** The tensor's gradient is present and has these elements. */
#define CTS_GRADIENT(tensor, ...)                                                                  \
    cts_gradient((tensor), (const double[]){__VA_ARGS__},                                          \
                 sizeof((const double[]){__VA_ARGS__}) / sizeof(double), #tensor, __FILE__,        \
                 __LINE__)
void cts_gradient(ddisp_tensor *tensor, const double *expected, size_t count, const char *what,
                  const char *file, int line);
/** The tensor has no gradient, and asking for it says so. */
#define CTS_NO_GRADIENT(tensor) cts_no_gradient((tensor), #tensor, __FILE__, __LINE__)
void cts_no_gradient(ddisp_tensor *tensor, const char *what, const char *file, int line);
#define CTS_STATE(tensor, state) assert_int_equal(cts_tensor_info(tensor).grad_state, (state))
/** Reads all elements as doubles into values. */
void cts_read(ddisp_tensor *tensor, double *values, size_t count);

/** A tensor of any dtype from numbers, rounded to nearest even. */
ddisp_tensor *cts_numbers(cts *t, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                          const int64_t *strides, const double *values);
/** The number that the dtype has nearest to value. */
double cts_rounded(ddisp_dtype dtype, double value);
/** The number that 16 bits of f16 or bf16 stand for. */
double cts_from_half(ddisp_dtype dtype, uint16_t bits);
/** Below a limit; the same numbers everywhere. */
uint32_t cts_random(uint64_t *state, uint32_t below);
/** Strides for a shape: any order and direction of axes, with gaps, without overlap. */
void cts_random_strides(uint64_t *state, uint32_t rank, const int64_t *shape, int64_t *strides);

/** CTS_ROUNDS of the environment: how often what is about chance is done; a few times when not set.
 */
int cts_rounds(int few);
/** Whether the device adds one tensor to another, which conversions of gradients need. */
bool cts_accumulates(cts *t);
/** Whether the device has scatter-add, with these flags. */
bool cts_scatters(cts *t, uint64_t flags);

/* ---- kernels, launches, reports */

ddisp_kernel *cts_kernel(cts *t, const cts_source *source);
/** A kernel whose codes have these DDISP_CODE_... flags, and this code param (NULL: the source's).
 */
ddisp_kernel *cts_kernel_with(cts *t, const cts_source *source, uint64_t code_flags,
                              const ddisp_code_param *code_param);
ddisp_report *cts_report(cts *t);
ddisp_stream *cts_stream(cts *t);
/** Options with the given fields. */
ddisp_launch_options cts_options(ddisp_policy policy, uint64_t flags, ddisp_report *report);
ddisp_report_info cts_report_info(const ddisp_report *report);
ddisp_report_slot cts_slot(const ddisp_report *report, uint32_t param, bool is_add);

/** Launches with tensors for arguments (at most 8). */
ddisp_status cts_launch(ddisp_kernel *kernel, ddisp_mode mode, ddisp_tensor *const *tensors,
                        uint32_t count, const ddisp_launch_options *options);
#define CTS_TENSORS(...)                                                                           \
    (ddisp_tensor *const[]){__VA_ARGS__},                                                          \
        (uint32_t)(sizeof((ddisp_tensor *const[]){__VA_ARGS__}) / sizeof(ddisp_tensor *))
#define CTS_FORWARD(kernel, ...)                                                                   \
    CTS_OK(cts_launch((kernel), DDISP_MODE_FORWARD, CTS_TENSORS(__VA_ARGS__), NULL))
/** The status of a backward launch; options may be NULL. */
#define CTS_BACKWARD(kernel, options, ...)                                                         \
    cts_launch((kernel), DDISP_MODE_BACKWARD, CTS_TENSORS(__VA_ARGS__), (options))

/* ---- nothing has changed */

ddisp_device_statistics cts_statistics(cts *t);
/** Notes the counters, the bytes of all tensors of the fixture, and their gradients. */
void cts_note(cts *t);
/** Everything is as noted. */
#define CTS_UNCHANGED(t) cts_unchanged((t), __FILE__, __LINE__)
void cts_unchanged(cts *t, const char *file, int line);
/** The call fails with status and these texts, and changes nothing. */
#define CTS_REFUSED(t, call, status, ...)                                                          \
    do {                                                                                           \
        cts_note(t);                                                                               \
        CTS_FAILS(call, status, __VA_ARGS__);                                                      \
        CTS_UNCHANGED(t);                                                                          \
    } while (0)

/* ---- between fixture files */

cts *cts_begin(ddisp_context *context, ddisp_device *device);
/** Skip reason, or NULL. */
const char *cts_skipped(const cts *t);
/** The checks at the end of a test that got there. Releases what the fixture made. */
void cts_finish(cts *t);
/** Releases everything, also after a failure. */
void cts_end(cts *t);

#endif
