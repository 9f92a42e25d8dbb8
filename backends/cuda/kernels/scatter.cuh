// scatter.cuh - scatter-add, for sums of any kind.
//
// A warp takes runs of neighbouring items. While all of its lanes meet the one cell that they met
// before, each lane adds to a sum of its own, and memory is touched only when the cell changes; so
// sorted and constant indices run at the speed of reading. Else lanes that meet the same cell are
// found (match) and summed first. A match takes time for every cell that it finds, more than a few
// meetings cost: where lanes have hardly a cell in common the next items go without. What is left
// goes to memory, or, where there are few cells, to copies of them in the group's shared memory
// that are added to memory at the end; there only crowds are worth a match.
//
// A kind of sum (SUMS) says what an element becomes, and how it is added to either memory.
#ifndef DDISP_CUDA_SCATTER_CUH
#define DDISP_CUDA_SCATTER_CUH

#include "common.cuh"

// ALONE: so many different cells among the lanes are as good as no meetings in memory; CROWD: more
// meetings than this at one cell take longer in shared memory than a match. TRUST: items that go
// without a match after one that was not worth it.
enum : uint32_t { ITEMS = 4, RUN = LANES * ITEMS, ALONE = 28, CROWD = 6, TRUST = 15 };

// Memory of a cell.
DEVICE char *memory_of(const work_scatter &work, uint64_t cell)
{
    int64_t at[1];
    place<1>(work.cells, {work.to_stride}, cell, at);
    return work.to + at[0];
}

template <typename SUM> DEVICE SUM from_lane(SUM value, uint32_t lane)
{
    return __shfl_sync(ALL_LANES, value, (int)lane);
}

// Sum over the lanes that have the same cell, right in the first of them: neighbours in the list of
// peers are added, then every other one drops out, until one is left.
template <typename SUM> DEVICE SUM sum_of_peers(SUM sum, uint32_t peers, uint32_t lane)
{
    uint32_t rank = __popc(peers & ((1u << lane) - 1));
    uint32_t later = peers & (0xFFFFFFFEu << lane);
    while (__any_sync(ALL_LANES, later != 0)) {
        uint32_t next = later ? (uint32_t)__ffs((int)later) - 1 : lane;
        SUM other = from_lane(sum, next);
        if (later)
            sum = sum + other;
        later &= __ballot_sync(ALL_LANES, (rank & 1) == 0);
        rank >>= 1;
    }
    return sum;
}

template <typename SUM> DEVICE SUM sum_of_lanes(SUM sum, uint32_t lane)
{
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        KEEP_LOOP(distance);
        sum = sum + from_lane(sum, lane ^ distance);
    }
    return sum;
}

// Whether it is not worth it to look for meetings, given those that were found.
template <bool SHARES> DEVICE bool are_alone(uint32_t peers, bool leads)
{
    if (SHARES)
        return __all_sync(ALL_LANES, __popc(peers) <= (int)CROWD);
    return __popc(__ballot_sync(ALL_LANES, leads)) >= (int)ALONE;
}

// Where this lane's items lie: first, first + LANES, ... What is past the end is the last one
// again.
template <typename CELL, int N> struct places {
    const char *from[N], *index[N];
    CELL base[N];
    bool is_there[N];

    MEMBER void find(const work_scatter &work, uint64_t first)
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            int64_t at[3];
            uint64_t n = first + (uint32_t)k * LANES;
            is_there[k] = n < work.items.count;
            n = is_there[k] ? n : work.items.count - 1;
            place<3>(work.items, {work.from_stride, work.index_stride, work.cell_stride}, n, at);
            from[k] = work.from + at[0];
            index[k] = work.index + at[1];
            base[k] = (CELL)at[2];
        }
    }

    // The same where all items are there and have one stride.
    MEMBER void find_in_line(const work_scatter &work, uint64_t first)
    {
        const char *from_0 = work.from + (int64_t)first * work.from_stride[0];
        const char *index_0 = work.index + (int64_t)first * work.index_stride[0];
        CELL base_0 = (CELL)first * (CELL)work.cell_stride[0];
#pragma unroll
        for (int k = 0; k < N; k++) {
            is_there[k] = true;
            from[k] = from_0 + k * (int64_t)LANES * work.from_stride[0];
            index[k] = index_0 + k * (int64_t)LANES * work.index_stride[0];
            base[k] = base_0 + (CELL)(k * LANES) * (CELL)work.cell_stride[0];
        }
    }
};

// Cells and elements. Cells that are not there are ~0, and their elements 0.
template <typename CELL, int N>
DEVICE void fetch(const work_scatter &work, const places<CELL, N> &at, CELL (&cell)[N],
                  number (&value)[N], uint32_t *skipped)
{
    bool inside[N];
    if (work.index_type == WORK_I32) {
        const uint32_t extent = work.extent < 0x80000000ll ? (uint32_t)work.extent : 0x80000000u;
        uint32_t index[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            index[k] = *(const uint32_t *)at.index[k];
#pragma unroll
        for (int k = 0; k < N; k++) {
            inside[k] = index[k] < extent;
            cell[k] = at.base[k] + (CELL)index[k] * (CELL)work.index_cells;
        }
    } else {
        uint64_t index[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            index[k] = *(const uint64_t *)at.index[k];
#pragma unroll
        for (int k = 0; k < N; k++) {
            inside[k] = index[k] < (uint64_t)work.extent;
            cell[k] = at.base[k] + (CELL)index[k] * (CELL)work.index_cells;
        }
    }
    load_all(work.from_type, at.from, value);
#pragma unroll
    for (int k = 0; k < N; k++) {
        *skipped += at.is_there[k] && !inside[k];
        if (!inside[k] || !at.is_there[k]) {
            cell[k] = (CELL) ~(CELL)0;
            value[k] = 0;
        }
    }
}

// Adds the group's count of skipped items to memory, by way of a shared word.
DEVICE void count_skipped(const work_scatter &work, uint32_t skipped, uint32_t *total)
{
    __syncthreads();
    if (threadIdx.x == 0)
        *total = 0;
    __syncthreads();
    skipped = sum_of_lanes(skipped, threadIdx.x % LANES);
    if (threadIdx.x % LANES == 0 && skipped)
        atomicAdd(total, skipped);
    __syncthreads();
    if (threadIdx.x == 0 && *total)
        red(work.skipped, (uint64_t)*total);
}

// SHARES: cells have copies in shared memory. The group has at least a word of it in any case.
template <typename SUMS, typename CELL, bool SHARES> DEVICE void scatter(const work_scatter &work)
{
    typedef typename SUMS::sum sum;
    SHARED_BYTES(shared);
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const uint32_t cells = (uint32_t)work.cells.count, all = cells * work.copies;
    const uint32_t own = SHARES ? warp % work.copies * cells : 0;
    const CELL nowhere = (CELL) ~(CELL)0;
    const SUMS sums(work);
    if (!sums.is_wanted)
        return;
    if (SHARES) {
        for (uint32_t i = threadIdx.x; i < all * SUMS::WORDS; i += WORK_GROUP)
            ((uint32_t *)shared)[i] = 0;
        __syncthreads();
    }
    CELL last = nowhere;
    sum run = SUMS::zero();
    uint32_t skipped = 0, trusted = 0; // items that go without a match
    uint64_t first = ((uint64_t)blockIdx.x * WARPS + warp) * RUN;
    bool goes_on;
    do { // once more at the end, with no items: that puts the last run away
        CELL cell[ITEMS];
        number value[ITEMS];
        goes_on = first < work.items.count;
        if (goes_on) {
            places<CELL, ITEMS> at;
            if (work.items.rank == 1 && first + RUN <= work.items.count)
                at.find_in_line(work, first + lane);
            else
                at.find(work, first + lane);
            fetch(work, at, cell, value, &skipped);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < ITEMS; k++) {
                cell[k] = nowhere;
                value[k] = 0;
            }
        }
        for (uint32_t k = 0; k < ITEMS; k++) {
            KEEP_LOOP(k);
            CELL where = cell[0];
            sum what = sums.take(work, value[0]);
#pragma unroll
            for (uint32_t j = 1; j < ITEMS; j++) {
                cell[j - 1] = cell[j];
                value[j - 1] = value[j];
            }
            if (__all_sync(ALL_LANES, where == last)) {
                run = run + what;
                continue;
            }
            bool leads = true;
            if (__all_sync(ALL_LANES, where == from_lane(where, 0))) {
                CELL now = where;
                sum begun = what;
                where = last;
                what = sum_of_lanes(run, lane);
                leads = lane == 0;
                last = now;
                run = begun;
            } else if (trusted > 0) {
                trusted--;
            } else {
                uint32_t peers = __match_any_sync(ALL_LANES, where);
                what = sum_of_peers(what, peers, lane);
                leads = (peers & ((1u << lane) - 1)) == 0;
                trusted = are_alone<SHARES>(peers, leads) ? (uint32_t)TRUST : 0;
            }
            if (leads && where != nowhere) {
                if (SHARES)
                    SUMS::add_shared(shared, all, own + (uint32_t)where, what);
                else
                    SUMS::add_memory(work, where, what);
            }
        }
        first += (uint64_t)gridDim.x * WARPS * RUN;
    } while (goes_on);
    if (SHARES) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < cells; i += WORK_GROUP) {
            sum whole = SUMS::zero();
            for (uint32_t copy = 0; copy < work.copies; copy++)
                whole = whole + SUMS::from_shared(shared, all, copy * cells + i);
            if (!SUMS::is_zero(whole))
                SUMS::add_memory(work, i, whole);
        }
    }
    if (work.skipped && SUMS::counts(work))
        count_skipped(work, skipped, (uint32_t *)shared);
}

#endif
