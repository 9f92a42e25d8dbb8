/*
 * test_cuda_accumulate.c - fill, copy and accumulate of the CUDA backend, with its own kernels run
 * by the processor (tests/fakes/cuda/emulate): against sums taken here, one element after the
 * other, in double. Values are small integers, so that every sum is exact whatever its order, and
 * whole buffers are compared, so that what lies between and beside elements is too.
 */
#include "cuda_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what is right */

static void check_accumulate(array *to, const array *from, double alpha, uint32_t operation,
                             const char *what)
{
    unsigned char *expected = image(to);
    for (int64_t n = 0; n < numel(&to->tensor); n++) {
        double value = alpha * get(from->tensor.dtype, element(&from->tensor, n));
        unsigned char *at = in_image(to, expected, n);
        if (operation == DDISP_BACKEND_ACCUMULATE_ADD) {
            value += get(to->tensor.dtype, at);
        }
        put(to->tensor.dtype, at, value);
    }
    ddisp_status status =
        table->accumulate(device, stream, &to->tensor, &from->tensor, alpha, operation, below(4));
    if (status != DDISP_STATUS_OK) {
        fail_msg("%s: %s", what, sample_message);
    }
    same(to, expected, what);
    free(expected);
}

static void accumulate_case(ddisp_dtype to_type, ddisp_dtype from_type, uint32_t rank,
                            const int64_t *shape, const int64_t *to_strides,
                            const int64_t *from_strides, double alpha, uint32_t operation, int most)
{
    char what[300];
    array to = make(to_type, rank, shape, to_strides);
    array from = make(from_type, rank, shape, from_strides);
    fill_small(&to, most);
    fill_small(&from, most);
    int length = snprintf(what, sizeof what, "%s, dtypes %u and %u, alpha %g",
                          operation == DDISP_BACKEND_ACCUMULATE_ADD ? "add" : "store", to_type,
                          from_type, alpha);
    for (uint32_t i = 0; i < rank; i++) {
        length +=
            snprintf(what + length, sizeof what - (size_t)length, "; %lld: %lld %lld",
                     (long long)shape[i], (long long)to_strides[i], (long long)from_strides[i]);
    }
    check_accumulate(&to, &from, alpha, operation, what);
    drop(&to);
    drop(&from);
}

static const double alphas[] = {1, -2, 0.5};

static void every_pair_of_dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            for (int64_t n = 1; n < 3000; n = n * 7 + 1) {
                for (int a = 0; a < 3; a++) {
                    int64_t one = 1;
                    accumulate_case(floats[i], floats[k], 1, &n, &one, &one, alphas[a], 0, 8);
                    accumulate_case(floats[i], floats[k], 1, &n, &one, &one, alphas[a], 1, 8);
                }
            }
        }
    }
}

static void any_layout(void **state)
{
    (void)state;
    for (int round = 0; round < 250; round++) {
        int64_t shape[8], to[8], from[8];
        uint32_t rank = 1 + below(round % 10 ? 4 : 8);
        any_shape(rank, rank > 4 ? 3 : 9, shape);
        if (below(4) == 0) {
            shape[below(rank)] = 128 + below(300); /* a long line */
        }
        any_strides(rank, shape, 0, to);
        any_strides(rank, shape, below(3) ? 0 : below(256), from);
        accumulate_case(floats[below(4)], floats[below(4)], rank, shape, to, from, alphas[below(3)],
                        below(2), 8);
    }
}

static void sums_over_any_axes(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t shape[8], to[8], from[8];
        uint32_t rank = 1 + below(round % 10 ? 4 : 8);
        any_shape(rank, rank > 4 ? 3 : 9, shape);
        if (below(3) == 0) {
            shape[below(rank)] = 128 + below(2000);
        }
        any_strides(rank, shape, below(256) | 1u << below(rank), to);
        any_strides(rank, shape, below(3) ? 0 : below(256), from);
        /* half-precision cells cannot hold long sums exactly */
        ddisp_dtype type =
            floats[numel(&(ddisp_backend_tensor){
                       .rank = rank, .shape = {shape[0], shape[1], shape[2], shape[3]}}) < 60
                       ? below(4)
                       : 2 + below(2)];
        accumulate_case(type, floats[below(4)], rank, shape, to, from, alphas[below(3)], 0, 2);
    }
}

static void long_sums_are_cut_into_chunks(void **state)
{
    static const int64_t shapes[][2] = {{1, 70001}, {3, 40000}, {70001, 1}, {30000, 3},
                                        {9000, 33}, {2, 16385}, {300, 257}, {257, 300}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int axis = 0; axis < 3; axis++) {
            int64_t to[2], from[2];
            dense(2, shapes[i], from);
            to[0] = axis == 0 ? 0 : 1;
            to[1] = axis == 1 ? 0 : axis == 0 ? 1 : 0;
            to[0] = axis == 2 ? 0 : to[0];
            accumulate_case(DDISP_DTYPE_F32, DDISP_DTYPE_F32, 2, shapes[i], to, from, 1, 0, 8);
            accumulate_case(DDISP_DTYPE_F64, DDISP_DTYPE_F16, 2, shapes[i], to, from, -2, 0, 8);
        }
    }
}

static void bits_are_copied_for_every_size(void **state)
{
    static const ddisp_dtype types[] = {DDISP_DTYPE_U8, DDISP_DTYPE_F16, DDISP_DTYPE_I32,
                                        DDISP_DTYPE_I64, DDISP_DTYPE_BF16};
    (void)state;
    for (int round = 0; round < 120; round++) {
        int64_t shape[8], strides[2][8];
        uint32_t rank = 1 + below(4);
        ddisp_dtype type = types[below(5)];
        any_shape(rank, 9, shape);
        shape[rank - 1] = below(4) ? shape[rank - 1] : 128 + below(500);
        for (int k = 0; k < 2; k++) {
            if (below(3)) {
                any_strides(rank, shape, 0, strides[k]);
            } else {
                dense(rank, shape, strides[k]);
            }
        }
        array to = make(type, rank, shape, strides[0]), from = make(type, rank, shape, strides[1]);
        for (int64_t n = 0; n < numel(&from.tensor); n++) { /* any bits, NaNs among them */
            uint64_t bits = (uint64_t)below(1u << 31) << 33 ^ below(1u << 31);
            memcpy(element(&from.tensor, n), &bits, (size_t)size_of(type));
        }
        unsigned char *expected = image(&to);
        for (int64_t n = 0; n < numel(&from.tensor); n++) {
            memcpy(in_image(&to, expected, n), element(&from.tensor, n), (size_t)size_of(type));
        }
        assert_int_equal(table->accumulate(device, stream, &to.tensor, &from.tensor, 1,
                                           DDISP_BACKEND_ACCUMULATE_STORE, 0),
                         DDISP_STATUS_OK);
        same(&to, expected, "copy");
        free(expected);

        uint64_t bits = UINT64_C(0x0123456789ABCDEF) * (below(1000) + 1);
        expected = image(&to);
        for (int64_t n = 0; n < numel(&to.tensor); n++) {
            memcpy(in_image(&to, expected, n), &bits, (size_t)size_of(type));
        }
        assert_int_equal(table->fill_elements(device, stream, &to.tensor, bits), DDISP_STATUS_OK);
        same(&to, expected, "fill");
        free(expected);
        drop(&to);
        drop(&from);
    }
}

static void half_precision_is_rounded_once(void **state)
{
    int64_t n = 4, one = 1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        /* 1 + 1.5 ulp and 1 + 0.75 ulp; rounding the addend first would give another result */
        double ulp = ldexp(1, floats[i] == DDISP_DTYPE_F16 ? -10 : -7);
        array to = make(floats[i], 1, &n, &one), from = make(DDISP_DTYPE_F64, 1, &n, &one);
        for (int64_t k = 0; k < n; k++) {
            put(floats[i], element(&to.tensor, k), 1);
            put(DDISP_DTYPE_F64, element(&from.tensor, k), k % 2 ? 1.4999 * ulp : 0.5001 * ulp);
        }
        check_accumulate(&to, &from, 1, DDISP_BACKEND_ACCUMULATE_ADD, "rounding");
        drop(&to);
        drop(&from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARRAYS_CASE(every_pair_of_dtypes),
        ARRAYS_CASE(any_layout),
        ARRAYS_CASE(sums_over_any_axes),
        ARRAYS_CASE(long_sums_are_cut_into_chunks),
        ARRAYS_CASE(bits_are_copied_for_every_size),
        ARRAYS_CASE(half_precision_is_rounded_once),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
