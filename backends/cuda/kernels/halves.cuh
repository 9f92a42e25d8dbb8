// halves.cuh - words of two f16 or bf16 elements that lie side by side. A thread takes one word.
#ifndef DDISP_CUDA_HALVES_CUH
#define DDISP_CUDA_HALVES_CUH

#include "common.cuh"

template <typename T> struct halves {
    uint32_t *word;
    T lower, upper; // what is added
    bool has_lower, has_upper;

    // Of this thread. False when it has none.
    MEMBER bool find(const work_halves &work)
    {
        uint64_t n = (uint64_t)blockIdx.x * WORK_GROUP + threadIdx.x;
        uint64_t second =
            2 * n + 1 - work.skip; // number of the upper element; the lower's is 1 less
        has_lower = second != 0 && second - 1 < work.count;
        has_upper = second < work.count;
        if (!has_lower && !has_upper)
            return false;
        const char *from[2];
        T value[2];
        from[0] = work.from + (int64_t)(has_lower ? second - 1 : second) * work.from_stride;
        from[1] = work.from + (int64_t)(has_upper ? second : second - 1) * work.from_stride;
        load_all(work.from_type, from, value);
        word = (uint32_t *)work.to + n;
        lower = (T)work.alpha * value[0];
        upper = (T)work.alpha * value[1];
        return true;
    }
};

#endif
