/*
 * test_host_native.c - existing C functions through the host backend's table: every kind of
 * argument arrives, once per launch, as it was when the launch was made; lists that cannot be right
 * are refused by name.
 */
#include "host_code.h"

#include <stdlib.h>
#include <string.h>

static ddisp_host_function cast(void (*function)(void))
{
    return (ddisp_host_function)function;
}

static uint64_t bits(float value)
{
    uint64_t result = 0;
    memcpy(&result, &value, sizeof value);
    return result;
}

/* ---- kernels that know nothing of the library */

static struct {
    int calls;
    const float *a, *b;
    float *y;
    uint64_t n, rows;
    int32_t stride;
    uint32_t columns;
    float k;
    const ddisp_block *block;
    uint64_t slot;
} seen;

static void take_everything(float *y, const float *a, const float *b, float k, uint64_t n,
                            uint32_t columns, int32_t stride, uint64_t rows,
                            const ddisp_block *block)
{
    seen.calls++;
    seen.y = y;
    seen.a = a;
    seen.b = b;
    seen.k = k;
    seen.n = n;
    seen.columns = columns;
    seen.stride = stride;
    seen.rows = rows;
    seen.block = block;
    seen.slot = argument(block, 2);
}

static const ddisp_native_arg everything[9] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 2),         DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
    DDISP_NATIVE(DDISP_SOURCE_DATA, 1),         DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3),
    DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2),        {DDISP_SOURCE_SHAPE, 0, 1, 0, 0, 0, 4, 0},
    {DDISP_SOURCE_STRIDE, 0, 0, 0, 0, 0, 4, 0}, {DDISP_SOURCE_ITEMS, 0, 0, 0, 0, 0, 8, 0},
    DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0),
};

static void check_everything(const fixture *f, void *stream)
{
    host_code it;
    void *variant = NULL;
    float a = 1, b = 2, y = 0;
    arguments block = arguments_make(7, 1, 2, 3);
    const uint64_t values[9] = {address_of(&y),
                                address_of(&a),
                                address_of(&b),
                                bits(2.5f),
                                UINT64_C(5) << 40,
                                77,
                                (uint64_t)-3,
                                9,
                                0};
    host_code_make(&it, DDISP_MODE_FORWARD, everything, 9);
    it.entries[0].function = cast((void (*)(void))take_everything);
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    assert_int_equal(f->table->code_fits(f->device, &it.backend_code), DDISP_STATUS_OK);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    memset(&seen, 0, sizeof seen);
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OK);
    memset(&block, 0, sizeof block);
    stream_finish(f, stream);
    assert_int_equal(seen.calls, 1);
    assert_ptr_equal(seen.y, &y);
    assert_ptr_equal(seen.a, &a);
    assert_ptr_equal(seen.b, &b);
    assert_true(seen.k == 2.5f);
    assert_int_equal(seen.n, UINT64_C(5) << 40);
    assert_int_equal(seen.columns, 77);
    assert_int_equal(seen.stride, -3);
    assert_int_equal(seen.rows, 9);
    assert_int_equal(seen.slot, 3);
    f->table->variant_release(f->device, variant);
}

static void every_kind_of_argument_arrives(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    check_everything(f, f->own);
    check_everything(f, stream);
    f->table->stream_destroy(f->device, stream);
}

/* Called at the inline stream, where the block is the caller's own. */
static void block_of_a_queued_call_is_a_copy(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    arguments block = arguments_make(7, 1, 2, 3);
    static const ddisp_native_arg natives[9] = {
        DDISP_NATIVE(DDISP_SOURCE_DATA, 2),         DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
        DDISP_NATIVE(DDISP_SOURCE_DATA, 1),         DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3),
        DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2),        {DDISP_SOURCE_SHAPE, 0, 1, 0, 0, 0, 4, 0},
        {DDISP_SOURCE_STRIDE, 0, 0, 0, 0, 0, 4, 0}, DDISP_NATIVE(DDISP_SOURCE_ITEMS, 0),
        DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0)};
    const uint64_t values[9] = {0};
    host_code it;
    void *variant = NULL;
    host_code_make(&it, DDISP_MODE_FORWARD, natives, 9);
    it.entries[0].function = cast((void (*)(void))take_everything);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, f->own, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OK);
    assert_ptr_equal(seen.block, &block);
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_ptr_not_equal(seen.block, &block);
    f->table->stream_destroy(f->device, stream);
    f->table->variant_release(f->device, variant);
}

static void backward(const float *gy, float *ga, float *gb, const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++) {
        ga[i] += gy[i] * b[i];
        gb[i] += gy[i] * a[i];
    }
}

/* The list is in the order of the library's ideas, locations say where each goes. */
static void locations_give_any_order(void **state)
{
    const fixture *f = *state;
    enum { EXPLICIT = DDISP_NATIVE_LOCATION };
    static const ddisp_native_arg natives[6] = {
        {DDISP_SOURCE_DATA, 0, 0, 0, 0, 3, 0, EXPLICIT},
        {DDISP_SOURCE_DATA, 1, 0, 0, 0, 0, 0, 0}, /* behind the one before: 4 */
        {DDISP_SOURCE_NUMEL, 2, 0, 0, 0, 0, 4, 0},
        {DDISP_SOURCE_GRAD_READ, 2, 0, 0, 0, 0, 0, EXPLICIT},
        {DDISP_SOURCE_GRAD_ADD, 1, 0, 0, 0, 2, 0, EXPLICIT},
        {DDISP_SOURCE_GRAD_ADD, 0, 0, 0, 0, 1, 0, EXPLICIT},
    };
    float a[2] = {2, 3}, b[2] = {5, 7}, gy[2] = {1, 10}, ga[2] = {0, 1}, gb[2] = {0, 0};
    const uint64_t values[6] = {address_of(a),  address_of(b),  2,
                                address_of(gy), address_of(gb), address_of(ga)};
    host_code it;
    void *variant = NULL;
    host_code_make(&it, DDISP_MODE_BACKWARD, natives, 6);
    it.entries[0].function = cast((void (*)(void))backward);
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    assert_int_equal(host_code_launch(f, f->own, variant, &it, values, NULL, 0), DDISP_STATUS_OK);
    assert_true(ga[0] == 5 && ga[1] == 71 && gb[0] == 2 && gb[1] == 30);
    f->table->variant_release(f->device, variant);
}

/* ---- refusals */

typedef struct refusal {
    ddisp_native_arg natives[6];
    uint32_t count;
    const char *texts[3];
} refusal;

static void wrong_lists_are_refused_by_name(void **state)
{
    const fixture *f = *state;
    enum { EXPLICIT = DDISP_NATIVE_LOCATION };
#define READ_Y DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2)
#define ADD_A  DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0)
#define ADD_B  DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1)
    static const refusal refusals[] = {
        {{READ_Y, ADD_A}, 2, {"gradient of 'b'", "added to", "GRAD_ADD, parameter 1"}},
        {{ADD_B, ADD_A}, 2, {"gradient of 'y'", "read", "GRAD_READ, parameter 2"}},
        {{READ_Y, ADD_A, {DDISP_SOURCE_GRAD_ADD, 1, 0, 0, 0, 1, 0, EXPLICIT}},
         3,
         {"native argument 2 (the gradient of 'b' that is added to)", "position 1",
          "native argument 1"}},
        {{READ_Y, ADD_A, {DDISP_SOURCE_GRAD_ADD, 1, 0, 0, 0, 4, 0, EXPLICIT}},
         3,
         {"native argument 2", "position 4", "there are 3"}},
        {{READ_Y, ADD_A, {DDISP_SOURCE_GRAD_ADD, 1, 0, 0, 0, 0, 4, 0}},
         3,
         {"gradient of 'b'", "4 bytes", "of 8"}},
        {{READ_Y, ADD_A, ADD_B, {DDISP_SOURCE_SCALAR, 3, 0, 0, 0, 0, 8, 0}},
         4,
         {"scalar 'k'", "8 bytes", "of 4"}},
        {{READ_Y, ADD_A, ADD_B, {DDISP_SOURCE_NUMEL, 2, 0, 0, 0, 0, 2, 0}},
         4,
         {"element count of 'y'", "2 bytes", "4 or 8"}},
        {{READ_Y, ADD_A, ADD_B, {DDISP_SOURCE_SHAPE, 0, 2, 0, 0, 0, 0, 0}},
         4,
         {"extent 2 of 'a'", "rank 2", ""}},
        {{READ_Y, ADD_A, DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_ADD, 1, 0, 3)},
         3,
         {"gradient of 'b'", "descriptor", "space 1"}},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        host_code it;
        void *variant = NULL;
        host_code_make(&it, DDISP_MODE_BACKWARD, refusals[i].natives, refusals[i].count);
        it.entries[0].function = cast((void (*)(void))backward);
        assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_CODE_INVALID);
        for (int k = 0; k < 3; k++) {
            if (!strstr(last_message, refusals[i].texts[k])) {
                fail_msg("%zu: '%s' is not in: %s", i, refusals[i].texts[k], last_message);
            }
        }
        assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_CODE_INVALID);
        assert_null(variant);
    }
}

static void entries_for_a_mask_need_its_gradients_only(void **state)
{
    const fixture *f = *state;
    static const ddisp_native_arg natives[2] = {READ_Y, ADD_A};
    host_code it;
    host_code_make(&it, DDISP_MODE_BACKWARD, natives, 2);
    it.entries[0].function = cast((void (*)(void))backward);
    it.entries[0].flags = DDISP_ENTRY_MASKED;
    it.entries[0].mask = 5; /* a and y */
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_OK);
    it.entries[0].mask = 7;
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_CODE_INVALID);
}

static void halves_are_no_c_arguments(void **state)
{
    const fixture *f = *state;
    static const ddisp_native_arg natives[1] = {DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)};
    host_code it;
    host_code_make(&it, DDISP_MODE_FORWARD, natives, 1);
    it.entries[0].function = cast((void (*)(void))backward);
    it.params[3].dtype = DDISP_DTYPE_F16;
    assert_int_equal(host_code_inspect(f, &it), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "the scalar 'k'"));
}

static void numbers_that_do_not_fit_are_refused_at_the_launch(void **state)
{
    const fixture *f = *state;
    static const struct {
        ddisp_source source;
        int64_t value;
        ddisp_status status;
    } cases[] = {
        {DDISP_SOURCE_NUMEL, INT64_C(4294967295), DDISP_STATUS_OK},
        {DDISP_SOURCE_NUMEL, INT64_C(4294967296), DDISP_STATUS_LIMIT_EXCEEDED},
        {DDISP_SOURCE_ITEMS, INT64_C(5000000000), DDISP_STATUS_LIMIT_EXCEEDED},
        {DDISP_SOURCE_STRIDE, -INT64_C(2147483648), DDISP_STATUS_OK},
        {DDISP_SOURCE_STRIDE, -INT64_C(2147483649), DDISP_STATUS_LIMIT_EXCEEDED},
        {DDISP_SOURCE_STRIDE, INT64_C(2147483648), DDISP_STATUS_LIMIT_EXCEEDED},
    };
    void *stream = stream_make(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_native_arg natives[1] = {{cases[i].source, 0, 0, 0, 0, 0, 4, 0}};
        uint64_t values[1] = {(uint64_t)cases[i].value};
        host_code it;
        void *variant = NULL;
        host_code_make(&it, DDISP_MODE_FORWARD, natives, 1);
        it.entries[0].function = cast((void (*)(void))gate_open); /* takes what it gets */
        assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
        for (int k = 0; k < 2; k++) {
            last_message[0] = '\0';
            assert_int_equal(
                host_code_launch(f, k ? stream : f->own, variant, &it, values, NULL, 0),
                cases[i].status);
            assert_int_equal(strstr(last_message, "4 bytes") != NULL,
                             cases[i].status != DDISP_STATUS_OK);
        }
        stream_finish(f, stream);
        f->table->variant_release(f->device, variant);
    }
    f->table->stream_destroy(f->device, stream);
}

static void failing_allocations_leave_nothing(void **state)
{
    const fixture *f = *state;
    void *stream = stream_make(f);
    const uint64_t values[9] = {0};
    arguments block = arguments_make(7, 1, 2, 3);
    host_code it;
    void *variant = NULL;
    host_code_make(&it, DDISP_MODE_FORWARD, everything, 9);
    it.entries[0].function = cast((void (*)(void))take_everything);
    for (int nth = 1; nth <= 2; nth++) {
        int before = atomic_load(&live);
        atomic_store(&fail_allocation, nth);
        assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OUT_OF_MEMORY);
        assert_null(variant);
        assert_int_equal(atomic_load(&live), before);
    }
    atomic_store(&fail_allocation, 0);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OUT_OF_MEMORY);
    seen.calls = 0;
    assert_int_equal(host_code_launch(f, stream, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OK);
    stream_finish(f, stream);
    assert_int_equal(seen.calls, 1);
    f->table->stream_destroy(f->device, stream);
    f->table->variant_release(f->device, variant);
}

/** On the device's own stream a launch allocates nothing. */
static void steady_call_allocates_nothing(void **state)
{
    const fixture *f = *state;
    const uint64_t values[9] = {0};
    arguments block = arguments_make(7, 1, 2, 3);
    host_code it;
    void *variant = NULL;
    host_code_make(&it, DDISP_MODE_FORWARD, everything, 9);
    it.entries[0].function = cast((void (*)(void))take_everything);
    assert_int_equal(host_code_build(f, &it, &variant), DDISP_STATUS_OK);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(host_code_launch(f, f->own, variant, &it, values, &block, sizeof block),
                     DDISP_STATUS_OK);
    assert_int_equal(atomic_load(&fail_allocation), 1);
    f->table->variant_release(f->device, variant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_argument_arrives),
        TEST(block_of_a_queued_call_is_a_copy),
        TEST(locations_give_any_order),
        TEST(wrong_lists_are_refused_by_name),
        TEST(entries_for_a_mask_need_its_gradients_only),
        TEST(halves_are_no_c_arguments),
        TEST(numbers_that_do_not_fit_are_refused_at_the_launch),
        TEST(failing_allocations_leave_nothing),
        TEST(steady_call_allocates_nothing),
    };
    return cmocka_run_group_tests_name("host native", tests, NULL, NULL);
}
