/*
 * test_structs.c - case 51: structs that grow. Each struct of the API is passed with its oldest
 * size, with the page behind it unreadable; larger with a tail of zeros (a newer header, nothing
 * new used); larger with something in the tail (refused); and with sizes that cannot be.
 */
#include "cts.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A struct under test: how to fill it in, and a call that takes it. */
struct subject {
    const char *name;
    uint32_t size;
    uint32_t first_size;                   /* in the first version */
    void (*fill)(cts *t, void *structure); /* NULL: nothing but size */
    ddisp_status (*call)(cts *t, void *structure);
};

/* Memory of `size` bytes that ends where an unreadable page begins. */
static unsigned char *at_edge(size_t size, void **out_map)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
    unsigned char *map =
        mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + pages * page, page, PROT_NONE), 0);
    *out_map = map;
    return map + pages * page - size;
}

static void drop(void *map, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page;
    (void)munmap(map, (pages + 1) * page);
}

/* Calls with `size` bytes of which the last one is `last`; afterwards the tail must be as it was.
 */
static ddisp_status call_with(cts *t, const struct subject *s, uint32_t size, unsigned char last)
{
    void *map;
    uint32_t memory = ((size < s->first_size ? s->size : size) + 7) & ~7u; /* aligned */
    unsigned char *structure = at_edge(memory, &map);
    memset(structure, 0, memory);
    if (s->fill)
        s->fill(t, structure);
    memcpy(structure, &size, sizeof size);
    if (size > s->size)
        structure[size - 1] = last;
    ddisp_status status = s->call(t, structure);
    bool tail_kept = true;
    for (uint32_t i = s->size; i < size; i++)
        tail_kept &= structure[i] == (i == size - 1 ? last : 0);
    drop(map, memory);
    CTS_CHECK(tail_kept, "%s: the call wrote behind the struct that it knows", s->name);
    return status;
}

static void check(cts *t, const struct subject *s)
{
    const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;
    struct {
        uint32_t size;
        unsigned char last;
        ddisp_status expected;
    } tries[] = {{s->size, 0, DDISP_STATUS_OK},
                 {s->size + 8, 0, DDISP_STATUS_OK},
                 {4096, 0, DDISP_STATUS_OK},
                 {s->size + 8, 1, bad},
                 {4096, 1, bad},
                 {s->first_size, 0, DDISP_STATUS_OK},
                 {s->first_size - 4, 0, bad},
                 {0, 0, bad},
                 {4, 0, bad},
                 {4097, 0, bad},
                 {8192, 0, bad}};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        ddisp_status status = call_with(t, s, tries[i].size, tries[i].last);
        CTS_CHECK(status == tries[i].expected,
                  "%s of %u bytes (this header: %u), last byte %u: %s instead of %s", s->name,
                  tries[i].size, s->size, tries[i].last, ddisp_status_name(status),
                  ddisp_status_name(tries[i].expected));
        if (status)
            CTS_FAILS(status, bad, tries[i].last ? "byte" : "size");
    }
}

/* ---- the calls */

static ddisp_status error_call(cts *t, void *structure)
{
    (void)t;
    return ddisp_last_error_detail(structure);
}

static ddisp_status context_call(cts *t, void *structure)
{
    (void)t;
    ddisp_context *context = NULL;
    ddisp_status status = ddisp_context_create(structure, &context);
    ddisp_context_release(context);
    return status;
}

static void context_fill(cts *t, void *structure)
{
    (void)t;
    ((ddisp_context_desc *)structure)->backends = "host";
}

static void *allocate(void *user_data, uint64_t size_bytes)
{
    ++*(int *)user_data;
    return malloc(size_bytes);
}

static void release(void *user_data, void *pointer)
{
    --*(int *)user_data;
    free(pointer);
}

static int allocations;

static void allocator_fill(cts *t, void *structure)
{
    (void)t;
    ddisp_allocator *allocator = structure;
    allocator->user_data = &allocations;
    allocator->allocate = allocate;
    allocator->release = release;
}

static ddisp_status allocator_call(cts *t, void *structure)
{
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.backends = "host";
    desc.allocator = structure;
    return context_call(t, &desc);
}

static ddisp_status backend_info_call(cts *t, void *structure)
{
    return ddisp_backend_get_info(t->context, 0, structure);
}

static ddisp_status describe_call(cts *t, void *structure)
{
    return ddisp_device_describe(t->context, 0, structure);
}

static ddisp_status device_info_call(cts *t, void *structure)
{
    return ddisp_device_get_info(t->device, structure);
}

static ddisp_status statistics_call(cts *t, void *structure)
{
    return ddisp_device_get_statistics(t->device, structure);
}

static ddisp_status tensor_info_call(cts *t, void *structure)
{
    ddisp_tensor *x = NULL;
    int64_t n = 2;
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &x));
    ddisp_status status = ddisp_tensor_get_info(x, structure);
    ddisp_tensor_release(x);
    return status;
}

static ddisp_status view_call(cts *t, void *structure)
{
    static const int64_t n = 2;
    ddisp_tensor *x = NULL, *y = NULL;
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &x));
    CTS_OK(ddisp_tensor_create(t->device, DDISP_DTYPE_F32, 1, &n, 0, &y));
    ddisp_tensor_view *view = structure;
    view->dtype = DDISP_DTYPE_F32;
    view->rank = 1;
    view->shape = &n;
    view->address = cts_address(x);
    ddisp_arg args[2] = {DDISP_ARG_VIEW(view), DDISP_ARG(y)};
    ddisp_status status = ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 2, NULL, NULL);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    return status;
}

static void kernel_fill(cts *t, void *structure)
{
    (void)t;
    ddisp_kernel_desc *desc = structure;
    desc->name = cts_square.name;
    desc->params = cts_square.params;
    desc->param_count = cts_square.param_count;
    desc->param_size = (uint32_t)sizeof *cts_square.params;
    desc->codes = cts_square.codes;
    desc->code_count = cts_square.code_count;
    desc->code_size = (uint32_t)sizeof *cts_square.codes;
}

static ddisp_status kernel_call(cts *t, void *structure)
{
    ddisp_kernel *kernel = NULL;
    ddisp_status status = ddisp_kernel_create(t->context, structure, &kernel);
    ddisp_kernel_release(kernel);
    return status;
}

static ddisp_status kernel_statistics_call(cts *t, void *structure)
{
    return ddisp_kernel_get_statistics(cts_kernel(t, &cts_square), structure);
}

static ddisp_status options_call(cts *t, void *structure)
{
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2), *y = cts_vector(t, 2, 0, NULL);
    return cts_launch(cts_kernel(t, &cts_square), DDISP_MODE_FORWARD, CTS_TENSORS(x, y), structure);
}

static ddisp_status options_error_call(cts *t, void *structure)
{
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2), *y = cts_vector(t, 2, 0, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    options.error = structure;
    return cts_launch(cts_kernel(t, &cts_square), DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options);
}

static ddisp_status report_info_call(cts *t, void *structure)
{
    return ddisp_report_get_info(cts_report(t), structure);
}

static ddisp_status report_slot_call(cts *t, void *structure)
{
    ddisp_report *report = cts_report(t);
    ddisp_tensor *x = CTS_VECTOR(t, CTS_GRAD, 1, 2), *y = CTS_VECTOR(t, CTS_GRAD, 1, 2);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_DRY_RUN, report);
    CTS_OK(ddisp_tensor_set_grad(y, x));
    CTS_OK(CTS_BACKWARD(cts_kernel(t, &cts_square), &options, x, y));
    return ddisp_report_get_slot(report, 0, structure);
}

#define SUBJECT_GROWN(type, first_size, fill, call)                                                \
    {                                                                                              \
#type, (uint32_t)sizeof(type), (uint32_t)(first_size), fill, call                          \
    }
#define SUBJECT(type, fill, call) SUBJECT_GROWN(type, sizeof(type), fill, call)
static const struct subject subjects[] = {
    SUBJECT(ddisp_error, NULL, error_call),
    SUBJECT(ddisp_error, NULL, options_error_call),
    SUBJECT(ddisp_context_desc, context_fill, context_call),
    SUBJECT(ddisp_allocator, allocator_fill, allocator_call),
    SUBJECT(ddisp_backend_info, NULL, backend_info_call),
    SUBJECT_GROWN(ddisp_device_info, 696, NULL, describe_call),
    SUBJECT_GROWN(ddisp_device_info, 696, NULL, device_info_call),
    SUBJECT_GROWN(ddisp_device_statistics, 112, NULL, statistics_call),
    SUBJECT(ddisp_tensor_info, NULL, tensor_info_call),
    SUBJECT(ddisp_tensor_view, NULL, view_call),
    SUBJECT(ddisp_kernel_desc, kernel_fill, kernel_call),
    SUBJECT_GROWN(ddisp_kernel_statistics, 48, NULL, kernel_statistics_call),
    SUBJECT_GROWN(ddisp_launch_options, 88, NULL, options_call),
    SUBJECT(ddisp_report_info, NULL, report_info_call),
    SUBJECT(ddisp_report_slot, NULL, report_slot_call),
};

static void case_51_struct_sizes(cts *t)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        check(t, &subjects[i]);
    assert_int_equal(allocations, 0); /* everything of the contexts was given back */
}

/* Arrays come as pointer, count and element size: a newer caller's elements are longer, an older
 * one's shorter. */
static void case_51_element_sizes(cts *t)
{
    struct {
        ddisp_param known;
        uint64_t tail;
    } params[2] = {{cts_square.params[0], 0}, {cts_square.params[1], 0}};
    struct {
        ddisp_code known;
        uint64_t tail;
    } codes[8];
    memset(codes, 0, sizeof codes);
    for (uint32_t i = 0; i < cts_square.code_count; i++)
        codes[i].known = cts_square.codes[i];
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    kernel_fill(t, &desc);
    desc.params = &params[0].known;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = &codes[0].known;
    desc.code_size = (uint32_t)sizeof codes[0];
    CTS_OK(kernel_call(t, &desc));
    ddisp_code old[2]; /* 80 bytes each, as before they had headers */
    const uint32_t old_size = 80;
    memset(old, 0xFF, sizeof old);
    for (uint32_t i = 0; i < 2 && i < cts_square.code_count; i++)
        memcpy((unsigned char *)old + i * old_size, &cts_square.codes[i], old_size);
    desc.codes = old;
    desc.code_size = old_size;
    desc.code_count = cts_square.code_count < 2 ? cts_square.code_count : 2;
    CTS_OK(kernel_call(t, &desc));
    desc.codes = &codes[0].known;
    desc.code_size = (uint32_t)sizeof codes[0];
    desc.code_count = cts_square.code_count;
    params[1].tail = 1;
    CTS_FAILS(kernel_call(t, &desc), DDISP_STATUS_INVALID_ARGUMENT, "params 1");
    params[1].tail = 0;
    codes[0].tail = 1;
    CTS_FAILS(kernel_call(t, &desc), DDISP_STATUS_INVALID_ARGUMENT, "codes 0");
}

const cts_test cts_struct_tests[] = {
    CTS_TEST(case_51_struct_sizes),
    CTS_TEST(case_51_element_sizes),
    CTS_END,
};
