/*
 * test_pool.c - the limit of a device's memory, what its backend keeps for later, and wrapping, on
 * the fake backend (fake.h), which says what the test tells it to say.
 */
#include "check.h"

#include "fake.h"

static ddisp_device_statistics statistics(struct fake_fixture *fixture)
{
    ddisp_device_statistics found = {.size = sizeof found};
    assert_ok(ddisp_device_get_statistics(fixture->device, &found));
    return found;
}

static void allocation_beyond_the_limit_names_both_figures(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *first, *second;
    assert_ok(ddisp_device_set_memory_limit(fixture->device, 1000));
    assert_int_equal(statistics(fixture).memory_limit_bytes, 1000);
    assert_ok(ddisp_buffer_create(fixture->device, 600, &first));
    fake_forget();
    assert_fails(DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
                 "401 bytes were asked for, 400 are left of the limit of 1000 bytes",
                 ddisp_buffer_create(fixture->device, 401, &second));
    assert_string_equal(fake.trace, ""); /* the backend was not asked */
    assert_ok(ddisp_buffer_create(fixture->device, 400, &second));
    ddisp_buffer_release(second);
    ddisp_buffer_release(first);
    assert_ok(
        ddisp_buffer_create(fixture->device, 1000, &first)); /* what is freed counts no more */
    assert_ok(ddisp_device_set_memory_limit(fixture->device, 500)); /* what is there stays */
    assert_fails(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "0 are left",
                 ddisp_buffer_create(fixture->device, 1, &second));
    assert_ok(ddisp_device_set_memory_limit(fixture->device, 0));
    assert_ok(ddisp_buffer_create(fixture->device, 5000, &second));
    ddisp_buffer_release(second);
    ddisp_buffer_release(first);
}

static void allocation_that_fails_does_not_count(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer;
    assert_ok(ddisp_device_set_memory_limit(fixture->device, 1000));
    fake.fails = "memory_allocate";
    fake.fail_status = DDISP_STATUS_OUT_OF_DEVICE_MEMORY;
    for (int i = 0; i < 3; i++)
        assert_fails(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "memory_allocate failed",
                     ddisp_buffer_create(fixture->device, 1000, &buffer));
    fake.fails = NULL;
    assert_int_equal(statistics(fixture).bytes_live, 0);
    assert_ok(ddisp_buffer_create(fixture->device, 1000, &buffer));
    ddisp_buffer_release(buffer);
}

static void kept_memory_is_given_back_at_the_limit(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_buffer *buffer;
    assert_ok(ddisp_device_set_memory_limit(fixture->device, 1000));
    fake_optional.figures = (ddisp_backend_memory_figures){
        .reserved_bytes = 900, .reserved_peak_bytes = 2000, .cached_bytes = 800, .reuses = 3};
    assert_ok(ddisp_buffer_create(fixture->device, 100, &buffer));
    ddisp_buffer_release(buffer);
    assert_int_equal(fake_optional.trims, 0);
    fake_optional.figures.reserved_bytes = 1500;
    assert_ok(ddisp_buffer_create(fixture->device, 100, &buffer));
    ddisp_buffer_release(buffer);
    assert_int_equal(fake_optional.trims, 1);
    assert_int_equal(fake_optional.figures.cached_bytes, 0);
    /* What a trim could not take is not tried again until there is more. */
    fake_optional.figures =
        (ddisp_backend_memory_figures){.reserved_bytes = 1500, .cached_bytes = 10};
    for (int i = 0; i < 3; i++) {
        assert_ok(ddisp_buffer_create(fixture->device, 100, &buffer));
        ddisp_buffer_release(buffer);
        fake_optional.figures.cached_bytes = 10;
    }
    assert_int_equal(fake_optional.trims, 2);
}

static void counters_are_those_of_the_backend(void **state)
{
    struct fake_fixture *fixture = *state;
    fake_optional.figures = (ddisp_backend_memory_figures){
        .reserved_bytes = 900, .reserved_peak_bytes = 2000, .cached_bytes = 800, .reuses = 3};
    ddisp_device_statistics found = statistics(fixture);
    assert_int_equal(found.bytes_cached, 800);
    assert_int_equal(found.bytes_reserved_peak, 2000);
    assert_int_equal(found.reuses, 3);
    fake.fails = "memory_figures";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    found = statistics(fixture);
    assert_int_equal(found.bytes_cached, 0);
    /* A program built before there were these counters. */
    ddisp_device_statistics old = {.size = offsetof(ddisp_device_statistics, bytes_cached)};
    old.bytes_cached = 77;
    assert_ok(ddisp_device_get_statistics(fixture->device, &old));
    assert_int_equal(old.bytes_cached, 77);
}

static void trim_gives_kept_memory_back(void **state)
{
    struct fake_fixture *fixture = *state;
    fake_optional.figures = (ddisp_backend_memory_figures){.reserved_bytes = 9, .cached_bytes = 8};
    assert_ok(ddisp_device_trim(fixture->device));
    assert_int_equal(fake_optional.trims, 1);
    fake.fails = "memory_trim";
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "memory_trim", ddisp_device_trim(fixture->device));
}

static void backends_that_wrap_nothing_say_so(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_chain native = {.size = sizeof native, .type = 1};
    ddisp_device *device = NULL;
    ddisp_buffer *buffer = NULL;
    assert_fails(DDISP_STATUS_UNSUPPORTED, "'fake'",
                 ddisp_device_wrap(fixture->context, "fake", &native, &device));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "'fake'",
                 ddisp_backend_get_needs(fixture->context, "fake", &native));
    assert_fails(DDISP_STATUS_NOT_FOUND, "'nonesuch'",
                 ddisp_device_wrap(fixture->context, "nonesuch", &native, &device));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "native is NULL",
                 ddisp_device_wrap(fixture->context, "fake", NULL, &device));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "backend is NULL",
                 ddisp_device_wrap(fixture->context, NULL, &native, &device));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_device is NULL",
                 ddisp_device_wrap(fixture->context, "fake", &native, NULL));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "needs is NULL",
                 ddisp_backend_get_needs(fixture->context, "fake", NULL));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "addresses",
                 ddisp_buffer_wrap_native(fixture->device, &native, 16, NULL, NULL, &buffer));
    assert_true(!device && !buffer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(allocation_beyond_the_limit_names_both_figures),
        TEST(allocation_that_fails_does_not_count),
        TEST(kept_memory_is_given_back_at_the_limit),
        TEST(counters_are_those_of_the_backend),
        TEST(trim_gives_kept_memory_back),
        TEST(backends_that_wrap_nothing_say_so),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
