// p = 2 x, q = 3 x, with a switch for the gradient of x and for each upstream, and null-safe.
#include "cts_cuda.cuh"

KERNEL(pair_forward, 3, 0)
{
    for (ITEMS(i)) {
        *data<float>(block.tensor[1], i) = 2 * *data<float>(block.tensor[0], i);
        *data<float>(block.tensor[2], i) = 3 * *data<float>(block.tensor[0], i);
    }
}

KERNEL(pair_backward, 3, 0)
{
    SWITCH(x_on, 0);
    SWITCH(p_on, 1);
    SWITCH(q_on, 2);
    for (ITEMS(i)) {
        float g = 0;
        if (p_on)
            g += 2 * upstream<float>(block.tensor[1], i);
        if (q_on)
            g += 3 * upstream<float>(block.tensor[2], i);
        if (x_on && block.tensor[0].grad_add)
            add_grad(block.tensor[0], i, g);
    }
}
