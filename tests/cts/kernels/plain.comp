// y = 2 a + b whose backward adds without atomics: load, add, store. Null-safe.
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
            F32(gradient_address(0, i)).v += 2 * g;
        if (block.tensor[1].grad_add != 0)
            F32(gradient_address(1, i)).v += g;
#else
        store(2, i, 2 * load(0, i) + load(1, i));
#endif
    }
}
