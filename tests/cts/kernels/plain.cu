// y = 2 a + b whose backward adds without atomics: load, add, store. Null-safe.
#include "cts_cuda.cuh"

KERNEL(plain_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            2 * *data<float>(block.tensor[0], i) + *data<float>(block.tensor[1], i);
}

KERNEL(plain_backward, 3, 0)
{
    for (ITEMS(i)) {
        float g = upstream<float>(block.tensor[2], i);
        if (block.tensor[0].grad_add)
            *gradient(block.tensor[0], i) += 2 * g;
        if (block.tensor[1].grad_add)
            *gradient(block.tensor[1], i) += g;
    }
}
