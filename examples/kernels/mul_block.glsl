// mul_block.glsl - the standard argument block as the shaders of `mul` see it, and how items map to
// elements. Parameters are numbered 0: a, 1: b, 2: y.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

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
    Tensor tensors[3];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Float {
    float value;
};
layout(push_constant) uniform Push {
    Block block;
};
layout(local_size_x = 256) in;

// A thread works on every item_step()-th item from first_item() on.
uint64_t first_item()
{
    return uint64_t(gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}
uint64_t item_step()
{
    return uint64_t(gl_NumWorkGroups.x) * gl_WorkGroupSize.x;
}

// Which strides of a tensor.
const int DATA = 0, ADD = 1, READ = 2;

int64_t stride_of(int tensor, int which, int d)
{
    if (which == DATA)
        return block.tensors[tensor].stride[d];
    return which == ADD ? block.tensors[tensor].add_stride[d] : block.tensors[tensor].read_stride[d];
}

// Flags of a tensor: item i is i elements behind the address.
const uint DENSE = 16u, ADD_DENSE = 32u, READ_DENSE = 64u;

bool dense(int tensor, uint flag)
{
    return (block.tensors[tensor].flags & flag) != 0u;
}

// The item of a tensor for any strides, behind address, which is that of element (0, ..., 0).
Float element(uint64_t address, int tensor, int which, uint64_t item)
{
    int64_t at = 0l, rest = int64_t(item);
    for (int d = int(block.tensors[tensor].rank) - 1; d >= 0; d--) {
        const int64_t extent = block.tensors[tensor].shape[d];
        at += (rest % extent) * stride_of(tensor, which, d);
        rest /= extent;
    }
    return Float(address + uint64_t(at * 4l));
}
