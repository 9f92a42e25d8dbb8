#version 460
// rows.comp - y[r] = sum of m[r, c] * v[c] over c, by multi-index. With -DFORWARD the forward entry.
#extension GL_GOOGLE_include_directive : require
#include "diffdispatch/device/ddisp.glsl"

DDISP_KERNEL(rows, 3)
{
    ddisp_tensor_float m = DDISP_TENSOR(float, 0), v = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(r) {
#ifdef FORWARD
        float sum = 0;
        for (int c = 0; c < ddisp_shape(m, 1); c++)
            sum += ddisp_load(m, ddisp_at(r, c)) * ddisp_load(v, ddisp_at(c));
        ddisp_store(y, ddisp_at(r), sum);
#else
        const float g = ddisp_grad(y, ddisp_at(r));
        for (int c = 0; c < ddisp_shape(m, 1); c++) {
            ddisp_add_grad(m, ddisp_at(r, c), g * ddisp_load(v, ddisp_at(c)));
            ddisp_add_grad(v, ddisp_at(c), g * ddisp_load(m, ddisp_at(r, c)));
        }
#endif
    }
}
