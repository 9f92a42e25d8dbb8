// y = v * n with an integer n that has no gradient, opaque.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        add_grad(0, i, upstream(2, i) * float(floatBitsToInt(load(1, i))));
#else
        store(2, i, load(0, i) * float(floatBitsToInt(load(1, i))));
#endif
    }
}
