/*
 * test_buffers.c - buffers, streams, events and lost devices on a backend that writes down what it
 * is asked to do (fake.h). The device's own stream is s1.
 */
#include "check.h"

#include "fake.h"

struct fixture {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_stream *second, *third; /* s2 and s3 */
};

static int setup(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.context = fake_context()};
    if (!fixture.context || ddisp_device_open(fixture.context, "fake", &fixture.device) ||
        ddisp_stream_create(fixture.device, 0, &fixture.second) ||
        ddisp_stream_create(fixture.device, 0, &fixture.third))
        return 1;
    fake_forget();
    *state = &fixture;
    return 0;
}

/* Whatever a test did, nothing is left over. */
static int teardown(void **state)
{
    struct fixture *fixture = *state;
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    ddisp_device_release(fixture->device);
    ddisp_context_release(fixture->context);
    if (fake.blocks || fake.imports || fake.streams || fake.devices || fake.instances ||
        fake.host_blocks) {
        print_error("left over: %u blocks, %u imports, %u streams, %u devices, %u instances, %u "
                    "host blocks\n",
                    fake.blocks, fake.imports, fake.streams, fake.devices, fake.instances,
                    fake.host_blocks);
        return 1;
    }
    return 0;
}

static ddisp_buffer *make_buffer(struct fixture *fixture, uint64_t size_bytes)
{
    ddisp_buffer *buffer = NULL;
    assert_ok(ddisp_buffer_create(fixture->device, size_bytes, &buffer));
    return buffer;
}

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

static ddisp_buffer *wrap(struct fixture *fixture, int *releases)
{
    ddisp_buffer *buffer = NULL;
    assert_ok(ddisp_buffer_wrap(fixture->device, 0x5000, 64, count_release, releases, &buffer));
    return buffer;
}

/* ---- creation */

static void buffer_of_no_bytes_is_usable(void **state)
{
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 0);
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
    struct fixture *fixture = *state;
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
    ddisp_buffer_release(make_buffer(fixture, 500000));
}

static void failed_allocation_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
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
    ddisp_buffer_release(make_buffer(fixture, 64));
}

static void statistics_follow_live_and_peak_by_purpose(void **state)
{
    struct fixture *fixture = *state;
    ddisp_device_statistics statistics = {.size = sizeof statistics};
    ddisp_buffer *data, *gradient, *scratch;
    ddisp_stream *own = fixture->device->stream;
    data = make_buffer(fixture, 100);
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
    struct fixture *fixture = *state;
    static const struct {
        uint64_t size_bytes;
        const char *fill;
    } cases[] = {
        {8, "fill s1 8 with 0:4; "}, {6, "fill s1 6 with 0:2; "}, {7, "fill s1 7 with 0:1; "}};
    for (int i = 0; i < 3; i++) {
        ddisp_buffer *buffer = make_buffer(fixture, cases[i].size_bytes);
        fake_forget();
        assert_ok(ddisp__buffer_zero(buffer, fixture->device->stream));
        assert_string_equal(fake.trace, cases[i].fill);
        ddisp_buffer_release(buffer);
    }
}

/* ---- copies */

static void copies_outside_the_buffer_are_refused(void **state)
{
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    ddisp_device *other;
    ddisp_stream *stream;
    ddisp_event *event;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    char data[16] = {0};
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    ddisp_stream *own = fixture->device->stream;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
    assert_ok(ddisp__buffer_use(buffer, fixture->second));
    ddisp_stream_release(fixture->second);
    fixture->second = NULL;
    fake_forget();
    ddisp_buffer_release(buffer);
    assert_string_equal(fake.trace, "mark s2=1; wait s1 for s2=1; destroy s2; free s1 16; ");
}

static void buffer_does_not_collect_streams_whose_work_is_done(void **state)
{
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = make_buffer(fixture, 16);
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

/* ---- lent memory */

static void idle_lent_memory_is_given_back_at_once(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *buffer = wrap(fixture, &releases);
    assert_int_equal(ddisp_buffer_address(buffer), 0x5000);
    assert_int_equal(ddisp_buffer_size(buffer), 64);
    ddisp_buffer_release(buffer);
    assert_int_equal(releases, 1);
    assert_string_equal(fake.trace, "import 64; unimport 64; ");
}

static void lent_memory_in_use_is_given_back_after_the_work(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    char data[4];
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    ddisp_buffer *buffer = wrap(fixture, &releases);
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, fixture->second));
    assert_ok(ddisp_event_record(event, fixture->second));
    fake_forget();
    ddisp_buffer_release(buffer);
    assert_string_equal(fake.trace, "mark s2=2; wait s1 for s2=2; mark s1=1; ");
    assert_int_equal(releases, 0);
    assert_int_equal(ddisp_event_query(event), DDISP_STATUS_NOT_READY);
    assert_int_equal(releases, 0);

    fake_complete();
    assert_ok(ddisp_event_query(event));
    assert_int_equal(releases, 1);
    assert_ok(ddisp_device_synchronize(fixture->device, DDISP_TIMEOUT_INFINITE));
    ddisp_buffer *other = make_buffer(fixture, 4);
    assert_ok(ddisp_buffer_read(other, 0, data, 4, NULL));
    ddisp_buffer_release(other);
    assert_int_equal(releases, 1);
    ddisp_event_release(event);
}

static void last_device_release_waits_for_lent_memory(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = wrap(fixture, &releases);
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, fixture->second));
    /* The device goes first, then the stream, then the buffer: it holds what it needs. */
    ddisp_device_release(fixture->device);
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    fixture->device = NULL;
    fixture->second = fixture->third = NULL;
    assert_int_equal(fake.devices, 1);
    ddisp_buffer_release(buffer);
    assert_int_equal(releases, 1);
    assert_int_equal(fake.devices, 0);
    assert_non_null(strstr(fake.trace, "synchronize s1"));
}

static void failed_wrap_leaves_the_memory_to_the_caller(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *buffer = NULL;
    fake.fails = "memory_import";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "memory_import failed",
                 ddisp_buffer_wrap(fixture->device, 0x5000, 64, count_release, &releases, &buffer));
    fake.fails = NULL;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "address is 0",
                 ddisp_buffer_wrap(fixture->device, 0, 64, count_release, &releases, &buffer));
    assert_fails(
        DDISP_STATUS_INVALID_ARGUMENT, "past the end of 64 bits",
        ddisp_buffer_wrap(fixture->device, 64, UINT64_MAX, count_release, &releases, &buffer));
    fake.allocations_left = 0;
    assert_fails(DDISP_STATUS_OUT_OF_MEMORY, "host memory",
                 ddisp_buffer_wrap(fixture->device, 64, 64, count_release, &releases, &buffer));
    fake.allocations_left = UINT32_MAX;
    assert_null(buffer);
    assert_int_equal(releases, 0);
}

static void without_host_memory_the_release_waits_instead(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = wrap(fixture, &releases);
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, NULL));
    fake.allocations_left = 0;
    ddisp_buffer_release(buffer);
    fake.allocations_left = UINT32_MAX;
    assert_int_equal(releases, 1);
    assert_non_null(strstr(fake.trace, "synchronize s1"));
}

static void lent_memory_whose_order_failed_is_kept_until_the_device_ends(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = wrap(fixture, &releases);
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, fixture->second));
    fake.fails = "stream_mark";
    fake.fail_status = DDISP_STATUS_OUT_OF_MEMORY;
    ddisp_buffer_release(buffer);
    fake.fails = NULL;
    fake_complete();
    assert_ok(ddisp_device_synchronize(fixture->device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(releases, 0);
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    ddisp_device_release(fixture->device);
    *fixture = (struct fixture){.context = fixture->context};
    assert_int_equal(releases, 1);
}

struct reentry {
    ddisp_device *device;
    ddisp_stream *stream;
    int calls;
};

/* Calls back into the library, up to the last release of what the caller was working with. */
static void call_back(void *user_data)
{
    struct reentry *reentry = user_data;
    ddisp_buffer *buffer;
    reentry->calls++;
    if (ddisp_device_synchronize(reentry->device, DDISP_TIMEOUT_INFINITE) == DDISP_STATUS_OK &&
        ddisp_buffer_create(reentry->device, 8, &buffer) == DDISP_STATUS_OK)
        ddisp_buffer_release(buffer);
    ddisp_stream_release(reentry->stream);
    ddisp_device_release(reentry->device);
}

static void release_function_may_call_the_library(void **state)
{
    struct fixture *fixture = *state;
    struct reentry reentry = {.device = fixture->device, .stream = fixture->second};
    ddisp_buffer *buffer;
    fake.holds = true;
    assert_ok(ddisp_buffer_wrap(fixture->device, 0x5000, 64, call_back, &reentry, &buffer));
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, fixture->second));
    ddisp_buffer_release(buffer);
    ddisp_stream_release(fixture->third);
    fixture->third = NULL;
    fake_complete();
    assert_ok(ddisp_stream_synchronize(fixture->second, DDISP_TIMEOUT_INFINITE));
    fixture->second = NULL;
    fixture->device = NULL;
    assert_int_equal(reentry.calls, 1);
}

/* ---- streams and events */

static void event_is_done_before_its_first_record(void **state)
{
    struct fixture *fixture = *state;
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    assert_ok(ddisp_event_query(event));
    assert_ok(ddisp_event_synchronize(event, 0));
    assert_ok(ddisp_stream_wait_event(fixture->second, event));
    assert_string_equal(fake.trace, "");
    ddisp_event_release(event);
}

static void later_record_replaces_the_mark(void **state)
{
    struct fixture *fixture = *state;
    ddisp_event *event;
    fake.holds = true;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    assert_ok(ddisp_event_record(event, fixture->second));
    assert_ok(ddisp_event_record(event, NULL));
    assert_ok(ddisp_stream_wait_event(fixture->third, event));
    assert_ok(ddisp_stream_wait_event(NULL, event)); /* itself: nothing to wait for */
    assert_string_equal(fake.trace, "mark s2=1; mark s1=1; wait s3 for s1=1; ");
    assert_int_equal(ddisp_event_query(event), DDISP_STATUS_NOT_READY);
    assert_fails(DDISP_STATUS_TIMEOUT, "fake:0 was not done after 1000 ns",
                 ddisp_event_synchronize(event, 1000));
    fake_complete();
    assert_ok(ddisp_event_query(event));
    assert_ok(ddisp_event_synchronize(event, 0));
    ddisp_event_release(event);
}

static void wait_that_times_out_can_be_repeated(void **state)
{
    struct fixture *fixture = *state;
    fake.holds = true;
    assert_fails(DDISP_STATUS_TIMEOUT, "5 ns", ddisp_stream_synchronize(fixture->second, 5));
    assert_fails(DDISP_STATUS_TIMEOUT, "6 ns", ddisp_device_synchronize(fixture->device, 6));
    assert_ok(ddisp_stream_synchronize(fixture->second, DDISP_TIMEOUT_INFINITE));
    assert_ok(ddisp_device_status(fixture->device));
}

static void null_handles_and_unknown_flags_are_refused_by_name(void **state)
{
    struct fixture *fixture = *state;
    ddisp_stream *stream;
    ddisp_event *event;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "device is NULL",
                 ddisp_stream_create(NULL, 0, &stream));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_stream is NULL",
                 ddisp_stream_create(fixture->device, 0, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "flags is 0x4",
                 ddisp_stream_create(fixture->device, 4, &stream));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "stream is NULL", ddisp_stream_flush(NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "stream is NULL",
                 ddisp_stream_synchronize(NULL, 0));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "flags is 0x1",
                 ddisp_event_create(fixture->device, 1, &event));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event is NULL", ddisp_event_record(NULL, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "event is NULL",
                 ddisp_stream_wait_event(fixture->second, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_buffer is NULL",
                 ddisp_buffer_create(fixture->device, 1, NULL));
    ddisp_stream_release(NULL);
    ddisp_event_release(NULL);
    ddisp_buffer_release(NULL);
    ddisp_stream_retain(NULL);
    ddisp_event_retain(NULL);
    ddisp_buffer_retain(NULL);
    assert_int_equal(ddisp_buffer_address(NULL), 0);
    assert_int_equal(ddisp_buffer_size(NULL), 0);
}

/* ---- lost devices */

static void lose(struct fixture *fixture)
{
    fake.fails = "stream_flush";
    fake.fail_status = DDISP_STATUS_DEVICE_LOST;
    assert_fails(DDISP_STATUS_DEVICE_LOST, "device fake:0 was lost: fake: stream_flush failed",
                 ddisp_stream_flush(fixture->second));
    fake.fails = NULL;
    fake_forget();
}

static void lost_device_is_not_called_and_names_its_first_cause(void **state)
{
    struct fixture *fixture = *state;
    ddisp_event *event;
    ddisp_error error = {.size = sizeof error};
    ddisp_buffer *buffer = make_buffer(fixture, 16), *other;
    char data[16] = {0};
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    assert_ok(ddisp_event_record(event, NULL));
    lose(fixture);

    const char *cause = "stream_flush failed";
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_device_status(fixture->device));
    assert_ok(ddisp_last_error_detail(&error));
    assert_int_equal(error.native_code, -77);
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_buffer_create(fixture->device, 1, &other));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_buffer_write(buffer, 0, data, 16, NULL));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_buffer_read(buffer, 0, data, 16, NULL));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_device_synchronize(fixture->device, 0));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_event_query(event));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_event_record(event, NULL));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp_stream_wait_event(fixture->third, event));
    assert_fails(DDISP_STATUS_DEVICE_LOST, cause, ddisp__buffer_use(buffer, fixture->third));
    assert_string_equal(fake.trace, "");

    /* What touches no device still answers. */
    ddisp_device_info info = {.size = sizeof info};
    assert_ok(ddisp_device_get_info(fixture->device, &info));
    assert_string_equal(info.spec, "fake:0");
    ddisp_event_release(event);
    ddisp_buffer_release(buffer);
}

static void lost_device_is_released_without_waits(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *owned = make_buffer(fixture, 16), *lent = wrap(fixture, &releases),
                 *waiting = wrap(fixture, &releases);
    assert_ok(ddisp__buffer_use(owned, fixture->second));
    assert_ok(ddisp__buffer_use(lent, fixture->second));
    assert_ok(ddisp__buffer_use(waiting, fixture->second));
    ddisp_buffer_release(waiting);
    assert_int_equal(releases, 0);
    lose(fixture);
    ddisp_buffer_release(owned);
    ddisp_buffer_release(lent);
    assert_int_equal(releases, 1);
    assert_string_equal(fake.trace, "free s1 16; unimport 64; ");
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    ddisp_device_release(fixture->device);
    *fixture = (struct fixture){.context = fixture->context};
    assert_int_equal(releases, 2);
    assert_string_equal(fake.trace, "free s1 16; unimport 64; destroy s2; destroy s3; unimport 64; "
                                    "destroy s1; device_close; ");
}

static void other_devices_go_on_after_a_loss(void **state)
{
    struct fixture *fixture = *state;
    ddisp_device *other;
    ddisp_buffer *buffer;
    assert_ok(ddisp_device_open(fixture->context, "fake:1", &other));
    lose(fixture);
    assert_ok(ddisp_device_status(other));
    assert_ok(ddisp_buffer_create(other, 8, &buffer));
    ddisp_buffer_release(buffer);
    ddisp_device_release(other);
}

static void failure_without_a_message_gets_one(void **state)
{
    struct fixture *fixture = *state;
    ddisp_buffer *buffer = NULL;
    fake.fails = "memory_allocate";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    fake.fail_silently = true;
    ddisp__fail(DDISP_STATUS_INTERNAL, "an old one");
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "backend fake gave no message",
                 ddisp_buffer_create(fixture->device, 8, &buffer));
}

static void releases_leave_the_last_error_in_place(void **state)
{
    struct fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *owned = make_buffer(fixture, 16), *lent = wrap(fixture, &releases);
    ddisp_stream *stream;
    assert_ok(ddisp_stream_create(fixture->device, 0, &stream));
    assert_ok(ddisp__buffer_use(owned, fixture->second));
    assert_ok(ddisp__buffer_use(lent, fixture->second));
    ddisp__fail(DDISP_STATUS_RANK_MISMATCH, "what the caller wants to read");
    fake.fails = "stream_wait";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    fake.holds = true;
    ddisp_buffer_release(owned);
    ddisp_buffer_release(lent);
    ddisp_stream_release(stream);
    assert_error_says("what the caller wants to read");
    assert_non_null(
        strstr(fake.trace, "synchronize s2")); /* on the host, since the device would not */
    fake.fails = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(idle_lent_memory_is_given_back_at_once),
        TEST(lent_memory_in_use_is_given_back_after_the_work),
        TEST(last_device_release_waits_for_lent_memory),
        TEST(failed_wrap_leaves_the_memory_to_the_caller),
        TEST(without_host_memory_the_release_waits_instead),
        TEST(lent_memory_whose_order_failed_is_kept_until_the_device_ends),
        TEST(release_function_may_call_the_library),
        TEST(event_is_done_before_its_first_record),
        TEST(later_record_replaces_the_mark),
        TEST(wait_that_times_out_can_be_repeated),
        TEST(null_handles_and_unknown_flags_are_refused_by_name),
        TEST(lost_device_is_not_called_and_names_its_first_cause),
        TEST(lost_device_is_released_without_waits),
        TEST(other_devices_go_on_after_a_loss),
        TEST(failure_without_a_message_gets_one),
        TEST(releases_leave_the_last_error_in_place),
    };
    return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
