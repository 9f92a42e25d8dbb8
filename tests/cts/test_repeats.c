/*
 * test_repeats.c - the same launch again and again, dynamic and prepared. What the library
 * remembers of it must not outlive what it was decided from: every change between two launches that
 * a caller can make is made here, and the next launch has to see it.
 */
#include "cts.h"

#include <pthread.h>

enum { AGAIN = 4 }; /* launches until everything that can be remembered is */

/* A launch that comes again: through a plan, or without. */
typedef struct way {
    ddisp_kernel *kernel;
    ddisp_mode mode;
    ddisp_arg args[3];
    uint32_t count;
    ddisp_launch_options options;
    ddisp_plan *plan; /* NULL: dynamic */
} way;

static way make_way(ddisp_kernel *kernel, ddisp_mode mode, ddisp_tensor *a, ddisp_tensor *b,
                    ddisp_tensor *y)
{
    uint64_t flags = mode == DDISP_MODE_BACKWARD ? DDISP_LAUNCH_KEEP_UPSTREAM : 0;
    return (way){.kernel = kernel,
                 .mode = mode,
                 .args = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)},
                 .count = 3,
                 .options = cts_options(0, flags, NULL)};
}

static void prepare(way *w)
{
    CTS_OK(ddisp_plan_create(w->kernel, w->mode, w->args, w->count, &w->options, NULL, &w->plan));
}

static ddisp_status go_on(way *w, ddisp_stream *stream)
{
    return w->plan ? ddisp_plan_launch(w->plan, w->args, w->count, stream)
                   : ddisp_launch(w->kernel, w->mode, w->args, w->count, &w->options, stream);
}

static ddisp_status go(way *w)
{
    return go_on(w, NULL);
}

static void again(way *w)
{
    for (int i = 0; i < AGAIN; i++)
        CTS_OK(go(w));
}

/* y = a b with gradients for both, and ones upstream. */
typedef struct product {
    ddisp_tensor *a, *b, *y;
    way way;
} product;

static product make_product(cts *t, ddisp_kernel *kernel, bool prepared)
{
    product p = {.a = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3),
                 .b = CTS_VECTOR(t, CTS_GRAD, 4, 5, 6),
                 .y = CTS_VECTOR(t, CTS_GRAD, 0, 0, 0)};
    CTS_OK(ddisp_tensor_set_grad(p.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    p.way = make_way(kernel, DDISP_MODE_BACKWARD, p.a, p.b, p.y);
    if (prepared)
        prepare(&p.way);
    again(&p.way);
    CTS_GRADIENT(p.a, 4 * AGAIN, 5 * AGAIN, 6 * AGAIN);
    return p;
}

static void cleared_and_set_gradients_are_seen(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    for (int prepared = 0; prepared < 2; prepared++) {
        product p = make_product(t, kernel, prepared != 0);
        CTS_OK(ddisp_tensor_clear_grad(p.a));
        CTS_STATE(p.a, DDISP_GRAD_STATE_EMPTY);
        CTS_OK(go(&p.way)); /* made anew */
        CTS_GRADIENT(p.a, 4, 5, 6);
        again(&p.way);
        CTS_OK(ddisp_tensor_set_grad(p.a, CTS_VECTOR(t, 0, 100, 200, 300)));
        CTS_OK(go(&p.way));
        CTS_GRADIENT(p.a, 104, 205, 306);
        again(&p.way);
        CTS_OK(ddisp_tensor_set_grad(p.y, CTS_VECTOR(t, 0, 2, 0, 1)));
        CTS_OK(ddisp_tensor_clear_grad(p.a));
        CTS_OK(go(&p.way)); /* another upstream */
        CTS_GRADIENT(p.a, 8, 0, 6);
        again(&p.way);
        CTS_OK(ddisp_tensor_clear_grad(p.y));
        CTS_REFUSED(t, go(&p.way), DDISP_STATUS_MISSING_GRADIENT, "'y'", "no upstream");
        CTS_OK(ddisp_tensor_set_grad(p.y, CTS_VECTOR(t, 0, 1, 1, 1)));
        CTS_OK(ddisp_tensor_set_grad(p.a, CTS_VECTOR(t, DDISP_TENSOR_READ_ONLY, 0, 0, 0)));
        CTS_REFUSED(t, go(&p.way), DDISP_STATUS_READ_ONLY, "'a'", "read-only");
        ddisp_plan_release(p.way.plan);
    }
}

static void gradients_that_come_to_overlap_are_refused(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    const int64_t three[1] = {3}, one[1] = {1};
    for (int prepared = 0; prepared < 2; prepared++) {
        product p = make_product(t, kernel, prepared != 0);
        ddisp_tensor *memory = CTS_VECTOR(t, 0, 0, 0, 0, 0), *first, *second;
        int64_t offset = cts_offset(memory);
        CTS_OK(ddisp_tensor_as_strided(memory, 1, three, one, offset, &first));
        CTS_OK(ddisp_tensor_as_strided(memory, 1, three, one, offset + 1, &second));
        (void)cts_own(t, first);
        (void)cts_own(t, second);
        CTS_OK(ddisp_tensor_set_grad(p.a, first));
        again(&p.way);
        CTS_OK(ddisp_tensor_set_grad(p.b, second));
        for (int i = 0; i < 2; i++)
            CTS_REFUSED(t, go(&p.way), DDISP_STATUS_ALIASED, "'a'", "'b'", "overlaps");
        ddisp_plan_release(p.way.plan);
    }
}

static void requires_grad_is_seen(cts *t)
{
    product p = make_product(t, cts_kernel(t, &cts_mul), false);
    CTS_OK(ddisp_tensor_set_requires_grad(p.a, 0));
    again(&p.way);
    CTS_NO_GRADIENT(p.a);
    CTS_GRADIENT(p.b, 2 * AGAIN, 4 * AGAIN, 6 * AGAIN);
    CTS_OK(ddisp_tensor_set_requires_grad(p.a, 1));
    CTS_OK(go(&p.way));
    CTS_GRADIENT(p.a, 4, 5, 6);
    p = make_product(t, p.way.kernel, true);
    CTS_OK(ddisp_tensor_set_requires_grad(p.a, 0));
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_INVALID_ARGUMENT, "another signature");
    CTS_NO_GRADIENT(p.a);
    ddisp_plan_release(p.way.plan);
}

/* The gradient that a view shares is its base's. */
static void a_view_sees_its_base(cts *t)
{
    const int64_t two[1] = {2}, one[1] = {1};
    ddisp_tensor *base = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *view;
    ddisp_tensor *b = CTS_VECTOR(t, 0, 4, 5), *y = CTS_VECTOR(t, CTS_GRAD, 0, 0);
    CTS_OK(ddisp_tensor_as_strided(base, 1, two, one, cts_offset(base) + 1, &view));
    (void)cts_own(t, view);
    CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
    way w = make_way(cts_kernel(t, &cts_mul), DDISP_MODE_BACKWARD, view, b, y);
    again(&w);
    CTS_GRADIENT(base, 0, 4 * AGAIN, 5 * AGAIN);
    CTS_OK(ddisp_tensor_clear_grad(base));
    CTS_OK(go(&w));
    CTS_GRADIENT(base, 0, 4, 5);
    again(&w);
    CTS_OK(ddisp_tensor_set_requires_grad(base, 0));
    CTS_OK(go(&w));
    CTS_NO_GRADIENT(base);
}

static void options_are_seen(cts *t)
{
    product p = make_product(t, cts_kernel(t, &cts_mul), false);
    p.way.options.flags |= DDISP_LAUNCH_OVERWRITE;
    again(&p.way);
    CTS_GRADIENT(p.a, 4, 5, 6);
    p.way.options.flags = 0; /* the upstream is taken */
    CTS_OK(go(&p.way));
    CTS_STATE(p.y, DDISP_GRAD_STATE_EMPTY);
    p.way.options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_MISSING_GRADIENT, "'y'");
    p = make_product(t, p.way.kernel, false);
    CTS_OK(ddisp_tensor_set_requires_grad(p.b, 0));
    again(&p.way);
    p.way.options.policy = DDISP_POLICY_REJECT;
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_GRADIENT_REJECTED, "'b'");
    p.way.options.policy = DDISP_POLICY_AUTO;
    p.way.args[1].policy = DDISP_POLICY_REJECT;
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_GRADIENT_REJECTED, "'b'");
    p.way.args[1].policy = 0;
    p.way.args[0].flags = 1;
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_INVALID_ARGUMENT, "'a'", "unknown flags");
    p.way.args[0].flags = 0;
    ddisp_error error = {.size = (uint32_t)sizeof error};
    p.way.options.error = &error;
    again(&p.way);
    CTS_OK(ddisp_tensor_clear_grad(p.y));
    CTS_REFUSED(t, go(&p.way), DDISP_STATUS_MISSING_GRADIENT, "'y'");
    assert_int_equal(error.status, DDISP_STATUS_MISSING_GRADIENT);
}

static void scalars_are_seen(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_scale);
    for (int prepared = 0; prepared < 2; prepared++) {
        ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = CTS_VECTOR(t, CTS_GRAD, 0, 0);
        float k = 3, other = 0;
        way f = {.kernel = kernel,
                 .mode = DDISP_MODE_FORWARD,
                 .options = cts_options(0, DDISP_LAUNCH_KEEP_UPSTREAM, NULL)};
        for (uint32_t i = 0, tensors = 0; i < cts_scale.param_count; i++)
            if (cts_scale.params[i].kind == DDISP_PARAM_KIND_SCALAR)
                f.args[i] = (ddisp_arg){.scalar = &k, .scalar_size = sizeof k};
            else
                f.args[i] = (ddisp_arg){.tensor = tensors++ ? y : x};
        f.count = cts_scale.param_count;
        way b = f;
        b.mode = DDISP_MODE_BACKWARD;
        CTS_OK(ddisp_tensor_set_grad(y, CTS_VECTOR(t, 0, 1, 1)));
        if (prepared) {
            prepare(&f);
            prepare(&b);
        }
        again(&f);
        again(&b);
        for (int i = 0; i < 6; i++) { /* another value, then another place */
            k = (float)i + 1;
            other = k;
            CTS_OK(ddisp_tensor_clear_grad(x));
            CTS_OK(go(&b));
            CTS_OK(go(&f));
            CTS_VALUES(y, k, 2 * k);
            CTS_GRADIENT(x, k, k);
            for (uint32_t j = 0; j < f.count && i == 3; j++)
                if (f.args[j].scalar)
                    f.args[j].scalar = b.args[j].scalar = &other;
        }
        CTS_OK(go(&b));
        CTS_GRADIENT(x, 12, 12);
        ddisp_plan_release(f.plan);
        ddisp_plan_release(b.plan);
    }
}

/* Tensors that come and go may lie where others lay. */
static void a_tensor_in_the_place_of_another_is_another(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    const int64_t shape[1] = {2};
    ddisp_tensor *b = CTS_VECTOR(t, 0, 3, 4), *y = CTS_VECTOR(t, 0, 0, 0);
    for (int round = 0; round < 8; round++) {
        ddisp_tensor *a;
        CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, shape, 0, &a));
        CTS_OK(ddisp_tensor_fill(a, round, NULL));
        way w = make_way(kernel, DDISP_MODE_FORWARD, a, b, y);
        again(&w);
        CTS_VALUES(y, 3 * round, 4 * round);
        ddisp_tensor_release(a);
    }
}

static void streams_in_turn(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_stream *streams[12]; /* more than a buffer remembers without looking which are done */
    for (int i = 0; i < 12; i++)
        streams[i] = cts_stream(t);
    for (int prepared = 0; prepared < 2; prepared++) {
        product p = make_product(t, kernel, prepared != 0);
        way f = make_way(kernel, DDISP_MODE_FORWARD, p.a, p.b, p.y);
        if (prepared)
            prepare(&f);
        for (int i = 0; i < 96; i++) {
            ddisp_stream *stream = streams[i / 2 % 12];
            CTS_OK(go_on(&p.way, stream));
            CTS_OK(go_on(&f, stream));
            CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
        }
        CTS_VALUES(p.y, 4, 10, 18);
        CTS_GRADIENT(p.a, 4 * (AGAIN + 96), 5 * (AGAIN + 96), 6 * (AGAIN + 96));
        ddisp_plan_release(p.way.plan);
        ddisp_plan_release(f.plan);
    }
}

/* A launch that is remembered counts like any other, and a graph records it. */
static void repeats_count_and_are_recorded(cts *t)
{
    product p = make_product(t, cts_kernel(t, &cts_mul), false);
    ddisp_kernel_statistics before = {.size = (uint32_t)sizeof before}, after = before;
    ddisp_stream *stream = cts_stream(t);
    ddisp_graph *graph;
    uint64_t launches = cts_statistics(t).launches;
    CTS_OK(ddisp_kernel_get_statistics(p.way.kernel, &before));
    again(&p.way);
    CTS_OK(ddisp_kernel_get_statistics(p.way.kernel, &after));
    assert_int_equal(after.signature_hits - before.signature_hits, AGAIN);
    assert_int_equal(cts_statistics(t).launches - launches, AGAIN);
    for (int i = 0; i < AGAIN; i++)
        CTS_OK(go_on(&p.way, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    ddisp_status status = ddisp_stream_begin_capture(stream);
    if (status == DDISP_STATUS_UNSUPPORTED)
        CTS_SKIP(t, "%s cannot record work", t->info.spec);
    CTS_OK(status);
    CTS_OK(go_on(&p.way, stream));
    CTS_OK(ddisp_stream_end_capture(stream, &graph));
    assert_int_equal(ddisp_graph_launch_count(graph), 1);
    CTS_GRADIENT(p.a, 12 * AGAIN, 15 * AGAIN, 18 * AGAIN); /* nothing has run */
    CTS_OK(ddisp_graph_launch(graph, stream));
    CTS_OK(go_on(&p.way, stream));
    CTS_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    CTS_GRADIENT(p.a, 12 * AGAIN + 8, 15 * AGAIN + 10, 18 * AGAIN + 12);
    ddisp_graph_release(graph);
}

/* ---- while another thread changes gradients */

typedef struct repeater {
    way way;
    ddisp_stream *stream;
    ddisp_status status;
} repeater;

static void *repeat(void *argument)
{
    repeater *r = argument;
    for (int i = 0; i < 400 && !r->status; i++)
        r->status = go_on(&r->way, r->stream);
    return NULL;
}

static void gradients_change_under_repeats(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_mul);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2, 3), *b = CTS_VECTOR(t, 0, 4, 5, 6);
    ddisp_tensor *ones = CTS_VECTOR(t, 0, 1, 1, 1), *sevens = CTS_VECTOR(t, 0, 7, 7, 7);
    repeater r[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        ddisp_tensor *y = CTS_VECTOR(t, CTS_GRAD, 0, 0, 0);
        CTS_OK(ddisp_tensor_set_grad(y, ones));
        r[i] = (repeater){.way = make_way(kernel, DDISP_MODE_BACKWARD, x, b, y),
                          .stream = cts_stream(t)};
        if (i % 2)
            prepare(&r[i].way);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, repeat, &r[i]), 0);
    for (int i = 0; i < 100; i++)
        CTS_OK(i % 2 ? ddisp_tensor_clear_grad(x) : ddisp_tensor_set_grad(x, sevens));
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        CTS_CHECK(!r[i].status, "thread %d: %s", i, ddisp_status_name(r[i].status));
        CTS_OK(ddisp_stream_synchronize(r[i].stream, DDISP_TIMEOUT_INFINITE));
    }
    CTS_OK(ddisp_tensor_clear_grad(x));
    for (int i = 0; i < 4; i++)
        CTS_OK(go_on(&r[i].way, r[i].stream));
    for (int i = 0; i < 4; i++) {
        CTS_OK(ddisp_stream_synchronize(r[i].stream, DDISP_TIMEOUT_INFINITE));
        ddisp_plan_release(r[i].way.plan);
    }
    CTS_GRADIENT(x, 16, 20, 24);
}

const cts_test cts_repeat_tests[] = {
    CTS_TEST(cleared_and_set_gradients_are_seen),
    CTS_TEST(gradients_that_come_to_overlap_are_refused),
    CTS_TEST(requires_grad_is_seen),
    CTS_TEST(a_view_sees_its_base),
    CTS_TEST(options_are_seen),
    CTS_TEST(scalars_are_seen),
    CTS_TEST(a_tensor_in_the_place_of_another_is_another),
    CTS_TEST(streams_in_turn),
    CTS_TEST(repeats_count_and_are_recorded),
    CTS_TEST(gradients_change_under_repeats),
    CTS_END,
};
