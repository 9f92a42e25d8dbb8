// y = a * b, opaque: touches both gradients whatever they are.
#include "cts_cuda.cuh"

KERNEL(mul_opaque_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            *data<float>(block.tensor[0], i) * *data<float>(block.tensor[1], i);
}

KERNEL(mul_opaque_backward, 3, 0)
{
    for (ITEMS(i)) {
        float g = upstream<float>(block.tensor[2], i);
        add_grad(block.tensor[0], i, g * *data<float>(block.tensor[1], i));
        add_grad(block.tensor[1], i, g * *data<float>(block.tensor[0], i));
    }
}
