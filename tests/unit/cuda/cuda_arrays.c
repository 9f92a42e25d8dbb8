/*
 * cuda_arrays.c - see cuda_arrays.h.
 */
#include "cuda_arrays.h"

#include "emulate_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers */

const ddisp_dtype floats[4] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32, DDISP_DTYPE_F64};

int size_of(ddisp_dtype dtype)
{
    switch (dtype) {
    case DDISP_DTYPE_U8:
        return 1;
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        return 2;
    case DDISP_DTYPE_F32:
    case DDISP_DTYPE_I32:
        return 4;
    default:
        return 8;
    }
}

/* Nearest number with `bits` bits of significand, ties to even: half precision without its ends. */
static uint16_t to_half(double value, int bits, int exponent_bias)
{
    int exponent;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (value == 0) {
        return sign;
    }
    double fraction = frexp(fabs(value), &exponent); /* in [0.5, 1) */
    long significand = lrint(ldexp(fraction, bits));
    if (significand == 1l << bits) {
        significand /= 2;
        exponent++;
    }
    long biased = exponent - 1 + exponent_bias;
    return (uint16_t)(sign | ((biased << (bits - 1)) + (significand - (1l << (bits - 1)))));
}

static double from_half(uint16_t half, int bits, int exponent_bias)
{
    long biased = (half & 0x7FFF) >> (bits - 1), rest = half & ((1 << (bits - 1)) - 1);
    double value = biased == 0 ? ldexp((double)rest, 2 - exponent_bias - bits)
                               : ldexp((double)(rest + (1l << (bits - 1))),
                                       (int)biased - exponent_bias - (bits - 1));
    return half & 0x8000 ? -value : value;
}

void put(ddisp_dtype dtype, void *at, double value)
{
    uint16_t half = 0;
    float single = (float)value;
    switch (dtype) {
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        half = dtype == DDISP_DTYPE_F16 ? to_half(value, 11, 15) : to_half(value, 8, 127);
        memcpy(at, &half, 2);
        break;
    case DDISP_DTYPE_F32:
        memcpy(at, &single, 4);
        break;
    default:
        memcpy(at, &value, 8);
    }
}

double get(ddisp_dtype dtype, const void *at)
{
    uint16_t half;
    float single;
    double value;
    switch (dtype) {
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        memcpy(&half, at, 2);
        return dtype == DDISP_DTYPE_F16 ? from_half(half, 11, 15) : from_half(half, 8, 127);
    case DDISP_DTYPE_F32:
        memcpy(&single, at, 4);
        return single;
    default:
        memcpy(&value, at, 8);
        return value;
    }
}

static uint64_t seed = 1;

uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % limit);
}

/* ---- tensors in the stand-in driver's memory, which is the host's */

#define GUARD 64

int64_t numel(const ddisp_backend_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

/* Byte at which element n (row by row) lies. */
unsigned char *element(const ddisp_backend_tensor *tensor, int64_t n)
{
    int64_t at = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        at += n % tensor->shape[i] * tensor->strides[i];
        n /= tensor->shape[i];
    }
    return (unsigned char *)(uintptr_t)tensor->address + at * size_of(tensor->dtype);
}

/* With strides given, in memory of its own between guards. */
array make(ddisp_dtype dtype, uint32_t rank, const int64_t *shape, const int64_t *strides)
{
    array made = {.tensor = {.dtype = dtype, .rank = rank}};
    int64_t low = 0, high = 0, size = size_of(dtype);
    for (uint32_t i = 0; i < 8; i++) {
        made.tensor.shape[i] = i < rank ? shape[i] : 1;
        made.tensor.strides[i] = i < rank && shape[i] > 1 ? strides[i] : 0;
        int64_t reach = (made.tensor.shape[i] - 1) * made.tensor.strides[i];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t shift = size < 8 ? size * below(4) : 0; /* not aligned to more than the element */
    made.size_bytes = (uint64_t)((high - low + 1) * size + 2 * GUARD + shift);
    made.memory = fixture_allocate(made.size_bytes);
    memset((void *)(uintptr_t)made.memory.address, 0xAA, made.size_bytes);
    made.tensor.address = made.memory.address + GUARD + (uint64_t)shift - (uint64_t)(low * size);
    made.tensor.range.address = made.tensor.address + (uint64_t)(low * size);
    made.tensor.range.size_bytes = (uint64_t)((high - low + 1) * size);
    return made;
}

void drop(array *it)
{
    fixture_free(&it->memory);
}

void fill_small(array *it, int most)
{
    for (int64_t n = numel(&it->tensor); n-- > 0;) {
        put(it->tensor.dtype, element(&it->tensor, n),
            (double)below(2 * (uint32_t)most + 1) - most);
    }
}

/* Strides without overlap, in any order and direction, with gaps; axes of `zero` repeat. */
void any_strides(uint32_t rank, const int64_t *shape, uint32_t zero, int64_t *strides)
{
    uint32_t order[8] = {0};
    int64_t step = 1 + (int64_t)below(2) * below(3);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = below(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis = order[i];
        if (zero >> axis & 1) {
            strides[axis] = 0;
            continue;
        }
        strides[axis] = below(3) ? step : -step;
        step = step * shape[axis] + (int64_t)below(2) * below(3);
    }
}

void dense(uint32_t rank, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        strides[i] = step;
        step *= shape[i];
    }
}

void any_shape(uint32_t rank, int64_t most, int64_t *shape)
{
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = 1 + below((uint32_t)most);
    }
}

/* The whole buffer is as expected. */
void same(const array *got, const unsigned char *expected, const char *what)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)got->memory.address;
    for (uint64_t i = 0; i < got->size_bytes; i++) {
        if (bytes[i] != expected[i]) {
            fail_msg("%s: byte %llu of %llu (first element at %llu) is %02x, not %02x", what,
                     (unsigned long long)i, (unsigned long long)got->size_bytes,
                     (unsigned long long)(got->tensor.address - got->memory.address), bytes[i],
                     expected[i]);
        }
    }
}

unsigned char *image(const array *it)
{
    unsigned char *copy = malloc(it->size_bytes);
    assert_non_null(copy);
    memcpy(copy, (const void *)(uintptr_t)it->memory.address, it->size_bytes);
    return copy;
}

unsigned char *in_image(const array *it, unsigned char *copy, int64_t n)
{
    return copy + (element(&it->tensor, n) - (const unsigned char *)(uintptr_t)it->memory.address);
}

int arrays_open(void **state)
{
    int result = fixture_open(state);
    fake_cuda_set_launcher(emulate_launch);
    fake_cuda_set_memory(UINT64_C(1) << 30);
    table->stream_destroy(device, stream);
    table->device_close(device);
    return result || table->device_open(instance, 0, &device) != DDISP_STATUS_OK ||
           table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &stream) != DDISP_STATUS_OK;
}
