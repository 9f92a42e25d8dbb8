/*
 * test_vulkan_failures.c - the Vulkan backend over a stand-in loader that fails each driver call in
 * turn, loses the device at each, and delays completion. Whatever fails is said, tried again it
 * works, and nothing is left behind.
 */
#include "vulkan_scenario.h"

enum { N = SCENARIO_COUNT };

static void nothing_fails_by_itself(void **state)
{
    const fixture *f = scenario_prepared(state);
    float found[N];
    scenario r = scenario_run(f, false, found);
    if (r.first != DDISP_STATUS_OK)
        fail_msg("status %u: %s", r.first, r.message);
    assert_true(scenario_right(found));
    assert_true(fake_vulkan_calls("vkQueueSubmit") >= 3);
    assert_int_equal(fake_vulkan_calls("vkCmdDispatch"), 2);
}

/** What only asks may; and where device memory is short, less of it may be found. */
static bool may_fail_unseen(const char *function, int result)
{
    static const char *const asking[] = {"vkGetSemaphoreCounterValue", "vkDeviceWaitIdle",
                                         "vkSetDebugUtilsObjectNameEXT"};
    static const char *const allocating[] = {"vkCreateBuffer", "vkAllocateMemory",
                                             "vkBindBufferMemory", "vkMapMemory"};
    for (int i = 0; i < 3; i++)
        if (strcmp(function, asking[i]) == 0)
            return true;
    for (int i = 0; i < 4; i++)
        if (result == -2 && strcmp(function, allocating[i]) == 0)
            return true;
    return false;
}

static void every_call_can_fail_once(void **state)
{
    const fixture *f = scenario_prepared(state);
    static const int results[] = {-1, -2, -3}; /* host memory, device memory, initialization */
    for (size_t k = 0; k < sizeof results / sizeof results[0]; k++) {
        uint64_t nth = 1;
        for (;; nth++) {
            float found[N];
            fake_vulkan_reset();
            fake_vulkan_fail_at(nth, results[k]);
            scenario r = scenario_run(f, true, found);
            const char *failed = fake_vulkan_failed();
            if (!failed)
                break;
            if (r.first == DDISP_STATUS_OK) {
                bool unseen = may_fail_unseen(failed, results[k]);
                if (!unseen)
                    fail_msg("call %llu, %s, failed with %d and nobody said so",
                             (unsigned long long)nth, failed, results[k]);
            } else if (!strstr(r.message, failed)) {
                fail_msg("call %llu: %s failed, the message is: %s", (unsigned long long)nth,
                         failed, r.message);
            }
            /* Commands whose recording could not be ended are gone; their stream says so. */
            bool lost_work = strcmp(failed, "vkEndCommandBuffer") == 0;
            if (r.fatal != lost_work)
                fail_msg("call %llu, %s, failed with %d: tried again it gave: %s",
                         (unsigned long long)nth, failed, results[k], last_message);
            if (!r.fatal && !scenario_right(found))
                fail_msg("call %llu, %s, failed with %d: the result is wrong",
                         (unsigned long long)nth, failed, results[k]);
        }
        assert_true(nth > 40);
    }
}

static void the_device_can_be_lost_at_every_call(void **state)
{
    const fixture *f = scenario_prepared(state);
    uint64_t nth = 1;
    for (;; nth++) {
        float found[N];
        fake_vulkan_reset();
        fake_vulkan_lose_at(nth);
        scenario r = scenario_run(f, false, found);
        const char *lost = fake_vulkan_lost();
        if (!lost)
            break;
        /* What happens while closing may pass unsaid. */
        if (r.first != DDISP_STATUS_DEVICE_LOST && strcmp(lost, "vkDeviceWaitIdle") != 0 &&
            strcmp(lost, "vkGetSemaphoreCounterValue") != 0)
            fail_msg("lost at call %llu, %s: status %u, %s", (unsigned long long)nth, lost, r.first,
                     r.message);
        if (fake_vulkan_calls_after_loss() != 0)
            fail_msg("lost at call %llu, %s: %llu calls reached the driver afterwards",
                     (unsigned long long)nth, lost,
                     (unsigned long long)fake_vulkan_calls_after_loss());
    }
    assert_true(nth > 30);
}

static void case_44_a_lost_device_says_so_at_once_and_can_be_opened_anew(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    float found[N];
    scenario_work(&r, found);
    assert_false(r.fatal);
    fake_vulkan_lose_at(1);
    ddisp_backend_range range = range_of(&r.memory[0], 0, 4);
    uint32_t value = 0;
    uint64_t ticket = 0;
    assert_int_equal(t->download(r.f.device, r.f.own, &range, &value), DDISP_STATUS_DEVICE_LOST);
    assert_non_null(strstr(last_message, "VK_ERROR_DEVICE_LOST"));
    const uint64_t calls = fake_vulkan_calls(NULL);
    const ddisp_backend_memory *data[3] = {&r.memory[0], &r.memory[1], &r.memory[2]};
    ddisp_backend_memory more = DDISP_ZERO;
    void *stream = NULL;
    assert_int_equal(mul_launch(&r.f, r.f.own, r.variant, N, data, NULL, 0),
                     DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_synchronize(r.f.device, r.f.own, 1, UINT64_MAX),
                     DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_query(r.f.device, r.f.own, 1), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_mark(r.f.device, r.f.own, &ticket), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_flush(r.f.device, r.f.own), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_wait(r.f.device, r.other, r.f.own, 1), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->stream_create(r.f.device, 0, &stream), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->memory_allocate(r.f.device, r.f.own, 64, &more), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->memory_import(r.f.device, 4096, 64, &more), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->upload(r.f.device, r.f.own, &range, &value), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->fill(r.f.device, r.f.own, &range, 0, 4), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(t->copy(r.f.device, r.f.own, &range, &range), DDISP_STATUS_DEVICE_LOST);
    code c;
    code_init(&c, MUL_FORWARD);
    ddisp_backend_variant wanted = {.size = (uint32_t)sizeof wanted,
                                    .mode = DDISP_MODE_FORWARD,
                                    .code = &c.backend_code,
                                    .entry = &c.entry,
                                    .entry_name = "main"};
    void *variant = NULL;
    assert_int_equal(t->variant_build(r.f.device, &wanted, &variant), DDISP_STATUS_DEVICE_LOST);
    assert_int_equal(fake_vulkan_calls(NULL), calls);
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
    assert_int_equal(fake_vulkan_calls_after_loss(), 0);
    scenario second = scenario_run(f, false, found);
    assert_int_equal(second.first, DDISP_STATUS_OK);
    assert_true(scenario_right(found));
}

static void a_loss_that_no_wait_tells_of_is_found(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    float found[N];
    uint64_t ticket = 0;
    scenario_work(&r, found);
    assert_false(r.fatal);
    assert_ok(t->stream_mark(r.f.device, r.f.own, &ticket));
    assert_ok(t->stream_synchronize(r.f.device, r.f.own, ticket, UINT64_MAX));
    ddisp_backend_range range = range_of(&r.memory[0], 0, 4);
    assert_ok(t->fill(r.f.device, r.f.own, &range, 0, 4));
    assert_ok(t->stream_mark(r.f.device, r.f.own, &ticket));
    assert_ok(t->stream_flush(r.f.device, r.f.own));
    fake_vulkan_hold(1);
    assert_int_equal(t->stream_synchronize(r.f.device, r.f.own, ticket, 1000),
                     DDISP_STATUS_TIMEOUT);
    fake_vulkan_lose_at(2); /* behind the wait */
    assert_int_equal(t->stream_synchronize(r.f.device, r.f.own, ticket, 1000),
                     DDISP_STATUS_DEVICE_LOST);
    assert_string_equal(fake_vulkan_lost(), "vkQueueSubmit");
    fake_vulkan_hold(0);
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

static void what_work_may_still_use_is_not_given_away(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    float found[N];
    scenario_work(&r, found);
    assert_false(r.fatal);
    fake_vulkan_hold(1);
    uint64_t ticket = 0, freed = r.memory[0].address;
    ddisp_backend_range range = range_of(&r.memory[0], 0, 4);
    assert_ok(t->fill(r.f.device, r.f.own, &range, 0, 4));
    t->memory_free(r.f.device, r.f.own, &r.memory[0]);
    assert_ok(t->stream_mark(r.f.device, r.f.own, &ticket));
    assert_int_equal(t->stream_query(r.f.device, r.f.own, ticket), DDISP_STATUS_NOT_READY);
    assert_int_equal(t->stream_synchronize(r.f.device, r.f.own, ticket, 1000),
                     DDISP_STATUS_TIMEOUT);
    ddisp_backend_memory elsewhere = memory_make(&r.f, r.other, N * 4);
    assert_int_not_equal(elsewhere.address, freed);
    ddisp_backend_memory here = memory_make(&r.f, r.f.own, N * 4); /* in order, so at once */
    assert_int_equal(here.address, freed);
    t->memory_free(r.f.device, r.f.own, &here);
    fake_vulkan_hold(0);
    stream_finish(&r.f, r.f.own);
    here = memory_make(&r.f, r.other, N * 4);
    assert_int_equal(here.address, freed);
    t->memory_free(r.f.device, r.other, &here);
    t->memory_free(r.f.device, r.other, &elsewhere);
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

static void nothing_grows_with_the_number_of_calls(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    float found[N];
    scenario_work(&r, found);
    assert_false(r.fatal);
    const ddisp_backend_memory *data[3] = {&r.memory[0], &r.memory[1], &r.memory[2]};
    uint64_t objects = 0;
    int blocks = 0;
    for (int call = 1; call <= 3000; call++) {
        void *stream = stream_make(&r.f);
        ddisp_backend_memory small = memory_make(&r.f, r.f.own, 1000);
        ddisp_backend_memory large = memory_make(&r.f, stream, UINT64_C(17) << 20);
        ddisp_backend_range range = range_of(&large, 0, 64);
        assert_ok(mul_launch(&r.f, r.f.own, r.variant, N, data, NULL, 0));
        assert_ok(t->fill(r.f.device, stream, &range, 0, 4));
        t->memory_free(r.f.device, stream, &large);
        t->memory_free(r.f.device, r.f.own, &small);
        stream_finish(&r.f, stream);
        t->stream_destroy(r.f.device, stream);
        if (call % 100 == 0)
            stream_finish(&r.f, r.f.own);
        if (call == 1000) {
            objects = fake_vulkan_live();
            blocks = atomic_load(&live);
        }
    }
    assert_int_equal(fake_vulkan_live(), objects);
    assert_int_equal(atomic_load(&live), blocks);
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
    assert_int_equal(fake_vulkan_early_waits(), 0);
}

static void trimming_gives_empty_blocks_back(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    float found[N];
    scenario_work(&r, found);
    assert_false(r.fatal);
    for (int i = 0; i < 4; i++)
        t->memory_free(r.f.device, i == 3 ? r.other : r.f.own, &r.memory[i]);
    stream_finish(&r.f, r.other);
    stream_finish(&r.f, r.f.own);
    const uint64_t before = fake_vulkan_calls("vkFreeMemory");
    assert_ok(t->memory_trim(r.f.device));
    assert_int_equal(fake_vulkan_calls("vkFreeMemory"), before + 1); /* the shared block */
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

/* ---- deterministic sums, whose memory is known to be zero from one time to the next */

enum { CELLS = 4096 };

static ddisp_backend_tensor line(const ddisp_backend_memory *memory, ddisp_dtype dtype, int64_t n)
{
    return (ddisp_backend_tensor){.range = range_of(memory, 0, (uint64_t)n * 4),
                                  .address = memory->address,
                                  .dtype = dtype,
                                  .rank = 1,
                                  .shape = {n},
                                  .strides = {1}};
}

/** Adds 1 to cells 0 to N - 1 of a destination of CELLS. */
static ddisp_status add_ones(const fixture *f, void *stream, const ddisp_backend_memory *to,
                             const ddisp_backend_memory *index, const ddisp_backend_memory *ones)
{
    const ddisp_backend_range none = DDISP_ZERO;
    ddisp_backend_tensor destination = line(to, DDISP_DTYPE_F32, N);
    destination.range = range_of(to, 0, CELLS * 4);
    const ddisp_backend_tensor where = line(index, DDISP_DTYPE_I32, N);
    const ddisp_backend_tensor source = line(ones, DDISP_DTYPE_F32, N);
    return f->table->scatter_add(f->device, stream, &destination, 0, CELLS, &where, &source, &none,
                                 DDISP_BACKEND_ACCUMULATE_DETERMINISTIC);
}

static void sums_that_lost_work_should_have_zeroed_begin_at_zero(void **state)
{
    const fixture *f = scenario_prepared(state);
    const ddisp_backend_table *t = f->table;
    scenario r = {.f = {.table = t}};
    static float found[CELLS];
    float ones[N];
    int32_t places[N];
    scenario_work(&r, found);
    assert_false(r.fatal);
    ddisp_backend_memory data[3];
    for (int i = 0; i < 3; i++)
        data[i] = memory_make(&r.f, r.f.own, CELLS * 4);
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
        places[i] = i;
    }
    upload(&r.f, r.f.own, &data[1], 0, places, sizeof places);
    upload(&r.f, r.f.own, &data[2], 0, ones, sizeof ones);
    stream_finish(&r.f, r.f.own);

    void *stream = stream_make(&r.f); /* its free memory is no zeros */
    ddisp_backend_memory soiled = memory_make(&r.f, stream, CELLS * 8 + 256);
    const ddisp_backend_range all = range_of(&soiled, 0, CELLS * 8 + 256);
    assert_ok(t->fill(r.f.device, stream, &all, 0xFF, 1));
    stream_finish(&r.f, stream);
    t->memory_free(r.f.device, stream, &soiled);
    assert_ok(add_ones(&r.f, stream, &data[0], &data[1], &data[2]));
    fake_vulkan_reset();
    fake_vulkan_fail("vkEndCommandBuffer", 1, -1);
    assert_int_not_equal(t->stream_flush(r.f.device, stream), DDISP_STATUS_OK);
    assert_string_equal(fake_vulkan_failed(), "vkEndCommandBuffer");
    t->stream_destroy(r.f.device, stream);

    stream = stream_make(&r.f); /* it has the same memory */
    const ddisp_backend_range cells = range_of(&data[0], 0, CELLS * 4);
    assert_ok(t->fill(r.f.device, stream, &cells, 0, 4));
    assert_ok(add_ones(&r.f, stream, &data[0], &data[1], &data[2]));
    download(&r.f, stream, &data[0], 0, found, sizeof found);
    for (int i = 0; i < CELLS; i++)
        if (found[i] != (i < N ? 1.0f : 0.0f))
            fail_msg("cell %d is %g", i, (double)found[i]);
    stream_finish(&r.f, stream);
    t->stream_destroy(r.f.device, stream);
    for (int i = 0; i < 3; i++)
        t->memory_free(r.f.device, r.f.own, &data[i]);
    scenario_finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails_by_itself),
        cmocka_unit_test(every_call_can_fail_once),
        cmocka_unit_test(the_device_can_be_lost_at_every_call),
        cmocka_unit_test(case_44_a_lost_device_says_so_at_once_and_can_be_opened_anew),
        cmocka_unit_test(a_loss_that_no_wait_tells_of_is_found),
        cmocka_unit_test(what_work_may_still_use_is_not_given_away),
        cmocka_unit_test(nothing_grows_with_the_number_of_calls),
        cmocka_unit_test(trimming_gives_empty_blocks_back),
        cmocka_unit_test(sums_that_lost_work_should_have_zeroed_begin_at_zero),
    };
    return cmocka_run_group_tests(tests, scenario_setup, NULL);
}
