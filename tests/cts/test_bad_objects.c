/*
 * test_bad_objects.c - wrong arguments to everything that makes or changes contexts, devices,
 * buffers, tensors, streams and events: each gives its status and a message that names the
 * argument, and changes nothing.
 */
#include "cts.h"

#include <stdlib.h>

static const int64_t three[1] = {3};

static void null_handles_are_refused(cts *t)
{
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *tensor = NULL;
    ddisp_tensor_info info = DDISP_ZERO;
    ddisp_device_info device_info = DDISP_ZERO;
    ddisp_device_statistics statistics = DDISP_ZERO;
    ddisp_device *device = NULL;
    ddisp_buffer *buffer = NULL;
    ddisp_stream *stream = NULL;
    ddisp_event *event = NULL;
    ddisp_report *report = NULL;
    ddisp_kernel *kernel = NULL;
    uint32_t count = 0;
    char data[16] = "";
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    info.size = (uint32_t)sizeof info;
    device_info.size = (uint32_t)sizeof device_info;
    statistics.size = (uint32_t)sizeof statistics;
    cts_note(t);
    CTS_FAILS(ddisp_context_create(NULL, NULL), bad, "out_context");
    CTS_FAILS(ddisp_backend_count(NULL, &count), bad, "context");
    CTS_FAILS(ddisp_backend_count(t->context, NULL), bad, "out_count");
    CTS_FAILS(ddisp_device_count(NULL, &count), bad, "context");
    CTS_FAILS(ddisp_device_count(t->context, NULL), bad, "out_count");
    CTS_FAILS(ddisp_device_describe(NULL, 0, &device_info), bad, "context");
    CTS_FAILS(ddisp_device_describe(t->context, 0, NULL), bad, "out_info");
    CTS_FAILS(ddisp_device_open(NULL, "auto", &device), bad, "context");
    CTS_FAILS(ddisp_device_open(t->context, NULL, &device), bad, "spec");
    CTS_FAILS(ddisp_device_open(t->context, "auto", NULL), bad, "out_device");
    CTS_FAILS(ddisp_device_get_info(NULL, &device_info), bad, "device");
    CTS_FAILS(ddisp_device_get_info(t->device, NULL), bad, "out_info");
    CTS_FAILS(ddisp_device_status(NULL), bad, "device");
    CTS_FAILS(ddisp_device_synchronize(NULL, 0), bad, "device");
    CTS_FAILS(ddisp_device_get_statistics(NULL, &statistics), bad, "device");
    CTS_FAILS(ddisp_device_get_statistics(t->device, NULL), bad, "out_statistics");
    CTS_FAILS(ddisp_buffer_create(NULL, 16, &buffer), bad, "device");
    CTS_FAILS(ddisp_buffer_create(t->device, 16, NULL), bad, "out_buffer");
    CTS_FAILS(ddisp_buffer_wrap(NULL, 16, 16, NULL, NULL, &buffer), bad, "device");
    CTS_FAILS(ddisp_buffer_wrap(t->device, cts_address(x), 8, NULL, NULL, NULL), bad, "out_buffer");
    CTS_FAILS(ddisp_buffer_write(NULL, 0, data, 1, NULL), bad, "buffer");
    CTS_FAILS(ddisp_buffer_read(NULL, 0, data, 1, NULL), bad, "buffer");
    CTS_FAILS(ddisp_stream_create(NULL, 0, &stream), bad, "device");
    CTS_FAILS(ddisp_stream_create(t->device, 0, NULL), bad, "out_stream");
    CTS_FAILS(ddisp_event_create(NULL, 0, &event), bad, "device");
    CTS_FAILS(ddisp_event_create(t->device, 0, NULL), bad, "out_event");
    CTS_FAILS(ddisp_event_record(NULL, NULL), bad, "event");
    CTS_FAILS(ddisp_event_query(NULL), bad, "event");
    CTS_FAILS(ddisp_event_synchronize(NULL, 0), bad, "event");
    CTS_FAILS(ddisp_tensor_create(NULL, DDISP_DTYPE_F32, 1, three, 0, &tensor), bad, "device");
    CTS_FAILS(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, three, 0, NULL), bad,
              "out_tensor");
    CTS_FAILS(ddisp_tensor_create_over(NULL, DDISP_DTYPE_F32, 1, three, NULL, 0, 0, &tensor), bad,
              "buffer");
    CTS_FAILS(ddisp_tensor_as_strided(NULL, 1, three, NULL, 0, &tensor), bad, "base");
    CTS_FAILS(ddisp_tensor_as_strided(x, 1, three, NULL, 0, NULL), bad, "out_view");
    CTS_FAILS(ddisp_tensor_detach(NULL, &tensor), bad, "tensor");
    CTS_FAILS(ddisp_tensor_detach(x, NULL), bad, "out_tensor");
    CTS_FAILS(ddisp_tensor_get_info(NULL, &info), bad, "tensor");
    CTS_FAILS(ddisp_tensor_get_info(x, NULL), bad, "out_info");
    CTS_FAILS(ddisp_tensor_write(NULL, data, 8, NULL), bad, "tensor");
    CTS_FAILS(ddisp_tensor_read(NULL, data, 8, NULL), bad, "tensor");
    CTS_FAILS(ddisp_tensor_write(x, NULL, 8, NULL), bad, "data");
    CTS_FAILS(ddisp_tensor_read(x, NULL, 8, NULL), bad, "data");
    CTS_FAILS(ddisp_tensor_set_requires_grad(NULL, 1), bad, "tensor");
    CTS_FAILS(ddisp_tensor_grad(NULL, &tensor), bad, "tensor");
    CTS_FAILS(ddisp_tensor_grad(x, NULL), bad, "out_grad");
    CTS_FAILS(ddisp_tensor_set_grad(NULL, x), bad, "tensor");
    CTS_FAILS(ddisp_tensor_clear_grad(NULL), bad, "tensor");
    CTS_FAILS(ddisp_report_create(NULL, &report), bad, "context");
    CTS_FAILS(ddisp_report_create(t->context, NULL), bad, "out_report");
    CTS_FAILS(ddisp_kernel_create(NULL, NULL, &kernel), bad, "context");
    CTS_UNCHANGED(t);
    assert_true(!device && !buffer && !stream && !event && !tensor && !report && !kernel);
}

static void releasing_null_does_nothing(cts *t)
{
    (void)t;
    ddisp_context_release(NULL);
    ddisp_device_release(NULL);
    ddisp_buffer_release(NULL);
    ddisp_stream_release(NULL);
    ddisp_event_release(NULL);
    ddisp_tensor_release(NULL);
    ddisp_kernel_release(NULL);
    ddisp_report_release(NULL);
    assert_int_equal(ddisp_buffer_address(NULL), 0);
    assert_int_equal(ddisp_buffer_size(NULL), 0);
    assert_null(ddisp_tensor_device(NULL));
}

static void bad_tensors_are_refused(cts *t)
{
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, negative[2] = {2, -3};
    const int64_t huge[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    const int64_t bytes_only[2] = {INT64_C(1) << 31, INT64_C(1) << 31}; /* 2^62 elements */
    ddisp_tensor *x = NULL;
    ddisp_device *d = t->device;
    cts_note(t);
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 9, nine, 0, &x), bad, "rank", "9", "8");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, UINT32_MAX, nine, 0, &x), bad, "rank");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 1, NULL, 0, &x), bad, "shape");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 2, negative, 0, &x), bad, "shape", "-3");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_ANY, 1, three, 0, &x), bad, "dtype");
    CTS_FAILS(ddisp_tensor_create(d, 999, 1, three, 0, &x), bad, "dtype", "999");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 1, three, UINT64_C(1) << 60, &x), bad,
              "flags");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 2, huge, 0, &x), DDISP_STATUS_OVERFLOW,
              "shape");
    CTS_FAILS(ddisp_tensor_create(d, DDISP_DTYPE_F32, 2, bytes_only, 0, &x), DDISP_STATUS_OVERFLOW,
              "shape");
    assert_null(x);
    CTS_UNCHANGED(t);
}

static void integers_require_no_gradient(cts *t)
{
    static const ddisp_dtype integers[] = {DDISP_DTYPE_BOOL, DDISP_DTYPE_U8,  DDISP_DTYPE_I8,
                                           DDISP_DTYPE_U16,  DDISP_DTYPE_I16, DDISP_DTYPE_U32,
                                           DDISP_DTYPE_I32,  DDISP_DTYPE_U64, DDISP_DTYPE_I64};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        ddisp_tensor *x = NULL, *plain = NULL;
        CTS_REFUSED(t, ddisp_tensor_create(t->device, integers[i], 1, three, CTS_GRAD, &x),
                    DDISP_STATUS_INVALID_ARGUMENT, ddisp_dtype_name(integers[i]), "gradient");
        assert_null(x);
        CTS_OK(ddisp_tensor_create(t->device, integers[i], 1, three, 0, &plain));
        (void)cts_own(t, plain);
        CTS_REFUSED(t, ddisp_tensor_set_requires_grad(plain, 1), DDISP_STATUS_INVALID_ARGUMENT,
                    ddisp_dtype_name(integers[i]));
        CTS_NO_GRADIENT(plain);
    }
}

static void tensors_lie_inside_their_buffer(cts *t)
{
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    const int64_t minus[1] = {-1}, far[1] = {INT64_C(1) << 61}, two[1] = {2};
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *x = NULL;
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3, 4);
    CTS_OK(ddisp_buffer_create(t->device, 12, &buffer));
#define OVER(shape, strides, offset)                                                               \
    ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 1, shape, strides, offset, 0, &x)
    ddisp_status low = OVER(three, NULL, -1), high = OVER(three, NULL, 1);
    ddisp_status back = OVER(three, minus, 1), wild = OVER(three, NULL, INT64_MAX / 2);
    ddisp_status wide = OVER(three, far, 0), fits = OVER(three, minus, 2);
#undef OVER
    ddisp_tensor_release(x);
    ddisp_buffer_release(buffer);
    assert_int_equal(low, bad);
    assert_int_equal(high, bad);
    assert_int_equal(back, bad);
    assert_true(wild == DDISP_STATUS_OVERFLOW || wild == bad);
    assert_true(wide == DDISP_STATUS_OVERFLOW || wide == bad);
    assert_int_equal(fits, DDISP_STATUS_OK);
    x = NULL;
    CTS_FAILS(ddisp_tensor_as_strided(base, 1, two, NULL, cts_offset(base) + 3, &x), bad, "base");
    CTS_FAILS(ddisp_tensor_as_strided(base, 1, two, NULL, -1, &x), bad, "");
    assert_null(x);
}

static void misaligned_elements_are_refused(cts *t)
{
    ddisp_tensor *memory = CTS_VECTOR(t, 0, 1, 2, 3, 4), *x = NULL;
    ddisp_buffer *odd = NULL;
    CTS_OK(ddisp_buffer_wrap(t->device, cts_address(memory) + 2, 12, NULL, NULL, &odd));
    ddisp_status status = ddisp_tensor_create_over(odd, DDISP_DTYPE_F32, 1, three, NULL, 0, 0, &x);
    ddisp_buffer_release(odd);
    assert_int_equal(status, DDISP_STATUS_INVALID_ARGUMENT);
    assert_null(x);
}

static void copies_have_the_right_size(cts *t)
{
    char data[32] = "";
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3);
    ddisp_buffer *buffer = NULL;
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    CTS_REFUSED(t, ddisp_tensor_write(x, data, 11, NULL), bad, "11", "12");
    CTS_REFUSED(t, ddisp_tensor_read(x, data, 16, NULL), bad, "16", "12");
    CTS_OK(ddisp_buffer_create(t->device, 16, &buffer));
    ddisp_status past = ddisp_buffer_write(buffer, 8, data, 9, NULL);
    ddisp_status wrap = ddisp_buffer_read(buffer, UINT64_MAX, data, 2, NULL);
    ddisp_status null = ddisp_buffer_write(buffer, 0, NULL, 4, NULL);
    ddisp_status none = ddisp_buffer_write(buffer, 16, data, 0, NULL);
    ddisp_buffer_release(buffer);
    assert_int_equal(past, bad);
    assert_int_equal(wrap, bad);
    assert_int_equal(null, bad);
    assert_int_equal(none, DDISP_STATUS_OK);
}

static void read_only_tensors_are_not_written(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = cts_vector(t, 2, CTS_GRAD | DDISP_TENSOR_READ_ONLY, (const float[]){1, 2});
    ddisp_tensor *y = cts_vector(t, 2, DDISP_TENSOR_READ_ONLY, (const float[]){7, 7});
    ddisp_tensor *z = cts_vector(t, 2, CTS_GRAD, NULL);
    CTS_REFUSED(t, ddisp_tensor_write(x, (const float[]){0, 0}, 8, NULL), DDISP_STATUS_READ_ONLY,
                "read-only");
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), NULL),
                DDISP_STATUS_READ_ONLY, "'y'");
    CTS_FORWARD(kernel, x, z); /* as an input it is fine, and it may have a gradient */
    CTS_VALUES(z, 1, 4);
    CTS_OK(ddisp_tensor_set_grad(z, y)); /* an upstream is only read */
    CTS_OK(CTS_BACKWARD(kernel, NULL, x, z));
    CTS_GRADIENT(x, 14, 28);
    CTS_OK(ddisp_tensor_set_grad(x, y)); /* a gradient that is added to is written */
    CTS_OK(ddisp_tensor_set_grad(z, CTS_VECTOR(t, 0, 1, 1)));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, NULL, x, z), DDISP_STATUS_READ_ONLY, "'x'");
}

static void bad_gradients_are_refused(cts *t)
{
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3);
    ddisp_tensor *short_one = CTS_VECTOR(t, 0, 1, 2);
    ddisp_tensor *integers = cts_tensor(t, DDISP_DTYPE_I32, 1, three, NULL, 0, NULL);
    int64_t half = 2;
    ddisp_tensor *view = NULL;
    CTS_OK(ddisp_tensor_as_strided(x, 1, &half, NULL, cts_offset(x), &view));
    (void)cts_own(t, view);
    CTS_REFUSED(t, ddisp_tensor_set_grad(x, short_one), DDISP_STATUS_SHAPE_MISMATCH, "grad", "[2]",
                "[3]");
    CTS_REFUSED(t, ddisp_tensor_set_grad(x, integers), DDISP_STATUS_DTYPE_MISMATCH, "grad", "i32");
    CTS_REFUSED(t, ddisp_tensor_set_requires_grad(x, 2), DDISP_STATUS_INVALID_ARGUMENT,
                "requires_grad", "2");
    CTS_REFUSED(t, ddisp_tensor_set_requires_grad(view, 0), DDISP_STATUS_INVALID_ARGUMENT, "view");
    CTS_REFUSED(t, ddisp_tensor_set_grad(view, short_one), DDISP_STATUS_INVALID_ARGUMENT, "view");
}

static void unknown_devices_are_not_found(cts *t)
{
    ddisp_device *device = NULL;
    ddisp_device_info info = DDISP_ZERO;
    uint32_t count = 0;
    char far[64];
    info.size = (uint32_t)sizeof info;
    CTS_OK(ddisp_device_count(t->context, &count));
    (void)snprintf(far, sizeof far, "%s:99", t->info.backend);
    CTS_FAILS(ddisp_device_open(t->context, far, &device), DDISP_STATUS_NOT_FOUND, "99");
    CTS_FAILS(ddisp_device_open(t->context, "nonesuch", &device), DDISP_STATUS_NOT_FOUND,
              "nonesuch");
    (void)snprintf(far, sizeof far, "%s:uuid=0", t->info.backend);
    CTS_FAILS(ddisp_device_open(t->context, far, &device), DDISP_STATUS_NOT_FOUND, "UUID");
    (void)snprintf(far, sizeof far, "%s:one", t->info.backend);
    ddisp_status status = ddisp_device_open(t->context, far, &device);
    assert_true(status == DDISP_STATUS_INVALID_ARGUMENT || status == DDISP_STATUS_NOT_FOUND);
    CTS_FAILS(ddisp_device_open(t->context, "", &device), DDISP_STATUS_INVALID_ARGUMENT, "spec");
    assert_null(device);
    CTS_FAILS(ddisp_device_describe(t->context, count, &info), DDISP_STATUS_INVALID_ARGUMENT,
              "index");
}

static void more_memory_than_there_is_fails_cleanly(cts *t)
{
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2), *y = cts_vector(t, 2, 0, NULL);
    CTS_REFUSED(t, ddisp_buffer_create(t->device, UINT64_C(1) << 50, &buffer),
                DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "");
    assert_null(buffer);
    CTS_FORWARD(cts_kernel(t, &cts_square), x, y);
    CTS_VALUES(y, 1, 4);
}

const cts_test cts_bad_object_tests[] = {
    CTS_TEST(null_handles_are_refused),
    CTS_TEST(releasing_null_does_nothing),
    CTS_TEST(bad_tensors_are_refused),
    CTS_TEST(integers_require_no_gradient),
    CTS_TEST(tensors_lie_inside_their_buffer),
    CTS_TEST(misaligned_elements_are_refused),
    CTS_TEST(copies_have_the_right_size),
    CTS_TEST(read_only_tensors_are_not_written),
    CTS_TEST(bad_gradients_are_refused),
    CTS_TEST(unknown_devices_are_not_found),
    CTS_TEST(more_memory_than_there_is_fails_cleanly),
    CTS_END,
};
