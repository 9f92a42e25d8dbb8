// y = a * b on f32 or f64, whose backward stores every element of a gradient once.
#version 460
#extension GL_GOOGLE_include_directive : require
#define TENSORS 3
#include "cts.glsl"

layout(constant_id = 1024) const bool a_on = true;
layout(constant_id = 1025) const bool b_on = true;

layout(buffer_reference, std430, buffer_reference_align = 8) buffer F64 {
    double v;
};

#if BACKWARD
void gradient(uint p, uint other, uint64_t i, bool wide)
{
    if (block.tensor[p].grad_add == 0)
        return;
    uint64_t to = uint64_t(add_offset(p, i)), from = uint64_t(read_offset(2, i));
    if (wide)
        F64(block.tensor[p].grad_add + 8 * to).v =
            F64(block.tensor[2].grad_read + 8 * from).v * F64(data_address(other, i, 8)).v;
    else
        F32(block.tensor[p].grad_add + 4 * to).v = upstream(2, i) * load(other, i);
}
#endif

void main()
{
    const bool wide = block.tensor[0].dtype == 13;
    for (ITEMS(i)) {
#if BACKWARD
        if (a_on)
            gradient(0, 1, i, wide);
        if (b_on)
            gradient(1, 0, i, wide);
#else
        if (wide)
            F64(data_address(2, i, 8)).v =
                F64(data_address(0, i, 8)).v * F64(data_address(1, i, 8)).v;
        else
            store(2, i, load(0, i) * load(1, i));
#endif
    }
}
