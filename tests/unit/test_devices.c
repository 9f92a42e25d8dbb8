/*
 * test_devices.c - devices of the toy plugin: names, ranks, references in any order, threads,
 * forks. TOY_DIRECTORY is where the plugin lies.
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- naming devices */

static void devices_are_listed_by_rank(void **state)
{
    ddisp_context *context = *state;
    uint32_t count = 0;
    ddisp_device_info info = {.size = sizeof info};
    assert_ok(ddisp_device_count(context, &count));
    assert_int_equal(count, 2);
    /* The toy ranks its second device above its first. */
    assert_ok(ddisp_device_describe(context, 0, &info));
    assert_string_equal(info.spec, "toy:1");
    assert_string_equal(info.backend, "toy");
    assert_string_equal(info.name, "toy device 1");
    assert_int_equal(info.rank, 2);
    assert_ok(ddisp_device_describe(context, 1, &info));
    assert_string_equal(info.spec, "toy:0");
}

static void specs_open_what_they_name(void **state)
{
    ddisp_context *context = *state;
    static const struct {
        const char *spec, *opened;
    } cases[] = {{"auto", "toy:1"},
                 {"toy", "toy:0"},
                 {"toy:0", "toy:0"},
                 {"toy:1", "toy:1"},
                 {"toy:0001", "toy:1"},
                 {"toy:uuid=00000000-0000-0000-0000-000000007001", "toy:1"},
                 {"toy:uuid=00000000000000000000000000007000", "toy:0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_device *device;
        ddisp_device_info info = {.size = sizeof info};
        assert_ok(ddisp_device_open(context, cases[i].spec, &device));
        assert_ok(ddisp_device_get_info(device, &info));
        assert_string_equal(info.spec, cases[i].opened);
        ddisp_device_release(device);
    }
}

static void wrong_specs_say_what_is_wrong(void **state)
{
    ddisp_context *context = *state;
    static const struct {
        const char *spec;
        ddisp_status status;
        const char *text;
    } cases[] = {
        {"", DDISP_STATUS_INVALID_ARGUMENT, "spec is ''"},
        {":0", DDISP_STATUS_INVALID_ARGUMENT, "spec is ':0'"},
        {"toy:", DDISP_STATUS_INVALID_ARGUMENT, "spec is 'toy:'"},
        {"toy:x", DDISP_STATUS_INVALID_ARGUMENT, "spec is 'toy:x'"},
        {"toy:-1", DDISP_STATUS_INVALID_ARGUMENT, "spec is 'toy:-1'"},
        {"toy: 1", DDISP_STATUS_INVALID_ARGUMENT, "spec is 'toy: 1'"},
        {"toy:4294967296", DDISP_STATUS_INVALID_ARGUMENT, "4294967296"},
        {"toy:uuid=", DDISP_STATUS_INVALID_ARGUMENT, "uuid="},
        {"toy:2", DDISP_STATUS_NOT_FOUND, "no device toy:2; backend 'toy' has 2 devices"},
        {"toy:uuid=12", DDISP_STATUS_NOT_FOUND, "has UUID 12"},
        {"to", DDISP_STATUS_NOT_FOUND, "no backend 'to'"},
        {"toyy:0", DDISP_STATUS_NOT_FOUND, "no backend 'toyy'"},
        {"TOY", DDISP_STATUS_NOT_FOUND, "no backend 'TOY'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_device *device = NULL;
        assert_fails(cases[i].status, cases[i].text,
                     ddisp_device_open(context, cases[i].spec, &device));
        assert_null(device);
    }
}

static void very_long_specs_do_no_harm(void **state)
{
    ddisp_device *device = NULL;
    char *spec = test_malloc(100000);
    memset(spec, 'a', 99999);
    spec[99999] = '\0';
    assert_fails(DDISP_STATUS_NOT_FOUND, "aaaa", ddisp_device_open(*state, spec, &device));
    spec[5000] = ':';
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "aaaa", ddisp_device_open(*state, spec, &device));
    assert_null(device);
    test_free(spec);
}

/* ---- references */

static void opening_twice_gives_the_same_device(void **state)
{
    ddisp_context *context = *state;
    ddisp_device *first, *second, *other;
    assert_ok(ddisp_device_open(context, "toy:1", &first));
    assert_ok(ddisp_device_open(context, "auto", &second));
    assert_ok(ddisp_device_open(context, "toy:0", &other));
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    ddisp_device_release(first);
    assert_ok(ddisp_device_status(second));
    ddisp_device_release(second);
    ddisp_device_release(other);
}

/* Case 47 (c): the device and its context go before what stands on them. */
static void case_47_handles_are_released_in_any_order(void **state)
{
    (void)state;
    char data[4] = {0};
    for (uint32_t order = 0; order < 120; order++) {
        ddisp_context_desc desc = toy_desc();
        ddisp_context *context;
        ddisp_device *device;
        ddisp_stream *stream;
        ddisp_event *event;
        ddisp_buffer *buffer;
        assert_ok(ddisp_context_create(&desc, &context));
        assert_ok(ddisp_device_open(context, "toy", &device));
        assert_ok(ddisp_stream_create(device, 0, &stream));
        assert_ok(ddisp_event_create(device, 0, &event));
        assert_ok(ddisp_buffer_create(device, 16, &buffer));
        assert_ok(ddisp_buffer_write(buffer, 12, "abcd", 4, stream));
        assert_ok(ddisp_event_record(event, stream));
        assert_ok(ddisp_buffer_read(buffer, 12, data, 4, NULL));
        assert_memory_equal(data, "abcd", 4);

        /* The order-th permutation of five releases. */
        uint32_t left[5] = {0, 1, 2, 3, 4}, rest = order;
        for (uint32_t count = 5; count > 0; count--) {
            uint32_t pick = rest % count;
            rest /= count;
            switch (left[pick]) {
            case 0:
                ddisp_context_release(context);
                break;
            case 1:
                ddisp_device_release(device);
                break;
            case 2:
                ddisp_stream_release(stream);
                break;
            case 3:
                ddisp_event_release(event);
                break;
            default:
                ddisp_buffer_release(buffer);
                break;
            }
            left[pick] = left[count - 1];
        }
    }
}

/* NULL when all went well. */
static void *open_and_release(void *user)
{
    ddisp_context *context = user;
    for (int i = 0; i < 2000; i++) {
        ddisp_device *device = NULL;
        ddisp_buffer *buffer = NULL;
        char data[4] = {0};
        if (ddisp_device_open(context, "toy:0", &device) != DDISP_STATUS_OK ||
            ddisp_buffer_create(device, 8, &buffer) != DDISP_STATUS_OK)
            return user;
        ddisp_device_release(device);
        if (ddisp_buffer_write(buffer, 4, "abcd", 4, NULL) != DDISP_STATUS_OK ||
            ddisp_buffer_read(buffer, 4, data, 4, NULL) != DDISP_STATUS_OK ||
            memcmp(data, "abcd", 4) != 0)
            return user;
        ddisp_buffer_release(buffer);
    }
    return NULL;
}

static void threads_open_and_release_one_device(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_release, *state), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static void wrapped_memory_is_used_in_place(void **state)
{
    ddisp_device *device;
    ddisp_buffer *buffer;
    char memory[8] = "12345678", data[8];
    assert_ok(ddisp_device_open(*state, "toy", &device));
    assert_ok(
        ddisp_buffer_wrap(device, (uint64_t)(uintptr_t)memory, sizeof memory, NULL, NULL, &buffer));
    assert_ok(ddisp_buffer_read(buffer, 0, data, 8, NULL));
    assert_memory_equal(data, "12345678", 8);
    assert_ok(ddisp_buffer_write(buffer, 2, "xy", 2, NULL));
    assert_memory_equal(memory, "12xy5678", 8);
    ddisp_buffer_release(buffer);
    ddisp_device_release(device);
}

/* ---- forks */

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

/* The number of the first check that fails in the child, 0 for none. */
static int child(ddisp_context *context, ddisp_device *device, ddisp_stream *stream,
                 ddisp_event *event, ddisp_buffer *owned, ddisp_buffer *lent, const int *releases)
{
    uint32_t count;
    ddisp_device *opened;
    ddisp_buffer *buffer;
    char data[8], message[256];
    const ddisp_status forked = DDISP_STATUS_FORKED;
    ddisp_device_info info = {.size = sizeof info};
    if (ddisp_backend_count(context, &count) != forked)
        return 1;
    if (ddisp_last_error(message, sizeof message, NULL) || !strstr(message, "forked"))
        return 2;
    if (ddisp_device_count(context, &count) != forked ||
        ddisp_device_open(context, "toy", &opened) != forked)
        return 3;
    if (ddisp_device_status(device) != forked || ddisp_device_synchronize(device, 0) != forked ||
        ddisp_device_get_info(device, &info) != forked)
        return 4;
    if (ddisp_stream_create(device, 0, &stream) != forked || ddisp_stream_flush(stream) != forked ||
        ddisp_stream_synchronize(stream, 0) != forked)
        return 5;
    if (ddisp_event_record(event, stream) != forked || ddisp_event_query(event) != forked ||
        ddisp_stream_wait_event(stream, event) != forked)
        return 6;
    if (ddisp_buffer_create(device, 8, &buffer) != forked ||
        ddisp_buffer_write(owned, 0, "abcd", 4, NULL) != forked ||
        ddisp_buffer_read(owned, 0, data, 4, stream) != forked)
        return 7;
    ddisp_buffer_release(owned);
    ddisp_buffer_release(lent);
    if (*releases != 1)
        return 8;
    ddisp_event_release(event);
    ddisp_stream_release(stream);
    ddisp_device_release(device);
    ddisp_context_release(context);

    /* A context of the child's own works. */
    ddisp_context_desc desc = toy_desc();
    if (ddisp_context_create(&desc, &context) || ddisp_device_open(context, "toy", &device) ||
        ddisp_buffer_create(device, 8, &owned) || ddisp_buffer_write(owned, 0, "abcd", 4, NULL))
        return 9;
    ddisp_buffer_release(owned);
    ddisp_device_release(device);
    ddisp_context_release(context);
    return 0;
}

static void case_49_child_is_told_that_it_was_forked(void **state)
{
    (void)state;
    ddisp_context_desc desc = toy_desc();
    ddisp_context *context;
    ddisp_device *device;
    ddisp_stream *stream;
    ddisp_event *event;
    ddisp_buffer *owned, *lent;
    int releases = 0, result = 0;
    char memory[8] = {0}, data[4];
    assert_ok(ddisp_context_create(&desc, &context));
    assert_ok(ddisp_device_open(context, "toy", &device));
    assert_ok(ddisp_stream_create(device, 0, &stream));
    assert_ok(ddisp_event_create(device, 0, &event));
    assert_ok(ddisp_buffer_create(device, 8, &owned));
    assert_ok(
        ddisp_buffer_wrap(device, (uint64_t)(uintptr_t)memory, 8, count_release, &releases, &lent));
    assert_ok(ddisp_buffer_write(owned, 0, "efgh", 4, stream));
    assert_ok(ddisp_buffer_write(lent, 0, "efgh", 4, stream));
    assert_ok(ddisp_event_record(event, stream));

    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        alarm(20); /* a hang ends the child */
        _exit(child(context, device, stream, event, owned, lent, &releases));
    }
    assert_int_equal(waitpid(process, &result, 0), process);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);

    /* The parent goes on. */
    assert_int_equal(releases, 0);
    assert_ok(ddisp_buffer_read(owned, 0, data, 4, NULL));
    assert_memory_equal(data, "efgh", 4);
    ddisp_buffer_release(lent);
    assert_int_equal(releases, 1);
    ddisp_buffer_release(owned);
    ddisp_event_release(event);
    ddisp_stream_release(stream);
    ddisp_device_release(device);
    ddisp_context_release(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(devices_are_listed_by_rank),
        TEST(specs_open_what_they_name),
        TEST(wrong_specs_say_what_is_wrong),
        TEST(very_long_specs_do_no_harm),
        TEST(opening_twice_gives_the_same_device),
        TEST(case_47_handles_are_released_in_any_order),
        TEST(threads_open_and_release_one_device),
        TEST(wrapped_memory_is_used_in_place),
        TEST(case_49_child_is_told_that_it_was_forked),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
