// y = k * a * b through addresses in push constants, as written for any program. One address is a
// pair of 32-bit numbers.
//   BACKWARD  adds to both gradients by load and store
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(push_constant) uniform Arguments {
    Floats a;
    uvec2 b;
    Floats y; // or its gradient
    uint count;
    float k;
#ifdef BACKWARD
    Floats grad_a, grad_b;
#endif
};

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= count)
        return;
#ifdef BACKWARD
    float g = k * y.at[i];
    grad_a.at[i] += g * Floats(b).at[i];
    grad_b.at[i] += g * a.at[i];
#else
    y.at[i] = k * a.at[i] * Floats(b).at[i];
#endif
}
