// y = tanh(x w^T + b): x [n,k], w [m,k], b [m], y [n,m].
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 4
#include "cts.glsl"

layout(constant_id = 1024) const bool x_on = true;
layout(constant_id = 1025) const bool w_on = true;
layout(constant_id = 1026) const bool b_on = true;

void main()
{
    const uint64_t width = uint64_t(block.tensor[0].shape[1]);
    const uint64_t m = uint64_t(block.tensor[1].shape[0]);
    for (ITEMS(i)) {
        const uint64_t row = i / m, column = i % m;
#if BACKWARD
        const float y = load(3, i);
        const float g = upstream(3, i) * (1 - y * y);
        if (b_on && block.tensor[2].grad_add != 0)
            add_grad(2, column, g);
        for (uint64_t k = 0; k < width; k++) {
            if (x_on && block.tensor[0].grad_add != 0)
                add_grad(0, row * width + k, g * load(1, column * width + k));
            if (w_on && block.tensor[1].grad_add != 0)
                add_grad(1, column * width + k, g * load(0, row * width + k));
        }
#else
        float sum = load(2, column);
        for (uint64_t k = 0; k < width; k++)
            sum += load(0, row * width + k) * load(1, column * width + k);
        store(3, i, tanh(sum));
#endif
    }
}
