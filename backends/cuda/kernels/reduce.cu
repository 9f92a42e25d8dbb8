// reduce.cu - sums of many elements into few. Which thread sums what, and in which order, follows
// from the shapes alone, so that the result is the same every time and on every device. Where one
// group cannot sum a cell fast enough the terms are cut into chunks; their sums are kept, and a
// second launch sums those.
#include "common.cuh"

// N terms, first, first + step, ...
template <int N>
DEVICE number sum_of(const work_reduce &work, const char *from, uint64_t first, uint32_t step)
{
    const char *at[N];
    number value[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        int64_t offset[1];
        place<1>(work.terms, {work.from_term_stride}, first + (uint32_t)k * step, offset);
        at[k] = from + offset[0];
    }
    load_all(work.from_type, at, value);
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
        for (int k = 0; k < half; k++)
            value[k] += value[k + half];
    return value[0];
}

// The same where all terms have one stride.
template <int N>
DEVICE number sum_of_line(const work_reduce &work, const char *from, uint64_t first, uint32_t step)
{
    const char *at[N];
    number value[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        at[k] = from + (int64_t)(first + (uint32_t)k * step) * work.from_term_stride[0];
    load_all(work.from_type, at, value);
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
        for (int k = 0; k < half; k++)
            value[k] += value[k + half];
    return value[0];
}

// Terms first, first + step, ... below end, in a fixed order.
DEVICE number sum_of_terms(const work_reduce &work, const char *from, uint64_t first, uint64_t end,
                           uint32_t step)
{
    number sum = 0;
    uint64_t n = first;
    if (work.terms.rank == 1) {
#pragma unroll 1
        for (; n + 7 * step < end; n += 8 * step)
            sum += sum_of_line<8>(work, from, n, step);
    } else {
#pragma unroll 1
        for (; n + 3 * step < end; n += 4 * step)
            sum += sum_of<4>(work, from, n, step);
    }
#pragma unroll 1
    for (; n < end; n += step)
        sum += sum_of<1>(work, from, n, step);
    return sum;
}

KERNEL_OF(ddisp_reduce, work_reduce)
{
    SHARED number sums[WORK_GROUP];
    const uint32_t width = 1u << work.width_log2, lanes = WORK_GROUP / width;
    const uint32_t thread = threadIdx.x;
    const uint32_t column = work.cells_first ? thread % width : thread / lanes;
    const uint32_t lane = work.cells_first ? thread / width : thread % lanes;
    const uint32_t next = work.cells_first ? width : 1; // to the next lane's sum
#pragma unroll 1
    for (uint64_t group = blockIdx.x; group < work.group_count; group += gridDim.x) {
        uint64_t chunk = group / work.tile_count;
        uint64_t cell = (group - chunk * work.tile_count) * width + column;
        int64_t at[2] = {0, 0};
        number sum = 0;
        if (cell < work.cells.count) {
            place<2>(work.cells, {work.to_stride, work.from_cell_stride}, cell, at);
            uint64_t begin = chunk * work.chunk_terms, end = begin + work.chunk_terms;
            end = end < work.terms.count ? end : work.terms.count;
            sum = sum_of_terms(work, work.from + at[1], begin + lane, end, lanes);
        }
        sums[thread] = sum;
        __syncthreads();
        for (uint32_t half = lanes / 2; half > 0; half /= 2) {
            if (lane < half)
                sums[thread] += sums[thread + half * next];
            __syncthreads();
        }
        if (lane == 0 && cell < work.cells.count) {
            if (work.partial)
                ((number *)work.partial)[chunk * work.cells.count + cell] = sums[thread];
            else
                add(work.to_type, work.to + at[0], (number)work.alpha * sums[thread]);
        }
        __syncthreads();
    }
}
