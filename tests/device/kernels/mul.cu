// mul.cu - y = a * b with the device header for CUDA: the program of docs/kernels.md.
#include <diffdispatch/device/ddisp.cuh>

DDISP_KERNEL(mul_forward, 3)
{
    auto a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1), y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i) {
        y.store(i, a[i] * b[i]);
    }
}

DDISP_KERNEL(mul_backward, 3)
{
    auto a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1), y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(i) {
        float g = y.grad(i);
        a.add_grad(i, g * b[i]); /* gone from the code when a is frozen */
        b.add_grad(i, g * a[i]);
    }
}
