// x = 2 * x in place, in a storage buffer.
//   OFFSET  element 0 is this many elements behind the buffer's beginning
//   HALF    of 16-bit numbers
#version 450
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define NUMBER float16_t
#else
#define NUMBER float
#endif
layout(local_size_x = 64) in;

layout(set = 0, binding = 0) buffer X { NUMBER x[]; };
layout(push_constant) uniform Numbers {
    uint count;
#ifdef OFFSET
    uint offset;
#endif
};
#ifndef OFFSET
const uint offset = 0;
#endif

void main()
{
    for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 64)
        x[offset + i] = NUMBER(2.0 * float(x[offset + i]));
}
