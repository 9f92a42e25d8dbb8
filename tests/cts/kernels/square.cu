// y = x * x, with a switch, and null-safe.
#include "cts_cuda.cuh"

KERNEL(square_forward, 2, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[1], i) =
            *data<float>(block.tensor[0], i) * *data<float>(block.tensor[0], i);
}

KERNEL(square_backward, 2, 0)
{
    SWITCH(x_on, 0);
    for (ITEMS(i)) {
        if (x_on && block.tensor[0].grad_add)
            add_grad(block.tensor[0], i,
                     2 * upstream<float>(block.tensor[1], i) * *data<float>(block.tensor[0], i));
    }
}
