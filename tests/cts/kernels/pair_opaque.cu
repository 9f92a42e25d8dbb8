// p = 2 x, q = 3 x, opaque: reads both upstreams and touches the gradient.
#include "cts_cuda.cuh"

KERNEL(pair_opaque_forward, 3, 0)
{
    for (ITEMS(i)) {
        *data<float>(block.tensor[1], i) = 2 * *data<float>(block.tensor[0], i);
        *data<float>(block.tensor[2], i) = 3 * *data<float>(block.tensor[0], i);
    }
}

KERNEL(pair_opaque_backward, 3, 0)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i,
                 2 * upstream<float>(block.tensor[1], i) + 3 * upstream<float>(block.tensor[2], i));
    }
}
