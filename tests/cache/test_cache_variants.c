/*
 * test_cache_variants.c - variants in memory: none is built more than the code calls for, the
 * budget holds, and what a policy asks for is what it gets whatever was asked for before.
 */
#include "compiler_fixture.h"

static int fresh(void **state)
{
    control_reset();
    *state = setting_open(NULL);
    return 0;
}

static int gone(void **state)
{
    setting_close(*state, true);
    assert_int_equal(control()->variants, 0); /* none was left loaded */
    return 0;
}

/* ---- mixtures */

struct trio {
    ddisp_tensor *a[2], *b[2], *y, *g; /* by requires_grad */
};

static struct trio make_trio(struct setting *s)
{
    struct trio t;
    for (uint64_t grad = 0; grad < 2; grad++) {
        t.a[grad] = VECTOR(s, grad * DDISP_TENSOR_REQUIRES_GRAD, 1, 2, 3, 4);
        t.b[grad] = VECTOR(s, grad * DDISP_TENSOR_REQUIRES_GRAD, 5, 6, 7, 8);
    }
    t.y = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 0, 0, 0, 0);
    t.g = VECTOR(s, 0, 1, 1, 1, 1);
    return t;
}

static void drop_trio(struct trio *t)
{
    for (int grad = 0; grad < 2; grad++) {
        ddisp_tensor_release(t->a[grad]);
        ddisp_tensor_release(t->b[grad]);
    }
    ddisp_tensor_release(t->y);
    ddisp_tensor_release(t->g);
}

static ddisp_signature signature_of(ddisp_kernel *kernel, ddisp_mode mode, struct trio *t,
                                    int mixture)
{
    ddisp_signature signature = {.size = (uint32_t)sizeof signature};
    const ddisp_arg args[3] = {DDISP_ARG(t->a[mixture & 1]), DDISP_ARG(t->b[mixture >> 1]),
                               DDISP_ARG(t->y)};
    if (mode == DDISP_MODE_BACKWARD)
        assert_ok(ddisp_tensor_set_grad(t->y, t->g));
    assert_ok(ddisp_launch_signature(kernel, mode, args, 3, NULL, NULL, &signature));
    return signature;
}

/* All four have one, also the mixture that is skipped; forward has one for all. */
static void case_01_mixtures_have_four_signatures_in_backward_and_one_in_forward(void **state)
{
    struct trio t = make_trio(*state);
    ddisp_kernel *kernel = kernel_make(*state, &(struct recipe){.source = NULL});
    ddisp_signature forward[4], backward[4];
    for (int i = 0; i < 4; i++) {
        forward[i] = signature_of(kernel, DDISP_MODE_FORWARD, &t, i);
        backward[i] = signature_of(kernel, DDISP_MODE_BACKWARD, &t, i);
        assert_memory_equal(forward[i].hash, forward[0].hash, 16);
        assert_memory_not_equal(backward[i].hash, forward[0].hash, 16);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(backward[i].hash, backward[k].hash, 16);
    }
    assert_int_equal(control()->compiles, 0);
    ddisp_kernel_release(kernel);
    drop_trio(&t);
}

static ddisp_device_statistics device_statistics(struct setting *s)
{
    ddisp_device_statistics statistics = {.size = (uint32_t)sizeof statistics};
    assert_ok(ddisp_device_get_statistics(s->device, &statistics));
    return statistics;
}

/* f = 2a + b. One mixture; a frozen input gets no gradient. */
static void backward_of_mixture(struct setting *s, ddisp_kernel *kernel, int mixture)
{
    uint64_t a_flags = mixture & 1 ? DDISP_TENSOR_REQUIRES_GRAD : 0;
    uint64_t b_flags = mixture & 2 ? DDISP_TENSOR_REQUIRES_GRAD : 0;
    ddisp_tensor *a = VECTOR(s, a_flags, 1, 2, 3, 4), *b = VECTOR(s, b_flags, 5, 6, 7, 8);
    ddisp_tensor *y = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 0, 0, 0, 0), *ga = NULL, *gb = NULL;
    ddisp_tensor *g = VECTOR(s, 0, 1, 1, 1, 1);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    EXPECT(y, 7, 10, 13, 16);
    assert_ok(ddisp_tensor_set_grad(y, g));
    uint64_t before = device_statistics(s).gradient_bytes_live;
    assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    uint64_t made = device_statistics(s).gradient_bytes_live - before;
    assert_int_equal(made, (a_flags ? 16 : 0) + (b_flags ? 16 : 0));
    assert_int_equal(ddisp_tensor_grad(a, &ga),
                     a_flags ? DDISP_STATUS_OK : DDISP_STATUS_NO_GRADIENT);
    assert_int_equal(ddisp_tensor_grad(b, &gb),
                     b_flags ? DDISP_STATUS_OK : DDISP_STATUS_NO_GRADIENT);
    if (ga)
        EXPECT(ga, 2, 2, 2, 2);
    if (gb)
        EXPECT(gb, 1, 1, 1, 1);
    ddisp_tensor_release(ga);
    ddisp_tensor_release(gb);
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
}

/* All orders of n things, one after the other; false after the last. */
static bool next_order(int *order, int n)
{
    int i = n - 2, k = n - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return false;
    while (order[k] < order[i])
        k--;
    int other = order[i];
    order[i] = order[k];
    order[k] = other;
    for (int low = i + 1, high = n - 1; low < high; low++, high--) {
        other = order[low];
        order[low] = order[high];
        order[high] = other;
    }
    return true;
}

static void case_01_no_order_of_mixtures_poisons_a_later_one(void **state)
{
    struct setting *s = *state;
    int order[4] = {0, 1, 2, 3}, orders = 0;
    const struct recipe recipe = {
        .source = "entry forward: $0 2 * $1 + >2\nentry backward: @2 2 * >>0 @2 >>1\n"};
    do {
        ddisp_kernel *kernel = kernel_make(s, &recipe);
        for (int i = 0; i < 4; i++)
            backward_of_mixture(s, kernel, order[i]);
        ddisp_kernel_statistics statistics = kernel_statistics(kernel);
        assert_int_equal(statistics.variants_built, 4); /* forward, {a}, {b}, {a, b} */
        assert_int_equal(statistics.signatures, 4);
        assert_int_equal(statistics.hash_collisions, 0);
        ddisp_kernel_release(kernel);
        orders++;
    } while (next_order(order, 4));
    assert_int_equal(orders, 24);
    assert_int_equal(control()->compiles, 4); /* the kernel cache had the rest */
}

/* ---- policies */

struct wish {
    ddisp_policy policy;
    ddisp_backing backing;
};

static const struct wish wishes[5] = {{DDISP_POLICY_SPECIALIZE, DDISP_BACKING_OMITTED},
                                      {DDISP_POLICY_GUARD, DDISP_BACKING_NULL},
                                      {DDISP_POLICY_SINK, DDISP_BACKING_SINK},
                                      {DDISP_POLICY_SCRATCH, DDISP_BACKING_SCRATCH},
                                      {DDISP_POLICY_REJECT, DDISP_BACKING_NONE}};

static ddisp_report_slot slot_of(ddisp_report *report, uint32_t index)
{
    ddisp_report_slot slot = {.size = (uint32_t)sizeof slot};
    assert_ok(ddisp_report_get_slot(report, index, &slot));
    return slot;
}

/* Backward of y = a b with b frozen under one policy. */
static void launch_wish(ddisp_kernel *kernel, struct trio *t, ddisp_report *report,
                        const struct wish *wish)
{
    const ddisp_arg args[3] = {DDISP_ARG(t->a[1]), DDISP_ARG(t->b[0]), DDISP_ARG(t->y)};
    ddisp_launch_options options = {.size = (uint32_t)sizeof options};
    ddisp_tensor *grad = NULL;
    options.policy = wish->policy;
    options.report = report;
    options.flags = DDISP_LAUNCH_OVERWRITE;
    assert_ok(ddisp_tensor_set_grad(t->y, t->g));
    ddisp_status status = ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL);
    if (wish->policy == DDISP_POLICY_REJECT) {
        assert_int_equal(status, DDISP_STATUS_GRADIENT_REJECTED);
        return;
    }
    assert_ok(status);
    assert_int_equal(slot_of(report, 0).backing, DDISP_BACKING_REAL);
    assert_int_equal(slot_of(report, 1).backing, wish->backing);
    assert_ok(ddisp_tensor_grad(t->a[1], &grad));
    EXPECT(grad, 5, 6, 7, 8);
    ddisp_tensor_release(grad);
}

static void five_policies_in_all_orders_get_what_they_ask_for(void **state)
{
    struct setting *s = *state;
    struct trio t = make_trio(s);
    ddisp_report *report;
    int order[5] = {0, 1, 2, 3, 4}, orders = 0;
    assert_ok(ddisp_report_create(s->context, &report));
    do {
        ddisp_kernel *kernel = kernel_make(s, &(struct recipe){.flags = DDISP_CODE_NULL_SAFE});
        for (int i = 0; i < 5; i++)
            launch_wish(kernel, &t, report, &wishes[order[i]]);
        for (int i = 0; i < 5; i++) /* and again, now that all are known */
            launch_wish(kernel, &t, report, &wishes[order[4 - i]]);
        ddisp_kernel_statistics statistics = kernel_statistics(kernel);
        assert_int_equal(statistics.variants_built, 2); /* with b's gradient and without */
        assert_int_equal(statistics.signatures, 4);     /* one for each policy that launches */
        assert_int_equal(statistics.signature_hits, 4);
        ddisp_kernel_release(kernel);
        orders++;
    } while (next_order(order, 5));
    assert_int_equal(orders, 120);
    ddisp_report_release(report);
    drop_trio(&t);
}

/* ---- budget */

#define INPUTS 5

/* y = sum of five inputs; bit i of mask: input i requires a gradient. */
static ddisp_status launch_mask(struct setting *s, ddisp_kernel *kernel, uint32_t mask,
                                ddisp_policy policy, ddisp_report *report)
{
    ddisp_tensor *x[INPUTS + 1];
    ddisp_arg args[INPUTS + 1];
    ddisp_launch_options options = {.size = (uint32_t)sizeof options};
    ddisp_tensor *g = VECTOR(s, 0, 1);
    options.policy = policy;
    options.report = report;
    for (uint32_t i = 0; i <= INPUTS; i++) {
        bool grad = i == INPUTS || (mask >> i & 1);
        x[i] = VECTOR(s, grad ? DDISP_TENSOR_REQUIRES_GRAD : 0, 1);
        args[i] = (ddisp_arg)DDISP_ARG(x[i]);
    }
    assert_ok(ddisp_tensor_set_grad(x[INPUTS], g));
    ddisp_status status =
        ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, INPUTS + 1, &options, NULL);
    for (uint32_t i = 0; i < INPUTS && !status; i++) {
        ddisp_tensor *grad = NULL;
        if (ddisp_tensor_grad(x[i], &grad) == DDISP_STATUS_OK)
            EXPECT(grad, (float)(i + 1));
        assert_int_equal(grad != NULL, mask >> i & 1);
        ddisp_tensor_release(grad);
    }
    for (uint32_t i = 0; i <= INPUTS; i++)
        ddisp_tensor_release(x[i]);
    ddisp_tensor_release(g);
    return status;
}

static ddisp_kernel *sum_kernel(struct setting *s, uint32_t budget, uint64_t flags,
                                ddisp_write_mode write_mode)
{
    static const char *const names[INPUTS + 1] = {"a", "b", "c", "d", "e", "y"};
    ddisp_param params[INPUTS + 1];
    ddisp_code_param code_params[INPUTS];
    memset(code_params, 0, sizeof code_params);
    for (uint32_t i = 0; i <= INPUTS; i++) {
        params[i] =
            (ddisp_param)DDISP_PARAM(names[i], i < INPUTS ? DDISP_ACCESS_IN : DDISP_ACCESS_OUT,
                                     DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE);
        if (i < INPUTS) {
            code_params[i].param = i;
            code_params[i].write_mode = write_mode;
        }
    }
    return kernel_make(s, &(struct recipe){.source = "entry forward: $0 $1 + $2 + $3 + $4 + >5\n"
                                                     "entry backward: @5 >>0 @5 2 * >>1 @5 3 * >>2 "
                                                     "@5 4 * >>3 @5 5 * >>4\n",
                                           .params = params,
                                           .param_count = INPUTS + 1,
                                           .code_params = code_params,
                                           .code_param_count = INPUTS,
                                           .variant_budget = budget,
                                           .flags = flags});
}

/* Past the budget AUTO takes the next that code and device support, and says why. */
static void budget_bounds_what_auto_builds(void **state)
{
    static const struct {
        uint64_t flags;
        ddisp_write_mode write_mode;
        ddisp_backing backing;
    } ways[3] = {{DDISP_CODE_NULL_SAFE, DDISP_WRITE_MODE_ATOMIC_ADD, DDISP_BACKING_NULL},
                 {0, DDISP_WRITE_MODE_ATOMIC_ADD, DDISP_BACKING_SINK},
                 {0, DDISP_WRITE_MODE_READS_BACK, DDISP_BACKING_SCRATCH}};
    struct setting *s = *state;
    ddisp_report *report;
    assert_ok(ddisp_report_create(s->context, &report));
    for (int way = 0; way < 3; way++)
        for (uint32_t budget = 1; budget <= 5; budget++) {
            ddisp_kernel *kernel = sum_kernel(s, budget, ways[way].flags, ways[way].write_mode);
            uint32_t omitted = 0, replaced = 0;
            for (uint32_t mask = 1; mask < 1u << INPUTS; mask++) {
                assert_ok(launch_mask(s, kernel, mask, DDISP_POLICY_AUTO, report));
                for (uint32_t i = 0; i < INPUTS; i++) {
                    ddisp_report_slot slot = slot_of(report, i);
                    omitted += slot.backing == DDISP_BACKING_OMITTED;
                    if (slot.backing == DDISP_BACKING_OMITTED || slot.backing == DDISP_BACKING_REAL)
                        continue;
                    replaced++;
                    assert_int_equal(slot.backing, ways[way].backing);
                    assert_string_equal(slot.reason, "the kernel's variant budget is used up");
                }
            }
            assert_int_equal(kernel_statistics(kernel).variants_built, budget);
            assert_true(replaced > 0 && (omitted > 0 || budget == 1));
            ddisp_kernel_release(kernel);
        }
    ddisp_report_release(report);
}

static void default_budget_is_32_of_each_mode(void **state)
{
    struct setting *s = *state;
    ddisp_kernel *kernel = sum_kernel(s, 0, 0, DDISP_WRITE_MODE_ATOMIC_ADD);
    for (uint32_t mask = 1; mask < 1u << INPUTS; mask++)
        assert_ok(launch_mask(s, kernel, mask, DDISP_POLICY_AUTO, NULL));
    assert_int_equal(kernel_statistics(kernel).variants_built, 31);
    ddisp_kernel_release(kernel);
}

/* What was asked for by name is not replaced. */
static void specialize_past_the_budget_is_refused(void **state)
{
    struct setting *s = *state;
    ddisp_kernel *kernel = sum_kernel(s, 2, 0, DDISP_WRITE_MODE_ATOMIC_ADD);
    assert_ok(launch_mask(s, kernel, 1, DDISP_POLICY_SPECIALIZE, NULL));
    assert_ok(launch_mask(s, kernel, 2, DDISP_POLICY_SPECIALIZE, NULL));
    assert_fails(DDISP_STATUS_UNSUPPORTED, "budget of 2 is used up",
                 launch_mask(s, kernel, 4, DDISP_POLICY_SPECIALIZE, NULL));
    assert_error_says("policy specialize for 'a'");
    assert_ok(launch_mask(s, kernel, 1, DDISP_POLICY_SPECIALIZE, NULL)); /* it is there */
    assert_ok(launch_mask(s, kernel, 31, DDISP_POLICY_AUTO, NULL));      /* it must be there */
    ddisp_kernel_release(kernel);
}

/* ---- devices */

/* A device that is closed and opened again is another one, though it may lie where the first lay.
 */
static void plans_of_a_closed_device_are_not_found_by_the_next(void **state)
{
    struct setting *s = *state;
    ddisp_signature first = {.size = (uint32_t)sizeof first}, second = first;
    ddisp_kernel *kernel = kernel_make(s, &(struct recipe){.source = NULL});
    for (int i = 0; i < 2; i++) {
        ddisp_tensor *x = VECTOR(s, 0, 1), *y = VECTOR(s, 0, 0);
        const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
        assert_ok(ddisp_launch_signature(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL,
                                         i ? &second : &first));
        ddisp_tensor_release(x);
        ddisp_tensor_release(y);
        ddisp_device_release(s->device);
        (void)snprintf(control()->architecture, sizeof control()->architecture, "rpn_2");
        assert_ok(ddisp_device_open(s->context, "compiler", &s->device));
    }
    assert_memory_not_equal(first.hash, second.hash, 16);
    ddisp_kernel_release(kernel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_01_mixtures_have_four_signatures_in_backward_and_one_in_forward),
        TEST(case_01_no_order_of_mixtures_poisons_a_later_one),
        TEST(five_policies_in_all_orders_get_what_they_ask_for),
        TEST(budget_bounds_what_auto_builds),
        TEST(default_budget_is_32_of_each_mode),
        TEST(specialize_past_the_budget_is_refused),
        TEST(plans_of_a_closed_device_are_not_found_by_the_next),
    };
    return cmocka_run_group_tests_name("cache_variants", tests, NULL, NULL);
}
