// fixed.cu - scatter-add with a result that depends on no order: elements become integers, whose
// sums are exact.
//
// An element v counts as the integer nearest to v * 2^k, with k such that no sum of as many
// elements as can come to one cell overflows 63 bits. For f64 what that leaves over goes, in the
// same way, into a second integer. k follows from a bound of the magnitudes. Looking at every
// element would cost half as much as adding them, so the bound is what a fixed sample shows, times
// a headroom; where an element is beyond it, everything is done again with the true bound. Both are
// functions of the elements alone.
//
// Elements that are not finite have no integer. Where there are any they are added to memory in a
// pass of their own: NaN, or the infinity, or NaN where both signs meet, is what is left there
// whatever comes first.
#include "scatter.cuh"

// 2^exponent, as far as the type goes.
DEVICE number power(int exponent)
{
#ifdef WORK_IN_F64
    if (exponent < -1022)
        return __longlong_as_double(exponent < -1074 ? 0 : 1ll << (exponent + 1074));
    return exponent > 1023 ? 1.7976931348623157e308
                           : __longlong_as_double((long long)(exponent + 1023) << 52);
#else
    if (exponent < -126)
        return __uint_as_float(exponent < -149 ? 0 : 1u << (exponent + 149));
    return exponent > 127 ? 3.402823466e38f : __uint_as_float((uint32_t)(exponent + 127) << 23);
#endif
}

DEVICE number magnitude_of(number value)
{
    return value < 0 ? -value : value;
}

DEVICE bool is_finite(number value)
{
    return magnitude_of(value) <= power(2000);
}

// ---- the bound and the steps

// The smallest exponent whose power of 2 is not below any element that is taken.
DEVICE int bound_log2(const work_scatter &work, bool is_exact)
{
    const work_head *head = (const work_head *)work.head;
    const int most = sizeof(number) == 4 ? 128 : 1024;
    uint64_t bits = is_exact ? head->largest : head->sampled;
    int exponent = (int)(bits >> 52) - 1023 + ((bits & 0xFFFFFFFFFFFFFull) != 0);
    exponent += is_exact ? 0 : (int)work.headroom_log2;
    return exponent < most ? exponent : most;
}

// k: integers count in steps of 2^-k.
DEVICE int steps_log2(const work_scatter &work, bool is_exact)
{
    return 62 - (int)work.count_log2 - bound_log2(work, is_exact);
}

// ---- integers

// Halves of 64-bit sums in shared memory: all lower ones, then all upper ones.
DEVICE void add_word(uint32_t *lower, uint32_t all, int64_t value)
{
    uint32_t low = (uint32_t)value, high = (uint32_t)((uint64_t)value >> 32);
    uint32_t before = atomicAdd(lower, low);
    high += before + low < before;
    if (high)
        atomicAdd(lower + all, high);
}

DEVICE int64_t get_word(const uint32_t *lower, uint32_t all)
{
    return (int64_t)((uint64_t)lower[all] << 32 | lower[0]);
}

#ifdef WORK_IN_F64
struct integer {
    int64_t high, low; // low counts in steps of 2^(count_log2 - 62) of high's
};

DEVICE integer operator+(integer a, integer b)
{
    return {a.high + b.high, a.low + b.low};
}

DEVICE integer from_lane(integer value, uint32_t lane)
{
    return {from_lane(value.high, lane), from_lane(value.low, lane)};
}

DEVICE integer to_integer(const work_scatter &work, double value)
{
    int64_t high = __double2ll_rn(value);
    double rest = value - (double)high; // exact
    return {high, __double2ll_rn(rest * power(62 - (int)work.count_log2))};
}

DEVICE double to_number(const work_scatter &work, integer sum)
{
    double high = (double)sum.high, rest = (double)(sum.high - (int64_t)high);
    return high + (rest + (double)sum.low * power((int)work.count_log2 - 62));
}

DEVICE bool is_nothing(integer sum)
{
    return sum.high == 0 && sum.low == 0;
}

DEVICE void add_integer(char *memory, integer value)
{
    red(memory, (uint64_t)value.high);
    red(memory + 8, (uint64_t)value.low);
}

DEVICE void add_words(uint32_t *shared, uint32_t all, integer value)
{
    add_word(shared, all, value.high);
    add_word(shared + 2 * all, all, value.low);
}

DEVICE integer get_words(const uint32_t *shared, uint32_t all)
{
    return {get_word(shared, all), get_word(shared + 2 * all, all)};
}
#else
typedef int64_t integer;

DEVICE integer to_integer(const work_scatter &, float value)
{
    return __float2ll_rn(value);
}

DEVICE float to_number(const work_scatter &, integer sum)
{
    return (float)sum;
}

DEVICE bool is_nothing(integer sum)
{
    return sum == 0;
}

DEVICE void add_integer(char *memory, integer value)
{
    red(memory, (uint64_t)value);
}

DEVICE void add_words(uint32_t *shared, uint32_t all, integer value)
{
    add_word(shared, all, value);
}

DEVICE integer get_words(const uint32_t *shared, uint32_t all)
{
    return get_word(shared, all);
}
#endif

// ---- kernels

struct fixed {
    typedef integer sum;
    enum : uint32_t { WORDS = sizeof(integer) / 4 };
    bool is_wanted;
    number limit, up[2];

    MEMBER fixed(const work_scatter &work)
    {
        is_wanted = !work.again || ((const work_head *)work.head)->beyond;
        const int steps = steps_log2(work, work.again != 0);
        limit = power(bound_log2(work, work.again != 0));
        up[0] = power(steps / 2); // 2^steps may be too large for the type
        up[1] = power(steps - steps / 2);
    }
    DEVICE bool counts(const work_scatter &work)
    {
        return !work.again;
    }
    DEVICE integer zero()
    {
        return integer();
    }
    DEVICE bool is_zero(integer value)
    {
        return is_nothing(value);
    }
    MEMBER integer take(const work_scatter &work, number value) const
    {
        if (magnitude_of(value) <= limit)
            return to_integer(work, value * up[0] * up[1]);
        work_head *head = (work_head *)work.head;
        *(is_finite(value) ? &head->beyond : &head->not_finite) = 1;
        return integer();
    }
    DEVICE void add_memory(const work_scatter &work, uint64_t cell, integer value)
    {
        add_integer(work.sums + cell * sizeof(integer), value);
    }
    DEVICE void add_shared(unsigned char *shared, uint32_t all, uint32_t i, integer value)
    {
        add_words((uint32_t *)shared + i, all, value);
    }
    DEVICE integer from_shared(const unsigned char *shared, uint32_t all, uint32_t i)
    {
        return get_words((const uint32_t *)shared + i, all);
    }
};

KERNEL_OF(ddisp_fixed, work_scatter)
{
    scatter<fixed, uint32_t, false>(work);
}

KERNEL_OF(ddisp_fixed_wide, work_scatter)
{
    scatter<fixed, uint64_t, false>(work);
}

KERNEL_OF(ddisp_fixed_shared, work_scatter)
{
    scatter<fixed, uint32_t, true>(work);
}

// The largest finite magnitude: of every sample_step-th run of 32 elements, or, again, of all.
DEVICE void find_largest(const work_scatter &work, unsigned long long *found)
{
    work_head *head = (work_head *)work.head;
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const uint64_t step = work.again ? 1 : work.sample_step;
    const uint64_t runs = (work.items.count + LANES * step - 1) / (LANES * step);
    number most = 0;
#pragma unroll 1
    for (uint64_t run = ((uint64_t)blockIdx.x * WARPS + warp) * ITEMS; run < runs;
         run += (uint64_t)gridDim.x * WARPS * ITEMS) {
        const char *from[ITEMS];
        number value[ITEMS];
#pragma unroll
        for (uint32_t k = 0; k < ITEMS; k++) {
            int64_t at[1];
            uint64_t n = (run + k) * step * LANES + lane;
            n = n < work.items.count ? n : 0;
            place<1>(work.items, {work.from_stride}, n, at);
            from[k] = work.from + at[0];
        }
        load_all(work.from_type, from, value);
#pragma unroll
        for (uint32_t k = 0; k < ITEMS; k++) {
            number magnitude = magnitude_of(value[k]);
            most = is_finite(magnitude) && magnitude > most ? magnitude : most;
        }
    }
    if (threadIdx.x == 0)
        *found = 0;
    __syncthreads();
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        number other = from_lane(most, lane ^ distance);
        most = other > most ? other : most;
    }
    if (lane == 0 && most > 0)
        atomicMax(found, (unsigned long long)__double_as_longlong((double)most));
    __syncthreads();
    if (threadIdx.x == 0 && *found)
        atomicMax((unsigned long long *)(work.again ? &head->largest : &head->sampled), *found);
}

// Their memory is whole words of 16 bytes.
DEVICE void clear_sums(const work_scatter &work)
{
    const uint64_t words = (work.cells.count * sizeof(integer) + 15) / 16;
#pragma unroll 1
    for (uint64_t i = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x; i < words;
         i += (uint64_t)gridDim.x * WORK_GROUP)
        ((uint4 *)work.sums)[i] = {0, 0, 0, 0};
}

// Before the elements are added: sums of zero, and their bound; again, if one was beyond it.
KERNEL_OF(ddisp_prepare, work_scatter)
{
    SHARED unsigned long long found;
    if (work.again && !((const work_head *)work.head)->beyond)
        return;
    clear_sums(work);
    find_largest(work, &found);
}

// Adds the elements that are not finite, if there are any.
DEVICE void add_not_finite(const work_scatter &work)
{
    uint32_t skipped = 0;
    if (!((const work_head *)work.head)->not_finite)
        return;
#pragma unroll 1
    for (uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x; n < work.items.count;
         n += (uint64_t)gridDim.x * WORK_GROUP) {
        uint64_t cell[1];
        number value[1];
        places<uint64_t, 1> at;
        at.find(work, n);
        fetch(work, at, cell, value, &skipped);
        if (!is_finite(value[0]))
            add(work.to_type, memory_of(work, cell[0]), value[0]);
    }
}

// Adds the sums to their cells.
DEVICE void fold(const work_scatter &work)
{
    const int steps = -steps_log2(work, ((const work_head *)work.head)->beyond != 0);
    const number down[2] = {power(steps / 2), power(steps - steps / 2)};
#pragma unroll 1
    for (uint64_t cell = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x; cell < work.cells.count;
         cell += (uint64_t)gridDim.x * WORK_GROUP) {
        integer sum = ((const integer *)work.sums)[cell];
        if (!is_nothing(sum))
            add(work.to_type, memory_of(work, cell), to_number(work, sum) * down[0] * down[1]);
    }
}

// After the elements are added.
KERNEL_OF(ddisp_finish, work_scatter)
{
    add_not_finite(work);
    fold(work);
}
