#version 460
// replay.comp - adds the upstream gradients of y to the gradient of x, element i to element i %
// numel, through a block of two tensors that lies in the first tensor of the block that is given.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Given {
    uvec4 head[2];
    uint64_t data;
    uint64_t rest[119];
    int how;
};
layout(push_constant) uniform Push {
    Given given;
};
#define DDISP_BLOCK ddisp_block(given.data)
#define DDISP_DETERMINISTIC
#include "diffdispatch/device/ddisp.glsl"

#define TENSOR_OF(type) TENSOR_PASTE(type)
#define TENSOR_PASTE(type) ddisp_tensor_##type
#define OPEN(type, i) DDISP_TENSOR(type, i)

// No switches: the parameters of the launch are others.
const bool ddisp_switch_0 = true, ddisp_switch_1 = true;
DDISP_KERNEL(replay, 0)
{
    TENSOR_OF(TYPE) x = OPEN(TYPE, 0), y = OPEN(TYPE, 1);
    DDISP_FOR_EACH_ITEM(i) {
        ddisp_add_grad(x, i % uint64_t(ddisp_numel(x)), ddisp_grad(y, i), given.how);
    }
}
