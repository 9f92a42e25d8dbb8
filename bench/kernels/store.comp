#version 460
// store.comp - backward of y = a*b that stores every element of both gradients once, on the standard
// argument block.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Fours { vec4 v[]; };
struct Tensor {
    uint64_t data, grad_add, grad_read;
    uint dtype, grad_dtype, flags, rank;
    int64_t shape[8], stride[8], add_stride[8], read_stride[8];
    uint64_t scale, sticky, reserved;
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block {
    uint abi, size_bytes;
    uint64_t items;
    uint tensor_count, scalar_count;
    uint64_t flags;
    Tensor tensor[3];
};
layout(push_constant) uniform Push { Block block; };

void main()
{
    Fours a = Fours(block.tensor[0].data), b = Fours(block.tensor[1].data);
    Fours gy = Fours(block.tensor[2].grad_read);
    Fours ga = Fours(block.tensor[0].grad_add), gb = Fours(block.tensor[1].grad_add);
    uint items = uint(block.items / uint64_t(4)), step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < items; i += step) {
        vec4 g = gy.v[i];
        ga.v[i] = g * b.v[i];
        gb.v[i] = g * a.v[i];
    }
}
