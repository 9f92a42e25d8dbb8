/*
 * sample.cu - kernels for the tests of the CUDA backend: y = a * b over dense f32, with a switch per
 * gradient, and a kernel whose argument block is so large that it comes by pointer. sample.ptx is
 * made from it by:
 *   nvcc -ptx --gpu-architecture=compute_75 -I../../../include sample.cu -o - |
 *     sed 's/^\.version .*$/.version 7.5/' > sample.ptx
 */
#include <diffdispatch/device/ddisp_block.h>

struct sample_block {
    ddisp_block head;
    ddisp_device_tensor a, b, y;
};

#define SWITCH(variable, i)                                                                        \
    unsigned variable;                                                                             \
    asm("mov.u32 %0, 1; // DDISP_SWITCH(" #i ")" : "=r"(variable))

#define ITEMS(i, count)                                                                            \
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;                                  \
    i < count;                                                                                     \
    i += (uint64_t)gridDim.x * blockDim.x

extern "C" __global__ void sample_forward(const __grid_constant__ sample_block block)
{
    for (ITEMS(i, block.head.items)) {
        ((float *)block.y.data)[i] = ((float *)block.a.data)[i] * ((float *)block.b.data)[i];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    sample_backward(const __grid_constant__ sample_block block)
{
    SWITCH(a, 0);
    SWITCH(b, 1);
    for (ITEMS(i, block.head.items)) {
        float g = ((float *)block.y.grad_read)[i];
        if (a) {
            atomicAdd((float *)block.a.grad_add + i, g * ((float *)block.b.data)[i]);
        }
        if (b) {
            atomicAdd((float *)block.b.grad_add + i, g * ((float *)block.a.data)[i]);
        }
    }
}

/* Thirteen tensors: 4192 bytes. Adds one to every element of the last. */
extern "C" __global__ void sample_wide(const ddisp_block *block)
{
    const ddisp_device_tensor *last = DDISP_BLOCK_TENSOR(block, 12);
    for (ITEMS(i, block->items)) {
        ((float *)last->data)[i] += 1.0f;
    }
}
