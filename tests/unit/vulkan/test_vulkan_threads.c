/*
 * test_vulkan_threads.c - the Vulkan backend used by many threads at once, each with a stream of
 * its own, as its contract allows. Also run under the thread sanitizer by hand.
 */
#include "vulkan_fixture.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, N = 64 };

/** One thread's part. cmocka's asserts work in the main thread only, so failures are noted. */
typedef struct part {
    const fixture *f;
    void *stream;
    void *variant;
    const ddisp_backend_memory *data[3];
    const ddisp_backend_memory *gradients[3];
    uint32_t seed;
    ddisp_status status;
    bool wrong;
} part;

static void run_parts(part *parts, void *(*function)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, function, &parts[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        if (parts[i].status != DDISP_STATUS_OK)
            fail_msg("thread %d: status %u: %s", i, parts[i].status, last_message);
        assert_false(parts[i].wrong);
    }
}

static void *launch_thousand(void *argument)
{
    part *p = argument;
    for (int i = 0; i < 1000 && p->status == DDISP_STATUS_OK; i++)
        p->status = mul_launch(p->f, p->stream, p->variant, N, p->data, p->gradients, 0);
    return NULL;
}

static void case_38_eight_threads_launch_on_one_device(void **state)
{
    fixture *f = fixture_of(state);
    float ones[N], found[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    void *variant = variant_make(f, &c, 3);
    ddisp_backend_memory one = memory_make(f, f->own, sizeof ones);
    ddisp_backend_memory ga = memory_make(f, f->own, sizeof ones); /* of all threads together */
    ddisp_backend_range range = range_of(&ga, 0, sizeof ones);
    upload(f, f->own, &one, 0, ones, sizeof ones);
    assert_ok(f->table->fill(f->device, f->own, &range, 0, 4));
    uint64_t ticket = 0;
    assert_ok(f->table->stream_mark(f->device, f->own, &ticket));
    static part parts[THREADS];
    ddisp_backend_memory gb[THREADS];
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < THREADS; i++) {
        part *p = &parts[i];
        p->f = f;
        p->stream = stream_make(f);
        p->variant = variant;
        gb[i] = memory_make(f, p->stream, sizeof ones);
        assert_ok(f->table->stream_wait(f->device, p->stream, f->own, ticket));
        range = range_of(&gb[i], 0, sizeof ones);
        assert_ok(f->table->fill(f->device, p->stream, &range, 0, 4));
        p->data[0] = p->data[1] = &one;
        p->gradients[0] = &ga;
        p->gradients[1] = &gb[i];
        p->gradients[2] = &one;
    }
    run_parts(parts, launch_thousand);
    for (int i = 0; i < THREADS; i++) {
        download(f, parts[i].stream, &gb[i], 0, found, sizeof found);
        for (int k = 0; k < N; k++)
            assert_true(found[k] == 1000);
        assert_ok(f->table->stream_mark(f->device, parts[i].stream, &ticket));
        assert_ok(f->table->stream_wait(f->device, f->own, parts[i].stream, ticket));
    }
    download(f, f->own, &ga, 0, found, sizeof found);
    for (int k = 0; k < N; k++)
        assert_true(found[k] == 1000 * THREADS);
    for (int i = 0; i < THREADS; i++) {
        f->table->memory_free(f->device, parts[i].stream, &gb[i]);
        f->table->stream_destroy(f->device, parts[i].stream);
    }
    f->table->memory_free(f->device, f->own, &ga);
    f->table->memory_free(f->device, f->own, &one);
    f->table->variant_release(f->device, variant);
}

/** Allocates, writes, reads and frees, in sizes by chance; makes and destroys streams. */
static void *use_memory(void *argument)
{
    part *p = argument;
    const ddisp_backend_table *t = p->f->table;
    void *device = p->f->device;
    uint8_t data[3000], found[3000];
    for (int i = 0; i < 200 && p->status == DDISP_STATUS_OK && !p->wrong; i++) {
        void *stream = NULL;
        ddisp_backend_memory memory = DDISP_ZERO;
        p->seed = p->seed * 1664525 + 1013904223;
        uint64_t size = 1 + (p->seed >> 8) % sizeof data;
        memset(data, (int)(p->seed >> 24), size);
        p->status = t->stream_create(device, 0, &stream);
        if (p->status != DDISP_STATUS_OK)
            break;
        p->status = t->memory_allocate(device, stream, size, &memory);
        if (p->status == DDISP_STATUS_OK) {
            ddisp_backend_range range = range_of(&memory, 0, size);
            p->status = t->upload(device, stream, &range, data);
            if (p->status == DDISP_STATUS_OK)
                p->status = t->download(device, stream, &range, found);
            p->wrong = p->status == DDISP_STATUS_OK && memcmp(data, found, size) != 0;
            if (p->status == DDISP_STATUS_OK) /* work that may still be pending */
                p->status = t->fill(device, stream, &range, p->seed, 1);
            t->memory_free(device, stream, &memory);
        }
        t->stream_destroy(device, stream);
    }
    return NULL;
}

static void many_threads_share_the_memory(void **state)
{
    fixture *f = fixture_of(state);
    static part parts[THREADS];
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < THREADS; i++) {
        parts[i].f = f;
        parts[i].seed = (uint32_t)i + 1;
    }
    run_parts(parts, use_memory);
}

/** Builds and releases variants. */
static void *build_variants(void *argument)
{
    part *p = argument;
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    for (int i = 0; i < 10 && p->status == DDISP_STATUS_OK; i++) {
        ddisp_backend_code_info found = {.size = (uint32_t)sizeof found};
        p->status = p->f->table->inspect(&services, &c.backend_code, &found);
        ddisp_backend_variant wanted = {.size = (uint32_t)sizeof wanted,
                                        .mode = DDISP_MODE_BACKWARD,
                                        .code = &c.backend_code,
                                        .entry = &c.entry,
                                        .entry_name = "main",
                                        .switches = ~UINT64_C(3) | p->seed % 4,
                                        .switch_mask = found.switch_mask};
        void *variant = NULL;
        if (p->status == DDISP_STATUS_OK)
            p->status = p->f->table->variant_build(p->f->device, &wanted, &variant);
        if (p->status == DDISP_STATUS_OK)
            p->f->table->variant_release(p->f->device, variant);
    }
    return NULL;
}

static void many_threads_build_variants(void **state)
{
    fixture *f = fixture_of(state);
    static part parts[THREADS];
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < THREADS; i++) {
        parts[i].f = f;
        parts[i].seed = (uint32_t)i;
    }
    run_parts(parts, build_variants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_38_eight_threads_launch_on_one_device),
        cmocka_unit_test(many_threads_share_the_memory),
        cmocka_unit_test(many_threads_build_variants),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
