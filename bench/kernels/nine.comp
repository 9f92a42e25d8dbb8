#version 460
// nine.comp - backward of a sum of nine inputs: every gradient gets the upstream, the first alone with
// -DCOUNT=1.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_atomic_float : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v[]; };
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
    Tensor tensor[10];
};
layout(push_constant) uniform Push { Block block; };

void main()
{
    Floats gy = Floats(block.tensor[9].grad_read);
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < uint(block.items); i += step)
        for (int k = 0; k < COUNT; k++)
            atomicAdd(Floats(block.tensor[k].grad_add).v[i], gy.v[i]);
}
