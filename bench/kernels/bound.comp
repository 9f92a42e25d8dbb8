#version 460
// bound.comp - the backward of y = a*b on storage buffers, with a switch for each gradient: what a frozen
// input costs as a variant of its own, and as a null descriptor.
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 256) in;
layout(constant_id = 1024) const bool a_has_gradient = true;
layout(constant_id = 1025) const bool b_has_gradient = true;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) readonly buffer GradY { float gy[]; };
layout(set = 0, binding = 3) buffer GradA { float ga[]; };
layout(set = 0, binding = 4) buffer GradB { float gb[]; };
layout(push_constant) uniform Push { uint n; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= n)
        return;
    float g = gy[i];
    if (a_has_gradient)
        atomicAdd(ga[i], g * b[i]);
    if (b_has_gradient)
        atomicAdd(gb[i], g * a[i]);
}
