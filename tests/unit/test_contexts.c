/*
 * test_contexts.c - contexts with the toy plugin: descriptions, environment, log, allocator.
 * TOY_DIRECTORY is where the plugin lies.
 */
#include "check.h"

#include <stdlib.h>

static ddisp_context_desc toy_desc(void)
{
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = sizeof desc;
    desc.backends = "toy";
    desc.backend_path = TOY_DIRECTORY;
    return desc;
}

static int setup(void **state)
{
    ddisp_context_desc desc = toy_desc();
    ddisp_context *context = NULL;
    ddisp_status status = ddisp_context_create(&desc, &context);
    *state = context;
    return status != DDISP_STATUS_OK;
}

static int teardown(void **state)
{
    ddisp_context_release(*state);
    return 0;
}

/* ---- contexts */

static void wrong_fields_of_the_description_are_named(void **state)
{
    (void)state;
    ddisp_context *context = NULL;
    ddisp_context_desc desc = toy_desc();
    desc.size = 8;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.size is 8",
                 ddisp_context_create(&desc, &context));
    desc = toy_desc();
    desc.flags = 2;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.flags is 0x2",
                 ddisp_context_create(&desc, &context));
    desc = toy_desc();
    desc.log_level = 6;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.log_level is 6",
                 ddisp_context_create(&desc, &context));
    desc = toy_desc();
    desc.backend_path = "plugins";
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.backend_path is 'plugins'",
                 ddisp_context_create(&desc, &context));
    desc = toy_desc();
    desc.cache_directory = "./cache";
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.cache_directory is './cache'",
                 ddisp_context_create(&desc, &context));
    desc = toy_desc();
    ddisp_chain chain = {.size = sizeof chain, .type = 77};
    desc.next = &chain;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "type 77", ddisp_context_create(&desc, &context));
    desc = toy_desc();
    ddisp_allocator allocator = {.size = sizeof allocator};
    desc.allocator = &allocator;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.allocator.allocate is NULL",
                 ddisp_context_create(&desc, &context));
    allocator.size = 1;
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "desc.allocator.size is 1",
                 ddisp_context_create(&desc, &context));
    assert_null(context);
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_context is NULL",
                 ddisp_context_create(NULL, NULL));
}

static void null_handles_are_refused_by_name(void **state)
{
    ddisp_context *context = *state;
    uint32_t count;
    ddisp_device *device = NULL;
    ddisp_device_info info = {.size = sizeof info};
    ddisp_backend_info backend = {.size = sizeof backend};
    const ddisp_status invalid = DDISP_STATUS_INVALID_ARGUMENT;
    assert_fails(invalid, "context is NULL", ddisp_backend_count(NULL, &count));
    assert_fails(invalid, "out_count is NULL", ddisp_backend_count(context, NULL));
    assert_fails(invalid, "context is NULL", ddisp_backend_get_info(NULL, 0, &backend));
    assert_fails(invalid, "out_info is NULL", ddisp_backend_get_info(context, 0, NULL));
    assert_fails(invalid, "index is 4000", ddisp_backend_get_info(context, 4000, &backend));
    assert_fails(invalid, "context is NULL", ddisp_device_count(NULL, &count));
    assert_fails(invalid, "out_count is NULL", ddisp_device_count(context, NULL));
    assert_fails(invalid, "out_info is NULL", ddisp_device_describe(context, 0, NULL));
    assert_fails(invalid, "index is 2, but there are 2", ddisp_device_describe(context, 2, &info));
    assert_fails(invalid, "context is NULL", ddisp_device_open(NULL, "toy", &device));
    assert_fails(invalid, "spec is NULL", ddisp_device_open(context, NULL, &device));
    assert_fails(invalid, "out_device is NULL", ddisp_device_open(context, "toy", NULL));
    assert_fails(invalid, "device is NULL", ddisp_device_get_info(NULL, &info));
    assert_fails(invalid, "device is NULL", ddisp_device_status(NULL));
    assert_fails(invalid, "device is NULL", ddisp_device_synchronize(NULL, 0));
    assert_fails(invalid, "device is NULL", ddisp_device_get_statistics(NULL, NULL));
    ddisp_context_retain(NULL);
    ddisp_context_release(NULL);
    ddisp_device_retain(NULL);
    ddisp_device_release(NULL);
    assert_null(device);
}

static void success_leaves_the_last_error_in_place(void **state)
{
    (void)state;
    ddisp_context *context;
    ddisp_context_desc desc = toy_desc();
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "device is NULL", ddisp_device_status(NULL));
    assert_ok(ddisp_context_create(&desc, &context));
    assert_error_says("device is NULL");
    ddisp_context_release(context);
}

static void check_cache(const char *expected)
{
    char directory[256];
    uint64_t length = 0;
    ddisp_context *context;
    ddisp_context_desc desc = toy_desc();
    desc.log_level = DDISP_LOG_LEVEL_NONE;
    assert_ok(ddisp_context_create(&desc, &context));
    assert_ok(ddisp_context_get_cache_directory(context, directory, sizeof directory, &length));
    assert_string_equal(directory, expected);
    assert_int_equal(length, strlen(expected));
    assert_int_equal(ddisp_context_get_cache_directory(context, directory, length, NULL),
                     DDISP_STATUS_BUFFER_TOO_SMALL);
    ddisp_context_release(context);
}

static void cache_directory_follows_the_environment(void **state)
{
    (void)state;
    setenv("HOME", "/home/somebody", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("DDISP_CACHE_DIR");
    check_cache("/home/somebody/.cache/diffdispatch");
    setenv("XDG_CACHE_HOME", "/var/somewhere", 1);
    check_cache("/var/somewhere/diffdispatch");
    setenv("DDISP_CACHE_DIR", "relative", 1);
    check_cache("/var/somewhere/diffdispatch");
    setenv("DDISP_CACHE_DIR", "/kernels", 1);
    check_cache("/kernels");
    unsetenv("DDISP_CACHE_DIR");
    setenv("XDG_CACHE_HOME", "", 1);
    unsetenv("HOME");
    check_cache("");
}

struct logged {
    char text[8192];
    uint32_t levels[8];
};

static void log_message(void *user_data, ddisp_log_level level, const char *message)
{
    struct logged *logged = user_data;
    strncat(logged->text, message, sizeof logged->text - strlen(logged->text) - 1);
    logged->levels[level]++;
}

static void log_function_gets_messages_up_to_its_level(void **state)
{
    (void)state;
    struct logged logged = {{0}, {0}};
    ddisp_context *context;
    ddisp_context_desc desc = toy_desc();
    desc.log = log_message;
    desc.log_user_data = &logged;
    desc.log_level = DDISP_LOG_LEVEL_WARNING;
    assert_ok(ddisp_context_create(&desc, &context));
    ddisp_context_release(context);
    assert_string_equal(logged.text, "");

    desc.log_level = DDISP_LOG_LEVEL_INFO;
    assert_ok(ddisp_context_create(&desc, &context));
    ddisp_context_release(context);
    assert_non_null(strstr(logged.text, "backend toy 1.0 loaded from " TOY_DIRECTORY));
    assert_int_equal(logged.levels[DDISP_LOG_LEVEL_DEBUG], 0);

    memset(&logged, 0, sizeof logged);
    desc.log_level = DDISP_LOG_LEVEL_DEFAULT;
    setenv("DDISP_LOG", "loud", 1);
    assert_ok(ddisp_context_create(&desc, &context));
    ddisp_context_release(context);
    unsetenv("DDISP_LOG");
    assert_string_equal(logged.text,
                        "DDISP_LOG is 'loud'; it can be none, error, warning, info or debug");
}

static uint32_t allocations_left, live_allocations;

static void *limited_allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    live_allocations++;
    return malloc(size_bytes);
}

static void limited_release(void *user_data, void *pointer)
{
    (void)user_data;
    live_allocations--;
    free(pointer);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const ddisp_allocator allocator = {
        .size = sizeof allocator, .allocate = limited_allocate, .release = limited_release};
    ddisp_context_desc desc = toy_desc();
    desc.allocator = &allocator;
    uint32_t failures = 0;
    for (uint32_t limit = 0; limit < 100; limit++) {
        ddisp_context *context = NULL;
        ddisp_device *device = NULL;
        ddisp_stream *stream = NULL;
        ddisp_event *event = NULL;
        ddisp_buffer *buffer = NULL;
        allocations_left = limit;
        ddisp_status status = ddisp_context_create(&desc, &context);
        if (status == DDISP_STATUS_OK)
            status = ddisp_device_open(context, "auto", &device);
        if (status == DDISP_STATUS_OK)
            status = ddisp_stream_create(device, 0, &stream);
        if (status == DDISP_STATUS_OK)
            status = ddisp_event_create(device, 0, &event);
        if (status == DDISP_STATUS_OK)
            status = ddisp_buffer_create(device, 64, &buffer);
        if (status == DDISP_STATUS_OK)
            status = ddisp_buffer_write(buffer, 0, "abcd", 4, stream);
        if (status == DDISP_STATUS_OK)
            status = ddisp_event_record(event, stream);
        ddisp_buffer_release(buffer);
        ddisp_event_release(event);
        ddisp_stream_release(stream);
        ddisp_device_release(device);
        ddisp_context_release(context);
        assert_int_equal(live_allocations, 0);
        if (status == DDISP_STATUS_OK)
            break;
        assert_string_equal(ddisp_status_name(status), "DDISP_STATUS_OUT_OF_MEMORY");
        failures++;
    }
    assert_in_range(failures, 8, 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_fields_of_the_description_are_named),
        TEST(null_handles_are_refused_by_name),
        TEST(success_leaves_the_last_error_in_place),
        TEST(cache_directory_follows_the_environment),
        TEST(log_function_gets_messages_up_to_its_level),
        TEST(every_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("contexts", tests, NULL, NULL);
}
