/*
 * test_signature_flips.c - one thing of a request changed at a time: what can change code or
 * backings is another signature, what cannot is the same. Run with the path of golden.txt, whose
 * richest request is what is changed.
 */
#include "requests.h"

static struct request requests[MOST_REQUESTS], kept;
static struct request *r;
static ddisp_signature before, after;

/* The request as it is in golden.txt. */
static int restore(void **state)
{
    (void)state;
    if (kept.byte_count)
        *r = kept;
    for (uint32_t i = 0; !r && requests[i].name[0]; i++)
        if (strcmp(requests[i].name, "code_with_everything") == 0)
            r = &requests[i];
    kept = *r;
    request_signature(r, &before);
    return 0;
}

/* Makes one change, asks, and takes it back. */
#define FLIP(is_another, change)                                                                   \
    do {                                                                                           \
        change;                                                                                    \
        request_signature(r, &after);                                                              \
        bool differs = after.byte_count != before.byte_count ||                                    \
                       memcmp(after.bytes, before.bytes, after.byte_count) != 0;                   \
        assert_int_equal(differs, memcmp(after.hash, before.hash, 16) != 0);                       \
        if (differs != (is_another))                                                               \
            fail_msg("%s: the signature is %s", #change, differs ? "another" : "the same");        \
        *r = kept;                                                                                 \
    } while (0)

static int64_t steps[3][1] = {{2}, {0}, {-1}};

static void options_of_the_launch(void **state)
{
    (void)state;
    ddisp_error error = {.size = (uint32_t)sizeof error};
    static const uint64_t flags[] = {DDISP_LAUNCH_ZERO_UPSTREAM, DDISP_LAUNCH_KEEP_UPSTREAM,
                                     DDISP_LAUNCH_OVERWRITE, DDISP_LAUNCH_NO_ALLOC,
                                     DDISP_LAUNCH_DETERMINISTIC};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        FLIP(true, r->options.flags ^= flags[i]);
    FLIP(false, r->options.flags |= DDISP_LAUNCH_DRY_RUN);
    for (ddisp_policy p = DDISP_POLICY_SPECIALIZE; p <= DDISP_POLICY_SCRATCH; p++)
        FLIP(true, r->options.policy = p);
    FLIP(false, r->options.policy = DDISP_POLICY_AUTO); /* the default by its name */
    FLIP(false, r->options.items[0] = 77);
    FLIP(false, r->options.items[2] = 3);
    FLIP(false, r->options.grid[0] = 5);
    FLIP(false, r->options.grid[1] = 5);
    FLIP(false, r->options.error = &error);
    FLIP(true, r->mode = DDISP_MODE_FORWARD);
}

/* What is refused has no signature, and says so as a launch would. */
static void refused_options_have_none(void **state)
{
    (void)state;
    ddisp_kernel *kernel = NULL;
    struct setting *s = setting_open("/nonexistent/not-used");
    assert_ok(request_kernel(r, s->context, &kernel));
    const ddisp_chain chain = {sizeof chain, 1, NULL};
#define REFUSED(status, text, change)                                                              \
    do {                                                                                           \
        change;                                                                                    \
        assert_fails(status, text, request_launch_signature(r, kernel, s->device, &after));        \
        *r = kept;                                                                                 \
    } while (0)
    REFUSED(DDISP_STATUS_INVALID_ARGUMENT, "unknown bits", r->options.flags |= UINT64_C(1) << 40);
    REFUSED(DDISP_STATUS_INVALID_ARGUMENT, "options.next", r->options.next = &chain);
    REFUSED(DDISP_STATUS_INVALID_ARGUMENT, "options.reserved", r->options.reserved = 1);
    REFUSED(DDISP_STATUS_INVALID_ARGUMENT, "unknown policy", r->options.policy = 7);
    REFUSED(DDISP_STATUS_INVALID_ARGUMENT, "unknown mode", r->mode = 3);
    REFUSED(DDISP_STATUS_GRADIENT_REJECTED, "'b'", r->options.policy = DDISP_POLICY_REJECT);
    REFUSED(DDISP_STATUS_MISSING_GRADIENT, "'y'", r->args[2].grad_read = 0);
    REFUSED(DDISP_STATUS_RANK_MISMATCH, "wants rank 1", r->views[0].rank = 0);
    REFUSED(DDISP_STATUS_ALIASED, "overlaps",
            r->args[0].grad_add = r->views[1].address + 4 * sizeof(float));
    ddisp_signature small = {.size = 8};
    r->options.device = s->device;
    assert_fails(
        DDISP_STATUS_INVALID_ARGUMENT, "out_signature",
        ddisp_launch_signature(kernel, r->mode, r->args, r->arg_count, &r->options, NULL, &small));
    assert_fails(
        DDISP_STATUS_INVALID_ARGUMENT, "out_signature",
        ddisp_launch_signature(kernel, r->mode, r->args, r->arg_count, &r->options, NULL, NULL));
    assert_fails(
        DDISP_STATUS_INVALID_ARGUMENT, "kernel is NULL",
        ddisp_launch_signature(NULL, r->mode, r->args, r->arg_count, &r->options, NULL, &after));
    ddisp_kernel_release(kernel);
    setting_close(s, false);
}

static void arguments(void **state)
{
    (void)state;
    ddisp_tensor_view *a = &r->views[0], *b = &r->views[1], *y = &r->views[2];
    FLIP(true, r->args[1].policy = DDISP_POLICY_SCRATCH);
    FLIP(false, r->args[0].policy = DDISP_POLICY_SCRATCH); /* it requires a gradient */
    FLIP(true, (b->flags = DDISP_VIEW_REQUIRES_GRAD, r->args[1].grad_add = 0x70000));
    FLIP(true, (a->flags = 0, r->args[0].grad_add = 0));
    FLIP(false, b->flags |= DDISP_VIEW_READ_ONLY);
    FLIP(true,
         (y->flags = 0, r->args[2].grad_read = 0, r->options.flags |= DDISP_LAUNCH_ZERO_UPSTREAM));
    /* Addresses, and what they have to do with each other. */
    FLIP(false, a->address += 0x100);
    FLIP(true, a->address += 4);         /* the code asks for 8 */
    FLIP(false, b->address += 4);        /* nothing asks here */
    FLIP(true, b->address = a->address); /* the same data */
    FLIP(false, r->args[0].grad_add += 8);
    FLIP(false, r->args[2].grad_read += 4);
    FLIP(true, (b->flags = DDISP_VIEW_REQUIRES_GRAD, r->args[1].grad_add = r->args[0].grad_add,
                b->grad_dtype = DDISP_DTYPE_F64));
    /* Extents and layouts. */
    FLIP(false, (r->shapes[0][0] = r->shapes[1][0] = r->shapes[2][0] = 9));
    FLIP(true, a->strides = steps[0]);
    FLIP(true, b->strides = steps[1]);
    FLIP(true, b->strides = steps[2]);
    FLIP(false, (r->strides[1][0][0] = 1, b->strides = r->strides[1][0])); /* dense, spelled out */
    FLIP(true, a->grad_add_strides = steps[0]);
    FLIP(true, y->grad_read_strides = steps[1]);
    FLIP(false, b->grad_add_strides = steps[0]); /* there is none */
    FLIP(true, y->grad_dtype = DDISP_DTYPE_F64);
    FLIP(true, a->grad_dtype = DDISP_DTYPE_F32);
    /* Without elements every layout is dense and every address aligned. */
    FLIP(false, (r->shapes[0][0] = r->shapes[1][0] = r->shapes[2][0] = 0));
    FLIP(false, (r->shapes[0][0] = r->shapes[1][0] = r->shapes[2][0] = 0, a->strides = steps[0],
                 a->address += 4));
}

static void parameters_of_the_kernel(void **state)
{
    (void)state;
    FLIP(false, r->params[0].name = "another_name");
    FLIP(true, (r->params[0].access = DDISP_ACCESS_INOUT, r->options.flags = 1));
    FLIP(true, r->params[0].dtype = DDISP_DTYPE_ANY); /* though the argument is the same */
    FLIP(true, r->params[0].rank = DDISP_RANK_ANY);
    FLIP(true, r->params[1].flags = 0);
    FLIP(true, r->params[1].flags |= DDISP_PARAM_ITEMS);
}

static void code(void **state)
{
    (void)state;
    ddisp_code *c = &r->codes[0];
    struct code_parts *parts = &r->parts[0];
    FLIP(true, c->format = "rpx");
    FLIP(true, c->backend = "compiler2");
    FLIP(true, parts->source[strlen(parts->source) - 1] = '0');
    FLIP(true, parts->source[c->size_bytes++] = '\n');
    FLIP(true, c->options = "-DN=1 -DM=-2.6");
    FLIP(true, c->options = "-DN=1  -DM=-2.5"); /* options count by their letters */
    FLIP(true, c->options = NULL);
    FLIP(true, c->flags ^= DDISP_CODE_NULL_SAFE);
    FLIP(true, c->flags ^= DDISP_CODE_ANY_LAYOUT);
    FLIP(true, c->flags ^= DDISP_CODE_PRE_REDUCES);
    FLIP(false, c->flags ^= DDISP_CODE_BORROWED);
    FLIP(true, parts->header_texts[0][10] = '4'); /* same name and size */
    FLIP(true, parts->header_texts[1][0] = '/');  /* even when nothing includes it */
    FLIP(true, parts->header_names[1][0] = 'v');
    FLIP(true, c->header_count = 1);
    FLIP(true, (r->codes[1] = *c, r->code_count = 2));
}

static void code_parameters(void **state)
{
    (void)state;
    ddisp_code_param *p = r->parts[0].params;
    FLIP(true, p[0].write_mode = DDISP_WRITE_MODE_READS_BACK);
    FLIP(true, p[0].grad_dtype = DDISP_DTYPE_F32);
    FLIP(true, p[0].layouts = DDISP_LAYOUT_ANY);
    FLIP(true, p[0].grad_layouts = DDISP_LAYOUT_ANY);
    FLIP(true, p[0].alignment = 16);
    FLIP(true, p[0].switch_id = 18);
    FLIP(true, p[0].param = 2);
    FLIP(false,
         (p[2] = (ddisp_code_param){.param = 2}, r->codes[0].param_count = 3)); /* defaults */
    FLIP(false, (p[2] = p[0], p[0] = p[1], p[1] = p[2])); /* in another order */
}

static void entries(void **state)
{
    (void)state;
    ddisp_entry *e = r->parts[0].entries;
    ddisp_native_arg *n = r->parts[0].natives;
    FLIP(true, e[1].mode = DDISP_MODE_FORWARD);
    FLIP(true, e[1].name = "forward");
    for (int axis = 0; axis < 3; axis++)
        FLIP(true, e[1].group_size[axis]++);
    FLIP(true, e[0].group_size[0] = 0);
    FLIP(true, e[1].function_id++);
    FLIP(true, e[1].mask = 1);
    FLIP(true, e[1].flags ^= DDISP_ENTRY_LOOPS);
    FLIP(true, e[1].flags ^= DDISP_ENTRY_MASKED);
    FLIP(true, e[1].shared_bytes = 17);
    FLIP(true, e[1].native_count = 2);
    FLIP(true, (e[2] = e[1], r->codes[0].entry_count = 3));
    FLIP(true, n[0].source = DDISP_SOURCE_OFFSET);
    FLIP(true, n[0].param = 1);
    FLIP(true, n[1].index = 3);
    FLIP(true, n[1].space = DDISP_SPACE_DESCRIPTOR);
    FLIP(true, n[1].set = 3);
    FLIP(true, n[1].location = 9);
    FLIP(true, n[1].size_bytes = 8);
    FLIP(true, n[1].flags = 0);
}

static void device(void **state)
{
    (void)state;
    FLIP(true, r->architecture[0] = 'q');
    FLIP(true, r->architecture[5] = '0');
    FLIP(true, r->vendor_id++);
    FLIP(true, r->device_id++);
    FLIP(true, r->driver_id++);
    FLIP(true, r->features ^= UINT64_C(1) << 63);
}

/* In forward mode nothing that is about gradients counts. */
static void forward_knows_no_gradients(void **state)
{
    (void)state;
    r->mode = DDISP_MODE_FORWARD;
    kept = *r;
    request_signature(r, &before);
    FLIP(false, r->options.flags = DDISP_LAUNCH_ZERO_UPSTREAM | DDISP_LAUNCH_OVERWRITE);
    FLIP(false, r->options.policy = DDISP_POLICY_SINK);
    FLIP(false, r->args[1].policy = DDISP_POLICY_REJECT);
    FLIP(false, (r->views[0].flags = 0, r->args[0].grad_add = 0));
    FLIP(false, r->views[1].flags = DDISP_VIEW_REQUIRES_GRAD);
    FLIP(false, r->views[0].grad_add_strides = steps[0]);
    FLIP(false, r->views[0].grad_dtype = DDISP_DTYPE_F32);
    FLIP(true, r->views[0].strides = steps[0]);
    r->mode = DDISP_MODE_BACKWARD;
    kept = *r;
}

/* ---- handles */

static ddisp_signature ask(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                           const ddisp_launch_options *options, ddisp_stream *stream)
{
    ddisp_signature signature = {.size = (uint32_t)sizeof signature};
    assert_ok(ddisp_launch_signature(kernel, mode, args, 3, options, stream, &signature));
    return signature;
}

static void same(const ddisp_signature *a, const ddisp_signature *b)
{
    assert_int_equal(a->byte_count, b->byte_count);
    assert_memory_equal(a->bytes, b->bytes, a->byte_count);
}

/* A tensor by handle and one described in place; a gradient that is there and one to be made. */
static void handles_views_and_states_of_gradients_do_not_count(void **state)
{
    (void)state;
    control_reset();
    struct setting *s = setting_open("/nonexistent/not-used");
    ddisp_kernel *kernel = kernel_make(s, &(struct recipe){.source = NULL});
    ddisp_tensor *a = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 1, 2), *b = VECTOR(s, 0, 1, 2);
    ddisp_tensor *y = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 1, 2), *g = VECTOR(s, 0, 1, 2);
    ddisp_tensor *ga = VECTOR(s, 0, 1, 2);
    const int64_t two = 2;
    const ddisp_arg handles[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    assert_ok(ddisp_tensor_set_grad(y, g));
    ddisp_signature first = ask(kernel, DDISP_MODE_BACKWARD, handles, NULL, NULL);
    ddisp_device_statistics statistics = {.size = (uint32_t)sizeof statistics};
    assert_ok(ddisp_device_get_statistics(s->device, &statistics));
    assert_int_equal(statistics.gradient_bytes_live, 0); /* nothing was made by asking */
    assert_ok(ddisp_tensor_set_grad(a, ga));
    ddisp_signature present = ask(kernel, DDISP_MODE_BACKWARD, handles, NULL, NULL);
    same(&first, &present);
    ddisp_tensor_view views[3];
    ddisp_arg described[3];
    for (int i = 0; i < 3; i++) {
        views[i] = (ddisp_tensor_view){.size = (uint32_t)sizeof views[i],
                                       .dtype = DDISP_DTYPE_F32,
                                       .rank = 1,
                                       .flags = i == 1 ? 0 : DDISP_VIEW_REQUIRES_GRAD,
                                       .address = UINT64_C(0x10000) * (uint64_t)(i + 1),
                                       .shape = &two};
        described[i] = (ddisp_arg)DDISP_ARG_VIEW(&views[i]);
    }
    described[0].grad_add = 0x50000;
    described[2].grad_read = 0x60000;
    ddisp_launch_options options = {.size = (uint32_t)sizeof options};
    options.device = s->device;
    ddisp_signature by_view = ask(kernel, DDISP_MODE_BACKWARD, described, &options, NULL);
    same(&first, &by_view);
    ddisp_stream *stream; /* which says where to run, as options.device did */
    assert_ok(ddisp_stream_create(s->device, 0, &stream));
    ddisp_signature by_stream = ask(kernel, DDISP_MODE_BACKWARD, described, NULL, stream);
    same(&first, &by_stream);
    ddisp_stream_release(stream);
    /* Another kernel object of the same description, of another name and budget. */
    ddisp_kernel *twin = kernel_make(s, &(struct recipe){.name = "twin", .variant_budget = 3});
    ddisp_signature of_twin = ask(twin, DDISP_MODE_BACKWARD, handles, NULL, NULL);
    same(&first, &of_twin);
    assert_int_equal(kernel_statistics(kernel).signatures, 0);
    ddisp_kernel_release(twin);
    ddisp_kernel_release(kernel);
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
    ddisp_tensor_release(ga);
    setting_close(s, false);
}

/* What a launch reports is what was asked for before it. */
static void report_has_the_signature_of_the_launch(void **state)
{
    (void)state;
    control_reset();
    struct setting *s = setting_open(NULL);
    ddisp_kernel *kernel = kernel_make(s, &(struct recipe){.source = NULL});
    ddisp_tensor *a = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 1, 2), *b = VECTOR(s, 0, 1, 2);
    ddisp_tensor *y = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 1, 2), *g = VECTOR(s, 0, 1, 2);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    ddisp_launch_options options = {.size = (uint32_t)sizeof options};
    ddisp_report_info info = {.size = (uint32_t)sizeof info};
    uint8_t bytes[DDISP_SIGNATURE_CAPACITY];
    uint64_t length;
    assert_ok(ddisp_report_create(s->context, &options.report));
    assert_ok(ddisp_tensor_set_grad(y, g));
    ddisp_signature asked = ask(kernel, DDISP_MODE_BACKWARD, args, &options, NULL);
    assert_ok(ddisp_report_get_info(options.report, &info));
    assert_int_equal(info.slot_count, 0); /* asking fills no report */
    assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    assert_ok(ddisp_report_get_info(options.report, &info));
    assert_memory_equal(info.signature, asked.hash, 16);
    assert_ok(ddisp_report_get_signature(options.report, bytes, sizeof bytes, &length));
    assert_int_equal(length, asked.byte_count);
    assert_memory_equal(bytes, asked.bytes, length);
    ddisp_report_release(options.report);
    ddisp_kernel_release(kernel);
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
    setting_close(s, true);
}

#define TEST(name) cmocka_unit_test_setup(name, restore)

int main(int count, char **values)
{
    const struct CMUnitTest tests[] = {
        TEST(options_of_the_launch),
        TEST(refused_options_have_none),
        TEST(arguments),
        TEST(parameters_of_the_kernel),
        TEST(code),
        TEST(code_parameters),
        TEST(entries),
        TEST(device),
        TEST(forward_knows_no_gradients),
        TEST(handles_views_and_states_of_gradients_do_not_count),
        TEST(report_has_the_signature_of_the_launch),
    };
    if (count != 2)
        return 2;
    (void)requests_read(values[1], requests);
    return cmocka_run_group_tests_name("signature_flips", tests, NULL, NULL);
}
