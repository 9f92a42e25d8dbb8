// items.glsl - items of a scatter-add: elements of the source with the cells that their indices name.
// Cells are numbered without gaps; their memory is found when something is added to it.
#include "numbers.glsl"
#include "places.glsl"

// of FORM: items have one stride; cells have one stride; cells have copies in the group's memory; there
// are 2^32 cells or more; items have one stride and lie side by side; blocks of sums have marks
const uint ITEM_LINE = 1u, CELL_LINE = 2u, SHARES = 4u, MANY = 8u, ITEM_DENSE = 16u, MARKS = 32u;

#define ITEMS 4u // that an invocation takes at once

// vulkan_scatter.c has the same
layout(push_constant, std430) uniform Push {
    uint64_t axes; // of items (source, index, cell), then of cells (destination)
    uint64_t to, from, index, skipped;
    uint64_t head, marks; // deterministic: what is in front of the sums, and behind them (integers.glsl)
    uint64_t items;
    uint64_t extent;     // indices are below this
    int64_t index_cells; // cells from one index to the next
    int64_t from_step, index_step, cell_step, to_step; // of items; of cells
    uint cells;  // where they are shared, else of no use
    uint copies; // of all cells, in the group's memory
    uint steps;  // deterministic: count_log2, headroom_log2, again, each 8 bits
    uint sample_step; // of runs of 32 elements, every so many-th is looked at
};

const uint I32 = 7u; // of INDEX; else i64
const uint NOWHERE = 0xFFFFFFFFu;

uint64_t memory_of(uint64_t cell)
{
    int64_t at = int64_t(cell) * to_step, unused, unused_too;
    if ((FORM & CELL_LINE) == 0u)
        place(Axes(axes + AXES_BYTES), cell, at, unused, unused_too);
    return to + at;
}

uint64_t source_of(uint64_t n)
{
    int64_t at = int64_t(n) * from_step, unused, unused_too;
    if ((FORM & ITEM_LINE) == 0u)
        place(Axes(axes), n, at, unused, unused_too);
    return from + at;
}

void find_item(uint64_t n, out uint64_t source, out uint64_t where, out uint64_t base)
{
    int64_t from_at = int64_t(n) * from_step, index_at = int64_t(n) * index_step;
    int64_t cell_at = int64_t(n) * cell_step;
    if ((FORM & ITEM_LINE) == 0u)
        place(Axes(axes), n, from_at, index_at, cell_at);
    source = from + from_at;
    where = index + index_at;
    base = uint64_t(cell_at);
}

// Negative indices are huge ones.
uint64_t load_index(uint64_t where)
{
    if (INDEX == I32) {
        uint narrow = SourceWord(where).value;
        return narrow < 0x80000000u ? uint64_t(narrow) : ~0ul;
    }
    return SourceLong(where).value;
}

// Items that the group skipped: zero at first, and, behind a barrier, added to memory.
shared uint skipped_total;
layout(buffer_reference, buffer_reference_align = 8) buffer Counter { uint low, high; };

void report_skipped()
{
    if (skipped == 0ul || skipped_total == 0u)
        return;
    uint before = atomicAdd(Counter(skipped).low, skipped_total);
    if (before + skipped_total < before)
        atomicAdd(Counter(skipped).high, 1u);
}
