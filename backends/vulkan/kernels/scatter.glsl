// scatter.glsl - scatter-add, for sums of any kind.
//
// 32 neighbours take rows of neighbouring items, four rows at once. While all of a subgroup meet the one
// cell that they met before, each adds to a sum of its own, and memory is touched only when the cell
// changes; so sorted and constant indices run at the speed of reading. Where a few runs lie in one row, each is
// summed. Else those that meet the same cell are found and summed first. To find them takes longer than a few
// meetings cost: where neighbours have hardly a cell in common the next items go without. What is left goes
// to memory, or, where there are few cells, to copies of them in the group's memory that are added to memory
// at the end; there only crowds are worth looking for.
//
// Which item is whose depends on the place in the group, not in the subgroup: subgroups may be of any
// size, and all loops are the same for the whole group.
//
// What decides about the speed is less what is computed than how much room it takes: registers, of which
// 32 let all subgroups run that a multiprocessor can hold, and instructions, whose cache is small. So the
// two common ways, one cell for all and hardly a cell in common, are short and without loops; what is
// between is one loop; sums are put away in few places; and what only counts stays in the group's memory.
//
// The file that includes this says what a sum is: SUM, zero, plus, is_zero, from_lane, from_other, take,
// add_memory, add_shared, clear_shared, from_shared; mark, when a run is added to a cell in memory, and pass_by,
// when something else may be; and is_wanted, counts, begin (by one of the group, with
// a barrier behind it), end (by one, with a barrier before it), sift and sift_one: what elements become
// before they are taken.

const uint ROW = 32u, TILE = GROUP * ITEMS;
// More meetings than this at one cell take longer in the group's memory than to find and sum them.
const uint CROWD = 6u;
// More runs than this among eight neighbours are no runs any more.
const uint FEW = 3u;
// Times that four items go without a look for meetings, after one where it was not worth it.
const uint TRUST = 4u;

#ifdef PARTITIONED
// subgroups have 32 invocations where the device has this
#define MASK uint
MASK ballot(bool value) { return subgroupBallot(value).x; }
MASK peers_of(uint cell) { return subgroupPartitionNV(cell).x; }
uint rank_in(MASK peers) { return uint(bitCount(peers & gl_SubgroupLtMask.x)); }
MASK later_of(MASK peers) { return peers & gl_SubgroupGtMask.x; }
bool is_in(MASK mask) { return (mask & gl_SubgroupEqMask.x) != 0u; }
bool is_some(MASK mask) { return mask != 0u; }
uint first_of(MASK mask) { return uint(findLSB(mask)); }
uint last_of(MASK mask) { return uint(findMSB(mask)); }
uint count_of(MASK mask) { return uint(bitCount(mask)); }
#else
#define MASK uvec4
MASK ballot(bool value) { return subgroupBallot(value); }
uint rank_in(MASK peers) { return subgroupBallotExclusiveBitCount(peers); }
MASK later_of(MASK peers) { return peers & gl_SubgroupGtMask; }
bool is_in(MASK mask) { return subgroupInverseBallot(mask); }
bool is_some(MASK mask) { return mask != uvec4(0u); }
uint first_of(MASK mask) { return subgroupBallotFindLSB(mask); }
uint last_of(MASK mask) { return subgroupBallotFindMSB(mask); }
uint count_of(MASK mask) { return subgroupBallotBitCount(mask); }

// Those who meet the cell of the first, then of the first who is left, and so on: four times, which
// finds the crowds. Who is left stays alone.
MASK peers_of(uint cell)
{
    MASK peers = gl_SubgroupEqMask;
    bool found = false;
    for (uint round = 0u; round < 4u; round++) {
        MASK left = subgroupBallot(!found);
        uint leader = is_some(left) ? first_of(left) : 0u;
        bool same = !found && cell == subgroupShuffle(cell, leader);
        MASK all = subgroupBallot(same);
        if (same) {
            peers = all;
            found = true;
        }
    }
    return peers;
}
#endif

// Right in the first of the peers: neighbours in the list of peers are added, then every other one
// drops out, until one is left.
SUM sum_of_peers(SUM sum, MASK peers)
{
    uint rank = rank_in(peers);
    MASK later = later_of(peers);
    while (subgroupAny(is_some(later))) {
        uint next = is_some(later) ? first_of(later) : gl_SubgroupInvocationID;
        SUM other = from_lane(sum, next);
        if (is_some(later))
            sum = plus(sum, other);
        later &= ballot((rank & 1u) == 0u);
        rank >>= 1;
    }
    return sum;
}

// Those whose neighbour before them meets another cell.
MASK heads_of(uint cell)
{
    const uint self = gl_SubgroupInvocationID;
    const uint before = subgroupShuffle(cell, max(self, 1u) - 1u);
    return ballot(self == 0u || cell != before);
}

// From each to the next head: right in the heads.
SUM sum_of_segment(SUM sum, MASK heads)
{
    const uint self = gl_SubgroupInvocationID;
    const MASK later = later_of(heads);
    const uint end = is_some(later) ? first_of(later) : last_of(ballot(true)) + 1u;
#ifdef PARTITIONED
// as in sum_of_half, no loop
#define ADD_FROM(other)                               \
    {                                                 \
        const SUM more = from_lane(sum, other & 31u); \
        if (other < end)                              \
            sum = plus(sum, more);                    \
    }
    ADD_FROM((self + 1u))
    ADD_FROM((self + 2u))
    ADD_FROM((self + 4u))
    ADD_FROM((self + 8u))
    ADD_FROM((self + 16u))
#else
    for (uint apart = 1u; apart < gl_SubgroupSize; apart *= 2u) {
        const SUM more = from_lane(sum, min(self + apart, gl_SubgroupSize - 1u));
        if (self + apart < end)
            sum = plus(sum, more);
    }
#endif
    return sum;
}

SUM sum_of_half(SUM sum)
{
    // a loop would stay one, and take half as long again
    sum = plus(sum, from_other(sum, 8u));
    sum = plus(sum, from_other(sum, 4u));
    sum = plus(sum, from_other(sum, 2u));
    return plus(sum, from_other(sum, 1u));
}

// Over the whole subgroup, right in its first.
SUM sum_of_lanes(SUM sum)
{
#ifdef PARTITIONED
    return sum_of_half(plus(sum, from_other(sum, 16u)));
#else
    return sum_of_peers(sum, ballot(true)); // a subgroup need not be full
#endif
}

uvec2 index_at(uint64_t where)
{
    return INDEX == I32 ? uvec2(SourceWord(where).value, 0u) : unpackUint2x32(SourceLong(where).value);
}

// The cell that an index means: NOWHERE if there is none, and then the element is 0.
uint cell_of(uint base, uvec2 chosen, bool is_there, inout REAL value, inout uint skipped_items)
{
    // there are fewer than 2^32 cells; negative indices are huge
    const uint below = INDEX == I32 ? min(uint(extent), 0x80000000u) : uint(extent);
    const bool inside = chosen.x < below && chosen.y == 0u;
    skipped_items += uint(is_there && !inside);
    value = inside && is_there ? value : REAL(0);
    return inside && is_there ? base + chosen.x * uint(index_cells) : NOWHERE;
}

// Cells and elements of the items first, first + 32, ... All loads are under way before the first is
// looked at. Items in a line, all of which are there:
void fetch_line(uint64_t first, out uint cell[ITEMS], out REAL value[ITEMS], inout uint skipped_items)
{
    const bool dense = (FORM & ITEM_DENSE) != 0u;
    const int64_t from_apart = dense ? int64_t(size_of(FROM)) : from_step;
    const int64_t index_apart = dense ? int64_t(size_of(INDEX)) : index_step;
    const uint cells_apart = dense ? 0u : uint(cell_step);
    const uint64_t first_source = from + int64_t(first) * from_apart;
    const uint64_t first_where = index + int64_t(first) * index_apart;
    uvec2 chosen[ITEMS];
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        chosen[k] = index_at(first_where + int64_t(k * ROW) * index_apart);
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        value[k] = load_number(FROM, first_source + int64_t(k * ROW) * from_apart);
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        cell[k] = cell_of((uint(first) + k * ROW) * cells_apart, chosen[k], true, value[k], skipped_items);
}

// Any items:
void fetch(uint64_t first, out uint cell[ITEMS], out REAL value[ITEMS], inout uint skipped_items)
{
    uint64_t source[ITEMS], where[ITEMS], base[ITEMS];
    uvec2 chosen[ITEMS];
    bool is_there[ITEMS];
    [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
        const uint64_t n = first + k * ROW;
        is_there[k] = n < items;
        find_item(is_there[k] ? n : items - 1ul, source[k], where[k], base[k]);
    }
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        chosen[k] = index_at(where[k]);
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        value[k] = load_number(FROM, source[k]);
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        cell[k] = cell_of(uint(base[k]), chosen[k], is_there[k], value[k], skipped_items);
}

// Whether it is not worth it to look for meetings, given those that were found.
bool are_alone(MASK peers, bool leads)
{
    if ((FORM & SHARES) != 0u)
        return subgroupAll(count_of(peers) <= CROWD);
    return count_of(ballot(leads)) * 8u >= gl_SubgroupSize * 7u;
}

// own: where the invocation's copies of cells begin in the group's memory.
void add_each(uint own, uint where, SUM what)
{
    if (where == NOWHERE)
        return;
    if ((FORM & SHARES) != 0u)
        add_shared(own + where, what);
    else
        add_memory(where, what);
}

void add_run(uint own, uint where, SUM what)
{
    if (where != NOWHERE)
        mark(where);
    add_each(own, where, what);
}

// The run of a cell goes to memory.
void put_away(uint own, uint cell, SUM run)
{
    const SUM what = sum_of_lanes(run);
    if (gl_SubgroupInvocationID == 0u)
        add_run(own, cell, what);
}

// The runs of two: each half of the subgroup sums one.
void put_away_two(uint own, uint cell, SUM run, uint other_cell, SUM other_run)
{
#ifdef PARTITIONED
    const bool is_lower = gl_SubgroupInvocationID < 16u;
    SUM kept = run, given = other_run;
    if (!is_lower) {
        kept = other_run;
        given = run;
    }
    const SUM what = sum_of_half(plus(kept, from_other(given, 16u)));
    if ((gl_SubgroupInvocationID & 15u) == 0u)
        add_run(own, is_lower ? cell : other_cell, what);
#else
    put_away(own, cell, run);
    put_away(own, other_cell, other_run);
#endif
}

// Elements of each invocation for one cell, and then for another, or the same.
void follow(uint own, uint cell, SUM what, uint next, SUM next_what, inout uint last, inout SUM run)
{
    const bool goes_on = cell == last;
    if (goes_on)
        run = plus(run, what);
    if (goes_on && next == last) {
        run = plus(run, next_what);
        return;
    }
    if (goes_on || cell == next) {
        put_away(own, last, run);
        run = goes_on ? next_what : plus(what, next_what);
    } else {
        put_away_two(own, last, run, cell, what);
        run = next_what;
    }
    last = next;
}

// Four items, each of which all of the subgroup meet one cell with; mostly it is the same for two and two.
void follow_four(uint own, uvec4 where, REAL value[ITEMS], inout uint last, inout SUM run)
{
    SUM one = take(value[0]), two = take(value[1]), three = take(value[2]), four = take(value[3]);
    const bool in_pairs = where.x == where.y && where.z == where.w;
    if (in_pairs) {
        one = plus(one, two);
        two = plus(three, four);
        where.y = where.z;
    }
    [[dont_unroll]] for (uint k = 0u; k < 2u; k++) {
        follow(own, where.x, one, where.y, two, last, run);
        if (in_pairs)
            break;
        one = three;
        two = four;
        where.xy = where.zw;
    }
}

// An item with few runs in its row, each beginning with one of the heads.
void add_runs(uint own, uint where, SUM what, MASK heads, uint runs, inout uint last, inout SUM run)
{
    if (runs == 1u && where == last) {
        run = plus(run, what);
        return;
    }
    if (runs <= 2u) {
        const uint first = subgroupBroadcast(where, 0u), next = subgroupShuffle(where, last_of(heads));
        SUM next_what = zero();
        if (where != first) {
            next_what = what;
            what = zero();
        }
        follow(own, first, what, next, next_what, last, run);
        return;
    }
    what = sum_of_segment(what, heads);
    pass_by();
    if (is_in(heads))
        add_each(own, where, what);
}

// Any item. trusted: it was not worth it to look for meetings, and so many times it is not done.
void add_one(uint own, uint where, SUM what, inout uint last, inout SUM run, inout uint trusted)
{
    const MASK heads = heads_of(where);
    const uint runs = count_of(heads);
    if (runs == 1u || trusted == 0u && runs * 8u <= gl_SubgroupSize * FEW) {
        add_runs(own, where, what, heads, runs, last, run);
        return;
    }
    pass_by();
    bool leads = true;
    if (trusted == 0u) {
        const MASK peers = peers_of(where);
        leads = rank_in(peers) == 0u;
        if (are_alone(peers, leads)) {
            trusted = TRUST;
            leads = true;
        } else {
            what = sum_of_peers(what, peers);
        }
    }
    if (leads)
        add_each(own, where, what);
}

// Four items.
void add_tile(uint own, uint cell[ITEMS], REAL value[ITEMS], uint skipped_items, inout uint last,
              inout SUM run, inout uint trusted)
{
    if (skipped_items != 0u && counts())
        atomicAdd(skipped_total, skipped_items);
    sift(value);
    if (trusted > 0u) {
        trusted--;
        add_each(own, cell[0], take(value[0]));
        add_each(own, cell[1], take(value[1]));
        add_each(own, cell[2], take(value[2]));
        add_each(own, cell[3], take(value[3]));
        return;
    }
    const uvec4 first = uvec4(subgroupBroadcast(cell[0], 0u), subgroupBroadcast(cell[1], 0u),
                              subgroupBroadcast(cell[2], 0u), subgroupBroadcast(cell[3], 0u));
    if (subgroupAll(uvec4(cell[0], cell[1], cell[2], cell[3]) == first)) {
        follow_four(own, first, value, last, run);
        return;
    }
    [[dont_unroll]] for (uint k = 0u; k < ITEMS; k++) {
        add_one(own, cell[0], take(value[0]), last, run, trusted);
        [[unroll]] for (uint j = 1u; j < ITEMS; j++) {
            cell[j - 1u] = cell[j];
            value[j - 1u] = value[j];
        }
    }
}

// One item of each invocation: what is left of a line when whole tiles were taken.
void add_rest(uint own, inout uint last, inout SUM run, inout uint trusted)
{
    for (uint64_t first = items / TILE * TILE; first < items; first += GROUP) {
        const uint64_t n = first + gl_LocalInvocationIndex;
        const bool is_there = n < items;
        uint64_t source, where, base;
        uint skipped_items = 0u;
        find_item(is_there ? n : items - 1ul, source, where, base);
        REAL value = load_number(FROM, source);
        const uint cell = cell_of(uint(base), index_at(where), is_there, value, skipped_items);
        if (skipped_items != 0u && counts())
            atomicAdd(skipped_total, 1u);
        add_one(own, cell, take(sift_one(value)), last, run, trusted);
    }
}

void scatter()
{
    const uint self = gl_LocalInvocationIndex;
    const bool in_line = (FORM & ITEM_LINE) != 0u;
    const uint own = (FORM & SHARES) != 0u ? self / ROW % copies * cells : 0u;
    const uint place_in_tile = self / ROW * (ROW * ITEMS) + self % ROW;
    const uint tiles = uint(in_line ? items / TILE : (items + TILE - 1ul) / TILE);
    uint last = NOWHERE, trusted = 0u;
    SUM run = zero();
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint cell[ITEMS], skipped_items = 0u;
        REAL value[ITEMS];
        const uint64_t first = uint64_t(tile) * TILE + place_in_tile;
        if (in_line)
            fetch_line(first, cell, value, skipped_items);
        else
            fetch(first, cell, value, skipped_items);
        add_tile(own, cell, value, skipped_items, last, run, trusted);
    }
    if (in_line && gl_WorkGroupID.x == 0u)
        add_rest(own, last, run, trusted);
    put_away(own, last, run);
}

// Cells that a word cannot number: each item is added by itself.
void scatter_many()
{
    for (uint64_t n = gl_GlobalInvocationID.x; n < items; n += uint64_t(gl_NumWorkGroups.x) * GROUP) {
        uint64_t source, where, base;
        find_item(n, source, where, base);
        const uint64_t chosen = load_index(where);
        if (chosen < extent)
            add_memory(base + chosen * uint64_t(index_cells), take(sift_one(load_number(FROM, source))));
        else if (counts())
            atomicAdd(skipped_total, 1u);
    }
}

// The group's copies of cells go to memory.
void add_copies()
{
    for (uint i = gl_LocalInvocationIndex; i < cells; i += GROUP) {
        SUM whole = zero();
        for (uint copy = 0u; copy < copies; copy++)
            whole = plus(whole, from_shared(copy * cells + i));
        if (!is_zero(whole))
            add_memory(i, whole);
    }
}

void main()
{
    const uint self = gl_LocalInvocationIndex;
    if (!is_wanted())
        return;
    if (self == 0u) {
        skipped_total = 0u;
        begin();
    }
    if ((FORM & SHARES) != 0u)
        for (uint i = self; i < cells * copies; i += GROUP)
            clear_shared(i);
    barrier();
    if ((FORM & MANY) != 0u)
        scatter_many();
    else
        scatter();
    barrier();
    if ((FORM & SHARES) != 0u)
        add_copies();
    if (self == 0u) {
        report_skipped();
        end();
    }
}
