// y = (double)x: the upstream is f64, the gradient f32. Opaque.
#include "cts_cuda.cuh"

KERNEL(widen_forward, 2, 0)
{
    for (ITEMS(i))
        *data<double>(block.tensor[1], i) = *data<float>(block.tensor[0], i);
}

KERNEL(widen_backward, 2, 0)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i, (float)upstream<double>(block.tensor[1], i));
    }
}
