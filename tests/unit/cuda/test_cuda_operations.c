/*
 * test_cuda_operations.c - fill, accumulate and scatter-add of the CUDA backend, with its own
 * kernels run by the processor (tests/fakes/cuda/emulate): against sums taken here, one element
 * after the other, in double. Values are small integers, so that every sum is exact whatever its
 * order, and whole buffers are compared, so that what lies between and beside elements is too.
 */
#include "cuda_fixture.h"
#include "emulate_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers */

static const ddisp_dtype floats[] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32,
                                     DDISP_DTYPE_F64};

static int size_of(ddisp_dtype dtype)
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

static void put(ddisp_dtype dtype, void *at, double value)
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

static double get(ddisp_dtype dtype, const void *at)
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

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % limit);
}

/* ---- tensors in the stand-in driver's memory, which is the host's */

#define GUARD 64

typedef struct array {
    ddisp_backend_memory memory;
    ddisp_backend_tensor tensor;
    uint64_t size_bytes;
} array;

static int64_t numel(const ddisp_backend_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

/* Byte at which element n (row by row) lies. */
static unsigned char *element(const ddisp_backend_tensor *tensor, int64_t n)
{
    int64_t at = 0;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        at += n % tensor->shape[i] * tensor->strides[i];
        n /= tensor->shape[i];
    }
    return (unsigned char *)(uintptr_t)tensor->address + at * size_of(tensor->dtype);
}

/* With strides given, in memory of its own between guards. */
static array make(ddisp_dtype dtype, uint32_t rank, const int64_t *shape, const int64_t *strides)
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

static void drop(array *it)
{
    fixture_free(&it->memory);
}

static void fill_small(array *it, int most)
{
    for (int64_t n = numel(&it->tensor); n-- > 0;) {
        put(it->tensor.dtype, element(&it->tensor, n),
            (double)below(2 * (uint32_t)most + 1) - most);
    }
}

/* Strides without overlap, in any order and direction, with gaps; axes of `zero` repeat. */
static void any_strides(uint32_t rank, const int64_t *shape, uint32_t zero, int64_t *strides)
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

static void dense(uint32_t rank, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        strides[i] = step;
        step *= shape[i];
    }
}

static void any_shape(uint32_t rank, int64_t most, int64_t *shape)
{
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = 1 + below((uint32_t)most);
    }
}

/* The whole buffer is as expected. */
static void same(const array *got, const unsigned char *expected, const char *what)
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

static unsigned char *image(const array *it)
{
    unsigned char *copy = malloc(it->size_bytes);
    assert_non_null(copy);
    memcpy(copy, (const void *)(uintptr_t)it->memory.address, it->size_bytes);
    return copy;
}

static unsigned char *in_image(const array *it, unsigned char *copy, int64_t n)
{
    return copy + (element(&it->tensor, n) - (const unsigned char *)(uintptr_t)it->memory.address);
}

/* ---- what is right */

static void check_accumulate(array *to, const array *from, double alpha, uint32_t operation,
                             const char *what)
{
    unsigned char *expected = image(to);
    for (int64_t n = 0; n < numel(&to->tensor); n++) {
        double value = alpha * get(from->tensor.dtype, element(&from->tensor, n));
        unsigned char *at = in_image(to, expected, n);
        if (operation == DDISP_BACKEND_ACCUMULATE_ADD) {
            value += get(to->tensor.dtype, at);
        }
        put(to->tensor.dtype, at, value);
    }
    ddisp_status status =
        table->accumulate(device, stream, &to->tensor, &from->tensor, alpha, operation, below(4));
    if (status != DDISP_STATUS_OK) {
        fail_msg("%s: %s", what, sample_message);
    }
    same(to, expected, what);
    free(expected);
}

static void accumulate_case(ddisp_dtype to_type, ddisp_dtype from_type, uint32_t rank,
                            const int64_t *shape, const int64_t *to_strides,
                            const int64_t *from_strides, double alpha, uint32_t operation, int most)
{
    char what[300];
    array to = make(to_type, rank, shape, to_strides);
    array from = make(from_type, rank, shape, from_strides);
    fill_small(&to, most);
    fill_small(&from, most);
    int length = snprintf(what, sizeof what, "%s, dtypes %u and %u, alpha %g",
                          operation == DDISP_BACKEND_ACCUMULATE_ADD ? "add" : "store", to_type,
                          from_type, alpha);
    for (uint32_t i = 0; i < rank; i++) {
        length +=
            snprintf(what + length, sizeof what - (size_t)length, "; %lld: %lld %lld",
                     (long long)shape[i], (long long)to_strides[i], (long long)from_strides[i]);
    }
    check_accumulate(&to, &from, alpha, operation, what);
    drop(&to);
    drop(&from);
}

static const double alphas[] = {1, -2, 0.5};

static void every_pair_of_dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            for (int64_t n = 1; n < 3000; n = n * 7 + 1) {
                for (int a = 0; a < 3; a++) {
                    int64_t one = 1;
                    accumulate_case(floats[i], floats[k], 1, &n, &one, &one, alphas[a], 0, 8);
                    accumulate_case(floats[i], floats[k], 1, &n, &one, &one, alphas[a], 1, 8);
                }
            }
        }
    }
}

static void any_layout(void **state)
{
    (void)state;
    for (int round = 0; round < 250; round++) {
        int64_t shape[8], to[8], from[8];
        uint32_t rank = 1 + below(round % 10 ? 4 : 8);
        any_shape(rank, rank > 4 ? 3 : 9, shape);
        if (below(4) == 0) {
            shape[below(rank)] = 128 + below(300); /* a long line */
        }
        any_strides(rank, shape, 0, to);
        any_strides(rank, shape, below(3) ? 0 : below(256), from);
        accumulate_case(floats[below(4)], floats[below(4)], rank, shape, to, from, alphas[below(3)],
                        below(2), 8);
    }
}

static void sums_over_any_axes(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t shape[8], to[8], from[8];
        uint32_t rank = 1 + below(round % 10 ? 4 : 8);
        any_shape(rank, rank > 4 ? 3 : 9, shape);
        if (below(3) == 0) {
            shape[below(rank)] = 128 + below(2000);
        }
        any_strides(rank, shape, below(256) | 1u << below(rank), to);
        any_strides(rank, shape, below(3) ? 0 : below(256), from);
        /* half-precision cells cannot hold long sums exactly */
        ddisp_dtype type =
            floats[numel(&(ddisp_backend_tensor){
                       .rank = rank, .shape = {shape[0], shape[1], shape[2], shape[3]}}) < 60
                       ? below(4)
                       : 2 + below(2)];
        accumulate_case(type, floats[below(4)], rank, shape, to, from, alphas[below(3)], 0, 2);
    }
}

static void long_sums_are_cut_into_chunks(void **state)
{
    static const int64_t shapes[][2] = {{1, 70001}, {3, 40000}, {70001, 1}, {30000, 3},
                                        {9000, 33}, {2, 16385}, {300, 257}, {257, 300}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int axis = 0; axis < 3; axis++) {
            int64_t to[2], from[2];
            dense(2, shapes[i], from);
            to[0] = axis == 0 ? 0 : 1;
            to[1] = axis == 1 ? 0 : axis == 0 ? 1 : 0;
            to[0] = axis == 2 ? 0 : to[0];
            accumulate_case(DDISP_DTYPE_F32, DDISP_DTYPE_F32, 2, shapes[i], to, from, 1, 0, 8);
            accumulate_case(DDISP_DTYPE_F64, DDISP_DTYPE_F16, 2, shapes[i], to, from, -2, 0, 8);
        }
    }
}

static void bits_are_copied_for_every_size(void **state)
{
    static const ddisp_dtype types[] = {DDISP_DTYPE_U8, DDISP_DTYPE_F16, DDISP_DTYPE_I32,
                                        DDISP_DTYPE_I64, DDISP_DTYPE_BF16};
    (void)state;
    for (int round = 0; round < 120; round++) {
        int64_t shape[8], strides[2][8];
        uint32_t rank = 1 + below(4);
        ddisp_dtype type = types[below(5)];
        any_shape(rank, 9, shape);
        shape[rank - 1] = below(4) ? shape[rank - 1] : 128 + below(500);
        for (int k = 0; k < 2; k++) {
            if (below(3)) {
                any_strides(rank, shape, 0, strides[k]);
            } else {
                dense(rank, shape, strides[k]);
            }
        }
        array to = make(type, rank, shape, strides[0]), from = make(type, rank, shape, strides[1]);
        for (int64_t n = 0; n < numel(&from.tensor); n++) { /* any bits, NaNs among them */
            uint64_t bits = (uint64_t)below(1u << 31) << 33 ^ below(1u << 31);
            memcpy(element(&from.tensor, n), &bits, (size_t)size_of(type));
        }
        unsigned char *expected = image(&to);
        for (int64_t n = 0; n < numel(&from.tensor); n++) {
            memcpy(in_image(&to, expected, n), element(&from.tensor, n), (size_t)size_of(type));
        }
        assert_int_equal(table->accumulate(device, stream, &to.tensor, &from.tensor, 1,
                                           DDISP_BACKEND_ACCUMULATE_STORE, 0),
                         DDISP_STATUS_OK);
        same(&to, expected, "copy");
        free(expected);

        uint64_t bits = UINT64_C(0x0123456789ABCDEF) * (below(1000) + 1);
        expected = image(&to);
        for (int64_t n = 0; n < numel(&to.tensor); n++) {
            memcpy(in_image(&to, expected, n), &bits, (size_t)size_of(type));
        }
        assert_int_equal(table->fill_elements(device, stream, &to.tensor, bits), DDISP_STATUS_OK);
        same(&to, expected, "fill");
        free(expected);
        drop(&to);
        drop(&from);
    }
}

static void half_precision_is_rounded_once(void **state)
{
    int64_t n = 4, one = 1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        /* 1 + 1.5 ulp and 1 + 0.75 ulp; rounding the addend first would give another result */
        double ulp = ldexp(1, floats[i] == DDISP_DTYPE_F16 ? -10 : -7);
        array to = make(floats[i], 1, &n, &one), from = make(DDISP_DTYPE_F64, 1, &n, &one);
        for (int64_t k = 0; k < n; k++) {
            put(floats[i], element(&to.tensor, k), 1);
            put(DDISP_DTYPE_F64, element(&from.tensor, k), k % 2 ? 1.4999 * ulp : 0.5001 * ulp);
        }
        check_accumulate(&to, &from, 1, DDISP_BACKEND_ACCUMULATE_ADD, "rounding");
        drop(&to);
        drop(&from);
    }
}

/* ---- scatter-add */

typedef struct scatter_case {
    ddisp_dtype to_type, from_type, index_type;
    uint32_t rank, axis;
    int64_t shape[8], extent; /* of the source; of the destination along the axis */
    int run;                  /* equal indices in a row */
    int outside;              /* one index in so many is out of range; 0: none */
    int line_index;           /* one index for all lines */
    int dense;
    uint64_t flags;
} scatter_case;

static void check_scatter(const scatter_case *it)
{
    int64_t to_shape[8], to_strides[8], from_strides[8], index_strides[8];
    uint64_t counted = 0, expected_count = 0;
    memcpy(to_shape, it->shape, sizeof to_shape);
    to_shape[it->axis] = it->extent;
    if (it->dense) {
        dense(it->rank, to_shape, to_strides);
        dense(it->rank, it->shape, from_strides);
        dense(it->rank, it->shape, index_strides);
    } else {
        any_strides(it->rank, to_shape, 0, to_strides);
        any_strides(it->rank, it->shape, below(4) ? 0 : below(256), from_strides);
        any_strides(it->rank, it->shape, 0, index_strides);
    }
    for (uint32_t i = 0; it->line_index && i < it->rank; i++) {
        index_strides[i] = i == it->axis ? 1 : 0;
    }
    array to = make(it->to_type, it->rank, to_shape, to_strides);
    array from = make(it->from_type, it->rank, it->shape, from_strides);
    array index = make(it->index_type, it->rank, it->shape, index_strides);
    fill_small(&to, 4);
    fill_small(&from, 3);
    int64_t value = 0;
    for (int64_t n = 0; n < numel(&index.tensor); n++) {
        if (n % it->run == 0) {
            value = (int64_t)below((uint32_t)it->extent);
        }
        int64_t stored = value;
        if (it->outside && below((uint32_t)it->outside) == 0) {
            stored = below(2) ? it->extent + below(3) : -1 - (int64_t)below(1000);
        }
        memcpy(element(&index.tensor, n), &stored, (size_t)size_of(it->index_type));
    }
    unsigned char *expected = image(&to);
    ddisp_backend_tensor place = to.tensor;
    for (int64_t n = 0; n < numel(&from.tensor); n++) {
        int64_t at = 0, rest = n;
        int32_t narrow;
        memcpy(&narrow, element(&index.tensor, n), 4);
        memcpy(&at, element(&index.tensor, n), (size_t)size_of(it->index_type));
        at = it->index_type == DDISP_DTYPE_I32 ? narrow : at;
        if (at < 0 || at >= it->extent) {
            expected_count++;
            continue;
        }
        int64_t offset = at * place.strides[it->axis];
        for (uint32_t i = it->rank; i-- > 0;) {
            offset += i == it->axis ? 0 : rest % it->shape[i] * place.strides[i];
            rest /= it->shape[i];
        }
        unsigned char *cell =
            expected + (place.address - to.memory.address) + offset * size_of(it->to_type);
        put(it->to_type, cell,
            get(it->to_type, cell) + get(it->from_type, element(&from.tensor, n)));
    }
    ddisp_backend_memory counter = fixture_allocate(8);
    memset((void *)(uintptr_t)counter.address, 0, 8);
    ddisp_backend_range range = fixture_range(&counter, 0, 8);
    ddisp_backend_tensor described = to.tensor;
    described.shape[it->axis] = it->shape[it->axis]; /* as the core hands it over */
    described.strides[it->axis] = to_strides[it->axis];
    ddisp_status status = table->scatter_add(device, stream, &described, it->axis, it->extent,
                                             &index.tensor, &from.tensor, &range, it->flags);
    if (status != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    memcpy(&counted, (const void *)(uintptr_t)counter.address, 8);
    assert_int_equal(counted, expected_count);
    char what[200];
    (void)snprintf(
        what, sizeof what,
        "scatter, dtypes %u, %u, %u, rank %u, axis %u of %lld to %lld, run %d, flags %llu",
        it->to_type, it->from_type, it->index_type, it->rank, it->axis,
        (long long)it->shape[it->axis], (long long)it->extent, it->run,
        (unsigned long long)it->flags);
    same(&to, expected, what);
    free(expected);
    fixture_free(&counter);
    drop(&to);
    drop(&from);
    drop(&index);
}

static void scatter_in_any_layout(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        scatter_case it = {.to_type = floats[2 + below(2)],
                           .from_type = floats[below(4)],
                           .index_type = below(2) ? DDISP_DTYPE_I32 : DDISP_DTYPE_I64,
                           .rank = 1 + below(4),
                           .extent = 1 + below(20),
                           .run = 1 + (int)below(40),
                           .outside = below(2) ? 5 : 0,
                           .line_index = (int)below(2),
                           .dense = (int)below(2),
                           .flags = below(2)};
        any_shape(it.rank, it.rank == 1 ? 900 : 9, it.shape);
        it.axis = below(it.rank);
        check_scatter(&it);
    }
}

static void scatter_into_half_precision(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        scatter_case it = {.to_type = floats[below(2)],
                           .from_type = floats[below(4)],
                           .index_type = DDISP_DTYPE_I64,
                           .rank = 1,
                           .shape = {1 + below(300)},
                           .extent = 10 + below(20),
                           .run = 1 + (int)below(3),
                           .flags = below(2)};
        check_scatter(&it);
    }
}

/* Many elements for few cells: sums in shared memory; runs; both modes; both numbers. */
static void scatter_under_contention(void **state)
{
    static const int64_t extents[] = {1, 32, 1024, 2000, 5000};
    static const int runs[] = {1, 64, 100000};
    (void)state;
    for (size_t e = 0; e < sizeof extents / sizeof extents[0]; e++) {
        for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
            for (uint64_t flags = 0; flags < 2; flags++) {
                scatter_case it = {.to_type = floats[2 + (e + r) % 2],
                                   .from_type = floats[(e + r) % 4],
                                   .index_type = DDISP_DTYPE_I32,
                                   .rank = 1,
                                   .shape = {17000},
                                   .extent = extents[e],
                                   .run = runs[r],
                                   .outside = 50,
                                   .dense = 1,
                                   .flags = flags};
                check_scatter(&it);
            }
        }
    }
}

/* Rows of features: the axis is not the innermost. */
static void scatter_of_rows(void **state)
{
    (void)state;
    for (uint64_t flags = 0; flags < 2; flags++) {
        scatter_case it = {.to_type = DDISP_DTYPE_F32,
                           .from_type = DDISP_DTYPE_F32,
                           .index_type = DDISP_DTYPE_I64,
                           .rank = 2,
                           .shape = {700, 33},
                           .extent = 11,
                           .run = 1,
                           .outside = 20,
                           .line_index = 1,
                           .dense = 1,
                           .flags = flags};
        check_scatter(&it);
    }
}

/* ---- deterministic sums */

/* Adds n elements of f32 or f64 to `cells` cells; index k goes to cell k % cells after a shuffle
 * with the seed given. */
static void add_shuffled(ddisp_dtype dtype, int64_t n, int64_t cells, const double *values,
                         uint32_t shuffle, array *to)
{
    int64_t one = 1;
    array from = make(dtype, 1, &n, &one), index = make(DDISP_DTYPE_I32, 1, &n, &one);
    int64_t step = 1 + 2 * (int64_t)shuffle; /* odd, and n is a power of 2: every k comes once */
    for (int64_t k = 0; k < n; k++) {
        int64_t which = k * step % n;
        int32_t cell = (int32_t)(which % cells);
        put(dtype, element(&from.tensor, k), values[which]);
        memcpy(element(&index.tensor, k), &cell, 4);
    }
    *to = make(dtype, 1, &cells, &one);
    for (int64_t k = 0; k < cells; k++) {
        put(dtype, element(&to->tensor, k), 0);
    }
    ddisp_backend_tensor described = to->tensor;
    described.shape[0] = n;
    described.strides[0] = 1;
    ddisp_backend_range none = {0};
    assert_int_equal(table->scatter_add(device, stream, &described, 0, cells, &index.tensor,
                                        &from.tensor, &none,
                                        DDISP_BACKEND_ACCUMULATE_DETERMINISTIC),
                     DDISP_STATUS_OK);
    drop(&from);
    drop(&index);
}

static void order_does_not_change_a_bit(void **state)
{
    enum { N = 32768 };
    static double values[N];
    (void)state;
    for (int type = 2; type < 4; type++) {
        for (int64_t cells = 1; cells <= 9000; cells = cells * 90) {
            array first = {0}, other = {0};
            for (int k = 0; k < N; k++) { /* magnitudes from 2^-30 to 2^30, both signs */
                values[k] = ldexp((double)below(1u << 30) - (1 << 29), (int)below(60) - 59);
            }
            add_shuffled(floats[type], N, cells, values, 0, &first);
            for (uint32_t shuffle = 1; shuffle < 4; shuffle++) {
                add_shuffled(floats[type], N, cells, values, shuffle * 1000, &other);
                assert_memory_equal((const void *)(uintptr_t)first.tensor.address,
                                    (const void *)(uintptr_t)other.tensor.address,
                                    (size_t)(cells * size_of(floats[type])));
                drop(&other);
            }
            for (int64_t cell = 0; cell < cells; cell++) { /* and it is the sum */
                long double sum = 0;
                for (int64_t k = cell; k < N; k += cells) {
                    sum += type == 2 ? (long double)(float)values[k] : values[k];
                }
                double got = get(floats[type], element(&first.tensor, cell));
                double step = ldexp(1, type == 2 ? 30 - 47 : 30 - 94); /* of the integers */
                double bound = (double)(N / cells + 1) * step / 2 +
                               fabs((double)sum) * ldexp(1, type == 2 ? -23 : -52);
                if (!(fabsl(got - sum) <= bound)) {
                    fail_msg("type %u, cell %lld of %lld: %.17g is not %.17Lg within %g",
                             floats[type], (long long)cell, (long long)cells, got, sum, bound);
                }
            }
            drop(&first);
        }
    }
}

static double sum_with(ddisp_dtype dtype, double special, double other)
{
    enum { N = 64 };
    double values[N];
    array to = {0};
    for (int k = 0; k < N; k++) {
        values[k] = k == 5 ? special : k == 9 ? other : 1;
    }
    add_shuffled(dtype, N, 1, values, 3, &to);
    double sum = get(dtype, element(&to.tensor, 0));
    drop(&to);
    return sum;
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    for (int type = 2; type < 4; type++) {
        double huge = type == 2 ? 0x1p127 : 0x1p1023, tiny = type == 2 ? 0x1p-149 : 0x1p-1074;
        assert_true(sum_with(floats[type], INFINITY, 1) == INFINITY);
        assert_true(sum_with(floats[type], 1, -INFINITY) == -INFINITY);
        assert_true(isnan(sum_with(floats[type], INFINITY, -INFINITY)));
        assert_true(isnan(sum_with(floats[type], NAN, 1)));
        assert_true(sum_with(floats[type], huge, huge) == INFINITY); /* as a sum of numbers is */
        assert_true(sum_with(floats[type], huge, -huge) == 0);       /* the ones are below a step */
        assert_true(sum_with(floats[type], tiny, tiny) == 62);
        assert_true(sum_with(floats[type], 0, 0) == 62);
    }
}

/* Beyond 4 Mi elements the bound is sampled; what lies beyond it must come out right all the same.
 */
static void elements_beyond_the_sampled_bound(void **state)
{
    const int64_t n = (INT64_C(4) << 20) + 64, one = 1, zero = 0;
    (void)state;
    for (int few = 0; few < 2; few++) { /* cells: sums in shared memory, or not */
        int64_t extent = few ? 1 : 100000;
        array from = make(DDISP_DTYPE_F32, 1, &n, few ? &one : &zero);
        array index = make(DDISP_DTYPE_I32, 1, &n, &zero);
        array to = make(DDISP_DTYPE_F32, 1, &extent, &one);
        ddisp_backend_tensor described = to.tensor;
        ddisp_backend_range none = {0};
        described.shape[0] = n;
        described.strides[0] = 1;
        memset(element(&index.tensor, 0), 0, 4);
        for (int64_t k = 0; k < (few ? n : 1); k++) { /* ones, but for one that the sample misses */
            put(DDISP_DTYPE_F32, element(&from.tensor, k), k == 40 ? 0x1p20 : 1);
        }
        put(DDISP_DTYPE_F32, element(&to.tensor, 0), 0);
        uint64_t launches = fake_cuda_call_count("cuLaunchKernel");
        assert_int_equal(table->scatter_add(device, stream, &described, 0, extent, &index.tensor,
                                            &from.tensor, &none,
                                            DDISP_BACKEND_ACCUMULATE_DETERMINISTIC),
                         DDISP_STATUS_OK);
        assert_int_equal(fake_cuda_call_count("cuLaunchKernel") - launches, 5);
        double sum = (double)n + (few ? 0x1p20 - 1 : 0);
        assert_true(get(DDISP_DTYPE_F32, element(&to.tensor, 0)) == sum);
        drop(&from);
        drop(&index);
        drop(&to);
    }
}

/* ---- recorded */

/* Work that is recorded once and run three times; what it computes in is the graph's. */
static void recorded_work_runs_again(void **state)
{
    const int64_t shape[2] = {200, 300}, dense_strides[2] = {300, 1}, none[2] = {0, 0};
    const int64_t n = 60000, one = 1, extent = 5;
    void *graph = NULL, *recording = NULL;
    (void)state;
    array ones = make(DDISP_DTYPE_F32, 2, shape, dense_strides);
    array sum = make(DDISP_DTYPE_F32, 2, shape, none), line = make(DDISP_DTYPE_F32, 1, &n, &one);
    array index = make(DDISP_DTYPE_I32, 1, &n, &one), to = make(DDISP_DTYPE_F64, 1, &extent, &one);
    for (int64_t k = 0; k < n; k++) {
        int32_t place = (int32_t)(k % extent);
        put(DDISP_DTYPE_F32, element(&ones.tensor, k), 1);
        put(DDISP_DTYPE_F32, element(&line.tensor, k), 2);
        memcpy(element(&index.tensor, k), &place, 4);
    }
    put(DDISP_DTYPE_F32, element(&sum.tensor, 0), 0);
    for (int64_t k = 0; k < extent; k++) {
        put(DDISP_DTYPE_F64, element(&to.tensor, k), 0);
    }
    uint64_t live = fake_cuda_live_allocations();
    ddisp_backend_tensor described = to.tensor;
    ddisp_backend_range nothing = {0};
    described.shape[0] = n;
    described.strides[0] = 1;
    assert_int_equal(table->stream_create(device, 0, &recording), DDISP_STATUS_OK);
    assert_int_equal(table->capture_begin(device, recording), DDISP_STATUS_OK);
    assert_int_equal(table->accumulate(device, recording, &sum.tensor, &ones.tensor, 1,
                                       DDISP_BACKEND_ACCUMULATE_ADD, 0),
                     DDISP_STATUS_OK);
    for (uint64_t flags = 0; flags < 2; flags++) {
        assert_int_equal(table->scatter_add(device, recording, &described, 0, extent, &index.tensor,
                                            &line.tensor, &nothing, flags),
                         DDISP_STATUS_OK);
    }
    assert_int_equal(table->capture_end(device, recording, &graph), DDISP_STATUS_OK);
    assert_true(get(DDISP_DTYPE_F32, element(&sum.tensor, 0)) == 0); /* nothing has run */
    assert_true(fake_cuda_live_allocations() > live);
    for (int run = 1; run <= 3; run++) {
        assert_int_equal(table->graph_launch(device, recording, graph), DDISP_STATUS_OK);
        assert_true(get(DDISP_DTYPE_F32, element(&sum.tensor, 0)) == (double)(run * n));
        for (int64_t k = 0; k < extent; k++) {
            assert_true(get(DDISP_DTYPE_F64, element(&to.tensor, k)) ==
                        (double)(run * 4 * n / extent));
        }
    }
    table->graph_release(device, graph);
    assert_int_equal(fake_cuda_live_allocations(), live);
    table->stream_destroy(device, recording);
    drop(&ones);
    drop(&sum);
    drop(&line);
    drop(&index);
    drop(&to);
}

static int set_up(void **state)
{
    int result = fixture_open(state);
    fake_cuda_set_launcher(emulate_launch);
    fake_cuda_set_memory(UINT64_C(1) << 30);
    table->stream_destroy(device, stream);
    table->device_close(device);
    return result || table->device_open(instance, 0, &device) != DDISP_STATUS_OK ||
           table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &stream) != DDISP_STATUS_OK;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_pair_of_dtypes),
        CASE(any_layout),
        CASE(sums_over_any_axes),
        CASE(long_sums_are_cut_into_chunks),
        CASE(bits_are_copied_for_every_size),
        CASE(half_precision_is_rounded_once),
        CASE(scatter_in_any_layout),
        CASE(scatter_into_half_precision),
        CASE(scatter_under_contention),
        CASE(scatter_of_rows),
        CASE(order_does_not_change_a_bit),
        CASE(what_is_not_finite_stays_so),
        CASE(elements_beyond_the_sampled_bound),
        CASE(recorded_work_runs_again),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
