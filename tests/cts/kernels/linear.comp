// y = 2 a + b, with a switch per gradient, and null-safe.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

layout(constant_id = 1024) const bool a_on = true;
layout(constant_id = 1025) const bool b_on = true;

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        float g = upstream(2, i);
        if (a_on && block.tensor[0].grad_add != 0)
            add_grad(0, i, 2 * g);
        if (b_on && block.tensor[1].grad_add != 0)
            add_grad(1, i, g);
#else
        store(2, i, 2 * load(0, i) + load(1, i));
#endif
    }
}
