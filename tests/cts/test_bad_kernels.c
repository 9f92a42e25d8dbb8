/*
 * test_bad_kernels.c - kernels that cannot be: wrong names, parameters and codes, entries that are
 * not there, and code that is truncated or random. Found when the kernel is made, naming the
 * parameter or the code; nothing is kept.
 */
#include "cts.h"

#include <stdlib.h>

static const ddisp_status bad = DDISP_STATUS_INVALID_ARGUMENT;

/* A description of the kernel mul with arrays of its own, to be spoilt. */
struct spoilt {
    ddisp_kernel_desc desc;
    ddisp_param params[3];
    ddisp_code codes[8];
    ddisp_entry entries[8];
};

/* The index of the first code for the backend under test, whose entries are this struct's. */
static uint32_t make(cts *t, struct spoilt *s)
{
    uint32_t own = UINT32_MAX;
    memset(s, 0, sizeof *s);
    memcpy(s->params, cts_mul.params, sizeof s->params);
    for (uint32_t i = 0; i < cts_mul.code_count; i++) {
        s->codes[i] = cts_mul.codes[i];
        if (own == UINT32_MAX && strcmp(s->codes[i].backend, t->info.backend) == 0)
            own = i;
    }
    assert_true(own != UINT32_MAX);
    memcpy(s->entries, s->codes[own].entries, s->codes[own].entry_count * sizeof(ddisp_entry));
    s->codes[own].entries = s->entries;
    s->desc.size = (uint32_t)sizeof s->desc;
    s->desc.name = "mul";
    s->desc.params = s->params;
    s->desc.param_count = 3;
    s->desc.param_size = (uint32_t)sizeof s->params[0];
    s->desc.codes = s->codes;
    s->desc.code_count = cts_mul.code_count;
    s->desc.code_size = (uint32_t)sizeof s->codes[0];
    return own;
}

static ddisp_status create(cts *t, const struct spoilt *s)
{
    ddisp_kernel *kernel = NULL;
    ddisp_status status = ddisp_kernel_create(t->context, &s->desc, &kernel);
    CTS_CHECK(!kernel == !!status, "the call gave %s and %s", ddisp_status_name(status),
              kernel ? "a kernel" : "no kernel");
    ddisp_kernel_release(kernel);
    return status;
}

/* The description with one thing changed is refused with these words. */
#define SPOILT(t, change, status, ...)                                                             \
    do {                                                                                           \
        struct spoilt s;                                                                           \
        uint32_t own = make((t), &s);                                                              \
        (void)own;                                                                                 \
        change;                                                                                    \
        CTS_REFUSED(t, create(t, &s), status, __VA_ARGS__);                                        \
    } while (0)

static void names_are_checked(cts *t)
{
    char longest[130];
    memset(longest, 'x', sizeof longest);
    longest[128] = 0;
    SPOILT(t, s.desc.name = NULL, bad, "name");
    SPOILT(t, s.desc.name = "", bad, "name");
    SPOILT(t, s.desc.name = "2fast", bad, "name");
    SPOILT(t, s.desc.name = "two words", bad, "name");
    SPOILT(t, s.params[1].name = NULL, bad, "params[1]");
    SPOILT(t, s.params[1].name = "b'", bad, "params[1]");
    SPOILT(t, s.params[1].name = "a", bad, "'a'");
    struct spoilt s;
    (void)make(t, &s);
    s.desc.name = longest;
    s.params[0].name = "A_1.b";
    CTS_OK(create(t, &s));
    longest[128] = 'x';
    longest[129] = 0;
    CTS_FAILS(create(t, &s), bad, "name");
}

static void parameters_are_checked(cts *t)
{
    SPOILT(t, s.desc.params = NULL, bad, "params");
    SPOILT(t, s.desc.param_count = 65, bad, "param_count", "65", "64");
    SPOILT(t, s.desc.param_size = 8, bad, "params", "8");
    SPOILT(t, s.params[1].kind = 9, bad, "'b'", "kind", "9");
    SPOILT(t, s.params[1].access = 0, bad, "'b'", "access");
    SPOILT(t, s.params[1].access = 4, bad, "'b'", "access", "4");
    SPOILT(t, s.params[1].dtype = 77, bad, "'b'", "dtype", "77");
    SPOILT(t, s.params[1].rank = 9, bad, "'b'", "rank", "9");
    SPOILT(t, s.params[1].flags |= UINT64_C(1) << 40, bad, "'b'", "flags");
    SPOILT(t, s.params[1].dtype = DDISP_DTYPE_I32, bad, "'b'", "i32");
    SPOILT(t, s.params[1].kind = DDISP_PARAM_KIND_SCALAR, bad, "'b'", "scalar");
    SPOILT(t, s.params[0].flags |= DDISP_PARAM_ITEMS;
           s.params[1].flags |= DDISP_PARAM_ITEMS, bad, "DDISP_PARAM_ITEMS");
}

static void descriptions_are_checked(cts *t)
{
    ddisp_chain chain = {(uint32_t)sizeof chain, 33, NULL};
    SPOILT(t, s.desc.size = 4, bad, "size");
    SPOILT(t, s.desc.size = 5000, bad, "size");
    SPOILT(t, s.desc.flags = 1, bad, "flags");
    SPOILT(t, s.desc.next = &chain, bad, "next", "33");
    SPOILT(t, s.desc.codes = NULL, bad, "codes");
    SPOILT(t, s.desc.code_count = 0, bad, "code_count");
    SPOILT(t, s.desc.code_size = 8, bad, "codes", "8");
    ddisp_kernel *kernel = NULL;
    CTS_FAILS(ddisp_kernel_create(t->context, NULL, &kernel), bad, "desc");
    struct spoilt s;
    (void)make(t, &s);
    CTS_FAILS(ddisp_kernel_create(t->context, &s.desc, NULL), bad, "out_kernel");
}

static void codes_are_checked(cts *t)
{
    ddisp_code_param p = {0};
    SPOILT(t, s.codes[own].backend = NULL, bad, "code", "backend");
    SPOILT(t, s.codes[own].format = NULL, bad, "code", "format");
    SPOILT(t, s.codes[own].flags |= UINT64_C(1) << 50, bad, "code", "flags");
    SPOILT(t, s.codes[own].entries = NULL, bad, "code", "entries");
    SPOILT(t, s.codes[own].entry_count = 0, bad, "code", "entr");
    SPOILT(t, s.codes[own].entry_size = 8, bad, "code", "8");
    SPOILT(t, s.entries[0].mode = 9, bad, "code", "mode", "9");
    SPOILT(t, s.entries[0].flags |= UINT64_C(1) << 50, bad, "code", "flags");
    p.param = 3; /* mul has 0 to 2 */
    SPOILT(t,
           (s.codes[own].params = &p, s.codes[own].param_count = 1,
            s.codes[own].param_size = (uint32_t)sizeof p),
           bad, "code", "3");
    p.param = 0;
    p.write_mode = 9;
    SPOILT(t,
           (s.codes[own].params = &p, s.codes[own].param_count = 1,
            s.codes[own].param_size = (uint32_t)sizeof p),
           bad, "code", "9");
    p.write_mode = 0;
    p.grad_dtype = DDISP_DTYPE_I32;
    SPOILT(t,
           (s.codes[own].params = &p, s.codes[own].param_count = 1,
            s.codes[own].param_size = (uint32_t)sizeof p),
           bad, "code", "grad_dtype", "7");
}

static void codes_of_absent_backends_are_kept_unread(cts *t)
{
    struct spoilt s;
    uint32_t last = make(t, &s);
    last = s.desc.code_count++;
    s.codes[last] = s.codes[0];
    s.codes[last].backend = "abacus";
    s.codes[last].format = "beads";
    s.codes[last].bytes = "\1\2\3";
    s.codes[last].size_bytes = 3;
    CTS_OK(create(t, &s));
}

/* A format that the backend does not take is no fault of the kernel: other codes may serve. */
static void unknown_format_is_passed_over(cts *t)
{
    struct spoilt s;
    uint32_t own = make(t, &s);
    for (uint32_t i = 0; i < s.desc.code_count; i++)
        if (strcmp(s.codes[i].backend, t->info.backend) == 0)
            s.codes[i].format = "punched-cards";
    cts_source source = cts_mul;
    ddisp_tensor *a = CTS_VECTOR(t, 0, 1, 2), *y = cts_vector(t, 2, 0, NULL);
    source.codes = s.codes;
    CTS_REFUSED(t,
                cts_launch(cts_kernel(t, &source), DDISP_MODE_FORWARD, CTS_TENSORS(a, a, y), NULL),
                DDISP_STATUS_NO_CODE, "mul", "punched-cards");
    s.codes[source.code_count] = cts_mul.codes[own];
    source.code_count++;
    CTS_FORWARD(cts_kernel(t, &source), a, a, y);
    CTS_VALUES(y, 1, 4);
}

static bool has_bytes(cts *t)
{
    return strcmp(t->info.backend, "host") != 0;
}

static void truncated_code_is_invalid(cts *t)
{
    struct spoilt s;
    uint32_t own = make(t, &s);
    uint64_t whole = s.codes[own].size_bytes;
    const uint64_t sizes[] = {0, 1, 3, 4, 19, 20, 24, whole / 4, whole / 2, whole - 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        s.codes[own].size_bytes = sizes[i];
        cts_note(t);
        ddisp_status status = create(t, &s);
        CTS_CHECK(status == DDISP_STATUS_CODE_INVALID || status == DDISP_STATUS_NOT_FOUND ||
                      (sizes[i] == 0 && status == bad),
                  "%llu of %llu bytes: %s", (unsigned long long)sizes[i], (unsigned long long)whole,
                  ddisp_status_name(status));
        CTS_UNCHANGED(t);
    }
    s.codes[own].size_bytes = whole;
    s.codes[own].bytes = NULL;
    CTS_REFUSED(t, create(t, &s), bad, "code", "bytes");
}

/* Truncated at every word, or with words turned into noise: refused, or accepted, never a crash. */
static void random_code_is_invalid(cts *t)
{
    struct spoilt s;
    uint32_t own = make(t, &s), seed = 12345;
    uint64_t whole = s.codes[own].size_bytes;
    unsigned char *bytes = malloc(whole);
    assert_non_null(bytes);
    for (int round = 0; round < 300; round++) {
        memcpy(bytes, cts_mul.codes[own].bytes, whole);
        for (int hits = 0; hits <= round % 8; hits++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[(seed >> 8) % whole] = (unsigned char)(seed >> 24);
        }
        s.codes[own].bytes = bytes;
        ddisp_kernel *kernel = NULL;
        if (!ddisp_kernel_create(t->context, &s.desc, &kernel))
            ddisp_kernel_release(kernel);
    }
    for (uint64_t i = 0; i < whole; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(seed >> 24);
    }
    cts_note(t);
    ddisp_status status = create(t, &s);
    free(bytes);
    assert_int_equal(status, DDISP_STATUS_CODE_INVALID);
    CTS_UNCHANGED(t);
}

static void missing_entry_is_not_found(cts *t)
{
    if (has_bytes(t)) {
        SPOILT(t, s.entries[0].name = "mul_sideways", DDISP_STATUS_NOT_FOUND, "mul_sideways",
               "code");
        SPOILT(t, s.entries[0].name = NULL, DDISP_STATUS_NOT_FOUND, "code", "entry ''");
    } else {
        SPOILT(t, s.entries[0].function = NULL, DDISP_STATUS_CODE_INVALID, "code", "function");
    }
}

const cts_test cts_bad_kernel_tests[] = {
    CTS_TEST(names_are_checked),
    CTS_TEST(parameters_are_checked),
    CTS_TEST(descriptions_are_checked),
    CTS_TEST(codes_are_checked),
    CTS_TEST(codes_of_absent_backends_are_kept_unread),
    CTS_TEST(unknown_format_is_passed_over),
    CTS_TEST_ON("vulkan cuda", truncated_code_is_invalid),
    CTS_TEST_ON("vulkan cuda", random_code_is_invalid),
    CTS_TEST(missing_entry_is_not_found),
    CTS_END,
};
