/*
 * mul.c - the kernel `mul` for the host: y = a * b on f32, forward and backward.
 *
 * Each function computes the items begin to end - 1 of one launch; several threads run it at once,
 * so gradients are added to atomically. There is one backward function for every gradient mask that
 * matters, each doing only what its inputs need. The one for all gradients also tests for null
 * addresses, so that it serves policy GUARD.
 */
#include "mul_kernel.h"

#include <diffdispatch/device/ddisp_block.h>

#include <stdbool.h>
#include <string.h>

static float *floats(uint64_t address)
{
    return (float *)(uintptr_t)address;
}

/* Where the item lies, in elements, for any strides. */
static int64_t element(const ddisp_device_tensor *tensor, const int64_t *stride, uint64_t item)
{
    int64_t at = 0;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        at += (int64_t)(item % (uint64_t)tensor->shape[d]) * stride[d];
        item /= (uint64_t)tensor->shape[d];
    }
    return at;
}

/* Compares bits: a comparison of values would never end on NaN. */
static void add(float *target, float amount)
{
    uint32_t *word = (uint32_t *)(void *)target;
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint32_t wanted;
    do {
        float value;
        memcpy(&value, &seen, sizeof value);
        value += amount;
        memcpy(&wanted, &value, sizeof wanted);
    } while (!__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void mul_forward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *a = DDISP_BLOCK_TENSOR(block, MUL_A);
    const ddisp_device_tensor *b = DDISP_BLOCK_TENSOR(block, MUL_B);
    const ddisp_device_tensor *y = DDISP_BLOCK_TENSOR(block, MUL_Y);
    const float *a_data = floats(a->data), *b_data = floats(b->data);
    float *y_data = floats(y->data);

    if (a->flags & b->flags & y->flags & DDISP_DEVICE_TENSOR_DENSE) {
        for (uint64_t i = begin; i < end; i++)
            y_data[i] = a_data[i] * b_data[i];
        return;
    }
    for (uint64_t i = begin; i < end; i++)
        y_data[element(y, y->stride, i)] =
            a_data[element(a, a->stride, i)] * b_data[element(b, b->stride, i)];
}

/* One input's gradient: into += upstream * other. */
static void backward(const struct ddisp_block *block, const ddisp_device_tensor *into,
                     const ddisp_device_tensor *other, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *y = DDISP_BLOCK_TENSOR(block, MUL_Y);
    const float *upstream = floats(y->grad_read), *factor = floats(other->data);
    float *gradient = floats(into->grad_add);

    if (into->flags & DDISP_DEVICE_TENSOR_ADD_DENSE && other->flags & DDISP_DEVICE_TENSOR_DENSE &&
        y->flags & DDISP_DEVICE_TENSOR_READ_DENSE) {
        for (uint64_t i = begin; i < end; i++)
            add(gradient + i, upstream[i] * factor[i]);
        return;
    }
    for (uint64_t i = begin; i < end; i++)
        add(gradient + element(into, into->add_stride, i),
            upstream[element(y, y->read_stride, i)] * factor[element(other, other->stride, i)]);
}

void mul_backward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *a = DDISP_BLOCK_TENSOR(block, MUL_A);
    const ddisp_device_tensor *b = DDISP_BLOCK_TENSOR(block, MUL_B);

    if (!DDISP_BLOCK_TENSOR(block, MUL_Y)->grad_read)
        return;
    if (a->grad_add)
        backward(block, a, b, begin, end);
    if (b->grad_add)
        backward(block, b, a, begin, end);
}

void mul_backward_a(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    backward(block, DDISP_BLOCK_TENSOR(block, MUL_A), DDISP_BLOCK_TENSOR(block, MUL_B), begin, end);
}

void mul_backward_b(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    backward(block, DDISP_BLOCK_TENSOR(block, MUL_B), DDISP_BLOCK_TENSOR(block, MUL_A), begin, end);
}
