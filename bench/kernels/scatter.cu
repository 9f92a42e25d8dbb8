// scatter.cu - the plain scatter-add: one atomic add for each element. Parameters of the standard
// block: index (i32), source (f32), sum (f32). regenerate.sh makes scatter.ptx from this.
#include <diffdispatch/device/ddisp_block.h>

struct scatter_block {
    ddisp_block head;
    ddisp_device_tensor index, source, sum;
};

extern "C" __global__ void scatter_plain(const __grid_constant__ scatter_block block)
{
    const int *index = (const int *)block.index.data;
    const float *source = (const float *)block.source.data;
    float *sum = (float *)block.sum.data;
    const uint64_t items = block.head.items, step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < items; i += step)
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(sum + index[i])),
                     "f"(source[i])
                     : "memory");
}
