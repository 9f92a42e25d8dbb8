// hand.cu - what a person would write for y = a*b by hand: backward with one gradient and with both, and
// both by plain stores. Raw pointers and a length. regenerate.sh makes hand.ptx from this.
#include <cstdint>

extern "C" __global__ void hand_one(const float *__restrict__ b, const float *__restrict__ gy, float *ga, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(ga + i, gy[i] * b[i]);
}

extern "C" __global__ void hand_both(const float *__restrict__ a, const float *__restrict__ b,
                                     const float *__restrict__ gy, float *ga, float *gb, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float g = gy[i];
        atomicAdd(ga + i, g * b[i]);
        atomicAdd(gb + i, g * a[i]);
    }
}

extern "C" __global__ void hand_nothing(void) {}
