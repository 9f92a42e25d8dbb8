// y = 2 a + b, with a switch per gradient, and null-safe.
#include "cts_cuda.cuh"

KERNEL(linear_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            2 * *data<float>(block.tensor[0], i) + *data<float>(block.tensor[1], i);
}

KERNEL(linear_backward, 3, 0)
{
    SWITCH(a_on, 0);
    SWITCH(b_on, 1);
    for (ITEMS(i)) {
        float g = upstream<float>(block.tensor[2], i);
        if (a_on && block.tensor[0].grad_add)
            add_grad(block.tensor[0], i, 2 * g);
        if (b_on && block.tensor[1].grad_add)
            add_grad(block.tensor[1], i, g);
    }
}
