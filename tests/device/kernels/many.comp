#version 460
// many.comp - y = x0 + 6 x5 + 12 x11, with 12 inputs. With -DFORWARD the forward entry.
#extension GL_GOOGLE_include_directive : require
#include "diffdispatch/device/ddisp.glsl"

#define EACH(X) X(0) X(5) X(11)
#define LOAD(k) sum += (k + 1) * ddisp_load(DDISP_TENSOR(float, k), i);
#define ADD(k) ddisp_add_grad(DDISP_TENSOR(float, k), i, (k + 1) * g);

DDISP_KERNEL(many, 13)
{
    ddisp_tensor_float y = DDISP_TENSOR(float, 12);
    DDISP_FOR_EACH_ITEM(i) {
#ifdef FORWARD
        float sum = 0;
        EACH(LOAD)
        ddisp_store(y, i, sum);
#else
        const float g = ddisp_grad(y, i);
        EACH(ADD)
#endif
    }
}
