/*
 * cts_cuda.cuh - what the conformance kernels for CUDA share: the argument block by value, the
 * switch line, and addressing of any layout. Compiled to PTX by generate_ptx.sh.
 */
#ifndef CTS_CUDA_CUH
#define CTS_CUDA_CUH

#include <diffdispatch/device/ddisp_block.h>

template <int tensors, int scalars> struct cts_block {
    ddisp_block head;
    ddisp_device_tensor tensor[tensors];
    uint64_t scalar[scalars];
};

template <int tensors> struct cts_block<tensors, 0> {
    ddisp_block head;
    ddisp_device_tensor tensor[tensors];
};

#define KERNEL(name, tensors, scalars)                                                             \
    extern "C" __global__ void name(const __grid_constant__ cts_block<tensors, scalars> block)

/* `for (ITEMS(i)) ...` runs over the items of the thread. */
#define ITEMS(i)                                                                                   \
    uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;                                  \
    i < block.head.items;                                                                          \
    i += (uint64_t)gridDim.x * blockDim.x

/* Declares `variable`, 1 unless the library rewrites the line for a variant without parameter i. */
#define SWITCH(variable, i)                                                                        \
    unsigned variable;                                                                             \
    asm("mov.u32 %0, 1; // DDISP_SWITCH(" #i ")" : "=r"(variable))

/* Where item i of a tensor lies. Not inlined, so that the PTX stays short. */
extern "C" __device__ __noinline__ int64_t cts_offset(const ddisp_device_tensor *t,
                                                      const int64_t *strides, uint64_t i)
{
    int64_t result = 0;
#pragma unroll 1
    for (int d = (int)t->rank - 1; d >= 0; d--) {
        result += (int64_t)(i % (uint64_t)t->shape[d]) * strides[d];
        i /= (uint64_t)t->shape[d];
    }
    return result;
}

template <typename T> __device__ __forceinline__ T *data(const ddisp_device_tensor &t, uint64_t i)
{
    return (T *)t.data + cts_offset(&t, t.stride, i);
}

template <typename T>
__device__ __forceinline__ T upstream(const ddisp_device_tensor &t, uint64_t i)
{
    return ((const T *)t.grad_read)[cts_offset(&t, t.read_stride, i)];
}

__device__ __forceinline__ float *gradient(const ddisp_device_tensor &t, uint64_t i)
{
    return (float *)t.grad_add + cts_offset(&t, t.add_stride, i);
}

__device__ __forceinline__ void add_grad(const ddisp_device_tensor &t, uint64_t i, float value)
{
    atomicAdd(gradient(t, i), value);
}

#endif
