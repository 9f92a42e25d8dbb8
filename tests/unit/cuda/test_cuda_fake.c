/*
 * test_cuda_fake.c - the CUDA backend over the stand-in driver: what it says of a device, memory,
 * transfers and tickets, when nothing fails.
 */
#include "cuda_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- device */

static void device_is_described_as_the_fake_that_it_is(void **state)
{
    (void)state;
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    uint32_t count = 0;
    assert_int_equal(table->device_count(instance, &count), DDISP_STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(table->device_describe(instance, 0, &info), DDISP_STATUS_OK);
    assert_string_equal(info.name, "fake");
    assert_true(info.flags & DDISP_DEVICE_FLAG_FAKE);
    assert_int_equal(info.rank, 0);
    assert_int_equal(info.vendor_id, 0);
    assert_string_equal(info.uuid, "face0001-0203-0405-0607-08090a0b0c00");
    assert_string_equal(info.architecture, "sm_90");
    assert_string_equal(info.driver, "CUDA 13.0");
    assert_int_equal(info.driver_version, 13000);
    assert_int_equal(strncmp(info.formats, "ptx,cubin,fatbin", 16), 0); /* NVRTC may be there */
    assert_int_equal(strncmp(info.specializes, "ptx", 3), 0);
    assert_int_equal(info.memory_bytes, 64 << 20);
    assert_int_equal(info.max_allocation_bytes, 64 << 20);
    assert_int_equal(info.atomic_add_f16, DDISP_SUPPORT_NATIVE);
    assert_int_equal(info.atomic_add_bf16, DDISP_SUPPORT_NATIVE);
    assert_int_equal(info.max_group_count[0], 2147483647);
    assert_int_equal(info.max_group_count[1], 65535);
    assert_int_equal(info.max_group_size[2], 64);
    assert_int_equal(info.max_group_threads, 1024);
    assert_int_equal(info.max_block_bytes, 4096);
    assert_int_equal(info.preferred_group_count, 5120);
    assert_int_equal(info.max_shared_bytes, 101376);
    assert_int_equal(info.subgroup_size, 32);
    assert_int_equal(table->device_describe(instance, 1, &info), DDISP_STATUS_NOT_FOUND);
    fixture_says("cuda:1");
}

static void older_devices_emulate_atomics(void **state)
{
    (void)state;
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    fake_cuda_set_capability(5, 2);
    assert_int_equal(table->device_describe(instance, 0, &info), DDISP_STATUS_OK);
    assert_string_equal(info.architecture, "sm_52");
    assert_int_equal(info.atomic_add_f16, DDISP_SUPPORT_EMULATED);
    assert_int_equal(info.atomic_add_bf16, DDISP_SUPPORT_EMULATED);
    assert_int_equal(info.atomic_add_f32, DDISP_SUPPORT_NATIVE);
    assert_int_equal(info.atomic_add_f64, DDISP_SUPPORT_EMULATED);
    fake_cuda_set_capability(8, 6);
    assert_int_equal(table->device_describe(instance, 0, &info), DDISP_STATUS_OK);
    assert_int_equal(info.atomic_add_f16, DDISP_SUPPORT_NATIVE);
    assert_int_equal(info.atomic_add_bf16, DDISP_SUPPORT_EMULATED);
    assert_int_equal(info.atomic_add_f64, DDISP_SUPPORT_NATIVE);
}

static void refused_drivers_are_explained(void **state)
{
    void *other = NULL;
    (void)state;
    static const struct {
        cu__result result;
        const char *words;
    } cases[] = {
        {34, "stub library"}, {100, "no device"}, {803, "different versions"}, {999, "(999)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_cuda_fail_function("cuInit", 1, cases[i].result);
        assert_int_equal(table->open(&sample_services, &other), DDISP_STATUS_BACKEND_UNAVAILABLE);
        fixture_says(cases[i].words);
    }
    fake_cuda_set_version(11080);
    assert_int_equal(table->open(&sample_services, &other), DDISP_STATUS_BACKEND_UNAVAILABLE);
    fixture_says("CUDA 11.8");
    fixture_says("CUDA 12.0");
}

/* ---- memory and transfers */

static void bytes_come_back_as_they_were_sent(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 3, 255, 4096, 32768, 32769, 1 << 20};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        uint64_t size = sizes[k];
        unsigned char *sent = malloc(size), *got = malloc(size);
        assert_true(sent && got);
        ddisp_backend_memory memory = fixture_allocate(size + 2);
        ddisp_backend_memory other = fixture_allocate(size + 2);
        ddisp_backend_range range = fixture_range(&memory, 1, size);
        ddisp_backend_range copy = fixture_range(&other, 1, size);
        for (uint64_t i = 0; i < size; i++) {
            sent[i] = (unsigned char)(i * 7 + k);
        }
        assert_int_equal(table->upload(device, stream, &range, sent), DDISP_STATUS_OK);
        assert_int_equal(table->copy(device, stream, &copy, &range), DDISP_STATUS_OK);
        assert_int_equal(table->download(device, stream, &copy, got), DDISP_STATUS_OK);
        assert_memory_equal(sent, got, size);
        fixture_free(&memory);
        fixture_free(&other);
        free(sent);
        free(got);
    }
}

static void many_small_uploads_keep_their_order_and_content(void **state)
{
    (void)state;
    enum { COUNT = 100, SIZE = 20000 };
    ddisp_backend_memory memory = fixture_allocate(COUNT * SIZE);
    unsigned char *data = malloc(SIZE), *all = malloc(COUNT * SIZE);
    assert_true(data && all);
    fake_cuda_delay(1000); /* nothing seems done unless it is waited for */
    for (int k = 0; k < COUNT; k++) {
        ddisp_backend_range range = fixture_range(&memory, (uint64_t)k * SIZE, SIZE);
        memset(data, k + 1, SIZE);
        assert_int_equal(table->upload(device, stream, &range, data), DDISP_STATUS_OK);
    }
    ddisp_backend_range range = fixture_range(&memory, 0, COUNT * SIZE);
    assert_int_equal(table->download(device, stream, &range, all), DDISP_STATUS_OK);
    for (int i = 0; i < COUNT * SIZE; i++) {
        assert_int_equal(all[i], i / SIZE + 1);
    }
    assert_true(fake_cuda_call_count("cuEventSynchronize") > 0); /* the ring came round */
    fixture_free(&memory);
    free(data);
    free(all);
}

static void fills_repeat_every_pattern(void **state)
{
    (void)state;
    static const struct {
        uint64_t pattern;
        uint32_t size;
    } patterns[] = {{0, 1},
                    {0xAB, 1},
                    {0x1234, 2},
                    {0xABAB, 2},
                    {UINT64_C(0x12345678), 4},
                    {UINT64_C(0x12341234), 4},
                    {UINT64_C(0x123456789ABCDEF0), 8},
                    {UINT64_C(0x1234567812345678), 8},
                    {UINT64_C(0x3FF0000000000000), 8}};
    static const uint64_t counts[] = {1, 2, 3, 1000, 65536, 65537, 200000};
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint64_t size = patterns[p].size, bytes = counts[c] * size;
            ddisp_backend_memory memory = fixture_allocate(bytes + 2 * size);
            ddisp_backend_range range = fixture_range(&memory, size, bytes);
            ddisp_backend_range whole = fixture_range(&memory, 0, bytes + 2 * size);
            unsigned char *got = malloc(bytes + 2 * size);
            assert_non_null(got);
            assert_int_equal(table->fill(device, stream, &whole, 0x5C, 1), DDISP_STATUS_OK);
            assert_int_equal(
                table->fill(device, stream, &range, patterns[p].pattern, (uint32_t)size),
                DDISP_STATUS_OK);
            assert_int_equal(table->download(device, stream, &whole, got), DDISP_STATUS_OK);
            for (uint64_t i = 0; i < bytes; i++) {
                unsigned char expected =
                    (unsigned char)(patterns[p].pattern >> 8 * (i % size) & 0xFF);
                if (got[size + i] != expected) {
                    fail_msg("pattern %zu, count %llu, byte %llu", p, (unsigned long long)counts[c],
                             (unsigned long long)i);
                }
            }
            for (uint64_t i = 0; i < size; i++) {
                assert_int_equal(got[i], 0x5C);
                assert_int_equal(got[size + bytes + i], 0x5C);
            }
            free(got);
            fixture_free(&memory);
        }
    }
}

static void freed_memory_is_given_back_before_running_out(void **state)
{
    (void)state;
    ddisp_backend_memory first = fixture_allocate(44 << 20);
    fixture_free(&first);
    ddisp_backend_memory small = fixture_allocate(1 << 20); /* out of the freed memory */
    assert_int_equal(fake_cuda_call_count("cuMemPoolTrimTo"), 0);
    ddisp_backend_memory second = fixture_allocate(50 << 20);
    assert_int_equal(fake_cuda_call_count("cuMemPoolTrimTo"), 1);
    fixture_free(&small);
    fixture_free(&second);
}

static void trimming_gives_unused_memory_back(void **state)
{
    (void)state;
    size_t before = 0, after = 0, total = 0;
    cu__context popped;
    ddisp_backend_memory memory = fixture_allocate(8 << 20), kept = fixture_allocate(1 << 20);
    fixture_free(&memory);
    assert_int_equal(cuDevicePrimaryCtxRetain(&popped, 0), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(popped), CU__SUCCESS);
    assert_int_equal(cuMemGetInfo_v2(&before, &total), CU__SUCCESS);
    assert_int_equal(table->memory_trim(device), DDISP_STATUS_OK);
    assert_int_equal(cuMemGetInfo_v2(&after, &total), CU__SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&popped), CU__SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CU__SUCCESS);
    assert_int_equal(before, 55 << 20);
    assert_int_equal(after, 63 << 20);
    fixture_free(&kept);
}

static void running_out_says_the_numbers(void **state)
{
    (void)state;
    ddisp_backend_memory memory = {0}, held = fixture_allocate(1 << 20);
    assert_int_equal(table->memory_allocate(device, stream, UINT64_C(1) << 50, &memory),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    fixture_says("1125899906842624 bytes");
    assert_int_equal(table->memory_allocate(device, stream, 64 << 20, &memory),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    fixture_says("67108864 bytes");
    fixture_says("66060288 of 67108864 are free"); /* 64 MiB - 1 MiB */
    fixture_free(&held);
    held = fixture_allocate(64 << 20); /* and it works again */
    fixture_free(&held);
}

static void imported_addresses_are_used_as_they_are(void **state)
{
    (void)state;
    ddisp_backend_memory owned = fixture_allocate(64), memory = {0};
    uint64_t before = fake_cuda_call_count(NULL);
    assert_int_equal(table->memory_import(device, owned.address, 64, &memory), DDISP_STATUS_OK);
    assert_int_equal(memory.address, owned.address);
    assert_int_equal(memory.size_bytes, 64);
    table->memory_release_import(device, &memory);
    assert_int_equal(fake_cuda_call_count(NULL), before);
    fixture_free(&owned);
}

static int open_without_pools(void **state)
{
    fake_cuda_reset();
    fake_cuda_set_pools(0);
    (void)state;
    return table->open(&sample_services, &instance) != DDISP_STATUS_OK ||
           table->device_open(instance, 0, &device) != DDISP_STATUS_OK ||
           table->stream_create(device, 0, &stream) != DDISP_STATUS_OK;
}

static void devices_without_pools_free_after_the_stream_passed(void **state)
{
    (void)state;
    ddisp_backend_memory memory = fixture_allocate(1000);
    assert_int_equal(fake_cuda_call_count("cuMemAlloc"), 1);
    fake_cuda_delay(2);
    fixture_free(&memory);
    assert_int_equal(fake_cuda_live_allocations(), 1);
    ddisp_backend_memory second = fixture_allocate(1000);
    assert_int_equal(fake_cuda_live_allocations(), 2); /* not passed yet */
    ddisp_backend_memory third = fixture_allocate(1000);
    assert_int_equal(fake_cuda_live_allocations(), 3); /* still not */
    ddisp_backend_memory fourth = fixture_allocate(1000);
    assert_int_equal(fake_cuda_live_allocations(), 3); /* passed: one freed, one made */
    fixture_free(&second);
    fixture_free(&third);
    fixture_free(&fourth);
    /* Memory that only waits for its stream is used when there is no other. */
    fake_cuda_set_memory(3000);
    memory = fixture_allocate(2000);
    fixture_free(&memory);
}

/* ---- streams */

static void tickets_tell_what_is_done(void **state)
{
    (void)state;
    uint64_t first = 0, second = 0;
    assert_int_equal(table->stream_query(device, stream, 0), DDISP_STATUS_OK);
    fake_cuda_delay(3);
    assert_int_equal(table->stream_mark(device, stream, &first), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark(device, stream, &second), DDISP_STATUS_OK);
    assert_true(first > 0 && second > first);
    /* The second mark asked once about the first, to use its event anew. */
    assert_int_equal(table->stream_query(device, stream, first), DDISP_STATUS_NOT_READY);
    assert_int_equal(table->stream_query(device, stream, first), DDISP_STATUS_NOT_READY);
    assert_int_equal(table->stream_query(device, stream, first), DDISP_STATUS_OK);
    assert_int_equal(table->stream_query(device, stream, second), DDISP_STATUS_NOT_READY);
    assert_int_equal(table->stream_synchronize(device, stream, second, UINT64_MAX),
                     DDISP_STATUS_OK);
    uint64_t calls = fake_cuda_call_count("cuEventQuery");
    assert_int_equal(table->stream_query(device, stream, first), DDISP_STATUS_OK);
    assert_int_equal(table->stream_query(device, stream, second), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuEventQuery"), calls); /* known, not asked */
}

static void waits_end_at_their_time(void **state)
{
    (void)state;
    uint64_t ticket = 0;
    fake_cuda_delay(1000000);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, 0), DDISP_STATUS_TIMEOUT);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, 1000), DDISP_STATUS_TIMEOUT);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, UINT64_MAX),
                     DDISP_STATUS_OK);
    fake_cuda_delay(5);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, UINT64_C(3600000000000)),
                     DDISP_STATUS_OK);
}

static void events_are_used_anew(void **state)
{
    (void)state;
    uint64_t ticket = 0, previous = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
        assert_true(ticket > previous);
        previous = ticket;
    }
    assert_true(fake_cuda_live_events() <= 2);
    fake_cuda_delay(1000000); /* nothing completes: bounded all the same */
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    }
    assert_true(fake_cuda_live_events() <= 300);
    assert_int_equal(table->stream_query(device, stream, ticket), DDISP_STATUS_NOT_READY);
    /* A ticket whose event was taken is answered by a later one. */
    assert_int_equal(table->stream_query(device, stream, previous + 1), DDISP_STATUS_NOT_READY);
    assert_int_equal(table->stream_synchronize(device, stream, previous + 1, UINT64_MAX),
                     DDISP_STATUS_OK);
    assert_int_equal(table->stream_query(device, stream, ticket), DDISP_STATUS_NOT_READY);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, UINT64_MAX),
                     DDISP_STATUS_OK);
}

static void streams_wait_for_each_other_on_the_device(void **state)
{
    (void)state;
    void *other = NULL;
    uint64_t ticket = 0;
    assert_int_equal(table->stream_create(device, 0, &other), DDISP_STATUS_OK);
    fake_cuda_delay(10);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(table->stream_wait(device, other, stream, ticket), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuStreamWaitEvent"), 1);
    assert_int_equal(table->stream_synchronize(device, stream, ticket, UINT64_MAX),
                     DDISP_STATUS_OK);
    assert_int_equal(table->stream_wait(device, other, stream, ticket), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuStreamWaitEvent"), 1); /* done: nothing to wait for */
    table->stream_destroy(device, other);
}

static atomic_uint_fast64_t newest;
static atomic_int wrong;

static void *wait_for_marks(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        uint64_t ticket = atomic_load(&newest);
        ddisp_status status = i % 2 ? table->stream_synchronize(device, stream, ticket, UINT64_MAX)
                                    : table->stream_query(device, stream, ticket);
        if (status != DDISP_STATUS_OK && (i % 2 || status != DDISP_STATUS_NOT_READY)) {
            atomic_store(&wrong, 1);
        }
        if (i % 2 && table->stream_query(device, stream, ticket) != DDISP_STATUS_OK) {
            atomic_store(&wrong, 1);
        }
    }
    return NULL;
}

static void waits_overlap_with_marks(void **state)
{
    (void)state;
    pthread_t threads[4];
    fake_cuda_delay(2);
    atomic_store(&newest, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_marks, NULL), 0);
    }
    for (int i = 0; i < 4000; i++) {
        uint64_t ticket = 0;
        assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
        atomic_store(&newest, ticket);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&wrong), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(device_is_described_as_the_fake_that_it_is),
        CASE(older_devices_emulate_atomics),
        CASE(refused_drivers_are_explained),
        CASE(bytes_come_back_as_they_were_sent),
        CASE(many_small_uploads_keep_their_order_and_content),
        CASE(fills_repeat_every_pattern),
        CASE(freed_memory_is_given_back_before_running_out),
        CASE(trimming_gives_unused_memory_back),
        CASE(running_out_says_the_numbers),
        CASE(imported_addresses_are_used_as_they_are),
        cmocka_unit_test_setup_teardown(devices_without_pools_free_after_the_stream_passed,
                                        open_without_pools, fixture_close),
        CASE(tickets_tell_what_is_done),
        CASE(waits_end_at_their_time),
        CASE(events_are_used_anew),
        CASE(streams_wait_for_each_other_on_the_device),
        CASE(waits_overlap_with_marks),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
