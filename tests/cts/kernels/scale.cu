// y = k * x with a scalar k, opaque.
#include "cts_cuda.cuh"

KERNEL(scale_forward, 2, 1)
{
    for (ITEMS(i))
        *data<float>(block.tensor[1], i) =
            __uint_as_float((unsigned)block.scalar[0]) * *data<float>(block.tensor[0], i);
}

KERNEL(scale_backward, 2, 1)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i,
                 __uint_as_float((unsigned)block.scalar[0]) * upstream<float>(block.tensor[1], i));
    }
}
