/*
 * host_number.h - floating-point elements of any dtype as doubles, and adding to one that several
 * threads add to.
 */
#ifndef DDISP_HOST_NUMBER_H
#define DDISP_HOST_NUMBER_H

#include <diffdispatch/tensor.h>

#include <stdbool.h>
#include <string.h>

/** bfloat16 is the upper half of a float, rounded to nearest even. */
static inline float host_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t host_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value) {
        return (uint16_t)(wide >> 16 | 0x40);
    }
    return (uint16_t)((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
}

/** binary16: multiplying by a power of two moves the exponent, also of subnormal numbers. */
static inline float host_from_f16(uint16_t bits)
{
    uint32_t wide = (uint32_t)(bits & 0x7FFF) << 13;
    float value;
    memcpy(&value, &wide, sizeof value);
    value *= 0x1p112f;
    memcpy(&wide, &value, sizeof wide);
    if ((bits & 0x7C00) == 0x7C00) {
        wide |= 0x7F800000;
    }
    wide |= (uint32_t)(bits & 0x8000) << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t host_to_f16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    uint16_t sign = (uint16_t)(wide >> 16 & 0x8000);
    uint32_t magnitude = wide & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return sign | 0x7E00;
    }
    if (magnitude >= 0x477FF000) { /* rounds past the largest number */
        return sign | 0x7C00;
    }
    if (magnitude < 0x38800000) { /* subnormal: the addition rounds at the right bit */
        float half;
        memcpy(&half, &magnitude, sizeof half);
        half += 0.5f;
        memcpy(&magnitude, &half, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3F000000));
    }
    magnitude += 0xC8000FFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | magnitude >> 13);
}

static inline double host_load(ddisp_dtype dtype, const void *element)
{
    switch (dtype) {
    case DDISP_DTYPE_F16:
        return (double)host_from_f16(*(const uint16_t *)element);
    case DDISP_DTYPE_BF16:
        return (double)host_from_bf16(*(const uint16_t *)element);
    case DDISP_DTYPE_F32:
        return (double)*(const float *)element;
    default:
        return *(const double *)element;
    }
}

/** A double rounded to float so that a second rounding to half precision gives the right half: to
 * odd. */
static inline float host_to_odd(double value)
{
    float single = (float)value;
    uint32_t bits;
    if ((double)single == value || value != value) {
        return single;
    }
    memcpy(&bits, &single, sizeof bits);
    if (!(bits & 1)) { /* towards value: away from zero when single is nearer to zero */
        bool nearer =
            (single < 0 ? -(double)single : (double)single) < (value < 0 ? -value : value);
        bits = nearer ? bits + 1 : bits - 1;
        memcpy(&single, &bits, sizeof bits);
    }
    return single;
}

static inline void host_store(ddisp_dtype dtype, void *element, double value)
{
    switch (dtype) {
    case DDISP_DTYPE_F16:
        *(uint16_t *)element = host_to_f16(host_to_odd(value));
        break;
    case DDISP_DTYPE_BF16:
        *(uint16_t *)element = host_to_bf16(host_to_odd(value));
        break;
    case DDISP_DTYPE_F32:
        *(float *)element = (float)value;
        break;
    default:
        *(double *)element = value;
        break;
    }
}

/** Adds to an element that other threads may add to at the same time. */
static inline void host_add(ddisp_dtype dtype, void *element, double value)
{
    uint64_t old = 0, sum = 0;
    if (dtype == DDISP_DTYPE_F32) {
        uint32_t old32 = __atomic_load_n((uint32_t *)element, __ATOMIC_RELAXED), sum32;
        do {
            float next;
            memcpy(&next, &old32, sizeof next);
            next = (float)((double)next + value);
            memcpy(&sum32, &next, sizeof sum32);
        } while (!__atomic_compare_exchange_n((uint32_t *)element, &old32, sum32, true,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    } else if (dtype == DDISP_DTYPE_F64) {
        old = __atomic_load_n((uint64_t *)element, __ATOMIC_RELAXED);
        do {
            double next;
            memcpy(&next, &old, sizeof next);
            next += value;
            memcpy(&sum, &next, sizeof sum);
        } while (!__atomic_compare_exchange_n((uint64_t *)element, &old, sum, true,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    } else {
        bool half = dtype == DDISP_DTYPE_F16;
        uint16_t old16 = __atomic_load_n((uint16_t *)element, __ATOMIC_RELAXED), sum16;
        do {
            double next = (double)(half ? host_from_f16(old16) : host_from_bf16(old16)) + value;
            float odd = host_to_odd(next);
            sum16 = half ? host_to_f16(odd) : host_to_bf16(odd);
        } while (!__atomic_compare_exchange_n((uint16_t *)element, &old16, sum16, true,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

#endif
