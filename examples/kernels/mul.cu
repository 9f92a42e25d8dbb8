// mul.cu - the kernel `mul` for CUDA: y = a * b on f32, forward and backward.
//
// Both entries take the standard argument block by value and loop over the items with the stride of
// the grid. The backward entry has one switch per gradient: a line of inline assembly that says 1
// and that the library rewrites to 0 when the parameter has no gradient; the driver then removes the
// code behind it. Unrewritten, the null tests keep it safe. regenerate.sh makes mul.ptx from this.

#include <diffdispatch/device/ddisp_block.h>

struct mul_block {
    ddisp_block head;
    ddisp_device_tensor a, b, y;
};
static_assert(sizeof(mul_block) == 992, "the standard argument block of three tensors");

// 1, or 0 in variants where parameter i has no gradient. Must be one whole line of PTX.
#define SWITCH(name, i)                                                                            \
    unsigned name;                                                                                 \
    asm("mov.u32 %0, 1; // DDISP_SWITCH(" #i ")" : "=r"(name))

// The address as a pointer that the compiler knows to be global memory.
static __device__ float *global(uint64_t address)
{
    return (float *)__cvta_global_to_generic(address);
}

// Where the item lies, in elements, for any strides.
static __device__ int64_t element(const ddisp_device_tensor &tensor, const int64_t *stride,
                                  uint64_t item)
{
    int64_t at = 0;
#pragma unroll 1
    for (int d = (int)tensor.rank - 1; d >= 0; d--) {
        at += (int64_t)(item % (uint64_t)tensor.shape[d]) * stride[d];
        item /= (uint64_t)tensor.shape[d];
    }
    return at;
}

extern "C" __global__ void mul_forward(const __grid_constant__ mul_block block)
{
    const uint64_t items = block.head.items;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float *a = global(block.a.data);
    const float *b = global(block.b.data);
    float *y = global(block.y.data);

    if (block.a.flags & block.b.flags & block.y.flags & DDISP_DEVICE_TENSOR_DENSE) {
        for (uint64_t i = first; i < items; i += step)
            y[i] = __ldg(a + i) * __ldg(b + i);
        return;
    }
    for (uint64_t i = first; i < items; i += step)
        y[element(block.y, block.y.stride, i)] =
            a[element(block.a, block.a.stride, i)] * b[element(block.b, block.b.stride, i)];
}

extern "C" __global__ void mul_backward(const __grid_constant__ mul_block block)
{
    SWITCH(a_has_gradient, 0);
    SWITCH(b_has_gradient, 1);
    SWITCH(y_has_gradient, 2);
    const uint64_t items = block.head.items;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float *a = global(block.a.data);
    const float *b = global(block.b.data);
    const float *gy = global(block.y.grad_read);
    float *ga = global(block.a.grad_add);
    float *gb = global(block.b.grad_add);
    const bool add_a = a_has_gradient && ga;
    const bool add_b = b_has_gradient && gb;

    if (!y_has_gradient || !gy)
        return;
    // What a frozen input does not need has no say.
    const bool dense_a = !add_a || (block.a.flags & DDISP_DEVICE_TENSOR_ADD_DENSE &&
                                    block.b.flags & DDISP_DEVICE_TENSOR_DENSE);
    const bool dense_b = !add_b || (block.b.flags & DDISP_DEVICE_TENSOR_ADD_DENSE &&
                                    block.a.flags & DDISP_DEVICE_TENSOR_DENSE);
    if (dense_a && dense_b && block.y.flags & DDISP_DEVICE_TENSOR_READ_DENSE) {
        for (uint64_t i = first; i < items; i += step) {
            const float g = __ldg(gy + i);
            if (add_a)
                atomicAdd(ga + i, g * __ldg(b + i));
            if (add_b)
                atomicAdd(gb + i, g * __ldg(a + i));
        }
        return;
    }
    for (uint64_t i = first; i < items; i += step) {
        const float g = gy[element(block.y, block.y.read_stride, i)];
        if (add_a)
            atomicAdd(ga + element(block.a, block.a.add_stride, i),
                      g * b[element(block.b, block.b.stride, i)]);
        if (add_b)
            atomicAdd(gb + element(block.b, block.b.add_stride, i),
                      g * a[element(block.a, block.a.stride, i)]);
    }
}
