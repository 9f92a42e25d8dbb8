// types.cu - uses every type and every part of the device header for CUDA. Compiled, never run.
#ifdef WITH_HALF
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#include <diffdispatch/device/ddisp.cuh>

#define ELEMENTS(name, ...)                                                                        \
    DDISP_KERNEL(copy_##name, 2, 1)                                                                \
    {                                                                                              \
        auto x = DDISP_TENSOR(__VA_ARGS__, 0), y = DDISP_TENSOR(__VA_ARGS__, 1);                   \
        auto k = DDISP_SCALAR(__VA_ARGS__, 2);                                                     \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        y.store(ddisp_at(i % y.shape(0), 0, 3), x.rank() == 3 && x.numel() > 2 ? x[i] : k);        \
    }
ELEMENTS(u8, u8)
ELEMENTS(i8, i8)
ELEMENTS(u16, u16)
ELEMENTS(i16, i16)
ELEMENTS(u32, u32)
ELEMENTS(i32, i32)
ELEMENTS(u64, u64)
ELEMENTS(i64, i64)
ELEMENTS(int64, int64_t)
ELEMENTS(uint64, uint64_t)
ELEMENTS(bool, bool)

#define GRADIENTS(name, ...)                                                                       \
    ELEMENTS(name, __VA_ARGS__)                                                                    \
    DDISP_KERNEL(add_##name, 3, 1)                                                                 \
    {                                                                                              \
        auto x = DDISP_TENSOR(__VA_ARGS__, 0), y = DDISP_TENSOR(__VA_ARGS__, 2);                   \
        auto c = DDISP_TENSOR(const int, 1);                                                       \
        auto k = DDISP_SCALAR(__VA_ARGS__, 3);                                                     \
        if (!x.wants_grad() || !y.has_grad())                                                      \
            return;                                                                                \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            const decltype(x.grad(i)) g = k * y.grad(i);                                           \
            x.add_grad(i, g);                                                                      \
            x.add_grad(c[i], g, DDISP_ADD_PLAIN);                                                  \
            if (i & 1)                                                                             \
                x.add_grad(ddisp_at(i, c[0]), g, DDISP_ADD_REDUCED);                               \
        }                                                                                          \
    }
GRADIENTS(float, float)
GRADIENTS(double, double)
GRADIENTS(f32, f32)
GRADIENTS(f64, f64)
GRADIENTS(f16, f16)
GRADIENTS(bf16, bf16)
GRADIENTS(own_f16, ddisp_f16)
GRADIENTS(own_bf16, ddisp_bf16)
#ifdef WITH_HALF
GRADIENTS(half, __half)
GRADIENTS(nv_bf16, __nv_bfloat16)
#endif

DDISP_KERNEL(sum_const, 4)
{
    auto a = DDISP_TENSOR(const float, 0);
    auto b = DDISP_TENSOR(const double, 1);
    auto c = DDISP_TENSOR(const ddisp_f16, 2);
    auto y = DDISP_TENSOR_AT(double, 5, 3);
    DDISP_FOR_EACH_ITEM(i)
    {
        y.store(i, a[i] + b[i] + c[i] + y[i]);
        a.add_grad(i, c[i]);
        c.add_grad(i, a[i]);
    }
}

/* In a template the type may be a parameter. */
template <typename T, typename Block> __device__ void twice(const Block &ddisp_argument)
{
    auto x = DDISP_TENSOR(T, 0), y = DDISP_TENSOR(T, 1);
    DDISP_FOR_EACH_ITEM(i) x.add_grad(i, 2 * y.grad(i));
}
DDISP_KERNEL(twice_float, 2)
{
    twice<float>(ddisp_argument);
}
DDISP_KERNEL(largest_by_value, 12, 28)
{
    auto y = DDISP_TENSOR(u64, 11);
    DDISP_FOR_EACH_ITEM(i) y.store(i, DDISP_SCALAR(u64, 39));
}
DDISP_KERNEL(smallest_by_pointer, 12, 29)
{
    auto y = DDISP_TENSOR(u64, 11);
    DDISP_FOR_EACH_ITEM(i) y.store(i, DDISP_SCALAR(u64, 40));
}
