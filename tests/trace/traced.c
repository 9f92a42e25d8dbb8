/*
 * traced.c - launches to be traced: forward and backward of y = a*b on three threads, each on a
 * stream of its own, prepared and replayed ones on the main thread.
 *
 *   traced DEVICE release|abandon
 *
 * "abandon" ends the process with everything alive and work perhaps still running.
 */
#include "mul_kernel.h"

#include <diffdispatch/diffdispatch.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 3
#define ROUNDS  10

static ddisp_context *context;
static ddisp_device *device;
static ddisp_kernel *mul;

static void check(ddisp_status status)
{
    char message[512];
    if (!status)
        return;
    (void)ddisp_last_error(message, sizeof message, NULL);
    fprintf(stderr, "traced: %s\n", message);
    exit(1);
}

typedef struct subject {
    ddisp_stream *stream;
    ddisp_arg args[3];
} subject;

static void make(subject *s)
{
    const int64_t shape[1] = {16};
    memset(s, 0, sizeof *s);
    check(ddisp_stream_create(device, 0, &s->stream));
    for (int i = 0; i < 3; i++) {
        check(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape,
                                  i == 1 ? 0 : DDISP_TENSOR_REQUIRES_GRAD, &s->args[i].tensor));
        check(ddisp_tensor_fill(s->args[i].tensor, 1, s->stream));
    }
}

static void drop(subject *s)
{
    for (int i = 0; i < 3; i++)
        ddisp_tensor_release(s->args[i].tensor);
    ddisp_stream_release(s->stream);
}

static void *work(void *released)
{
    subject s;
    make(&s);
    for (int i = 0; i < ROUNDS; i++) {
        check(ddisp_launch(mul, DDISP_MODE_FORWARD, s.args, 3, NULL, s.stream));
        check(ddisp_tensor_set_grad(s.args[2].tensor, s.args[1].tensor));
        check(ddisp_launch(mul, DDISP_MODE_BACKWARD, s.args, 3, NULL, s.stream));
    }
    if (released)
        drop(&s);
    return NULL;
}

int main(int count, char **values)
{
    pthread_t threads[THREADS];
    subject s;
    ddisp_plan *plan;
    ddisp_graph *graph;
    if (count != 3)
        return 2;
    bool release = strcmp(values[2], "release") == 0;
    check(ddisp_context_create(NULL, &context));
    ddisp_status status = ddisp_device_open(context, values[1], &device);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE || status == DDISP_STATUS_NOT_FOUND)
        return 77;
    check(status);
    check(ddisp_kernel_create(context, mul_kernel_desc(), &mul));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, release ? &release : NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    make(&s);
    check(ddisp_plan_create(mul, DDISP_MODE_FORWARD, s.args, 3, NULL, s.stream, &plan));
    check(ddisp_plan_launch(plan, s.args, 3, s.stream));
    check(ddisp_stream_synchronize(s.stream, DDISP_TIMEOUT_INFINITE));
    check(ddisp_stream_begin_capture(s.stream));
    check(ddisp_launch(mul, DDISP_MODE_FORWARD, s.args, 3, NULL, s.stream));
    check(ddisp_stream_end_capture(s.stream, &graph));
    check(ddisp_graph_launch(graph, s.stream));
    if (!release)
        _exit(0);
    ddisp_graph_release(graph);
    ddisp_plan_release(plan);
    drop(&s);
    ddisp_kernel_release(mul);
    ddisp_device_release(device);
    ddisp_context_release(context);
    return 0;
}
