/*
 * gather.c - y[i] = x[index[i]] by the device headers, which serve deterministic mode.
 * testkernels.py declares it, and has it for CUDA.
 */
#include <diffdispatch/device/ddisp_host.h>

#pragma GCC visibility push(default)

DDISP_KERNEL(gather_forward, 3)
{
    ddisp_tensor_float x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 2);
    ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);
    DDISP_FOR_EACH_ITEM(i)
    ddisp_store(y, i, ddisp_load(x, (uint64_t)ddisp_load(index, i)));
}

DDISP_KERNEL(gather_backward, 3)
{
    ddisp_tensor_float x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 2);
    ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);
    DDISP_FOR_EACH_ITEM(i)
    ddisp_add_grad(x, (uint64_t)ddisp_load(index, i), ddisp_grad(y, i));
}
