#version 460
// order.comp - y = k * x + m with the parameters in the order x, k, y, m. With -DFORWARD the forward
// entry.
#extension GL_GOOGLE_include_directive : require
#include "diffdispatch/device/ddisp.glsl"

DDISP_SWITCH(2)
DDISP_KERNEL(order, 1)
{
    ddisp_tensor_float x = DDISP_TENSOR_AT(float, 0, 0), y = DDISP_TENSOR_AT(float, 2, 1);
    const double k = DDISP_SCALAR_AT(double, 0);
    const int64_t m = DDISP_SCALAR_AT(i64, 1);
    DDISP_FOR_EACH_ITEM(i) {
#ifdef FORWARD
        ddisp_store(y, i, float(k * ddisp_load(x, i) + double(m)));
#else
        ddisp_add_grad(x, i, float(k * ddisp_grad(y, i)));
#endif
    }
}
