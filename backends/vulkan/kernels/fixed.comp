#version 460
// fixed.comp - scatter-add with a result that depends on no order (integers.glsl). Elements that are not
// finite, or beyond the bound, count as 0 and set a flag.
#extension GL_GOOGLE_include_directive : require
#if defined(NATIVE) && !defined(DOUBLE)
#extension GL_EXT_shader_atomic_int64 : require
#endif
#include "subgroups.glsl"
#include "items.glsl"
#include "integers.glsl"

#define SUM integer

// Lower and upper words of 64-bit sums: without 64-bit atomics the lower's carry is added above.
void add_words(uint64_t address, int64_t value)
{
#if defined(NATIVE) || defined(DOUBLE)
    atomicAdd(Long(address).value, uint64_t(value));
#else
    uvec2 words = unpackUint2x32(uint64_t(value));
    uint before = atomicAdd(Word(address).value, words.x);
    words.y += uint(before + words.x < before);
    if (words.y != 0u)
        atomicAdd(Word(address + 4ul).value, words.y);
#endif
}

// In the group's memory: all lower words, then all upper ones; for f64 twice.
shared uint bins[SHARED];
uint all_cells() { return cells * copies; }

void add_shared_words(uint i, int64_t value)
{
    uvec2 words = unpackUint2x32(uint64_t(value));
    uint before = atomicAdd(bins[i], words.x);
    words.y += uint(before + words.x < before);
    if (words.y != 0u)
        atomicAdd(bins[i + all_cells()], words.y);
}

int64_t shared_words(uint i) { return int64_t(packUint2x32(uvec2(bins[i], bins[i + all_cells()]))); }

int64_t word_from_lane(int64_t value, uint lane)
{
    return int64_t(packUint2x32(subgroupShuffle(unpackUint2x32(uint64_t(value)), lane)));
}

int64_t word_from_other(int64_t value, uint apart)
{
    return int64_t(packUint2x32(subgroupShuffleXor(unpackUint2x32(uint64_t(value)), apart)));
}

bool is_zero(integer value) { return is_nothing(value); }

#ifdef DOUBLE
integer zero() { return nothing(); }
integer plus(integer a, integer b) { return integer(a.high + b.high, a.low + b.low); }

integer from_lane(integer value, uint lane)
{
    return integer(word_from_lane(value.high, lane), word_from_lane(value.low, lane));
}

integer from_other(integer value, uint apart)
{
    return integer(word_from_other(value.high, apart), word_from_other(value.low, apart));
}

// Not roundEven: Mesa's llvmpipe leaves large numbers as they are.
double nearest(double value)
{
    const double all_whole = 4503599627370496.0LF; // 2^52
    precise double shifted = abs(value) + all_whole;
    precise double whole = shifted - all_whole;
    if (abs(value) >= all_whole)
        return value;
    return value < 0.0LF ? -whole : whole;
}

integer to_integer(double value)
{
    double whole = nearest(value);
    double rest = value - whole; // exact
    return integer(int64_t(whole), int64_t(nearest(rest * power(62 - int(count_log2())))));
}

void add_memory(uint64_t cell, integer value)
{
    add_words(sums() + cell * INTEGER_BYTES, value.high);
    add_words(sums() + cell * INTEGER_BYTES + 8ul, value.low);
}

void add_shared(uint i, integer value)
{
    add_shared_words(i, value.high);
    add_shared_words(i + 2u * all_cells(), value.low);
}

integer from_shared(uint i) { return integer(shared_words(i), shared_words(i + 2u * all_cells())); }

void clear_shared(uint i)
{
    for (uint k = 0u; k < 4u; k++)
        bins[i + k * all_cells()] = 0u;
}
#else
integer zero() { return nothing(); }
integer plus(integer a, integer b) { return a + b; }
integer from_lane(integer value, uint lane) { return word_from_lane(value, lane); }
integer from_other(integer value, uint apart) { return word_from_other(value, apart); }
integer to_integer(float value) { return int64_t(roundEven(value)); }
void add_memory(uint64_t cell, integer value) { add_words(sums() + cell * INTEGER_BYTES, value); }
void add_shared(uint i, integer value) { add_shared_words(i, value); }
integer from_shared(uint i) { return shared_words(i); }

void clear_shared(uint i)
{
    bins[i] = 0u;
    bins[i + all_cells()] = 0u;
}
#endif

bool is_wanted() { return !is_again() || Head(head).beyond != 0u; }
bool counts() { return !is_again(); }

// What all of the group need, and whether one of its elements was beyond the bound, or not finite.
shared REAL up[2]; // 2^steps may be too large for the type
shared bool beyond, not_finite;
shared MAGNITUDE bound; // a power of 2, as far as the type goes
shared bool unmarked; // some cells were met that are in no marked block

void mark(uint cell)
{
    if ((FORM & MARKS) != 0u)
        atomicOr(Word(mark_of(cell / BLOCK)).value, 1u << cell / BLOCK % 32u);
}

void pass_by()
{
    if ((FORM & MARKS) != 0u)
        unmarked = true;
}

void begin()
{
    int k = steps_log2(is_again());
    bound = magnitude_of(power(bound_log2(is_again())));
    up[0] = power(k / 2);
    up[1] = power(k - k / 2);
    beyond = not_finite = unmarked = false;
}

void end()
{
    if (beyond)
        Head(head).beyond = 1u;
    if (not_finite)
        Head(head).not_finite = 1u;
    if (unmarked)
        Head(head).unmarked = 1u;
}

REAL in_steps(REAL value) { return value * up[0] * up[1]; }

// Zero for what has no integer, which is noted.
REAL allowed(REAL value)
{
    if (magnitude_of(value) <= bound)
        return value;
    if (magnitude_of(value) < INFINITE)
        beyond = true;
    else
        not_finite = true;
    return REAL(0);
}

// Elements become counts of steps, not rounded yet. All are compared at once.
void sift(inout REAL value[ITEMS])
{
    MAGNITUDE most = magnitude_of(value[0]);
    [[unroll]] for (uint k = 1u; k < ITEMS; k++)
        most = max(most, magnitude_of(value[k]));
    if (most > bound) {
        [[unroll]] for (uint k = 0u; k < ITEMS; k++)
            value[k] = allowed(value[k]);
    }
    [[unroll]] for (uint k = 0u; k < ITEMS; k++)
        value[k] = in_steps(value[k]);
}

REAL sift_one(REAL value) { return in_steps(allowed(value)); }

integer take(REAL value) { return to_integer(value); }

#include "scatter.glsl"
