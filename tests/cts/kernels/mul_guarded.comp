// y = a * b without switches, but null-safe.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        float g = upstream(2, i);
        if (block.tensor[0].grad_add != 0)
            add_grad(0, i, g * load(1, i));
        if (block.tensor[1].grad_add != 0)
            add_grad(1, i, g * load(0, i));
#else
        store(2, i, load(0, i) * load(1, i));
#endif
    }
}
