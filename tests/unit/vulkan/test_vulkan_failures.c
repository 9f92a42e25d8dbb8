/*
 * test_vulkan_failures.c - the Vulkan backend over a stand-in loader that fails each driver call in
 * turn, loses the device at each, hides what devices have, and delays completion. Whatever fails is
 * said, tried again it works, and nothing is left behind.
 */
#include "vulkan_fixture.h"

#include "fake_vulkan.h"

#include <stdlib.h>

enum { N = 64 };

/** What one run of the scenario holds; released whatever happened. */
typedef struct run {
    fixture f;
    void *variant;
    void *other;
    ddisp_backend_memory memory[4]; /* a, b, y, z */
    ddisp_status first;             /* the first failure */
    char message[1024];
    bool again; /* a failed call is made once more */
    bool fatal; /* and that failed too */
} run;

/** Makes a call; notes its failure and, where wanted, makes it once more. */
#define STEP(r, call)                                                                              \
    do {                                                                                           \
        ddisp_status step_status = (r)->fatal ? DDISP_STATUS_OK : (call);                          \
        if (step_status != DDISP_STATUS_OK) {                                                      \
            note(r, step_status);                                                                  \
            if (!(r)->again || (call) != DDISP_STATUS_OK)                                          \
                (r)->fatal = true;                                                                 \
        }                                                                                          \
    } while (0)

static void note(run *r, ddisp_status status)
{
    if (r->first != DDISP_STATUS_OK)
        return;
    r->first = status;
    (void)snprintf(r->message, sizeof r->message, "%s", last_message);
}

static ddisp_status build(run *r, const code *c)
{
    ddisp_backend_variant wanted = DDISP_ZERO;
    wanted.size = (uint32_t)sizeof wanted;
    wanted.mode = c->entry.mode;
    wanted.code = &c->backend_code;
    wanted.entry = &c->entry;
    wanted.entry_name = "main";
    wanted.switches = UINT64_MAX;
    return r->f.table->variant_build(r->f.device, &wanted, &r->variant);
}

/** Opens the backend, computes z = (a * b) over two streams, reads it. */
static void work(run *r, float found[N])
{
    const ddisp_backend_table *t = r->f.table;
    float a[N], b[N];
    uint64_t ticket = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 2;
    }
    STEP(r, t->open(&services, &r->f.instance));
    STEP(r, t->device_open(r->f.instance, 0, &r->f.device));
    STEP(r, t->stream_create(r->f.device, DDISP_BACKEND_STREAM_DEFAULT, &r->f.own));
    STEP(r, t->stream_create(r->f.device, 0, &r->other));
    for (int i = 0; i < 3; i++)
        STEP(r, t->memory_allocate(r->f.device, r->f.own, N * 4, &r->memory[i]));
    STEP(r, t->memory_allocate(r->f.device, r->other, UINT64_C(17) << 20, &r->memory[3]));
    code c;
    code_init(&c, MUL_FORWARD);
    if (!r->fatal)
        STEP(r, build(r, &c));
    const ddisp_backend_range ra = range_of(&r->memory[0], 0, N * 4);
    const ddisp_backend_range rb = range_of(&r->memory[1], 0, N * 4);
    const ddisp_backend_range ry = range_of(&r->memory[2], 0, N * 4);
    const ddisp_backend_range rz = range_of(&r->memory[3], 0, N * 4);
    const ddisp_backend_range odd = range_of(&r->memory[2], 1, 8);
    STEP(r, t->upload(r->f.device, r->f.own, &ra, a));
    STEP(r, t->upload(r->f.device, r->f.own, &rb, b));
    STEP(r, t->fill(r->f.device, r->f.own, &ry, 0xFF, 1));
    STEP(r, t->fill(r->f.device, r->f.own, &odd, UINT64_C(0x0102030405060708), 8));
    const ddisp_backend_memory *data[3] = {&r->memory[0], &r->memory[1], &r->memory[2]};
    STEP(r, mul_launch(&r->f, r->f.own, r->variant, N, data, NULL, 0));
    STEP(r, t->stream_flush(r->f.device, r->f.own));
    ddisp_backend_range sink = DDISP_ZERO;
    uint64_t physical = 0;
    STEP(r, t->sink_acquire(r->f.device, UINT64_C(8) << 20, 0, &sink, &physical));
    STEP(r, mul_launch(&r->f, r->f.own, r->variant, N, data, NULL, 0));
    STEP(r, t->stream_mark(r->f.device, r->f.own, &ticket));
    STEP(r, t->stream_wait(r->f.device, r->other, r->f.own, ticket));
    STEP(r, t->copy(r->f.device, r->other, &rz, &ry));
    STEP(r, t->download(r->f.device, r->other, &rz, found));
    STEP(r, t->stream_synchronize(r->f.device, r->f.own, ticket, UINT64_MAX));
    ddisp_status ready =
        r->fatal ? DDISP_STATUS_OK : t->stream_query(r->f.device, r->f.own, ticket);
    STEP(r, ready);
}

static void finish(run *r)
{
    const ddisp_backend_table *t = r->f.table;
    void *const streams[2] = {r->f.own, r->other};
    for (int i = 0; i < 2; i++) {
        uint64_t ticket = 0;
        if (streams[i] && t->stream_mark(r->f.device, streams[i], &ticket) == DDISP_STATUS_OK)
            (void)t->stream_synchronize(r->f.device, streams[i], ticket, UINT64_MAX);
    }
    for (int i = 0; i < 4; i++)
        if (r->memory[i].handle)
            t->memory_free(r->f.device, i == 3 ? r->other : r->f.own, &r->memory[i]);
    if (r->variant)
        t->variant_release(r->f.device, r->variant);
    if (r->other)
        t->stream_destroy(r->f.device, r->other);
    if (r->f.own)
        t->stream_destroy(r->f.device, r->f.own);
    if (r->f.device)
        t->device_close(r->f.device);
    if (r->f.instance)
        t->close(r->f.instance);
}

static run run_scenario(const fixture *f, bool again, float found[N])
{
    run r = {.f = {.table = f->table}, .again = again};
    memset(found, 0, N * sizeof *found);
    work(&r, found);
    finish(&r);
    if (atomic_load(&live) != 0)
        fail_msg("%d blocks of host memory are left", atomic_load(&live));
    if (fake_vulkan_live() != 0)
        fail_msg("%llu objects of the driver are left", (unsigned long long)fake_vulkan_live());
    assert_int_equal(fake_vulkan_early_waits(), 0);
    return r;
}

static bool right(const float found[N])
{
    for (int i = 0; i < N; i++)
        if (found[i] != 2.0f * (float)i)
            return false;
    return true;
}

static int setup(void **state)
{
    static fixture f;
    f.table = plugin_table();
    *state = &f;
    return 0;
}

/** Skips where there is no device behind the stand-in. */
static fixture *prepared(void **state)
{
    fixture *f = *state;
    void *instance = NULL;
    fake_vulkan_reset();
    ddisp_status status = f->table->open(&services, &instance);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE) {
        print_message("# skipped: %s\n", last_message);
        skip();
    }
    assert_ok(status);
    f->table->close(instance);
    fake_vulkan_reset();
    return f;
}

static void nothing_fails_by_itself(void **state)
{
    const fixture *f = prepared(state);
    float found[N];
    run r = run_scenario(f, false, found);
    if (r.first != DDISP_STATUS_OK)
        fail_msg("status %u: %s", r.first, r.message);
    assert_true(right(found));
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
    const fixture *f = prepared(state);
    static const int results[] = {-1, -2, -3}; /* host memory, device memory, initialization */
    for (size_t k = 0; k < sizeof results / sizeof results[0]; k++) {
        uint64_t nth = 1;
        for (;; nth++) {
            float found[N];
            fake_vulkan_reset();
            fake_vulkan_fail_at(nth, results[k]);
            run r = run_scenario(f, true, found);
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
            if (!r.fatal && !right(found))
                fail_msg("call %llu, %s, failed with %d: the result is wrong",
                         (unsigned long long)nth, failed, results[k]);
        }
        assert_true(nth > 40);
    }
}

static void the_device_can_be_lost_at_every_call(void **state)
{
    const fixture *f = prepared(state);
    uint64_t nth = 1;
    for (;; nth++) {
        float found[N];
        fake_vulkan_reset();
        fake_vulkan_lose_at(nth);
        run r = run_scenario(f, false, found);
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
    const fixture *f = prepared(state);
    const ddisp_backend_table *t = f->table;
    run r = {.f = {.table = t}};
    float found[N];
    work(&r, found);
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
    finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
    assert_int_equal(fake_vulkan_calls_after_loss(), 0);
    run second = run_scenario(f, false, found);
    assert_int_equal(second.first, DDISP_STATUS_OK);
    assert_true(right(found));
}

static void a_loss_that_no_wait_tells_of_is_found(void **state)
{
    const fixture *f = prepared(state);
    const ddisp_backend_table *t = f->table;
    run r = {.f = {.table = t}};
    float found[N];
    uint64_t ticket = 0;
    work(&r, found);
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
    finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

static void what_work_may_still_use_is_not_given_away(void **state)
{
    const fixture *f = prepared(state);
    const ddisp_backend_table *t = f->table;
    run r = {.f = {.table = t}};
    float found[N];
    work(&r, found);
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
    finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
}

static void without_float_atomics_only_the_other_code_fits(void **state)
{
    const fixture *f = prepared(state);
    fake_vulkan_hide("VK_EXT_shader_atomic_float,VK_EXT_shader_atomic_float2");
    run r = {.f = {.table = f->table}};
    assert_ok(f->table->open(&services, &r.f.instance));
    r.f.info.size = (uint32_t)sizeof r.f.info;
    assert_ok(f->table->device_describe(r.f.instance, 0, &r.f.info));
    assert_int_equal(r.f.info.atomic_add_f32, DDISP_SUPPORT_EMULATED);
    assert_int_equal(r.f.info.flags & DDISP_DEVICE_FLAG_FAKE, DDISP_DEVICE_FLAG_FAKE);
    assert_ok(f->table->device_open(r.f.instance, 0, &r.f.device));
    code c;
    code_init(&c, MUL_BACKWARD_NATIVE);
    assert_int_equal(f->table->code_fits(r.f.device, &c.backend_code), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "AtomicFloat32AddEXT"));
    assert_non_null(strstr(last_message, "compares and swaps would fit"));
    code_init(&c, MUL_BACKWARD_SWAP);
    assert_ok(f->table->code_fits(r.f.device, &c.backend_code));
    finish(&r);
}

static void a_device_of_vulkan_1_2_serves(void **state)
{
    const fixture *f = prepared(state);
    float found[N];
    fake_vulkan_hide("vulkan1.3");
    run r = run_scenario(f, false, found);
    if (r.first != DDISP_STATUS_OK)
        fail_msg("status %u: %s", r.first, r.message);
    assert_true(right(found));
    run again = {.f = {.table = f->table}};
    assert_ok(f->table->open(&services, &again.f.instance));
    assert_ok(f->table->device_open(again.f.instance, 0, &again.f.device));
    uint64_t size_bytes;
    const void *bytes = mul_bytes(MUL_FORWARD, &size_bytes);
    uint32_t *words = malloc(size_bytes);
    assert_non_null(words);
    memcpy(words, bytes, size_bytes);
    code c;
    code_init(&c, MUL_FORWARD);
    code_set_bytes(&c, words, size_bytes);
    assert_ok(f->table->code_fits(again.f.device, &c.backend_code));
    words[1] = 0x00010600; /* SPIR-V 1.6 comes with Vulkan 1.3 */
    assert_int_equal(f->table->code_fits(again.f.device, &c.backend_code),
                     DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "SPIR-V 1.6"));
    free(words);
    finish(&again);
}

static void devices_that_lack_a_requirement_are_left_out(void **state)
{
    const fixture *f = prepared(state);
    static const char *const needed[][2] = {{"bufferDeviceAddress", "bufferDeviceAddress"},
                                            {"timelineSemaphore", "timelineSemaphore"},
                                            {"shaderInt64", "shaderInt64"},
                                            {"vulkan1.2", "offers Vulkan 1.1, 1.2 is needed"}};
    for (int i = 0; i < 4; i++) {
        void *instance = NULL;
        fake_vulkan_hide(needed[i][0]);
        assert_int_equal(f->table->open(&services, &instance), DDISP_STATUS_BACKEND_UNAVAILABLE);
        assert_non_null(strstr(last_message, needed[i][1]));
        assert_null(instance);
    }
    fake_vulkan_reset();
    assert_int_equal(fake_vulkan_live(), 0);
}

static void nothing_grows_with_the_number_of_calls(void **state)
{
    const fixture *f = prepared(state);
    const ddisp_backend_table *t = f->table;
    run r = {.f = {.table = t}};
    float found[N];
    work(&r, found);
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
    finish(&r);
    assert_int_equal(fake_vulkan_live(), 0);
    assert_int_equal(fake_vulkan_early_waits(), 0);
}

static void trimming_gives_empty_blocks_back(void **state)
{
    const fixture *f = prepared(state);
    const ddisp_backend_table *t = f->table;
    run r = {.f = {.table = t}};
    float found[N];
    work(&r, found);
    assert_false(r.fatal);
    for (int i = 0; i < 4; i++)
        t->memory_free(r.f.device, i == 3 ? r.other : r.f.own, &r.memory[i]);
    stream_finish(&r.f, r.other);
    stream_finish(&r.f, r.f.own);
    const uint64_t before = fake_vulkan_calls("vkFreeMemory");
    assert_ok(t->memory_trim(r.f.device));
    assert_int_equal(fake_vulkan_calls("vkFreeMemory"), before + 1); /* the shared block */
    finish(&r);
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
        cmocka_unit_test(without_float_atomics_only_the_other_code_fits),
        cmocka_unit_test(a_device_of_vulkan_1_2_serves),
        cmocka_unit_test(devices_that_lack_a_requirement_are_left_out),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
