/*
 * mul.c - y = a * b with the device header for the host: the program of docs/kernels.md, with a
 * function for every mask of gradients.
 */
#include <diffdispatch/device/ddisp_host.h>

DDISP_KERNEL(mul_forward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i)
    {
        ddisp_store(y, i, ddisp_load(a, i) * ddisp_load(b, i));
    }
}

DDISP_KERNEL(mul_backward, 3)
{
    ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i)
    {
        float g = ddisp_grad(y, i);
        ddisp_add_grad(a, i, g * ddisp_load(b, i)); /* gone from the code when a is frozen */
        ddisp_add_grad(b, i, g * ddisp_load(a, i));
    }
}
DDISP_KERNEL_VARIANT(mul_backward, 5) /* a and y */
DDISP_KERNEL_VARIANT(mul_backward, 6) /* b and y */
