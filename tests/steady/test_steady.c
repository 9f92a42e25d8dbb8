/*
 * test_steady.c - the steady path: a launch whose signature is known, dynamic or prepared,
 * allocates nothing on the host (neither through the context's allocator nor by malloc,
 * which this program stands in for) and calls the driver once.
 */
#include "steady.h"

#include "mul_kernel.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHES 256

static atomic_uint_fast64_t allocations;

/* ---- the program's malloc */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);

static _Thread_local bool watching;

/* Drivers may allocate as they like. */
static void count(void *caller)
{
    Dl_info info;
    if (watching && dladdr(caller, &info) && info.dli_fname &&
        (strstr(info.dli_fname, "diffdispatch") || strstr(info.dli_fname, "ddisp-")))
        atomic_fetch_add(&allocations, 1);
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t items, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(items, size);
}

__attribute__((visibility("default"))) void *realloc(void *pointer, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_realloc(pointer, size);
}

/* ---- the context's allocator */

static void *allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    if (watching)
        atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size_bytes);
}

static void release(void *user_data, void *pointer)
{
    (void)user_data;
    free(pointer);
}

/* ---- what is launched */

typedef struct setup {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_stream *stream;
    ddisp_kernel *mul;
    ddisp_tensor *a, *b, *y;
    ddisp_arg args[3];
    ddisp_launch_options options;
} setup;

static setup s;

static void require(ddisp_status status)
{
    char message[512] = "";
    if (status)
        (void)ddisp_last_error(message, sizeof message, NULL);
    assert_string_equal(message, "");
    assert_int_equal(status, DDISP_STATUS_OK);
}

static ddisp_tensor *make_tensor(uint64_t flags)
{
    const int64_t shape[1] = {4};
    ddisp_tensor *tensor;
    require(ddisp_tensor_create(s.device, DDISP_DTYPE_F32, 1, shape, flags, &tensor));
    require(ddisp_tensor_fill(tensor, 1, NULL));
    return tensor;
}

static int open_all(void **state)
{
    static const ddisp_allocator allocator = {
        .size = sizeof allocator, .allocate = allocate, .release = release};
    ddisp_context_desc desc = DDISP_ZERO;
    (void)state;
    desc.size = (uint32_t)sizeof desc;
    desc.allocator = &allocator;
    desc.backends = steady_backend;
    require(ddisp_context_create(&desc, &s.context));
    require(ddisp_device_open(s.context, steady_backend, &s.device));
    steady_prepare();
    require(ddisp_stream_create(s.device, 0, &s.stream));
    require(ddisp_kernel_create(s.context, mul_kernel_desc(), &s.mul));
    s.a = make_tensor(DDISP_TENSOR_REQUIRES_GRAD);
    s.b = make_tensor(DDISP_TENSOR_REQUIRES_GRAD);
    s.y = make_tensor(DDISP_TENSOR_REQUIRES_GRAD);
    ddisp_tensor *upstream = make_tensor(0);
    require(ddisp_tensor_set_grad(s.y, upstream));
    ddisp_tensor_release(upstream);
    s.args[0].tensor = s.a;
    s.args[1].tensor = s.b;
    s.args[2].tensor = s.y;
    s.options.size = (uint32_t)sizeof s.options;
    s.options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ddisp_tensor_release(s.a);
    ddisp_tensor_release(s.b);
    ddisp_tensor_release(s.y);
    ddisp_kernel_release(s.mul);
    ddisp_stream_release(s.stream);
    ddisp_device_release(s.device);
    ddisp_context_release(s.context);
    return 0;
}

static void launch(ddisp_mode mode)
{
    require(ddisp_launch(s.mul, mode, s.args, 3, &s.options, s.stream));
}

/* Everything that is made once is made: variants, gradients, notes of use, batches, rings. */
static void begin(void)
{
    require(ddisp_stream_synchronize(s.stream, DDISP_TIMEOUT_INFINITE));
    steady_reset();
    atomic_store(&allocations, 0);
    watching = true;
}

static void end(void)
{
    watching = false;
    assert_int_equal(atomic_load(&allocations), 0);
    steady_check(LAUNCHES);
}

static void dynamic(ddisp_mode mode)
{
    for (int i = 0; i < 4 * LAUNCHES; i++)
        launch(mode);
    begin();
    for (int i = 0; i < LAUNCHES; i++)
        launch(mode);
    end();
}

static void a_cached_forward_launch_is_one_driver_call(void **state)
{
    (void)state;
    dynamic(DDISP_MODE_FORWARD);
}

static void a_cached_backward_launch_is_one_driver_call(void **state)
{
    (void)state;
    dynamic(DDISP_MODE_BACKWARD);
}

static void prepared(ddisp_mode mode)
{
    ddisp_plan *plan;
    launch(mode);
    require(ddisp_plan_create(s.mul, mode, s.args, 3, &s.options, s.stream, &plan));
    for (int i = 0; i < 4 * LAUNCHES; i++)
        require(ddisp_plan_launch(plan, s.args, 3, s.stream));
    begin();
    for (int i = 0; i < LAUNCHES; i++)
        require(ddisp_plan_launch(plan, s.args, 3, s.stream));
    end();
    ddisp_plan_release(plan);
}

static void a_prepared_forward_launch_is_one_driver_call(void **state)
{
    (void)state;
    prepared(DDISP_MODE_FORWARD);
}

static void a_prepared_backward_launch_is_one_driver_call(void **state)
{
    (void)state;
    prepared(DDISP_MODE_BACKWARD);
}

/* Without this a count of none would prove nothing. */
static void allocations_are_seen(void **state)
{
    (void)state;
    atomic_store(&allocations, 0);
    watching = true;
    ddisp_tensor *tensor = make_tensor(0);
    watching = false;
    ddisp_tensor_release(tensor);
    assert_true(atomic_load(&allocations) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_seen),
        cmocka_unit_test(a_cached_forward_launch_is_one_driver_call),
        cmocka_unit_test(a_cached_backward_launch_is_one_driver_call),
        cmocka_unit_test(a_prepared_forward_launch_is_one_driver_call),
        cmocka_unit_test(a_prepared_backward_launch_is_one_driver_call),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
