/*
 * leave.c - a program that has run backward launches and then ends in the way it is told (case 47):
 *
 *   leave exit DEVICE        main returns with a launch under way, nothing was given back
 *   leave atexit DEVICE      everything is given back by a function of atexit
 *   leave destructor DEVICE  everything is given back after main, by a global destructor
 *   leave order DEVICE       the context and the device are given back first, then work goes on
 *
 * It prints nothing when all is well. Status 77: there is no such device here.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static ddisp_context *context;
static ddisp_device *device;
static ddisp_stream *stream;
static ddisp_kernel *kernel;
static ddisp_report *report;
static ddisp_tensor *a, *b, *y, *g;
static const char *way = "";

static void make(const char *spec)
{
    int64_t n = N;
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    must(ddisp_context_create(NULL, &context), "context");
    if (ddisp_device_open(context, spec, &device))
        exit(77);
    must(ddisp_stream_create(device, 0, &stream), "stream");
    must(ddisp_report_create(context, &report), "report");
    ddisp_kernel_desc desc = describe_kernel(&cts_mul_opaque);
    must(ddisp_kernel_create(context, &desc, &kernel), "kernel");
    must(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &a), "a");
    must(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &b), "b");
    must(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &y), "y");
    must(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &g), "g");
    must(ddisp_tensor_write(a, ones, sizeof ones, stream), "write a");
    must(ddisp_tensor_write(b, ones, sizeof ones, stream), "write b");
    must(ddisp_tensor_write(g, ones, sizeof ones, stream), "write g");
}

static void backward(void)
{
    ddisp_launch_options options = DDISP_ZERO;
    ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    options.size = (uint32_t)sizeof options;
    options.report = report;
    must(ddisp_tensor_set_grad(y, g), "set_grad");
    must(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, stream), "launch");
}

static void give_back(void)
{
    ddisp_context_release(context);
    ddisp_device_release(device);
    if (strcmp(way, "order") == 0) {
        float values[N];
        ddisp_tensor *gradient = NULL;
        backward(); /* kernel, tensors and stream still hold what they need */
        must(ddisp_tensor_grad(a, &gradient), "grad");
        must(ddisp_tensor_read(gradient, values, sizeof values, stream), "read");
        ddisp_tensor_release(gradient);
        if (values[0] != 6 || values[N - 1] != 6)
            printf("the gradient is %g instead of 6\n", (double)values[0]);
    }
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
    ddisp_kernel_release(kernel);
    ddisp_stream_release(stream);
    ddisp_tensor_release(b);
    ddisp_tensor_release(a);
    ddisp_report_release(report);
}

static void at_exit(void)
{
    if (strcmp(way, "atexit") == 0)
        give_back();
}

static __attribute__((destructor)) void at_the_very_end(void)
{
    if (strcmp(way, "destructor") == 0)
        give_back();
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3 || atexit(at_exit))
        return 2;
    make(arguments[2]);
    for (int i = 0; i < 5; i++)
        backward();
    way = arguments[1];
    if (strcmp(way, "order") == 0)
        give_back();
    return 0;
}
