// y = v.x * s for rows v of three: writes one component of a gradient, and sums into one cell.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

layout(constant_id = 1024) const bool v_on = true;
layout(constant_id = 1025) const bool s_on = true;

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        float g = upstream(2, i);
        if (v_on && block.tensor[0].grad_add != 0)
            add_grad(0, 3 * i, g * load(1, 0));
        if (s_on && block.tensor[1].grad_add != 0)
            add_grad(1, 0, g * load(0, 3 * i));
#else
        store(2, i, load(0, 3 * i) * load(1, 0));
#endif
    }
}
