// nine.cu - backward of a sum of nine inputs: every gradient gets the upstream. nine_all writes all of them
// blindly, nine_first only the first. regenerate.sh makes nine.ptx from this.
#include <diffdispatch/device/ddisp_block.h>

struct nine_block {
    ddisp_block head;
    ddisp_device_tensor tensor[10];
};

template <int COUNT> static __device__ void add(const nine_block &block)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    const float *gy = (const float *)__cvta_global_to_generic(block.tensor[9].grad_read);
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < block.head.items; i += step)
        for (int k = 0; k < COUNT; k++)
            atomicAdd((float *)__cvta_global_to_generic(block.tensor[k].grad_add) + i, gy[i]);
}

extern "C" __global__ void nine_all(const __grid_constant__ nine_block block) { add<9>(block); }
extern "C" __global__ void nine_first(const __grid_constant__ nine_block block) { add<1>(block); }
