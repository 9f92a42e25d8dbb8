// y = k * x with a scalar k, opaque.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 2
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        add_grad(0, i, uintBitsToFloat(block.scalar[0].x) * upstream(1, i));
#else
        store(1, i, uintBitsToFloat(block.scalar[0].x) * load(0, i));
#endif
    }
}
