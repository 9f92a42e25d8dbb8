/*
 * test_host_memory.c - memory of the host backend: sizes, fills, copies and transfers, each between
 * guards that must not change.
 */
#include "host_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define GUARD       0xAA

/** Runs a test on the device's own stream and on one with a worker. */
static void on_both_streams(const fixture *f, void (*test)(const fixture *f, void *stream))
{
    void *stream = stream_make(f);
    test(f, f->own);
    test(f, stream);
    f->table->stream_destroy(f->device, stream);
}

/** Memory whose bytes are all GUARD. */
static ddisp_backend_memory guarded(const fixture *f, void *stream, uint64_t size_bytes)
{
    ddisp_backend_memory memory = memory_make(f, stream, size_bytes);
    memset(memory.host_pointer, GUARD, (size_t)size_bytes);
    return memory;
}

static void assert_guard(const ddisp_backend_memory *memory, uint64_t begin, uint64_t end)
{
    const unsigned char *bytes = memory->host_pointer;
    for (uint64_t i = begin; i < end; i++) {
        if (bytes[i] != GUARD) {
            fail_msg("byte %llu is 0x%02x, not the guard", (unsigned long long)i, bytes[i]);
        }
    }
}

static void fill_and_check(const fixture *f, void *stream, uint64_t offset, uint64_t size_bytes,
                           uint32_t pattern_size)
{
    static const unsigned char pattern_bytes[8] = {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    const uint64_t pattern = UINT64_C(0x8877665544332211);
    uint64_t begin = GUARD_BYTES + offset, end = begin + size_bytes;
    ddisp_backend_memory memory = guarded(f, stream, end + GUARD_BYTES);
    ddisp_backend_range range = range_of(&memory, begin, size_bytes);
    assert_int_equal(f->table->fill(f->device, stream, &range, pattern, pattern_size),
                     DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_guard(&memory, 0, begin);
    assert_guard(&memory, end, end + GUARD_BYTES);
    const unsigned char *bytes = memory.host_pointer;
    for (uint64_t i = 0; i < size_bytes; i++) {
        if (bytes[begin + i] != pattern_bytes[i % pattern_size]) {
            fail_msg("byte %llu of a fill of %llu bytes by %u is wrong", (unsigned long long)i,
                     (unsigned long long)size_bytes, pattern_size);
        }
    }
    f->table->memory_free(f->device, stream, &memory);
}

static void fill_all_patterns(const fixture *f, void *stream)
{
    static const uint64_t units[] = {0, 1, 3, 7, 9, 31, 65, 1001};
    for (uint32_t pattern_size = 1; pattern_size <= 8; pattern_size *= 2) {
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            fill_and_check(f, stream, 0, units[i] * pattern_size, pattern_size);
            fill_and_check(f, stream, pattern_size, units[i] * pattern_size, pattern_size);
        }
    }
}

static void fills_write_their_range_only(void **state)
{
    on_both_streams(*state, fill_all_patterns);
}

static void fill_large(const fixture *f, void *stream)
{
    for (uint32_t pattern_size = 1; pattern_size <= 8; pattern_size *= 2) {
        fill_and_check(f, stream, pattern_size, ((UINT64_C(3) << 20) + 56) / 8 * 8 + pattern_size,
                       pattern_size);
    }
}

static void fills_by_many_threads_stay_in_phase(void **state)
{
    on_both_streams(*state, fill_large);
}

static void fill_with_zeros(const fixture *f, void *stream)
{
    ddisp_backend_memory memory = guarded(f, stream, 4096);
    ddisp_backend_range range = range_of(&memory, 100, 1000);
    assert_int_equal(f->table->fill(f->device, stream, &range, 0, 4), DDISP_STATUS_OK);
    stream_finish(f, stream);
    const unsigned char *bytes = memory.host_pointer;
    for (int i = 100; i < 1100; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_guard(&memory, 0, 100);
    assert_guard(&memory, 1100, 4096);
    f->table->memory_free(f->device, stream, &memory);
}

static void zero_fill_is_zero(void **state)
{
    on_both_streams(*state, fill_with_zeros);
}

/** Uploads, copies and downloads size_bytes, at odd offsets. */
static void round_trip(const fixture *f, void *stream, uint64_t size_bytes)
{
    uint64_t end = GUARD_BYTES + 1 + size_bytes;
    ddisp_backend_memory a = guarded(f, stream, end + GUARD_BYTES);
    ddisp_backend_memory b = guarded(f, stream, end + GUARD_BYTES + 2);
    ddisp_backend_range at_a = range_of(&a, GUARD_BYTES + 1, size_bytes);
    ddisp_backend_range at_b = range_of(&b, GUARD_BYTES + 3, size_bytes);
    unsigned char *data = malloc((size_t)size_bytes), *back = malloc((size_t)size_bytes);
    assert_non_null(data);
    assert_non_null(back);
    for (uint64_t i = 0; i < size_bytes; i++) {
        data[i] = (unsigned char)(i % 251);
    }
    assert_int_equal(f->table->upload(f->device, stream, &at_a, data), DDISP_STATUS_OK);
    memset(data, 0xEE, (size_t)size_bytes); /* it may be reused now */
    assert_int_equal(f->table->copy(f->device, stream, &at_b, &at_a), DDISP_STATUS_OK);
    assert_int_equal(f->table->download(f->device, stream, &at_b, back), DDISP_STATUS_OK);
    for (uint64_t i = 0; i < size_bytes; i++) {
        if (back[i] != i % 251) {
            fail_msg("byte %llu of %llu came back as 0x%02x", (unsigned long long)i,
                     (unsigned long long)size_bytes, back[i]);
        }
    }
    assert_guard(&a, 0, GUARD_BYTES + 1);
    assert_guard(&a, end, end + GUARD_BYTES);
    assert_guard(&b, 0, GUARD_BYTES + 3);
    assert_guard(&b, end + 2, end + 2 + GUARD_BYTES);
    free(back);
    free(data);
    f->table->memory_free(f->device, stream, &b);
    f->table->memory_free(f->device, stream, &a);
}

static void round_trips(const fixture *f, void *stream)
{
    static const uint64_t sizes[] = {1, 2, 3, 5, 7, 9, 63, 65535, 65536, 65537, 3000001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        round_trip(f, stream, sizes[i]);
    }
}

static void bytes_come_back(void **state)
{
    on_both_streams(*state, round_trips);
}

static void too_much_memory_is_refused_with_numbers(void **state)
{
    const fixture *f = *state;
    static const uint64_t sizes[] = {UINT64_C(1) << 50, UINT64_MAX};
    for (int i = 0; i < 2; i++) {
        ddisp_backend_memory memory = DDISP_ZERO;
        last_message[0] = '\0';
        assert_int_equal(f->table->memory_allocate(f->device, f->own, sizes[i], &memory),
                         DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
        char number[32];
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)sizes[i]);
        assert_non_null(strstr(last_message, number));
        assert_null(memory.handle);
    }
    ddisp_backend_memory memory = memory_make(f, f->own, 1);
    f->table->memory_free(f->device, f->own, &memory);
}

static void imported_memory_is_used_in_place(void **state)
{
    const fixture *f = *state;
    uint32_t words[4] = {1, 2, 3, 4};
    ddisp_backend_memory memory = DDISP_ZERO;
    assert_int_equal(f->table->memory_import(f->device, address_of(words), sizeof words, &memory),
                     DDISP_STATUS_OK);
    assert_int_equal(memory.address, address_of(words));
    assert_ptr_equal(memory.host_pointer, words);
    ddisp_backend_range range = range_of(&memory, 4, 8);
    assert_int_equal(f->table->fill(f->device, f->own, &range, 9, 4), DDISP_STATUS_OK);
    f->table->memory_release_import(f->device, &memory);
    const uint32_t expected[4] = {1, 9, 9, 4};
    assert_memory_equal(words, expected, sizeof words);
}

static void failed_allocation_changes_nothing(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    ddisp_backend_memory memory = guarded(f, stream, 256), refused = DDISP_ZERO;
    ddisp_backend_range a = range_of(&memory, 0, 64), b = range_of(&memory, 128, 64);
    unsigned char data[64] = {0};
    int before = atomic_load(&live);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->memory_allocate(f->device, stream, 64, &refused),
                     DDISP_STATUS_OUT_OF_MEMORY);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->fill(f->device, stream, &a, 0, 4), DDISP_STATUS_OUT_OF_MEMORY);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->copy(f->device, stream, &a, &b), DDISP_STATUS_OUT_OF_MEMORY);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->upload(f->device, stream, &a, data), DDISP_STATUS_OUT_OF_MEMORY);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(f->table->download(f->device, stream, &a, data), DDISP_STATUS_OUT_OF_MEMORY);
    assert_int_equal(data[0], 0);
    assert_int_equal(atomic_load(&live), before);
    assert_true(stream_is_done(f, stream));
    assert_guard(&memory, 0, 256);
    f->table->memory_free(f->device, stream, &memory);
    f->table->stream_destroy(f->device, stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fills_write_their_range_only, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(fills_by_many_threads_stay_in_phase, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(zero_fill_is_zero, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(bytes_come_back, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(too_much_memory_is_refused_with_numbers, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(imported_memory_is_used_in_place, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(failed_allocation_changes_nothing, fixture_open,
                                        fixture_close),
    };
    return cmocka_run_group_tests_name("host memory", tests, NULL, NULL);
}
