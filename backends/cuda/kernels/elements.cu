// elements.cu - element-wise work with numbers, in f32 or f64: store with conversion, and add. No
// single instruction adds to f16 and bf16, nor in f64 to f32; there it is a compare-and-swap, of
// whole words where halves lie side by side.
#include "each.cuh"
#include "halves.cuh"

struct storing {
    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&from)[N],
                    const bool (&is_there)[N])
    {
        number value[N];
        load_all(work.from_type, from, value);
        const number alpha = (number)work.alpha;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (is_there[k])
                store(work.to_type, to[k], alpha * value[k]);
    }
};

// To memory of the number's own type.
struct adding {
    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&from)[N],
                    const bool (&is_there)[N])
    {
        number value[N];
        load_all(work.from_type, from, value);
        const number alpha = (number)work.alpha;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (is_there[k])
                red(to[k], alpha * value[k]);
    }
};

KERNEL_OF(ddisp_store, work_each)
{
    each<storing>(work);
}

KERNEL_OF(ddisp_add, work_each)
{
    each<adding>(work);
}

// To any type, one element for a thread: line is 0.
KERNEL_OF(ddisp_add_any, work_each)
{
    int64_t at[2];
    uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
    if (n >= work.axes.count)
        return;
    place<2>(work.axes, {work.to_stride, work.from_stride}, n, at);
    add(work.to_type, work.to + at[0],
        (number)work.alpha * load<number>(work.from_type, work.from + at[1]));
}

// To f16 or bf16 without gaps, from elements that have one stride.
KERNEL_OF(ddisp_add_halves, work_halves)
{
    halves<number> both;
    if (both.find(work))
        add_halves(work.to_type, both.word, both.lower, both.upper, both.has_lower, both.has_upper);
}
