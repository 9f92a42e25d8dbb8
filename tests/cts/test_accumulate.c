/*
 * test_accumulate.c - accumulate on tensors: every pair of dtypes, every layout, sums to any shape,
 * counts around the sizes that devices like. Values are small integers, whose sums are exact in any
 * order, or numbers by chance that are compared with sums in double within a stated bound. Also
 * cases 24 and 25.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>

static const ddisp_dtype floats[] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32,
                                     DDISP_DTYPE_F64};

#define NEEDS_ACCUMULATION(t)                                                                      \
    do {                                                                                           \
        if (!cts_accumulates(t))                                                                   \
            CTS_SKIP(t, "the device does not accumulate");                                         \
    } while (0)

/* Distance between 1 and the next number. */
static double epsilon(ddisp_dtype dtype)
{
    return dtype == DDISP_DTYPE_F16    ? 0x1p-10
           : dtype == DDISP_DTYPE_BF16 ? 0x1p-7
           : dtype == DDISP_DTYPE_F32  ? 0x1p-23
                                       : 0x1p-52;
}

/* ---- a case: two shapes that broadcast, and what is right */

#define MOST 140000

static double from_values[MOST], to_values[MOST], sums[MOST], weights[MOST], got[MOST];

typedef struct sum_case {
    ddisp_dtype to_type, from_type;
    uint32_t to_rank, from_rank;
    int64_t to_shape[8], from_shape[8];
    const int64_t *to_strides, *from_strides; /* NULL: dense */
    double alpha;
    uint64_t flags;
    bool exact; /* small integers; else numbers by chance in [-1, 1] */
} sum_case;

static int64_t count(uint32_t rank, const int64_t *shape)
{
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++)
        numel *= shape[i];
    return numel;
}

/* Element of a dense tensor that an index into the common shape stands for. */
static int64_t seen(uint32_t rank, const int64_t *shape, uint32_t common_rank, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < rank; i++)
        at = at * shape[i] + (shape[i] == 1 ? 0 : index[common_rank - rank + i]);
    return at;
}

/* Fills sums with old + alpha * what comes, and weights with the sum of the magnitudes; returns
 * the largest number of terms of an element. */
static int64_t right(const sum_case *c)
{
    uint32_t rank = c->to_rank > c->from_rank ? c->to_rank : c->from_rank;
    int64_t shape[8], index[8] = {0}, total = 1;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t a = i + c->to_rank < rank ? 1 : c->to_shape[i + c->to_rank - rank];
        int64_t b = i + c->from_rank < rank ? 1 : c->from_shape[i + c->from_rank - rank];
        shape[i] = a == 1 ? b : a;
        total *= shape[i];
    }
    int64_t cells = count(c->to_rank, c->to_shape);
    for (int64_t i = 0; i < cells; i++) {
        sums[i] = to_values[i];
        weights[i] = fabs(to_values[i]);
    }
    for (int64_t n = 0; n < total; n++) {
        int64_t cell = seen(c->to_rank, c->to_shape, rank, index);
        double value = c->alpha * from_values[seen(c->from_rank, c->from_shape, rank, index)];
        sums[cell] += value;
        weights[cell] += fabs(value);
        for (uint32_t i = rank; i-- > 0 && ++index[i] == shape[i];)
            index[i] = 0;
    }
    return cells ? total / cells + 1 : 0;
}

static void check_one(cts *t, uint64_t *state, const sum_case *c)
{
    int64_t cells = count(c->to_rank, c->to_shape), terms = count(c->from_rank, c->from_shape);
    assert_true(cells <= MOST && terms <= MOST);
    for (int64_t i = 0; i < (cells > terms ? cells : terms); i++) {
        double one = (double)cts_random(state, 2001) / 1000 - 1;
        double other = (double)cts_random(state, 2001) / 1000 - 1;
        if (i < cells)
            to_values[i] = c->exact ? floor(one * 3) : cts_rounded(c->to_type, one);
        if (i < terms)
            from_values[i] = c->exact ? floor(other * 3) : cts_rounded(c->from_type, other);
    }
    ddisp_tensor *to =
        cts_numbers(t, c->to_type, c->to_rank, c->to_shape, c->to_strides, to_values);
    ddisp_tensor *from =
        cts_numbers(t, c->from_type, c->from_rank, c->from_shape, c->from_strides, from_values);
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = c->flags;
    int64_t most_terms = right(c);
    CTS_OK(ddisp_tensor_accumulate(to, from, c->alpha, &options, NULL));
    cts_read(to, got, (size_t)cells);
    bool f64 = c->to_type == DDISP_DTYPE_F64 || c->from_type == DDISP_DTYPE_F64;
    /* A sum of n terms, in any order, is off by less than n epsilons of the sum of magnitudes;
     * two more for alpha and its product. Then one rounding to the destination's type. */
    double each = (double)(most_terms + 2) * epsilon(f64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32);
    for (int64_t i = 0; i < cells; i++) {
        double bound =
            c->exact ? 0 : each * weights[i] + epsilon(c->to_type) * (fabs(sums[i]) + each);
        CTS_CHECK(fabs(got[i] - sums[i]) <= bound,
                  "%s += %g %s, rank %u and %u: element %lld is %.17g, not %.17g within %g",
                  ddisp_dtype_name(c->to_type), c->alpha, ddisp_dtype_name(c->from_type),
                  c->to_rank, c->from_rank, (long long)i, got[i], sums[i], bound);
    }
}

/* Beside others, and alone. */
static void check(cts *t, uint64_t *state, const sum_case *c)
{
    sum_case alone = *c;
    alone.flags |= DDISP_ACCUMULATE_EXCLUSIVE;
    check_one(t, state, c);
    check_one(t, state, &alone);
}

/* ---- accumulate */

static void every_pair_of_dtypes_adds(cts *t)
{
    uint64_t state = 1;
    static const double alphas[] = {1, -2, 0.5};
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            for (int exact = 0; exact < 2; exact++) {
                sum_case c = {floats[i], floats[k], 1, 1, {1031}, {1031}, NULL, NULL, 0, 0, exact};
                c.alpha = exact ? alphas[(i + k) % 3] : 1.0 / 3;
                check(t, &state, &c);
            }
}

static void counts_around_powers_of_two(cts *t)
{
    static const int64_t counts[] = {1,   2,   3,   4,    5,    31,   32,   33,   63,   65,
                                     255, 256, 257, 1023, 1024, 1025, 2047, 4097, 65537};
    uint64_t state = 2;
    NEEDS_ACCUMULATION(t);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int k = 0; k < 4; k++) {
            ddisp_dtype type = floats[k];
            sum_case c = {type, type, 1, 1, {counts[i]}, {counts[i]}, NULL, NULL, 1, 0, true};
            check(t, &state, &c);
        }
}

static void no_elements_add_nothing(cts *t)
{
    NEEDS_ACCUMULATION(t);
    int64_t none[2] = {0, 3}, row[2] = {1, 3};
    ddisp_tensor *to = cts_tensor(t, DDISP_DTYPE_F32, 2, none, NULL, 0, NULL);
    ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_F32, 2, none, NULL, 0, NULL);
    ddisp_tensor *sum = cts_numbers(t, DDISP_DTYPE_F32, 2, row, NULL, (const double[]){1, 2, 3});
    CTS_OK(ddisp_tensor_accumulate(to, from, 1, NULL, NULL));
    CTS_OK(ddisp_tensor_accumulate(sum, from, 1, NULL, NULL)); /* a sum of no rows */
    CTS_VALUES(sum, 1, 2, 3);
    CTS_OK(ddisp_tensor_copy(to, from, NULL));
    CTS_OK(ddisp_tensor_fill(to, 1, NULL));
}

/* Both of any shape that broadcasts, both of any layout. */
static void any_shape_and_layout(cts *t)
{
    uint64_t state = 3;
    NEEDS_ACCUMULATION(t);
    for (int round = 0; round < 110; round++) {
        int64_t strides[2][8];
        sum_case c = {.alpha = round % 2 ? 1 : -3, .exact = true, .flags = round % 3 == 0};
        c.to_type = floats[cts_random(&state, 4)];
        c.from_type = floats[cts_random(&state, 4)];
        uint32_t rank = 1 + cts_random(&state, round % 9 ? 4 : 8);
        c.to_rank = c.from_rank = rank;
        int64_t summed = 1;
        for (uint32_t i = 0; i < rank; i++) {
            int64_t extent = 1 + cts_random(&state, rank > 4 ? 3 : 8);
            uint32_t kind = cts_random(&state, 4); /* summed, repeated, or both have it */
            c.to_shape[i] = kind == 0 ? 1 : extent;
            c.from_shape[i] = kind == 1 ? 1 : extent;
            summed *= kind == 0 ? extent : 1;
        }
        if (summed > 50 && c.to_type == DDISP_DTYPE_BF16)
            c.to_type = DDISP_DTYPE_F64; /* bf16 has no room for the exact sum */
        cts_random_strides(&state, rank, c.to_shape, strides[0]);
        cts_random_strides(&state, rank, c.from_shape, strides[1]);
        c.to_strides = strides[0];
        c.from_strides = strides[1];
        check(t, &state, &c);
    }
}

static void leading_axes_are_summed_and_repeated(cts *t)
{
    uint64_t state = 4;
    NEEDS_ACCUMULATION(t);
    sum_case sum = {DDISP_DTYPE_F32, DDISP_DTYPE_F32, 1, 3, {7}, {5, 6, 7}, 0, 0, 2, 0, true};
    check(t, &state, &sum);
    sum_case scalar = {DDISP_DTYPE_F64, DDISP_DTYPE_F32, 0, 3, {0}, {5, 6, 7}, 0, 0, 1, 0, true};
    check(t, &state, &scalar);
    sum_case repeat = {DDISP_DTYPE_F32, DDISP_DTYPE_F16, 3, 1, {5, 6, 7}, {7}, 0, 0, 1, 0, true};
    check(t, &state, &repeat);
    sum_case both = {DDISP_DTYPE_F32, DDISP_DTYPE_F32, 3, 2, {5, 1, 7}, {6, 1}, 0, 0, 1, 0, true};
    check(t, &state, &both);
}

/* Rows, columns, everything: few long sums and many short ones. */
static void long_sums_stay_within_their_bound(cts *t)
{
    static const int64_t shapes[][2] = {{1, 131072}, {131072, 1}, {3, 40001}, {40001, 3},
                                        {257, 400},  {400, 257},  {33, 4000}, {4000, 33}};
    uint64_t state = 5;
    NEEDS_ACCUMULATION(t);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int axes = 1; axes < 4; axes++) {
            sum_case c = {.to_rank = 2, .from_rank = 2, .alpha = 1, .flags = i % 2};
            c.to_type = axes == 3 ? floats[i % 4] : DDISP_DTYPE_F32;
            c.from_type = floats[(i + (size_t)axes) % 4];
            for (int k = 0; k < 2; k++) {
                c.from_shape[k] = shapes[i][k];
                c.to_shape[k] = axes >> k & 1 ? 1 : shapes[i][k];
            }
            check(t, &state, &c);
        }
}

/* Sums of half precision are taken wider: 2048 and 256 are where they would stop. */
static void case_24_sum_of_4096_ones(cts *t)
{
    static double ones[4096];
    int64_t n = 4096, one = 1;
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 4096; i++)
        ones[i] = 1;
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            ddisp_tensor *sum = cts_numbers(t, floats[i], 1, &one, NULL, (const double[]){0});
            ddisp_tensor *source = cts_numbers(t, floats[k], 1, &n, NULL, ones);
            CTS_OK(ddisp_tensor_accumulate(sum, source, 1, NULL, NULL));
            CTS_VALUES(sum, 4096);
        }
}

static void same_bits_every_time(cts *t)
{
    enum { N = 30011, RUNS = 25 };
    uint64_t state = 6, first = 0;
    int64_t shape[2] = {N, 3}, row[2] = {1, 3};
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 3 * N; i++)
        from_values[i] = (double)cts_random(&state, 1000001) / 1000000 - 0.5;
    ddisp_tensor *from = cts_numbers(t, DDISP_DTYPE_F32, 2, shape, NULL, from_values);
    ddisp_tensor *to = cts_numbers(t, DDISP_DTYPE_F32, 2, row, NULL, (const double[]){0, 0, 0});
    for (int run = 0; run < RUNS; run++) {
        float values[3];
        CTS_OK(ddisp_tensor_fill(to, 0, NULL));
        CTS_OK(ddisp_tensor_accumulate(to, from, 1, &options, NULL));
        CTS_OK(ddisp_tensor_read(to, values, sizeof values, NULL));
        uint64_t bits;
        memcpy(&bits, values + 1, sizeof bits); /* of two of them */
        first = run == 0 ? bits : first;
        CTS_CHECK(bits == first, "run %d gives %016llx instead of %016llx", run,
                  (unsigned long long)bits, (unsigned long long)first);
    }
}

/* Eight streams add to one tensor at the same time. */
static void case_25_streams_add_to_one_tensor(cts *t)
{
    enum { STREAMS = 8, ROUNDS = 25, N = 5000 };
    static double ones[N];
    int64_t n = N, one = 1;
    ddisp_stream *streams[STREAMS];
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int type = 2; type < 4; type++) {
        ddisp_tensor *source = cts_numbers(t, floats[type], 1, &n, NULL, ones);
        ddisp_tensor *cell = cts_numbers(t, floats[type], 1, &one, NULL, (const double[]){0});
        ddisp_tensor *line = cts_numbers(t, floats[type], 1, &n, NULL, ones);
        CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
        for (int i = 0; i < STREAMS; i++)
            streams[i] = type == 2 ? cts_stream(t) : streams[i];
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < STREAMS; i++) {
                CTS_OK(ddisp_tensor_accumulate(cell, source, 1, NULL, streams[i]));
                CTS_OK(ddisp_tensor_accumulate(line, source, 1, NULL, streams[i]));
            }
        for (int i = 0; i < STREAMS; i++)
            CTS_OK(ddisp_stream_synchronize(streams[i], DDISP_TIMEOUT_INFINITE));
        CTS_VALUES(cell, (double)STREAMS * ROUNDS * N); /* 10^6 */
        cts_read(line, got, N);
        for (int i = 0; i < N; i++)
            assert_true(got[i] == STREAMS * ROUNDS + 1);
    }
}

const cts_test cts_accumulate_tests[] = {
    CTS_TEST(every_pair_of_dtypes_adds),
    CTS_TEST(counts_around_powers_of_two),
    CTS_TEST(no_elements_add_nothing),
    CTS_TEST(any_shape_and_layout),
    CTS_TEST(leading_axes_are_summed_and_repeated),
    CTS_TEST(long_sums_stay_within_their_bound),
    CTS_TEST(case_24_sum_of_4096_ones),
    CTS_TEST(same_bits_every_time),
    CTS_TEST(case_25_streams_add_to_one_tensor),
    CTS_END,
};
