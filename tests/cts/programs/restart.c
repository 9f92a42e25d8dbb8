/*
 * restart.c - a program that runs y = a * b forward and, for each mixture of gradients, backward,
 * and tells what the kernel cache on disk had for it:
 *
 *   restart DEVICE         the kernel of the conformance suite in the device's usual format
 *   restart DEVICE source  CUDA C++ with its own arguments, compiled by NVRTC
 *
 * It prints "read R made M repaired P of DEVICE'S NAME". Status 77: there is no such device here,
 * or it does not take source; 1: something failed, or a result was wrong.
 */
#include "program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static const char source[] =
    "extern \"C\" __global__ void forward(const float *a, const float *b, float *y, unsigned long "
    "long n)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n)\n"
    "        y[i] = a[i] * b[i];\n"
    "}\n"
    "extern \"C\" __global__ void backward(const float *a, const float *b, const float *gy,\n"
    "                                    float *ga, float *gb, unsigned long long n)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        atomicAdd(ga + i, gy[i] * b[i]);\n"
    "        atomicAdd(gb + i, gy[i] * a[i]);\n"
    "    }\n"
    "}\n";
static const ddisp_native_arg forward_args[4] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0), DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_DATA, 2), DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};
static const ddisp_native_arg backward_args[6] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0),      DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2), DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1),  DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};

static ddisp_context *context;
static ddisp_device *device;

static ddisp_kernel *make_kernel(bool from_source)
{
    ddisp_kernel *kernel = NULL;
    ddisp_kernel_desc desc = describe_kernel(&cts_mul);
    ddisp_code code = DDISP_ZERO;
    ddisp_entry entries[2] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "forward", 128),
                              DDISP_ENTRY(DDISP_MODE_BACKWARD, "backward", 128)};
    if (from_source) {
        entries[0].native = forward_args;
        entries[0].native_count = 4;
        entries[1].native = backward_args;
        entries[1].native_count = 6;
        code.backend = "cuda";
        code.format = "cuda-c++";
        code.bytes = source;
        code.size_bytes = sizeof source - 1;
        code.entries = entries;
        code.entry_count = 2;
        code.entry_size = (uint32_t)sizeof entries[0];
        desc.codes = &code;
        desc.code_count = 1;
    }
    must(ddisp_kernel_create(context, &desc, &kernel), "kernel");
    return kernel;
}

static ddisp_tensor *make_tensor(float value, uint64_t flags)
{
    ddisp_tensor *tensor = NULL;
    int64_t n = N;
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = value;
    must(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, flags, &tensor), "tensor");
    must(ddisp_tensor_write(tensor, values, sizeof values, NULL), "write");
    return tensor;
}

static void expect(ddisp_tensor *tensor, float value, const char *what)
{
    float values[N];
    must(ddisp_tensor_read(tensor, values, sizeof values, NULL), "read");
    for (int i = 0; i < N; i++)
        if (values[i] != value) {
            printf("%s: element %d is %g instead of %g\n", what, i, (double)values[i],
                   (double)value);
            exit(1);
        }
}

static void expect_gradient(ddisp_tensor *tensor, float value, const char *what)
{
    ddisp_tensor *gradient = NULL;
    must(ddisp_tensor_grad(tensor, &gradient), what);
    expect(gradient, value, what);
    ddisp_tensor_release(gradient);
}

/** Forward and backward with the gradients of `mask`: bit 0 is a's, bit 1 b's. */
static void run_mixture(ddisp_kernel *kernel, unsigned mask)
{
    ddisp_tensor *a = make_tensor(3, mask & 1 ? DDISP_TENSOR_REQUIRES_GRAD : 0);
    ddisp_tensor *b = make_tensor(5, mask & 2 ? DDISP_TENSOR_REQUIRES_GRAD : 0);
    ddisp_tensor *y = make_tensor(0, DDISP_TENSOR_REQUIRES_GRAD), *g = make_tensor(2, 0);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    must(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL), "forward");
    expect(y, 15, "y");
    must(ddisp_tensor_set_grad(y, g), "set_grad");
    must(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL), "backward");
    if (mask & 1)
        expect_gradient(a, 10, "a's gradient");
    if (mask & 2)
        expect_gradient(b, 6, "b's gradient");
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
}

int main(int argument_count, char **arguments)
{
    bool from_source = argument_count == 3 && strcmp(arguments[2], "source") == 0;
    if (argument_count != 2 && !from_source)
        return 2;
    must(ddisp_context_create(NULL, &context), "context");
    ddisp_device_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    if (ddisp_device_open(context, arguments[1], &device))
        return 77;
    must(ddisp_device_get_info(device, &info), "info");
    if (from_source && !strstr(info.formats, "cuda-c++"))
        return 77;
    ddisp_kernel *kernel = make_kernel(from_source);
    for (unsigned mask = 0; mask < 4; mask++)
        run_mixture(kernel, mask);
    ddisp_kernel_statistics statistics = DDISP_ZERO;
    statistics.size = (uint32_t)sizeof statistics;
    must(ddisp_kernel_get_statistics(kernel, &statistics), "statistics");
    printf("read %llu made %llu repaired %llu of %s\n",
           (unsigned long long)statistics.artifacts_read,
           (unsigned long long)statistics.artifacts_made,
           (unsigned long long)statistics.artifacts_repaired, info.name);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    ddisp_context_release(context);
    return 0;
}
