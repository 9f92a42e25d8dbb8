// store.cu - backward of y = a*b that stores every element of both gradients once, on the standard
// argument block. regenerate.sh makes store.ptx from this.
#include <diffdispatch/device/ddisp_block.h>

struct store_block {
    ddisp_block head;
    ddisp_device_tensor a, b, y;
};

extern "C" __global__ void store_backward(const __grid_constant__ store_block block)
{
    const float4 *a = (const float4 *)block.a.data, *b = (const float4 *)block.b.data;
    const float4 *gy = (const float4 *)block.y.grad_read;
    float4 *ga = (float4 *)block.a.grad_add, *gb = (float4 *)block.b.grad_add;
    const uint64_t items = block.head.items / 4, step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < items; i += step) {
        float4 u = __ldg(a + i), v = __ldg(b + i), g = __ldg(gy + i);
        ga[i] = make_float4(g.x * v.x, g.y * v.y, g.z * v.z, g.w * v.w);
        gb[i] = make_float4(g.x * u.x, g.y * u.y, g.z * u.z, g.w * u.w);
    }
}
