#version 460
// reduce.comp - sums of many elements into few. Which invocation sums what, and in which order, follows
// from the shapes alone, so that the result is the same every time. Where one group cannot sum a cell
// fast enough the terms are cut into chunks; their sums are kept, and a second dispatch sums those.
#extension GL_GOOGLE_include_directive : require
#ifdef NATIVE
#define NATIVE_ADD
#endif
#include "numbers.glsl"
#include "places.glsl"

// of FORM: terms have one stride; there is one cell, at the addresses pushed
const uint LINE = 1u, ONE_CELL = 2u;

layout(push_constant, std430) uniform Push {
    uint64_t axes; // of cells (destination, source); then of terms
    uint64_t to, from, partial;
    uint64_t cells, terms, chunk_terms;
    int64_t term_stride;
    uint64_t alpha;
    uint tile_count;  // groups that it takes for the cells
    uint group_count; // tiles times chunks
    uint width_log2;
    uint cells_first; // neighbours have neighbouring cells, else neighbouring terms
};

shared REAL sums[GROUP];

#ifdef DOUBLE
const uint SUM = F64, SUM_BYTES = 8u;
#else
const uint SUM = F32, SUM_BYTES = 4u;
#endif

#define TERMS 8

// Terms first, first + step, ...: all are on their way before the first is added.
REAL sum_of(uint64_t origin, uint64_t first, uint step)
{
    REAL value[TERMS];
    const int64_t first_at = int64_t(first) * term_stride, apart = int64_t(step) * term_stride;
    [[unroll]] for (uint k = 0u; k < TERMS; k++) {
        int64_t at = first_at + int64_t(k) * apart, unused, unused_too;
        if ((FORM & LINE) == 0u)
            place(Axes(axes + AXES_BYTES), first + k * step, at, unused, unused_too);
        value[k] = load_number(FROM, origin + at);
    }
    [[unroll]] for (uint count = TERMS / 2; count > 0u; count /= 2u)
        [[unroll]] for (uint k = 0u; k < count; k++)
            value[k] += value[k + count];
    return value[0];
}

REAL sum_of_terms(uint64_t origin, uint64_t first, uint64_t end, uint step)
{
    REAL sum = REAL(0);
    uint64_t n = first;
    for (; n + (TERMS - 1) * step < end; n += TERMS * step)
        sum += sum_of(origin, n, step);
    for (; n < end; n += step) {
        int64_t at = int64_t(n) * term_stride, unused, unused_too;
        if ((FORM & LINE) == 0u)
            place(Axes(axes + AXES_BYTES), n, at, unused, unused_too);
        sum += load_number(FROM, origin + at);
    }
    return sum;
}

void main()
{
    const uint width = 1u << width_log2, lanes = GROUP >> width_log2;
    const uint self = gl_LocalInvocationIndex;
    const bool across = cells_first != 0u;
    const uint column = across ? self & (width - 1u) : self / lanes;
    const uint lane = across ? self >> width_log2 : self & (lanes - 1u);
    const uint next = across ? width : 1u; // to the next lane's sum
    for (uint group = gl_WorkGroupID.x; group < group_count; group += gl_NumWorkGroups.x) {
        uint chunk = group / tile_count;
        uint64_t cell = uint64_t(group - chunk * tile_count) * width + column;
        int64_t at = 0l, from_at = 0l, unused;
        REAL sum = REAL(0);
        if (cell < cells) {
            if ((FORM & ONE_CELL) == 0u)
                place(Axes(axes), cell, at, from_at, unused);
            uint64_t begin = chunk * chunk_terms, end = min(begin + chunk_terms, terms);
            sum = sum_of_terms(from + from_at, begin + lane, end, lanes);
        }
        sums[self] = sum;
        barrier();
        for (uint apart = lanes / 2u; apart > 0u; apart /= 2u) {
            if (lane < apart)
                sums[self] += sums[self + apart * next];
            barrier();
        }
        if (lane == 0u && cell < cells) {
            if (partial != 0ul)
                store_number(SUM, partial + (chunk * cells + cell) * SUM_BYTES, sums[self]);
            else
                add_number(TO, to + at, scaled(alpha, sums[self]));
        }
        barrier();
    }
}
