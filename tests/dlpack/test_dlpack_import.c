/*
 * test_dlpack_import.c - tensors of other libraries taken over: what is read where, what is
 * refused, and that a refused one stays its producer's.
 */
#include "dlpack_spec.h"

/* The tensor is refused and untouched, then the same tensor, put right, is taken. */
#define REFUSED(fixture, offer, flags, status, text)                                               \
    do {                                                                                           \
        ddisp_tensor *refused_tensor = NULL;                                                       \
        assert_fails(status, text, TAKE(fixture, offer, flags, &refused_tensor));                  \
        assert_null(refused_tensor);                                                               \
        assert_int_equal(atomic_load(&deleted), 0);                                                \
    } while (0)

static void both_structs_are_taken_without_a_copy(void **state)
{
    struct host_fixture *fixture = *state;
    float data[3] = {1, 2, 3};
    for (int versioned = 0; versioned < 2; versioned++) {
        struct offer offer;
        ddisp_tensor *tensor;
        offer_floats(&offer, data, 3);
        atomic_store(&deleted, 0);
        if (versioned)
            assert_ok(TAKE(fixture, &offer, DDISP_TENSOR_REQUIRES_GRAD, &tensor));
        else
            assert_ok(ddisp_tensor_from_dlpack(fixture->device, &offer.plain,
                                               DDISP_TENSOR_REQUIRES_GRAD, NULL, &tensor));
        ddisp_tensor_info info = {.size = sizeof info};
        assert_ok(ddisp_tensor_get_info(tensor, &info));
        assert_int_equal(info.address, (uintptr_t)data);
        assert_int_equal(info.dtype, DDISP_DTYPE_F32);
        assert_int_equal(info.rank, 1);
        assert_int_equal(info.shape[0], 3);
        assert_int_equal(info.flags, DDISP_TENSOR_REQUIRES_GRAD);
        assert_int_equal(atomic_load(&deleted), 0);
        ddisp_tensor_release(tensor);
        assert_int_equal(atomic_load(&deleted), 1);
    }
}

static void case_13_negative_stride_reads_backwards(void **state)
{
    struct host_fixture *fixture = *state;
    double data[12], values[12];
    struct offer offer;
    ddisp_tensor *tensor;
    for (int i = 0; i < 12; i++)
        data[i] = i;
    offer_floats(&offer, NULL, 3);
    struct spec_tensor *source = &offer.versioned.dl_tensor;
    source->data = &data[3];
    source->dtype.bits = 64;
    source->ndim = 2;
    source->shape[1] = 4;
    source->strides[0] = 4;
    source->strides[1] = -1;
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    assert_ok(ddisp_tensor_read(tensor, values, sizeof values, NULL));
    const double expected[12] = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8};
    assert_memory_equal(values, expected, sizeof expected);
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 1);
}

static void case_15_strides_of_axes_of_one_do_not_count(void **state)
{
    struct host_fixture *fixture = *state;
    const int64_t all[3][5] = {{0, 4, 0, 1, 0}, {12, 4, 4, 1, 1}, {99, 4, 77, 1, 55}};
    float data[12], values[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    for (int k = 0; k < 3; k++) {
        const int64_t shape[5] = {1, 3, 1, 4, 1};
        struct offer offer;
        ddisp_tensor *tensor;
        struct DLManagedTensorVersioned *again;
        offer_floats(&offer, data, 1);
        offer.versioned.dl_tensor.ndim = 5;
        memcpy(offer.shape, shape, sizeof shape);
        memcpy(offer.strides, all[k], sizeof all[k]);
        assert_ok(TAKE(fixture, &offer, 0, &tensor));
        read_floats(tensor, values, 12);
        assert_memory_equal(values, data, sizeof data);
        assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &again));
        assert_memory_equal(again->dl_tensor.strides, all[k], sizeof all[k]);
        again->deleter(again);
        ddisp_tensor_release(tensor);
    }
}

static void case_19_no_axes_and_no_strides(void **state)
{
    struct host_fixture *fixture = *state;
    float x = 3, values[6], data[6] = {0, 1, 2, 3, 4, 5};
    struct offer offer;
    ddisp_tensor *tensor, *y, *upstream, *gradient;
    offer_floats(&offer, &x, 1);
    offer.versioned.dl_tensor.ndim = 0;
    offer.versioned.dl_tensor.shape = offer.versioned.dl_tensor.strides = NULL;
    assert_ok(TAKE(fixture, &offer, DDISP_TENSOR_REQUIRES_GRAD, &tensor));
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 0, NULL,
                                  DDISP_TENSOR_REQUIRES_GRAD, &y));
    assert_ok(square(fixture, DDISP_MODE_FORWARD, tensor, y));
    read_floats(y, values, 1);
    assert_true(values[0] == 9);
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 0, NULL, 0, &upstream));
    assert_ok(ddisp_tensor_fill(upstream, 1, NULL));
    assert_ok(ddisp_tensor_set_grad(y, upstream));
    assert_ok(square(fixture, DDISP_MODE_BACKWARD, tensor, y));
    assert_ok(ddisp_tensor_grad(tensor, &gradient));
    read_floats(gradient, values, 1);
    assert_true(values[0] == 6);
    ddisp_tensor_release(gradient);
    ddisp_tensor_release(upstream);
    ddisp_tensor_release(y);
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 1);

    offer_floats(&offer, data, 2);
    offer.versioned.dl_tensor.ndim = 2;
    offer.shape[1] = 3;
    offer.versioned.dl_tensor.strides = NULL;
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    read_floats(tensor, values, 6);
    assert_memory_equal(values, data, sizeof data);
    ddisp_tensor_release(tensor);
}

static void case_19_shapes_that_cannot_be_are_refused(void **state)
{
    struct host_fixture *fixture = *state;
    float data[4] = {0};
    struct offer offer;
    offer_floats(&offer, data, 4);
    offer.versioned.dl_tensor.ndim = -1;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INVALID_ARGUMENT, "ndim is -1");
    offer.versioned.dl_tensor.ndim = 9;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_UNSUPPORTED, "ndim is 9, the highest is 8");
    offer.versioned.dl_tensor.ndim = 2;
    offer.versioned.dl_tensor.shape = NULL;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INVALID_ARGUMENT, "shape is NULL");
    offer.versioned.dl_tensor.shape = offer.shape;
    offer.shape[1] = -3;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INVALID_ARGUMENT, "extent 1 is -3");
    offer.versioned.dl_tensor.ndim = 1;
    offer.versioned.dl_tensor.byte_offset = 2;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INVALID_ARGUMENT, "no multiple of 4 bytes");
    offer.versioned.dl_tensor.byte_offset = UINT64_MAX - 3;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_OVERFLOW, "past the end of 64 bits");
    offer.versioned.dl_tensor.byte_offset = 0;
    offer.versioned.dl_tensor.data = NULL;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INVALID_ARGUMENT, "data is NULL for 4 elements");
}

static void case_37_devices_are_matched_by_kind_and_number(void **state)
{
    struct host_fixture *fixture = *state;
    float data[4] = {0};
    struct offer offer;
    ddisp_tensor *tensor;
    offer_floats(&offer, data, 4);
    offer.versioned.dl_tensor.device.id = -1;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_DEVICE_MISMATCH, "number -1; device host:0 takes");
    offer.versioned.dl_tensor.device.id = 99;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_DEVICE_MISMATCH, "number 99");
    const int32_t foreign[] = {-1, 0, 2, 7, 13, 99}; /* 2: CUDA, 7: Vulkan, 13: managed */
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        offer.versioned.dl_tensor.device.type = foreign[i];
        offer.versioned.dl_tensor.device.id = 0;
        REFUSED(fixture, &offer, 0, DDISP_STATUS_DEVICE_MISMATCH, "DLPack device type");
    }
    offer.versioned.dl_tensor.device.type = 3; /* pinned host memory */
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    ddisp_tensor_release(tensor);
}

static void devices_whose_addresses_mean_nothing_take_and_give_nothing(void **state)
{
    struct host_fixture *fixture = *state;
    ddisp_device *vulkan;
    float data[1] = {0};
    int64_t shape[1] = {1};
    struct offer offer;
    ddisp_tensor *tensor = NULL;
    struct DLManagedTensorVersioned *managed = NULL;
    if (ddisp_device_open(fixture->context, "vulkan", &vulkan)) {
        skip();
        return;
    }
    offer_floats(&offer, data, 1);
    offer.versioned.dl_tensor.device.type = 7;
    assert_fails(DDISP_STATUS_UNSUPPORTED, "device vulkan:0 takes no memory through DLPack",
                 ddisp_tensor_from_dlpack_versioned(vulkan, &offer.versioned, 0, NULL, &tensor));
    assert_ok(ddisp_tensor_create(vulkan, DDISP_DTYPE_F32, 1, shape, 0, &tensor));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "addresses of device vulkan:0 mean nothing",
                 ddisp_tensor_to_dlpack_versioned(tensor, NULL, &managed));
    ddisp_tensor_release(tensor);
    ddisp_device_release(vulkan);
    assert_int_equal(atomic_load(&deleted), 0);
}

static void element_types_are_taken_by_name_or_refused_by_name(void **state)
{
    struct host_fixture *fixture = *state;
    const struct {
        uint8_t code, bits;
        uint16_t lanes;
        ddisp_dtype dtype;
        const char *refused;
    } rows[] = {
        {6, 8, 1, DDISP_DTYPE_BOOL, NULL},      {1, 8, 1, DDISP_DTYPE_U8, NULL},
        {0, 8, 1, DDISP_DTYPE_I8, NULL},        {1, 16, 1, DDISP_DTYPE_U16, NULL},
        {0, 16, 1, DDISP_DTYPE_I16, NULL},      {1, 32, 1, DDISP_DTYPE_U32, NULL},
        {0, 32, 1, DDISP_DTYPE_I32, NULL},      {1, 64, 1, DDISP_DTYPE_U64, NULL},
        {0, 64, 1, DDISP_DTYPE_I64, NULL},      {2, 16, 1, DDISP_DTYPE_F16, NULL},
        {4, 16, 1, DDISP_DTYPE_BF16, NULL},     {2, 32, 1, DDISP_DTYPE_F32, NULL},
        {2, 64, 1, DDISP_DTYPE_F64, NULL},      {2, 32, 4, 0, "elements are float32x4;"},
        {0, 4, 1, 0, "elements are int4;"},     {5, 64, 1, 0, "elements are complex64;"},
        {3, 64, 1, 0, "elements are opaque64"}, {8, 8, 1, 0, "type code 8 of 8 bits"},
        {6, 1, 1, 0, "elements are bool1;"},    {2, 32, 0, 0, "elements are float32x0;"},
    };
    uint64_t data[4] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct offer offer;
        ddisp_tensor *tensor;
        ddisp_tensor_info info = {.size = sizeof info};
        struct DLManagedTensorVersioned *again;
        atomic_store(&deleted, 0);
        offer_floats(&offer, NULL, 1);
        offer.versioned.dl_tensor.data = data;
        offer.versioned.dl_tensor.dtype.code = rows[i].code;
        offer.versioned.dl_tensor.dtype.bits = rows[i].bits;
        offer.versioned.dl_tensor.dtype.lanes = rows[i].lanes;
        if (rows[i].refused) {
            REFUSED(fixture, &offer, 0, DDISP_STATUS_UNSUPPORTED, rows[i].refused);
            continue;
        }
        assert_ok(TAKE(fixture, &offer, 0, &tensor));
        assert_ok(ddisp_tensor_get_info(tensor, &info));
        assert_int_equal(info.dtype, rows[i].dtype);
        assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &again));
        assert_int_equal(again->dl_tensor.dtype.code, rows[i].code);
        assert_int_equal(again->dl_tensor.dtype.bits, rows[i].bits);
        assert_int_equal(again->dl_tensor.dtype.lanes, 1);
        again->deleter(again);
        ddisp_tensor_release(tensor);
        assert_int_equal(atomic_load(&deleted), 1);
    }
}

static void case_54_byte_offset_moves_element_0(void **state)
{
    struct host_fixture *fixture = *state;
    float data[9], values[8], sum = 0;
    struct offer offer;
    ddisp_tensor *tensor, *x;
    struct DLManagedTensorVersioned *again;
    const int64_t shape[1] = {8};
    for (int i = 0; i < 9; i++)
        data[i] = (float)i;
    offer_floats(&offer, data, 8);
    offer.versioned.dl_tensor.byte_offset = 4;
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    read_floats(tensor, values, 8);
    for (int i = 0; i < 8; i++)
        sum += values[i];
    assert_true(sum == 36);
    assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &again));
    assert_ptr_equal((char *)again->dl_tensor.data + again->dl_tensor.byte_offset, &data[1]);
    again->deleter(again);

    data[0] = -7;
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape, 0, &x));
    assert_ok(ddisp_tensor_fill(x, 5, NULL));
    assert_ok(square(fixture, DDISP_MODE_FORWARD, x, tensor));
    assert_true(data[0] == -7);
    for (int i = 1; i < 9; i++)
        assert_true(data[i] == 25);
    ddisp_tensor_release(x);
    ddisp_tensor_release(tensor);

    data[2] = 2;
    offer_floats(&offer, data, 1);
    offer.versioned.dl_tensor.ndim = 0;
    offer.versioned.dl_tensor.byte_offset = 8;
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    read_floats(tensor, values, 1);
    assert_true(values[0] == 2);
    ddisp_tensor_release(tensor);
}

static void case_55_read_only_is_an_input_and_nothing_else(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {2, 3}, values[2];
    const int64_t shape[1] = {2};
    for (int copied = 0; copied < 2; copied++) {
        struct offer offer;
        ddisp_tensor *tensor, *other, *ones, *gradient;
        struct DLManagedTensorVersioned *again;
        struct DLManagedTensor *plain = NULL;
        offer_floats(&offer, data, 2);
        offer.versioned.flags = copied ? SPEC_IS_COPIED : SPEC_READ_ONLY;
        assert_ok(TAKE(fixture, &offer, DDISP_TENSOR_REQUIRES_GRAD, &tensor));
        assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape,
                                      DDISP_TENSOR_REQUIRES_GRAD, &other));
        assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape, 0, &ones));
        assert_ok(ddisp_tensor_fill(ones, 1, NULL));
        assert_ok(square(fixture, DDISP_MODE_FORWARD, tensor, other));
        assert_fails(DDISP_STATUS_READ_ONLY, "'y' (argument 1) is read-only",
                     square(fixture, DDISP_MODE_FORWARD, other, tensor));
        /* Its own gradient is memory of the library. */
        assert_ok(ddisp_tensor_set_grad(other, ones));
        assert_ok(square(fixture, DDISP_MODE_BACKWARD, tensor, other));
        assert_ok(ddisp_tensor_grad(tensor, &gradient));
        read_floats(gradient, values, 2);
        assert_true(values[0] == 4 && values[1] == 6);
        ddisp_tensor_release(gradient);
        /* As the gradient of another it would be added to. */
        assert_ok(ddisp_tensor_set_grad(other, tensor));
        assert_ok(ddisp_tensor_set_grad(tensor, ones));
        assert_fails(DDISP_STATUS_READ_ONLY, "read-only",
                     square(fixture, DDISP_MODE_BACKWARD, other, tensor));
        assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &again));
        assert_int_equal(again->flags, SPEC_READ_ONLY);
        again->deleter(again);
        assert_fails(DDISP_STATUS_READ_ONLY, "DLManagedTensor cannot say",
                     ddisp_tensor_to_dlpack(tensor, NULL, &plain));
        assert_true(data[0] == 2 && data[1] == 3);
        ddisp_tensor_release(ones);
        ddisp_tensor_release(other);
        ddisp_tensor_release(tensor);
    }
}

static void case_55_the_older_struct_is_writable_unless_the_caller_says_otherwise(void **state)
{
    struct host_fixture *fixture = *state;
    float data[1] = {2}, value = 4;
    struct offer offer;
    ddisp_tensor *tensor;
    offer_floats(&offer, data, 1);
    assert_ok(ddisp_tensor_from_dlpack(fixture->device, &offer.plain, 0, NULL, &tensor));
    assert_ok(ddisp_tensor_write(tensor, &value, sizeof value, NULL));
    ddisp_tensor_release(tensor);
    assert_true(data[0] == 4);
    assert_ok(ddisp_tensor_from_dlpack(fixture->device, &offer.plain, DDISP_TENSOR_READ_ONLY, NULL,
                                       &tensor));
    value = 5;
    assert_fails(DDISP_STATUS_READ_ONLY, "read-only",
                 ddisp_tensor_write(tensor, &value, sizeof value, NULL));
    ddisp_tensor_release(tensor);
    assert_true(data[0] == 4);
}

static void a_copy_is_written_only_by_those_who_know_of_it(void **state)
{
    struct host_fixture *fixture = *state;
    float data[1] = {2}, value = 4;
    struct offer offer;
    ddisp_tensor *tensor;
    offer_floats(&offer, data, 1);
    offer.versioned.flags = SPEC_IS_COPIED;
    assert_ok(TAKE(fixture, &offer, DDISP_DLPACK_WRITE_COPY, &tensor));
    assert_ok(ddisp_tensor_write(tensor, &value, sizeof value, NULL));
    ddisp_tensor_release(tensor);
    assert_true(data[0] == 4);
}

static void no_elements_need_no_memory(void **state)
{
    struct host_fixture *fixture = *state;
    struct offer offer;
    ddisp_tensor *tensor, *y;
    ddisp_tensor_info info = {.size = sizeof info};
    const int64_t shape[3] = {0, 16, 3};
    struct DLManagedTensorVersioned *again;
    offer_floats(&offer, NULL, 0);
    offer.versioned.dl_tensor.ndim = 3;
    offer.versioned.dl_tensor.strides = NULL;
    memcpy(offer.shape, shape, sizeof shape);
    assert_ok(TAKE(fixture, &offer, DDISP_TENSOR_REQUIRES_GRAD, &tensor));
    assert_ok(ddisp_tensor_get_info(tensor, &info));
    assert_int_equal(info.numel, 0);
    assert_int_equal(info.shape[1], 16);
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 3, shape, 0, &y));
    assert_ok(square(fixture, DDISP_MODE_FORWARD, tensor, y));
    assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &again));
    assert_null(again->dl_tensor.data);
    again->deleter(again);
    ddisp_tensor_release(y);
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 1);
}

static void wrong_calls_take_nothing(void **state)
{
    struct host_fixture *fixture = *state;
    float data[1] = {0};
    int integers[1] = {0};
    struct offer offer;
    ddisp_tensor *tensor = NULL;
    ddisp_context *other_context;
    ddisp_device *other_device;
    ddisp_stream *other_stream;
    offer_floats(&offer, data, 1);
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "device is NULL",
                 ddisp_tensor_from_dlpack_versioned(NULL, &offer.versioned, 0, NULL, &tensor));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "managed is NULL",
                 ddisp_tensor_from_dlpack(fixture->device, NULL, 0, NULL, &tensor));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "out_tensor is NULL",
                 TAKE(fixture, &offer, 0, NULL));
    REFUSED(fixture, &offer, UINT64_C(1) << 40, DDISP_STATUS_INVALID_ARGUMENT, "unknown bits");
    offer.versioned.version.major = 2;
    REFUSED(fixture, &offer, 0, DDISP_STATUS_INCOMPATIBLE, "DLPack 2.0");
    offer.versioned.version.major = 1;
    offer.versioned.version.minor = 99;
    offer.versioned.dl_tensor.data = integers;
    offer.versioned.dl_tensor.dtype.code = SPEC_INT;
    REFUSED(fixture, &offer, DDISP_TENSOR_REQUIRES_GRAD, DDISP_STATUS_INVALID_ARGUMENT,
            "a i32 tensor cannot require a gradient");
    assert_ok(ddisp_context_create(NULL, &other_context));
    assert_ok(ddisp_device_open(other_context, "host", &other_device));
    assert_ok(ddisp_stream_create(other_device, 0, &other_stream));
    assert_fails(DDISP_STATUS_DEVICE_MISMATCH, "stream",
                 ddisp_tensor_from_dlpack_versioned(fixture->device, &offer.versioned, 0,
                                                    other_stream, &tensor));
    ddisp_stream_release(other_stream);
    ddisp_device_release(other_device);
    ddisp_context_release(other_context);
    assert_int_equal(atomic_load(&deleted), 0);
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DLPACK_TEST(both_structs_are_taken_without_a_copy),
        DLPACK_TEST(case_13_negative_stride_reads_backwards),
        DLPACK_TEST(case_15_strides_of_axes_of_one_do_not_count),
        DLPACK_TEST(case_19_no_axes_and_no_strides),
        DLPACK_TEST(case_19_shapes_that_cannot_be_are_refused),
        DLPACK_TEST(case_37_devices_are_matched_by_kind_and_number),
        DLPACK_TEST(devices_whose_addresses_mean_nothing_take_and_give_nothing),
        DLPACK_TEST(element_types_are_taken_by_name_or_refused_by_name),
        DLPACK_TEST(case_54_byte_offset_moves_element_0),
        DLPACK_TEST(case_55_read_only_is_an_input_and_nothing_else),
        DLPACK_TEST(case_55_the_older_struct_is_writable_unless_the_caller_says_otherwise),
        DLPACK_TEST(a_copy_is_written_only_by_those_who_know_of_it),
        DLPACK_TEST(no_elements_need_no_memory),
        DLPACK_TEST(wrong_calls_take_nothing),
    };
    return cmocka_run_group_tests_name("dlpack_import", tests, NULL, NULL);
}
