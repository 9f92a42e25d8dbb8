/*
 * device_test.h - what the tests of the device headers share: the kernels, each with its code for
 * every backend, memory on the device under test, and launches of tensors described in place.
 */
#ifndef DDISP_TESTS_DEVICE_TEST_H
#define DDISP_TESTS_DEVICE_TEST_H

#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/** Fails with the library's message unless the call succeeded. */
#define CHECK(call) check_call((call), #call, __FILE__, __LINE__)
void check_call(ddisp_status status, const char *call, const char *file, int line);

/** Modes of DDISP_ADD_... */
enum { AUTOMATIC, PLAIN, REDUCED, HOWS };
/** Which codes a kernel is given: everything, from the most demanding on; without what only devices
 * of one vendor take; or only what every device takes (compare-and-swap instead of native float
 * atomics, PTX for the oldest target). */
enum { NEWEST, COMMON, OLDEST, BUILDS };

/** A kernel of kernels/, with its code for every backend. */
typedef struct source {
    const char *name;
    const ddisp_param *params;
    uint32_t param_count;
    ddisp_host_function forward, backward, masked[2]; /* masked: masks 5 and 6 */
    const uint32_t *spirv[4]; /* forward, backward_partitioned, backward, backward_cas */
    uint64_t spirv_size[4];
    bool is_mul;    /* its PTX is a file of its own */
    bool own_dtype; /* the gradient of parameter 0 has the dtype of its data */
    bool replays;   /* its one entry adds, and is launched forward */
} source;

/* In kernel order: mul, rows, order, many, then one each for f32, f64, f16 and bf16. */
enum { F32, F64, F16, BF16, TYPES };
extern const source mul_source, rows_source, order_source, many_source;
extern const source gather_sources[TYPES], replay_sources[TYPES];
/** f16 and bf16 with gradients of their own dtype; the others are as in gather_sources. */
extern const source gather_own_sources[TYPES];

/** What a test is given. */
typedef struct fixture {
    ddisp_context *context;
    ddisp_device *device;
    uint32_t build; /* NEWEST or OLDEST */
    ddisp_tensor *tensors[64];
    ddisp_kernel *kernels[8];
    uint32_t tensor_count, kernel_count;
} fixture;

ddisp_kernel *make_kernel(fixture *f, const source *from);
/** A dense tensor of count elements with that content (NULL: zeros), released with the test. */
ddisp_tensor *make_memory(fixture *f, ddisp_dtype dtype, int64_t count, const void *data);
uint64_t address_of(ddisp_tensor *memory);
void read_memory(ddisp_tensor *memory, void *data, uint64_t size_bytes);

/** A tensor argument, described in place. */
typedef struct operand {
    ddisp_tensor_view view;
    ddisp_arg arg;
} operand;
/** Of that rank, shape and strides (NULL: dense); element 0 lies `offset` elements into data. */
void describe(operand *o, ddisp_tensor *data, uint32_t rank, const int64_t *shape,
              const int64_t *strides, int64_t offset);
/** Its gradient, added to, of that dtype; NULL strides: dense. */
void give_add(operand *o, ddisp_tensor *memory, const int64_t *strides, int64_t offset);
/** Its upstream gradient. */
void give_read(operand *o, ddisp_tensor *memory, const int64_t *strides, int64_t offset);

/** Launches with those tensors, and scalars behind them. */
void launch(fixture *f, ddisp_kernel *kernel, ddisp_mode mode, uint32_t count,
            const operand *operands, const ddisp_arg *scalars, uint32_t scalar_count);
/** Options that say where to launch. Valid until the next call. */
const ddisp_launch_options *options_of(fixture *f);
/** Releases all memory made so far. */
void forget_memory(fixture *f);

/** Where item i of a shape lies, and the product of a shape, computed in the plainest way. */
int64_t place(uint32_t rank, const int64_t *shape, const int64_t *strides, int64_t i);
int64_t product(uint32_t rank, const int64_t *shape);

/** Numbers that look random; the same in every run. */
uint32_t next_random(uint64_t *state);

extern const ddisp_dtype dtype_of[TYPES];
/** Bits of an element of a type that is nearest to the value, and back. Any value of f16 and bf16
 * that the tests use is exact. */
void encode(int type, double value, void *element);
double decode(ddisp_dtype dtype, const void *element);

typedef void (*test_function)(fixture *f);
typedef struct test_case {
    const char *name;
    test_function run;
} test_case;
extern const test_case index_tests[], add_tests[], replay_tests[];

#endif
