/*
 * test_cuda_scatter.c - scatter-add of the CUDA backend, with its own kernels run by the processor:
 * against sums taken here; deterministic sums in any order; and all operations recorded in a graph.
 */
#include "cuda_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
static void add_shuffled(ddisp_dtype from_type, ddisp_dtype dtype, int64_t n, int64_t cells,
                         const double *values, uint32_t shuffle, array *to)
{
    int64_t one = 1;
    array from = make(from_type, 1, &n, &one), index = make(DDISP_DTYPE_I32, 1, &n, &one);
    int64_t step = 1 + 2 * (int64_t)shuffle; /* odd, and n is a power of 2: every k comes once */
    for (int64_t k = 0; k < n; k++) {
        int64_t which = k * step % n;
        int32_t cell = (int32_t)(which % cells);
        put(from_type, element(&from.tensor, k), values[which]);
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
            add_shuffled(floats[type], floats[type], N, cells, values, 0, &first);
            for (uint32_t shuffle = 1; shuffle < 4; shuffle++) {
                add_shuffled(floats[type], floats[type], N, cells, values, shuffle * 1000, &other);
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

/* What f32 cannot hold of an element is in the sum. */
static void elements_of_f64_are_rounded_as_a_sum(void **state)
{
    enum { N = 16384 };
    static double values[N];
    array to = {0};
    (void)state;
    for (int k = 0; k < N; k++) {
        values[k] = k % 2 ? 1 + 0.9 * 0x1p-24 : -1;
    }
    add_shuffled(DDISP_DTYPE_F64, DDISP_DTYPE_F32, N, 1, values, 3, &to);
    double sum = get(DDISP_DTYPE_F32, element(&to.tensor, 0));
    assert_true(fabs(sum - N / 2 * 0.9 * 0x1p-24) < 1e-9);
    drop(&to);
}

static double sum_with(ddisp_dtype dtype, double special, double other)
{
    enum { N = 64 };
    double values[N];
    array to = {0};
    for (int k = 0; k < N; k++) {
        values[k] = k == 5 ? special : k == 9 ? other : 1;
    }
    add_shuffled(dtype, dtype, N, 1, values, 3, &to);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARRAYS_CASE(scatter_in_any_layout),       ARRAYS_CASE(scatter_into_half_precision),
        ARRAYS_CASE(scatter_under_contention),    ARRAYS_CASE(scatter_of_rows),
        ARRAYS_CASE(order_does_not_change_a_bit), ARRAYS_CASE(elements_of_f64_are_rounded_as_a_sum),
        ARRAYS_CASE(what_is_not_finite_stays_so), ARRAYS_CASE(elements_beyond_the_sampled_bound),
        ARRAYS_CASE(recorded_work_runs_again),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
