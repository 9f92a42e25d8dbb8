// y = v.x * s for rows v of three: writes one component of a gradient, and sums into one cell.
#include "cts_cuda.cuh"

KERNEL(component_forward, 3, 0)
{
    for (ITEMS(i))
        *data<float>(block.tensor[2], i) =
            *data<float>(block.tensor[0], 3 * i) * *data<float>(block.tensor[1], 0);
}

KERNEL(component_backward, 3, 0)
{
    SWITCH(v_on, 0);
    SWITCH(s_on, 1);
    for (ITEMS(i)) {
        float g = upstream<float>(block.tensor[2], i);
        if (v_on && block.tensor[0].grad_add)
            add_grad(block.tensor[0], 3 * i, g * *data<float>(block.tensor[1], 0));
        if (s_on && block.tensor[1].grad_add)
            add_grad(block.tensor[1], 0, g * *data<float>(block.tensor[0], 3 * i));
    }
}
