/*
 * test_signatures.c - what tells two launches apart and what they share: mixtures of requires_grad
 * have different signatures in backward and the same in forward; variants are built once for each
 * code that differs, and shared by everything else.
 */
#include "cts.h"

struct four {
    ddisp_kernel *kernel;
    ddisp_report *report;
    ddisp_tensor *a[2], *b[2], *y, *g; /* by requires_grad */
};

static struct four make_four(cts *t, const cts_source *source)
{
    struct four f = {.kernel = cts_kernel(t, source), .report = cts_report(t)};
    for (uint64_t grad = 0; grad < 2; grad++) {
        f.a[grad] = CTS_VECTOR(t, grad * CTS_GRAD, 1, 2, 3, 4);
        f.b[grad] = CTS_VECTOR(t, grad * CTS_GRAD, 5, 6, 7, 8);
    }
    f.y = cts_vector(t, 4, CTS_GRAD, NULL);
    f.g = CTS_VECTOR(t, 0, 1, 1, 1, 1);
    return f;
}

static ddisp_report_info launch(struct four *f, ddisp_mode mode, int mixture, ddisp_policy policy)
{
    ddisp_launch_options options = cts_options(policy, 0, f->report);
    if (mode == DDISP_MODE_BACKWARD)
        CTS_OK(ddisp_tensor_set_grad(f->y, f->g));
    CTS_OK(cts_launch(f->kernel, mode, CTS_TENSORS(f->a[mixture & 1], f->b[mixture >> 1], f->y),
                      &options));
    return cts_report_info(f->report);
}

static ddisp_kernel_statistics kernel_statistics(ddisp_kernel *kernel)
{
    ddisp_kernel_statistics statistics = DDISP_ZERO;
    statistics.size = (uint32_t)sizeof statistics;
    CTS_OK(ddisp_kernel_get_statistics(kernel, &statistics));
    return statistics;
}

static void four_mixtures_have_four_signatures_and_forward_one(cts *t)
{
    struct four f = make_four(t, &cts_mul);
    ddisp_report_info forward[4], backward[4];
    for (int mixture = 0; mixture < 4; mixture++) {
        forward[mixture] = launch(&f, DDISP_MODE_FORWARD, mixture, DDISP_POLICY_AUTO);
        backward[mixture] = launch(&f, DDISP_MODE_BACKWARD, mixture, DDISP_POLICY_AUTO);
        assert_memory_equal(forward[mixture].signature, forward[0].signature, 16);
        assert_memory_not_equal(forward[0].signature, backward[mixture].signature, 16);
        for (int other = 0; other < mixture; other++)
            assert_memory_not_equal(backward[mixture].signature, backward[other].signature, 16);
    }
    ddisp_report_info again = launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO);
    assert_memory_equal(again.signature, backward[1].signature, 16);
}

static void signature_depends_on_the_request_alone(cts *t)
{
    struct four f = make_four(t, &cts_mul);
    ddisp_report_info first = launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO);
    struct four other = make_four(t, &cts_mul); /* another kernel object, other addresses */
    assert_memory_equal(launch(&other, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO).signature,
                        first.signature, 16);
    /* Extents are not part of it. */
    ddisp_tensor *a = CTS_VECTOR(t, CTS_GRAD, 1, 2), *b = CTS_VECTOR(t, 0, 1, 2);
    ddisp_tensor *y = cts_vector(t, 2, CTS_GRAD, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, f.report);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(f.kernel, &options, a, b, y));
    assert_memory_equal(cts_report_info(f.report).signature, first.signature, 16);
    /* The policy, the layout class and the rank are. */
    assert_memory_not_equal(launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_SCRATCH).signature,
                            first.signature, 16);
    int64_t n = 2, stride = 3, square[2] = {1, 2};
    b = cts_tensor(t, DDISP_DTYPE_F32, 1, &n, &stride, 0, (const float[]){1, 2});
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(f.kernel, &options, a, b, y));
    assert_memory_not_equal(cts_report_info(f.report).signature, first.signature, 16);
    b = cts_tensor(t, DDISP_DTYPE_F32, 2, square, NULL, 0, (const float[]){1, 2});
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    CTS_OK(CTS_BACKWARD(f.kernel, &options, a, b, y));
    assert_memory_not_equal(cts_report_info(f.report).signature, first.signature, 16);
}

static void other_code_has_another_signature(cts *t)
{
    struct four mul = make_four(t, &cts_mul), linear = make_four(t, &cts_linear);
    assert_memory_not_equal(launch(&mul, DDISP_MODE_FORWARD, 0, 0).signature,
                            launch(&linear, DDISP_MODE_FORWARD, 0, 0).signature, 16);
}

static void signature_bytes_are_whole_or_not_at_all(cts *t)
{
    struct four f = make_four(t, &cts_mul);
    uint8_t bytes[2048], again[2048];
    uint64_t length = 0, length_again = 0;
    launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO);
    CTS_OK(ddisp_report_get_signature(f.report, bytes, sizeof bytes, &length));
    assert_true(length > 16 && length <= sizeof bytes);
    memset(again, CTS_CANARY, sizeof again);
    CTS_FAILS(ddisp_report_get_signature(f.report, again, length - 1, &length_again),
              DDISP_STATUS_BUFFER_TOO_SMALL, "");
    assert_int_equal(length_again, length);
    for (uint64_t i = 0; i < length; i++)
        assert_int_equal(again[i], CTS_CANARY);
    launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO);
    CTS_OK(ddisp_report_get_signature(f.report, again, sizeof again, &length_again));
    assert_int_equal(length_again, length);
    assert_memory_equal(again, bytes, length);
}

static void variants_are_shared_when_the_code_is_the_same(cts *t)
{
    struct four f = make_four(t, &cts_mul_opaque);
    for (int round = 0; round < 2; round++)
        for (int mixture = 0; mixture < 4; mixture++) {
            launch(&f, DDISP_MODE_FORWARD, mixture, DDISP_POLICY_SCRATCH);
            launch(&f, DDISP_MODE_BACKWARD, mixture, DDISP_POLICY_SCRATCH);
        }
    ddisp_kernel_statistics statistics = kernel_statistics(f.kernel);
    assert_int_equal(statistics.variants_built, 2); /* forward and backward */
    assert_int_equal(statistics.variants, 2);
    assert_int_equal(statistics.hash_collisions, 0);
    assert_true(statistics.signatures >= 4); /* forward, and three mixtures that launch */
    assert_true(statistics.signature_hits >= 4);
}

static void one_variant_for_each_mask(cts *t)
{
    struct four f = make_four(t, &cts_mul);
    uint64_t before = cts_statistics(t).variants_built;
    ddisp_report_info both = launch(&f, DDISP_MODE_BACKWARD, 3, DDISP_POLICY_AUTO);
    assert_int_equal(both.variant, DDISP_VARIANT_ORIGIN_BUILT);
    assert_int_equal(both.mask & 3, 3);
    /* null addresses and scratch need no code of their own */
    assert_int_equal(launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_GUARD).variant,
                     DDISP_VARIANT_ORIGIN_HIT);
    assert_int_equal(launch(&f, DDISP_MODE_BACKWARD, 2, DDISP_POLICY_SCRATCH).variant,
                     DDISP_VARIANT_ORIGIN_HIT);
    assert_int_equal(kernel_statistics(f.kernel).variants_built, 1);
    ddisp_report_info a = launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_SPECIALIZE);
    assert_int_equal(a.variant, DDISP_VARIANT_ORIGIN_BUILT);
    assert_int_equal(a.mask & 3, 1);
    ddisp_report_info b = launch(&f, DDISP_MODE_BACKWARD, 2, DDISP_POLICY_AUTO);
    assert_int_equal(b.variant, DDISP_VARIANT_ORIGIN_BUILT);
    assert_int_equal(b.mask & 3, 2);
    assert_int_equal(launch(&f, DDISP_MODE_BACKWARD, 2, DDISP_POLICY_AUTO).variant,
                     DDISP_VARIANT_ORIGIN_HIT);
    assert_int_equal(kernel_statistics(f.kernel).variants_built, 3);
    assert_int_equal(cts_statistics(t).variants_built, before + 3);
}

/* Past the budget AUTO takes what needs no new code, and says so. */
static void budget_bounds_the_variants(cts *t)
{
    ddisp_kernel *kernel = NULL;
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "mul";
    desc.variant_budget = 2;
    desc.params = cts_mul.params;
    desc.param_count = cts_mul.param_count;
    desc.param_size = (uint32_t)sizeof *cts_mul.params;
    desc.codes = cts_mul.codes;
    desc.code_count = cts_mul.code_count;
    desc.code_size = (uint32_t)sizeof *cts_mul.codes;
    CTS_OK(ddisp_kernel_create(t->context, &desc, &kernel));
    struct four f = make_four(t, &cts_mul_opaque);
    f.kernel = kernel;
    launch(&f, DDISP_MODE_BACKWARD, 3, DDISP_POLICY_AUTO);
    launch(&f, DDISP_MODE_BACKWARD, 1, DDISP_POLICY_AUTO);
    launch(&f, DDISP_MODE_BACKWARD, 2, DDISP_POLICY_AUTO);
    ddisp_backing backing = cts_slot(f.report, 0, true).backing;
    uint64_t built = kernel_statistics(kernel).variants_built;
    ddisp_kernel_release(kernel);
    assert_int_equal(backing, DDISP_BACKING_NULL);
    assert_int_equal(built, 2);
    CTS_GRADIENT(f.b[1], 2, 4, 6, 8); /* b took part in two of the three launches */
}

/*
 * Case 1: a first call without gradients must not poison later ones. All orders of the four
 * mixtures give the same numbers, and a frozen input never gets a gradient.
 */
static void run_order(cts *t, const int *order)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    for (int i = 0; i < 4; i++) {
        uint64_t a_flags = order[i] & 1 ? CTS_GRAD : 0, b_flags = order[i] & 2 ? CTS_GRAD : 0;
        ddisp_tensor *a = CTS_VECTOR(t, a_flags, 1, 2, 3, 4);
        ddisp_tensor *b = CTS_VECTOR(t, b_flags, 5, 6, 7, 8);
        ddisp_tensor *y = cts_vector(t, 4, CTS_GRAD, NULL);
        CTS_FORWARD(kernel, a, b, y);
        CTS_VALUES(y, 7, 10, 13, 16);
        CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1, 1, 1)));
        uint64_t live = cts_statistics(t).gradient_bytes_live;
        CTS_OK(CTS_BACKWARD(kernel, NULL, a, b, y));
        uint64_t made = (a_flags ? 16u : 0u) + (b_flags ? 16u : 0u);
        assert_int_equal(cts_statistics(t).gradient_bytes_live, live + made);
        if (a_flags)
            CTS_GRADIENT(a, 2, 2, 2, 2);
        else
            CTS_NO_GRADIENT(a);
        if (b_flags)
            CTS_GRADIENT(b, 1, 1, 1, 1);
        else
            CTS_NO_GRADIENT(b);
    }
}

static void case_01_order_of_mixtures(cts *t)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {0, 3, 1, 2}, {1, 0, 3, 2}, {2, 1, 0, 3},
                                    {3, 0, 2, 1}, {3, 2, 1, 0}, {1, 2, 3, 0}, {2, 3, 0, 1}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        run_order(t, orders[i]);
}

const cts_test cts_signature_tests[] = {
    CTS_TEST(four_mixtures_have_four_signatures_and_forward_one),
    CTS_TEST(signature_depends_on_the_request_alone),
    CTS_TEST(other_code_has_another_signature),
    CTS_TEST(signature_bytes_are_whole_or_not_at_all),
    CTS_TEST(variants_are_shared_when_the_code_is_the_same),
    CTS_TEST(one_variant_for_each_mask),
    CTS_TEST(budget_bounds_the_variants),
    CTS_TEST(case_01_order_of_mixtures),
    CTS_END,
};
