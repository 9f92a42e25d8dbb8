#version 460
// mul_forward.comp - the kernel `mul` for Vulkan, forward: y = a * b, looping over the items.
#extension GL_GOOGLE_include_directive : require
#include "mul_block.glsl"

void main()
{
    const bool is_dense = dense(0, DATA) && dense(1, DATA) && dense(2, DATA);
    const uint64_t a = block.tensors[0].data, b = block.tensors[1].data, y = block.tensors[2].data;

    for (uint64_t i = first_item(); i < block.items; i += item_step())
        element(y, 2, DATA, is_dense, i).value =
            element(a, 0, DATA, is_dense, i).value * element(b, 1, DATA, is_dense, i).value;
}
