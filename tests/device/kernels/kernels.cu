// kernels.cu - the other kernels of the tests of the device headers, for CUDA. kernels.c and the
// .comp files are their twins.
#include <diffdispatch/device/ddisp.cuh>

/* y[i] = table[index[i]]; backward adds only where i % modulus == rest, in the way `how`. */
#define GATHER(type)                                                                               \
    DDISP_KERNEL(gather_##type##_forward, 3, 3)                                                    \
    {                                                                                              \
        auto table = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 2);                             \
        auto index = DDISP_TENSOR(const int, 1);                                                   \
        DDISP_FOR_EACH_ITEM(i) y.store(i, table[index[i]]);                                        \
    }                                                                                              \
    DDISP_KERNEL(gather_##type##_backward, 3, 3)                                                   \
    {                                                                                              \
        auto table = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 2);                             \
        auto index = DDISP_TENSOR(const int, 1);                                                   \
        const int how = DDISP_SCALAR(int, 3);                                                      \
        const unsigned modulus = DDISP_SCALAR(u32, 4), rest = DDISP_SCALAR(u32, 5);                \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            if (i % modulus == rest)                                                               \
                table.add_grad(index[i], y.grad(i), how);                                          \
        }                                                                                          \
    }
GATHER(f32)
GATHER(f64)
GATHER(f16)
GATHER(bf16)

/* y[r] = sum of m[r, c] * v[c] over c, by multi-index. */
DDISP_KERNEL(rows_forward, 3)
{
    auto m = DDISP_TENSOR(const float, 0), v = DDISP_TENSOR(const float, 1);
    auto y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(r)
    {
        float sum = 0;
        for (int64_t c = 0; c < m.shape(1); c++)
            sum += m[ddisp_at(r, c)] * v[ddisp_at(c)];
        y.store(ddisp_at(r), sum);
    }
}
DDISP_KERNEL(rows_backward, 3)
{
    auto m = DDISP_TENSOR(const float, 0), v = DDISP_TENSOR(const float, 1);
    auto y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(r)
    {
        const float g = y.grad(ddisp_at(r));
        for (int64_t c = 0; c < m.shape(1); c++) {
            m.add_grad(ddisp_at(r, c), g * v[ddisp_at(c)]);
            v.add_grad(ddisp_at(c), g * m[ddisp_at(r, c)]);
        }
    }
}

/* y = k * x + m with the parameters in the order x, k, y, m. */
DDISP_KERNEL(order_forward, 2, 2)
{
    auto x = DDISP_TENSOR_AT(float, 0, 0), y = DDISP_TENSOR_AT(float, 2, 1);
    const double k = DDISP_SCALAR_AT(double, 0);
    const long long m = DDISP_SCALAR_AT(i64, 1);
    DDISP_FOR_EACH_ITEM(i) y.store(i, (float)(k * x[i] + (double)m));
}
DDISP_KERNEL(order_backward, 2, 2)
{
    auto x = DDISP_TENSOR_AT(float, 0, 0), y = DDISP_TENSOR_AT(float, 2, 1);
    const double k = DDISP_SCALAR_AT(double, 0);
    DDISP_FOR_EACH_ITEM(i) x.add_grad(i, (float)(k * y.grad(i)));
}

/* y = x0 + 6 x5 + 12 x11, with 12 inputs: a block of more than 4096 bytes. */
#define EACH(X) X(0) X(5) X(11)
DDISP_KERNEL(many_forward, 13)
{
    auto y = DDISP_TENSOR(float, 12);
#define LOAD(k) sum += (k + 1) * DDISP_TENSOR(float, k)[i];
    DDISP_FOR_EACH_ITEM(i)
    {
        float sum = 0;
        EACH(LOAD)
        y.store(i, sum);
    }
}
DDISP_KERNEL(many_backward, 13)
{
    auto y = DDISP_TENSOR(float, 12);
#define ADD(k) DDISP_TENSOR(float, k).add_grad(i, (k + 1) * g);
    DDISP_FOR_EACH_ITEM(i)
    {
        const float g = y.grad(i);
        EACH(ADD)
    }
}

/* Adds the upstream gradients of y to the gradient of x, element i to element i % numel, through a
 * block of two tensors that lies in the first tensor of the block that is given. */
#define REPLAY(type)                                                                               \
    extern "C" __global__ void replay_##type(const __grid_constant__ ddisp::block<3, 1> given)     \
    {                                                                                              \
        auto ddisp_argument = (const ddisp::block<2> *)given.tensor[0].data;                       \
        const int how = (int)given.scalar[0];                                                      \
        /* no switches: the parameters of the launch are others */                                 \
        const ddisp::tensor<DDISP_TYPE(type)> x(ddisp_argument->tensor[0], 1),                     \
            y(ddisp_argument->tensor[1], 1);                                                       \
        DDISP_FOR_EACH_ITEM(i) x.add_grad(i % x.numel(), y.grad(i), how);                          \
    }
REPLAY(f32)
REPLAY(f64)
REPLAY(f16)
REPLAY(bf16)
