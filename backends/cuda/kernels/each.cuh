// each.cuh - runs an operation on every element of strided memory. A thread takes a few elements of
// a line, a group's width apart, so that neighbours touch neighbours; where lines are short, one
// element of any.
#ifndef DDISP_CUDA_EACH_CUH
#define DDISP_CUDA_EACH_CUH

#include "common.cuh"

// Elements with their places: OPERATION::run<N> is handed as many as the thread has.
template <typename OPERATION> DEVICE void each(const work_each &work)
{
    int64_t at[2];
    if (work.line) {
        char *to[WORK_BATCH];
        const char *from[WORK_BATCH];
        bool is_there[WORK_BATCH];
        uint32_t row = blockIdx.x / work.line_groups, piece = blockIdx.x - row * work.line_groups;
        place<2>(work.axes, {work.to_stride, work.from_stride}, row, at);
#pragma unroll
        for (int k = 0; k < WORK_BATCH; k++) {
            uint64_t n = ((uint64_t)piece * WORK_BATCH + k) * WORK_GROUP + threadIdx.x;
            is_there[k] = n < work.line;
            n = is_there[k] ? n : work.line - 1;
            to[k] = work.to + at[0] + (int64_t)n * work.to_step;
            from[k] = work.from + at[1] + (int64_t)n * work.from_step;
        }
        OPERATION::template run<WORK_BATCH>(work, to, from, is_there);
    } else {
        uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
        if (n >= work.axes.count)
            return;
        place<2>(work.axes, {work.to_stride, work.from_stride}, n, at);
        OPERATION::template run<1>(work, {work.to + at[0]}, {work.from + at[1]}, {true});
    }
}

#endif
