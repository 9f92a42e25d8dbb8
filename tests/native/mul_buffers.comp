// y = k * a * b through storage buffers and push constants, as written for any program.
//   BACKWARD  adds to both gradients: by load and store, or with CAS by compare-and-swap
#version 450
layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 3) readonly buffer B { float b[]; };
#ifdef BACKWARD
#ifdef CAS
layout(set = 1, binding = 0) buffer GradA { uint grad_a[]; };
layout(set = 1, binding = 1) buffer GradB { uint grad_b[]; };
#else
layout(set = 1, binding = 0) buffer GradA { float grad_a[]; };
layout(set = 1, binding = 1) buffer GradB { float grad_b[]; };
#endif
layout(set = 2, binding = 0) readonly buffer GradY { float grad_y[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
#endif
layout(push_constant) uniform Numbers {
    uint count;
    float k;
};

#ifdef CAS
#define ADD(grad, i, value)                                                                        \
    for (uint seen = grad[i], before = ~seen; before != seen;) {                                   \
        before = seen;                                                                             \
        seen = atomicCompSwap(grad[i], before, floatBitsToUint(uintBitsToFloat(before) + value));  \
    }
#else
#define ADD(grad, i, value) grad[i] += value
#endif

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= count)
        return;
#ifdef BACKWARD
    float g = k * grad_y[i];
    ADD(grad_a, i, g * b[i]);
    ADD(grad_b, i, g * a[i]);
#else
    y[i] = k * a[i] * b[i];
#endif
}
