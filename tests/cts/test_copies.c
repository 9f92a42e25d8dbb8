/*
 * test_copies.c - fill and copy on tensors: every dtype and layout, roundings, and nothing written
 * between elements, also by accumulate; and sizes that do not fit 16 or 32 bits. Also cases 16, 20
 * and 21.
 */
#include "cts.h"

#include <math.h>

static const ddisp_dtype floats[] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32,
                                     DDISP_DTYPE_F64};

#define NEEDS_ACCUMULATION(t)                                                                      \
    do {                                                                                           \
        if (!cts_accumulates(t))                                                                   \
            CTS_SKIP(t, "the device does not accumulate");                                         \
    } while (0)

/* ---- bytes */

/* A buffer of canaries with a view of it. */
static ddisp_tensor *view_of(cts *t, ddisp_dtype dtype, int64_t elements, uint32_t rank,
                             const int64_t *shape, const int64_t *strides, int64_t offset,
                             ddisp_tensor **out_all)
{
    ddisp_tensor *view = NULL;
    int64_t bytes = elements * ddisp_dtype_size(dtype);
    ddisp_tensor *all = cts_tensor(t, DDISP_DTYPE_U8, 1, &bytes, NULL, 0, NULL);
    ddisp_tensor_info info = cts_tensor_info(all);
    ddisp_buffer *buffer = NULL;
    CTS_OK(ddisp_buffer_wrap(t->device, info.address, (uint64_t)bytes, NULL, NULL, &buffer));
    ddisp_status status =
        ddisp_tensor_create_over(buffer, dtype, rank, shape, strides, offset, 0, &view);
    ddisp_buffer_release(buffer);
    CTS_OK(status);
    *out_all = all;
    return cts_own(t, view);
}

/* Every byte is an element's, as expected, or still a canary. */
static void only_elements(ddisp_tensor *all, uint32_t size, const int64_t *at, int count,
                          const void *expected)
{
    unsigned char bytes[512], wanted[512];
    uint64_t length = (uint64_t)cts_tensor_info(all).numel;
    assert_true(length <= sizeof bytes);
    CTS_OK(ddisp_tensor_read(all, bytes, length, NULL));
    memset(wanted, CTS_CANARY, sizeof wanted);
    for (int i = 0; i < count; i++)
        memcpy(wanted + at[i] * size, (const char *)expected + i * (int)size, size);
    for (uint64_t i = 0; i < length; i++)
        CTS_CHECK(bytes[i] == wanted[i], "byte %llu is %02x instead of %02x", (unsigned long long)i,
                  bytes[i], wanted[i]);
}

static void fill_stays_between_the_gaps(cts *t)
{
    static const int64_t shape[2] = {2, 3}, strides[2] = {9, -2}, at[6] = {5, 3, 1, 14, 12, 10};
    static const ddisp_dtype types[] = {DDISP_DTYPE_U8,  DDISP_DTYPE_BF16, DDISP_DTYPE_F16,
                                        DDISP_DTYPE_I32, DDISP_DTYPE_F32,  DDISP_DTYPE_F64};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        ddisp_tensor *all = NULL, *view = view_of(t, types[i], 16, 2, shape, strides, 5, &all);
        const int64_t small[1] = {6};
        ddisp_tensor *like =
            cts_numbers(t, types[i], 1, small, NULL, (const double[]){3, 3, 3, 3, 3, 3});
        unsigned char expected[48];
        CTS_OK(ddisp_tensor_read(like, expected, 6 * ddisp_dtype_size(types[i]), NULL));
        CTS_OK(ddisp_tensor_fill(view, 3, NULL));
        only_elements(all, ddisp_dtype_size(types[i]), at, 6, expected);
    }
}

static void accumulate_stays_between_the_gaps(cts *t)
{
    static const int64_t shape[2] = {2, 3}, strides[2] = {9, -2}, at[6] = {5, 3, 1, 14, 12, 10};
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 4; i++) {
        ddisp_tensor *all = NULL, *view = view_of(t, floats[i], 16, 2, shape, strides, 5, &all);
        const int64_t small[1] = {6};
        ddisp_tensor *source =
            cts_numbers(t, floats[i], 2, shape, NULL, (const double[]){1, 2, 3, 4, 5, 6});
        ddisp_tensor *like =
            cts_numbers(t, floats[i], 1, small, NULL, (const double[]){2, 4, 6, 8, 10, 12});
        unsigned char expected[48];
        CTS_OK(ddisp_tensor_read(like, expected, 6 * ddisp_dtype_size(floats[i]), NULL));
        CTS_OK(ddisp_tensor_copy(view, source, NULL));
        CTS_OK(ddisp_tensor_accumulate(view, source, 1, NULL, NULL));
        only_elements(all, ddisp_dtype_size(floats[i]), at, 6, expected);
    }
}

static void case_16_small_fills_and_copies(cts *t)
{
    static const int64_t counts[] = {1, 2, 3, 5, 7, 9, 63};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int64_t offset = 0; offset < 4; offset++) {
            unsigned char data[64], back[64];
            int64_t n = counts[i], step = 1;
            ddisp_tensor *all = NULL;
            ddisp_tensor *to = view_of(t, DDISP_DTYPE_U8, 80, 1, &n, &step, offset, &all);
            for (int64_t k = 0; k < n; k++)
                data[k] = (unsigned char)(k * 3 + offset + 1);
            ddisp_tensor *from = cts_tensor(t, DDISP_DTYPE_U8, 1, &n, NULL, 0, data);
            CTS_OK(ddisp_tensor_fill(to, 200, NULL));
            CTS_OK(ddisp_tensor_read(to, back, (uint64_t)n, NULL));
            for (int64_t k = 0; k < n; k++)
                assert_int_equal(back[k], 200);
            ddisp_status status = ddisp_tensor_copy(to, from, NULL);
            if (status == DDISP_STATUS_UNSUPPORTED)
                CTS_SKIP(t, "the device does not copy tensors");
            CTS_OK(status);
            CTS_OK(ddisp_tensor_read(to, back, (uint64_t)n, NULL));
            assert_memory_equal(back, data, (size_t)n);
        }
}

static void copy_rounds_to_nearest_even(cts *t)
{
    static const double values[] = {
        1,     1 + 0x1p-11,   1 + 3 * 0x1p-11, 1 + 0x1p-8, -0.0,        0x1p-24,  0x1.8p-25,
        65519, 65520,         1e-40,           -1.0 / 3,   1 + 0x1p-24, INFINITY, -INFINITY,
        3e38,  0x1.fffffep127};
    enum { N = sizeof values / sizeof values[0] };
    int64_t n = N;
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            double back[N];
            ddisp_tensor *from = cts_numbers(t, floats[i], 1, &n, NULL, values);
            ddisp_tensor *to = cts_tensor(t, floats[k], 1, &n, NULL, 0, NULL);
            CTS_OK(ddisp_tensor_copy(to, from, NULL));
            cts_read(to, back, N);
            for (int v = 0; v < N; v++) {
                double expected = cts_rounded(floats[k], cts_rounded(floats[i], values[v]));
                CTS_CHECK(back[v] == expected && !signbit(back[v]) == !signbit(expected),
                          "%s to %s: %a becomes %a instead of %a", ddisp_dtype_name(floats[i]),
                          ddisp_dtype_name(floats[k]), values[v], back[v], expected);
            }
        }
}

static void copy_follows_any_layout(cts *t)
{
    enum { MOST = 9 * 9 * 9 * 200 };
    static double from_values[MOST];
    static const ddisp_dtype types[] = {DDISP_DTYPE_U8, DDISP_DTYPE_I32, DDISP_DTYPE_F32,
                                        DDISP_DTYPE_F64, DDISP_DTYPE_F16};
    uint64_t state = 7;
    NEEDS_ACCUMULATION(t);
    for (int round = 0; round < 60; round++) {
        int64_t shape[8], strides[2][8];
        uint32_t rank = 1 + cts_random(&state, 4);
        ddisp_dtype type = types[round % 5];
        for (uint32_t i = 0; i < rank; i++)
            shape[i] = 1 + cts_random(&state, 9);
        shape[rank - 1] = round % 4 ? shape[rank - 1] : 200;
        cts_random_strides(&state, rank, shape, strides[0]);
        cts_random_strides(&state, rank, shape, strides[1]);
        int64_t n = 1;
        for (uint32_t i = 0; i < rank; i++)
            n *= shape[i];
        assert_true(n <= MOST);
        for (int64_t i = 0; i < n; i++)
            from_values[i] = cts_random(&state, 200);
        ddisp_tensor *from = cts_numbers(t, type, rank, shape, strides[0], from_values);
        ddisp_tensor *to = cts_tensor(t, type, rank, shape, strides[1], 0, NULL);
        CTS_OK(ddisp_tensor_copy(to, from, NULL));
        cts_values(to, from_values, (size_t)n, "copy", __FILE__, __LINE__);
    }
}

/* ---- sizes */

static void case_20_more_rows_than_a_limit(cts *t)
{
    static const int64_t rows[] = {65535, 65536, 70000};
    NEEDS_ACCUMULATION(t);
    for (int i = 0; i < 3; i++) {
        int64_t shape[2] = {rows[i], 4}, strides[2] = {5, 1}, last[1] = {4};
        float values[4] = {0};
        ddisp_tensor *to = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, strides, 0, NULL);
        ddisp_tensor *row =
            cts_numbers(t, DDISP_DTYPE_F32, 1, last, NULL, (const double[]){1, 2, 3, 4});
        ddisp_tensor *end = NULL;
        CTS_OK(ddisp_tensor_fill(to, 10, NULL));
        CTS_OK(ddisp_tensor_accumulate(to, row, 2, NULL, NULL));
        CTS_OK(
            ddisp_tensor_as_strided(to, 1, last, NULL, cts_offset(to) + (rows[i] - 1) * 5, &end));
        CTS_OK(ddisp_tensor_read(cts_own(t, end), values, sizeof values, NULL));
        for (int k = 0; k < 4; k++)
            assert_true(values[k] == (float)(12 + 2 * k));
    }
}

/* And a little more. */
#define TWO_GIB ((UINT64_C(1) << 31) + 4096)

/* Elements lie further apart than 32 bits count. Only a few bytes are touched. */
static void case_21_strides_beyond_32_bits(cts *t)
{
    const uint64_t size_bytes = TWO_GIB;
    int64_t shape[2] = {2, 8}, strides[2] = {INT64_C(1) << 29, 1}, eight[1] = {8};
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *far = NULL;
    float values[16];
    NEEDS_ACCUMULATION(t);
    CTS_OK(ddisp_buffer_create(t->device, size_bytes, &buffer));
    ddisp_status status =
        ddisp_tensor_create_over(buffer, DDISP_DTYPE_F32, 2, shape, strides, 3, 0, &far);
    ddisp_buffer_release(buffer);
    CTS_OK(status);
    ddisp_tensor *row =
        cts_numbers(t, DDISP_DTYPE_F32, 1, eight, NULL, (const double[]){1, 2, 3, 4, 5, 6, 7, 8});
    status = ddisp_tensor_fill(far, 100, NULL);
    if (!status)
        status = ddisp_tensor_accumulate(far, row, 1, NULL, NULL);
    for (int i = 0; i < 2 && !status; i++) {
        ddisp_tensor *line = NULL;
        status = ddisp_tensor_as_strided(far, 1, eight, NULL, 3 + i * strides[0], &line);
        if (!status)
            status = ddisp_tensor_read(line, values + 8 * i, 32, NULL);
        ddisp_tensor_release(line);
    }
    ddisp_tensor_release(far);
    CTS_OK(status);
    for (int i = 0; i < 16; i++)
        assert_true(values[i] == (float)(101 + i % 8));
}

/* More than 2^31 elements: their number does not fit in 32 bits with a sign. */
static void case_21_elements_beyond_32_bits(cts *t)
{
    const int64_t n = (INT64_C(1) << 31) + 512, step = 4097;
    const int64_t places[] = {0, 1, step * (n / step), n - 1};
    int64_t few = n / step + 1, apart = step, one = 1;
    ddisp_tensor *all = NULL, *some = NULL, *element = NULL;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_U8, 1, &n, 0, &all));
    ddisp_status status = ddisp_tensor_fill(all, 7, NULL);
    if (!status)
        status = ddisp_tensor_as_strided(all, 1, &few, &apart, 0, &some);
    if (!status)
        status = ddisp_tensor_fill(some, 9, NULL);
    for (int i = 0; i < 4 && !status; i++) {
        unsigned char value = 0;
        status = ddisp_tensor_as_strided(all, 1, &one, &one, places[i], &element);
        if (!status)
            status = ddisp_tensor_read(element, &value, 1, NULL);
        ddisp_tensor_release(element);
        element = NULL;
        if (!status && value != (places[i] % step ? 7 : 9))
            status = DDISP_STATUS_INTERNAL;
    }
    ddisp_tensor_release(some);
    ddisp_tensor_release(all);
    CTS_CHECK(status != DDISP_STATUS_INTERNAL, "an element is wrong");
    CTS_OK(status);
}

const cts_test cts_copy_tests[] = {
    CTS_TEST(fill_stays_between_the_gaps),
    CTS_TEST(accumulate_stays_between_the_gaps),
    CTS_TEST(case_16_small_fills_and_copies),
    CTS_TEST(copy_rounds_to_nearest_even),
    CTS_TEST(copy_follows_any_layout),
    CTS_TEST(case_20_more_rows_than_a_limit),
    CTS_TEST_NEEDS(NULL, TWO_GIB, case_21_strides_beyond_32_bits),
    CTS_TEST_NEEDS(NULL, TWO_GIB, case_21_elements_beyond_32_bits),
    CTS_END,
};
