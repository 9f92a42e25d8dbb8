#version 460
// fold.comp - ends deterministic mode in users' kernels: a sum that was taken in integers, in steps of
// 2^-k, goes into its element. Without -DDOUBLE it is rounded to f32 by integer arithmetic; to odd
// where it will be rounded once more, to 16 bits.
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#ifdef DOUBLE
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#extension GL_EXT_shader_atomic_int64 : require
#define REAL double
#else
#define REAL float
#endif

#include "rounding.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DESTINATION = 12u; // ddisp_dtype
layout(constant_id = 1) const bool WIDE = false;      // an element of the shadow is two integers
layout(constant_id = 2) const bool ADDS = true;

layout(buffer_reference, buffer_reference_align = 4) buffer Word { uint value; };
layout(buffer_reference, buffer_reference_align = 8) buffer Long { uint64_t value; };

// What vulkan_fold.c hands over. Strides are in bytes.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Work {
    uint64_t destination, shadow, sticky;
    uint64_t bits; // of the step 2^-k, as a double
    uint64_t cells;
    uint rank, reserved;
    int64_t shape[8], destination_stride[8], shadow_stride[8];
};
layout(push_constant) uniform Push { Work work; };

const uint TOO_MANY = 4u; // ddisp_backend_table.fold

// ---- memory that other work may add to

uint next_word(uint seen, uint shift, REAL value)
{
    if (DESTINATION == F32)
        return floatBitsToUint(to_float(ADDS ? to_real(uintBitsToFloat(seen)) + value : value));
    REAL sum = ADDS ? to_real(from_half(DESTINATION, seen >> shift & 0xFFFFu)) + value : value;
    return seen & ~(0xFFFFu << shift) | to_half(DESTINATION, sum) << shift;
}

void put(uint64_t address, REAL value)
{
#ifdef DOUBLE
    if (DESTINATION == F64) {
        Long cell = Long(address);
        uint64_t old = cell.value, seen;
        do {
            seen = old;
            double sum = ADDS ? packDouble2x32(unpackUint2x32(seen)) + value : value;
            old = atomicCompSwap(cell.value, seen, packUint2x32(unpackDouble2x32(sum)));
        } while (old != seen);
        return;
    }
#endif
    Word word = Word(address & ~3ul);
    uint shift = uint(address & 3ul) * 8u, old = word.value, seen;
    do {
        seen = old;
        old = atomicCompSwap(word.value, seen, next_word(seen, shift, value));
    } while (old != seen);
}

// ---- the sum

#ifdef DOUBLE
double value_of(int64_t whole, int64_t units)
{
    double high = double(whole), rest = double(whole - int64_t(high));
    double step = packDouble2x32(unpackUint2x32(work.bits));
    return (high + (rest + double(units) * 9.3132257461547851563e-10LF)) * step; // 2^-30
}
#else
float value_of(int64_t whole, int64_t units)
{
    int k = 1023 - int(uint(work.bits >> 52) & 0x7FFu);
    uint64_t magnitude = uint64_t(whole < 0l ? -whole : whole);
    if (magnitude == 0ul)
        return 0.0;
    uvec2 words = unpackUint2x32(magnitude);
    int top = words.y != 0u ? 32 + findMSB(words.y) : findMSB(words.x);
    if (top - k > 127)
        return uintBitsToFloat(whole < 0l ? 0xFF800000u : 0x7F800000u);
    int least = max(top - k - 23, -149), shift = least + k; // bits that are kept begin at 2^least
    uint64_t kept = shift > 0 ? 0ul : magnitude << -shift, rest = magnitude;
    if (shift > 0 && shift < 64) {
        kept = magnitude >> shift;
        rest = magnitude - (kept << shift);
    }
    uint64_t middle = shift > 0 && shift <= 64 ? 1ul << (shift - 1) : 0ul;
    if (shift > 0 && DESTINATION != F32)
        kept |= uint64_t(rest != 0ul);
    else if (middle != 0ul && (rest > middle || (rest == middle && (kept & 1ul) != 0ul)))
        kept++;
    uint bits = uint(kept) + (uint(least + 149) << 23);
    return uintBitsToFloat(whole < 0l ? bits | 0x80000000u : bits);
}
#endif

void main()
{
    uint64_t step = uint64_t(gl_NumWorkGroups.x) * 256ul;
    for (uint64_t n = gl_GlobalInvocationID.x; n < work.cells; n += step) {
        uint64_t to = work.destination, from = work.shadow, left = n;
        for (uint i = work.rank; i > 0u;) {
            i--;
            uint64_t at = left % uint64_t(work.shape[i]);
            left /= uint64_t(work.shape[i]);
            to += at * uint64_t(work.destination_stride[i]);
            from += at * uint64_t(work.shadow_stride[i]);
        }
        int64_t whole = int64_t(Long(from).value), units = 0l;
        if (WIDE) {
            units = int64_t(Long(from + 8ul).value);
            whole += units >> 30; // carries, also downwards
            units &= (1l << 30) - 1l;
        }
        if (whole > 1l << 62 || whole < -(1l << 62))
            atomicOr(Word(work.sticky).value, TOO_MANY);
        put(to, value_of(whole, units));
    }
}
