/*
 * test_scatter.c - scatter-add on tensors: every dtype, i32 and i64 indices, along any axis of any
 * layout, under contention; indices out of range are counted, refused on request, and never written
 * anywhere; deterministic sums. Also cases 24 and 25.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>

static const ddisp_dtype floats[] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32,
                                     DDISP_DTYPE_F64};

static ddisp_accumulate_options options_of(uint64_t flags, uint64_t *out_skipped)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    options.out_skipped = out_skipped;
    return options;
}

/* 2 when the device also has a deterministic scatter-add, else 1: flags are below that. */
static uint64_t modes(cts *t)
{
    return cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC) ? 2 : 1;
}

#define NEEDS_SCATTER(t)                                                                           \
    do {                                                                                           \
        if (!cts_scatters(t, 0))                                                                   \
            CTS_SKIP(t, "the device has no scatter-add");                                          \
    } while (0)

/* ---- a case, and what is right */

#define MOST 120000

static double from_values[MOST], sums[MOST], weights[MOST], got[MOST], index_values[MOST];

typedef struct scatter_case {
    ddisp_dtype to_type, from_type, index_type;
    uint32_t rank, axis;
    int64_t shape[8], extent; /* of source; of destination along the axis */
    int64_t run;              /* equal indices in a row */
    uint32_t outside;         /* one in so many is out of range; 0: none */
    bool whole_index;         /* of source's shape, else of rank 1 */
    bool any_layout;
    bool exact;
    uint64_t flags;
} scatter_case;

static int64_t count(uint32_t rank, const int64_t *shape)
{
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++)
        numel *= shape[i];
    return numel;
}

static void choose_indices(const scatter_case *c, uint64_t *state, int64_t n)
{
    double value = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % c->run == 0)
            value = cts_random(state, (uint32_t)c->extent);
        index_values[i] = value;
        if (c->outside && cts_random(state, c->outside) == 0) {
            uint32_t kind = cts_random(state, 4);
            index_values[i] = kind == 0   ? -1
                              : kind == 1 ? (double)c->extent
                              : kind == 2 ? -2147483648.0
                                          : 2147483647.0;
            if (c->index_type == DDISP_DTYPE_I64 && kind > 1)
                index_values[i] *= 4294967296.0; /* low halves are in range */
        }
    }
}

/* Sums, and how many were skipped. */
static uint64_t right(const scatter_case *c)
{
    uint64_t skipped = 0;
    int64_t n = count(c->rank, c->shape), inner = 1;
    for (uint32_t i = c->axis + 1; i < c->rank; i++)
        inner *= c->shape[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t outer = i / inner / c->shape[c->axis], along = i / inner % c->shape[c->axis];
        double where = index_values[c->whole_index ? i : along];
        if (where < 0 || where >= (double)c->extent) {
            skipped++;
            continue;
        }
        int64_t cell = (outer * c->extent + (int64_t)where) * inner + i % inner;
        sums[cell] += from_values[i];
        weights[cell] += fabs(from_values[i]);
    }
    return skipped;
}

static void check(cts *t, uint64_t *state, const scatter_case *c)
{
    int64_t to_shape[8], strides[3][8], n = count(c->rank, c->shape), length = c->shape[c->axis];
    memcpy(to_shape, c->shape, sizeof to_shape);
    to_shape[c->axis] = c->extent;
    int64_t cells = count(c->rank, to_shape);
    assert_true(n <= MOST && cells <= MOST);
    for (int64_t i = 0; i < cells; i++) {
        sums[i] = (double)cts_random(state, 7) - 3;
        weights[i] = fabs(sums[i]);
    }
    for (int64_t i = 0; i < n; i++)
        from_values[i] =
            c->exact ? (double)cts_random(state, 5) - 2
                     : cts_rounded(c->from_type, (double)cts_random(state, 2001) / 1000 - 1);
    choose_indices(c, state, c->whole_index ? n : length);
    cts_random_strides(state, c->rank, to_shape, strides[0]);
    cts_random_strides(state, c->rank, c->shape, strides[1]);
    cts_random_strides(state, c->whole_index ? c->rank : 1, c->whole_index ? c->shape : &length,
                       strides[2]);
    ddisp_tensor *to =
        cts_numbers(t, c->to_type, c->rank, to_shape, c->any_layout ? strides[0] : NULL, sums);
    ddisp_tensor *from = cts_numbers(t, c->from_type, c->rank, c->shape,
                                     c->any_layout ? strides[1] : NULL, from_values);
    ddisp_tensor *index = cts_numbers(t, c->index_type, c->whole_index ? c->rank : 1,
                                      c->whole_index ? c->shape : &length,
                                      c->any_layout ? strides[2] : NULL, index_values);
    uint64_t skipped = 99, expected = right(c);
    ddisp_accumulate_options options = options_of(c->flags, &skipped);
    CTS_OK(ddisp_tensor_scatter_add(to, c->axis, index, from, &options, NULL));
    assert_int_equal(skipped, expected);
    cts_read(to, got, (size_t)cells);
    /* As for accumulate; deterministic sums round each element to a step of 2^-36 of the largest
     * at most, and there are fewer than 2^17. */
    double each = c->to_type == DDISP_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
    double last = c->to_type == DDISP_DTYPE_F16    ? 0x1p-10
                  : c->to_type == DDISP_DTYPE_BF16 ? 0x1p-7
                                                   : each;
    for (int64_t i = 0; i < cells; i++) {
        double bound =
            c->exact ? 0 : (double)n * each * weights[i] + last * fabs(sums[i]) + 0x1p-20;
        CTS_CHECK(fabs(got[i] - sums[i]) <= bound,
                  "%s %s into %s, rank %u, axis %u of %lld to %lld, runs of %lld: cell %lld is "
                  "%.17g, not %.17g within %g",
                  c->flags ? "deterministic" : "plain", ddisp_dtype_name(c->from_type),
                  ddisp_dtype_name(c->to_type), c->rank, c->axis, (long long)c->shape[c->axis],
                  (long long)c->extent, (long long)c->run, (long long)i, got[i], sums[i], bound);
    }
}

static void any_axis_layout_and_dtype(cts *t)
{
    uint64_t state = 11;
    NEEDS_SCATTER(t);
    uint32_t most = (uint32_t)modes(t);
    for (int round = 0; round < 70; round++) {
        scatter_case c = {.rank = 1 + cts_random(&state, 4),
                          .extent = 1 + cts_random(&state, 12),
                          .run = 1 + cts_random(&state, 9),
                          .outside = round % 2 ? 6 : 0,
                          .whole_index = cts_random(&state, 2),
                          .any_layout = cts_random(&state, 3) > 0,
                          .exact = true,
                          .flags = cts_random(&state, most)};
        c.to_type = floats[cts_random(&state, 4)];
        c.from_type = floats[cts_random(&state, 4)];
        c.index_type = cts_random(&state, 2) ? DDISP_DTYPE_I32 : DDISP_DTYPE_I64;
        for (uint32_t i = 0; i < c.rank; i++)
            c.shape[i] = 1 + cts_random(&state, 7);
        c.axis = cts_random(&state, c.rank);
        check(t, &state, &c);
    }
}

/* From one cell to more cells than elements; by chance and in runs; both modes. */
static void contention_of_every_kind(cts *t)
{
    static const int64_t extents[] = {1, 32, 1024, 100000}, runs[] = {1, 64, 1000000};
    uint64_t state = 12;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    for (int e = 0; e < 4; e++)
        for (int r = 0; r < 3; r++)
            for (uint64_t flags = 0; flags < most; flags++) {
                scatter_case c = {.to_type = floats[2 + (e + r) % 2],
                                  .from_type = floats[(e + r) % 4],
                                  .index_type = r % 2 ? DDISP_DTYPE_I64 : DDISP_DTYPE_I32,
                                  .rank = 1,
                                  .shape = {50001},
                                  .extent = extents[e],
                                  .run = runs[r],
                                  .outside = 100,
                                  .flags = flags};
                check(t, &state, &c);
                c.exact = true;
                check(t, &state, &c);
            }
}

/* Rows added to rows, as an embedding's gradient is. */
static void rows_go_to_rows(cts *t)
{
    uint64_t state = 13;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    for (int i = 0; i < 8; i++) {
        scatter_case c = {.to_type = floats[i % 4],
                          .from_type = floats[2 + i % 2],
                          .index_type = DDISP_DTYPE_I64,
                          .rank = 2,
                          .shape = {600, 33},
                          .extent = i % 2 ? 7 : 1000,
                          .run = 1,
                          .outside = 30,
                          .exact = i % 4 > 1,
                          .flags = i / 4 && most > 1 ? DDISP_ACCUMULATE_DETERMINISTIC : 0};
        check(t, &state, &c);
    }
}

/* ---- indices out of range */

static void checked_indices_are_an_error(cts *t)
{
    static const double bad[] = {-1, 3, 1e6, -2147483648.0};
    int64_t n = 4;
    NEEDS_SCATTER(t);
    for (int i = 0; i < 4; i++) {
        double indices[4] = {0, 2, 1, 2};
        char number[32];
        indices[i] = bad[i];
        (void)snprintf(number, sizeof number, "%.0f", bad[i]);
        ddisp_tensor *to = CTS_VECTOR(t, 0, 1, 2, 3), *from = CTS_VECTOR(t, 0, 4, 5, 6, 7);
        ddisp_tensor *index =
            cts_numbers(t, i % 2 ? DDISP_DTYPE_I32 : DDISP_DTYPE_I64, 1, &n, NULL, indices);
        ddisp_accumulate_options options = options_of(DDISP_ACCUMULATE_CHECKED, NULL);
        CTS_REFUSED(t, ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL),
                    DDISP_STATUS_INVALID_ARGUMENT, "index", number, "extent 3");
        CTS_VALUES(to, 1, 2, 3);
    }
    ddisp_tensor *to = CTS_VECTOR(t, 0, 1, 2, 3), *from = CTS_VECTOR(t, 0, 4, 5, 6, 7);
    ddisp_tensor *index =
        cts_numbers(t, DDISP_DTYPE_I32, 1, &n, NULL, (const double[]){0, 2, 1, 2});
    ddisp_accumulate_options options = options_of(DDISP_ACCUMULATE_CHECKED, NULL);
    CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
    CTS_VALUES(to, 5, 8, 15);
}

/* All out of range: nothing changes, guards included, and all are counted. */
static void nothing_is_written_elsewhere(cts *t)
{
    enum { N = 5000 };
    uint64_t state = 14;
    int64_t n = N;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    for (uint64_t flags = 0; flags < most; flags++)
        for (int i = 0; i < 4; i++) {
            uint64_t skipped = 0;
            for (int k = 0; k < N; k++) {
                from_values[k] = NAN; /* not even what is skipped may show */
                index_values[k] = k % 2 ? -1 - (double)cts_random(&state, 1000)
                                        : 5 + (double)cts_random(&state, 1000);
            }
            ddisp_tensor *from = cts_numbers(t, floats[i], 1, &n, NULL, from_values);
            ddisp_tensor *index = cts_numbers(t, i % 2 ? DDISP_DTYPE_I32 : DDISP_DTYPE_I64, 1, &n,
                                              NULL, index_values);
            const int64_t five = 5;
            ddisp_tensor *to =
                cts_numbers(t, floats[i], 1, &five, NULL, (const double[]){1, 2, 3, 4, 5});
            ddisp_accumulate_options options = options_of(flags, &skipped);
            CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
            CTS_VALUES(to, 1, 2, 3, 4, 5);
            assert_int_equal(skipped, N);
        }
}

static void no_elements_add_nothing(cts *t)
{
    int64_t none = 0;
    uint64_t skipped = 9;
    NEEDS_SCATTER(t);
    ddisp_tensor *to = CTS_VECTOR(t, 0, 1, 2), *from = cts_vector(t, 0, 0, NULL);
    ddisp_tensor *index = cts_tensor(t, DDISP_DTYPE_I32, 1, &none, NULL, 0, NULL);
    ddisp_accumulate_options options = options_of(0, &skipped);
    CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
    CTS_VALUES(to, 1, 2);
    assert_int_equal(skipped, 0);
    ddisp_tensor *nowhere = cts_vector(t, 0, 0, NULL), *source = CTS_VECTOR(t, 0, 1, 2, 3);
    int64_t three = 3;
    ddisp_tensor *places =
        cts_numbers(t, DDISP_DTYPE_I32, 1, &three, NULL, (const double[]){0, 0, 0});
    CTS_OK(ddisp_tensor_scatter_add(nowhere, 0, places, source, &options, NULL));
    assert_int_equal(skipped, 3); /* there is nowhere to add to */
}

/* ---- sums */

static void case_24_scatter_of_4096_ones(cts *t)
{
    int64_t n = 4096, three = 3;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    for (int i = 0; i < 4096; i++) {
        from_values[i] = 1;
        index_values[i] = 1;
    }
    ddisp_tensor *index = cts_numbers(t, DDISP_DTYPE_I32, 1, &n, NULL, index_values);
    for (uint64_t flags = 0; flags < most; flags++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) {
                ddisp_tensor *to =
                    cts_numbers(t, floats[i], 1, &three, NULL, (const double[]){0, 0, 0});
                ddisp_tensor *from = cts_numbers(t, floats[k], 1, &n, NULL, from_values);
                ddisp_accumulate_options options = options_of(flags, NULL);
                CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
                CTS_VALUES(to, 0, 4096, 0);
            }
}

static void case_25_a_million_ones_into_one_f64(cts *t)
{
    enum { N = 1000000 };
    int64_t n = N, one = 1, zero = 0;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    double *ones = malloc(N * sizeof *ones);
    assert_non_null(ones);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ddisp_tensor *from = cts_numbers(t, DDISP_DTYPE_F64, 1, &n, NULL, ones);
    free(ones);
    ddisp_tensor *cell = cts_numbers(t, DDISP_DTYPE_I32, 1, &one, NULL, (const double[]){0});
    ddisp_tensor *index = NULL; /* the one index, for all */
    CTS_OK(ddisp_tensor_as_strided(cell, 1, &n, &zero, cts_offset(cell), &index));
    (void)cts_own(t, index);
    for (uint64_t flags = 0; flags < most; flags++) {
        ddisp_tensor *to = cts_numbers(t, DDISP_DTYPE_F64, 1, &one, NULL, (const double[]){0});
        ddisp_accumulate_options options = options_of(flags, NULL);
        CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
        CTS_VALUES(to, N);
    }
}

static void deterministic_sums_have_one_bit_pattern(cts *t)
{
    enum { N = 60000, CELLS = 37 };
    uint64_t state = 15;
    int64_t n = N, cells = CELLS;
    NEEDS_SCATTER(t);
    if (modes(t) < 2)
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    for (int type = 0; type < 4; type++) {
        double first[CELLS] = {0}, values[CELLS];
        for (int i = 0; i < N; i++) {
            from_values[i] = ldexp((double)cts_random(&state, 2000001) / 1000000 - 1,
                                   (int)cts_random(&state, 20) - 10);
            index_values[i] = cts_random(&state, CELLS);
        }
        ddisp_tensor *from = cts_numbers(t, floats[type], 1, &n, NULL, from_values);
        ddisp_tensor *index = cts_numbers(t, DDISP_DTYPE_I32, 1, &n, NULL, index_values);
        ddisp_tensor *to = cts_tensor(t, floats[type], 1, &cells, NULL, 0, NULL);
        ddisp_accumulate_options options = options_of(DDISP_ACCUMULATE_DETERMINISTIC, NULL);
        for (int run = 0; run < cts_rounds(40); run++) {
            CTS_OK(ddisp_tensor_fill(to, 0, NULL));
            CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
            cts_read(to, values, CELLS);
            if (run == 0)
                memcpy(first, values, sizeof first);
            CTS_CHECK(memcmp(first, values, sizeof first) == 0, "%s: run %d differs",
                      ddisp_dtype_name(floats[type]), run);
        }
    }
}

/* Of millions of elements a backend may look at some only to choose the steps it counts in; one
 * that sticks out elsewhere counts as exactly as the others. */
static void one_large_element_among_millions_counts(cts *t)
{
    enum { N = (4 << 20) + 100, LARGE = 1000000 };
    int64_t n = N, one = 1, zero = 0;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    float *values = malloc(N * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < N; i++)
        values[i] = 1;
    values[40] = LARGE;
    ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, NULL, 0, values);
    free(values);
    ddisp_tensor *cell = cts_numbers(t, DDISP_DTYPE_I32, 1, &one, NULL, (const double[]){0});
    ddisp_tensor *index = NULL;
    CTS_OK(ddisp_tensor_as_strided(cell, 1, &n, &zero, cts_offset(cell), &index));
    (void)cts_own(t, index);
    for (uint64_t flags = 0; flags < most; flags++) {
        ddisp_tensor *to = cts_numbers(t, DDISP_DTYPE_F32, 1, &one, NULL, (const double[]){0});
        ddisp_accumulate_options options = options_of(flags, NULL);
        CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
        CTS_VALUES(to, N - 1 + LARGE);
    }
}

/* Infinities and NaNs come through, in their cells alone. */
static void what_is_not_finite_comes_through(cts *t)
{
    int64_t n = 8, cells = 5;
    NEEDS_SCATTER(t);
    uint64_t most = modes(t);
    for (uint64_t flags = 0; flags < most; flags++)
        for (int type = 0; type < 4; type++) {
            double values[5];
            const double source[8] = {1, INFINITY, NAN, -INFINITY, 2, INFINITY, -INFINITY, 3};
            const double places[8] = {0, 1, 2, 3, 0, 4, 4, 1};
            ddisp_tensor *from = cts_numbers(t, floats[type], 1, &n, NULL, source);
            ddisp_tensor *index = cts_numbers(t, DDISP_DTYPE_I64, 1, &n, NULL, places);
            ddisp_tensor *to =
                cts_numbers(t, floats[type], 1, &cells, NULL, (const double[]){4, 4, 4, 4, 4});
            ddisp_accumulate_options options = options_of(flags, NULL);
            CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
            cts_read(to, values, 5);
            assert_true(values[0] == 7);
            assert_true(values[1] == INFINITY);
            assert_true(isnan(values[2]));
            assert_true(values[3] == -INFINITY);
            assert_true(isnan(values[4]));
        }
}

const cts_test cts_scatter_tests[] = {
    CTS_TEST(any_axis_layout_and_dtype),
    CTS_TEST(contention_of_every_kind),
    CTS_TEST(rows_go_to_rows),
    CTS_TEST(checked_indices_are_an_error),
    CTS_TEST(nothing_is_written_elsewhere),
    CTS_TEST(no_elements_add_nothing),
    CTS_TEST(case_24_scatter_of_4096_ones),
    CTS_TEST(case_25_a_million_ones_into_one_f64),
    CTS_TEST(deterministic_sums_have_one_bit_pattern),
    CTS_TEST(one_large_element_among_millions_counts),
    CTS_TEST(what_is_not_finite_comes_through),
    CTS_END,
};
