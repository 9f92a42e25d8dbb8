#version 460
// scatter.comp - the plain scatter-add: one atomic add for each element. Parameters of the standard
// block: index (i32), source (f32), sum (f32).
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_atomic_float : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int v[]; };
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
    Ints index = Ints(block.tensor[0].data);
    Floats source = Floats(block.tensor[1].data), sum = Floats(block.tensor[2].data);
    uint items = uint(block.items), step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < items; i += step)
        atomicAdd(sum.v[index.v[i]], source.v[i]);
}
