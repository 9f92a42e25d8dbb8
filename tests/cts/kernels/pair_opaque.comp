// p = 2 x, q = 3 x, opaque: reads both upstreams and touches the gradient.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        add_grad(0, i, 2 * upstream(1, i) + 3 * upstream(2, i));
#else
        store(1, i, 2 * load(0, i));
        store(2, i, 3 * load(0, i));
#endif
    }
}
