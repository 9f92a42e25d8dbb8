// y[i] = x[index[i]] + s[0] by the device headers, for each type; backward entries alone.
#include <diffdispatch/device/ddisp.cuh>

#define BINS(type, out)                                                                            \
    DDISP_KERNEL(bins_##type, 4)                                                                   \
    {                                                                                              \
        auto x = DDISP_TENSOR(type, 0), s = DDISP_TENSOR(type, 2);                                 \
        auto index = DDISP_TENSOR(const int, 1);                                                   \
        auto y = DDISP_TENSOR(const out, 3);                                                       \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            x.add_grad((uint64_t)index[i], y.grad(i));                                             \
            s.add_grad((uint64_t)0, y.grad(i));                                                    \
        }                                                                                          \
    }
BINS(f16, float)
BINS(bf16, float)
BINS(f32, float)
BINS(f64, double)
