// shadow.cu - ends deterministic mode in users' kernels: sums that were taken in integers go into
// the gradient. Compiled for work in f64 alone.
#include "common.cuh"

enum : uint32_t { TOO_MANY = 4 }; // ddisp_backend_table.fold

// With at most one rounding but for that of the product.
DEVICE double value_of(const work_shadow &work, int64_t whole, int64_t units)
{
    double high = (double)whole, rest = (double)(whole - (int64_t)high);
    return (high + (rest + (double)units * 9.3132257461547851563e-10)) * work.step; // 2^-30
}

DEVICE void say_too_many(uint32_t *flags)
{
    uint32_t seen = *(volatile uint32_t *)flags, expected;
    do {
        expected = seen;
        seen = atomicCAS(flags, expected, expected | TOO_MANY);
    } while (seen != expected);
}

KERNEL(ddisp_shadow, work_shadow)
{
    int64_t at[2], units = 0;
    uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
    if (n >= work.axes.count)
        return;
    place<2>(work.axes, {work.to_stride, work.from_stride}, n, at);
    const int64_t *sum = (const int64_t *)(work.from + at[1]);
    int64_t whole = sum[0];
    if (work.wide) {
        units = sum[1];
        whole += units >> 30; // carries, also downwards
        units &= (1ll << 30) - 1;
    }
    if (whole > 1ll << 62 || whole < -(1ll << 62))
        say_too_many((uint32_t *)work.sticky);
    if (work.stores)
        store(work.to_type, work.to + at[0], value_of(work, whole, units));
    else
        add(work.to_type, work.to + at[0], value_of(work, whole, units));
}
