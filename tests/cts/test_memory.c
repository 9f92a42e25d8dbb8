/*
 * test_memory.c - bytes: copies of odd sizes at odd offsets, tensors of every layout written and
 * read back, memory wrapped and given back once, launches that may not allocate, and dry runs.
 */
#include "cts.h"

#include <stdlib.h>

static void no_alloc_is_an_error_for_a_missing_gradient(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, CTS_GRAD, 3, 4);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_NO_ALLOC, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(ddisp_tensor_set_grad(a, CTS_VECTOR(t, 0, 0, 0)));
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, a, b, y), DDISP_STATUS_MISSING_GRADIENT, "mul",
                "'b'");
    CTS_OK(ddisp_tensor_set_grad(b, CTS_VECTOR(t, 0, 0, 0)));
    uint64_t allocations = cts_statistics(t).allocations;
    CTS_OK(CTS_BACKWARD(kernel, &options, a, b, y));
    CTS_GRADIENT(a, 3, 4);
    CTS_GRADIENT(b, 1, 2);
    assert_int_equal(cts_statistics(t).allocations, allocations);
}

static void dry_run_changes_nothing(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul_opaque);
    ddisp_report *report = cts_report(t);
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, 0, 3, 4);
    ddisp_tensor *y = CTS_VECTOR(t, CTS_GRAD, 5, 6);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SCRATCH, DDISP_LAUNCH_DRY_RUN, report);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    cts_note(t);
    CTS_OK(CTS_BACKWARD(kernel, &options, a, b, y));
    CTS_UNCHANGED(t);
    ddisp_report_info info = cts_report_info(report);
    assert_int_equal(info.skip, DDISP_SKIP_DRY_RUN);
    assert_int_equal(info.launched, 0);
    assert_int_equal(info.items, 2);
    assert_int_equal(cts_slot(report, 0, true).backing, DDISP_BACKING_REAL);
    assert_int_equal(cts_slot(report, 1, true).backing, DDISP_BACKING_SCRATCH);
    assert_int_equal(cts_slot(report, 2, false).backing, DDISP_BACKING_REAL);

    cts_note(t);
    CTS_OK(cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(a, b, y), &options));
    CTS_UNCHANGED(t);
    CTS_VALUES(y, 5, 6);

    options.policy = DDISP_POLICY_REJECT; /* a dry run refuses what a launch would refuse */
    CTS_REFUSED(t, CTS_BACKWARD(kernel, &options, a, b, y), DDISP_STATUS_GRADIENT_REJECTED, "'b'");

    options = cts_options(DDISP_POLICY_SCRATCH, 0, report); /* and the real one still works */
    CTS_OK(CTS_BACKWARD(kernel, &options, a, b, y));
    CTS_GRADIENT(a, 3, 4);
}

/* Also on Vulkan, where a small unaligned copy once hung for ever. */
static void case_16_small_unaligned_copies(cts *t)
{
    static const uint64_t sizes[] = {1, 2, 3, 5, 7, 9, 63};
    static const uint64_t offsets[] = {0, 1, 3, 17};
    enum { BYTES = 128 };
    ddisp_buffer *buffer = NULL;
    CTS_OK(ddisp_buffer_create(t->device, BYTES, &buffer));
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t o = 0; o < sizeof offsets / sizeof offsets[0]; o++) {
            unsigned char all[BYTES], part[64], back[64];
            memset(all, CTS_CANARY, sizeof all);
            for (uint64_t i = 0; i < sizes[s]; i++)
                part[i] = (unsigned char)(i * 7 + s + 1);
            CTS_OK(ddisp_buffer_write(buffer, 0, all, BYTES, NULL));
            CTS_OK(ddisp_buffer_write(buffer, offsets[o], part, sizes[s], NULL));
            CTS_OK(ddisp_buffer_read(buffer, offsets[o], back, sizes[s], NULL));
            assert_memory_equal(part, back, sizes[s]);
            memcpy(all + offsets[o], part, sizes[s]);
            unsigned char whole[BYTES];
            CTS_OK(ddisp_buffer_read(buffer, 0, whole, BYTES, NULL));
            assert_memory_equal(whole, all, BYTES);
        }
    ddisp_buffer_release(buffer);
}

static void write_and_read_follow_strides(cts *t)
{
    int64_t shape[2] = {2, 3}, columns[2] = {1, 2}, gaps[2] = {8, 2}, backwards[2] = {-3, -1};
    const int64_t *layouts[] = {NULL, columns, gaps, backwards};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 4; i++) {
        ddisp_tensor *x =
            cts_tensor(t, DDISP_DTYPE_F32, 2, shape, layouts[i], 0, (const float[6]){0});
        CTS_VALUES(x, 0, 0, 0, 0, 0, 0);
        CTS_OK(ddisp_tensor_write(x, data, sizeof data, NULL));
        CTS_VALUES(x, 1, 2, 3, 4, 5, 6);
    }
}

/* The gaps between strided elements are not the tensor's. */
static void write_leaves_gaps_alone(cts *t)
{
    int64_t shape[1] = {4}, stride[1] = {3};
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *x = NULL;
    float all[12], data[4] = {1, 2, 3, 4};
    for (int i = 0; i < 12; i++)
        all[i] = -1;
    CTS_OK(ddisp_buffer_create(t->device, sizeof all, &buffer));
    ddisp_status status = ddisp_buffer_write(buffer, 0, all, sizeof all, NULL);
    if (!status)
        status = ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 1, shape, stride, 1, 0, &x);
    if (!status)
        status = ddisp_tensor_write(x, data, sizeof data, NULL);
    if (!status)
        status = ddisp_buffer_read(buffer, 0, all, sizeof all, NULL);
    ddisp_tensor_release(x);
    ddisp_buffer_release(buffer);
    CTS_OK(status);
    for (int i = 0; i < 12; i++)
        assert_true(all[i] == (float)(i % 3 == 1 ? i / 3 + 1 : -1));
}

static void count_release(void *user_data)
{
    ++*(int *)user_data;
}

/* Memory of one tensor wrapped as foreign: its release function runs once, after completion. */
static void wrapped_memory_is_released_once(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *memory = CTS_VECTOR(t, 0, 1, 2, 3), *x = NULL;
    ddisp_tensor *y = cts_vector(t, 3, 0, NULL);
    ddisp_buffer *wrapped = NULL;
    int released = 0;
    int64_t n = 3;
    uint64_t live = cts_statistics(t).bytes_live;
    CTS_OK(
        ddisp_buffer_wrap(t->device, cts_address(memory), 12, count_release, &released, &wrapped));
    assert_int_equal(cts_statistics(t).bytes_live, live);
    assert_int_equal(ddisp_buffer_address(wrapped), cts_address(memory));
    assert_int_equal(ddisp_buffer_size(wrapped), 12);
    ddisp_status status =
        ddisp_tensor_create_over(wrapped, DDISP_DTYPE_F32, 1, &n, NULL, 0, CTS_GRAD, &x);
    ddisp_buffer_release(wrapped);
    CTS_OK(status);
    status = cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), NULL);
    int early = released;
    ddisp_tensor_release(x);
    CTS_OK(status);
    assert_int_equal(early, 0);
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_VALUES(y, 1, 4, 9);
    for (int i = 0; i < 3; i++) /* inside some later call */
        CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(released, 1);
}

static void failed_wrap_keeps_the_memory_with_the_caller(cts *t)
{
    int released = 0;
    ddisp_buffer *wrapped = NULL;
    CTS_REFUSED(t, ddisp_buffer_wrap(t->device, 0, 16, count_release, &released, &wrapped),
                DDISP_STATUS_INVALID_ARGUMENT, "address");
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    assert_int_equal(released, 0);
}

/* A launch keeps its memory until it is complete. */
static void release_right_after_launch_is_safe(cts *t)
{
    enum { N = 50000 };
    int64_t n = N;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    float *data = malloc(N * sizeof *data);
    double *values = malloc(N * sizeof *values);
    assert_true(data && values);
    for (int i = 0; i < N; i++)
        data[i] = 3;
    ddisp_tensor *y = cts_vector(t, n, 0, NULL);
    for (int round = 0; round < 10; round++) {
        ddisp_tensor *x = NULL, *other = NULL;
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &x));
        CTS_OK(ddisp_tensor_write(x, data, N * sizeof *data, NULL));
        CTS_FORWARD(kernel, x, y);
        ddisp_tensor_release(x);
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &other));
        CTS_OK(ddisp_tensor_write(other, values, N * sizeof *data, NULL));
        ddisp_tensor_release(other);
        cts_read(y, values, N);
        for (int i = 0; i < N; i++)
            assert_true(values[i] == 9);
    }
    free(data);
    free(values);
}

const cts_test cts_memory_tests[] = {
    CTS_TEST(no_alloc_is_an_error_for_a_missing_gradient),
    CTS_TEST(dry_run_changes_nothing),
    CTS_TEST(case_16_small_unaligned_copies),
    CTS_TEST(write_and_read_follow_strides),
    CTS_TEST(write_leaves_gaps_alone),
    CTS_TEST(wrapped_memory_is_released_once),
    CTS_TEST(failed_wrap_keeps_the_memory_with_the_caller),
    CTS_TEST(release_right_after_launch_is_safe),
    CTS_END,
};
