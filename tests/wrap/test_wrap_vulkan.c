/*
 * test_wrap_vulkan.c - the library on a Vulkan device of the application: its queue and lock, its
 * buffers, work in its order, and what is refused by name.
 */
#include "application.h"

#include "cts_kernels.h"

enum { N = 100 };

static ddisp_device *wrapped_device(application *app)
{
    ddisp_vulkan_queue queue;
    ddisp_vulkan_device_desc desc = application_desc(app, &queue);
    ddisp_device *device = NULL;
    APP_OK(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device));
    return device;
}

static ddisp_kernel *make_kernel(application *app, const cts_source *source)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel = NULL;
    desc.size = (uint32_t)sizeof desc;
    desc.name = source->name;
    desc.params = source->params;
    desc.param_count = source->param_count;
    desc.param_size = (uint32_t)sizeof *source->params;
    desc.codes = source->codes;
    desc.code_count = source->code_count;
    desc.code_size = (uint32_t)sizeof *source->codes;
    APP_OK(ddisp_kernel_create(app->context, &desc, &kernel));
    return kernel;
}

static ddisp_vulkan_buffer_desc buffer_desc(const application *app,
                                            const application_buffer *buffer)
{
    ddisp_vulkan_buffer_desc desc = DDISP_ZERO;
    desc.head.size = (uint32_t)sizeof desc;
    desc.head.type = DDISP_CHAIN_VULKAN_BUFFER;
    desc.buffer = (uint64_t)(uintptr_t)buffer->handle;
    desc.buffer_size_bytes = buffer->size_bytes;
    desc.usage = app->needs.buffer_usage;
    return desc;
}

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

/* A tensor of n f32 over a buffer of the application, from offset on. */
static ddisp_tensor *lent_tensor(application *app, ddisp_device *device,
                                 const application_buffer *buffer, uint64_t offset_bytes, int64_t n,
                                 uint64_t flags, int *releases)
{
    ddisp_vulkan_buffer_desc desc = buffer_desc(app, buffer);
    ddisp_buffer *wrapped = NULL;
    ddisp_tensor *tensor = NULL;
    desc.offset_bytes = offset_bytes;
    APP_OK(ddisp_buffer_wrap_native(device, &desc.head, (uint64_t)n * 4, count_release, releases,
                                    &wrapped));
    APP_OK(ddisp_tensor_create_over(wrapped, DDISP_DTYPE_F32, 1, &n, NULL, 0, flags, &tensor));
    ddisp_buffer_release(wrapped);
    return tensor;
}

/* ---- devices */

static void needs_are_what_a_device_is_created_with(void **state)
{
    application *app = application_of(state);
    const unsigned char *features = app->needs.features;
    const unsigned char *storage = (const unsigned char *)app->needs.storage;
    assert_true(features >= storage && features < storage + sizeof app->needs.storage);
    const VkPhysicalDeviceFeatures2 *head = app->needs.features;
    assert_int_equal(head->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    assert_true(head->features.shaderInt64);
    assert_true(app->needs.queue_flags & VK_QUEUE_COMPUTE_BIT);
    assert_true(app->needs.buffer_usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
    assert_true(app->needs.memory_flags & VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT);
    ddisp_vulkan_needs old = {.head = app->needs.head,
                              .instance = app->instance,
                              .physical_device = app->physical,
                              .api_version = VK_API_VERSION_1_1};
    APP_FAILS(ddisp_vulkan_requirements(app->context, &old), DDISP_STATUS_UNSUPPORTED,
              "created for Vulkan 1.1");
    old.physical_device = NULL;
    APP_FAILS(ddisp_vulkan_requirements(app->context, &old), DDISP_STATUS_INVALID_ARGUMENT,
              "physical_device is NULL");
    old.head.size = 64;
    APP_FAILS(ddisp_vulkan_requirements(app->context, &old), DDISP_STATUS_INVALID_ARGUMENT,
              "size is 64");
}

static void work_runs_on_the_applications_queue_under_its_lock(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app), *found = NULL;
    ddisp_kernel *kernel = make_kernel(app, &cts_square);
    ddisp_tensor *x = NULL, *y = NULL, *gradient = NULL;
    ddisp_device_info info = DDISP_ZERO;
    float values[3] = {1, 2, 3}, ones[3] = {1, 1, 1};
    const int64_t n = 3;
    info.size = (uint32_t)sizeof info;
    APP_OK(ddisp_device_get_info(device, &info));
    assert_string_equal(info.spec, "vulkan:wrapped");
    APP_FAILS(ddisp_device_open(app->context, info.spec, &found), DDISP_STATUS_INVALID_ARGUMENT,
              "vulkan:wrapped");
    APP_OK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &x));
    APP_OK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, DDISP_TENSOR_REQUIRES_GRAD, &y));
    APP_OK(ddisp_tensor_write(x, values, sizeof values, NULL));
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    APP_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL));
    APP_OK(ddisp_tensor_read(y, values, sizeof values, NULL));
    assert_true(values[0] == 1 && values[1] == 4 && values[2] == 9);
    APP_OK(ddisp_tensor_grad(y, &gradient));
    APP_OK(ddisp_tensor_write(gradient, ones, sizeof ones, NULL));
    ddisp_tensor_release(gradient);
    APP_OK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 2, NULL, NULL));
    APP_OK(ddisp_tensor_grad(x, &gradient));
    APP_OK(ddisp_tensor_read(gradient, values, sizeof values, NULL));
    assert_true(values[0] == 2 && values[1] == 4 && values[2] == 6);
    ddisp_tensor_release(gradient);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    assert_true(app->locks >= 2);
    assert_int_equal(app->locked, 0);
    /* The device is the application's, and works on. */
    application_buffer own = application_buffer_make(app, app->needs.buffer_usage, 64);
    application_submit(app, own.handle, VK_NULL_HANDLE, 64, 7);
    assert_int_equal(app->vkQueueWaitIdle(app->queue), VK_SUCCESS);
    assert_true(own.values[15] == 7);
    application_buffer_end(app, &own);
}

/* What was not enabled is not used, and what is needed is named. */
static void enabled_features_decide(void **state)
{
    application *app = application_of(state);
    ddisp_vulkan_queue queue;
    ddisp_vulkan_device_desc desc = application_desc(app, &queue);
    ddisp_device_info info = DDISP_ZERO;
    ddisp_device *device = NULL;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .timelineSemaphore = VK_TRUE};
    VkPhysicalDeviceBufferDeviceAddressFeatures address = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
        .pNext = &timeline,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceFeatures core = {.shaderInt64 = VK_TRUE};
    desc.features = NULL;
    desc.extension_count = 0;
    APP_FAILS(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device),
              DDISP_STATUS_UNSUPPORTED, "without the feature bufferDeviceAddress");
    desc.features = &address;
    APP_FAILS(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device),
              DDISP_STATUS_UNSUPPORTED, "without the feature shaderInt64");
    VkDevice own = application_device(app, &address, &core, 0, NULL);
    VkQueue own_queue;
    app->vkGetDeviceQueue(own, 0, 0, &own_queue);
    queue.queue = own_queue;
    desc.device = own;
    desc.core_features = &core;
    APP_OK(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device));
    info.size = (uint32_t)sizeof info;
    APP_OK(ddisp_device_get_info(device, &info));
    assert_int_equal(info.atomic_add_f32, DDISP_SUPPORT_EMULATED);
    ddisp_device_release(device);
    app->vkDestroyDevice(own, NULL);
}

static void what_cannot_be_wrapped_is_refused_by_name(void **state)
{
    application *app = application_of(state);
    ddisp_vulkan_queue queue;
    ddisp_vulkan_device_desc desc = application_desc(app, &queue);
    const ddisp_vulkan_device_desc good = desc;
    ddisp_device *device = NULL;
#define REFUSED(text)                                                                              \
    APP_FAILS(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device),                      \
              DDISP_STATUS_INVALID_ARGUMENT, text);                                                \
    desc = good
    desc.device = NULL;
    REFUSED("device is NULL");
    desc.physical_device = NULL;
    REFUSED("physical_device is NULL");
    desc.queue_count = 0;
    REFUSED("queue_count is 0");
    desc.queue_count = 9;
    REFUSED("1 to 8");
    desc.queues = NULL;
    REFUSED("queues NULL");
    desc.extensions = NULL;
    REFUSED("extensions is NULL");
    desc.head.type = DDISP_CHAIN_VULKAN_BUFFER;
    REFUSED("type 0x40020002");
    queue.unlock = NULL;
    REFUSED("lock and unlock");
    queue = (ddisp_vulkan_queue){.queue = NULL};
    REFUSED("queue is NULL");
#undef REFUSED
    desc.queue_family = 31;
    (void)application_desc(app, &queue);
    APP_FAILS(ddisp_device_wrap(app->context, "vulkan", &desc.head, &device),
              DDISP_STATUS_UNSUPPORTED, "queue family 31");
    assert_null(device);
}

/* ---- buffers */

static void buffers_of_the_application_are_used_in_place(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app);
    ddisp_kernel *kernel = make_kernel(app, &cts_square);
    application_buffer in = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    application_buffer out = application_buffer_make(app, app->needs.buffer_usage, 4 * N + 256);
    int releases = 0;
    float sevens[2] = {7, 7};
    for (int i = 0; i < N; i++)
        in.values[i] = (float)i, out.values[i] = -1;
    ddisp_tensor *x = lent_tensor(app, device, &in, 0, N, 0, &releases);
    ddisp_tensor *y = lent_tensor(app, device, &out, 256, N, 0, &releases);
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    APP_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL));
    APP_OK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    for (int i = 0; i < N; i++)
        assert_true(out.values[64 + i] == (float)(i * i));
    assert_true(out.values[63] == -1);
    /* Copies and fills reach them too. */
    int64_t two = 2;
    ddisp_tensor *head = lent_tensor(app, device, &in, 8, two, 0, &releases);
    APP_OK(ddisp_tensor_write(head, sevens, sizeof sevens, NULL));
    APP_OK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    assert_true(in.values[1] == 1 && in.values[2] == 7 && in.values[3] == 7 && in.values[4] == 4);
    ddisp_tensor_release(head);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    APP_OK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(releases, 3);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    application_buffer_end(app, &in);
    application_buffer_end(app, &out);
}

static void buffer_that_lacks_a_need_is_refused_by_name(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app);
    application_buffer own = application_buffer_make(app, app->needs.buffer_usage, 400);
    ddisp_vulkan_buffer_desc desc = buffer_desc(app, &own);
    ddisp_buffer *buffer = NULL;
    int releases = 0;
#define WRAP(size)                                                                                 \
    ddisp_buffer_wrap_native(device, &desc.head, size, count_release, &releases, &buffer)
    desc.usage &= ~(uint32_t)VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    APP_FAILS(WRAP(400), DDISP_STATUS_INVALID_ARGUMENT,
              "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT");
    desc.usage = app->needs.buffer_usage & ~(uint32_t)VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    APP_FAILS(WRAP(400), DDISP_STATUS_INVALID_ARGUMENT, "VK_BUFFER_USAGE_TRANSFER_DST_BIT");
    desc = buffer_desc(app, &own);
    desc.offset_bytes = 16;
    APP_FAILS(WRAP(400), DDISP_STATUS_INVALID_ARGUMENT, "which has 400 bytes");
    desc = buffer_desc(app, &own);
    desc.buffer = 0;
    APP_FAILS(WRAP(400), DDISP_STATUS_INVALID_ARGUMENT, "buffer is 0");
    desc = buffer_desc(app, &own);
    desc.head.size = 24;
    APP_FAILS(WRAP(400), DDISP_STATUS_INVALID_ARGUMENT, "size is 24");
    assert_null(buffer);
    assert_int_equal(releases, 0);
#undef WRAP
    ddisp_device_release(device);
    application_buffer_end(app, &own);
}

/* ---- streams */

/* Case 41: work of the library in the order of the application's queue, with nothing between. */
static void case_41_library_work_is_in_the_queues_order(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app);
    ddisp_kernel *kernel = make_kernel(app, &cts_square);
    ddisp_stream *stream = NULL;
    application_buffer in = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    application_buffer out = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    application_buffer copy = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    int releases = 0;
    APP_OK(ddisp_stream_wrap(device, (uint64_t)(uintptr_t)app->queue, &stream));
    ddisp_tensor *x = lent_tensor(app, device, &in, 0, N, 0, &releases);
    ddisp_tensor *y = lent_tensor(app, device, &out, 0, N, 0, &releases);
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    APP_OK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    for (int round = 1; round <= 200; round++) {
        application_submit(app, in.handle, VK_NULL_HANDLE, 4 * N, (float)round);
        APP_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, stream));
        APP_OK(ddisp_stream_flush(stream));
        application_submit(app, copy.handle, out.handle, 4 * N, 0);
        if (round % 50 != 0)
            continue;
        assert_int_equal(app->vkQueueWaitIdle(app->queue), VK_SUCCESS);
        for (int i = 0; i < N; i++)
            assert_true(copy.values[i] == (float)(round * round));
    }
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    assert_int_equal(releases, 2);
    application_buffer_end(app, &in);
    application_buffer_end(app, &out);
    application_buffer_end(app, &copy);
}

static void replay_is_in_the_queues_order(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app);
    ddisp_kernel *kernel = make_kernel(app, &cts_square);
    ddisp_stream *stream = NULL, *recorder = NULL;
    ddisp_graph *graph = NULL;
    application_buffer in = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    application_buffer out = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    application_buffer copy = application_buffer_make(app, app->needs.buffer_usage, 4 * N);
    int releases = 0;
    APP_OK(ddisp_stream_wrap(device, (uint64_t)(uintptr_t)app->queue, &stream));
    APP_OK(ddisp_stream_create(device, 0, &recorder));
    ddisp_tensor *x = lent_tensor(app, device, &in, 0, N, 0, &releases);
    ddisp_tensor *y = lent_tensor(app, device, &out, 0, N, 0, &releases);
    ddisp_arg args[2] = {DDISP_ARG(x), DDISP_ARG(y)};
    APP_OK(ddisp_stream_begin_capture(recorder));
    APP_OK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, recorder));
    APP_OK(ddisp_stream_end_capture(recorder, &graph));
    for (int round = 1; round <= 20; round++) {
        application_submit(app, in.handle, VK_NULL_HANDLE, 4 * N, (float)round);
        APP_OK(ddisp_graph_launch(graph, stream));
        APP_OK(ddisp_stream_flush(stream));
        application_submit(app, copy.handle, out.handle, 4 * N, 0);
        assert_int_equal(app->vkQueueWaitIdle(app->queue), VK_SUCCESS);
        assert_true(copy.values[N - 1] == (float)(round * round));
    }
    ddisp_graph_release(graph);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    ddisp_stream_release(recorder);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    application_buffer_end(app, &in);
    application_buffer_end(app, &out);
    application_buffer_end(app, &copy);
}

static void queues_of_others_are_refused_by_name(void **state)
{
    application *app = application_of(state);
    ddisp_device *wrapped = wrapped_device(app), *opened = NULL;
    ddisp_stream *stream = NULL;
    APP_FAILS(ddisp_stream_wrap(wrapped, 0x1234, &stream), DDISP_STATUS_INVALID_ARGUMENT, "0x1234");
    APP_OK(ddisp_device_open(app->context, "vulkan", &opened));
    APP_FAILS(ddisp_stream_wrap(opened, (uint64_t)(uintptr_t)app->queue, &stream),
              DDISP_STATUS_UNSUPPORTED, "opened by the library");
    assert_null(stream);
    ddisp_device_release(opened);
    ddisp_device_release(wrapped);
}

/* Streams over one queue come and go without leaving anything. */
static void many_wrapped_streams_reuse_what_they_need(void **state)
{
    application *app = application_of(state);
    ddisp_device *device = wrapped_device(app);
    for (int i = 0; i < 50; i++) {
        ddisp_stream *stream = NULL;
        APP_OK(ddisp_stream_wrap(device, (uint64_t)(uintptr_t)app->queue, &stream));
        APP_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
        ddisp_stream_release(stream);
    }
    ddisp_device_release(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_are_what_a_device_is_created_with),
        cmocka_unit_test(work_runs_on_the_applications_queue_under_its_lock),
        cmocka_unit_test(enabled_features_decide),
        cmocka_unit_test(what_cannot_be_wrapped_is_refused_by_name),
        cmocka_unit_test(buffers_of_the_application_are_used_in_place),
        cmocka_unit_test(buffer_that_lacks_a_need_is_refused_by_name),
        cmocka_unit_test(case_41_library_work_is_in_the_queues_order),
        cmocka_unit_test(replay_is_in_the_queues_order),
        cmocka_unit_test(queues_of_others_are_refused_by_name),
        cmocka_unit_test(many_wrapped_streams_reuse_what_they_need),
    };
    return cmocka_run_group_tests(tests, application_open, application_close);
}
