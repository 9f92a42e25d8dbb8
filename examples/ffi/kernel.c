/*
 * kernel.c - the kernel `mul` for the host as a shared object, for programs in languages whose
 * functions cannot run in the threads of others (mixed_grad.lua). The items begin to end - 1, one
 * thread for each; a frozen input's gradient is skipped.
 */
#include <diffdispatch/device/ddisp_host.h>

DDISP_KERNEL(mul_forward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i)
    ddisp_store(y, i, ddisp_load(a, i) * ddisp_load(b, i));
}

DDISP_KERNEL(mul_backward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i)
    {
        float g = ddisp_grad(y, i);
        ddisp_add_grad(a, i, g * ddisp_load(b, i));
        ddisp_add_grad(b, i, g * ddisp_load(a, i));
    }
}
