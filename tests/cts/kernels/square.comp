// y = x * x, with a switch, and null-safe.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 2
#include "cts.glsl"

layout(constant_id = 1024) const bool x_on = true;

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        if (x_on && block.tensor[0].grad_add != 0)
            add_grad(0, i, 2 * upstream(1, i) * load(0, i));
#else
        store(1, i, load(0, i) * load(0, i));
#endif
    }
}
