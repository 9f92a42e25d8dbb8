/*
 * test_block.c - the standard argument block as a kernel sees it: a host function keeps what it was
 * handed, and every field is held against what the launch said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

/* x in [2,3], k, n i32 in [6], z inout [6], m u8, y out f64 [6] */
enum { X, K, N, Z, M, Y, PARAMS };
enum { TENSORS = 4, SCALARS = 2 };

static struct {
    ddisp_block head;
    ddisp_device_tensor tensors[TENSORS];
    uint64_t scalars[SCALARS];
} kept;
static uint64_t items_seen;

static void keep(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)__atomic_fetch_add(&items_seen, end - begin, __ATOMIC_RELAXED);
    if (begin == 0)
        memcpy(&kept, block, sizeof kept);
}

static const ddisp_param params[PARAMS] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
    DDISP_PARAM("n", DDISP_ACCESS_IN, DDISP_DTYPE_I32, 1, 0),
    DDISP_PARAM("z", DDISP_ACCESS_INOUT, DDISP_DTYPE_F16, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM_SCALAR("m", DDISP_DTYPE_U8),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F64, 1,
                DDISP_PARAM_DIFFERENTIABLE | DDISP_PARAM_ITEMS),
};
static const ddisp_entry entries[] = {
    DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, keep, 71),
    DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, keep, 72),
};
static const ddisp_code codes[] = {
    DDISP_CODE("host", "host-function", NULL, 0, entries,
               DDISP_CODE_ANY_LAYOUT | DDISP_CODE_NULL_SAFE),
};

static ddisp_context *context;
static ddisp_device *device;
static ddisp_kernel *kernel;
static ddisp_tensor *x, *n, *z, *y;
static const float k_value = 2.5f;
static const uint8_t m_value = 200;

static void ok(ddisp_status status)
{
    char message[512] = "";
    if (!status)
        return;
    (void)ddisp_last_error(message, sizeof message, NULL);
    printf("# %s: %s\n", ddisp_status_name(status), message);
    fail();
}

static int set_up(void **unused)
{
    static const int64_t flat[1] = {6}, grid[2] = {2, 3}, columns[2] = {1, 2};
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_context_desc context_desc = DDISP_ZERO;
    ddisp_buffer *buffer = NULL;
    (void)unused;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "keep";
    desc.params = params;
    desc.param_count = PARAMS;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = 1;
    desc.code_size = (uint32_t)sizeof codes[0];
    context_desc.size = (uint32_t)sizeof context_desc;
    context_desc.backends = "host";
    ok(ddisp_context_create(&context_desc, &context));
    ok(ddisp_device_open(context, "host", &device));
    ok(ddisp_kernel_create(context, &desc, &kernel));
    ok(ddisp_buffer_create(device, 64, &buffer));
    ok(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 2, grid, columns, 3,
                                DDISP_TENSOR_REQUIRES_GRAD, &x));
    ddisp_buffer_release(buffer);
    ok(ddisp_tensor_create(device, DDISP_DTYPE_I32, 1, flat, 0, &n));
    ok(ddisp_tensor_create(device, DDISP_DTYPE_F16, 1, flat, DDISP_TENSOR_REQUIRES_GRAD, &z));
    ok(ddisp_tensor_create(device, DDISP_DTYPE_F64, 1, flat, DDISP_TENSOR_REQUIRES_GRAD, &y));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    ddisp_tensor_release(x);
    ddisp_tensor_release(n);
    ddisp_tensor_release(z);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    ddisp_context_release(context);
    return 0;
}

static void launch(ddisp_mode mode)
{
    ddisp_arg args[PARAMS] = {DDISP_ARG(x), DDISP_ARG_SCALAR(&k_value), DDISP_ARG(n),
                              DDISP_ARG(z), DDISP_ARG_SCALAR(&m_value), DDISP_ARG(y)};
    memset(&kept, 0x5A, sizeof kept);
    items_seen = 0;
    ok(ddisp_launch(kernel, mode, args, PARAMS, NULL, NULL));
    ok(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
}

static uint64_t address_of(ddisp_tensor *tensor)
{
    ddisp_tensor_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    ok(ddisp_tensor_get_info(tensor, &info));
    return info.address;
}

static uint64_t gradient_of(ddisp_tensor *tensor)
{
    ddisp_tensor *gradient = NULL;
    ok(ddisp_tensor_grad(tensor, &gradient));
    uint64_t address = address_of(gradient);
    ddisp_tensor_release(gradient);
    return address;
}

static void check_head(void)
{
    float k;
    assert_int_equal(kept.head.abi, DDISP_BLOCK_ABI);
    assert_int_equal(kept.head.size_bytes, sizeof kept);
    assert_int_equal(sizeof kept, 32 + 4 * 320 + 2 * 8);
    assert_int_equal(kept.head.items, 6);
    assert_int_equal(items_seen, 6);
    assert_int_equal(kept.head.tensor_count, TENSORS);
    assert_int_equal(kept.head.scalar_count, SCALARS);
    assert_int_equal(kept.head.flags, 0);
    memcpy(&k, &kept.scalars[0], sizeof k);
    assert_true(k == 2.5f);
    assert_int_equal(kept.scalars[0] >> 32, 0);
    assert_int_equal(kept.scalars[1], 200);
}

/* Axes past the rank are of extent 1 and stride 0; nothing else is set in reserved fields. */
static void check_rest(const ddisp_device_tensor *t, uint32_t rank)
{
    assert_int_equal(t->rank, rank);
    for (uint32_t d = rank; d < 8; d++) {
        assert_int_equal(t->shape[d], 1);
        assert_int_equal(t->stride[d], 0);
        assert_int_equal(t->add_stride[d], 0);
        assert_int_equal(t->read_stride[d], 0);
    }
    assert_true(t->scale == 0);
    assert_int_equal(t->sticky, 0);
    assert_true(t->limit == 0);
}

static void check_data(void)
{
    const ddisp_device_tensor *t = kept.tensors;
    assert_int_equal(t[0].data, address_of(x));
    assert_int_equal(t[0].dtype, DDISP_DTYPE_F32);
    assert_int_equal(t[0].shape[0], 2);
    assert_int_equal(t[0].shape[1], 3);
    assert_int_equal(t[0].stride[0], 1);
    assert_int_equal(t[0].stride[1], 2);
    assert_int_equal(t[1].data, address_of(n));
    assert_int_equal(t[1].dtype, DDISP_DTYPE_I32);
    assert_int_equal(t[1].grad_dtype, 0);
    assert_int_equal(t[2].data, address_of(z));
    assert_int_equal(t[2].dtype, DDISP_DTYPE_F16);
    assert_int_equal(t[3].data, address_of(y));
    assert_int_equal(t[3].dtype, DDISP_DTYPE_F64);
    for (int i = 0; i < TENSORS; i++)
        check_rest(&t[i], i == 0 ? 2 : 1);
}

static void forward_block_has_data_and_no_gradient(void **unused)
{
    (void)unused;
    launch(DDISP_MODE_FORWARD);
    check_head();
    check_data();
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(kept.tensors[i].grad_add, 0);
        assert_int_equal(kept.tensors[i].grad_read, 0);
        assert_int_equal(kept.tensors[i].flags, i == 0 ? 0 : DDISP_DEVICE_TENSOR_DENSE);
    }
}

/* Items would lie behind the end of a tensor that has fewer elements. */
static void tensor_with_fewer_elements_than_items_is_not_dense(void **unused)
{
    static const int64_t three[1] = {3};
    ddisp_tensor *six = n;
    (void)unused;
    ok(ddisp_tensor_create(device, DDISP_DTYPE_I32, 1, three, 0, &n));
    launch(DDISP_MODE_FORWARD);
    assert_int_equal(kept.tensors[1].shape[0], 3);
    assert_int_equal(kept.tensors[1].flags, 0);
    assert_int_equal(kept.tensors[2].flags, DDISP_DEVICE_TENSOR_DENSE);
    ddisp_tensor_release(n);
    n = six;
}

static void backward_block_has_both_gradients(void **unused)
{
    static const int64_t six[1] = {6}, apart[1] = {2};
    const ddisp_device_tensor *t = kept.tensors;
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *gy = NULL, *gz = NULL;
    (void)unused;
    ok(ddisp_buffer_create(device, 96, &buffer));
    ok(ddisp_tensor_create_over(buffer, DDISP_DTYPE_F64, 1, six, apart, 1, 0, &gy));
    ddisp_buffer_release(buffer);
    ok(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, six, 0, &gz));
    ok(ddisp_tensor_set_grad(y, gy));
    ok(ddisp_tensor_set_grad(z, gz));
    launch(DDISP_MODE_BACKWARD);
    check_head();
    check_data();
    assert_int_equal(t[0].grad_add, gradient_of(x)); /* dense, whatever the data's strides */
    assert_int_equal(t[0].add_stride[0], 3);
    assert_int_equal(t[0].add_stride[1], 1);
    assert_int_equal(t[0].grad_read, 0);
    assert_int_equal(t[0].grad_dtype, DDISP_DTYPE_F32);
    assert_int_equal(t[0].flags, DDISP_DEVICE_TENSOR_REQUIRES_GRAD | DDISP_DEVICE_TENSOR_ADD_DENSE);
    assert_int_equal(t[1].grad_add, 0);
    assert_int_equal(t[1].flags, DDISP_DEVICE_TENSOR_DENSE);
    assert_int_equal(t[2].grad_read, address_of(gz)); /* taken: the new one is another */
    assert_int_equal(t[2].grad_add, gradient_of(z));
    assert_true(t[2].grad_add != t[2].grad_read);
    assert_int_equal(t[2].grad_dtype, DDISP_DTYPE_F32);
    assert_int_equal(t[2].flags, DDISP_DEVICE_TENSOR_REQUIRES_GRAD |
                                     DDISP_DEVICE_TENSOR_HAS_UPSTREAM | DDISP_DEVICE_TENSOR_DENSE |
                                     DDISP_DEVICE_TENSOR_ADD_DENSE |
                                     DDISP_DEVICE_TENSOR_READ_DENSE);
    assert_int_equal(t[3].grad_read, address_of(gy));
    assert_int_equal(t[3].read_stride[0], 2);
    assert_int_equal(t[3].grad_add, 0);
    assert_int_equal(t[3].grad_dtype, DDISP_DTYPE_F64);
    assert_int_equal(t[3].flags, DDISP_DEVICE_TENSOR_HAS_UPSTREAM | DDISP_DEVICE_TENSOR_DENSE);
    ddisp_tensor_release(gy);
    ddisp_tensor_release(gz);
}

static void frozen_input_has_a_null_address_under_guard(void **unused)
{
    static const int64_t six[1] = {6};
    ddisp_tensor *gy = NULL, *gz = NULL;
    (void)unused;
    ok(ddisp_tensor_create(device, DDISP_DTYPE_F64, 1, six, 0, &gy));
    ok(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, six, 0, &gz));
    ok(ddisp_tensor_set_requires_grad(x, 0));
    ok(ddisp_tensor_set_grad(y, gy));
    ok(ddisp_tensor_set_grad(z, gz));
    launch(DDISP_MODE_BACKWARD); /* AUTO: the code is null-safe */
    assert_int_equal(kept.tensors[0].grad_add, 0);
    assert_int_equal(kept.tensors[0].flags, 0);
    assert_true(kept.tensors[2].grad_add);
    ddisp_tensor_release(gy);
    ddisp_tensor_release(gz);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forward_block_has_data_and_no_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tensor_with_fewer_elements_than_items_is_not_dense, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(backward_block_has_both_gradients, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frozen_input_has_a_null_address_under_guard, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
