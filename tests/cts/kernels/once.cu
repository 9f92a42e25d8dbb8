// y = 2 x whose backward stores 2 g once into every element, by plain store. Null-safe.
#include "cts_cuda.cuh"

KERNEL(once_forward, 2, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[1], i) = 2 * *data<float>(block.tensor[0], i);
}

KERNEL(once_backward, 2, 0)
{
    for (ITEMS(i)) {
        if (block.tensor[0].grad_add)
            *gradient(block.tensor[0], i) = 2 * upstream<float>(block.tensor[1], i);
    }
}
