/*
 * test_native_vulkan_limits.c - where a storage buffer may begin, and how much of one a shader may
 * see: views at offsets that cannot be bound, and tensors at the device's limit.
 */
#include "native_fixture.h"

#include <inttypes.h>
#include <stdlib.h>

#include "twice.spv.h"
#include "twice_half.spv.h"
#include "twice_offset.spv.h"

static const ddisp_param float_params[1] = {
    DDISP_PARAM("x", DDISP_ACCESS_INOUT, DDISP_DTYPE_F32, 1, 0)};
static const ddisp_param half_params[1] = {
    DDISP_PARAM("x", DDISP_ACCESS_INOUT, DDISP_DTYPE_F16, 1, 0)};
static const ddisp_native_arg with_offset[3] = {DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 0, 0, 0),
                                                {DDISP_SOURCE_NUMEL, 0, 0, 0, 0, 0, 4, 0},
                                                {DDISP_SOURCE_OFFSET, 0, 0, 0, 0, 0, 4, 0}};

static ddisp_kernel *make(const native_fixture *f, const ddisp_param *params, const void *spirv,
                          uint64_t size_bytes, uint32_t count)
{
    ddisp_kernel *kernel = NULL;
    const native_code code = {.params = params,
                              .param_count = 1,
                              .forward = spirv,
                              .forward_bytes = size_bytes,
                              .forward_args = with_offset,
                              .forward_count = count,
                              .entry_flags = DDISP_ENTRY_LOOPS};
    NATIVE_OK(native_kernel(f, &code, &kernel));
    return kernel;
}

static ddisp_status run(ddisp_kernel *kernel, ddisp_tensor *tensor)
{
    const ddisp_arg args[1] = {DDISP_ARG(tensor)};
    return ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 1, NULL, NULL);
}

/** Doubles `count` of 8 floats from `first` on. */
static void twice_of(const native_fixture *f, ddisp_kernel *kernel, int64_t first, int64_t count)
{
    static const float before[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t stride = 1;
    float after[8];
    ddisp_tensor *base = native_vector(f, 8, 0, before), *view = NULL;
    NATIVE_OK(ddisp_tensor_as_strided(base, 1, &count, &stride, first, &view));
    NATIVE_OK(run(kernel, view));
    for (int64_t i = 0; i < 8; i++)
        after[i] = i >= first && i < first + count ? 2 : 1;
    native_values(base, after, 8);
    ddisp_tensor_release(view);
    ddisp_tensor_release(base);
}

static void case_14_views_at_offsets_that_cannot_be_bound(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = make(f, float_params, twice_offset_spv, sizeof twice_offset_spv, 3);
    twice_of(f, kernel, 4, 4); /* byte 16 */
    twice_of(f, kernel, 1, 4); /* byte 4 */
    twice_of(f, kernel, 0, 8);
    twice_of(f, kernel, 7, 1);
    ddisp_kernel_release(kernel);
}

static void case_14_a_half_view_at_byte_2(void **state)
{
    native_fixture *f = native_of(state);
    const int64_t eight = 8, four = 4, stride = 1;
    uint16_t values[8] = {0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00};
    ddisp_tensor *base = NULL, *view = NULL;
    ddisp_kernel *kernel = make(f, half_params, twice_half_spv, sizeof twice_half_spv, 3);
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F16, 1, &eight, 0, &base));
    NATIVE_OK(ddisp_tensor_write(base, values, sizeof values, NULL));
    NATIVE_OK(ddisp_tensor_as_strided(base, 1, &four, &stride, 1, &view));
    ddisp_status status = run(kernel, view);
    if (status == DDISP_STATUS_UNSUPPORTED || status == DDISP_STATUS_NO_CODE) {
        NATIVE_FAILS(status, status, "StorageBuffer16BitAccess");
    } else {
        NATIVE_OK(status);
        NATIVE_OK(ddisp_tensor_read(base, values, sizeof values, NULL));
        for (int i = 0; i < 8; i++)
            assert_int_equal(values[i], i >= 1 && i < 5 ? 0x4000 : 0x3C00);
    }
    ddisp_tensor_release(view);
    ddisp_tensor_release(base);
    ddisp_kernel_release(kernel);
}

static void without_an_offset_a_view_is_refused_with_both_numbers(void **state)
{
    native_fixture *f = native_of(state);
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t four = 4, stride = 1;
    ddisp_kernel *kernel = make(f, float_params, twice_spv, sizeof twice_spv, 2);
    ddisp_tensor *base = native_vector(f, 8, 0, ones), *view = NULL;
    twice_of(f, kernel, 0, 8);
    NATIVE_OK(ddisp_tensor_as_strided(base, 1, &four, &stride, 1, &view));
    ddisp_status status = run(kernel, view);
    if (status == DDISP_STATUS_OK) { /* storage buffers can begin anywhere */
        NATIVE_OK(status);
    } else {
        NATIVE_FAILS(status, DDISP_STATUS_LAYOUT_MISMATCH, "parameter 0", "4 bytes", "multiple of",
                     "DDISP_SOURCE_OFFSET");
        native_values(base, ones, 8);
    }
    ddisp_tensor_release(view);
    ddisp_tensor_release(base);
    ddisp_kernel_release(kernel);
}

/** Bytes that a shader may see in a storage buffer, as a refused launch tells; 0: no tensor is too
 * large for it. */
static uint64_t find_limit(const native_fixture *f, ddisp_kernel *kernel)
{
    uint64_t most = f->info.max_allocation_bytes < f->info.memory_bytes / 4
                        ? f->info.max_allocation_bytes
                        : f->info.memory_bytes / 4;
    for (uint64_t bytes = UINT64_C(1) << 27; bytes + 4 <= most && bytes <= UINT64_C(1) << 32;
         bytes *= 2) {
        char message[1024] = "";
        uint64_t limit = 0;
        const int64_t n = (int64_t)(bytes / 4) + 1;
        ddisp_tensor *tensor = NULL;
        NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 1, &n, 0, &tensor));
        ddisp_status status = run(kernel, tensor);
        (void)ddisp_last_error(message, sizeof message, NULL);
        ddisp_tensor_release(tensor);
        if (status == DDISP_STATUS_OK)
            continue;
        NATIVE_FAILS(status, DDISP_STATUS_LIMIT_EXCEEDED, "parameter 0", "maxStorageBufferRange");
        const char *number = strstr(message, "shows at most ");
        assert_non_null(number);
        limit = strtoull(number + strlen("shows at most "), NULL, 10);
        return limit;
    }
    return 0;
}

static void case_22_a_tensor_beyond_the_range_of_a_storage_buffer(void **state)
{
    native_fixture *f = native_of(state);
    ddisp_kernel *kernel = make(f, float_params, twice_offset_spv, sizeof twice_offset_spv, 3);
    uint64_t limit = find_limit(f, kernel);
    if (limit == 0) {
        ddisp_kernel_release(kernel);
        print_message("# skipped: every tensor that fits the memory fits a storage buffer\n");
        skip();
    }
    const int64_t over = (int64_t)(limit / 4) + 1, parent = (int64_t)((limit + 4096) / 4);
    const int64_t count = 256, stride = 1;
    char numbers[2][32];
    float ones[256], twos[256];
    ddisp_tensor *large = NULL, *view = NULL;
    for (int i = 0; i < 256; i++)
        ones[i] = 1, twos[i] = 2;
    (void)snprintf(numbers[0], sizeof numbers[0], "%" PRIu64 " bytes", (uint64_t)over * 4);
    (void)snprintf(numbers[1], sizeof numbers[1], "at most %" PRIu64, limit);
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 1, &over, 0, &large));
    NATIVE_FAILS(run(kernel, large), DDISP_STATUS_LIMIT_EXCEEDED, numbers[0], numbers[1]);
    ddisp_tensor_release(large);
    /* A small view of a large tensor is not too large. */
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 1, &parent, 0, &large));
    NATIVE_OK(ddisp_tensor_as_strided(large, 1, &count, &stride, parent - count, &view));
    NATIVE_OK(ddisp_tensor_write(view, ones, sizeof ones, NULL));
    NATIVE_OK(run(kernel, view));
    native_values(view, twos, count);
    ddisp_tensor_release(view);
    ddisp_tensor_release(large);
    ddisp_kernel_release(kernel);
}

const struct CMUnitTest native_limit_tests[] = {
    cmocka_unit_test(case_14_views_at_offsets_that_cannot_be_bound),
    cmocka_unit_test(case_14_a_half_view_at_byte_2),
    cmocka_unit_test(without_an_offset_a_view_is_refused_with_both_numbers),
    cmocka_unit_test(case_22_a_tensor_beyond_the_range_of_a_storage_buffer),
};
const size_t native_limit_test_count = sizeof native_limit_tests / sizeof native_limit_tests[0];
