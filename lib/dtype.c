/*
 * dtype.c - element types: sizes, names, which have gradients, and values as bits.
 */
#include "layout.h"

#include <string.h>

bool ddisp__dtype_valid(ddisp_dtype dtype)
{
    return ddisp_dtype_size(dtype) != 0;
}

bool ddisp__dtype_differentiable(ddisp_dtype dtype)
{
    return dtype >= DDISP_DTYPE_F16 && dtype <= DDISP_DTYPE_F64;
}

static const char *const names[] = {"any", "bool", "u8",  "i8",  "u16",  "i16", "u32",
                                    "i32", "u64",  "i64", "f16", "bf16", "f32", "f64"};

uint32_t ddisp_dtype_size(ddisp_dtype dtype)
{
    return ddisp__dtype_size(dtype);
}

const char *ddisp_dtype_name(ddisp_dtype dtype)
{
    return dtype < sizeof names / sizeof names[0] ? names[dtype] : "unknown";
}

/* Rounds to a binary format with `exponent` and `mantissa` bits, nearest even, from the bits of a
 * double. */
static uint64_t narrow(double value, int exponent_bits, int mantissa_bits)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = bits >> 63 << (exponent_bits + mantissa_bits);
    int64_t bias = (INT64_C(1) << (exponent_bits - 1)) - 1;
    int64_t exponent = (int64_t)(bits >> 52 & 0x7FF) - 1023;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << mantissa_bits;
    if (exponent == 1024) /* infinity and NaN */
        return sign | infinity | (mantissa ? UINT64_C(1) << (mantissa_bits - 1) : 0);
    if (exponent < -bias - mantissa_bits - 1 || value == 0.0)
        return sign;
    uint64_t full = mantissa | UINT64_C(1) << 52; /* 1.mantissa as an integer of 53 bits */
    int64_t shift = 52 - mantissa_bits;
    int64_t biased = exponent + bias;
    if (biased < 1) { /* subnormal */
        shift += 1 - biased;
        biased = 0;
    }
    uint64_t kept = full >> shift, rest = full & ((UINT64_C(1) << shift) - 1),
             half = UINT64_C(1) << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    /* the leading bit of a normal number adds one to the exponent field, and so does a carry */
    uint64_t result = biased > 0 ? kept + ((uint64_t)(biased - 1) << mantissa_bits) : kept;
    return sign | (result > infinity ? infinity : result);
}

uint64_t ddisp__float_bits(ddisp_dtype dtype, double value)
{
    uint64_t bits = 0;
    float single = (float)value;
    switch (dtype) {
    case DDISP_DTYPE_F16:
        return narrow(value, 5, 10);
    case DDISP_DTYPE_BF16:
        return narrow(value, 8, 7);
    case DDISP_DTYPE_F32:
        memcpy(&bits, &single, sizeof single);
        return bits;
    default:
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
}
