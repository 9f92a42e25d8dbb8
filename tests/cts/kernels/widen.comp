// y = (double)x: the upstream is f64, the gradient f32. Opaque.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 2
#include "cts.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer F64 {
    double v;
};

void main()
{
    for (ITEMS(i)) {
#if BACKWARD
        uint64_t g = block.tensor[1].grad_read + uint64_t(read_offset(1, i) * 8);
        add_grad(0, i, float(F64(g).v));
#else
        F64(data_address(1, i, 8)).v = double(load(0, i));
#endif
    }
}
