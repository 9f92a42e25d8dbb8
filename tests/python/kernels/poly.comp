// y = c[0] + c[1] x + c[2] x^2 + ...
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

layout(constant_id = 1024) const bool x_on = true;
layout(constant_id = 1025) const bool c_on = true;

void main()
{
    const int degree = int(block.tensor[1].shape[0]) - 1;
    for (ITEMS(i)) {
        float x = load(0, i);
#if BACKWARD
        float g = upstream(2, i);
        if (x_on && block.tensor[0].grad_add != 0) {
            float slope = 0;
            for (int k = degree; k >= 1; k--)
                slope = slope * x + float(k) * load(1, uint64_t(k));
            add_grad(0, i, g * slope);
        }
        if (c_on && block.tensor[1].grad_add != 0)
            for (int k = 0; k <= degree; k++, g *= x)
                add_grad(1, uint64_t(k), g);
#else
        float y = 0;
        for (int k = degree; k >= 0; k--)
            y = y * x + load(1, uint64_t(k));
        store(2, i, y);
#endif
    }
}
