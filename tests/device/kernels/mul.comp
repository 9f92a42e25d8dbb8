#version 460
// mul.comp - y = a * b with the device header for GLSL: the program of docs/kernels.md. With
// -DFORWARD the forward entry.
#extension GL_GOOGLE_include_directive : require
#include "diffdispatch/device/ddisp.glsl"

#ifdef FORWARD
DDISP_KERNEL(mul_forward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i) {
        ddisp_store(y, i, ddisp_load(a, i) * ddisp_load(b, i));
    }
}
#else
DDISP_KERNEL(mul_backward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i) {
        float g = ddisp_grad(y, i);
        ddisp_add_grad(a, i, g * ddisp_load(b, i)); // gone from the code when a is frozen
        ddisp_add_grad(b, i, g * ddisp_load(a, i));
    }
}
#endif
