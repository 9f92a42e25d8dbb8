// Kernels of somebody else: raw pointers and numbers, nothing of this library. The backward ones add
// atomically into the gradients of both inputs, whatever happens; those with a number at the end of
// their name only into the gradients of its bits. mul_existing.ptx is made by generate_ptx.sh.

extern "C" __global__ void mul_forward(const float *a, const float *b, float *y, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a[i] * b[i];
}

extern "C" __global__ void mul_backward(const float *a, const float *b, const float *gy, float *ga,
                                        float *gb, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(ga + i, gy[i] * b[i]);
        atomicAdd(gb + i, gy[i] * a[i]);
    }
}

extern "C" __global__ void mul_backward_5(const float *a, const float *b, const float *gy, float *ga,
                                          float *gb, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(ga + i, gy[i] * b[i]);
}

extern "C" __global__ void mul_backward_6(const float *a, const float *b, const float *gy, float *ga,
                                          float *gb, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(gb + i, gy[i] * a[i]);
}

extern "C" __global__ void mul_backward_7(const float *a, const float *b, const float *gy, float *ga,
                                          float *gb, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(ga + i, gy[i] * b[i]);
        atomicAdd(gb + i, gy[i] * a[i]);
    }
}

// y = k x over rows that lie apart; a grid of two axes.
extern "C" __global__ void scale_forward(float *y, const float *x, int rows, int columns,
                                         int row_stride, float k)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        y[row * columns + column] = k * x[row * row_stride + column];
}
