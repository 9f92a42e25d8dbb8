/*
 * test_wrap_cuda.c - the library in a CUDA context of the application that is not the primary one,
 * on its stream and its memory, with another context current. The driver is found by dlopen, since
 * the application here is a test that needs no toolkit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>

#include <diffdispatch/cuda.h>
#include <diffdispatch/diffdispatch.h>

#include "cts_kernels.h"

enum { N = 100000 };

/* What the application uses of the driver: results and devices are int, handles pointers. */
static struct {
    int (*init)(unsigned int flags);
    int (*device_get)(int *out_device, int ordinal);
    int (*ctx_create)(void **out_context, unsigned int flags, int device);
    int (*ctx_destroy)(void *context);
    int (*ctx_get_current)(void **out_context);
    int (*ctx_set_current)(void *context);
    int (*stream_create)(void **out_stream, unsigned int flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*mem_alloc)(unsigned long long *out_address, size_t size_bytes);
    int (*mem_free)(unsigned long long address);
    int (*memset_d32_async)(unsigned long long address, unsigned int value, size_t count,
                            void *stream);
    int (*memcpy_dtoh_async)(void *target, unsigned long long source, size_t size_bytes,
                             void *stream);
} cu;

static const struct {
    const char *name;
    size_t place;
} entries[] = {
    {"cuInit", offsetof(__typeof__(cu), init)},
    {"cuDeviceGet", offsetof(__typeof__(cu), device_get)},
    {"cuCtxCreate_v2", offsetof(__typeof__(cu), ctx_create)},
    {"cuCtxDestroy_v2", offsetof(__typeof__(cu), ctx_destroy)},
    {"cuCtxGetCurrent", offsetof(__typeof__(cu), ctx_get_current)},
    {"cuCtxSetCurrent", offsetof(__typeof__(cu), ctx_set_current)},
    {"cuStreamCreate", offsetof(__typeof__(cu), stream_create)},
    {"cuStreamDestroy_v2", offsetof(__typeof__(cu), stream_destroy)},
    {"cuStreamSynchronize", offsetof(__typeof__(cu), stream_synchronize)},
    {"cuMemAlloc_v2", offsetof(__typeof__(cu), mem_alloc)},
    {"cuMemFree_v2", offsetof(__typeof__(cu), mem_free)},
    {"cuMemsetD32Async", offsetof(__typeof__(cu), memset_d32_async)},
    {"cuMemcpyDtoHAsync_v2", offsetof(__typeof__(cu), memcpy_dtoh_async)},
};

static struct {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_kernel *kernel; /* y = x * x */
    void *mine, *other;   /* contexts: the one that is lent, and one that is current meanwhile */
    void *stream;
    unsigned long long in, out;
    float *found;
} app;

static bool find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof entries / sizeof entries[0]; i++) {
        void *address = dlsym(library, entries[i].name);
        if (!address)
            return false;
        memcpy((char *)&cu + entries[i].place, &address, sizeof address);
    }
    return library && cu.init(0) == 0;
}

#define CU(call) assert_int_equal((call), 0)
#define OK(call) expect_ok((call), #call, __LINE__)

/* The call succeeded, and left the context current that was. */
static void expect_ok(ddisp_status status, const char *call, int line)
{
    char message[1024] = "";
    void *current = NULL;
    (void)ddisp_last_error(message, sizeof message, NULL);
    if (status != DDISP_STATUS_OK)
        fail_msg("line %d: %s: %s", line, call, message);
    CU(cu.ctx_get_current(&current));
    if (current != app.other)
        fail_msg("line %d: %s left another context current", line, call);
}

static void make_kernel(void)
{
    const cts_source *source = &cts_square;
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = source->name;
    desc.params = source->params;
    desc.param_count = source->param_count;
    desc.param_size = (uint32_t)sizeof *source->params;
    desc.codes = source->codes;
    desc.code_count = source->code_count;
    desc.code_size = (uint32_t)sizeof *source->codes;
    OK(ddisp_kernel_create(app.context, &desc, &app.kernel));
}

static int set_up(void **state)
{
    ddisp_context_desc desc = DDISP_ZERO;
    int device = 0;
    (void)state;
    desc.size = (uint32_t)sizeof desc;
    desc.backends = "cuda";
    CU(cu.device_get(&device, 0));
    app.found = malloc(N * sizeof *app.found);
    CU(cu.ctx_create(&app.other, 0, device));
    CU(cu.ctx_create(&app.mine, 0, device)); /* and current */
    CU(cu.stream_create(&app.stream, 1));
    CU(cu.mem_alloc(&app.in, N * sizeof(float)));
    CU(cu.mem_alloc(&app.out, N * sizeof(float)));
    CU(cu.ctx_set_current(app.other));
    OK(ddisp_context_create(&desc, &app.context));
    ddisp_cuda_device_desc native = DDISP_ZERO;
    native.head.size = (uint32_t)sizeof native;
    native.head.type = DDISP_CHAIN_CUDA_DEVICE;
    native.context = app.mine;
    OK(ddisp_device_wrap(app.context, "cuda", &native.head, &app.device));
    make_kernel();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ddisp_kernel_release(app.kernel);
    ddisp_device_release(app.device);
    ddisp_context_release(app.context);
    /* The context is the application's, and works on. */
    CU(cu.ctx_set_current(app.mine));
    CU(cu.memset_d32_async(app.in, 0, N, app.stream));
    CU(cu.stream_synchronize(app.stream));
    CU(cu.mem_free(app.in));
    CU(cu.mem_free(app.out));
    CU(cu.stream_destroy(app.stream));
    CU(cu.ctx_destroy(app.mine));
    CU(cu.ctx_destroy(app.other));
    free(app.found);
    return 0;
}

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

static ddisp_tensor *lent(unsigned long long address, int *releases)
{
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *tensor = NULL;
    const int64_t n = N;
    OK(ddisp_buffer_wrap(app.device, address, N * sizeof(float), count_release, releases, &buffer));
    OK(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 1, &n, NULL, 0, 0, &tensor));
    ddisp_buffer_release(buffer);
    return tensor;
}

/* Cases 36 and 41: the application writes, the library computes, the application reads, all on one
 * stream with nothing between; and another context is current all the time. */
static void case_41_library_work_is_in_the_streams_order(void **state)
{
    ddisp_stream *stream = NULL;
    int releases = 0;
    (void)state;
    CU(cu.ctx_set_current(app.other));
    OK(ddisp_stream_wrap(app.device, (uint64_t)(uintptr_t)app.stream, &stream));
    ddisp_tensor *x = lent(app.in, &releases), *y = lent(app.out, &releases);
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    for (int round = 1; round <= 200; round++) {
        const float value = (float)round;
        unsigned int bits;
        memcpy(&bits, &value, sizeof bits);
        CU(cu.ctx_set_current(app.mine));
        CU(cu.memset_d32_async(app.in, bits, N, app.stream));
        CU(cu.ctx_set_current(app.other));
        OK(ddisp_launch(app.kernel, DDISP_MODE_FORWARD, args, 2, NULL, stream));
        CU(cu.ctx_set_current(app.mine));
        CU(cu.memcpy_dtoh_async(app.found, app.out, N * sizeof(float), app.stream));
        CU(cu.memset_d32_async(app.out, 0, N, app.stream));
        CU(cu.stream_synchronize(app.stream));
        CU(cu.ctx_set_current(app.other));
        for (int i = 0; i < N; i++)
            if (app.found[i] != value * value)
                fail_msg("round %d: element %d is %g", round, i, (double)app.found[i]);
    }
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    OK(ddisp_device_synchronize(app.device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(releases, 2);
}

/* Memory, gradients and graphs of the library's own in the lent context. */
static void case_36_everything_works_in_the_lent_context(void **state)
{
    const int64_t n = 3;
    float values[3] = {1, 2, 3};
    const float ones[3] = {1, 1, 1};
    ddisp_tensor *x = NULL, *y = NULL, *g = NULL, *gradient = NULL;
    ddisp_stream *stream = NULL;
    ddisp_graph *graph = NULL;
    (void)state;
    CU(cu.ctx_set_current(app.other));
    OK(ddisp_tensor_create(app.device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &x));
    OK(ddisp_tensor_create(app.device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &y));
    OK(ddisp_tensor_create(app.device, DDISP_DTYPE_F32, 1, &n, 0, &g));
    OK(ddisp_tensor_write(x, values, sizeof values, NULL));
    OK(ddisp_tensor_write(g, ones, sizeof ones, NULL));
    OK(ddisp_tensor_set_grad(y, g));
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    OK(ddisp_launch(app.kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL));
    OK(ddisp_launch(app.kernel, DDISP_MODE_BACKWARD, args, 2, NULL, NULL));
    OK(ddisp_tensor_grad(x, &gradient));
    OK(ddisp_tensor_read(gradient, values, sizeof values, NULL));
    assert_true(values[0] == 2 && values[1] == 4 && values[2] == 6);
    OK(ddisp_device_synchronize(app.device, DDISP_TIMEOUT_INFINITE));
    OK(ddisp_stream_create(app.device, 0, &stream));
    OK(ddisp_stream_begin_capture(stream));
    OK(ddisp_launch(app.kernel, DDISP_MODE_FORWARD, args, 2, NULL, stream));
    OK(ddisp_stream_end_capture(stream, &graph));
    OK(ddisp_graph_launch(graph, stream));
    OK(ddisp_tensor_read(y, values, sizeof values, stream));
    assert_true(values[0] == 1 && values[1] == 4 && values[2] == 9);
    OK(ddisp_device_trim(app.device));
    ddisp_graph_release(graph);
    ddisp_stream_release(stream);
    ddisp_tensor_release(gradient);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_41_library_work_is_in_the_streams_order),
        cmocka_unit_test(case_36_everything_works_in_the_lent_context),
    };
    int device;
    if (!find_driver() || cu.device_get(&device, 0) != 0) {
        printf("1..0 # SKIP there is no CUDA driver, or no device\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
