// y = a * b and its backward, through the standard argument block.
//   BACKWARD  the backward entry; else forward
//   NATIVE    adds with float atomics; else with a compare-and-swap that compares bits
//   SPIN      the forward entry first works for `flags` turns, to be slow
//   SIZED     its group size is specialization constant 7, by default 1
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#ifdef NATIVE
#extension GL_EXT_shader_atomic_float : require
#endif

#ifdef SIZED
layout(local_size_x_id = 7) in;
#else
layout(local_size_x = 64) in;
#endif

struct Tensor {
    uint64_t data, grad_add, grad_read;
    uint dtype, grad_dtype, flags, rank;
    int64_t shape[8], stride[8], add_stride[8], read_stride[8];
    uint64_t scale, sticky, reserved;
};
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Block
{
    uint abi, size_bytes;
    uint64_t items;
    uint tensor_count, scalar_count;
    uint64_t flags;
    Tensor tensors[3];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats
{
    float values[];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words
{
    uint values[];
};
layout(push_constant) uniform Push
{
    Block block;
};

#ifdef BACKWARD
layout(constant_id = 1024) const bool grad_a = true;
layout(constant_id = 1025) const bool grad_b = true;

void add(uint64_t address, uint index, float value)
{
#ifdef NATIVE
    atomicAdd(Floats(address).values[index], value);
#else
    uint seen = Words(address).values[index];
    for (;;) {
        uint next = floatBitsToUint(uintBitsToFloat(seen) + value);
        uint found = atomicCompSwap(Words(address).values[index], seen, next);
        if (found == seen)
            break;
        seen = found;
    }
#endif
}
#endif

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= uint(block.items))
        return;
    Floats a = Floats(block.tensors[0].data), b = Floats(block.tensors[1].data);
#ifdef BACKWARD
    float g = Floats(block.tensors[2].grad_read).values[i];
    if (grad_a)
        add(block.tensors[0].grad_add, i, g * b.values[i]);
    if (grad_b)
        add(block.tensors[1].grad_add, i, g * a.values[i]);
#else
    Floats y = Floats(block.tensors[2].data);
#ifdef SPIN
    // Reads back what it writes, so that the loop stays.
    for (uint turn = 0; turn < uint(block.flags); turn++) {
        y.values[i] = y.values[i] * 0.5 + a.values[i];
        memoryBarrierBuffer();
    }
#endif
    y.values[i] = a.values[i] * b.values[i];
#endif
}
