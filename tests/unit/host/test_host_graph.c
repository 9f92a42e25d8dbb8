/*
 * test_host_graph.c - recording a stream of the host backend and running the recording again:
 * nothing runs while it is recorded, everything runs in order at each replay, and launches take
 * other arguments. Also marks that tell the time.
 */
#include "host_code.h"

#include <string.h>
#include <time.h>

static void add(double *to, const double *from, uint64_t n, float k)
{
    for (uint64_t i = 0; i < n; i++) {
        to[i] += (double)k * from[i];
    }
}

static const ddisp_native_arg natives[4] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 2), DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
    DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2), DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};

static uint64_t bits(float value)
{
    uint64_t result = 0;
    memcpy(&result, &value, sizeof value);
    return result;
}

static void *build_add(const fixture *f, host_code *it)
{
    void *variant = NULL;
    host_code_make(it, DDISP_MODE_FORWARD, natives, 4);
    it->entries[0].function = (ddisp_host_function)(void (*)(void))add;
    assert_int_equal(host_code_build(f, it, &variant), DDISP_STATUS_OK);
    return variant;
}

static ddisp_backend_range range(void *pointer, uint64_t size_bytes)
{
    ddisp_backend_range it = {NULL, address_of(pointer), size_bytes};
    return it;
}

static ddisp_backend_tensor vector(double *values, int64_t n)
{
    ddisp_backend_tensor it = {.range = range(values, (uint64_t)n * 8),
                               .address = address_of(values),
                               .dtype = DDISP_DTYPE_F64,
                               .rank = 1,
                               .shape = {n, 1, 1, 1, 1, 1, 1, 1},
                               .strides = {1}};
    return it;
}

/** Stores slot 1 at slot 0. */
static void store(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    *(uint64_t *)argument_pointer(block, 0) = argument(block, 1);
}

/* Every operation that can be recorded, on a stream with a worker or on the device's own. */
static void record_and_replay(const fixture *f, void *stream)
{
    const ddisp_backend_table *table = f->table;
    double x[4] = {1, 2, 3, 4}, y[4] = {9, 9, 9, 9}, z[4] = {0}, w[4] = {0};
    int64_t index[2] = {3, 9};
    uint64_t stored = 0, skipped = 0;
    host_code it;
    void *graph = NULL, *variant = build_add(f, &it);
    arguments args = arguments_make(1, address_of(&stored), 5, 0);
    ddisp_backend_range ry = range(y, sizeof y), rz = range(z, sizeof z);
    ddisp_backend_range rs = range(&skipped, sizeof skipped);
    ddisp_backend_tensor tx = vector(x, 4), tw = vector(w, 4), two = vector(x, 2);
    ddisp_backend_tensor ti = {.range = range(index, sizeof index),
                               .address = address_of(index),
                               .dtype = DDISP_DTYPE_I64,
                               .rank = 1,
                               .shape = {2, 1, 1, 1, 1, 1, 1, 1},
                               .strides = {1}};
    const uint64_t values[4] = {address_of(y), address_of(x), 4, bits(2)};
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_OK);
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, NULL, 0), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, NULL, 0), DDISP_STATUS_OK);
    assert_int_equal(table->copy(f->device, stream, &rz, &ry), DDISP_STATUS_OK);
    assert_int_equal(launch(f, stream, store, &args), DDISP_STATUS_OK);
    assert_int_equal(table->fill_elements(f->device, stream, &tw, 0), DDISP_STATUS_OK);
    assert_int_equal(
        table->accumulate(f->device, stream, &tw, &tx, 0.5, DDISP_BACKEND_ACCUMULATE_ADD, 0),
        DDISP_STATUS_OK);
    assert_int_equal(table->scatter_add(f->device, stream, &tw, 0, 4, &ti, &two, &rs, 0),
                     DDISP_STATUS_OK);
    assert_true(y[0] == 9 && z[0] == 0 && stored == 0 && w[3] == 0); /* nothing has run */
    assert_int_equal(table->capture_end(f->device, stream, &graph), DDISP_STATUS_OK);
    memset(&args, 0, sizeof args);
    for (int i = 1; i <= 3; i++) {
        memset(z, 0, sizeof z);
        memset(w, 0xFF, sizeof w);
        stored = 0;
        assert_int_equal(table->graph_launch(f->device, stream, graph), DDISP_STATUS_OK);
        stream_finish(f, stream);
        assert_true(z[0] == 4 && z[1] == 8 && z[2] == 12 && z[3] == 16);
        assert_true(w[0] == 0.5 && w[1] == 1 && w[2] == 1.5 && w[3] == 3);
        assert_int_equal(stored, 5);
        assert_int_equal(skipped, (uint64_t)i);
    }
    table->graph_release(f->device, graph);
    table->variant_release(f->device, variant);
}

static void recorded_work_runs_when_it_is_replayed(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    record_and_replay(f, stream);
    record_and_replay(f, f->own);
    f->table->stream_destroy(f->device, stream);
}

static void launches_take_other_arguments(void **state)
{
    const fixture *f = *state;
    const ddisp_backend_table *table = f->table;
    void *stream = stream_make(f), *graph = NULL;
    double x[2] = {1, 2}, y[2] = {0}, z[2] = {0};
    host_code it;
    void *variant = build_add(f, &it);
    ddisp_backend_native changed[4];
    ddisp_backend_range ry = range(y, sizeof y);
    const uint64_t first[4] = {address_of(y), address_of(x), 2, bits(1)};
    const uint64_t second[4] = {address_of(z), address_of(x), 2, bits(10)};
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, stream, variant, &it, first, NULL, 0), DDISP_STATUS_OK);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, stream, variant, &it, first, NULL, 0), DDISP_STATUS_OK);
    assert_int_equal(table->capture_end(f->device, stream, &graph), DDISP_STATUS_OK);
    ddisp_backend_launch request = host_code_request(variant, &it, second, NULL, 0, changed);
    assert_int_equal(table->graph_update(f->device, graph, 1, &request), DDISP_STATUS_OK);
    memset(changed, 0, sizeof changed);
    assert_int_equal(table->graph_launch(f->device, stream, graph), DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_true(y[0] == 0 && y[1] == 0 && z[0] == 10 && z[1] == 20);
    request = host_code_request(variant, &it, second, NULL, 0, changed);
    assert_int_equal(table->graph_update(f->device, graph, 2, &request),
                     DDISP_STATUS_INVALID_ARGUMENT); /* the fill is no launch */
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->graph_update(f->device, graph, 0, &request),
                     DDISP_STATUS_OUT_OF_MEMORY);
    assert_int_equal(table->graph_launch(f->device, stream, graph), DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_true(z[0] == 20 && z[1] == 40); /* as before */
    table->graph_release(f->device, graph);
    table->variant_release(f->device, variant);
    table->stream_destroy(f->device, stream);
}

static void thrown_away_and_abandoned_recordings_leave_nothing(void **state)
{
    const fixture *f = *state;
    const ddisp_backend_table *table = f->table;
    void *stream = stream_make(f);
    double y[2] = {7, 7};
    ddisp_backend_range ry = range(y, sizeof y);
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_OK);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OK);
    assert_int_equal(table->capture_end(f->device, stream, NULL), DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_true(y[0] == 7);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_true(y[0] == 0); /* and the stream runs its work again */
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_OUT_OF_MEMORY);
    assert_int_equal(table->capture_begin(f->device, stream), DDISP_STATUS_OK);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OUT_OF_MEMORY);
    assert_int_equal(table->fill(f->device, stream, &ry, 0, 8), DDISP_STATUS_OK);
    table->stream_destroy(f->device, stream); /* while it records */
}

/* ---- time */

static void time_passes_between_marks(void **state)
{
    const fixture *f = *state;
    const ddisp_backend_table *table = f->table;
    void *stream = stream_make(f);
    uint64_t begin, end, own, elapsed = 0;
    struct timespec pause = {0, 3000000};
    arguments args = arguments_make(1, 0, 0, 0);
    uint64_t value = 0;
    args.slot[0] = address_of(&value);
    assert_int_equal(table->stream_mark_timed(f->device, stream, &begin), DDISP_STATUS_OK);
    stream_finish(f, stream);
    (void)nanosleep(&pause, NULL);
    assert_int_equal(launch(f, stream, store, &args), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark_timed(f->device, stream, &end), DDISP_STATUS_OK);
    assert_true(end > begin);
    assert_int_equal(table->stream_synchronize(f->device, stream, end, UINT64_MAX),
                     DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(f->device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_OK);
    assert_true(elapsed >= 3000000);
    assert_int_equal(table->stream_elapsed(f->device, stream, end, stream, begin, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(table->stream_mark_timed(f->device, f->own, &own), DDISP_STATUS_OK);
    assert_int_equal(table->stream_query(f->device, f->own, own), DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(f->device, stream, begin, f->own, own, &elapsed),
                     DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(f->device, stream, begin, f->own, own + 1, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(last_message, "no time"));
    table->stream_destroy(f->device, stream);
}

/** Waits at the gate. */
static void wait_for_gate(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)block;
    (void)begin;
    (void)end;
    gate_pass();
}

static void time_of_unfinished_work_is_not_ready(void **state)
{
    const fixture *f = *state;
    const ddisp_backend_table *table = f->table;
    void *stream = stream_make(f);
    uint64_t begin, end, elapsed = 0;
    arguments args = arguments_make(1, 0, 0, 0);
    assert_int_equal(table->stream_mark_timed(f->device, stream, &begin), DDISP_STATUS_OK);
    assert_int_equal(launch(f, stream, wait_for_gate, &args), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark_timed(f->device, stream, &end), DDISP_STATUS_OK);
    assert_int_equal(table->stream_elapsed(f->device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_NOT_READY);
    gate_open();
    stream_finish(f, stream);
    assert_int_equal(table->stream_elapsed(f->device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_OK);
    for (int nth = 1; nth <= 2; nth++) {
        int before = atomic_load(&live);
        atomic_store(&fail_allocation, nth);
        assert_int_equal(table->stream_mark_timed(f->device, stream, &end),
                         DDISP_STATUS_OUT_OF_MEMORY);
        assert_int_equal(atomic_load(&live), before);
    }
    table->stream_destroy(f->device, stream);
}

static void old_times_are_dropped_and_memory_is_bounded(void **state)
{
    const fixture *f = *state;
    const ddisp_backend_table *table = f->table;
    uint64_t first, last = 0, elapsed = 0;
    assert_int_equal(table->stream_mark_timed(f->device, f->own, &first), DDISP_STATUS_OK);
    for (int i = 0; i < 4095; i++) {
        assert_int_equal(table->stream_mark_timed(f->device, f->own, &last), DDISP_STATUS_OK);
    }
    assert_int_equal(table->stream_elapsed(f->device, f->own, first, f->own, last, &elapsed),
                     DDISP_STATUS_OK);
    int before = atomic_load(&live);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(table->stream_mark_timed(f->device, f->own, &last), DDISP_STATUS_OK);
    }
    assert_int_equal(atomic_load(&live), before);
    assert_int_equal(table->stream_elapsed(f->device, f->own, first, f->own, last, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(last_message, "4096"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recorded_work_runs_when_it_is_replayed),
        TEST(launches_take_other_arguments),
        TEST(thrown_away_and_abandoned_recordings_leave_nothing),
        TEST(time_passes_between_marks),
        TEST(time_of_unfinished_work_is_not_ready),
        TEST(old_times_are_dropped_and_memory_is_bounded),
    };
    return cmocka_run_group_tests_name("host graph", tests, NULL, NULL);
}
