// x *= k in place with a scalar k, opaque. Backward reads the gradient of the new x and adds to that of the old.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 1
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        add_grad(0, i, uintBitsToFloat(block.scalar[0].x) * upstream(0, i));
#else
        store(0, i, uintBitsToFloat(block.scalar[0].x) * load(0, i));
#endif
    }
}
