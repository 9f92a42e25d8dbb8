// y = a * b on f32 or f64, whose backward stores every element of a gradient once.
#include "cts_cuda.cuh"

template <typename T>
static __device__ __forceinline__ void store(const ddisp_device_tensor &t, uint64_t i, T value)
{
    ((T *)t.grad_add)[cts_offset(&t, t.add_stride, i)] = value;
}

template <typename T>
static __device__ __forceinline__ void gradients(const cts_block<3, 0> &block, uint64_t i, bool a,
                                                 bool b)
{
    T g = upstream<T>(block.tensor[2], i);
    if (a)
        store<T>(block.tensor[0], i, g * *data<T>(block.tensor[1], i));
    if (b)
        store<T>(block.tensor[1], i, g * *data<T>(block.tensor[0], i));
}

static const int F64 = 13;

KERNEL(product_forward, 3, 0)
{
    const bool wide = block.tensor[0].dtype == F64;
    for (ITEMS(i)) {
        if (wide)
            *data<double>(block.tensor[2], i) =
                *data<double>(block.tensor[0], i) * *data<double>(block.tensor[1], i);
        else
            *data<float>(block.tensor[2], i) =
                *data<float>(block.tensor[0], i) * *data<float>(block.tensor[1], i);
    }
}

KERNEL(product_backward, 3, 0)
{
    SWITCH(a_on, 0);
    SWITCH(b_on, 1);
    const bool wide = block.tensor[0].dtype == F64;
    const bool a = a_on && block.tensor[0].grad_add, b = b_on && block.tensor[1].grad_add;
    for (ITEMS(i)) {
        if (wide)
            gradients<double>(block, i, a, b);
        else
            gradients<float>(block, i, a, b);
    }
}
