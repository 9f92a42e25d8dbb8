#version 460
// mul_forward.comp - the kernel `mul` for Vulkan, forward: y = a * b, looping over the items.
#extension GL_GOOGLE_include_directive : require
#include "mul_block.glsl"

void main()
{
    const uint64_t a = block.tensors[0].data, b = block.tensors[1].data, y = block.tensors[2].data;

    if (dense(0, DENSE) && dense(1, DENSE) && dense(2, DENSE)) {
        for (uint64_t i = first_item(); i < block.items; i += item_step())
            Float(y + 4ul * i).value = Float(a + 4ul * i).value * Float(b + 4ul * i).value;
        return;
    }
    for (uint64_t i = first_item(); i < block.items; i += item_step())
        element(y, 2, DATA, i).value = element(a, 0, DATA, i).value * element(b, 1, DATA, i).value;
}
