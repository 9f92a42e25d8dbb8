// integers.glsl - sums that depend on no order: elements become integers, whose sums are exact.
//
// An element v counts as the integer nearest to v * 2^k, with k such that no sum of as many elements as
// can come to one cell overflows 63 bits. For f64 what that leaves over goes, in the same way, into a
// second integer. k follows from a bound of the magnitudes: what a fixed sample shows, times a headroom;
// where an element is beyond it, everything is done again with the true bound. Both are functions of
// the elements alone. Magnitudes are compared as bits: that tells infinities and NaN apart whatever the
// device does with them in arithmetic.

// Zero at first, and when all is done. unmarked: blocks without a mark have sums too. finished: groups that are
// done with it.
#ifdef DOUBLE
layout(buffer_reference, buffer_reference_align = 8) buffer Head {
    uint64_t sampled, largest;
    uint beyond, not_finite, unmarked, finished;
};
#define MAGNITUDE uint64_t
const MAGNITUDE INFINITE = 0x7FF0000000000000ul;
#else
layout(buffer_reference, buffer_reference_align = 8) buffer Head {
    uint sampled, unused, largest, unused_too;
    uint beyond, not_finite, unmarked, finished;
};
#define MAGNITUDE uint
const MAGNITUDE INFINITE = 0x7F800000u;
#endif

uint64_t sums() { return head + 256ul; } // of all cells

// Where there are many cells, a block of them gets a mark when a run is added to one. Unless other sums were
// added, unmarked blocks need not be looked at in the end.
const uint BLOCK = 8u;
uint64_t mark_of(uint block) { return marks + block / 32u * 4u; }

uint count_log2() { return steps & 0xFFu; }
uint headroom_log2() { return steps >> 8 & 0xFFu; }
bool is_again() { return steps >> 16 != 0u; }

MAGNITUDE magnitude_of(REAL value)
{
#ifdef DOUBLE
    return packUint2x32(unpackDouble2x32(value)) & 0x7FFFFFFFFFFFFFFFul;
#else
    return floatBitsToUint(value) & 0x7FFFFFFFu;
#endif
}

// 2^exponent, as far as the type goes.
REAL power(int exponent)
{
#ifdef DOUBLE
    if (exponent < -1022)
        return packDouble2x32(unpackUint2x32(exponent < -1074 ? 0ul : 1ul << uint(exponent + 1074)));
    return packDouble2x32(unpackUint2x32(exponent > 1023 ? 0x7FEFFFFFFFFFFFFFul : uint64_t(exponent + 1023) << 52));
#else
    if (exponent < -126)
        return uintBitsToFloat(exponent < -149 ? 0u : 1u << uint(exponent + 149));
    return uintBitsToFloat(exponent > 127 ? 0x7F7FFFFFu : uint(exponent + 127) << 23);
#endif
}

// The smallest exponent whose power of 2 is not below the magnitude.
int log2_up(MAGNITUDE bits)
{
#ifdef DOUBLE
    int exponent = int(bits >> 52);
    uint64_t digits = bits & 0xFFFFFFFFFFFFFul;
    if (exponent != 0)
        return exponent - 1023 + int(digits != 0ul);
    uvec2 words = unpackUint2x32(digits);
    int highest = words.y != 0u ? 32 + findMSB(words.y) : findMSB(words.x);
    return digits == 0ul ? -1075 : highest - 1074 + int(digits != 1ul << uint(highest));
#else
    int exponent = int(bits >> 23);
    uint digits = bits & 0x7FFFFFu;
    if (exponent != 0)
        return exponent - 127 + int(digits != 0u);
    int highest = findMSB(digits);
    return digits == 0u ? -150 : highest - 149 + int(digits != 1u << uint(highest));
#endif
}

#ifdef DOUBLE
const int MOST_LOG2 = 1024;
#else
const int MOST_LOG2 = 128;
#endif

int bound_log2(bool is_exact)
{
    Head it = Head(head);
    int exponent = is_exact ? log2_up(it.largest) : log2_up(it.sampled) + int(headroom_log2());
    return min(exponent, MOST_LOG2);
}

// k: integers count in steps of 2^-k.
int steps_log2(bool is_exact)
{
    return 62 - int(count_log2()) - bound_log2(is_exact);
}

#ifdef DOUBLE
struct integer {
    int64_t high, low; // low counts in steps of 2^(count_log2 - 62) of high's
};
const uint INTEGER_BYTES = 16u;
layout(buffer_reference, buffer_reference_align = 16) buffer Sum { uint64_t high, low; };

integer load_sum(uint64_t cell)
{
    Sum it = Sum(sums() + cell * INTEGER_BYTES);
    return integer(int64_t(it.high), int64_t(it.low));
}

void clear_sum(uint64_t cell)
{
    Sum it = Sum(sums() + cell * INTEGER_BYTES);
    it.high = it.low = 0ul;
}

REAL to_number(integer sum)
{
    double high = double(sum.high), rest = double(sum.high - int64_t(high));
    return high + (rest + double(sum.low) * power(int(count_log2()) - 62));
}

integer nothing() { return integer(0l, 0l); }
bool is_nothing(integer sum) { return sum.high == 0l && sum.low == 0l; }
#else
#define integer int64_t
const uint INTEGER_BYTES = 8u;

integer load_sum(uint64_t cell) { return int64_t(SourceLong(sums() + cell * INTEGER_BYTES).value); }
void clear_sum(uint64_t cell) { Long(sums() + cell * INTEGER_BYTES).value = 0ul; }
REAL to_number(integer sum) { return float(sum); }
integer nothing() { return 0l; }
bool is_nothing(integer sum) { return sum == 0l; }
#endif
