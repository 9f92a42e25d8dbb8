#version 460
// hand.comp - what a person would write for the backward of y = a*b by hand, with buffer addresses:
// one gradient, both with -DBOTH.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_atomic_float : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(push_constant) uniform Push { Floats a, b, gy, ga, gb; uint64_t n; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (uint64_t(i) >= n)
        return;
    float g = gy.v[i];
    atomicAdd(ga.v[i], g * b.v[i]);
#ifdef BOTH
    atomicAdd(gb.v[i], g * a.v[i]);
#endif
}
