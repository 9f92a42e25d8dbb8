/*
 * A program outside the tree, in C99 and in C++11: opens the host device of the installed library
 * and runs y = a * b backward with b frozen. Prints "consumer ok" and exits 0 when the gradient is
 * right.
 */
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

#include <stdio.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != DDISP_STATUS_OK) {                                                           \
            char text[512];                                                                        \
            (void)ddisp_last_error(text, sizeof text, NULL);                                       \
            fprintf(stderr, "%s: %s\n", #call, text);                                              \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void mul_backward(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *a = DDISP_BLOCK_TENSOR(block, 0);
    const ddisp_device_tensor *b = DDISP_BLOCK_TENSOR(block, 1);
    const ddisp_device_tensor *y = DDISP_BLOCK_TENSOR(block, 2);
    const float *a_data = (const float *)(uintptr_t)a->data;
    const float *b_data = (const float *)(uintptr_t)b->data;
    const float *upstream = (const float *)(uintptr_t)y->grad_read;
    float *a_grad = (float *)(uintptr_t)a->grad_add;
    float *b_grad = (float *)(uintptr_t)b->grad_add;
    uint64_t i;
    for (i = begin; i < end; i++) {
        if (a_grad)
            a_grad[i] += upstream[i] * b_data[i];
        if (b_grad)
            b_grad[i] += upstream[i] * a_data[i];
    }
}

int main(void)
{
    const ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    };
    const ddisp_entry entries[1] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, mul_backward, 1),
    };
    ddisp_code_param plain[2] = DDISP_ZERO;
    ddisp_code codes[1] = {
        DDISP_CODE("host", "host-function", NULL, 0, entries, DDISP_CODE_NULL_SAFE),
    };
    const float a_values[4] = {1, 2, 3, 4}, b_values[4] = {5, 6, 7, 8}, ones[4] = {1, 1, 1, 1};
    const int64_t shape[1] = {4};
    float got[4] = {0, 0, 0, 0};
    ddisp_context *context;
    ddisp_device *device;
    ddisp_kernel *kernel;
    ddisp_tensor *a, *b, *y, *upstream, *grad, *none;
    ddisp_kernel_desc desc = DDISP_ZERO;
    int i;

    plain[0].write_mode = DDISP_WRITE_MODE_PLAIN_ADD;
    plain[1].param = 1;
    plain[1].write_mode = DDISP_WRITE_MODE_PLAIN_ADD;
    codes[0].params = plain;
    codes[0].param_count = 2;
    codes[0].param_size = (uint32_t)sizeof plain[0];
    desc.size = (uint32_t)sizeof desc;
    desc.name = "mul";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = 1;
    desc.code_size = (uint32_t)sizeof codes[0];

    CHECK(ddisp_context_create(NULL, &context));
    CHECK(ddisp_device_open(context, "host", &device));
    CHECK(ddisp_kernel_create(context, &desc, &kernel));
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD, &a));
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, 0, &b));
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD, &y));
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, 0, &upstream));
    CHECK(ddisp_tensor_write(a, a_values, sizeof a_values, NULL));
    CHECK(ddisp_tensor_write(b, b_values, sizeof b_values, NULL));
    CHECK(ddisp_tensor_write(upstream, ones, sizeof ones, NULL));
    CHECK(ddisp_tensor_set_grad(y, upstream));
    {
        const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
        CHECK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    }
    CHECK(ddisp_tensor_grad(a, &grad));
    CHECK(ddisp_tensor_read(grad, got, sizeof got, NULL));
    for (i = 0; i < 4; i++) {
        if (got[i] != b_values[i]) {
            fprintf(stderr, "gradient of a at %d is %g, not %g\n", i, (double)got[i],
                    (double)b_values[i]);
            return 1;
        }
    }
    if (ddisp_tensor_grad(b, &none) != DDISP_STATUS_NO_GRADIENT) {
        fprintf(stderr, "the frozen input has a gradient\n");
        return 1;
    }
    ddisp_tensor_release(grad);
    ddisp_tensor_release(upstream);
    ddisp_tensor_release(y);
    ddisp_tensor_release(b);
    ddisp_tensor_release(a);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    ddisp_context_release(context);
    printf("consumer ok\n");
    return 0;
}
