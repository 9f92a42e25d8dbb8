/*
 * test_codes.c - code that a device cannot run: made for another architecture, with groups too
 * large, with more shared memory than there is, with grids past the limit. The launch says which
 * kernel and why, and touches nothing (case 45). Also the choice between several codes.
 */
#include "cts.h"

#include <stdlib.h>

/* y = x^2 with entries that can be changed, and bytes that can. */
struct changed {
    cts_source source;
    ddisp_code codes[8];
    ddisp_entry entries[8][2];
};

static void make(struct changed *c)
{
    memset(c, 0, sizeof *c);
    c->source = cts_square;
    assert_true(cts_square.code_count <= 8);
    for (uint32_t i = 0; i < cts_square.code_count; i++) {
        c->codes[i] = cts_square.codes[i];
        memcpy(c->entries[i], c->codes[i].entries, c->codes[i].entry_count * sizeof(ddisp_entry));
        c->codes[i].entries = c->entries[i];
    }
    c->source.codes = c->codes;
}

static bool is(const cts *t, const char *backend)
{
    return strcmp(t->info.backend, backend) == 0;
}

/* The first code for the device under test: the one that serves forward. */
static uint32_t own_code(cts *t)
{
    for (uint32_t i = 0; i < cts_square.code_count; i++)
        if (is(t, cts_square.codes[i].backend))
            return i;
    CTS_CHECK(false, "there is no code for %s", t->info.backend);
    return 0;
}

/* A copy of a code's bytes (and room for 64 more), with one occurrence of text replaced. */
static char *replaced(const ddisp_code *code, const char *text, const char *by, uint64_t *out_size)
{
    char *bytes = calloc(1, code->size_bytes + 64);
    assert_non_null(bytes);
    const char *old = code->bytes, *at = strstr(old, text);
    assert_non_null(at);
    size_t before = (size_t)(at - old), after = code->size_bytes - before - strlen(text);
    memcpy(bytes, old, before);
    memcpy(bytes + before, by, strlen(by));
    memcpy(bytes + before + strlen(by), at + strlen(text), after);
    *out_size = before + strlen(by) + after;
    return bytes;
}

/* A copy of a SPIR-V module in which the first instruction that starts with the word `head` and
 * whose operand `operand` is `value` gets operand `change` set to `to`. */
static uint32_t *patched(const ddisp_code *code, uint32_t head, uint32_t operand, uint32_t value,
                         uint32_t change, uint32_t to)
{
    uint32_t count = (uint32_t)(code->size_bytes / 4), *words = malloc(code->size_bytes);
    assert_non_null(words);
    memcpy(words, code->bytes, code->size_bytes);
    for (uint32_t at = 5; at < count && words[at] >> 16; at += words[at] >> 16)
        if (words[at] == head && words[at + operand] == value) {
            words[at + change] = to;
            return words;
        }
    free(words);
    fail();
    return NULL;
}

/* First words (length and opcode), and operands. */
enum {
    LOCAL_SIZE_MODE = 6 << 16 | 16, /* OpExecutionMode with three sizes */
    LOCAL_SIZE = 17,
    CONSTANT_32 = 4 << 16 | 43, /* OpConstant of one word */
    CAPABILITY = 2 << 16 | 17,
    INT64 = 11,
    KERNEL = 6
};

/* Forward is refused with one of the statuses; the output keeps its fill. */
static void refused(cts *t, struct changed *c, ddisp_status status, const char *reason,
                    const char *limit)
{
    ddisp_kernel *kernel = cts_kernel(t, &c->source);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), NULL), status,
                "square", reason, limit);
    ddisp_kernel *good = cts_kernel(t, &cts_square); /* the failure leaves nothing behind */
    CTS_FORWARD(good, x, y);
    CTS_VALUES(y, 1, 4, 9);
}

static void case_45_code_for_another_architecture(cts *t)
{
    struct changed c;
    make(&c);
    uint32_t own = own_code(t);
    void *bytes = NULL;
    if (is(t, "cuda")) {
        bytes =
            replaced(&c.codes[own], ".target sm_75", ".target sm_999", &c.codes[own].size_bytes);
    } else { /* OpenCL's Kernel instead of Int64 */
        bytes = patched(&c.codes[own], CAPABILITY, 1, INT64, 1, KERNEL);
    }
    c.codes[own].bytes = bytes;
    ddisp_kernel *kernel = NULL;
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    kernel = cts_kernel(t, &c.source);
    free(bytes); /* was copied */
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), NULL),
                DDISP_STATUS_NO_CODE, "square", is(t, "cuda") ? "sm_999" : "capability 6");
}

static void case_45_group_too_large(cts *t)
{
    struct changed c;
    make(&c);
    uint32_t own = own_code(t);
    uint32_t *words = NULL;
    char limit[16];
    (void)snprintf(limit, sizeof limit, "%u", t->info.max_group_threads);
    for (uint32_t e = 0; e < c.codes[own].entry_count; e++)
        c.entries[own][e].group_size[0] = 4096;
    if (is(t, "vulkan")) {
        words = patched(&c.codes[own], LOCAL_SIZE_MODE, 2, LOCAL_SIZE, 3, 4096);
        c.codes[own].bytes = words; /* and the constant behind the built-in WorkgroupSize */
        uint32_t *both = patched(&c.codes[own], CONSTANT_32, 3, 64, 3, 4096);
        free(words);
        c.codes[own].bytes = words = both;
    }
    refused(t, &c, DDISP_STATUS_LIMIT_EXCEEDED, "4096", limit);
    free(words);
}

static void group_size_other_than_that_of_the_module_is_refused(cts *t)
{
    struct changed c;
    make(&c);
    uint32_t own = own_code(t);
    c.entries[own][0].group_size[0] = 128;
    ddisp_kernel *kernel = NULL;
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "square";
    desc.params = c.source.params;
    desc.param_count = c.source.param_count;
    desc.param_size = (uint32_t)sizeof(ddisp_param);
    desc.codes = c.codes;
    desc.code_count = c.source.code_count;
    desc.code_size = (uint32_t)sizeof(ddisp_code);
    CTS_REFUSED(t, ddisp_kernel_create(t->context, &desc, &kernel), DDISP_STATUS_CODE_INVALID,
                "128", "64");
}

static void case_45_too_much_shared_memory(cts *t)
{
    struct changed c;
    make(&c);
    uint32_t own = own_code(t);
    for (uint32_t e = 0; e < c.codes[own].entry_count; e++)
        c.entries[own][e].shared_bytes = 1u << 30;
    char limit[16];
    (void)snprintf(limit, sizeof limit, "%u", t->info.max_shared_bytes);
    refused(t, &c, DDISP_STATUS_LIMIT_EXCEEDED, "1073741824", limit);
}

/* Case 20: more items than groups of one item per thread can hold, where that limit is low enough
 * to be reached, and many items anyway. A looping code takes any number. */
static void case_20_more_groups_than_the_limit(cts *t)
{
    uint64_t limit = t->info.max_group_count[0], n = limit * 64 + 1;
    bool past = n <= UINT64_C(1) << 24;
    if (!past)
        n = 65535 * 256 + 1;
    ddisp_kernel *one_each = cts_kernel(t, &cts_mul), *looping = cts_kernel(t, &cts_linear);
    int64_t shape = (int64_t)n;
    char asked[24], most[24];
    ddisp_tensor *a = cts_vector(t, shape, 0, NULL), *y = cts_vector(t, shape, 0, NULL);
    (void)snprintf(asked, sizeof asked, "%llu", (unsigned long long)(limit + 1));
    (void)snprintf(most, sizeof most, "%llu", (unsigned long long)limit);
    ddisp_status status = cts_launch(one_each, DDISP_MODE_FORWARD, CTS_TENSORS(a, a, y), NULL);
    if (past)
        CTS_FAILS(status, DDISP_STATUS_LIMIT_EXCEEDED, "mul", asked, most);
    else
        CTS_OK(status);
    float *data = malloc(n * sizeof *data);
    assert_non_null(data);
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)(i % 1000);
    status = ddisp_tensor_write(a, data, n * sizeof *data, NULL);
    if (!status)
        status = cts_launch(looping, DDISP_MODE_FORWARD, CTS_TENSORS(a, a, y), NULL);
    memset(data, 0, n * sizeof *data);
    if (!status)
        status = ddisp_tensor_read(y, data, n * sizeof *data, NULL);
    uint64_t wrong = n;
    for (uint64_t i = n; i-- > 0 && !status;)
        if (!(data[i] == (float)(3 * (i % 1000))))
            wrong = i;
    free(data);
    CTS_OK(status);
    CTS_CHECK(wrong == n, "element %llu of %llu is wrong", (unsigned long long)wrong,
              (unsigned long long)n);
}

static void case_20_many_rows(cts *t)
{
    static const int64_t rows[] = {65535, 65536, 70000};
    static float data[70000 * 4];
    static double values[70000 * 4];
    ddisp_kernel *kernel = cts_kernel(t, &cts_linear);
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++)
        data[i] = (float)(i % 999);
    for (int r = 0; r < 3; r++) {
        int64_t shape[2] = {rows[r], 4};
        size_t n = (size_t)(rows[r] * 4);
        ddisp_tensor *x = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, 0, data);
        ddisp_tensor *y = cts_tensor(t, DDISP_DTYPE_F32, 2, shape, NULL, 0, NULL);
        CTS_FORWARD(kernel, x, x, y);
        cts_read(y, values, n);
        for (size_t i = 0; i < n; i++)
            CTS_CHECK(values[i] == 3.0 * (double)(i % 999), "%lld rows: element %zu is %g",
                      (long long)rows[r], i, values[i]);
    }
}

static void explicit_grid_is_checked(cts *t)
{
    ddisp_kernel *kernel = cts_kernel(t, &cts_square);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, NULL);
    uint32_t limit = t->info.max_group_count[1];
    char most[16];
    (void)snprintf(most, sizeof most, "%u", limit);
    options.grid[0] = options.grid[2] = 1;
    options.grid[1] = 70000;
    CTS_REFUSED(t, cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options),
                DDISP_STATUS_LIMIT_EXCEEDED, "square", "y", "70000", most);
    options.grid[1] = 1;
    CTS_OK(cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options));
    CTS_VALUES(y, 1, 4, 9);
}

/* The first code that fits is taken; one that does not is passed over. */
static void later_code_serves_when_an_earlier_does_not_fit(cts *t)
{
    struct changed c;
    make(&c);
    uint32_t own = own_code(t), last = c.source.code_count;
    void *bytes = is(t, "cuda") ? (void *)replaced(&c.codes[own], ".target sm_75", ".target sm_999",
                                                   &c.codes[own].size_bytes)
                                : (void *)patched(&c.codes[own], CAPABILITY, 1, INT64, 1, KERNEL);
    assert_true(last < 8);
    c.codes[own].bytes = bytes;
    c.codes[last] = cts_square.codes[own];
    c.source.code_count = last + 1;
    ddisp_kernel *kernel = cts_kernel(t, &c.source);
    free(bytes);
    ddisp_report *report = cts_report(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, report);
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1, 2, 3), *y = cts_vector(t, 3, 0, NULL);
    CTS_OK(cts_launch(kernel, DDISP_MODE_FORWARD, CTS_TENSORS(x, y), &options));
    CTS_VALUES(y, 1, 4, 9);
    assert_int_equal(cts_report_info(report).code, last);
}

/* Vulkan: the twin that adds by compare-and-swap gives the same sums as the native one. */
static void compare_and_swap_twin_agrees(cts *t)
{
    enum { N = 4096 };
    cts_source twin = cts_component;
    ddisp_code codes[2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < cts_component.code_count; i++)
        if (is(t, cts_component.codes[i].backend) && count++ == 2)
            codes[0] = cts_component.codes[i];
    assert_true(count == 3); /* forward, backward, backward by compare-and-swap */
    twin.codes = codes;
    twin.code_count = 1;
    static float rows[3 * N], ones[N];
    for (int i = 0; i < N; i++) {
        rows[3 * i] = (float)(i % 7);
        ones[i] = 1;
    }
    ddisp_tensor *v = cts_tensor(t, DDISP_DTYPE_F32, 2, (const int64_t[]){N, 3}, NULL, 0, rows);
    ddisp_tensor *s = CTS_VECTOR(t, CTS_GRAD, 2), *y = cts_vector(t, N, CTS_GRAD, NULL);
    CTS_OK(ddisp_tensor_set_grad(y, cts_vector(t, N, 0, ones)));
    CTS_OK(CTS_BACKWARD(cts_kernel(t, &twin), NULL, v, s, y));
    CTS_GRADIENT(s, 12285); /* 585 whole cycles of 0 + ... + 6, and one item of 0 */
}

const cts_test cts_code_tests[] = {
    CTS_TEST_ON("vulkan cuda", case_45_code_for_another_architecture),
    CTS_TEST_ON("vulkan cuda", case_45_group_too_large),
    CTS_TEST_ON("vulkan", group_size_other_than_that_of_the_module_is_refused),
    CTS_TEST_ON("vulkan cuda", case_45_too_much_shared_memory),
    CTS_TEST_ON("vulkan cuda", case_20_more_groups_than_the_limit),
    CTS_TEST(case_20_many_rows),
    CTS_TEST_ON("vulkan cuda", explicit_grid_is_checked),
    CTS_TEST_ON("vulkan cuda", later_code_serves_when_an_earlier_does_not_fit),
    CTS_TEST_ON("vulkan", compare_and_swap_twin_agrees),
    CTS_END,
};
