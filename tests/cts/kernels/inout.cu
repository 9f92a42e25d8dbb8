// x *= k in place with a scalar k, opaque. Backward reads the gradient of the new x and adds to
// that of the old.
#include "cts_cuda.cuh"

KERNEL(inout_forward, 1, 1)
{
    for (ITEMS(i))
        *data<float>(block.tensor[0], i) *= __uint_as_float((unsigned)block.scalar[0]);
}

KERNEL(inout_backward, 1, 1)
{
    for (ITEMS(i)) {
        add_grad(block.tensor[0], i,
                 __uint_as_float((unsigned)block.scalar[0]) * upstream<float>(block.tensor[0], i));
    }
}
