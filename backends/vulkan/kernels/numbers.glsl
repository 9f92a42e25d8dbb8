// numbers.glsl - elements of memory as numbers, and adding to one that other work adds to.
// Compiled with -DDOUBLE where sums are double, and -DNATIVE where the device has the atomics that the
// shader would like, and 16-bit access: else they are loops of compare-and-swap, and halves are taken
// out of words.
#extension GL_EXT_buffer_reference : require
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

// values of ddisp_dtype
const uint F16 = 10u, BF16 = 11u, F32 = 12u, F64 = 13u;

uint half_of(uint64_t address)
{
#ifdef NATIVE
    return uint(SourceHalf(address).value);
#else
    uint word = SourceWord(address & ~uint64_t(3)).value;
    return (address & uint64_t(2)) != uint64_t(0) ? word >> 16 : word & 0xFFFFu;
#endif
}

float from_half(uint dtype, uint bits)
{
    return dtype == F16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

// binary32 to binary16, nearest even, spelled out: the rounding of packHalf2x16 is the device's choice
uint to_f16(float value)
{
    uint wide = floatBitsToUint(value);
    uint sign = wide >> 16 & 0x8000u, magnitude = wide & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return sign | 0x7E00u;
    if (magnitude >= 0x477FF000u)
        return sign | 0x7C00u;
    if (magnitude < 0x33000000u)
        return sign; // at most half of the smallest number, and that ties to zero
    if (magnitude < 0x38800000u) {
        uint shift = 126u - (magnitude >> 23);
        uint full = magnitude & 0x7FFFFFu | 0x800000u;
        uint kept = full >> shift, rest = full & (1u << shift) - 1u, tie = 1u << shift - 1u;
        return sign | kept + uint(rest > tie || rest == tie && (kept & 1u) == 1u);
    }
    return sign | magnitude + 0xC8000FFFu + (magnitude >> 13 & 1u) >> 13;
}

uint to_bf16(float value)
{
    uint wide = floatBitsToUint(value);
    if ((wide & 0x7FFFFFFFu) > 0x7F800000u)
        return wide >> 16 | 0x40u;
    return wide + 0x7FFFu + (wide >> 16 & 1u) >> 16;
}

// Between float and real. Devices take subnormal floats for zero in these conversions even where they keep
// them in sums, so those go by their integers: units of 2^-149.
#ifdef DOUBLE
REAL to_real(float single)
{
    uint bits = floatBitsToUint(single), magnitude = bits & 0x7FFFFFFFu;
    if (magnitude == 0u || magnitude >= 0x00800000u)
        return double(single);
    double value = double(magnitude) * 1.4012984643248170709e-45LF;
    return (bits >> 31) != 0u ? -value : value;
}

float to_float(REAL value)
{
    if (!(abs(value) < 1.1754943508222875080e-38LF) || value == 0.0LF)
        return float(value);
    double units = roundEven(abs(value) * 7.1362384635297994053e44LF);
    return uintBitsToFloat(uint(units) | (value < 0.0LF ? 0x80000000u : 0u));
}
#else
REAL to_real(float single) { return single; }
float to_float(REAL value) { return value; }
#endif

// A real as float so that rounding once more gives what rounding once would have: to odd.
float to_odd(REAL value)
{
    float single = to_float(value);
#ifdef DOUBLE
    if (to_real(single) != value && value == value && !isinf(single) && (floatBitsToUint(single) & 1u) == 0u) {
        bool nearer = abs(to_real(single)) < abs(value);
        uint bits = floatBitsToUint(single);
        single = uintBitsToFloat(nearer ? bits + 1u : bits - 1u);
    }
#endif
    return single;
}

uint to_half(uint dtype, REAL value)
{
    float odd = to_odd(value);
    return dtype == F16 ? to_f16(odd) : to_bf16(odd);
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
