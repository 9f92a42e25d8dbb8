/*
 * test_vulkan_stream.c - finding devices, streams, tickets, batches and launches of the Vulkan
 * backend.
 */
#include "vulkan_fixture.h"

#include <stdlib.h>

static void the_device_is_described(void **state)
{
    fixture *f = fixture_of(state);
    assert_int_equal(strlen(f->info.uuid), 36);
    assert_string_equal(f->info.formats, "spirv");
    assert_string_equal(f->info.specializes, "spirv");
    assert_int_equal(strncmp(f->info.architecture, "vulkan1.", 8), 0);
    assert_true(f->info.rank >= 20 && f->info.rank <= 80);
    assert_true(f->info.max_allocation_bytes > 0 &&
                f->info.max_allocation_bytes <= f->info.memory_bytes);
    assert_true(f->info.max_group_count[0] >= 65535 && f->info.max_group_threads >= 128);
    assert_true(f->info.atomic_add_f32 != DDISP_SUPPORT_NONE);
}

/** The environment variable that names the driver, restored by the caller. */
static const char *driver_variable(void)
{
    return getenv("VK_DRIVER_FILES") ? "VK_DRIVER_FILES" : "VK_ICD_FILENAMES";
}

static void a_driver_that_is_listed_twice_gives_each_device_once(void **state)
{
    fixture *f = fixture_of(state);
    const char *variable = driver_variable();
    const char *files = getenv(variable);
    if (!files) {
        print_message("# skipped: %s is not set, so there is no driver to list twice\n", variable);
        skip();
    }
    char once[1024], twice[2100];
    uint32_t expected = 0, found = 0;
    (void)snprintf(once, sizeof once, "%s", files);
    (void)snprintf(twice, sizeof twice, "%s:%s", once, once);
    assert_ok(f->table->device_count(f->instance, &expected));
    for (int round = 0; round < 20; round++) {
        void *instance = NULL;
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        assert_int_equal(setenv(variable, twice, 1), 0);
        ddisp_status status = f->table->open(&services, &instance);
        assert_int_equal(setenv(variable, once, 1), 0);
        assert_ok(status);
        assert_ok(f->table->device_count(instance, &found));
        assert_int_equal(found, expected);
        assert_ok(f->table->device_describe(instance, 0, &info));
        assert_string_equal(info.uuid, f->info.uuid);
        assert_string_equal(info.name, f->info.name);
        f->table->close(instance);
    }
}

static void without_a_driver_the_reason_is_given(void **state)
{
    fixture *f = fixture_of(state);
    const char *files = getenv(driver_variable());
    char saved[1024];
    (void)snprintf(saved, sizeof saved, "%s", files ? files : "");
    void *instance = NULL;
    assert_int_equal(setenv(driver_variable(), "/nowhere/driver.json", 1), 0);
    ddisp_status status = f->table->open(&services, &instance);
    if (files)
        assert_int_equal(setenv(driver_variable(), saved, 1), 0);
    else
        assert_int_equal(unsetenv(driver_variable()), 0);
    assert_int_equal(status, DDISP_STATUS_BACKEND_UNAVAILABLE);
    assert_null(instance);
    assert_non_null(strstr(last_message, "driver"));
}

/** Three tensors of n floats: a[i] = i, b[i] = 2, y undefined. */
typedef struct tensors {
    ddisp_backend_memory a, b, y;
    const ddisp_backend_memory *data[3];
} tensors;

static void tensors_make(const fixture *f, void *stream, uint64_t n, tensors *t)
{
    float *host = malloc(n * sizeof *host);
    assert_non_null(host);
    t->a = memory_make(f, stream, n * 4);
    t->b = memory_make(f, stream, n * 4);
    t->y = memory_make(f, stream, n * 4);
    for (uint64_t i = 0; i < n; i++)
        host[i] = (float)i;
    upload(f, stream, &t->a, 0, host, n * 4);
    for (uint64_t i = 0; i < n; i++)
        host[i] = 2;
    upload(f, stream, &t->b, 0, host, n * 4);
    free(host);
    t->data[0] = &t->a;
    t->data[1] = &t->b;
    t->data[2] = &t->y;
}

static void tensors_free(const fixture *f, void *stream, tensors *t)
{
    f->table->memory_free(f->device, stream, &t->a);
    f->table->memory_free(f->device, stream, &t->b);
    f->table->memory_free(f->device, stream, &t->y);
}

static void a_dispatch_computes_every_element(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 100003 };
    code c;
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(f, &c, UINT64_MAX);
    tensors t;
    tensors_make(f, f->own, N, &t);
    assert_ok(mul_launch(f, f->own, variant, N, t.data, NULL, 0));
    float *y = malloc(N * sizeof *y);
    assert_non_null(y);
    download(f, f->own, &t.y, 0, y, N * 4);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == (float)i * 2);
    free(y);
    tensors_free(f, f->own, &t);
    f->table->variant_release(f->device, variant);
}

static void a_thousand_dispatches_run_in_order(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 256, TURNS = 1000 };
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    void *variant = variant_make(f, &c, 3);
    tensors t;
    tensors_make(f, f->own, N, &t);
    ddisp_backend_memory ga = memory_make(f, f->own, N * 4), gb = memory_make(f, f->own, N * 4);
    ddisp_backend_range ra = range_of(&ga, 0, N * 4), rb = range_of(&gb, 0, N * 4);
    assert_ok(f->table->fill(f->device, f->own, &ra, 0, 4));
    assert_ok(f->table->fill(f->device, f->own, &rb, 0, 4));
    const ddisp_backend_memory *gradients[3] = {&ga, &gb, &t.b}; /* upstream 2 */
    const ddisp_backend_memory *data[3] = {&t.a, &t.b, NULL};
    for (int turn = 0; turn < TURNS; turn++)
        assert_ok(mul_launch(f, f->own, variant, N, data, gradients, 0));
    float found[N];
    download(f, f->own, &ga, 0, found, sizeof found);
    for (int i = 0; i < N; i++)
        assert_true(found[i] == 4.0f * TURNS);
    download(f, f->own, &gb, 0, found, sizeof found);
    for (int i = 0; i < N; i++)
        assert_true(found[i] == 2.0f * (float)i * TURNS);
    f->table->memory_free(f->device, f->own, &ga);
    f->table->memory_free(f->device, f->own, &gb);
    tensors_free(f, f->own, &t);
    f->table->variant_release(f->device, variant);
}

static void tickets_grow_and_stay_when_nothing_is_new(void **state)
{
    fixture *f = fixture_of(state);
    void *stream = stream_make(f);
    uint64_t first = UINT64_MAX, second = 0, third = 0;
    assert_ok(f->table->stream_mark(f->device, stream, &first));
    assert_ok(f->table->stream_query(f->device, stream, first));
    assert_ok(f->table->stream_query(f->device, stream, 0));
    assert_ok(f->table->stream_synchronize(f->device, stream, 0, 0));
    ddisp_backend_memory memory = memory_make(f, stream, 64);
    ddisp_backend_range range = range_of(&memory, 0, 64);
    assert_ok(f->table->fill(f->device, stream, &range, 0, 4));
    assert_ok(f->table->stream_mark(f->device, stream, &second));
    assert_true(second > first);
    assert_ok(f->table->stream_mark(f->device, stream, &third));
    assert_int_equal(third, second);
    assert_ok(f->table->stream_synchronize(f->device, stream, second, UINT64_MAX));
    assert_ok(f->table->stream_query(f->device, stream, second));
    assert_int_equal(f->table->stream_query(f->device, stream, second + 1),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->table->stream_synchronize(f->device, stream, second + 1, 0),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(f->table->stream_wait(f->device, f->own, stream, second + 1),
                     DDISP_STATUS_INVALID_ARGUMENT);
    f->table->memory_free(f->device, stream, &memory);
    f->table->stream_destroy(f->device, stream);
}

static void one_stream_waits_for_another(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 64, ROUNDS = 30 };
    void *producer = stream_make(f), *consumer = stream_make(f);
    code spin, plain;
    code_init(&spin, MUL_SPIN);
    code_init(&plain, MUL_FORWARD);
    void *slow = variant_make(f, &spin, UINT64_MAX);
    void *fast = variant_make(f, &plain, UINT64_MAX);
    tensors t;
    tensors_make(f, producer, N, &t);
    ddisp_backend_memory z = memory_make(f, consumer, N * 4);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t ticket = 0;
        ddisp_backend_range range = range_of(&t.y, 0, N * 4);
        assert_ok(f->table->fill(f->device, producer, &range, 0xFF, 1));
        assert_ok(mul_launch(f, producer, slow, N, t.data, NULL, 5000)); /* y = a * 2 */
        assert_ok(f->table->stream_mark(f->device, producer, &ticket));
        assert_ok(f->table->stream_wait(f->device, consumer, producer, ticket));
        const ddisp_backend_memory *next[3] = {&t.y, &t.b, &z};
        assert_ok(mul_launch(f, consumer, fast, N, next, NULL, 0)); /* z = y * 2 */
        float found[N];
        download(f, consumer, &z, 0, found, sizeof found);
        for (int i = 0; i < N; i++)
            assert_true(found[i] == 4.0f * (float)i);
    }
    f->table->memory_free(f->device, consumer, &z);
    tensors_free(f, producer, &t);
    stream_finish(f, producer);
    f->table->variant_release(f->device, slow);
    f->table->variant_release(f->device, fast);
    f->table->stream_destroy(f->device, producer);
    f->table->stream_destroy(f->device, consumer);
}

static void a_wait_for_many_streams_is_split(void **state)
{
    fixture *f = fixture_of(state);
    enum { STREAMS = 20 };
    void *streams[STREAMS];
    ddisp_backend_memory memory = memory_make(f, f->own, STREAMS * 4);
    stream_finish(f, f->own);
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint64_t ticket = 0;
        streams[i] = stream_make(f);
        ddisp_backend_range range = range_of(&memory, i * 4, 4);
        assert_ok(f->table->fill(f->device, streams[i], &range, i + 1, 4));
        assert_ok(f->table->stream_mark(f->device, streams[i], &ticket));
        assert_ok(f->table->stream_wait(f->device, f->own, streams[i], ticket));
        f->table->stream_destroy(f->device, streams[i]); /* still waited for */
    }
    uint32_t found[STREAMS];
    download(f, f->own, &memory, 0, found, sizeof found);
    for (uint32_t i = 0; i < STREAMS; i++)
        assert_int_equal(found[i], i + 1);
    f->table->memory_free(f->device, f->own, &memory);
}

static void a_wait_ends_with_its_time(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 64 };
    code c;
    code_init(&c, MUL_SPIN);
    void *variant = variant_make(f, &c, UINT64_MAX);
    tensors t;
    tensors_make(f, f->own, N, &t);
    stream_finish(f, f->own);
    uint64_t ticket = 0;
    for (int i = 0; i < 2; i++)
        assert_ok(mul_launch(f, f->own, variant, N, t.data, NULL, 200000));
    assert_ok(f->table->stream_mark(f->device, f->own, &ticket));
    ddisp_status status = f->table->stream_synchronize(f->device, f->own, ticket, 0);
    assert_int_equal(status, DDISP_STATUS_TIMEOUT);
    assert_int_equal(f->table->stream_query(f->device, f->own, ticket), DDISP_STATUS_NOT_READY);
    assert_int_equal(f->table->stream_synchronize(f->device, f->own, ticket, 1000),
                     DDISP_STATUS_TIMEOUT);
    assert_ok(f->table->stream_synchronize(f->device, f->own, ticket, UINT64_MAX));
    assert_ok(f->table->stream_query(f->device, f->own, ticket));
    tensors_free(f, f->own, &t);
    f->table->variant_release(f->device, variant);
}

static void work_of_a_destroyed_stream_still_runs(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 64 };
    code c;
    code_init(&c, MUL_SPIN);
    void *variant = variant_make(f, &c, UINT64_MAX);
    void *stream = stream_make(f);
    tensors t;
    tensors_make(f, stream, N, &t);
    assert_ok(mul_launch(f, stream, variant, N, t.data, NULL, 100000));
    uint64_t ticket = 0;
    assert_ok(f->table->stream_mark(f->device, stream, &ticket));
    assert_ok(f->table->stream_wait(f->device, f->own, stream, ticket));
    f->table->stream_destroy(f->device, stream);
    float found[N];
    download(f, f->own, &t.y, 0, found, sizeof found);
    for (int i = 0; i < N; i++)
        assert_true(found[i] == 2.0f * (float)i);
    tensors_free(f, f->own, &t);
    f->table->variant_release(f->device, variant);
}

static void a_device_can_be_opened_beside_itself(void **state)
{
    fixture *f = fixture_of(state);
    void *device = NULL, *stream = NULL;
    assert_int_equal(f->table->device_open(f->instance, 1000, &device), DDISP_STATUS_NOT_FOUND);
    assert_ok(f->table->device_open(f->instance, 0, &device));
    assert_ok(f->table->stream_create(device, 0, &stream));
    fixture second = *f;
    second.device = device;
    ddisp_backend_memory memory = memory_make(&second, stream, 16);
    uint32_t value = 42, found = 0;
    upload(&second, stream, &memory, 4, &value, 4);
    download(&second, stream, &memory, 4, &found, 4);
    assert_int_equal(found, 42);
    f->table->memory_free(device, stream, &memory);
    f->table->stream_destroy(device, stream);
    f->table->device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_described),
        cmocka_unit_test(a_driver_that_is_listed_twice_gives_each_device_once),
        cmocka_unit_test(without_a_driver_the_reason_is_given),
        cmocka_unit_test(a_dispatch_computes_every_element),
        cmocka_unit_test(a_thousand_dispatches_run_in_order),
        cmocka_unit_test(tickets_grow_and_stay_when_nothing_is_new),
        cmocka_unit_test(one_stream_waits_for_another),
        cmocka_unit_test(a_wait_for_many_streams_is_split),
        cmocka_unit_test(a_wait_ends_with_its_time),
        cmocka_unit_test(work_of_a_destroyed_stream_still_runs),
        cmocka_unit_test(a_device_can_be_opened_beside_itself),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
