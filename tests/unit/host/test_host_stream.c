/*
 * test_host_stream.c - streams and tickets of the host backend: what runs when, what waits for
 * what, and what lives how long. Kernels are held up by a gate, never by time.
 */
#include "host_fixture.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/** Waits at the gate, then writes slot 1 to the uint64 at slot 0. */
static void store_behind_gate(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    gate_pass();
    *(uint64_t *)argument_pointer(block, 0) = argument(block, 1);
}

/** Waits at the gate, then copies slot 2 bytes from slot 0 to slot 1. */
static void copy_behind_gate(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    gate_pass();
    memcpy(argument_pointer(block, 1), argument_pointer(block, 0), (size_t)argument(block, 2));
}

/** Queues a kernel that waits at the gate and then stores value at where. */
static void queue_store(const fixture *f, void *stream, uint64_t *where, uint64_t value)
{
    arguments args = arguments_make(1, address_of(where), value, 0);
    assert_int_equal(launch(f, stream, store_behind_gate, &args), DDISP_STATUS_OK);
}

static void work_on_the_own_stream_is_done_on_return(void **state)
{
    const fixture *f = *state;
    uint64_t value = 0, first, second;
    gate_open();
    queue_store(f, f->own, &value, 5);
    assert_int_equal(value, 5);
    assert_int_equal(f->table->stream_mark(f->device, f->own, &first), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_query(f->device, f->own, first), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_mark(f->device, f->own, &second), DDISP_STATUS_OK);
    assert_true(first > 0 && second > first);
}

static void launch_returns_before_its_work(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    uint64_t value = 0, before, after;
    assert_int_equal(f->table->stream_mark(f->device, stream, &before), DDISP_STATUS_OK);
    queue_store(f, stream, &value, 5);
    assert_int_equal(f->table->stream_mark(f->device, stream, &after), DDISP_STATUS_OK);
    assert_true(before > 0 && after > before);
    assert_int_equal(f->table->stream_query(f->device, stream, before), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_query(f->device, stream, after), DDISP_STATUS_NOT_READY);
    gate_open();
    assert_int_equal(f->table->stream_synchronize(f->device, stream, after, UINT64_MAX),
                     DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_query(f->device, stream, after), DDISP_STATUS_OK);
    assert_int_equal(value, 5);
    f->table->stream_destroy(f->device, stream);
}

static void wait_times_out_while_work_is_held_up(void **state)
{
    const fixture *f = *state;
    static const uint64_t timeouts[] = {0, 1, 1000000, 1500000};
    void *stream = stream_make(f);
    uint64_t value = 0, ticket;
    queue_store(f, stream, &value, 5);
    assert_int_equal(f->table->stream_mark(f->device, stream, &ticket), DDISP_STATUS_OK);
    for (int i = 0; i < 4; i++) {
        last_status = DDISP_STATUS_OK;
        assert_int_equal(f->table->stream_synchronize(f->device, stream, ticket, timeouts[i]),
                         DDISP_STATUS_TIMEOUT);
        assert_int_equal(last_status, DDISP_STATUS_TIMEOUT);
    }
    gate_open();
    assert_int_equal(f->table->stream_synchronize(f->device, stream, ticket, UINT64_MAX - 1),
                     DDISP_STATUS_OK);
    f->table->stream_destroy(f->device, stream);
}

static void operations_of_a_stream_run_in_order(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    ddisp_backend_memory memory = memory_make(f, stream, 16);
    ddisp_backend_range low = range_of(&memory, 0, 8), high = range_of(&memory, 8, 8);
    uint64_t *words = memory.host_pointer;
    uint64_t three = 3, back[2] = {0, 0};
    words[0] = words[1] = 0;
    queue_store(f, stream, &words[0], 1);
    assert_int_equal(f->table->copy(f->device, stream, &high, &low), DDISP_STATUS_OK); /* .., 1 */
    assert_int_equal(f->table->fill(f->device, stream, &low, 2, 8), DDISP_STATUS_OK);  /* 2, 1 */
    assert_int_equal(f->table->upload(f->device, stream, &low, &three), DDISP_STATUS_OK);
    three = 0;
    assert_false(stream_is_done(f, stream));
    assert_int_equal(words[1], 0);
    gate_open();
    ddisp_backend_range both = range_of(&memory, 0, 16);
    assert_int_equal(f->table->download(f->device, stream, &both, back), DDISP_STATUS_OK);
    assert_int_equal(back[0], 3);
    assert_int_equal(back[1], 1);
    f->table->memory_free(f->device, stream, &memory);
    f->table->stream_destroy(f->device, stream);
}

static void ticket_orders_two_streams(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f), *b = stream_make(f);
    uint64_t words[2] = {0, 0}, ticket;
    ddisp_backend_range low = {NULL, address_of(&words[0]), 8};
    ddisp_backend_range high = {NULL, address_of(&words[1]), 8};
    queue_store(f, a, &words[0], 5);
    assert_int_equal(f->table->stream_mark(f->device, a, &ticket), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_wait(f->device, b, a, ticket), DDISP_STATUS_OK);
    assert_int_equal(f->table->copy(f->device, b, &high, &low), DDISP_STATUS_OK);
    assert_false(stream_is_done(f, b));
    gate_open();
    stream_finish(f, b);
    assert_int_equal(words[1], 5);
    f->table->stream_destroy(f->device, b);
    f->table->stream_destroy(f->device, a);
}

/** Without a wait the second stream does not stand behind the first. */
static void streams_without_a_ticket_are_independent(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f), *b = stream_make(f);
    uint64_t words[2] = {0, 0};
    ddisp_backend_range high = {NULL, address_of(&words[1]), 8};
    queue_store(f, a, &words[0], 5);
    assert_int_equal(f->table->fill(f->device, b, &high, 7, 8), DDISP_STATUS_OK);
    stream_finish(f, b);
    assert_int_equal(words[1], 7);
    assert_false(stream_is_done(f, a));
    gate_open();
    f->table->stream_destroy(f->device, b);
    stream_finish(f, a);
    f->table->stream_destroy(f->device, a);
}

static void own_stream_waits_for_a_ticket(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f);
    for (uint64_t round = 1; round <= 100; round++) {
        uint64_t words[2] = {0, 0}, ticket;
        ddisp_backend_range low = {NULL, address_of(&words[0]), 8};
        ddisp_backend_range high = {NULL, address_of(&words[1]), 8};
        gate_open();
        queue_store(f, a, &words[0], round);
        assert_int_equal(f->table->stream_mark(f->device, a, &ticket), DDISP_STATUS_OK);
        assert_int_equal(f->table->stream_wait(f->device, f->own, a, ticket), DDISP_STATUS_OK);
        assert_int_equal(f->table->copy(f->device, f->own, &high, &low), DDISP_STATUS_OK);
        assert_int_equal(words[1], round);
    }
    f->table->stream_destroy(f->device, a);
}

/** Case 42 in small: memory is freed while a kernel still reads it. */
static void memory_freed_early_stays_until_its_work_is_done(void **state)
{
    const fixture *f = *state;
    enum { BYTES = 512 };
    void *a = stream_make(f), *b = stream_make(f);
    for (int round = 0; round < 50; round++) {
        gate_close();
        ddisp_backend_memory p = memory_make(f, a, BYTES), result = memory_make(f, a, BYTES);
        memset(p.host_pointer, 7, BYTES);
        arguments args = arguments_make(1, p.address, result.address, BYTES);
        assert_int_equal(launch(f, a, copy_behind_gate, &args), DDISP_STATUS_OK);
        f->table->memory_free(f->device, a, &p);
        ddisp_backend_memory q = memory_make(f, b, BYTES);
        assert_int_not_equal(q.address, p.address);
        ddisp_backend_range whole = range_of(&q, 0, BYTES);
        assert_int_equal(f->table->fill(f->device, b, &whole, 9, 1), DDISP_STATUS_OK);
        stream_finish(f, b);
        gate_open();
        stream_finish(f, a);
        for (int i = 0; i < BYTES; i++) {
            assert_int_equal(((const unsigned char *)result.host_pointer)[i], 7);
            assert_int_equal(((const unsigned char *)q.host_pointer)[i], 9);
        }
        f->table->memory_free(f->device, b, &q);
        f->table->memory_free(f->device, a, &result);
    }
    f->table->stream_destroy(f->device, b);
    f->table->stream_destroy(f->device, a);
}

/** Freeing may not need memory: it cannot report that there is none. */
static void memory_is_freed_without_allocating(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f);
    uint64_t value = 0;
    ddisp_backend_memory memory = memory_make(f, a, 64);
    queue_store(f, a, &value, 1);
    int before = atomic_load(&live);
    atomic_store(&fail_allocation, 1);
    f->table->memory_free(f->device, a, &memory);
    assert_int_equal(atomic_load(&fail_allocation), 1);
    assert_int_equal(atomic_load(&live), before);
    atomic_store(&fail_allocation, 0);
    gate_open();
    stream_finish(f, a);
    assert_true(atomic_load(&live) < before);
    f->table->stream_destroy(f->device, a);
}

static void destroyed_stream_still_runs_its_work(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f), *b = stream_make(f);
    uint64_t words[2] = {0, 0}, ticket;
    ddisp_backend_range low = {NULL, address_of(&words[0]), 8};
    ddisp_backend_range high = {NULL, address_of(&words[1]), 8};
    queue_store(f, a, &words[0], 5);
    assert_int_equal(f->table->stream_mark(f->device, a, &ticket), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_wait(f->device, b, a, ticket), DDISP_STATUS_OK);
    f->table->stream_destroy(f->device, a);
    assert_int_equal(f->table->copy(f->device, b, &high, &low), DDISP_STATUS_OK);
    assert_false(stream_is_done(f, b));
    gate_open();
    stream_finish(f, b);
    assert_int_equal(words[1], 5);
    f->table->stream_destroy(f->device, b);
}

static void closing_the_device_drains_destroyed_streams(void **state)
{
    const fixture *f = *state;
    void *second_device, *stream;
    uint64_t value = 0;
    assert_int_equal(f->table->device_open(f->instance, 0, &second_device), DDISP_STATUS_OK);
    const fixture second = {f->table, f->instance, second_device, NULL};
    stream = stream_make(&second);
    queue_store(&second, stream, &value, 6);
    f->table->stream_destroy(second_device, stream);
    gate_open();
    f->table->device_close(second_device);
    assert_int_equal(value, 6);
}

/** Workers of streams that the process has, by their name: sanitizers have threads of their own. */
static int worker_count(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/task");
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        char path[300], name[32] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            count += fgets(name, sizeof name, file) && strcmp(name, "ddisp-stream\n") == 0;
            (void)fclose(file);
        }
    }
    (void)closedir(directory);
    return count;
}

static void stream_starts_its_thread_with_its_first_work(void **state)
{
    const fixture *f = *state;
    while (worker_count() > 0) { /* a joined thread is listed a little longer */
        (void)sched_yield();
    }
    void *a = stream_make(f);
    ddisp_backend_memory memory = memory_make(f, a, 64);
    f->table->memory_free(f->device, a, &memory);
    stream_finish(f, a);
    assert_int_equal(worker_count(), 0);
    uint64_t value = 0;
    queue_store(f, a, &value, 1);
    assert_int_equal(worker_count(), 1);
    gate_open();
    stream_finish(f, a);
    f->table->stream_destroy(f->device, a);
}

/** Makes and destroys streams, which joins the workers that have ended, until live is back. */
static void reap_until(const fixture *f, int expected_live)
{
    while (atomic_load(&live) > expected_live) {
        (void)sched_yield();
        f->table->stream_destroy(f->device, stream_make(f));
    }
}

static void destroyed_streams_are_given_back_while_the_device_lives(void **state)
{
    const fixture *f = *state;
    uint64_t value = 0;
    gate_open();
    queue_store(f, f->own, &value, 1); /* its variant is made here */
    int before = atomic_load(&live);
    for (uint64_t i = 0; i < 50; i++) {
        void *a = stream_make(f);
        queue_store(f, a, &value, i);
        stream_finish(f, a);
        assert_int_equal(value, i);
        f->table->stream_destroy(f->device, a);
    }
    reap_until(f, before);
    assert_int_equal(atomic_load(&live), before);
}

/** Waits until the flag at slot 0 is set. */
static void pass_flag(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    while (!atomic_load((atomic_bool *)argument_pointer(block, 0))) {
        (void)sched_yield();
    }
}

/** A queued wait holds the stream that it waits for, whose worker is long gone when it is run. */
static void waiting_for_a_stream_that_is_gone_is_harmless(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f), *b = stream_make(f);
    uint64_t value = 0, ticket;
    atomic_bool flag = false;
    arguments args = arguments_make(1, address_of(&flag), 0, 0);
    assert_int_equal(launch(f, b, pass_flag, &args), DDISP_STATUS_OK);
    int held = atomic_load(&live); /* with the variant and the launch on b */
    queue_store(f, a, &value, 5);
    assert_int_equal(f->table->stream_mark(f->device, a, &ticket), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_wait(f->device, b, a, ticket), DDISP_STATUS_OK);
    gate_open();
    stream_finish(f, a);
    f->table->stream_destroy(f->device, a);
    reap_until(f, held + 2); /* + the second variant and the wait; a itself is still in held */
    uint64_t probe = 0;
    for (int i = 0; i < 100; i++) { /* reuses a's memory if it was released */
        void *c = stream_make(f);
        queue_store(f, c, &probe, 1);
        stream_finish(f, c);
        f->table->stream_destroy(f->device, c);
    }
    reap_until(f, held + 2);
    assert_int_equal(atomic_load(&live), held + 2);
    atomic_store(&flag, true);
    stream_finish(f, b);
    assert_int_equal(value, 5);
    f->table->stream_destroy(f->device, b);
}

static void failed_wait_and_launch_change_nothing(void **state)
{
    const fixture *f = *state;
    void *a = stream_make(f), *b = stream_make(f);
    uint64_t value = 0, ticket;
    queue_store(f, a, &value, 1); /* its variant is made here */
    assert_int_equal(f->table->stream_mark(f->device, a, &ticket), DDISP_STATUS_OK);
    int before = atomic_load(&live);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->stream_wait(f->device, b, a, ticket), DDISP_STATUS_OUT_OF_MEMORY);
    arguments args = arguments_make(1, address_of(&value), 2, 0);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(launch(f, b, store_behind_gate, &args), DDISP_STATUS_OUT_OF_MEMORY);
    assert_true(stream_is_done(f, b));
    assert_int_equal(atomic_load(&live), before);
    gate_open();
    stream_finish(f, a);
    assert_int_equal(value, 1);
    f->table->stream_destroy(f->device, b);
    f->table->stream_destroy(f->device, a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(work_on_the_own_stream_is_done_on_return),
        TEST(launch_returns_before_its_work),
        TEST(wait_times_out_while_work_is_held_up),
        TEST(operations_of_a_stream_run_in_order),
        TEST(ticket_orders_two_streams),
        TEST(streams_without_a_ticket_are_independent),
        TEST(own_stream_waits_for_a_ticket),
        TEST(memory_freed_early_stays_until_its_work_is_done),
        TEST(memory_is_freed_without_allocating),
        TEST(destroyed_stream_still_runs_its_work),
        TEST(closing_the_device_drains_destroyed_streams),
        TEST(stream_starts_its_thread_with_its_first_work),
        TEST(destroyed_streams_are_given_back_while_the_device_lives),
        TEST(waiting_for_a_stream_that_is_gone_is_harmless),
        TEST(failed_wait_and_launch_change_nothing),
    };
    return cmocka_run_group_tests_name("host stream", tests, NULL, NULL);
}
