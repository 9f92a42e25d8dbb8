// y = tanh(x w^T + b): x [n,k], w [m,k], b [m], y [n,m].
#include "cts_cuda.cuh"

KERNEL(layer_forward, 4, 0)
{
    const uint64_t width = block.tensor[0].shape[1], m = block.tensor[1].shape[0];
    for (ITEMS(i)) {
        const uint64_t row = i / m, column = i % m;
        float sum = *data<float>(block.tensor[2], column);
#pragma unroll 1
        for (uint64_t k = 0; k < width; k++)
            sum += *data<float>(block.tensor[0], row * width + k) *
                   *data<float>(block.tensor[1], column * width + k);
        *data<float>(block.tensor[3], i) = tanhf(sum);
    }
}

KERNEL(layer_backward, 4, 0)
{
    SWITCH(x_on, 0);
    SWITCH(w_on, 1);
    SWITCH(b_on, 2);
    const uint64_t width = block.tensor[0].shape[1], m = block.tensor[1].shape[0];
    for (ITEMS(i)) {
        const uint64_t row = i / m, column = i % m;
        const float y = *data<float>(block.tensor[3], i);
        const float g = upstream<float>(block.tensor[3], i) * (1 - y * y);
        if (b_on && block.tensor[2].grad_add)
            add_grad(block.tensor[2], column, g);
#pragma unroll 1
        for (uint64_t k = 0; k < width; k++) {
            if (x_on && block.tensor[0].grad_add)
                add_grad(block.tensor[0], row * width + k,
                         g * *data<float>(block.tensor[1], column * width + k));
            if (w_on && block.tensor[1].grad_add)
                add_grad(block.tensor[1], column * width + k,
                         g * *data<float>(block.tensor[0], row * width + k));
        }
    }
}
