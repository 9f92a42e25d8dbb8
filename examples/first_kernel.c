/*
 * first_kernel.c - one kernel, one frozen input: the shortest complete program.
 *
 * y = a * b runs forward and backward on the best device of the machine. a requires a gradient, b
 * is frozen: backward makes a's gradient and nothing for b. The argument names another device.
 */
#include "mul_kernel.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the library's message when a call fails. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        const ddisp_status status_ = (call);                                                       \
        if (status_ != DDISP_STATUS_OK) {                                                          \
            char message_[512];                                                                    \
            ddisp_last_error(message_, sizeof message_, NULL);                                     \
            fprintf(stderr, "%s\n  %s: %s\n", #call, ddisp_status_name(status_), message_);        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { N = 1000 };

/* What the function takes, and the codes that compute it. */
static ddisp_kernel *make_kernel(ddisp_context *ctx)
{
    ddisp_kernel *mul;
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    };
    desc.size = (uint32_t)sizeof desc;
    desc.name = "mul";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = mul_codes(&desc.code_count); /* PTX, SPIR-V, C functions */
    desc.code_size = (uint32_t)sizeof desc.codes[0];
    CHECK(ddisp_kernel_create(ctx, &desc, &mul));
    return mul;
}

int main(int count, char **words)
{
    static float host_a[N], host_b[N], host_gy[N], host_ga[N];
    for (int i = 0; i < N; i++) {
        host_a[i] = (float)i;
        host_b[i] = 2.0f;
        host_gy[i] = 3.0f;
    }

    ddisp_context *ctx;
    ddisp_device *dev;
    CHECK(ddisp_context_create(NULL, &ctx));
    CHECK(ddisp_device_open(ctx, count > 1 ? words[1] : "auto", &dev));
    ddisp_kernel *mul = make_kernel(ctx);

    int64_t shape[1] = {N};
    ddisp_tensor *a, *b, *y, *gy;
    CHECK(ddisp_tensor_create(dev, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD, &a));
    CHECK(ddisp_tensor_create(dev, DDISP_DTYPE_F32, 1, shape, 0, &b)); /* frozen */
    CHECK(ddisp_tensor_create(dev, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD, &y));
    CHECK(ddisp_tensor_create(dev, DDISP_DTYPE_F32, 1, shape, 0, &gy));
    CHECK(ddisp_tensor_write(a, host_a, sizeof host_a, NULL)); /* NULL: the device's own stream */
    CHECK(ddisp_tensor_write(b, host_b, sizeof host_b, NULL));
    CHECK(ddisp_tensor_write(gy, host_gy, sizeof host_gy, NULL));

    ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    CHECK(ddisp_launch(mul, DDISP_MODE_FORWARD, args, 3, NULL, NULL));

    /* Backward takes y's gradient and adds to a's. */
    ddisp_report *report;
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    CHECK(ddisp_report_create(ctx, &report));
    options.report = report;
    CHECK(ddisp_tensor_set_grad(y, gy));
    CHECK(ddisp_launch(mul, DDISP_MODE_BACKWARD, args, 3, &options, NULL));

    char text[4096];
    CHECK(ddisp_report_format(report, text, sizeof text, NULL));
    printf("%s\n", text);

    ddisp_tensor *ga, *gb;
    CHECK(ddisp_tensor_grad(a, &ga));
    if (ddisp_tensor_grad(b, &gb) != DDISP_STATUS_NO_GRADIENT) {
        fprintf(stderr, "b is frozen and has a gradient\n");
        return 1;
    }
    CHECK(ddisp_tensor_read(ga, host_ga, sizeof host_ga, NULL));
    for (int i = 0; i < N; i++) {
        if (host_ga[i] != host_gy[i] * host_b[i]) {
            fprintf(stderr, "gradient of a[%d] is %g, expected 6\n", i, (double)host_ga[i]);
            return 1;
        }
    }
    printf("gradient of a: %g everywhere; of b: none\n", (double)host_ga[0]);

    ddisp_tensor_release(ga);
    ddisp_tensor_release(gy);
    ddisp_tensor_release(y);
    ddisp_tensor_release(b);
    ddisp_tensor_release(a);
    ddisp_report_release(report);
    ddisp_kernel_release(mul);
    ddisp_device_release(dev);
    ddisp_context_release(ctx);
    return 0;
}
