#version 460
// gather.comp - y[i] = table[index[i]] with elements of TYPE (VALUE in GLSL). With -DFORWARD the
// forward entry.
#extension GL_GOOGLE_include_directive : require
#include "diffdispatch/device/ddisp.glsl"

#define TENSOR_OF(type) TENSOR_PASTE(type)
#define TENSOR_PASTE(type) ddisp_tensor_##type
#define OPEN(type, i) DDISP_TENSOR(type, i)

DDISP_KERNEL(gather, 3)
{
    TENSOR_OF(TYPE) table = OPEN(TYPE, 0), y = OPEN(TYPE, 2);
    ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);
#ifdef FORWARD
    DDISP_FOR_EACH_ITEM(i) {
        ddisp_store(y, i, ddisp_load(table, ddisp_load(index, i)));
    }
#else
    const int how = DDISP_SCALAR(i32, 3);
    const uint modulus = DDISP_SCALAR(u32, 4), rest = DDISP_SCALAR(u32, 5);
    DDISP_FOR_EACH_ITEM(i) {
        if (i % modulus == rest)
            ddisp_add_grad(table, ddisp_load(index, i), ddisp_grad(y, i), how);
    }
#endif
}
