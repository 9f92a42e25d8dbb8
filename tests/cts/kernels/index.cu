// y = v * n with an integer n that has no gradient, opaque.
#include "cts_cuda.cuh"

KERNEL(index_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            *data<float>(block.tensor[0], i) * (float)*data<int32_t>(block.tensor[1], i);
}

KERNEL(index_backward, 3, 0)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i,
                 upstream<float>(block.tensor[2], i) * (float)*data<int32_t>(block.tensor[1], i));
    }
}
