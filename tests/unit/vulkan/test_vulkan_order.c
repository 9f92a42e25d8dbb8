/*
 * test_vulkan_order.c - barriers and waits that the Vulkan backend records, seen by a stand-in
 * loader that counts: one where commands depend on each other, none where they do not. Software
 * devices run everything in order, so results alone could not tell.
 */
#include "vulkan_fixture.h"

#include "fake_vulkan.h"

enum { N = 64, BYTES = N * 4 };

static int setup(void **state)
{
    fake_vulkan_reset();
    return fixture_open(state);
}

static uint64_t barriers(void)
{
    return fake_vulkan_calls("vkCmdPipelineBarrier");
}

/** Barriers that one more launch with these accesses records. */
static uint64_t barriers_of(const fixture *f, void *variant, const ddisp_backend_access *accesses,
                            uint32_t count)
{
    mul_block block = DDISP_ZERO; /* of no items: the kernel touches nothing */
    block.head.abi = DDISP_BLOCK_ABI;
    block.head.size_bytes = (uint32_t)sizeof block;
    ddisp_backend_launch launch = DDISP_ZERO;
    launch.size = (uint32_t)sizeof launch;
    launch.block_size_bytes = (uint32_t)sizeof block;
    launch.variant = variant;
    launch.block = &block;
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.accesses = accesses;
    launch.access_count = count;
    const uint64_t before = barriers();
    assert_ok(f->table->launch(f->device, f->own, &launch));
    return barriers() - before;
}

static void barriers_stand_between_dependent_commands_only(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(f, &c, UINT64_MAX);
    ddisp_backend_memory m = memory_make(f, f->own, 4 * BYTES);
    stream_finish(f, f->own);
    const ddisp_backend_access read0 = {.range = range_of(&m, 0, BYTES)};
    const ddisp_backend_access write0 = {.range = range_of(&m, 0, BYTES), .writes = 1};
    const ddisp_backend_access last0 = {.range = range_of(&m, BYTES - 1, 1), .writes = 1};
    const ddisp_backend_access write1 = {.range = range_of(&m, BYTES, BYTES), .writes = 1};
    const ddisp_backend_access sink0 = {.range = range_of(&m, 0, BYTES), .writes = 2};
    const ddisp_backend_access none = {.range = range_of(&m, 0, 0), .writes = 1};

    assert_int_equal(barriers_of(f, variant, &read0, 1), 0);
    assert_int_equal(barriers_of(f, variant, &read0, 1), 0);  /* reads beside reads */
    assert_int_equal(barriers_of(f, variant, &write1, 1), 0); /* elsewhere */
    assert_int_equal(barriers_of(f, variant, &write0, 1), 1); /* write behind reads */
    assert_int_equal(barriers_of(f, variant, &write1, 1), 0); /* that was ordered already */
    assert_int_equal(barriers_of(f, variant, &read0, 1), 1);  /* read behind write */
    assert_int_equal(barriers_of(f, variant, &read0, 1), 0);
    assert_int_equal(barriers_of(f, variant, &last0, 1), 1);  /* the last byte */
    assert_int_equal(barriers_of(f, variant, &write0, 1), 1); /* write behind write */
    assert_int_equal(barriers_of(f, variant, &sink0, 1), 0);  /* nothing depends on a sink */
    assert_int_equal(barriers_of(f, variant, &sink0, 1), 0);
    assert_int_equal(barriers_of(f, variant, &none, 1), 0);
    assert_int_equal(barriers_of(f, variant, NULL, 0), 1); /* may touch anything */
    assert_int_equal(barriers_of(f, variant, &write1, 1), 1);
    const ddisp_backend_access both[2] = {write1, read0};
    assert_int_equal(barriers_of(f, variant, both, 2), 1);

    stream_finish(f, f->own);
    f->table->memory_free(f->device, f->own, &m);
    f->table->variant_release(f->device, variant);
}

/** Ranges of every relation to each other, beside a list of what was touched since the last
 * barrier, cell by cell. */
static void ranges_are_known_exactly(void **state)
{
    enum { CELLS = 64, LAUNCHES = 3000 };
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(f, &c, UINT64_MAX);
    ddisp_backend_memory m = memory_make(f, f->own, CELLS * 4);
    uint64_t reads = 0, writes = 0, random = 88172645463325252u;
    uint32_t expected = 0;
    stream_finish(f, f->own);
    for (int i = 0; i < LAUNCHES; i++) {
        ddisp_backend_access accesses[3] = DDISP_ZERO;
        uint64_t read_here = 0, written_here = 0;
        for (int k = 0; k < 3; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t begin = random % CELLS, count = 1 + (random >> 16) % 5;
            if (begin + count > CELLS)
                count = CELLS - begin;
            accesses[k].range = range_of(&m, begin * 4, count * 4);
            accesses[k].writes = (random >> 32) % 8 == 0;
            uint64_t cells = ((UINT64_C(1) << count) - 1) << begin;
            *(accesses[k].writes ? &written_here : &read_here) |= cells;
        }
        bool waits = (read_here & writes) || (written_here & (reads | writes));
        if (waits)
            reads = writes = 0;
        reads |= read_here;
        writes |= written_here;
        expected += waits;
        if (barriers_of(f, variant, accesses, 3) != (waits ? 1u : 0u))
            fail_msg("launch %d: %s was expected", i, waits ? "a barrier" : "no barrier");
        if (i % 32 == 0) /* a full batch ends with a barrier of its own */
            assert_ok(f->table->stream_flush(f->device, f->own));
    }
    assert_in_range(expected, LAUNCHES / 10, LAUNCHES * 9 / 10);
    stream_finish(f, f->own);
    f->table->memory_free(f->device, f->own, &m);
    f->table->variant_release(f->device, variant);
}

static void order_outlives_a_submission(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(f, &c, UINT64_MAX);
    ddisp_backend_memory m = memory_make(f, f->own, BYTES);
    const ddisp_backend_access write = {.range = range_of(&m, 0, BYTES), .writes = 1};
    (void)barriers_of(f, variant, &write, 1);
    assert_ok(f->table->stream_flush(f->device, f->own));
    assert_int_equal(barriers_of(f, variant, &write, 1), 1);
    /* More ranges than are kept: what is not known is taken to depend. */
    ddisp_backend_memory many = memory_make(f, f->own, 256 * BYTES);
    for (uint32_t i = 0; i < 200; i++) {
        const ddisp_backend_access part = {.range = range_of(&many, i * BYTES, 4), .writes = 1};
        (void)barriers_of(f, variant, &part, 1);
    }
    const ddisp_backend_access first = {.range = range_of(&many, 0, 256 * BYTES)};
    assert_int_equal(barriers_of(f, variant, &first, 1), 1);
    stream_finish(f, f->own);
    f->table->memory_free(f->device, f->own, &many);
    f->table->memory_free(f->device, f->own, &m);
    f->table->variant_release(f->device, variant);
}

static void copies_and_fills_are_ordered_too(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_memory a = memory_make(f, f->own, BYTES), b = memory_make(f, f->own, BYTES);
    ddisp_backend_range ra = range_of(&a, 0, BYTES), rb = range_of(&b, 0, BYTES);
    uint8_t data[BYTES] = {0};
    stream_finish(f, f->own);
    uint64_t before = barriers();
    assert_ok(f->table->fill(f->device, f->own, &ra, 1, 4));
    uint64_t first = barriers();
    assert_ok(f->table->fill(f->device, f->own, &rb, 2, 4));
    assert_int_equal(barriers(), first); /* elsewhere */
    assert_true(first <= before + 1);
    assert_ok(f->table->copy(f->device, f->own, &rb, &ra));
    assert_int_equal(barriers(), first + 1);
    assert_ok(f->table->upload(f->device, f->own, &ra, data));
    assert_int_equal(barriers(), first + 2);
    assert_ok(f->table->fill(f->device, f->own, &rb, 3, 4));
    assert_int_equal(barriers(), first + 2); /* ordered by the last one */
    stream_finish(f, f->own);
    f->table->memory_free(f->device, f->own, &a);
    f->table->memory_free(f->device, f->own, &b);
}

static void commands_are_submitted_in_batches(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(f, &c, UINT64_MAX);
    ddisp_backend_memory m = memory_make(f, f->own, BYTES);
    const ddisp_backend_access write = {.range = range_of(&m, 0, BYTES), .writes = 1};
    stream_finish(f, f->own);
    const uint64_t before = fake_vulkan_calls("vkQueueSubmit");
    for (int i = 0; i < 1000; i++)
        (void)barriers_of(f, variant, &write, 1);
    stream_finish(f, f->own);
    const uint64_t submissions = fake_vulkan_calls("vkQueueSubmit") - before;
    assert_true(submissions >= 2 && submissions <= 20);
    const uint64_t marks = fake_vulkan_calls("vkQueueSubmit");
    stream_finish(f, f->own); /* nothing new */
    assert_int_equal(fake_vulkan_calls("vkQueueSubmit"), marks);
    f->table->memory_free(f->device, f->own, &m);
    f->table->variant_release(f->device, variant);
}

static void no_wait_is_submitted_before_its_signal(void **state)
{
    fixture *f = fixture_of(state);
    void *streams[3] = {stream_make(f), stream_make(f), stream_make(f)};
    ddisp_backend_memory m = memory_make(f, f->own, BYTES);
    ddisp_backend_range range = range_of(&m, 0, BYTES);
    stream_finish(f, f->own);
    fake_vulkan_hold(1); /* so that every wait is made on the device */
    for (int i = 0; i < 300; i++) {
        uint64_t ticket = 0;
        assert_ok(f->table->fill(f->device, streams[i % 3], &range, (uint64_t)i, 4));
        assert_ok(f->table->stream_mark(f->device, streams[i % 3], &ticket));
        assert_ok(f->table->stream_wait(f->device, streams[(i + 1) % 3], streams[i % 3], ticket));
    }
    fake_vulkan_hold(0);
    uint32_t found[N];
    download(f, streams[0], &m, 0, found, BYTES);
    for (int i = 0; i < N; i++)
        assert_int_equal(found[i], 299);
    assert_int_equal(fake_vulkan_early_waits(), 0);
    f->table->memory_free(f->device, streams[0], &m);
    for (int i = 0; i < 3; i++)
        f->table->stream_destroy(f->device, streams[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_stand_between_dependent_commands_only),
        cmocka_unit_test(ranges_are_known_exactly),
        cmocka_unit_test(order_outlives_a_submission),
        cmocka_unit_test(copies_and_fills_are_ordered_too),
        cmocka_unit_test(commands_are_submitted_in_batches),
        cmocka_unit_test(no_wait_is_submitted_before_its_signal),
    };
    return cmocka_run_group_tests(tests, setup, fixture_close);
}
