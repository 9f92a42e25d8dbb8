/*
 * strided.c - tensors that are not dense: y = a * b, where a is stored by columns, b is one row
 * that is repeated, and the upstream gradient is one number for all of y.
 *
 * The kernel indexes with the strides in its argument block, so nothing is copied. The gradient of
 * the repeated row has stride 0 like the row itself: backward reduces into it. The argument names
 * another device.
 */
#include "mul_kernel.h"

#include <stdio.h>
#include <stdlib.h>

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

enum { ROWS = 3, COLUMNS = 5 };

/* A tensor of ROWS x COLUMNS over the given numbers. */
static ddisp_tensor *make(ddisp_device *dev, const float *numbers, uint64_t count,
                          int64_t row_stride, int64_t column_stride, uint64_t flags)
{
    const int64_t shape[2] = {ROWS, COLUMNS}, strides[2] = {row_stride, column_stride};
    ddisp_buffer *buffer;
    ddisp_tensor *tensor;
    CHECK(ddisp_buffer_create(dev, count * sizeof *numbers, &buffer));
    CHECK(ddisp_buffer_write(buffer, 0, numbers, count * sizeof *numbers, NULL));
    CHECK(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 2, shape, strides, 0, flags, &tensor));
    ddisp_buffer_release(buffer); /* the tensor keeps it */
    return tensor;
}

/* Compares all elements, row by row, with what was computed by hand. */
static void expect(ddisp_tensor *tensor, const float *numbers, const char *what)
{
    float found[ROWS * COLUMNS];
    CHECK(ddisp_tensor_read(tensor, found, sizeof found, NULL));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        if (found[i] == numbers[i])
            continue;
        fprintf(stderr, "%s[%d][%d] is %g, expected %g\n", what, i / COLUMNS, i % COLUMNS,
                (double)found[i], (double)numbers[i]);
        exit(1);
    }
    printf("%s is right\n", what);
}

int main(int count, char **words)
{
    /* a[r][c] = 5r + c, stored by columns; b[c] = c + 1; the upstream gradient is 2 everywhere. */
    static const float a_numbers[] = {0, 5, 10, 1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14};
    static const float b_numbers[] = {1, 2, 3, 4, 5}, upstream_number[] = {2};
    static const float nothing[ROWS * COLUMNS];
    static const float y_right[] = {0, 2, 6, 12, 20, 5, 12, 21, 32, 45, 10, 22, 36, 52, 70};
    static const float ga_right[] = {2, 4, 6, 8, 10, 2, 4, 6, 8, 10, 2, 4, 6, 8, 10};
    /* 2 * (0 + 5 + 10), 2 * (1 + 6 + 11), ... in each repetition of the row */
    static const float gb_right[] = {30, 36, 42, 48, 54, 30, 36, 42, 48, 54, 30, 36, 42, 48, 54};
    ddisp_context *ctx;
    ddisp_device *dev;
    ddisp_kernel *mul;

    CHECK(ddisp_context_create(NULL, &ctx));
    CHECK(ddisp_device_open(ctx, count > 1 ? words[1] : "auto", &dev));
    CHECK(ddisp_kernel_create(ctx, mul_kernel_desc(), &mul));
    ddisp_tensor *a = make(dev, a_numbers, 15, 1, ROWS, DDISP_TENSOR_REQUIRES_GRAD);
    ddisp_tensor *b = make(dev, b_numbers, 5, 0, 1, DDISP_TENSOR_REQUIRES_GRAD);
    ddisp_tensor *y = make(dev, nothing, 15, COLUMNS, 1, DDISP_TENSOR_REQUIRES_GRAD);
    ddisp_tensor *upstream = make(dev, upstream_number, 1, 0, 0, 0);

    ddisp_arg args[MUL_PARAM_COUNT] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    CHECK(ddisp_launch(mul, DDISP_MODE_FORWARD, args, MUL_PARAM_COUNT, NULL, NULL));
    CHECK(ddisp_tensor_set_grad(y, upstream));
    CHECK(ddisp_launch(mul, DDISP_MODE_BACKWARD, args, MUL_PARAM_COUNT, NULL, NULL));

    ddisp_tensor *ga, *gb;
    CHECK(ddisp_tensor_grad(a, &ga));
    CHECK(ddisp_tensor_grad(b, &gb));
    expect(y, y_right, "y");
    expect(ga, ga_right, "gradient of a");
    expect(gb, gb_right, "gradient of b");

    ddisp_tensor_release(gb);
    ddisp_tensor_release(ga);
    ddisp_tensor_release(upstream);
    ddisp_tensor_release(y);
    ddisp_tensor_release(b);
    ddisp_tensor_release(a);
    ddisp_kernel_release(mul);
    ddisp_device_release(dev);
    ddisp_context_release(ctx);
    return 0;
}
