/*
 * test_cuda_ptx.c - reading PTX: what is found in it, what is refused with which words, which lines
 * are switches, and that no text, however broken, is read beyond its end or rewritten elsewhere.
 */
#include "cuda_code.h"
#include "cuda_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static char *sample;
static uint64_t sample_size;

/* A copy of exactly this size, so that a checker of memory sees every byte read too far. */
static char *exact(const char *text, uint64_t size_bytes)
{
    char *copy = malloc(size_bytes ? size_bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, size_bytes);
    return copy;
}

static ddisp_status inspect(sample_code *code, uint64_t *out_mask)
{
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    sample_message[0] = '\0';
    ddisp_status status = cuda__inspect(&sample_services, &code->backend_code, &info);
    *out_mask = info.switch_mask;
    return status;
}

static ddisp_status inspect_text(const char *text, uint64_t size_bytes, ddisp_mode mode,
                                 const char *entry, uint32_t group_size, uint64_t *out_mask)
{
    sample_code code;
    char *copy = exact(text, size_bytes);
    sample_declare(&code, copy, size_bytes, mode, entry, group_size);
    ddisp_status status = inspect(&code, out_mask);
    free(copy);
    return status;
}

static void says(const char *part)
{
    if (!strstr(sample_message, part)) {
        fail_msg("'%s' is not in: %s", part, sample_message);
    }
}

/* Header, an entry with a block of 992 bytes, directives, body. */
static const char *text_with(const char *directives, const char *body)
{
    static char text[4096];
    (void)snprintf(
        text, sizeof text,
        ".version 7.5\n.target sm_75\n.address_size 64\n"
        ".visible .entry k(\n\t.param .align 8 .b8 k_param_0[992]\n)\n%s\n{\n%s\n\tret;\n"
        "}\n",
        directives, body);
    return text;
}

static uint64_t mask_of(const char *text)
{
    uint64_t mask = 0;
    ddisp_status status = inspect_text(text, strlen(text), DDISP_MODE_BACKWARD, "k", 256, &mask);
    if (status != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    return mask;
}

static void sample_is_read_as_it_is(void **state)
{
    (void)state;
    cuda__ptx_reader reader;
    cuda__ptx_entry entry;
    uint64_t mask = 0;
    assert_int_equal(cuda__ptx_find(&reader, sample, sample_size, "sample_backward", &entry, &mask),
                     CUDA__PTX_FOUND);
    assert_int_equal(reader.header.version_major, 7);
    assert_int_equal(reader.header.version_minor, 5);
    assert_int_equal(reader.header.target_major, 7);
    assert_int_equal(reader.header.target_minor, 5);
    assert_int_equal(reader.header.target_suffix, 0);
    assert_int_equal(entry.param_count, 1);
    assert_int_equal(entry.param_bytes, SAMPLE_BLOCK_BYTES);
    assert_false(entry.param_is_scalar);
    assert_int_equal(entry.maximum[0], 256);
    assert_int_equal(entry.maximum[1], 1);
    assert_int_equal(entry.required[0], 0);
    assert_int_equal(mask, 3);
    assert_int_equal(cuda__ptx_find(&reader, sample, sample_size, "sample_wide", &entry, &mask),
                     CUDA__PTX_FOUND);
    assert_true(entry.param_is_scalar);
    assert_int_equal(entry.param_bytes, 8);
    assert_int_equal(mask, 0);
}

static void switches_are_reported_from_the_backward_entry(void **state)
{
    (void)state;
    sample_code code;
    uint64_t mask;
    sample_declare(&code, sample, sample_size, DDISP_MODE_FORWARD, "sample_forward", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 0);
    sample_add_entry(&code, DDISP_MODE_BACKWARD, "sample_backward", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 3);
    /* A second backward entry without switches: nothing is removable for sure. */
    sample_add_entry(&code, DDISP_MODE_BACKWARD, "sample_forward", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 0);
    /* Unless that one is bound to a mask. */
    code.entries[2].flags = DDISP_ENTRY_MASKED;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 3);
}

static void switches_of_called_functions_count(void **state)
{
    (void)state;
    static const char text[] =
        ".version 7.5\n.target sm_75\n.address_size 64\n"
        ".func helper()\n{\n\tmov.u32 %r1, 1; // DDISP_SWITCH(1)\n\tret;\n}\n"
        ".entry other(.param .b8 p[992])\n{\n\tmov.u32 %r1, 1; // DDISP_SWITCH(2)\n\tret;\n}\n"
        ".entry k(.param .b8 p[992])\n{\n\tmov.u32 %r1, 1; // DDISP_SWITCH(0)\n\tret;\n}\n";
    assert_int_equal(mask_of(text), 3); /* not that of the other entry */
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    sample_code code;
    uint64_t mask, end = sample_size;
    while (sample[end - 1] != '}') {
        end--;
    }
    for (uint64_t size = 0; size < end; size++) {
        char *cut = exact(sample, size);
        sample_declare(&code, cut, size, DDISP_MODE_FORWARD, "sample_forward", 256);
        sample_add_entry(&code, DDISP_MODE_BACKWARD, "sample_backward", 256);
        sample_add_entry(&code, DDISP_MODE_FORWARD, "sample_wide", 256);
        ddisp_status status = inspect(&code, &mask);
        if (status != DDISP_STATUS_CODE_INVALID && status != DDISP_STATUS_NOT_FOUND) {
            fail_msg("cut at %llu of %llu: status %u", (unsigned long long)size,
                     (unsigned long long)end, status);
        }
        assert_true(strlen(sample_message) > 20);
        free(cut);
    }
    assert_int_equal(inspect_text(sample, end, DDISP_MODE_BACKWARD, "sample_backward", 256, &mask),
                     DDISP_STATUS_OK);
}

static void cuts_are_explained(void **state)
{
    (void)state;
    uint64_t mask;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", ".version is missing"},
        {"not PTX at all", ".version is missing"},
        {".version 8\n", ".version is not followed by a number"},
        {".version 8.0\n", ".target is missing"},
        {".version 8.0\n.target gfx90\n", ".target does not begin"},
        {".version 8.0\n.target sm_75\n", ".address_size is missing"},
        {".version 8.0\n.target sm_75\n.address_size 32\n", ".address_size is not 64"},
        {".version 8.0\n.target sm_75\n.address_size 64\n", "has no .entry"},
        {".version 8.0\n.target sm_75\n.address_size 64\n.entry k", "ends in the declaration"},
        {".version 8.0\n.target sm_75\n.address_size 64\n.entry k(.par", "ends in the parameters"},
        {".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { ret;", "closing brace"},
        {".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { ret; } }", "no opening one"},
        {".version 8.0\n.target sm_75\n.address_size 64\n/* .entry k() {}", "ends in a comment"},
        {".version 8.0\n.target sm_75\n.address_size 64\n.file 1 \"a\n\"", "string is not closed"},
        {".version 8.0\n.target sm_75\n.address_size 64\n\x01.entry k() {}", "byte 0x01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            inspect_text(cases[i].text, strlen(cases[i].text), DDISP_MODE_FORWARD, "k", 256, &mask),
            DDISP_STATUS_CODE_INVALID);
        says(cases[i].words);
        says("sample"); /* the kernel's name */
    }
}

static void nul_bytes_are_taken_only_at_the_end(void **state)
{
    (void)state;
    uint64_t mask;
    char *copy = calloc(1, sample_size + 3);
    assert_non_null(copy);
    memcpy(copy, sample, sample_size);
    assert_int_equal(
        inspect_text(copy, sample_size + 3, DDISP_MODE_BACKWARD, "sample_backward", 256, &mask),
        DDISP_STATUS_OK);
    copy[700] = '\0';
    assert_int_equal(
        inspect_text(copy, sample_size, DDISP_MODE_BACKWARD, "sample_backward", 256, &mask),
        DDISP_STATUS_CODE_INVALID);
    says("byte 700 of the text is NUL");
    free(copy);
}

static void missing_entry_is_named(void **state)
{
    (void)state;
    uint64_t mask;
    assert_int_equal(
        inspect_text(sample, sample_size, DDISP_MODE_BACKWARD, "sample_back", 256, &mask),
        DDISP_STATUS_NOT_FOUND);
    says("'sample_back'");
    says("3 other entries");
}

static void mask_patterns_match_names(void **state)
{
    (void)state;
    static const char text[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
                               ".entry bwd_1_x(.param .b8 p[992]) { ret; }\n"
                               ".entry bwd_13_x(.param .b8 p[992]) { ret; }\n";
    sample_code code;
    uint64_t mask;
    sample_declare(&code, text, strlen(text), DDISP_MODE_BACKWARD, "bwd_{mask}_x", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.entries[0].flags = DDISP_ENTRY_MASKED;
    code.entries[0].mask = 13;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.entries[0].mask = 2;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_NOT_FOUND);
    says("'bwd_2_x'");
    code.entries[0].flags = 0;
    code.entries[0].name = "bwd_{mask}_y";
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_NOT_FOUND);
}

static void geometry_is_checked_with_both_numbers(void **state)
{
    (void)state;
    uint64_t mask;
    const char *text = text_with(".reqntid 128, 2", "");
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_FORWARD, "k", 256, &mask),
                     DDISP_STATUS_CODE_INVALID);
    says("128,2,1");
    says("256,1,1");
    text = text_with(".reqntid 256", "");
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_FORWARD, "k", 256, &mask),
                     DDISP_STATUS_OK);
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_FORWARD, "k", 0, &mask),
                     DDISP_STATUS_OK); /* 0 is the default, 256 */
    text = text_with(".maxntid 16, 8, 1\n.minnctapersm 2", "");
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_FORWARD, "k", 256, &mask),
                     DDISP_STATUS_CODE_INVALID);
    says("at most 128");
    says("= 256");
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_FORWARD, "k", 128, &mask),
                     DDISP_STATUS_OK);
}

static void argument_block_is_checked_with_both_sizes(void **state)
{
    (void)state;
    sample_code code;
    uint64_t mask;
    sample_declare(&code, sample, sample_size, DDISP_MODE_FORWARD, "sample_forward", 256);
    code.backend_code.block_size_bytes = 672;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("992 bytes");
    says("672 bytes");
    code.backend_code.block_size_bytes = WIDE_BLOCK_BYTES;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("4192");
    code.entries[0].name = "sample_wide";
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.backend_code.block_size_bytes = SAMPLE_BLOCK_BYTES;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("8 bytes");

    static const char two[] = ".version 7.5\n.target sm_75\n.address_size 64\n.entry k(\n"
                              ".param .u64 .ptr .global .align 4 a,\n.param .f32 b)\n{ ret; }\n";
    static const ddisp_native_arg native[2] = {DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
                                               DDISP_NATIVE(DDISP_SOURCE_SCALAR, 1)};
    sample_declare(&code, two, strlen(two), DDISP_MODE_FORWARD, "k", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("2 parameters");
    code.entries[0].native = native;
    code.entries[0].native_count = 2;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
}

static void exact_switch_lines_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint64_t mask;
    } cases[] = {
        {"mov.u32 %r5, 1; // DDISP_SWITCH(0)", 1},
        {"\tmov.u32 %r5, 1; // DDISP_SWITCH(1)", 2},
        {"  \t mov.u32 \t%r123 , \t1 ;\t // DDISP_SWITCH(2)", 4},
        {"\tmov.u32 %r5, 1; // DDISP_SWITCH(0)\r", 1},
        {"\tmov.u32 %r5, 1; // DDISP_SWITCH(0)\n\tmov.u32 %r6, 1; // DDISP_SWITCH(2)", 5},
        {"/* a\n comment */\n\tmov.u32 %r5, 1; // DDISP_SWITCH(0)", 1},
        {"{\n\tmov.u32 %r5, 1; // DDISP_SWITCH(0)\n}", 1},
        {"\t// begin inline asm\n\tmov.u32 %r5, 1; // DDISP_SWITCH(1)\n\t// end inline asm", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = text_with("", cases[i].line);
        if (mask_of(text) != cases[i].mask) {
            fail_msg("line %zu: %s", i, cases[i].line);
        }
    }
}

static void other_lines_are_left_alone(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "/*\n\tmov.u32 %r5, 1; // DDISP_SWITCH(0)\n*/",
        "/* mov.u32 %r5, 1; // DDISP_SWITCH(0)\n*/",
        "// mov.u32 %r5, 1; // DDISP_SWITCH(0)",
        "/**/ mov.u32 %r5, 1; // DDISP_SWITCH(0)",
        ".file 1 \"mov.u32 %r5, 1; // DDISP_SWITCH(0)\"",
        ".file 1 \"/*\"\n// \"\n.file 2 \"*/ mov.u32 %r5, 1; // DDISP_SWITCH(0)\"",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(0) and more",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(0) ",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(0);",
        "\tmov.u32 %r5, 0; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 11; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 1U; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(64)",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(00)",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH(-1)",
        "\tmov.u32 %r5, 1; // DDISP_SWITCH()",
        "\tmov.u32 %r5, 1; // ddisp_switch(0)",
        "\tmov.u32 %r5, 1; //DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 1;// DDISP_SWITCH(0)",
        "\tmov.u32 %r5,1; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5  , 1; // DDISP_SWITCH(0)",
        "\tmov.u32 %rd5, 1; // DDISP_SWITCH(0)",
        "\tmov.u32 %r, 1; // DDISP_SWITCH(0)",
        "\tmov.u64 %r5, 1; // DDISP_SWITCH(0)",
        "\tmov.b32 %r5, 1; // DDISP_SWITCH(0)",
        "@%p1 mov.u32 %r5, 1; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 1; mov.u32 %r6, 1; // DDISP_SWITCH(0)",
        "\tmov.u32 %r5, 1 // DDISP_SWITCH(0)\n;",
        "\tmov.u32 %r5,\n1; // DDISP_SWITCH(0)",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *text = text_with("", lines[i]);
        char copy[4096];
        if (mask_of(text) != 0) {
            fail_msg("taken for a switch: %s", lines[i]);
        }
        assert_true(cuda__ptx_rewrite(text, strlen(text), UINT64_MAX, copy));
        assert_string_equal(copy, text);
    }
}

static void switch_lines_outside_of_functions_are_left_alone(void **state)
{
    (void)state;
    static const char text[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
                               "\tmov.u32 %r5, 1; // DDISP_SWITCH(0)\n"
                               ".global .b32 x[1] = {\n\tmov.u32 %r5, 1; // DDISP_SWITCH(1)\n};\n"
                               ".entry k(.param .b8 p[992])\n{\n\tret;\n}\n";
    char copy[sizeof text];
    assert_int_equal(mask_of(text), 0);
    assert_true(cuda__ptx_rewrite(text, strlen(text), UINT64_MAX, copy));
    assert_string_equal(copy, text);
}

static void switch_of_a_missing_parameter_is_refused(void **state)
{
    (void)state;
    uint64_t mask;
    const char *text = text_with("", "\tmov.u32 %r5, 1; // DDISP_SWITCH(3)");
    assert_int_equal(inspect_text(text, strlen(text), DDISP_MODE_BACKWARD, "k", 256, &mask),
                     DDISP_STATUS_CODE_INVALID);
    says("DDISP_SWITCH(3)");
    says("3 parameters");
}

static void rewriting_changes_one_digit_per_switch(void **state)
{
    (void)state;
    static const char *const lines[2] = {"mov.u32 %r3, 1; // DDISP_SWITCH(0)",
                                         "mov.u32 %r4, 1; // DDISP_SWITCH(1)"};
    char *copy = malloc(sample_size + 1);
    assert_non_null(copy);
    for (uint64_t off = 0; off < 4; off++) {
        assert_true(cuda__ptx_rewrite(sample, sample_size, off, copy));
        assert_int_equal(copy[sample_size], 0);
        uint64_t differences = 0;
        for (uint64_t i = 0; i < sample_size; i++) {
            differences += copy[i] != sample[i];
        }
        assert_int_equal(differences, (off & 1) + (off >> 1));
        for (int i = 0; i < 2; i++) {
            const char *line = strstr(sample, lines[i]);
            assert_non_null(line);
            assert_int_equal(copy[line - sample + 13], off >> i & 1 ? '0' : '1');
        }
    }
    free(copy);
}

static void compare_and_swap_is_reported(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int swaps;
    } cases[] = {{"atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", 1},
                 {"atom.cas.b64 %rd1, [%rd1], %rd2, %rd3;", 1},
                 {"atom.global.add.f32 %f1, [%rd1], %f2;", 0},
                 {"// atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", 0},
                 {"ld.global.nc.u32 %r1, [%rd1];", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
        sample_code code;
        const char *text = text_with("", cases[i].line);
        sample_declare(&code, text, strlen(text), DDISP_MODE_BACKWARD, "k", 256);
        assert_int_equal(cuda__inspect(&sample_services, &code.backend_code, &info),
                         DDISP_STATUS_OK);
        assert_int_equal(info.flags, cases[i].swaps ? DDISP_BACKEND_CODE_COMPARE_AND_SWAP : 0);
    }
}

/* Damaged text: any answer of the documented ones, no byte read beyond the end, and a rewritten
 * copy that differs by digits 1 to 0 only. */
static void random_damage_is_survived(void **state)
{
    (void)state;
    uint64_t seed = 20260131, mask;
    char *copy = malloc(sample_size + 1), *rewritten = malloc(sample_size + 1);
    assert_true(copy && rewritten);
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, sample, sample_size);
        uint64_t size = sample_size, changes = 1;
        for (uint64_t i = 0; i < changes; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            changes = 1 + (seed >> 60);
            uint64_t at = (seed >> 20) % size, from = (seed >> 33) % size;
            switch (seed >> 57 & 3) {
            case 0:
                copy[at] = (char)(seed >> 12);
                break;
            case 1: /* PTX's own characters, where they do most harm */
                copy[at] = "{}()[];,\"/*\n\\.%1 "[(seed >> 12) % 17];
                break;
            case 2: {
                uint64_t length = size - (at > from ? at : from);
                memmove(copy + at, copy + from, length < 40 ? length : 40);
                break;
            }
            default:
                size = size - (seed >> 40) % 16 > 16 ? size - (seed >> 40) % 16 : size;
            }
        }
        ddisp_status status =
            inspect_text(copy, size, DDISP_MODE_BACKWARD, "sample_backward", 256, &mask);
        assert_true(status == DDISP_STATUS_OK || status == DDISP_STATUS_CODE_INVALID ||
                    status == DDISP_STATUS_NOT_FOUND);
        char *tight = exact(copy, size);
        (void)cuda__ptx_rewrite(tight, size, UINT64_MAX, rewritten);
        for (uint64_t i = 0; i < size; i++) {
            if (rewritten[i] != copy[i] && (rewritten[i] != '0' || copy[i] != '1')) {
                fail_msg("round %d: byte %llu was rewritten", round, (unsigned long long)i);
            }
        }
        free(tight);
    }
    free(copy);
    free(rewritten);
}

static ddisp_status fits(const char *version, const char *target, int driver, uint32_t major,
                         uint32_t minor)
{
    char text[512];
    sample_code code;
    cuda__device device = {.services = &sample_services,
                           .version = driver,
                           .capability_major = major,
                           .capability_minor = minor};
    (void)snprintf(text, sizeof text,
                   ".version %s\n.target %s\n.address_size 64\n.entry k() { ret; }\n", version,
                   target);
    sample_declare(&code, text, strlen(text), DDISP_MODE_FORWARD, "k", 256);
    sample_message[0] = '\0';
    return cuda__code_fits(&device, &code.backend_code);
}

static void version_is_held_against_the_driver(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        int driver;
        int fits;
    } cases[] = {
        {"6.3", 12000, 1}, {"8.0", 12000, 1}, {"8.1", 12000, 0}, {"8.1", 12010, 1},
        {"8.4", 12040, 1}, {"8.5", 12040, 0}, {"8.5", 12050, 1}, {"8.6", 12060, 0},
        {"8.6", 12080, 1}, {"8.7", 12080, 1}, {"8.8", 12080, 0}, {"8.8", 12090, 1},
        {"9.0", 12090, 0}, {"9.0", 13000, 1}, {"9.1", 13000, 0}, {"9.1", 13010, 1},
        {"9.0", 14000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_status status = fits(cases[i].version, "sm_75", cases[i].driver, 9, 0);
        if (status != (cases[i].fits ? DDISP_STATUS_OK : DDISP_STATUS_UNSUPPORTED)) {
            fail_msg("PTX %s, driver %d: %u", cases[i].version, cases[i].driver, status);
        }
    }
    (void)fits("9.0", "sm_75", 12040, 9, 0);
    says("PTX 9.0");
    says("CUDA 13.0");
    says("CUDA 12.4");
}

static void target_is_held_against_the_device(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        uint32_t major, minor;
        int fits;
    } cases[] = {
        {"sm_75", 7, 5, 1},        {"sm_75", 9, 0, 1},    {"sm_90", 8, 9, 0},
        {"sm_90", 10, 0, 1},       {"sm_90a", 9, 0, 1},   {"sm_90a", 10, 0, 0},
        {"sm_90a", 8, 6, 0},       {"sm_100f", 10, 3, 1}, {"sm_100f", 12, 0, 0},
        {"sm_103f", 10, 0, 0},     {"sm_120", 10, 3, 0},  {"sm_52", 9, 0, 1},
        {"sm_90, debug", 9, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_status status = fits("8.0", cases[i].target, 13000, cases[i].major, cases[i].minor);
        if (status != (cases[i].fits ? DDISP_STATUS_OK : DDISP_STATUS_UNSUPPORTED)) {
            fail_msg("%s on %u.%u: %u", cases[i].target, cases[i].major, cases[i].minor, status);
        }
    }
    (void)fits("8.0", "sm_90a", 13000, 10, 0);
    says("sm_90a exactly");
    says("sm_100");
}

static void other_formats_are_refused_by_name(void **state)
{
    (void)state;
    sample_code code;
    uint64_t mask;
    cuda__device device = {.services = &sample_services, .version = 13000};
    sample_declare(&code, "x", 1, DDISP_MODE_FORWARD, "k", 256);
    code.code.format = "spirv";
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_UNSUPPORTED);
    says("'spirv'");
    sample_message[0] = '\0';
    assert_int_equal(cuda__code_fits(&device, &code.backend_code), DDISP_STATUS_UNSUPPORTED);
    says("'spirv'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_read_as_it_is),
        cmocka_unit_test(switches_are_reported_from_the_backward_entry),
        cmocka_unit_test(switches_of_called_functions_count),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(cuts_are_explained),
        cmocka_unit_test(nul_bytes_are_taken_only_at_the_end),
        cmocka_unit_test(missing_entry_is_named),
        cmocka_unit_test(mask_patterns_match_names),
        cmocka_unit_test(geometry_is_checked_with_both_numbers),
        cmocka_unit_test(argument_block_is_checked_with_both_sizes),
        cmocka_unit_test(exact_switch_lines_are_found),
        cmocka_unit_test(other_lines_are_left_alone),
        cmocka_unit_test(switch_lines_outside_of_functions_are_left_alone),
        cmocka_unit_test(switch_of_a_missing_parameter_is_refused),
        cmocka_unit_test(rewriting_changes_one_digit_per_switch),
        cmocka_unit_test(compare_and_swap_is_reported),
        cmocka_unit_test(random_damage_is_survived),
        cmocka_unit_test(version_is_held_against_the_driver),
        cmocka_unit_test(target_is_held_against_the_device),
        cmocka_unit_test(other_formats_are_refused_by_name),
    };
    sample = sample_read("sample.ptx", &sample_size);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(sample);
    return failed;
}
