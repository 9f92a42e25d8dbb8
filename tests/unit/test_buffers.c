/*
 * test_buffers.c - buffers on a backend that writes down what it is asked to do (fake.h): sizes,
 * copies, order between streams. The device's own stream is s1.
 */
#include "check.h"

#include "fake.h"

/* ---- creation */

static void buffer_of_no_bytes_is_usable(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 0);
    assert_int_equal(ddisp_buffer_size(buffer), 0);
    assert_int_equal(ddisp_buffer_address(buffer), 0);
    assert_ok(ddisp_buffer_write(buffer, 0, NULL, 0, NULL));
    assert_ok(ddisp_buffer_read(buffer, 0, NULL, 0, fixture->second));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "which has 0 bytes",
                 ddisp_buffer_write(buffer, 0, "x", 1, NULL));
    ddisp_buffer_retain(buffer);
    ddisp_buffer_release(buffer);
    ddisp_buffer_release(buffer);
    assert_string_equal(fake.trace, "");
}

static void absurd_sizes_do_not_reach_the_driver(void **state)
{
    struct fake_fixture *fixture = *state;
    static const uint64_t sizes[] = {500001, UINT64_C(1) << 50, INT64_MAX, UINT64_MAX - 7,
                                     UINT64_MAX};
    ddisp_buffer *buffer = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char asked[32];
        snprintf(asked, sizeof asked, "%llu bytes", (unsigned long long)sizes[i]);
        assert_fails(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, asked,
                     ddisp_buffer_create(fixture->device, sizes[i], &buffer));
        assert_error_says("at most 500000");
    }
    assert_null(buffer);
    assert_string_equal(fake.trace, "");
    ddisp_buffer_release(fake_buffer(fixture, 500000));
}

static void failed_allocation_changes_nothing(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_device_statistics before = {.size = sizeof before}, after = {.size = sizeof after};
    ddisp_buffer *buffer = NULL;
    assert_ok(ddisp_device_get_statistics(fixture->device, &before));
    uint32_t host_blocks = fake.host_blocks;

    fake.fails = "memory_allocate";
    fake.fail_status = DDISP_STATUS_OUT_OF_DEVICE_MEMORY;
    assert_fails(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "fake: memory_allocate failed",
                 ddisp_buffer_create(fixture->device, 64, &buffer));
    fake.fails = NULL;
    fake.allocations_left = 0;
    assert_fails(DDISP_STATUS_OUT_OF_MEMORY, "host memory",
                 ddisp_buffer_create(fixture->device, 64, &buffer));
    fake.allocations_left = UINT32_MAX;

    assert_ok(ddisp_device_get_statistics(fixture->device, &after));
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(fake.host_blocks, host_blocks);
    ddisp_buffer_release(fake_buffer(fixture, 64));
}

static void statistics_follow_live_and_peak_by_purpose(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_device_statistics statistics = {.size = sizeof statistics};
    ddisp_buffer *data, *gradient, *scratch;
    ddisp_stream *own = fixture->device->stream;
    data = fake_buffer(fixture, 100);
    assert_ok(ddisp__buffer_create_on(own, 20, DDISP__PURPOSE_GRADIENT, &gradient));
    assert_ok(ddisp__buffer_create_on(own, 3, DDISP__PURPOSE_SCRATCH, &scratch));
    assert_ok(ddisp__buffer_zero(gradient, own));
    ddisp_buffer_release(scratch);
    ddisp_buffer_release(gradient);

    assert_ok(ddisp_device_get_statistics(fixture->device, &statistics));
    assert_int_equal(statistics.size, sizeof statistics);
    assert_int_equal(statistics.allocations, 3);
    assert_int_equal(statistics.frees, 2);
    assert_int_equal(statistics.bytes_live, 100);
    assert_int_equal(statistics.bytes_peak, 123);
    assert_int_equal(statistics.gradient_bytes_live, 0);
    assert_int_equal(statistics.gradient_bytes_peak, 20);
    assert_int_equal(statistics.scratch_bytes_live, 0);
    assert_int_equal(statistics.scratch_bytes_peak, 3);
    assert_int_equal(statistics.fills, 1);
    ddisp_buffer_release(data);
}

static void zeroing_uses_the_widest_pattern_that_fits(void **state)
{
    struct fake_fixture *fixture = *state;
    static const struct {
        uint64_t size_bytes;
        const char *fill;
    } cases[] = {
        {8, "fill s1 8 with 0:4; "}, {6, "fill s1 6 with 0:2; "}, {7, "fill s1 7 with 0:1; "}};
    for (int i = 0; i < 3; i++) {
        ddisp_buffer *buffer = fake_buffer(fixture, cases[i].size_bytes);
        fake_forget();
        assert_ok(ddisp__buffer_zero(buffer, fixture->device->stream));
        assert_string_equal(fake.trace, cases[i].fill);
        ddisp_buffer_release(buffer);
    }
}

/* ---- copies */

static void copies_outside_the_buffer_are_refused(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    char data[32];
    fake_forget();
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "offset_bytes 0 and size_bytes 17",
                 ddisp_buffer_write(buffer, 0, data, 17, NULL));
    assert_error_says("has 16 bytes");
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "offset_bytes 16",
                 ddisp_buffer_read(buffer, 16, data, 1, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "offset_bytes 18446744073709551615",
                 ddisp_buffer_read(buffer, UINT64_MAX, data, 2, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "size_bytes 18446744073709551615",
                 ddisp_buffer_read(buffer, 8, data, UINT64_MAX, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "data is NULL",
                 ddisp_buffer_write(buffer, 0, NULL, 4, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "buffer is NULL",
                 ddisp_buffer_write(NULL, 0, data, 4, NULL));
    assert_string_equal(fake.trace, "");

    assert_ok(ddisp_buffer_write(buffer, 16, data, 0, NULL));
    assert_ok(ddisp_buffer_write(buffer, 4, data, 12, NULL));
    memset(data, 0, sizeof data);
    assert_ok(ddisp_buffer_read(buffer, 0, data, 16, NULL));
    assert_int_equal(data[15], 0x5A);
    assert_int_equal(data[16], 0);
    assert_string_equal(fake.trace, "upload s1 12; download s1 16; ");
    ddisp_buffer_release(buffer);
}

static void streams_of_another_device_are_refused(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_device *other;
    ddisp_stream *stream;
    ddisp_event *event;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    char data[4] = {0};
    assert_ok(ddisp_device_open(fixture->context, "fake:1", &other));
    assert_ok(ddisp_stream_create(other, 0, &stream));
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    assert_fails(DDISP_STATUS_DEVICE_MISMATCH, "stream belongs to device fake:1",
                 ddisp_buffer_write(buffer, 0, data, 4, stream));
    assert_error_says("on device fake:0");
    assert_fails(DDISP_STATUS_DEVICE_MISMATCH, "fake:1", ddisp_event_record(event, stream));
    assert_fails(DDISP_STATUS_DEVICE_MISMATCH, "fake:1", ddisp_stream_wait_event(stream, event));
    ddisp_event_release(event);
    ddisp_stream_release(stream);
    ddisp_device_release(other);
    ddisp_buffer_release(buffer);
}

/* ---- order */

static void another_stream_waits_for_creation_once(void **state)
{
    struct fake_fixture *fixture = *state;
    char data[16] = {0};
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    assert_ok(ddisp_buffer_write(buffer, 0, data, 16, NULL));
    fake_forget();
    assert_ok(ddisp_buffer_write(buffer, 0, data, 16, fixture->second));
    assert_ok(ddisp_buffer_write(buffer, 0, data, 16, fixture->second));
    assert_string_equal(fake.trace, "mark s1=1; wait s2 for s1=1; upload s2 16; upload s2 16; ");
    fake_forget();
    assert_ok(ddisp_buffer_write(buffer, 0, data, 16, fixture->third));
    assert_string_equal(fake.trace, "wait s3 for s1=1; upload s3 16; ");
    ddisp_buffer_release(buffer);
}

static void first_content_is_waited_for_as_well(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_stream *own = fixture->device->stream;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    assert_ok(ddisp__buffer_use(buffer, fixture->second));
    assert_ok(ddisp__buffer_zero(buffer, own));
    assert_ok(ddisp__buffer_created(buffer));
    fake_forget();
    assert_ok(ddisp__buffer_use(buffer, fixture->third));
    assert_string_equal(fake.trace, "mark s1=2; wait s3 for s1=2; ");
    ddisp_buffer_release(buffer);
}

static void free_waits_for_every_stream_that_used_the_buffer(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    assert_ok(ddisp__buffer_use(buffer, fixture->second));
    assert_ok(ddisp__buffer_use(buffer, fixture->third));
    fake_forget();
    fake.holds = true;
    ddisp_buffer_release(buffer);
    assert_string_equal(fake.trace, "mark s2=1; wait s1 for s2=1; mark s3=1; wait s1 for s3=1; "
                                    "free s1 16; ");
    fake.holds = false;
}

static void streams_may_be_released_before_buffers_they_used(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    assert_ok(ddisp__buffer_use(buffer, fixture->second));
    ddisp_stream_release(fixture->second);
    fixture->second = NULL;
    fake_forget();
    ddisp_buffer_release(buffer);
    assert_string_equal(fake.trace, "mark s2=1; wait s1 for s2=1; destroy s2; free s1 16; ");
}

static void buffer_does_not_collect_streams_whose_work_is_done(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    for (int i = 0; i < 40; i++) {
        ddisp_stream *stream;
        assert_ok(ddisp_stream_create(fixture->device, 0, &stream));
        assert_ok(ddisp__buffer_use(buffer, stream));
        ddisp_stream_release(stream);
    }
    assert_in_range(fake.streams, 3, 3 + 9);
    ddisp_buffer_release(buffer);
    assert_int_equal(fake.streams, 3);
}

static void use_that_cannot_be_ordered_is_not_noted(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer = fake_buffer(fixture, 16);
    fake.fails = "stream_wait";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "stream_wait failed",
                 ddisp__buffer_use(buffer, fixture->second));
    fake.fails = NULL;
    fake_forget();
    assert_ok(ddisp__buffer_use(buffer, fixture->second));
    assert_string_equal(fake.trace, "wait s2 for s1=1; ");
    ddisp_buffer_release(buffer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(buffer_of_no_bytes_is_usable),
        TEST(absurd_sizes_do_not_reach_the_driver),
        TEST(failed_allocation_changes_nothing),
        TEST(statistics_follow_live_and_peak_by_purpose),
        TEST(zeroing_uses_the_widest_pattern_that_fits),
        TEST(copies_outside_the_buffer_are_refused),
        TEST(streams_of_another_device_are_refused),
        TEST(another_stream_waits_for_creation_once),
        TEST(first_content_is_waited_for_as_well),
        TEST(free_waits_for_every_stream_that_used_the_buffer),
        TEST(streams_may_be_released_before_buffers_they_used),
        TEST(buffer_does_not_collect_streams_whose_work_is_done),
        TEST(use_that_cannot_be_ordered_is_not_noted),
    };
    return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
