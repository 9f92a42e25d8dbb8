/*
 * test_streams.c - streams, events and lost devices on a backend that writes down what it is asked
 * to do (fake.h). The device's own stream is s1.
 */
#include "check.h"

#include "fake.h"

/* ---- streams and events */

static void event_is_done_before_its_first_record(void **state)
{
    struct fake_fixture *fixture = *state;
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
    struct fake_fixture *fixture = *state;
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
    struct fake_fixture *fixture = *state;
    fake.holds = true;
    assert_fails(DDISP_STATUS_TIMEOUT, "5 ns", ddisp_stream_synchronize(fixture->second, 5));
    assert_fails(DDISP_STATUS_TIMEOUT, "6 ns", ddisp_device_synchronize(fixture->device, 6));
    assert_ok(ddisp_stream_synchronize(fixture->second, DDISP_TIMEOUT_INFINITE));
    assert_ok(ddisp_device_status(fixture->device));
}

static void null_handles_and_unknown_flags_are_refused_by_name(void **state)
{
    struct fake_fixture *fixture = *state;
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
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "flags is 0x2",
                 ddisp_event_create(fixture->device, 2, &event));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "tells no time",
                 ddisp_event_create(fixture->device, DDISP_EVENT_TIMED, &event));
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

static void lose(struct fake_fixture *fixture)
{
    fake.fails = "stream_flush";
    fake.fail_status = DDISP_STATUS_DEVICE_LOST;
    assert_fails(DDISP_STATUS_DEVICE_LOST, "device fake:0 was lost: fake: stream_flush failed",
                 ddisp_stream_flush(fixture->second));
    fake.fails = NULL;
    fake_forget();
}

static void case_44_lost_device_is_not_called_and_names_its_first_cause(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_event *event;
    ddisp_error error = {.size = sizeof error};
    ddisp_buffer *buffer = fake_buffer(fixture, 16), *other;
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
    struct fake_fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *owned = fake_buffer(fixture, 16), *lent = fake_wrap(fixture, &releases),
                 *waiting = fake_wrap(fixture, &releases);
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
    *fixture = (struct fake_fixture){.context = fixture->context};
    assert_int_equal(releases, 2);
    assert_string_equal(fake.trace, "free s1 16; unimport 64; destroy s2; destroy s3; unimport 64; "
                                    "destroy s1; device_close; ");
}

static void other_devices_go_on_after_a_loss(void **state)
{
    struct fake_fixture *fixture = *state;
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
    struct fake_fixture *fixture = *state;
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
    struct fake_fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *owned = fake_buffer(fixture, 16), *lent = fake_wrap(fixture, &releases);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(event_is_done_before_its_first_record),
        TEST(later_record_replaces_the_mark),
        TEST(wait_that_times_out_can_be_repeated),
        TEST(null_handles_and_unknown_flags_are_refused_by_name),
        TEST(case_44_lost_device_is_not_called_and_names_its_first_cause),
        TEST(lost_device_is_released_without_waits),
        TEST(other_devices_go_on_after_a_loss),
        TEST(failure_without_a_message_gets_one),
        TEST(releases_leave_the_last_error_in_place),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
