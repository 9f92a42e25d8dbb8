/*
 * test_deterministic.c - deterministic mode in users' kernels: gradients are exact where numbers
 * are, within the documented error where they are not, and the same bits whatever the order and
 * geometry; sums go into gradients of any kind.
 */
#include "problem.h"

#include <math.h>

static void gradient_values(ddisp_tensor *tensor, double *values, size_t count)
{
    ddisp_tensor *gradient = NULL;
    CTS_OK(ddisp_tensor_grad(tensor, &gradient));
    cts_read(gradient, values, count);
    ddisp_tensor_release(gradient);
}

/* ---- numbers */

static void integers_are_exact(cts *t)
{
    NEEDS_INTEGERS(t);
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = cts_kernel(t, &cts_bins[type][1]);
        problem p = problem_make(t, type, 1000, 7, 0);
        double expected[8] = {0}, got[7], all = 0;
        uint64_t state = 7;
        for (int64_t i = 0; i < p.items; i++) {
            p.index[i] = (int32_t)cts_random(&state, 7);
            p.values[i] = (double)cts_random(&state, 201) - 100;
            expected[p.index[i]] += p.values[i];
            all += p.values[i];
        }
        problem_load(&p);
        ddisp_launch_options options = problem_options(0, NULL, NULL);
        CTS_OK(problem_run(&p, kernel, &options));
        gradient_values(p.x, got, 7);
        for (int i = 0; i < 7; i++)
            CTS_CHECK(got[i] == expected[i], "type %d, bin %d: %g instead of %g", type, i, got[i],
                      expected[i]);
        CTS_GRADIENT(p.s, all);
        problem_drop(&p);
    }
}

static void ones_do_not_stall_in_halves(cts *t)
{
    NEEDS_INTEGERS(t);
    for (int type = F16; type <= BF16; type++) {
        ddisp_kernel *kernel = cts_kernel(t, &cts_bins[type][1]);
        problem p = problem_make(t, type, 4096, 1, DDISP_TENSOR_GRAD_SAME_DTYPE);
        for (int64_t i = 0; i < p.items; i++)
            p.values[i] = 1;
        problem_load(&p);
        ddisp_launch_options options = problem_options(0, NULL, NULL);
        CTS_OK(problem_run(&p, kernel, &options));
        CTS_GRADIENT(p.x, 4096);
        CTS_GRADIENT(p.s, 4096);
        ddisp_tensor *gradient = NULL;
        CTS_OK(ddisp_tensor_grad(p.x, &gradient));
        assert_int_equal(cts_tensor_info(gradient).dtype, problem_dtypes[type]);
        ddisp_tensor_release(gradient);
        problem_drop(&p);
    }
}

/* Random magnitudes over many binades. */
static void randomize(problem *p, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < p->items; i++) {
        p->index[i] = (int32_t)cts_random(&state, (uint32_t)p->bins);
        double mantissa = 1 + (double)cts_random(&state, 1u << 30) / (1u << 30);
        double value = ldexp(mantissa, (int)cts_random(&state, 20) - 12);
        p->values[i] = p->type == F64 ? value : (double)(float)value;
        if (cts_random(&state, 2))
            p->values[i] = -p->values[i];
    }
}

/* What docs/kernels.md says: half a step per add, and the rounding of the sum. */
static void sums_are_within_the_bound(cts *t)
{
    NEEDS_INTEGERS(t);
    for (int type = F32; type <= F64; type++) {
        enum { ITEMS = 5000, BINS = 13 };
        ddisp_kernel *kernel = cts_kernel(t, &cts_bins[type][0]);
        problem p = problem_make(t, type, ITEMS, BINS, 0);
        long double expected[BINS] = {0};
        double got[BINS];
        randomize(&p, 11);
        for (int64_t i = 0; i < ITEMS; i++)
            expected[p.index[i]] += (long double)p.values[i];
        problem_load(&p);
        ddisp_launch_options options = problem_options(0, NULL, NULL);
        CTS_OK(problem_run(&p, kernel, &options));
        gradient_values(p.x, got, BINS);
        int steps = 62 - 13 - 8 + (type == F64 ? 30 : 0); /* 5000 values below 2^8 */
        for (int i = 0; i < BINS; i++) {
            double error = fabs((double)((long double)got[i] - expected[i]));
            double most = ITEMS * ldexp(1, -steps - 1) +
                          fabs(got[i]) * (type == F64 ? 0x1p-53 : 0x1p-24) * 1.01;
            CTS_CHECK(error <= most, "type %d, bin %d: off by %g, at most %g are allowed", type, i,
                      error, most);
        }
        problem_drop(&p);
    }
}

/* ---- order and geometry */

static void shuffle(problem *p, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = p->items - 1; i > 0; i--) {
        int64_t k = (int64_t)cts_random(&state, (uint32_t)i + 1);
        int32_t index = p->index[i];
        double value = p->values[i];
        p->index[i] = p->index[k];
        p->values[i] = p->values[k];
        p->index[k] = index;
        p->values[k] = value;
    }
}

static void one_bit_pattern(cts *t, int type, uint64_t flags, bool declared)
{
    enum { ITEMS = 3001, BINS = 5 };
    double first[BINS + 1], got[BINS + 1];
    ddisp_bound bound = problem_bound(256, 0);
    problem p = problem_make(t, type, ITEMS, BINS, flags);
    ddisp_kernel *kernels[3]; /* groups of 64, 256 and 1000 */
    for (int i = 0; i < 3; i++)
        kernels[i] = cts_kernel(t, &cts_bins[type][i]);
    randomize(&p, 5);
    for (uint64_t round = 0; round < (uint64_t)cts_rounds(9); round++) {
        ddisp_launch_options options =
            problem_options(DDISP_LAUNCH_OVERWRITE, NULL, declared ? &bound : NULL);
        if (round)
            shuffle(&p, round);
        problem_load(&p);
        CTS_OK(problem_run(&p, kernels[round % 3], &options));
        gradient_values(p.x, got, BINS);
        gradient_values(p.s, got + BINS, 1);
        if (!round)
            memcpy(first, got, sizeof first);
        CTS_CHECK(memcmp(first, got, sizeof got) == 0, "type %d, round %d: other bits", type,
                  (int)round);
    }
    problem_drop(&p);
}

static void order_and_group_size_do_not_matter(cts *t)
{
    NEEDS_INTEGERS(t);
    one_bit_pattern(t, F32, 0, false);
    one_bit_pattern(t, F32, 0, true);
    one_bit_pattern(t, F64, 0, false);
    one_bit_pattern(t, F64, 0, true);
    one_bit_pattern(t, F16, 0, false);
    one_bit_pattern(t, BF16, DDISP_TENSOR_GRAD_SAME_DTYPE, false);
}

/* ---- gradients that are there */

static void sums_go_into_what_is_there(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_launch_options options = problem_options(0, NULL, NULL);
    ddisp_launch_options overwrite = problem_options(DDISP_LAUNCH_OVERWRITE, NULL, NULL);
    const int64_t shape = 3, strides = -2, one = 1;
    const double old[3] = {10, 20, 30};
    problem p = problem_spoilt(t, 5);
    ddisp_tensor *given = cts_numbers(t, DDISP_DTYPE_F32, 1, &shape, &strides, old);
    ddisp_tensor *half = cts_numbers(t, DDISP_DTYPE_F16, 1, &one, NULL, old);
    p.index[0] = 2;
    problem_load(&p);
    CTS_OK(ddisp_tensor_set_grad(p.x, given));
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_VALUES(given, 113, 20, 31);
    CTS_OK(ddisp_tensor_set_grad(p.y, problem_upstream(&p)));
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_VALUES(given, 216, 20, 32);
    CTS_GRADIENT(p.s, 208);
    CTS_OK(ddisp_tensor_set_grad(p.y, problem_upstream(&p)));
    CTS_OK(problem_run(&p, kernel, &overwrite));
    CTS_VALUES(given, 103, 0, 1);
    CTS_GRADIENT(p.s, 104);
    CTS_OK(ddisp_tensor_set_grad(p.s, half));
    CTS_OK(ddisp_tensor_set_grad(p.y, problem_upstream(&p)));
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_VALUES(half, 114);
    problem_drop(&p);
}

static void repeated_elements_are_one(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = problem_options(0, report, NULL);
    const int64_t shape[2] = {2, 3}, strides[2] = {1, 0};
    problem p = problem_spoilt(t, 1);
    p.x = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, strides, CTS_GRAD, NULL);
    for (int64_t i = 0; i < p.items; i++)
        p.index[i] = (int32_t)(i % 4); /* 0 to 2 are the first, 3 is the second */
    problem_load(&p);
    CTS_OK(problem_run(&p, kernel, &options));
    CTS_GRADIENT(p.x, 75, 75, 75, 25, 25, 25);
    assert_int_equal(cts_slot(report, X, true).bytes, 2 * 8);
    problem_drop(&p);
}

static void one_tensor_twice_has_both_sums(cts *t)
{
    NEEDS_INTEGERS(t);
    ddisp_kernel *kernel = cts_kernel(t, &cts_bins[F32][1]);
    for (int i = 0; i < 2; i++) {
        ddisp_launch_options options = problem_options(i ? DDISP_LAUNCH_OVERWRITE : 0, NULL, NULL);
        problem p = problem_spoilt(t, 1);
        p.s = p.x;
        CTS_OK(problem_run(&p, kernel, &options));
        CTS_GRADIENT(p.x, 200, 0, 0);
        problem_drop(&p);
    }
}

const cts_test cts_deterministic_tests[] = {
    CTS_TEST(integers_are_exact),
    CTS_TEST(ones_do_not_stall_in_halves),
    CTS_TEST(sums_are_within_the_bound),
    CTS_TEST(order_and_group_size_do_not_matter),
    CTS_TEST(sums_go_into_what_is_there),
    CTS_TEST(repeated_elements_are_one),
    CTS_TEST(one_tensor_twice_has_both_sums),
    CTS_END,
};
