// y = 1 a + 2 b + ... + 9 i + the sum of 16 scalars, opaque.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 10
#include "cts.glsl"

void main()
{
#if !BACKWARD
    float sum = 0;
    for (uint s = 0; s < 16; s++)
        sum += uintBitsToFloat(block.scalar[s].x);
#endif
    for (ITEMS(i)) {
#if BACKWARD
        for (uint p = 0; p < 9; p++)
            add_grad(p, i, float(p + 1) * upstream(9, i));
#else
        float y = sum;
        for (uint p = 0; p < 9; p++)
            y += float(p + 1) * load(p, i);
        store(9, i, y);
#endif
    }
}
