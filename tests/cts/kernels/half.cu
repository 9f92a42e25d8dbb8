// y = 2 x with x f16 and its gradient f32. Opaque.
#include "cts_cuda.cuh"

#include <cuda_fp16.h>

KERNEL(half_forward, 2, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[1], i) = 2 * __half2float(*data<__half>(block.tensor[0], i));
}

KERNEL(half_backward, 2, 0)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i, 2 * upstream<float>(block.tensor[1], i));
    }
}
