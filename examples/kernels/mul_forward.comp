#version 460
// mul_forward.comp - the kernel `mul` for Vulkan, forward: y = a * b, looping over the items.
#extension GL_GOOGLE_include_directive : require
#include "mul_block.glsl"

void main()
{
    const uint64_t a = block.tensors[0].data, b = block.tensors[1].data, y = block.tensors[2].data;

    if (dense(0, DENSE) && dense(1, DENSE) && dense(2, DENSE)) {
        for (uint64_t i = first_item(); i < block.items; i += IN_FLIGHT * item_step()) {
            float va[IN_FLIGHT], vb[IN_FLIGHT];
            [[unroll]] for (int k = 0; k < IN_FLIGHT; k++) {
                const uint64_t at = 4ul * min(i + k * item_step(), block.items - 1ul);
                va[k] = Float(a + at).value;
                vb[k] = Float(b + at).value;
            }
            [[unroll]] for (int k = 0; k < IN_FLIGHT; k++)
                if (i + k * item_step() < block.items)
                    Float(y + 4ul * (i + k * item_step())).value = va[k] * vb[k];
        }
        return;
    }
    for (uint64_t i = first_item(); i < block.items; i += item_step())
        element(y, 2, DATA, i).value = element(a, 0, DATA, i).value * element(b, 1, DATA, i).value;
}
