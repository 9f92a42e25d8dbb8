/*
 * test_host_launch.c - launches of the host backend: every item exactly once, from one thread or
 * many, with the arguments as they were when the launch was made.
 */
#include "host_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 100000, THREADS = 8, ROUNDS = 20 };

/** Counts item i in the counter i at slot 0, and calls at slot 1. */
static void count_items(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    atomic_uint *counters = argument_pointer(block, 0);
    atomic_fetch_add((atomic_uint *)argument_pointer(block, 1), 1);
    for (uint64_t i = begin; i < end; i++) {
        atomic_fetch_add(&counters[i], 1);
    }
}

/** Waits at the gate, then stores slot 1 at slot 0. */
static void store_behind_gate(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    gate_pass();
    *(uint64_t *)argument_pointer(block, 0) = argument(block, 1);
}

static void launch_and_count(const fixture *f, void *stream, uint64_t items)
{
    atomic_uint *counters = calloc(MAX_ITEMS + 1, sizeof *counters);
    atomic_uint calls = 0;
    assert_non_null(counters);
    arguments args = arguments_make(items, address_of(counters), address_of(&calls), 0);
    assert_int_equal(launch(f, stream, count_items, &args), DDISP_STATUS_OK);
    stream_finish(f, stream);
    for (uint64_t i = 0; i <= MAX_ITEMS; i++) {
        unsigned expected = i < items;
        if (atomic_load(&counters[i]) != expected) {
            fail_msg("item %llu of %llu ran %u times", (unsigned long long)i,
                     (unsigned long long)items, atomic_load(&counters[i]));
        }
    }
    assert_int_equal(atomic_load(&calls) == 0, items == 0);
    free(counters);
}

static void every_item_runs_exactly_once(void **state)
{
    const fixture *f = *state;
    static const uint64_t items[] = {0, 1, 7, 63, 64, 65, 127, 1000, 99999, MAX_ITEMS};
    void *stream = stream_make(f);
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        launch_and_count(f, f->own, items[i]);
        launch_and_count(f, stream, items[i]);
    }
    f->table->stream_destroy(f->device, stream);
}

static void few_items_are_one_call(void **state)
{
    const fixture *f = *state;
    atomic_uint counters[7] = {0}, calls = 0;
    arguments args = arguments_make(7, address_of(counters), address_of(&calls), 0);
    assert_int_equal(launch(f, f->own, count_items, &args), DDISP_STATUS_OK);
    assert_int_equal(atomic_load(&calls), 1);
}

static void arguments_are_copied(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    uint64_t value = 0;
    arguments args = arguments_make(1, address_of(&value), 5, 0);
    assert_int_equal(launch(f, stream, store_behind_gate, &args), DDISP_STATUS_OK);
    memset(&args, 0xAA, sizeof args);
    gate_open();
    stream_finish(f, stream);
    assert_int_equal(value, 5);
    f->table->stream_destroy(f->device, stream);
}

/** What one thread works with. */
typedef struct job {
    const fixture *f;
    void *stream;
    atomic_uint *shared; /* counters that all jobs add to */
    atomic_uint calls;
    ddisp_status status;
} job;

static void *run_job(void *user)
{
    job *it = user;
    const ddisp_backend_table *table = it->f->table;
    uint64_t ticket;
    arguments args = arguments_make(MAX_ITEMS, address_of(it->shared), address_of(&it->calls), 0);
    for (int round = 0; round < ROUNDS && it->status == DDISP_STATUS_OK; round++) {
        it->status = launch(it->f, it->stream, count_items, &args);
    }
    if (it->status == DDISP_STATUS_OK) {
        it->status = table->stream_mark(it->f->device, it->stream, &ticket);
    }
    if (it->status == DDISP_STATUS_OK) {
        it->status = table->stream_synchronize(it->f->device, it->stream, ticket, UINT64_MAX);
    }
    return NULL;
}

/** Case 39's second half: eight threads launch at once. */
static void threads_launch_at_once(const fixture *f, bool own_streams)
{
    pthread_t threads[THREADS];
    job jobs[THREADS];
    atomic_uint *shared = calloc(MAX_ITEMS, sizeof *shared);
    assert_non_null(shared);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].f = f;
        jobs[i].shared = shared;
        if (own_streams) {
            jobs[i].stream = stream_make(f);
        } else {
            assert_int_equal(
                f->table->stream_create(f->device, DDISP_BACKEND_STREAM_DEFAULT, &jobs[i].stream),
                DDISP_STATUS_OK);
        }
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(jobs[i].status, DDISP_STATUS_OK);
        f->table->stream_destroy(f->device, jobs[i].stream);
    }
    for (int i = 0; i < MAX_ITEMS; i++) {
        if (atomic_load(&shared[i]) != THREADS * ROUNDS) {
            fail_msg("item %d ran %u times", i, atomic_load(&shared[i]));
        }
    }
    free(shared);
}

static void threads_launch_at_once_on_workers(void **state)
{
    threads_launch_at_once(*state, true);
}

static void threads_launch_at_once_inline(void **state)
{
    threads_launch_at_once(*state, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_item_runs_exactly_once),  TEST(few_items_are_one_call),
        TEST(arguments_are_copied),          TEST(threads_launch_at_once_on_workers),
        TEST(threads_launch_at_once_inline),
    };
    return cmocka_run_group_tests_name("host launch", tests, NULL, NULL);
}
