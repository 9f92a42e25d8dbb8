/*
 * cts_numbers.c - the fixture's tensors of numbers: from doubles to elements of any dtype, rounded
 * to nearest even by arithmetic of their own; layouts by chance; and numbers by chance that are the
 * same everywhere.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>

/* A format with `bits` bits of significand whose smallest normal number is 2^least, in 16 bits. */
static uint16_t half(double value, int bits, int least)
{
    int exponent, largest = bits == 11 ? 16 : 128; /* numbers are below 2^largest */
    uint16_t sign = signbit(value) ? 0x8000 : 0,
             infinity = (uint16_t)((largest * 2 - 1) << (bits - 1));
    if (isnan(value))
        return (uint16_t)(infinity | 1u << (bits - 2));
    (void)frexp(value, &exponent);
    int last = exponent - 1 < least ? least : exponent - 1; /* exponent of the rounded number */
    double steps = isinf(value) ? INFINITY : nearbyint(ldexp(fabs(value), bits - 1 - last));
    double rounded = ldexp(steps, last - bits + 1);
    if (rounded >= ldexp(1, largest))
        return sign | infinity;
    if (rounded < ldexp(1, least))
        return (uint16_t)(sign | (unsigned)steps);
    (void)frexp(rounded, &exponent);
    unsigned significand = (unsigned)ldexp(rounded, bits - exponent) - (1u << (bits - 1));
    return (uint16_t)(sign | (unsigned)(exponent - least) << (bits - 1) | significand);
}

static void encode(ddisp_dtype dtype, double value, void *at)
{
    uint16_t bits = 0;
    int64_t integer = 0;
    float single = (float)value;
    switch (dtype) {
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        bits = dtype == DDISP_DTYPE_F16 ? half(value, 11, -14) : half(value, 8, -126);
        memcpy(at, &bits, sizeof bits);
        break;
    case DDISP_DTYPE_F32:
        memcpy(at, &single, sizeof single);
        break;
    case DDISP_DTYPE_F64:
        memcpy(at, &value, sizeof value);
        break;
    default: /* little-endian: the low bytes come first */
        integer = (int64_t)value;
        memcpy(at, &integer, ddisp_dtype_size(dtype));
        break;
    }
}

double cts_rounded(ddisp_dtype dtype, double value)
{
    uint16_t bits;
    switch (dtype) {
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        encode(dtype, value, &bits);
        return cts_from_half(dtype, bits);
    case DDISP_DTYPE_F32:
        return (double)(float)value;
    default:
        return value;
    }
}

ddisp_tensor *cts_numbers(cts *t, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                          const int64_t *strides, const double *values)
{
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++)
        numel *= shape[i];
    uint32_t size = ddisp_dtype_size(dtype);
    unsigned char *data = malloc((size_t)numel * size + 1);
    assert_non_null(data);
    for (int64_t i = 0; i < numel; i++)
        encode(dtype, values[i], data + i * size);
    ddisp_tensor *tensor = cts_tensor(t, dtype, rank, shape, strides, 0, data);
    free(data);
    return tensor;
}

int cts_rounds(int few)
{
    const char *wanted = getenv("CTS_ROUNDS");
    return wanted && atoi(wanted) > 0 ? atoi(wanted) : few;
}

uint32_t cts_random(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

void cts_random_strides(uint64_t *state, uint32_t rank, const int64_t *shape, int64_t *strides)
{
    uint32_t order[DDISP_MAX_RANK];
    int64_t step = 1 + cts_random(state, 3) / 2;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = cts_random(state, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis = order[i];
        strides[axis] = cts_random(state, 3) ? step : -step;
        step = step * shape[axis] + cts_random(state, 3) / 2 * 3;
    }
}
