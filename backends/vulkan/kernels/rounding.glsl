// rounding.glsl - between 16 bits, float and REAL (float, or double where DOUBLE is defined): what every device
// must round alike, spelled out in integers. Included behind the definition of REAL.

// values of ddisp_dtype
const uint F16 = 10u, BF16 = 11u, F32 = 12u, F64 = 13u;

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
