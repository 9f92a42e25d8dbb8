// elements.cu - element-wise work with numbers, in f32 or f64: store with conversion, and add. No
// single instruction adds to f16 and bf16, nor in f64 to f32; there it is a compare-and-swap, of
// whole words where halves lie side by side. An update is an add where nobody else adds: it reads
// and stores, 16 bytes at a time where nothing has gaps.
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

// To memory of the number's own type. Lanes that share a line of the cache: of neighbours.
struct adding {
    enum : uint32_t { SHARE_A_LINE = 128 / sizeof(number) };

    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&from)[N],
                    const bool (&is_there)[N])
    {
        number value[N];
        if (threadIdx.x % SHARE_A_LINE == 0) {
#pragma unroll
            for (int k = 0; k < N; k++)
                prefetch(to[k]);
        }
        load_all(work.from_type, from, value);
        const number alpha = (number)work.alpha;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (is_there[k])
                red(to[k], alpha * value[k]);
    }
};

// To any type.
struct updating {
    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&from)[N],
                    const bool (&is_there)[N])
    {
        number value[N], old[N];
        const char *there[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            there[k] = to[k];
        load_all(work.from_type, from, value);
        load_all(work.to_type, there, old);
        const number alpha = (number)work.alpha;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (is_there[k])
                store(work.to_type, to[k], old[k] + alpha * value[k]);
    }
};

#ifdef WORK_IN_F64
DEVICE void add_long(uint32_t &to_low, uint32_t &to_high, uint32_t low, uint32_t high, double alpha)
{
    double sum =
        __hiloint2double((int)to_high, (int)to_low) + alpha * __hiloint2double((int)high, (int)low);
    to_low = (uint32_t)__double2loint(sum);
    to_high = (uint32_t)__double2hiint(sum);
}

DEVICE uint4 add_words(uint32_t, uint4 to, uint4 from, double alpha)
{
    add_long(to.x, to.y, from.x, from.y, alpha);
    add_long(to.z, to.w, from.z, from.w, alpha);
    return to;
}
#else
// One f32, or two halves.
DEVICE uint32_t add_bits(uint32_t type, uint32_t to, uint32_t from, float alpha)
{
    if (type == WORK_F32)
        return __float_as_uint(__uint_as_float(to) + alpha * __uint_as_float(from));
    float lower = from_half(type, (uint16_t)to) + alpha * from_half(type, (uint16_t)from);
    float upper =
        from_half(type, (uint16_t)(to >> 16)) + alpha * from_half(type, (uint16_t)(from >> 16));
    return (uint32_t)to_half(type, upper) << 16 | to_half(type, lower);
}

DEVICE uint4 add_words(uint32_t type, uint4 to, uint4 from, float alpha)
{
    return {add_bits(type, to.x, from.x, alpha), add_bits(type, to.y, from.y, alpha),
            add_bits(type, to.z, from.z, alpha), add_bits(type, to.w, from.w, alpha)};
}
#endif

KERNEL_OF(ddisp_store, work_each)
{
    each<storing>(work);
}

KERNEL_OF(ddisp_add, work_each)
{
    each<adding>(work);
}

KERNEL_OF(ddisp_update, work_each)
{
    each<updating>(work);
}

// Whole words; the first group takes the few elements behind them too.
KERNEL_OF(ddisp_update_words, work_words)
{
    const uint32_t size = work.type == WORK_F64 ? 8 : work.type == WORK_F32 ? 4 : 2;
    const uint32_t each = 16 / size; // of a word
    const uint64_t words = work.count / each, n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
    const number alpha = (number)work.alpha;
    if (n < words)
        ((uint4 *)work.to)[n] =
            add_words(work.type, ((uint4 *)work.to)[n], ((const uint4 *)work.from)[n], alpha);
    const uint64_t last = words * each + threadIdx.x;
    if (blockIdx.x == 0 && last < work.count) {
        char *to = work.to + last * size;
        store(work.type, to,
              load<number>(work.type, to) +
                  alpha * load<number>(work.type, work.from + last * size));
    }
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
