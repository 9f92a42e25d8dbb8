/*
 * types.c - uses every type and every part of the device header for the host, in the way that C and
 * C++ share. Compiled, never run.
 */
#include <diffdispatch/device/ddisp_host.h>

#define ELEMENTS(type)                                                                             \
    DDISP_KERNEL(copy_##type, 2, 1)                                                                \
    {                                                                                              \
        ddisp_tensor_##type x = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 1);                  \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            ddisp_store(y, i, ddisp_load(x, i));                                                   \
            if (ddisp_rank(x) == 3 && ddisp_numel(x) > 2 && ddisp_shape(y, 0) == 4)                \
                ddisp_store(y, ddisp_at(i, 0, 3), DDISP_SCALAR(type, 2));                          \
        }                                                                                          \
    }
#define GRADIENTS(type)                                                                            \
    ELEMENTS(type)                                                                                 \
    DDISP_KERNEL(add_##type, 2)                                                                    \
    {                                                                                              \
        const ddisp_tensor_##type x = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 1);            \
        if (!ddisp_wants_grad(x) || !ddisp_has_grad(y))                                            \
            return;                                                                                \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            ddisp_add_grad(x, i, ddisp_grad(y, i));                                                \
            ddisp_add_grad(x, i, ddisp_grad(y, ddisp_at(i)), DDISP_ADD_PLAIN);                     \
            if (i & 1)                                                                             \
                ddisp_add_grad(x, ddisp_at(i, 1), ddisp_grad(y, i), DDISP_ADD_REDUCED);            \
        }                                                                                          \
    }                                                                                              \
    DDISP_KERNEL_VARIANT(add_##type, 1)
GRADIENTS(float)
GRADIENTS(double)
GRADIENTS(f16)
GRADIENTS(bf16)
GRADIENTS(f32)
GRADIENTS(f64)
ELEMENTS(u8)
ELEMENTS(i8)
ELEMENTS(u16)
ELEMENTS(i16)
ELEMENTS(u32)
ELEMENTS(i32)
ELEMENTS(u64)
ELEMENTS(i64)

#ifdef __cplusplus
DDISP_KERNEL(mul_backward, 3)
{
    auto a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1), y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i)
    {
        float g = y.grad(i);
        a.add_grad(i, g * b[i]);
        b.add_grad(ddisp_at(i), g * a[ddisp_at(i)], DDISP_ADD_PLAIN);
        y.store(i, a.wants_grad() && y.has_grad() && a.rank() == 1 && a.shape(0) == a.numel());
    }
}
#endif
