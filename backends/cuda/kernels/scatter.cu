// scatter.cu - scatter-add with sums in f32 or f64: in the order in which threads come along.
#include "scatter.cuh"

struct floating {
    typedef number sum;
    enum : uint32_t { WORDS = sizeof(number) / 4 };
    const bool is_wanted = true;

    MEMBER floating(const work_scatter &)
    {
    }
    DEVICE bool counts(const work_scatter &)
    {
        return true;
    }
    DEVICE number zero()
    {
        return 0;
    }
    DEVICE bool is_zero(number value)
    {
        return value == 0;
    }
    MEMBER number take(const work_scatter &, number value) const
    {
        return value;
    }
    DEVICE void add_memory(const work_scatter &work, uint64_t cell, number value)
    {
        add(work.to_type, memory_of(work, cell), value);
    }
    DEVICE void add_shared(unsigned char *shared, uint32_t, uint32_t i, number value)
    {
        atomicAdd((number *)shared + i, value);
    }
    DEVICE number from_shared(const unsigned char *shared, uint32_t, uint32_t i)
    {
        return ((const number *)shared)[i];
    }
};

KERNEL_OF(ddisp_scatter, work_scatter)
{
    scatter<floating, uint32_t, false>(work);
}

// 2^32 cells or more.
KERNEL_OF(ddisp_scatter_wide, work_scatter)
{
    scatter<floating, uint64_t, false>(work);
}

KERNEL_OF(ddisp_scatter_shared, work_scatter)
{
    scatter<floating, uint32_t, true>(work);
}
