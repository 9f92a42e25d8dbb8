/*
 * test_vulkan_memory.c - memory of the Vulkan backend: allocation, freeing in stream order, and
 * copies and fills of any size at any address, with what lies beside them left alone.
 */
#include "vulkan_fixture.h"

#include <stdlib.h>

#define GUARD 0xAA

static uint8_t *bytes_of(uint64_t count)
{
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    return bytes;
}

/** The bytes are those of `expected`; says which is not. */
static void expect_bytes(const uint8_t *found, const uint8_t *expected, uint64_t count,
                         const char *what)
{
    for (uint64_t i = 0; i < count; i++)
        if (found[i] != expected[i])
            fail_msg("%s: byte %llu is 0x%02x, expected 0x%02x", what, (unsigned long long)i,
                     found[i], expected[i]);
}

static void odd_sizes_at_odd_offsets_come_back(void **state)
{
    fixture *f = fixture_of(state);
    static const uint64_t sizes[] = {1, 2, 3, 5, 7, 9, 63};
    enum { ALL = 256 };
    ddisp_backend_memory memory = memory_make(f, f->own, ALL);
    for (uint64_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint64_t offset = 64; offset < 73; offset++) {
            uint8_t expected[ALL], found[ALL], back[64];
            memset(expected, GUARD, ALL);
            upload(f, f->own, &memory, 0, expected, ALL);
            for (uint64_t i = 0; i < sizes[s]; i++)
                expected[offset + i] = (uint8_t)(i * 7 + s + 1);
            upload(f, f->own, &memory, offset, expected + offset, sizes[s]);
            download(f, f->own, &memory, offset, back, sizes[s]);
            download(f, f->own, &memory, 0, found, ALL);
            expect_bytes(back, expected + offset, sizes[s], "the part");
            expect_bytes(found, expected, ALL, "all");
        }
    f->table->memory_free(f->device, f->own, &memory);
}

static void fills_touch_nothing_beside_them(void **state)
{
    fixture *f = fixture_of(state);
    const uint64_t pattern = UINT64_C(0x8877665544332211);
    static const uint64_t counts[] = {0, 1, 2, 3, 4, 5, 11, 100};
    enum { ALL = 1024 };
    ddisp_backend_memory memory = memory_make(f, f->own, ALL);
    for (uint32_t size = 1; size <= 8; size *= 2)
        for (uint64_t offset = 16; offset < 25; offset++)
            for (uint64_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                uint8_t expected[ALL], found[ALL];
                memset(expected, GUARD, ALL);
                upload(f, f->own, &memory, 0, expected, ALL);
                for (uint64_t i = 0; i < counts[c] * size; i++)
                    expected[offset + i] = (uint8_t)(pattern >> (8 * (i % size)));
                ddisp_backend_range range = range_of(&memory, offset, counts[c] * size);
                assert_ok(f->table->fill(f->device, f->own, &range, pattern, size));
                download(f, f->own, &memory, 0, found, ALL);
                expect_bytes(found, expected, ALL, "fill");
            }
    f->table->memory_free(f->device, f->own, &memory);
}

static void large_fill_of_eight_bytes_repeats_to_the_end(void **state)
{
    fixture *f = fixture_of(state);
    enum { WORDS = 50001, ALL = WORDS * 8 + 16 };
    ddisp_backend_memory memory = memory_make(f, f->own, ALL);
    uint8_t *expected = bytes_of(ALL), *found = bytes_of(ALL);
    memset(expected, GUARD, ALL);
    upload(f, f->own, &memory, 0, expected, ALL);
    const double value = -1.5;
    uint64_t pattern;
    memcpy(&pattern, &value, 8);
    for (uint64_t i = 0; i < WORDS; i++)
        memcpy(expected + 8 + i * 8, &value, 8);
    ddisp_backend_range range = range_of(&memory, 8, WORDS * 8);
    assert_ok(f->table->fill(f->device, f->own, &range, pattern, 8));
    download(f, f->own, &memory, 0, found, ALL);
    expect_bytes(found, expected, ALL, "fill");
    free(expected);
    free(found);
    f->table->memory_free(f->device, f->own, &memory);
}

static void copies_take_any_offset_and_size(void **state)
{
    fixture *f = fixture_of(state);
    enum { ALL = 512 };
    ddisp_backend_memory from = memory_make(f, f->own, ALL), to = memory_make(f, f->own, ALL);
    uint8_t source[ALL], expected[ALL], found[ALL];
    for (int i = 0; i < ALL; i++)
        source[i] = (uint8_t)(i * 31 + 5);
    upload(f, f->own, &from, 0, source, ALL);
    for (uint64_t size = 1; size < 70; size += 4) {
        memset(expected, GUARD, ALL);
        upload(f, f->own, &to, 0, expected, ALL);
        memcpy(expected + 101, source + 203, size);
        ddisp_backend_range destination = range_of(&to, 101, size);
        ddisp_backend_range origin = bare_range_of(&from, 203, size); /* found by its address */
        assert_ok(f->table->copy(f->device, f->own, &destination, &origin));
        download(f, f->own, &to, 0, found, ALL);
        expect_bytes(found, expected, ALL, "copy");
    }
    f->table->memory_free(f->device, f->own, &from);
    f->table->memory_free(f->device, f->own, &to);
}

static void more_than_the_staging_memory_goes_both_ways(void **state)
{
    fixture *f = fixture_of(state);
    const uint64_t all = (UINT64_C(70) << 20) + 13;
    ddisp_backend_memory memory = memory_make(f, f->own, all);
    uint8_t *data = bytes_of(all), *found = bytes_of(all);
    uint32_t seed = 1;
    for (uint64_t i = 0; i < all; i++)
        data[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    upload(f, f->own, &memory, 0, data, all);
    download(f, f->own, &memory, 0, found, all);
    assert_int_equal(memcmp(data, found, all), 0);
    free(data);
    free(found);
    f->table->memory_free(f->device, f->own, &memory);
}

static void what_is_too_large_is_refused_and_the_next_works(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_memory memory = DDISP_ZERO;
    assert_int_equal(f->table->memory_allocate(f->device, f->own, UINT64_C(1) << 50, &memory),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(last_message, "1125899906842624"));
    assert_int_equal(f->table->memory_allocate(f->device, f->own, UINT64_MAX, &memory),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    memory = memory_make(f, f->own, 100);
    uint8_t byte = 7, found = 0;
    upload(f, f->own, &memory, 99, &byte, 1);
    download(f, f->own, &memory, 99, &found, 1);
    assert_int_equal(found, 7);
    f->table->memory_free(f->device, f->own, &memory);
}

static void many_small_ones_share_blocks(void **state)
{
    fixture *f = fixture_of(state);
    enum { COUNT = 6000 }; /* more than the 4096 allocations that a driver must allow */
    static ddisp_backend_memory memory[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        memory[i] = memory_make(f, f->own, 1 + i % 700);
        ddisp_backend_range range = range_of(&memory[i], 0, memory[i].size_bytes);
        assert_ok(f->table->fill(f->device, f->own, &range, i & 0xFF, 1));
    }
    uint8_t found[700];
    for (uint32_t i = 0; i < COUNT; i += 97) {
        download(f, f->own, &memory[i], 0, found, memory[i].size_bytes);
        for (uint64_t k = 0; k < memory[i].size_bytes; k++)
            assert_int_equal(found[k], i & 0xFF);
    }
    for (uint32_t i = 0; i < COUNT; i++) /* every second one first: neighbours join later */
        f->table->memory_free(f->device, f->own, &memory[(i * 2) % COUNT + (i >= COUNT / 2)]);
}

static void memory_freed_behind_work_is_not_given_to_another_stream(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 64 };
    void *other = stream_make(f);
    code c;
    code_init(&c, MUL_SPIN);
    void *variant = variant_make(f, &c, UINT64_MAX);
    float a[N], b[N], y[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 3;
    }
    ddisp_backend_memory result = memory_make(f, f->own, N * 4);
    for (int round = 0; round < 40; round++) {
        ddisp_backend_memory ma = memory_make(f, f->own, N * 4), mb = memory_make(f, f->own, N * 4);
        upload(f, f->own, &ma, 0, a, sizeof a);
        upload(f, f->own, &mb, 0, b, sizeof b);
        const ddisp_backend_memory *data[3] = {&ma, &mb, &result};
        assert_ok(mul_launch(f, f->own, variant, N, data, NULL, 5000));
        uint64_t address = ma.address;
        f->table->memory_free(f->device, f->own, &ma);
        f->table->memory_free(f->device, f->own, &mb);
        assert_ok(f->table->stream_flush(f->device, f->own));
        ddisp_backend_memory taken = memory_make(f, other, N * 4);
        if (taken.address == address) { /* only when the work is done */
            uint64_t ticket = 0;
            assert_ok(f->table->stream_mark(f->device, f->own, &ticket));
            assert_ok(f->table->stream_query(f->device, f->own, ticket));
        }
        ddisp_backend_range range = range_of(&taken, 0, N * 4);
        assert_ok(f->table->fill(f->device, other, &range, 9, 1));
        download(f, f->own, &result, 0, y, sizeof y);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == a[i] * 3);
        uint8_t nines[N * 4];
        download(f, other, &taken, 0, nines, sizeof nines);
        for (int i = 0; i < N * 4; i++)
            assert_int_equal(nines[i], 9);
        f->table->memory_free(f->device, other, &taken);
    }
    f->table->memory_free(f->device, f->own, &result);
    stream_finish(f, f->own);
    f->table->variant_release(f->device, variant);
    f->table->stream_destroy(f->device, other);
}

static void a_stream_takes_again_what_it_freed(void **state)
{
    fixture *f = fixture_of(state);
    const uint64_t large = UINT64_C(20) << 20;
    ddisp_backend_memory first = memory_make(f, f->own, large);
    ddisp_backend_range range = range_of(&first, 0, large);
    assert_ok(f->table->fill(f->device, f->own, &range, 1, 4));
    uint64_t address = first.address;
    f->table->memory_free(f->device, f->own, &first);
    ddisp_backend_memory second = memory_make(f, f->own, large);
    assert_int_equal(second.address, address);
    f->table->memory_free(f->device, f->own, &second);
    stream_finish(f, f->own);
}

static void foreign_addresses_are_refused_in_words(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_memory imported = DDISP_ZERO;
    assert_ok(f->table->memory_import(f->device, UINT64_C(0x7000000000000100), 64, &imported));
    assert_int_equal(imported.address, UINT64_C(0x7000000000000100));
    ddisp_backend_range range = range_of(&imported, 0, 64);
    uint8_t data[64] = {0};
    assert_int_equal(f->table->upload(f->device, f->own, &range, data), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "0x7000000000000100"));
    assert_int_equal(f->table->download(f->device, f->own, &range, data), DDISP_STATUS_UNSUPPORTED);
    assert_int_equal(f->table->fill(f->device, f->own, &range, 0, 4), DDISP_STATUS_UNSUPPORTED);
    assert_int_equal(f->table->copy(f->device, f->own, &range, &range), DDISP_STATUS_UNSUPPORTED);
    f->table->memory_release_import(f->device, &imported);
}

static void the_host_running_out_of_memory_changes_nothing(void **state)
{
    fixture *f = fixture_of(state);
    for (int k = 1; k <= 6; k++) {
        void *stream = stream_make(f);
        ddisp_backend_memory memory = DDISP_ZERO;
        uint8_t data[4096] = {1, 2, 3}, found[4096];
        atomic_store(&fail_allocation, k);
        ddisp_status status =
            f->table->memory_allocate(f->device, stream, UINT64_C(17) << 20, &memory);
        bool allocated = status == DDISP_STATUS_OK;
        if (allocated) {
            ddisp_backend_range range = range_of(&memory, 0, sizeof data);
            status = f->table->upload(f->device, stream, &range, data);
        }
        assert_true(status == DDISP_STATUS_OK || status == DDISP_STATUS_OUT_OF_MEMORY);
        atomic_store(&fail_allocation, 0);
        if (!allocated)
            memory = memory_make(f, stream, UINT64_C(17) << 20);
        upload(f, stream, &memory, 0, data, sizeof data);
        download(f, stream, &memory, 0, found, sizeof found);
        assert_memory_equal(data, found, sizeof data);
        f->table->memory_free(f->device, stream, &memory);
        f->table->stream_destroy(f->device, stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_sizes_at_odd_offsets_come_back),
        cmocka_unit_test(fills_touch_nothing_beside_them),
        cmocka_unit_test(large_fill_of_eight_bytes_repeats_to_the_end),
        cmocka_unit_test(copies_take_any_offset_and_size),
        cmocka_unit_test(more_than_the_staging_memory_goes_both_ways),
        cmocka_unit_test(what_is_too_large_is_refused_and_the_next_works),
        cmocka_unit_test(many_small_ones_share_blocks),
        cmocka_unit_test(memory_freed_behind_work_is_not_given_to_another_stream),
        cmocka_unit_test(a_stream_takes_again_what_it_freed),
        cmocka_unit_test(foreign_addresses_are_refused_in_words),
        cmocka_unit_test(the_host_running_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
