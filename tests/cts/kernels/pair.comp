// p = 2 x, q = 3 x, with a switch for the gradient of x and for each upstream, and null-safe.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

layout(constant_id = 1024) const bool x_on = true;
layout(constant_id = 1025) const bool p_on = true;
layout(constant_id = 1026) const bool q_on = true;

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        float g = 0;
        if (p_on)
            g += 2 * upstream(1, i);
        if (q_on)
            g += 3 * upstream(2, i);
        if (x_on && block.tensor[0].grad_add != 0)
            add_grad(0, i, g);
#else
        store(1, i, 2 * load(0, i));
        store(2, i, 3 * load(0, i));
#endif
    }
}
