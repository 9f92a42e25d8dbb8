// cts.glsl - what the conformance kernels for Vulkan share: the argument block behind its address,
// and addressing of any layout. Compiled once per mode: BACKWARD is 0 or 1; CAS 1 is the twin that
// adds by compare-and-swap on bits instead of the native float atomic.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#if BACKWARD && !CAS
#extension GL_EXT_shader_atomic_float : require
#endif

#define GROUP 64
layout(local_size_x = GROUP) in;

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
    Tensor tensor[TENSORS];
    uvec2 scalar[];
};
layout(push_constant) uniform Push {
    Block block;
};

layout(buffer_reference, std430, buffer_reference_align = 4) buffer F32 {
    float v;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U32 {
    uint v;
};

// `for (ITEMS(i)) ...` runs over the items of the invocation.
#define ITEMS(i)                                                                                   \
    uint64_t i = gl_GlobalInvocationID.x; i < block.items;                                         \
    i += uint64_t(gl_NumWorkGroups.x) * GROUP

#define OFFSET(name, strides)                                                                      \
    int64_t name(uint p, uint64_t i)                                                               \
    {                                                                                              \
        int64_t offset = 0;                                                                        \
        for (int d = int(block.tensor[p].rank) - 1; d >= 0; d--) {                                 \
            uint64_t extent = uint64_t(block.tensor[p].shape[d]);                                  \
            offset += int64_t(i % extent) * block.tensor[p].strides[d];                            \
            i /= extent;                                                                           \
        }                                                                                          \
        return offset;                                                                             \
    }
OFFSET(data_offset, stride)
OFFSET(add_offset, add_stride)
OFFSET(read_offset, read_stride)

uint64_t data_address(uint p, uint64_t i, int size)
{
    return block.tensor[p].data + uint64_t(data_offset(p, i) * size);
}

float load(uint p, uint64_t i)
{
    return F32(data_address(p, i, 4)).v;
}

void store(uint p, uint64_t i, float value)
{
    F32(data_address(p, i, 4)).v = value;
}

float upstream(uint p, uint64_t i)
{
    return F32(block.tensor[p].grad_read + uint64_t(read_offset(p, i) * 4)).v;
}

uint64_t gradient_address(uint p, uint64_t i)
{
    return block.tensor[p].grad_add + uint64_t(add_offset(p, i) * 4);
}

#if BACKWARD
void add_grad(uint p, uint64_t i, float value)
{
    uint64_t address = gradient_address(p, i);
#if CAS
    U32 cell = U32(address);
    uint seen = cell.v;
    for (;;) {
        uint before = atomicCompSwap(cell.v, seen, floatBitsToUint(uintBitsToFloat(seen) + value));
        if (before == seen)
            break;
        seen = before;
    }
#else
    atomicAdd(F32(address).v, value);
#endif
}
#endif
