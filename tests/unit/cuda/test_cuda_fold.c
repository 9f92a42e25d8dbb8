/*
 * test_cuda_fold.c - the fold of the CUDA backend, which ends deterministic mode in users' kernels,
 * with its kernel run by the processor (tests/fakes/cuda/emulate): integers come out as the numbers
 * that they stand for, in every dtype and layout, and what no sum may reach is said.
 */
#include "cuda_fixture.h"
#include "emulate_cuda.h"

#include <math.h>
#include <stdbool.h>

enum { N = 300 };

typedef struct fold {
    ddisp_backend_memory memory, shadow, sticky;
    ddisp_backend_tensor to, from;
    ddisp_backend_range words;
} fold;

static fold make(ddisp_dtype dtype, uint64_t size, int64_t stride, bool wide)
{
    fold f = {.memory = fixture_allocate(N * size * 2),
              .shadow = fixture_allocate(N * (wide ? 16 : 8)),
              .sticky = fixture_allocate(32)};
    memset((void *)(uintptr_t)f.memory.address, 0, N * size * 2);
    memset((void *)(uintptr_t)f.sticky.address, 0, 32);
    uint64_t first = stride < 0 ? (uint64_t)(-stride * (N - 1)) * size : 0;
    f.to = (ddisp_backend_tensor){.range = fixture_range(&f.memory, 0, N * size * 2),
                                  .address = f.memory.address + first,
                                  .dtype = dtype,
                                  .rank = 1,
                                  .shape = {N, 1, 1, 1, 1, 1, 1, 1},
                                  .strides = {stride}};
    f.from = (ddisp_backend_tensor){.range = fixture_range(&f.shadow, 0, N * (wide ? 16 : 8)),
                                    .address = f.shadow.address,
                                    .dtype = DDISP_DTYPE_I64,
                                    .rank = 1,
                                    .shape = {N, 1, 1, 1, 1, 1, 1, 1},
                                    .strides = {1}};
    f.words = fixture_range(&f.sticky, 0, 32);
    return f;
}

static void drop(fold *f)
{
    fixture_free(&f->memory);
    fixture_free(&f->shadow);
    fixture_free(&f->sticky);
}

static int64_t *sums(const fold *f)
{
    return (int64_t *)(uintptr_t)f->shadow.address;
}

static uint32_t said(const fold *f)
{
    return *(const uint32_t *)(uintptr_t)f->sticky.address;
}

static void run(fold *f, double scale, uint32_t operation, bool wide)
{
    ddisp_status status = table->fold(device, stream, &f->to, &f->from, scale, operation,
                                      wide ? DDISP_BACKEND_FOLD_WIDE : 0, &f->words);
    if (status != DDISP_STATUS_OK)
        fail_msg("%s", sample_message);
}

static float single(const fold *f, int64_t i)
{
    return ((const float *)(uintptr_t)f->to.address)[i * f->to.strides[0]];
}

static void sums_are_added_or_stored(void **state)
{
    (void)state;
    for (int64_t stride = -2; stride <= 2; stride++) {
        if (stride == 0)
            continue;
        fold f = make(DDISP_DTYPE_F32, 4, stride, false);
        for (int i = 0; i < N; i++)
            sums(&f)[i] = (int64_t)(i - 100) * (INT64_C(1) << 40) + 1; /* rounded to 24 bits */
        run(&f, 0x1p41, DDISP_BACKEND_ACCUMULATE_STORE, false);
        run(&f, 0x1p41, DDISP_BACKEND_ACCUMULATE_ADD, false);
        for (int i = 0; i < N; i++)
            assert_true(single(&f, i) == 2 * (float)(ldexp(i - 100, -1) + 0x1p-41));
        assert_int_equal(said(&f), 0);
        drop(&f);
    }
}

static void pairs_carry(void **state)
{
    (void)state;
    fold f = make(DDISP_DTYPE_F64, 8, 1, true);
    for (int i = 0; i < N; i++) {
        sums(&f)[2 * i] = i - 7;
        sums(&f)[2 * i + 1] = (INT64_C(5) << 30) + (INT64_C(1) << 29); /* 5 and a half */
    }
    run(&f, 4, DDISP_BACKEND_ACCUMULATE_STORE, true);
    for (int i = 0; i < N; i++)
        assert_true(((const double *)(uintptr_t)f.to.address)[i] == (i - 7 + 5.5) / 4);
    assert_int_equal(said(&f), 0);
    drop(&f);
}

static void halves_keep_their_neighbours(void **state)
{
    (void)state;
    fold f = make(DDISP_DTYPE_F16, 2, 2, false);
    uint16_t *halves = (uint16_t *)(uintptr_t)f.memory.address;
    for (int i = 0; i < N; i++) {
        halves[2 * i + 1] = 0x1234;
        sums(&f)[i] = 4096; /* of a quarter: 1024 is 0x6400 */
    }
    run(&f, 4, DDISP_BACKEND_ACCUMULATE_ADD, false);
    for (int i = 0; i < N; i++) {
        assert_int_equal(halves[2 * i], 0x6400);
        assert_int_equal(halves[2 * i + 1], 0x1234);
    }
    drop(&f);
}

static void too_large_a_sum_is_said(void **state)
{
    (void)state;
    fold f = make(DDISP_DTYPE_F32, 4, 1, false);
    memset(sums(&f), 0, N * 8);
    sums(&f)[N - 1] = INT64_C(1) << 62;
    run(&f, 1, DDISP_BACKEND_ACCUMULATE_ADD, false);
    assert_int_equal(said(&f), 0);
    sums(&f)[N - 1]++;
    *(uint32_t *)(uintptr_t)f.sticky.address = 1; /* what was said before stays */
    run(&f, 1, DDISP_BACKEND_ACCUMULATE_ADD, false);
    assert_int_equal(said(&f), 5);
    drop(&f);
}

static int set_up(void **state)
{
    int result = fixture_open(state);
    fake_cuda_set_launcher(emulate_launch);
    return result;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sums_are_added_or_stored),
        CASE(pairs_carry),
        CASE(halves_keep_their_neighbours),
        CASE(too_large_a_sum_is_said),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
