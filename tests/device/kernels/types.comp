#version 460
// types.comp - uses every type and every part of the device header for GLSL. Compiled, never run.
#extension GL_GOOGLE_include_directive : require
#define DDISP_GROUP_SIZE 64
#include "diffdispatch/device/ddisp.glsl"

#define ELEMENTS(type)                                                                             \
    {                                                                                              \
        ddisp_tensor_##type x = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 1);                  \
        DDISP_FOR_EACH_ITEM(i) {                                                                   \
            ddisp_store(y, i, ddisp_load(x, i));                                                   \
            if (ddisp_rank(x) == 3 && ddisp_numel(x) > 2 && ddisp_shape(y, 0) == 4)                \
                ddisp_store(y, ddisp_at(i, 0, 3), DDISP_SCALAR(type, 2));                          \
        }                                                                                          \
    }
#define GRADIENTS(type)                                                                            \
    {                                                                                              \
        ddisp_tensor_##type x = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 1);                  \
        if (ddisp_wants_grad(x) && ddisp_has_grad(y))                                              \
            DDISP_FOR_EACH_ITEM(i) {                                                               \
                ddisp_add_grad(x, i, ddisp_grad(y, i));                                            \
                ddisp_add_grad(x, i, ddisp_grad(y, ddisp_at(i)), DDISP_ADD_PLAIN);                 \
                if ((i & 1) != 0)                                                                  \
                    ddisp_add_grad(x, ddisp_at(i, 1), ddisp_grad(y, i), DDISP_ADD_REDUCED);        \
            }                                                                                      \
    }

#define GRADIENTS_OF(type) GRADIENTS(type)

DDISP_SWITCH(63)
DDISP_KERNEL(types, 3)
{
#ifdef ONE
    GRADIENTS_OF(ONE)
#else
    ELEMENTS(float)
    ELEMENTS(double)
    ELEMENTS(f16)
    ELEMENTS(bf16)
    ELEMENTS(f32)
    ELEMENTS(f64)
    ELEMENTS(u8)
    ELEMENTS(i8)
    ELEMENTS(u16)
    ELEMENTS(i16)
    ELEMENTS(u32)
    ELEMENTS(i32)
    ELEMENTS(u64)
    ELEMENTS(i64)
    GRADIENTS(f32)
    GRADIENTS(f64)
    GRADIENTS(f16)
    GRADIENTS(bf16)
    ddisp_tensor_f32 last = DDISP_TENSOR_AT(f32, 63, 2);
    DDISP_FOR_EACH_ITEM(i) {
        const ddisp_index one = ddisp_at(1, 2, 3, 4, 5, 6, 7, 8);
        ddisp_store(last, one, DDISP_SCALAR_AT(f32, 0));
    }
#endif
}
