// y = a * b without switches, but null-safe.
#include "cts_cuda.cuh"

KERNEL(mul_guarded_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            *data<float>(block.tensor[0], i) * *data<float>(block.tensor[1], i);
}

KERNEL(mul_guarded_backward, 3, 0)
{
    for (ITEMS(i)) {
        float g = upstream<float>(block.tensor[2], i);
        if (block.tensor[0].grad_add)
            add_grad(block.tensor[0], i, g * *data<float>(block.tensor[1], i));
        if (block.tensor[1].grad_add)
            add_grad(block.tensor[1], i, g * *data<float>(block.tensor[0], i));
    }
}
