#version 460
// elements.comp - element-wise work: fill, copy, store with conversion, add. What is without gaps and
// aligned is moved 16 bytes at a time. A line's elements are taken by whole groups, several for an
// invocation, a group's width apart, so that neighbours touch neighbours and many loads are under way at
// once; where lines are short an invocation takes one element of any. Halves without gaps are taken by
// words; where they are added to others of their kind, by two words at once. An atomic that finds its
// memory in the cache is far cheaper than one that has to fetch it, so what is added to is read first. What nobody else adds to is
// read and stored, 16 bytes at a time.
#extension GL_GOOGLE_include_directive : require
#ifdef NATIVE
#define NATIVE_ADD
#extension GL_EXT_shader_atomic_int64 : require
#endif
#include "numbers.glsl"
#include "places.glsl"

// of OPERATION
const uint ADD = 0u, STORE = 1u, FILL = 2u, COPY = 3u;
// of FORM
const uint ANY = 0u, LINES = 1u, HALVES = 2u, QUADS = 3u, WORDS = 4u;
const uint BATCH = OPERATION == ADD ? 4u : 8u; // vulkan_elements.c has the same
const uint QUADS_EACH = 2u;

layout(push_constant, std430) uniform Push {
    uint64_t axes; // of lines, or of elements; 0: there is one line
    uint64_t to, from;
    uint64_t line;            // elements of a line; of halves: all
    int64_t to_step, from_step; // along a line
    uint64_t bits, alpha;
    uint line_groups; // groups that it takes for a line
    uint groups;
    uint skip; // halves: 1 where the first element is the upper half of its word
    uint reserved;
};

layout(buffer_reference, buffer_reference_align = 16) restrict readonly buffer SourceQuad { uvec4 value; };
layout(buffer_reference, buffer_reference_align = 16) restrict writeonly buffer Quad { uvec4 value; };

void put_bits(uint64_t address, uvec4 bits)
{
    if (TO == 16u) {
        Quad(address).value = bits;
    } else if (TO == 8u) {
        Long(address).value = packUint2x32(bits.xy);
    } else if (TO == 4u) {
        Word(address).value = bits.x;
    } else if (TO == 2u) {
        store_half(address, bits.x & 0xFFFFu);
    } else {
        Word word = Word(address & ~uint64_t(3));
        uint shift = uint(address & uint64_t(3)) * 8u;
        atomicAnd(word.value, ~(0xFFu << shift));
        atomicOr(word.value, (bits.x & 0xFFu) << shift);
    }
}

uvec4 get_bits(uint64_t address)
{
    if (TO == 16u)
        return SourceQuad(address).value;
    if (TO == 8u)
        return uvec4(unpackUint2x32(SourceLong(address).value), 0u, 0u);
    uint word = SourceWord(address & ~uint64_t(3)).value;
    return uvec4(word >> uint(address & uint64_t(3)) * 8u, 0u, 0u, 0u);
}

void put(uint64_t address, REAL value)
{
    if (OPERATION == STORE)
        store_number(TO, address, value);
    else
        add_number(TO, address, value);
}

// Brings what will be added to into the cache. All bits are set: a NaN, which stays one whatever is added.
const uint STAYS = 0xFFFFFFFFu;
uint touch(uint64_t address)
{
#ifdef NATIVE
    if (OPERATION == ADD && (TO == F32 || TO == F64))
        return Word(TO == F64 ? address + 4ul : address).value;
#endif
    return 0u; // adding begins with a look
}

void one(uint group)
{
    uint64_t n = uint64_t(group) * GROUP + gl_LocalInvocationIndex;
    Axes them = Axes(axes);
    int64_t at, from_at, unused;
    if (n >= them.count)
        return;
    place(them, n, at, from_at, unused);
    if (OPERATION == FILL)
        put_bits(to + at, uvec4(unpackUint2x32(bits), unpackUint2x32(bits)));
    else if (OPERATION == COPY)
        put_bits(to + at, get_bits(from + from_at));
    else
        put(to + at, scaled(alpha, load_number(FROM, from + from_at)));
}

void several(uint group)
{
    uint64_t target[BATCH], origin[BATCH];
    bool is_there[BATCH];
    int64_t at = 0l, from_at = 0l, unused;
    uint piece = group;
    if (axes != 0ul) {
        uint row = group / line_groups;
        piece = group - row * line_groups;
        place(Axes(axes), uint64_t(row), at, from_at, unused);
    }
    const uint64_t first = uint64_t(piece) * (BATCH * GROUP) + gl_LocalInvocationIndex;
    const uint left = first < line ? uint(min(line - first, uint64_t(BATCH * GROUP))) : 0u;
    const int64_t n = int64_t(left != 0u ? first : 0ul); // what is not there loads what is
    const uint64_t first_target = to + at + n * to_step, first_origin = from + from_at + n * from_step;
    [[unroll]] for (uint k = 0u; k < BATCH; k++) {
        is_there[k] = k * GROUP < left;
        target[k] = first_target + int64_t(k * GROUP) * to_step;
        origin[k] = is_there[k] ? first_origin + int64_t(k * GROUP) * from_step : first_origin;
    }
    if (OPERATION == FILL || OPERATION == COPY) {
        uvec4 moved[BATCH];
        [[unroll]] for (uint k = 0u; k < BATCH; k++)
            moved[k] = OPERATION == COPY ? get_bits(origin[k])
                                         : uvec4(unpackUint2x32(bits), unpackUint2x32(bits));
        [[unroll]] for (uint k = 0u; k < BATCH; k++)
            if (is_there[k])
                put_bits(target[k], moved[k]);
        return;
    }
    REAL value[BATCH];
    uint seen[BATCH];
    [[unroll]] for (uint k = 0u; k < BATCH; k++)
        seen[k] = touch(is_there[k] ? target[k] : first_target);
    [[unroll]] for (uint k = 0u; k < BATCH; k++)
        value[k] = load_number(FROM, origin[k]);
    [[unroll]] for (uint k = 0u; k < BATCH; k++)
        if (is_there[k] && seen[k] != STAYS)
            put(target[k], scaled(alpha, value[k]));
}

void halves(uint group)
{
    const uint WORDS = BATCH / 2u;
    REAL value[BATCH];
    [[unroll]] for (uint k = 0u; k < WORDS; k++) {
        // number of the upper element; the lower's is 1 less
        uint64_t second = 2ul * ((uint64_t(group) * WORDS + k) * GROUP + gl_LocalInvocationIndex) + 1ul - skip;
        uint64_t last = line - 1ul;
        uint64_t lower = second == 0ul ? 0ul : min(second - 1ul, last), upper = min(second, last);
        value[2u * k] = load_number(FROM, from + int64_t(lower) * from_step);
        value[2u * k + 1u] = load_number(FROM, from + int64_t(upper) * from_step);
    }
    [[unroll]] for (uint k = 0u; k < WORDS; k++) {
        uint64_t word = (uint64_t(group) * WORDS + k) * GROUP + gl_LocalInvocationIndex;
        uint64_t second = 2ul * word + 1ul - skip, target = to + 4ul * word;
        bool has_lower = second != 0ul && second - 1ul < line, has_upper = second < line;
        REAL lower = scaled(alpha, value[2u * k]), upper = scaled(alpha, value[2u * k + 1u]);
        if (OPERATION == ADD) {
            if (has_lower || has_upper)
                add_halves(TO, target, lower, upper, has_lower, has_upper);
        } else if (has_lower && has_upper) {
            Word(target).value = to_half(TO, upper) << 16 | to_half(TO, lower) & 0xFFFFu;
        } else if (has_lower) {
            store_half(target, to_half(TO, lower) & 0xFFFFu);
        } else if (has_upper) {
            store_half(target + 2ul, to_half(TO, upper) & 0xFFFFu);
        }
    }
}

#ifndef DOUBLE
uint sum_of_pairs(uint old, uint value)
{
    float lower = from_half(TO, old & 0xFFFFu) + scaled(alpha, from_half(TO, value & 0xFFFFu));
    float upper = from_half(TO, old >> 16) + scaled(alpha, from_half(TO, value >> 16));
    return to_half(TO, upper) << 16 | to_half(TO, lower) & 0xFFFFu;
}

// One f32, or two halves.
uint sum_of_bits(uint old, uint value)
{
    if (TO != F32)
        return sum_of_pairs(old, value);
    return floatBitsToUint(uintBitsToFloat(old) + scaled(alpha, uintBitsToFloat(value)));
}

uvec4 sum_of_words(uvec4 old, uvec4 value)
{
    return uvec4(sum_of_bits(old.x, value.x), sum_of_bits(old.y, value.y), sum_of_bits(old.z, value.z),
                 sum_of_bits(old.w, value.w));
}
#else
uvec4 sum_of_words(uvec4 old, uvec4 value)
{
    dvec2 sum = dvec2(packDouble2x32(old.xy) + scaled(alpha, packDouble2x32(value.xy)),
                      packDouble2x32(old.zw) + scaled(alpha, packDouble2x32(value.zw)));
    return uvec4(unpackDouble2x32(sum.x), unpackDouble2x32(sum.y));
}
#endif

// Whole words; the first group takes the few elements behind them too.
void words(uint group)
{
    const uint size = size_of(TO), each = 16u / size; // of a word
    const uint64_t whole = line / each, n = uint64_t(group) * GROUP + gl_LocalInvocationIndex;
    if (n < whole) {
        Quad target = Quad(to + 16ul * n);
        target.value = sum_of_words(SourceQuad(to + 16ul * n).value, SourceQuad(from + 16ul * n).value);
    }
    const uint64_t last = whole * each + gl_LocalInvocationIndex;
    if (group == 0u && last < line)
        put(to + last * size, scaled(alpha, load_number(FROM, from + last * size)));
}

#if defined(NATIVE) && !defined(DOUBLE)
uint64_t sum_of_quads(uint64_t old, uint64_t value)
{
    uvec2 olds = unpackUint2x32(old), values = unpackUint2x32(value);
    return packUint2x32(uvec2(sum_of_pairs(olds.x, values.x), sum_of_pairs(olds.y, values.y)));
}

// Whole fours, aligned, then the last few.
void quads(uint group)
{
    const uint64_t whole = line / 4ul, first = uint64_t(group) * (QUADS_EACH * GROUP) + gl_LocalInvocationIndex;
    uint64_t value[QUADS_EACH], seen[QUADS_EACH], old[QUADS_EACH];
    [[unroll]] for (uint k = 0u; k < QUADS_EACH; k++) {
        uint64_t n = first + k * GROUP, at = 8ul * (n < whole ? n : 0ul);
        value[k] = SourceLong(from + at).value;
        seen[k] = Long(to + at).value;
    }
    [[unroll]] for (uint k = 0u; k < QUADS_EACH; k++) {
        uint64_t n = first + k * GROUP;
        old[k] = seen[k];
        if (n < whole)
            old[k] = atomicCompSwap(Long(to + 8ul * n).value, seen[k], sum_of_quads(seen[k], value[k]));
    }
    [[unroll]] for (uint k = 0u; k < QUADS_EACH; k++) {
        Long quad = Long(to + 8ul * (first + k * GROUP));
        while (old[k] != seen[k]) { // others added meanwhile
            seen[k] = old[k];
            old[k] = atomicCompSwap(quad.value, seen[k], sum_of_quads(seen[k], value[k]));
        }
    }
    const uint64_t last = whole * 4ul + gl_LocalInvocationIndex;
    if (group == 0u && last < line)
        put(to + 2ul * last, scaled(alpha, load_number(FROM, from + 2ul * last)));
}
#else
void quads(uint group) { } // never asked for
#endif

void main()
{
    for (uint group = gl_WorkGroupID.x; group < groups; group += gl_NumWorkGroups.x) {
        if (FORM == ANY)
            one(group);
        else if (FORM == LINES)
            several(group);
        else if (FORM == HALVES)
            halves(group);
        else if (FORM == QUADS)
            quads(group);
        else
            words(group);
    }
}
