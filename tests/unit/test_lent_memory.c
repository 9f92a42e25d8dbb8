/*
 * test_lent_memory.c - memory that the program lends, on a backend that completes work when the
 * test says so (fake.h): it goes back once, after the work, in whatever order handles are released.
 */
#include "check.h"

#include "fake.h"

static void idle_lent_memory_is_given_back_at_once(void **state)
{
    struct fake_fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *buffer = fake_wrap(fixture, &releases);
    assert_int_equal(ddisp_buffer_address(buffer), 0x5000);
    assert_int_equal(ddisp_buffer_size(buffer), 64);
    ddisp_buffer_release(buffer);
    assert_int_equal(releases, 1);
    assert_string_equal(fake.trace, "import 64; unimport 64; ");
}

static void lent_memory_in_use_is_given_back_after_the_work(void **state)
{
    struct fake_fixture *fixture = *state;
    int releases = 0;
    char data[4];
    ddisp_event *event;
    assert_ok(ddisp_event_create(fixture->device, 0, &event));
    fake.holds = true;
    ddisp_buffer *buffer = fake_wrap(fixture, &releases);
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
    ddisp_buffer *other = fake_buffer(fixture, 4);
    assert_ok(ddisp_buffer_read(other, 0, data, 4, NULL));
    ddisp_buffer_release(other);
    assert_int_equal(releases, 1);
    ddisp_event_release(event);
}

static void last_device_release_waits_for_lent_memory(void **state)
{
    struct fake_fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = fake_wrap(fixture, &releases);
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
    struct fake_fixture *fixture = *state;
    int releases = 0;
    ddisp_buffer *buffer = NULL;
    fake.fails = "memory_import";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    assert_fails(
        DDISP_STATUS_DRIVER_ERROR, "memory_import failed",
        ddisp_buffer_wrap(fixture->device, 0x5000, 64, fake_count_release, &releases, &buffer));
    fake.fails = NULL;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "address is 0",
                 ddisp_buffer_wrap(fixture->device, 0, 64, fake_count_release, &releases, &buffer));
    assert_fails(
        DDISP_STATUS_INVALID_ARGUMENT, "past the end of 64 bits",
        ddisp_buffer_wrap(fixture->device, 64, UINT64_MAX, fake_count_release, &releases, &buffer));
    fake.allocations_left = 0;
    assert_fails(
        DDISP_STATUS_OUT_OF_MEMORY, "host memory",
        ddisp_buffer_wrap(fixture->device, 64, 64, fake_count_release, &releases, &buffer));
    fake.allocations_left = UINT32_MAX;
    assert_null(buffer);
    assert_int_equal(releases, 0);
}

static void without_host_memory_the_release_waits_instead(void **state)
{
    struct fake_fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = fake_wrap(fixture, &releases);
    assert_ok(ddisp_buffer_write(buffer, 0, "abcd", 4, NULL));
    fake.allocations_left = 0;
    ddisp_buffer_release(buffer);
    fake.allocations_left = UINT32_MAX;
    assert_int_equal(releases, 1);
    assert_non_null(strstr(fake.trace, "synchronize s1"));
}

static void lent_memory_whose_order_failed_is_kept_until_the_device_ends(void **state)
{
    struct fake_fixture *fixture = *state;
    int releases = 0;
    fake.holds = true;
    ddisp_buffer *buffer = fake_wrap(fixture, &releases);
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
    *fixture = (struct fake_fixture){.context = fixture->context};
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
    struct fake_fixture *fixture = *state;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(idle_lent_memory_is_given_back_at_once),
        TEST(lent_memory_in_use_is_given_back_after_the_work),
        TEST(last_device_release_waits_for_lent_memory),
        TEST(failed_wrap_leaves_the_memory_to_the_caller),
        TEST(without_host_memory_the_release_waits_instead),
        TEST(lent_memory_whose_order_failed_is_kept_until_the_device_ends),
        TEST(release_function_may_call_the_library),
    };
    return cmocka_run_group_tests_name("lent_memory", tests, NULL, NULL);
}
