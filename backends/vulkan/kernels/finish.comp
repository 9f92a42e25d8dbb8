#version 460
// finish.comp - what a deterministic scatter-add does before and after its items are counted
// (integers.glsl). Before: sums of zero, unless they are, and the largest magnitude; again, if an element
// was beyond the bound. After: elements that are not finite, and adding the sums, which leaves zeros for
// the next scatter-add.
#extension GL_GOOGLE_include_directive : require
#ifdef NATIVE
#define NATIVE_ADD
#endif
#include "items.glsl"
#include "integers.glsl"

// of OPERATION
const uint PREPARE = 0u, FINISH = 1u, LOOK = 2u;
const uint BATCH = 4u;

shared MAGNITUDE found[GROUP];

uint64_t stride() { return uint64_t(gl_NumWorkGroups.x) * GROUP; }

// The largest finite magnitude: of every sample_step-th run of 32 elements, or, again, of all.
void find_largest()
{
    Head it = Head(head);
    const uint64_t step = is_again() ? 1ul : uint64_t(sample_step);
    const uint64_t looked_at = (items + 32ul * step - 1ul) / (32ul * step) * 32ul;
    MAGNITUDE most = MAGNITUDE(0);
    for (uint64_t first = gl_GlobalInvocationID.x; first < looked_at; first += stride() * BATCH) {
        REAL value[BATCH];
        [[unroll]] for (uint k = 0u; k < BATCH; k++) {
            uint64_t i = first + k * stride();
            uint64_t n = (i / 32ul) * step * 32ul + i % 32ul;
            value[k] = load_number(FROM, source_of(i < looked_at && n < items ? n : 0ul));
        }
        [[unroll]] for (uint k = 0u; k < BATCH; k++) {
            MAGNITUDE magnitude = magnitude_of(value[k]);
            most = magnitude < INFINITE && magnitude > most ? magnitude : most;
        }
    }
    const uint self = gl_LocalInvocationIndex;
    found[self] = most;
    barrier();
    for (uint apart = GROUP / 2u; apart > 0u; apart /= 2u) {
        if (self < apart)
            found[self] = max(found[self], found[self + apart]);
        barrier();
    }
    if (self != 0u || found[0] == MAGNITUDE(0))
        return;
    if (is_again())
        atomicMax(it.largest, found[0]);
    else
        atomicMax(it.sampled, found[0]);
}

layout(buffer_reference, buffer_reference_align = 16) restrict writeonly buffer Quad { uvec4 value; };

// Memory of sums and of marks is whole pieces of 16 bytes.
void clear(uint64_t memory, uint64_t bytes)
{
    for (uint64_t i = gl_GlobalInvocationID.x; i < (bytes + 15ul) / 16ul; i += stride())
        Quad(memory + 16ul * i).value = uvec4(0u);
}

// Adds the elements that are not finite, if there are any.
void add_not_finite()
{
    if (Head(head).not_finite == 0u)
        return;
    for (uint64_t n = gl_GlobalInvocationID.x; n < items; n += stride()) {
        uint64_t source, where, base;
        find_item(n, source, where, base);
        REAL value = load_number(FROM, source);
        uint64_t chosen = load_index(where);
        if (chosen < extent && magnitude_of(value) >= INFINITE)
            add_number(TO, memory_of(base + chosen * uint64_t(index_cells)), value);
    }
}

bool has_mark(uint64_t cell)
{
    const uint block = uint(cell) / BLOCK;
    return (SourceWord(mark_of(block)).value >> block % 32u & 1u) != 0u;
}

// Adds the sums to their cells, and makes them zero. Groups take pieces of memory one by one: the fewer of
// those are under way, the better for DRAM. Where few cells were met an invocation has hardly more than one of
// its batch to add, so it goes through those alone.
void fold()
{
    const int k = -steps_log2(Head(head).beyond != 0u);
    const REAL down[2] = {power(k / 2), power(k - k / 2)};
    const uint64_t count = Axes(axes + AXES_BYTES).count, piece = GROUP * BATCH;
    const bool looks_at_all = (FORM & MARKS) == 0u || Head(head).unmarked != 0u;
    for (uint64_t start = gl_WorkGroupID.x * piece; start < count; start += gl_NumWorkGroups.x * piece) {
        const uint64_t first = start + gl_LocalInvocationIndex;
        integer sum[BATCH];
        bool looks[BATCH];
        uint met = 0u;
        [[unroll]] for (uint k = 0u; k < BATCH; k++) {
            const uint64_t cell = first + k * GROUP;
            looks[k] = cell < count && (looks_at_all || has_mark(cell));
        }
        [[unroll]] for (uint k = 0u; k < BATCH; k++) {
            sum[k] = nothing();
            if (looks[k])
                sum[k] = load_sum(first + k * GROUP);
        }
        [[unroll]] for (uint k = 0u; k < BATCH; k++)
            met |= uint(!is_nothing(sum[k])) << k;
        for (; met != 0u; met &= met - 1u) {
            const uint k = uint(findLSB(met));
            const uint64_t cell = first + k * GROUP;
            integer it = sum[0];
            [[unroll]] for (uint i = 1u; i < BATCH; i++)
                if (k == i)
                    it = sum[i];
            clear_sum(cell);
            add_number(TO, memory_of(cell), to_number(it) * down[0] * down[1]);
        }
    }
}

// The last group to come here leaves a head of zeros.
void clear_head()
{
    Head it = Head(head);
    memoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex != 0u || atomicAdd(it.finished, 1u) != gl_NumWorkGroups.x - 1u)
        return;
    it.sampled = MAGNITUDE(0);
    it.largest = MAGNITUDE(0);
    it.beyond = it.not_finite = it.unmarked = it.finished = 0u;
}

void main()
{
    if (OPERATION == FINISH) {
        add_not_finite();
        fold();
        clear_head();
    } else if (!is_again() || Head(head).beyond != 0u) {
        const uint64_t count = Axes(axes + AXES_BYTES).count;
        if (OPERATION == PREPARE)
            clear(sums(), count * INTEGER_BYTES);
        if ((FORM & MARKS) != 0u)
            clear(marks, (count + 8ul * BLOCK - 1ul) / (8ul * BLOCK));
        find_largest();
    }
}
