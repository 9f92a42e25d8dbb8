// y = c[0] + c[1] x + c[2] x^2 + ...
#include "cts_cuda.cuh"

KERNEL(poly_forward, 3, 0)
{
    const int degree = (int)block.tensor[1].shape[0] - 1;
    for (ITEMS(i)) {
        float x = *data<float>(block.tensor[0], i), y = 0;
#pragma unroll 1
        for (int k = degree; k >= 0; k--)
            y = y * x + *data<float>(block.tensor[1], k);
        *data<float>(block.tensor[2], i) = y;
    }
}

KERNEL(poly_backward, 3, 0)
{
    SWITCH(x_on, 0);
    SWITCH(c_on, 1);
    const int degree = (int)block.tensor[1].shape[0] - 1;
    for (ITEMS(i)) {
        float x = *data<float>(block.tensor[0], i), g = upstream<float>(block.tensor[2], i);
        if (x_on && block.tensor[0].grad_add) {
            float slope = 0;
#pragma unroll 1
            for (int k = degree; k >= 1; k--)
                slope = slope * x + k * *data<float>(block.tensor[1], k);
            add_grad(block.tensor[0], i, g * slope);
        }
        if (c_on && block.tensor[1].grad_add)
#pragma unroll 1
            for (int k = 0; k <= degree; k++, g *= x)
                add_grad(block.tensor[1], k, g);
    }
}
