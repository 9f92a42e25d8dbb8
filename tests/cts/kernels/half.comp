// y = 2 x with x f16 and its gradient f32. Opaque.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 2
#include "cts.glsl"

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        add_grad(0, i, 2 * upstream(1, i));
#else
        uint64_t address = data_address(0, i, 2);
        vec2 words = unpackHalf2x16(U32(address & ~uint64_t(3)).v); // no 16-bit access needed
        store(1, i, 2 * ((address & 2) == 0 ? words.x : words.y));
#endif
    }
}
