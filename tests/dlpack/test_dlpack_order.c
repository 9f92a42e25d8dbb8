/*
 * test_dlpack_order.c - the order of work around imports and exports, on a backend that writes down
 * what it is asked (tests/unit/fake.h): an import waits for the stream that fills it, an export is
 * ordered after the streams that use it, a deleter runs after the work.
 */
#include "dlpack_spec.h"

#include "../unit/fake.h"

static int order_setup(void **state)
{
    int result = fake_setup(state);
    struct fake_fixture *fixture = *state;
    fixture->device->info.dlpack_device_type = 1;
    atomic_store(&deleted, 0);
    return result;
}

static void import_is_ordered_after_the_stream_that_fills_it(void **state)
{
    struct fake_fixture *fixture = *state;
    float data[4] = {0};
    struct offer offer;
    ddisp_tensor *tensor;
    offer_floats(&offer, data, 4);
    assert_ok(ddisp_tensor_from_dlpack_versioned(fixture->device, &offer.versioned, 0,
                                                 fixture->second, &tensor));
    assert_string_equal(fake.trace, "import 16; mark s2=1; ");
    fake_forget();
    assert_ok(ddisp_tensor_write(tensor, data, sizeof data, fixture->third));
    assert_non_null(strstr(fake.trace, "wait s3 for s2=1; "));
    fake_forget();
    assert_ok(ddisp_tensor_write(tensor, data, sizeof data, fixture->second));
    assert_null(strstr(fake.trace, "wait"));
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 1);
}

static void deleter_waits_for_the_stream_that_fills_it(void **state)
{
    struct fake_fixture *fixture = *state;
    float data[4] = {0};
    struct offer offer;
    ddisp_tensor *tensor;
    fake.holds = true;
    offer_floats(&offer, data, 4);
    assert_ok(ddisp_tensor_from_dlpack_versioned(fixture->device, &offer.versioned, 0,
                                                 fixture->second, &tensor));
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 0);
    fake_complete();
    assert_ok(ddisp_device_synchronize(fixture->device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(atomic_load(&deleted), 1);
}

static void export_is_ordered_after_every_stream_that_used_it(void **state)
{
    struct fake_fixture *fixture = *state;
    const int64_t shape[1] = {4};
    float data[4] = {0};
    ddisp_tensor *tensor;
    struct DLManagedTensorVersioned *exported;
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape, 0, &tensor));
    assert_ok(ddisp_tensor_write(tensor, data, sizeof data, fixture->second));
    fake_forget();
    assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, fixture->third, &exported));
    assert_non_null(strstr(fake.trace, "wait s3 for s2="));
    assert_non_null(strstr(fake.trace, "wait s3 for s1="));
    assert_null(strstr(fake.trace, "synchronize"));
    exported->deleter(exported);
    fake_forget();
    assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &exported));
    assert_non_null(strstr(fake.trace, "synchronize s1"));
    assert_non_null(strstr(fake.trace, "synchronize s2"));
    exported->deleter(exported);
    ddisp_tensor_release(tensor);
}

static void failing_order_takes_and_gives_nothing(void **state)
{
    struct fake_fixture *fixture = *state;
    const int64_t shape[1] = {4};
    float data[4] = {0};
    struct offer offer;
    ddisp_tensor *tensor = NULL;
    struct DLManagedTensorVersioned *exported = NULL;
    offer_floats(&offer, data, 4);
    fake.fail_status = DDISP_STATUS_DRIVER_ERROR;
    const char *const fails[] = {"memory_import", "stream_mark"};
    for (int i = 0; i < 2; i++) {
        fake.fails = fails[i];
        assert_fails(DDISP_STATUS_DRIVER_ERROR, "failed",
                     ddisp_tensor_from_dlpack_versioned(fixture->device, &offer.versioned, 0,
                                                        fixture->second, &tensor));
        fake.fails = NULL;
        assert_int_equal(fake.imports, 0);
    }
    assert_int_equal(atomic_load(&deleted), 0);
    assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape, 0, &tensor));
    fake.fails = "stream_mark";
    assert_fails(DDISP_STATUS_DRIVER_ERROR, "failed",
                 ddisp_tensor_to_dlpack_versioned(tensor, NULL, &exported));
    fake.fails = NULL;
    assert_null(exported);
    ddisp_tensor_release(tensor);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, order_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(import_is_ordered_after_the_stream_that_fills_it),
        TEST(deleter_waits_for_the_stream_that_fills_it),
        TEST(export_is_ordered_after_every_stream_that_used_it),
        TEST(failing_order_takes_and_gives_nothing),
    };
    return cmocka_run_group_tests_name("dlpack_order", tests, NULL, NULL);
}
