// numbers.glsl - elements of memory as numbers, and adding to one that other work adds to.
// Compiled with -DDOUBLE where sums are double, and -DNATIVE where the device has the atomics that the
// shader would like, and 16-bit access: else they are loops of compare-and-swap, and halves are taken
// out of words.
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#ifdef NATIVE
#extension GL_EXT_shader_16bit_storage : require
#endif
#ifdef NATIVE_ADD
#extension GL_EXT_shader_atomic_float : require
#endif
#ifdef DOUBLE
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#extension GL_EXT_shader_atomic_int64 : require
#define REAL double
#else
#define REAL float
#endif

const uint GROUP = 256u; // invocations of every group
layout(local_size_x = 256) in;

// vulkan_operations.h has the same numbers
layout(constant_id = 0) const uint OPERATION = 0u;
layout(constant_id = 1) const uint TO = 12u;   // dtypes
layout(constant_id = 2) const uint FROM = 12u;
layout(constant_id = 3) const uint INDEX = 7u;
layout(constant_id = 4) const uint FORM = 0u;
layout(constant_id = 5) const uint SHARED = 1u;

layout(buffer_reference, buffer_reference_align = 4) buffer Word { uint value; };
layout(buffer_reference, buffer_reference_align = 8) buffer Long { uint64_t value; };
layout(buffer_reference, buffer_reference_align = 4) restrict readonly buffer SourceWord { uint value; };
layout(buffer_reference, buffer_reference_align = 8) restrict readonly buffer SourceLong { uint64_t value; };
#ifdef NATIVE
layout(buffer_reference, buffer_reference_align = 2) buffer Half { uint16_t value; };
layout(buffer_reference, buffer_reference_align = 2) restrict readonly buffer SourceHalf { uint16_t value; };
#endif
#ifdef NATIVE_ADD
layout(buffer_reference, buffer_reference_align = 4) buffer Single { float value; };
#ifdef DOUBLE
layout(buffer_reference, buffer_reference_align = 8) buffer Double { double value; };
#endif
#endif

#include "rounding.glsl"

uint half_of(uint64_t address)
{
#ifdef NATIVE
    return uint(SourceHalf(address).value);
#else
    uint word = SourceWord(address & ~uint64_t(3)).value;
    return (address & uint64_t(2)) != uint64_t(0) ? word >> 16 : word & 0xFFFFu;
#endif
}

REAL load_number(uint dtype, uint64_t address)
{
    if (dtype == F32)
        return to_real(uintBitsToFloat(SourceWord(address).value));
#ifdef DOUBLE
    if (dtype == F64)
        return packDouble2x32(unpackUint2x32(SourceLong(address).value));
#endif
    return to_real(from_half(dtype, half_of(address)));
}

// Two bytes change, the neighbour in the word does not, whoever writes it meanwhile.
void store_half(uint64_t address, uint bits)
{
#ifdef NATIVE
    Half(address).value = uint16_t(bits);
#else
    Word word = Word(address & ~uint64_t(3));
    uint shift = (address & uint64_t(2)) != uint64_t(0) ? 16u : 0u;
    atomicAnd(word.value, ~(0xFFFFu << shift));
    atomicOr(word.value, bits << shift);
#endif
}

void store_number(uint dtype, uint64_t address, REAL value)
{
    if (dtype == F32)
        Word(address).value = floatBitsToUint(to_float(value));
#ifdef DOUBLE
    else if (dtype == F64)
        Long(address).value = packUint2x32(unpackDouble2x32(value));
#endif
    else
        store_half(address, to_half(dtype, value));
}

void add_number(uint dtype, uint64_t address, REAL value)
{
    if (dtype == F32) {
#if defined(NATIVE_ADD) && !defined(DOUBLE)
        atomicAdd(Single(address).value, value);
#else
        Word word = Word(address);
        uint old = word.value, seen;
        do {
            seen = old;
            uint next = floatBitsToUint(to_float(to_real(uintBitsToFloat(seen)) + value));
            old = atomicCompSwap(word.value, seen, next);
        } while (old != seen);
#endif
        return;
    }
#ifdef DOUBLE
    if (dtype == F64) {
#ifdef NATIVE_ADD
        atomicAdd(Double(address).value, value);
#else
        Long word = Long(address);
        uint64_t old = word.value, seen;
        do {
            seen = old;
            double sum = packDouble2x32(unpackUint2x32(seen)) + value;
            old = atomicCompSwap(word.value, seen, packUint2x32(unpackDouble2x32(sum)));
        } while (old != seen);
#endif
        return;
    }
#endif
    Word word = Word(address & ~uint64_t(3));
    uint shift = (address & uint64_t(2)) != uint64_t(0) ? 16u : 0u;
    uint old = word.value, seen;
    do {
        seen = old;
        uint next = to_half(dtype, to_real(from_half(dtype, seen >> shift & 0xFFFFu)) + value);
        old = atomicCompSwap(word.value, seen, seen & ~(0xFFFFu << shift) | next << shift);
    } while (old != seen);
}

// Adds to one or both halves of a word, rounding once; the other half keeps its bits.
void add_halves(uint dtype, uint64_t address, REAL lower, REAL upper, bool has_lower, bool has_upper)
{
    Word word = Word(address);
    uint old = word.value, seen;
    do {
        seen = old;
        uint low = seen & 0xFFFFu, high = seen >> 16;
        if (has_lower)
            low = to_half(dtype, to_real(from_half(dtype, low)) + lower) & 0xFFFFu;
        if (has_upper)
            high = to_half(dtype, to_real(from_half(dtype, high)) + upper) & 0xFFFFu;
        old = atomicCompSwap(word.value, seen, high << 16 | low);
    } while (old != seen);
}

// A number that was pushed: the bits of a double where sums are, else of a float.
REAL pushed_number(uint64_t bits)
{
#ifdef DOUBLE
    return packDouble2x32(unpackUint2x32(bits));
#else
    return uintBitsToFloat(unpackUint2x32(bits).x);
#endif
}

#ifdef DOUBLE
const uint64_t ONE = 0x3FF0000000000000ul;
#else
const uint64_t ONE = 0x3F800000ul;
#endif

// Times a number that was pushed. By 1 nothing is computed, so that no bit is lost, not even of
// subnormal numbers, which the device may take for zero.
REAL scaled(uint64_t bits, REAL value) { return bits == ONE ? value : pushed_number(bits) * value; }

// Bytes of an element.
uint size_of(uint dtype)
{
    if (dtype <= 3u)
        return 1u;
    if (dtype <= 5u || dtype == F16 || dtype == BF16)
        return 2u;
    return dtype == 6u || dtype == 7u || dtype == F32 ? 4u : 8u;
}
