#version 460
// bins.comp - y[i] = x[index[i]] + s[0] with elements of TYPE, y of OUT, by the device headers; its
// backward entry alone.
#extension GL_GOOGLE_include_directive : require
#define DDISP_DETERMINISTIC
#include "diffdispatch/device/ddisp.glsl"

#define TENSOR_OF(type) TENSOR_PASTE(type)
#define TENSOR_PASTE(type) ddisp_tensor_##type
#define OPEN(type, i) DDISP_TENSOR(type, i)

DDISP_KERNEL(bins, 4)
{
    TENSOR_OF(TYPE) x = OPEN(TYPE, 0), s = OPEN(TYPE, 2);
    TENSOR_OF(OUT) y = OPEN(OUT, 3);
    ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);
    DDISP_FOR_EACH_ITEM(i) {
        ddisp_add_grad(x, uint64_t(ddisp_load(index, i)), ddisp_grad(y, i));
        ddisp_add_grad(s, 0ul, ddisp_grad(y, i));
    }
}
