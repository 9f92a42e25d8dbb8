/*
 * test_scatter_many.c - scatter-add of millions of items: backends take other ways for indices that
 * stay the same for a while than for those that change all the time, and go from one to the other;
 * and deterministic sums of many cells, whose memory is used again. All numbers are small integers,
 * so that every sum is exact.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct many {
    int64_t n;
    float *values;
    int32_t *places;
    double *sums;
    uint64_t skipped;
} many;

static many make_many(int64_t n, int64_t cells)
{
    many it = {.n = n};
    it.values = malloc((size_t)n * sizeof *it.values);
    it.places = malloc((size_t)n * sizeof *it.places);
    it.sums = calloc((size_t)cells, sizeof *it.sums);
    assert_true(it.values && it.places && it.sums);
    return it;
}

static void free_many(many *it)
{
    free(it->values);
    free(it->places);
    free(it->sums);
}

static void add_up(many *it, int64_t cells)
{
    for (int64_t i = 0; i < it->n; i++) {
        int32_t place = it->places[i];
        if (place < 0 || place >= cells)
            it->skipped++;
        else
            it->sums[place] += (double)it->values[i];
    }
}

/* Stretches of some thousand items: runs of one length each, or indices by chance (run 0), or none
 * that is in range (run -1). */
static void choose_places(many *it, uint64_t *state, int64_t cells)
{
    static const int64_t runs[] = {0,  1,   3,   7,   20,   32,    33, 64, 64,
                                   96, 100, 128, 500, 5000, 20000, -1, 0};
    int64_t i = 0;
    while (i < it->n) {
        int64_t run = runs[cts_random(state, sizeof runs / sizeof *runs)];
        int64_t end = i + 1000 + cts_random(state, 20000);
        /* so that borders of runs lie at and beside those of whole tiles */
        end = cts_random(state, 2) ? end / 1024 * 1024 : end;
        end = end < it->n ? end : it->n;
        for (int64_t k = 0; i < end; i++, k++) {
            bool again = run > 0 && k > 0 && k % run != 0;
            it->places[i] = run < 0 ? -1
                            : again ? it->places[i - 1]
                                    : (int32_t)cts_random(state, (uint32_t)cells);
            it->values[i] = (float)cts_random(state, 5) - 2;
        }
    }
}

static void check(cts *t, ddisp_tensor *to, ddisp_tensor *index, ddisp_tensor *from, uint64_t flags,
                  const many *it, int64_t cells)
{
    uint64_t skipped = 99;
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    options.out_skipped = &skipped;
    CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
    assert_int_equal(skipped, it->skipped);
    double *got = malloc((size_t)cells * sizeof *got);
    assert_non_null(got);
    cts_read(to, got, (size_t)cells);
    for (int64_t i = 0; i < cells; i++)
        CTS_CHECK(got[i] == it->sums[i], "%s, %lld items, cell %lld of %lld is %.17g, not %.17g",
                  flags ? "deterministic" : "plain", (long long)it->n, (long long)i,
                  (long long)cells, got[i], it->sums[i]);
    free(got);
    (void)t;
}

/* The same without the first: memory that begins at no round address. */
static ddisp_tensor *without_first(cts *t, ddisp_tensor *tensor, int64_t n)
{
    const int64_t left = n - 1, one = 1;
    ddisp_tensor *view = NULL;
    CTS_OK(ddisp_tensor_as_strided(tensor, 1, &left, &one, cts_offset(tensor) + 1, &view));
    return cts_own(t, view);
}

static void items_that_change_between_runs_and_chance(cts *t)
{
    static const int64_t extents[] = {1, 20, 3000, 70000, 2 << 20};
    uint64_t state = 21;
    if (!cts_scatters(t, 0))
        CTS_SKIP(t, "the device has no scatter-add");
    uint64_t most = cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC) ? 2 : 1;
    int64_t n = ((int64_t)(cts_rounds(4) > 4 ? 20 : 4) << 20) + 77;
    for (int e = 0; e < 5; e++) {
        many it = make_many(n, extents[e]);
        choose_places(&it, &state, extents[e]);
        ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, NULL, 0, it.values);
        ddisp_tensor *index = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, it.places);
        if (e == 2) { /* and unaligned, once */
            from = without_first(t, from, n);
            index = without_first(t, index, n);
            memmove(it.values, it.values + 1, (size_t)(n - 1) * sizeof *it.values);
            memmove(it.places, it.places + 1, (size_t)(n - 1) * sizeof *it.places);
            it.n = n - 1;
        }
        add_up(&it, extents[e]);
        for (uint64_t flags = 0; flags < most; flags++) {
            ddisp_tensor *to = cts_tensor(t, DDISP_DTYPE_F32, 1, &extents[e], NULL, 0, NULL);
            CTS_OK(ddisp_tensor_fill(to, 0, NULL));
            check(t, to, index, from, flags ? DDISP_ACCUMULATE_DETERMINISTIC : 0, &it, extents[e]);
        }
        free_many(&it);
    }
}

/* ---- many cells */

enum { CELLS = 3 << 20, PART = 1 << 20, LOOKED_AT = 4 << 20 };

/** Memory of about the size of the sums is filled and given back. */
static void soil(cts *t, int64_t cells)
{
    const int64_t n = cells * 2 + 64;
    ddisp_tensor *memory = NULL;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &memory));
    CTS_OK(ddisp_tensor_fill(memory, 7, NULL));
    ddisp_tensor_release(memory);
}

/* run: 0: indices by chance; else runs of as many items, or up to eight times as many. odd: an
 * element that is unlike the others, unless it is 0. */
static void add_to_many(cts *t, uint64_t *state, int64_t n, int64_t cells, int64_t run, float odd)
{
    many it = make_many(n, cells);
    for (int64_t i = 0, end = 0; i < n; i++) {
        it.places[i] = i < end ? it.places[i - 1] : (int32_t)cts_random(state, (uint32_t)cells);
        it.values[i] = (float)cts_random(state, 5) - 2;
        if (i >= end && run > 0)
            end = i + run + cts_random(state, (uint32_t)run * 7);
    }
    if (odd != 0) {
        it.values[40] = odd;
        it.places[40] = (int32_t)cells - 1;
    }
    add_up(&it, cells);
    ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, NULL, 0, it.values);
    ddisp_tensor *index = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, it.places);
    ddisp_tensor *to = cts_tensor(t, DDISP_DTYPE_F32, 1, &cells, NULL, 0, NULL);
    CTS_OK(ddisp_tensor_fill(to, 0, NULL));
    check(t, to, index, from, DDISP_ACCUMULATE_DETERMINISTIC, &it, cells);
    free_many(&it);
}

/* Sums may be kept from one call to the next, as long as nobody else has had their memory. */
static void sums_of_many_cells_begin_at_zero(cts *t)
{
    uint64_t state = 22;
    if (!cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC))
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    add_to_many(t, &state, 100000, CELLS, 0, 0);
    add_to_many(t, &state, 100000, CELLS, 0, 0);
    soil(t, CELLS);
    add_to_many(t, &state, 100000, CELLS, 0, 0);
    add_to_many(t, &state, 100000, CELLS / 10 * 9, 0, INFINITY);
    add_to_many(t, &state, 100000, CELLS, 0, 0);
    add_to_many(t, &state, LOOKED_AT + 100, CELLS, 0, 1000000); /* beyond what a sample shows */
    add_to_many(t, &state, 100000, CELLS, 0, 0);
    soil(t, CELLS);
    add_to_many(t, &state, 100000, CELLS, 0, 0);
}

/* Long runs meet few of many cells: what was not met need not be looked at. */
static void runs_in_many_cells(cts *t)
{
    uint64_t state = 23;
    if (!cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC))
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    add_to_many(t, &state, 300000, CELLS, 32, 0);
    add_to_many(t, &state, 300000, CELLS, 32, 0);
    add_to_many(t, &state, 300000, CELLS + 5, 100, INFINITY);
    add_to_many(t, &state, 700000, CELLS + 5, 40, 0);
    add_to_many(t, &state, LOOKED_AT + 100, CELLS - 3, 64, 1000000);
    add_to_many(t, &state, 300000, CELLS, 500, 0);
    add_to_many(t, &state, 50000, CELLS, 0, 0);
    add_to_many(t, &state, 50000, CELLS, 2000, 0);
}

/* Most elements are far beyond those that a sample shows, and all come to one cell: integers of
 * steps that fit the sample would overflow. */
static void elements_beyond_a_sample_fill_a_cell(cts *t)
{
    const int64_t n = LOOKED_AT + 100, one = 1;
    if (!cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC))
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    many it = make_many(n, one);
    for (int64_t i = 0; i < n; i++) {
        it.places[i] = 0;
        it.values[i] = i / 32 % 5 == 0 ? 8 : 4000; /* every fifth row is looked at */
    }
    add_up(&it, one);
    it.sums[0] = (double)(float)it.sums[0];
    ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, NULL, 0, it.values);
    ddisp_tensor *index = cts_tensor(t, DDISP_DTYPE_I32, 1, &n, NULL, 0, it.places);
    ddisp_tensor *to = cts_tensor(t, DDISP_DTYPE_F32, 1, &one, NULL, 0, NULL);
    CTS_OK(ddisp_tensor_fill(to, 0, NULL));
    check(t, to, index, from, DDISP_ACCUMULATE_DETERMINISTIC, &it, one);
    free_many(&it);
}

/** What was freed can be taken again, in other sizes. */
static void settle(cts *t)
{
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_trim(t->device));
}

/* Fewer sums in a part of the memory of many, others in what is left of it, and many again. */
static void sums_in_parts_of_memory_begin_at_zero(cts *t)
{
    static const int64_t sizes[] = {PART, PART / 8, PART}, n = 4;
    if (!cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC))
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    ddisp_tensor *from = CTS_VECTOR(t, 0, 1, 2, 3, 4), *to[3];
    const double places[4] = {0, 5, PART / 8 - 1, 5};
    ddisp_tensor *index = cts_numbers(t, DDISP_DTYPE_I32, 1, &n, NULL, places);
    for (int i = 0; i < 3; i++) {
        to[i] = cts_tensor(t, DDISP_DTYPE_F32, 1, &sizes[i], NULL, 0, NULL);
        CTS_OK(ddisp_tensor_fill(to[i], 0, NULL));
    }
    settle(t);
    for (int i = 0; i < 3; i++) {
        ddisp_accumulate_options options = DDISP_ZERO;
        options.size = (uint32_t)sizeof options;
        options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
        CTS_OK(ddisp_tensor_scatter_add(to[i], 0, index, from, &options, NULL));
        if (i == 1) /* beside the part, which is not free yet */
            soil(t, PART / 8 * 5);
        settle(t);
        double *got = malloc((size_t)sizes[i] * sizeof *got), sum = 0;
        assert_non_null(got);
        cts_read(to[i], got, (size_t)sizes[i]);
        for (int64_t k = 0; k < sizes[i]; k++)
            sum += fabs(got[k]);
        CTS_CHECK(got[0] == 1 && got[5] == 6 && got[PART / 8 - 1] == 3 && sum == 10,
                  "sums of %lld cells: %.17g, %.17g, %.17g; %.17g in all", (long long)sizes[i],
                  got[0], got[5], got[PART / 8 - 1], sum);
        free(got);
    }
}

const cts_test cts_scatter_many_tests[] = {
    CTS_TEST(items_that_change_between_runs_and_chance),
    CTS_TEST(sums_of_many_cells_begin_at_zero),
    CTS_TEST(runs_in_many_cells),
    CTS_TEST(elements_beyond_a_sample_fill_a_cell),
    CTS_TEST(sums_in_parts_of_memory_begin_at_zero),
    CTS_END,
};
