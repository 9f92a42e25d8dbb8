// y = 2 x whose backward stores 2 g once into every element, by plain store. Null-safe.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 2
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        if (block.tensor[0].grad_add != 0)
            F32(gradient_address(0, i)).v = 2 * upstream(1, i);
#else
        store(1, i, 2 * load(0, i));
#endif
    }
}
