/*
 * test_cuda_code.c - what can be known of code for CUDA without a driver, besides the switches of
 * PTX: parameters of entries against declared lists, machine code, and the switches of source.
 */
#include "cuda_code.h"
#include "cuda_elf.h"
#include "cuda_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static void says(const char *part)
{
    if (!strstr(sample_message, part)) {
        fail_msg("'%s' is not in: %s", part, sample_message);
    }
}

static ddisp_status inspect(const sample_code *code, uint64_t *mask)
{
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info, .switch_mask = 77};
    sample_message[0] = '\0';
    ddisp_status status = cuda__inspect(&sample_services, &code->backend_code, &info);
    *mask = info.switch_mask;
    return status;
}

/* The sample's parameters: p0 and p1 are inputs a and b, p2 the output y; p3 is a scalar. */
static void declare(sample_code *code, const char *format, const void *bytes, uint64_t size_bytes,
                    ddisp_mode mode, const char *entry)
{
    sample_declare(code, bytes, size_bytes, mode, entry, 256);
    code->code.format = format;
    code->backend_code.param_count = 4;
    code->params[0].name = "a";
    code->params[1].name = "b";
    code->params[2].name = "y";
    code->params[2].access = DDISP_ACCESS_OUT;
    code->params[3].name = "k";
    code->params[3].kind = DDISP_PARAM_KIND_SCALAR;
    code->params[3].flags = 0;
}

/* ---- native arguments */

/* void mul_bwd(const float *a, const float *b, const float *gy, float *ga, float *gb,
 *              unsigned long long n, float k), as nvcc 13 writes it. */
static const char mul_bwd[] =
    ".version 7.5\n.target sm_75\n.address_size 64\n"
    ".visible .entry mul_bwd(\n"
    "\t.param .u64 mul_bwd_param_0,\n\t.param .u64 mul_bwd_param_1,\n"
    "\t.param .u64 mul_bwd_param_2,\n\t.param .u64 mul_bwd_param_3,\n"
    "\t.param .u64 mul_bwd_param_4,\n\t.param .u64 mul_bwd_param_5,\n"
    "\t.param .f32 mul_bwd_param_6\n)\n{\n"
    "\t.reg .pred %p<2>;\n\t.reg .b64 %rd<20>;\n"
    "\tld.param.u64 %rd1, [mul_bwd_param_0];\n\tld.param.u64 %rd2, [mul_bwd_param_1];\n"
    "\tld.param.u64 %rd3, [mul_bwd_param_2];\n\tld.param.u64 %rd4, [mul_bwd_param_3];\n"
    "\tld.param.u64 %rd5, [mul_bwd_param_4];\n\tld.param.u64 %rd6, [mul_bwd_param_5];\n"
    "\tsetp.ge.u64 %p1, %rd7, %rd6;\n\t@%p1 bra $L__BB0_2;\n"
    "\tcvta.to.global.u64 %rd8, %rd1;\n\tcvta.to.global.u64 %rd9, %rd2;\n"
    "\tcvta.to.global.u64 %rd10, %rd3;\n\tcvta.to.global.u64 %rd11, %rd4;\n"
    "\tcvta.to.global.u64 %rd12, %rd5;\n"
    "$L__BB0_2:\n\tret;\n}\n";

#define DATA_A DDISP_NATIVE(DDISP_SOURCE_DATA, 0)
#define DATA_B DDISP_NATIVE(DDISP_SOURCE_DATA, 1)
#define READ_Y DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2)
#define ADD_A  DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0)
#define ADD_B  DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1)
#define COUNT  DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)
#define K      DDISP_NATIVE(DDISP_SOURCE_SCALAR, 3)

static ddisp_status inspect_native(const char *text, const ddisp_native_arg *natives,
                                   uint32_t count)
{
    sample_code code;
    uint64_t mask;
    declare(&code, "ptx", text, strlen(text), DDISP_MODE_BACKWARD, "mul_bwd");
    code.entries[0].native = natives;
    code.entries[0].native_count = count;
    return inspect(&code, &mask);
}

static void right_list_is_taken(void **state)
{
    (void)state;
    static const ddisp_native_arg natives[7] = {DATA_A, DATA_B, READ_Y, ADD_A, ADD_B, COUNT, K};
    if (inspect_native(mul_bwd, natives, 7) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
}

static void swapped_and_missing_arguments_are_found_by_name(void **state)
{
    (void)state;
    static const struct {
        ddisp_native_arg natives[8];
        uint32_t count;
        const char *texts[3];
    } cases[] = {
        /* count and gradient swapped: both have 8 bytes, but the kernel uses one as an address */
        {{DATA_A, DATA_B, READ_Y, ADD_A, COUNT, ADD_B, K},
         7,
         {"native argument 4 (the element count of 'y')", "parameter 4", "takes an address"}},
        {{DATA_A, DATA_B, READ_Y, ADD_A, ADD_B, K, COUNT},
         7,
         {"native argument 5 (the scalar 'k') has 4 bytes", "parameter 5", "has 8"}},
        /* a gradient is missing */
        {{DATA_A, DATA_B, READ_Y, ADD_A, COUNT, K}, 6, {"gradient of 'b'", "added to", "GRAD_ADD"}},
        /* an input is missing: what stands in its place tells */
        {{DATA_A, READ_Y, ADD_A, ADD_B, COUNT, K},
         6,
         {"native argument 4 (the element count of 'y')", "an address",
          "7 parameters, the list 6"}},
        {{DATA_A, DATA_B, READ_Y, ADD_A, ADD_B, COUNT},
         6,
         {"7 parameters, and 6 native arguments", "parameter 6", "4 bytes"}},
        {{DATA_A, DATA_B, READ_Y, ADD_A, ADD_B, COUNT, K, COUNT},
         8,
         {"native argument 7 (the element count of 'y')", "one too many", "7 parameters"}},
        {{DATA_A, DATA_B, READ_Y, ADD_A, ADD_B, COUNT, {DDISP_SOURCE_NUMEL, 0, 0, 0, 0, 0, 4, 0}},
         7,
         {"native argument 6 (the element count of 'a')", "parameter 6", "floating-point"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(inspect_native(mul_bwd, cases[i].natives, cases[i].count),
                         DDISP_STATUS_CODE_INVALID);
        says("mul_bwd");
        for (int k = 0; k < 3; k++) {
            says(cases[i].texts[k]);
        }
    }
}

static void address_of_a_block_fits_a_pointer(void **state)
{
    (void)state;
    static const char text[] =
        ".version 7.5\n.target sm_75\n.address_size 64\n"
        ".visible .entry mul_bwd(.param .u64 .ptr .global .align 8 block, .param .u32 n)\n"
        "{ ret; }\n";
    static const ddisp_native_arg right[2] = {DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0),
                                              {DDISP_SOURCE_ITEMS, 0, 0, 0, 0, 0, 4, 0}};
    static const ddisp_native_arg wrong[2] = {DDISP_NATIVE(DDISP_SOURCE_ITEMS, 0),
                                              {DDISP_SOURCE_ITEMS, 0, 0, 0, 0, 0, 4, 0}};
    sample_code code;
    uint64_t mask;
    assert_int_equal(inspect_native(text, right, 2), DDISP_STATUS_OK);
    declare(&code, "ptx", text, strlen(text), DDISP_MODE_FORWARD, "mul_bwd");
    code.entries[0].native = wrong;
    code.entries[0].native_count = 2;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("the number of items");
    says("takes an address");
}

/* Only what is certain is refused: registers that hold something else by then say nothing. */
static void parameters_are_read_with_care(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        cuda__param_kind kind;
    } cases[] = {
        {"ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;", CUDA__PARAM_ADDRESS},
        {"ld.param.b64 %rd1, [p];\n@!%p1 cvta.to.global.u64 %rd1, %rd1;", CUDA__PARAM_ADDRESS},
        {"{\nld.param.u64 %rd1, [p];\n}\nl: cvta.to.global.u64 %rd2, %rd1;", CUDA__PARAM_ADDRESS},
        {"ld.param.u64 %rd1, [p];\nadd.u64 %rd1, %rd1, 4;\ncvta.to.global.u64 %rd2, %rd1;",
         CUDA__PARAM_INTEGER},
        {"ld.param.u64 %rd1, [p];\nld.global.v2.u64 {%rd1, %rd3}, [%rd5];\n"
         "cvta.to.global.u64 %rd2, %rd1;",
         CUDA__PARAM_INTEGER},
        {"ld.param.u64 %rd1, [p];\nld.param.u64 %rd1, [q];\ncvta.to.global.u64 %rd2, %rd1;",
         CUDA__PARAM_INTEGER},
        {"ld.param.u64 %rd1, [p+8];\ncvta.to.global.u64 %rd2, %rd1;", CUDA__PARAM_INTEGER},
        {"// ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;", CUDA__PARAM_INTEGER},
        {"ld.param.u64 %rd1, [p];\ncvta.to.shared.u64 %rd2, %rd1;", CUDA__PARAM_INTEGER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        cuda__ptx_reader reader;
        cuda__ptx_entry entry;
        cuda__param params[4] = {{0}};
        uint64_t mask;
        (void)snprintf(text, sizeof text,
                       ".version 7.5\n.target sm_75\n.address_size 64\n"
                       ".entry k(.param .u64 p, .param .u64 q, .param .align 4 .b8 s[12])\n"
                       ".maxntid 256, 1, 1\n{\n%s\nret;\n}\n",
                       cases[i].body);
        assert_int_equal(cuda__ptx_find(&reader, text, strlen(text), "k", &entry, &mask),
                         CUDA__PTX_FOUND);
        assert_int_equal(cuda__ptx_params(text, strlen(text), &entry, params, 4), 3);
        if (params[0].kind != cases[i].kind) {
            fail_msg("case %zu: kind %d", i, (int)params[0].kind);
        }
        assert_int_equal(params[0].size_bytes, 8);
        assert_int_equal(params[2].size_bytes, 12);
        assert_int_equal(params[2].kind, CUDA__PARAM_BYTES);
        assert_int_equal(cuda__ptx_params(text, strlen(text), &entry, params, 2), 2);
    }
}

/* More parameters than a list has room for would be read from behind it. */
static void more_parameters_than_arguments_can_fill_are_refused(void **state)
{
    (void)state;
    static char text[8192];
    static ddisp_native_arg natives[128];
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry mul_bwd(");
    for (int i = 0; i < 129; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s.param .u64 p%d",
                                 i ? ",\n" : "", i);
    }
    (void)snprintf(text + used, sizeof text - used, ")\n{\nret;\n}\n");
    for (int i = 0; i < 128; i++) {
        natives[i] = (ddisp_native_arg)DDISP_NATIVE(DDISP_SOURCE_NUMEL, 0);
    }
    sample_code code;
    uint64_t mask;
    declare(&code, "ptx", text, strlen(text), DDISP_MODE_FORWARD, "mul_bwd");
    code.entries[0].native = natives;
    code.entries[0].native_count = 128;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("more than 128");
    char *last = strstr(text, ",\n.param .u64 p128");
    memmove(last, last + strlen(",\n.param .u64 p128"),
            strlen(last) + 1 - strlen(",\n.param .u64 p128"));
    code.code.size_bytes = strlen(text);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
}

/* ---- machine code */

static void cubins_are_read(void **state)
{
    (void)state;
    static const struct {
        elf_wish wish;
        uint32_t architecture;
    } cases[] = {
        {{8, 0x6004b04, {"k", NULL}, NULL}, 75}, /* sm_75, sm_90 and sm_121 of CUDA 13 */
        {{8, 0x6005a04, {"k", NULL}, NULL}, 90},
        {{8, 0x6007902, {"k", NULL}, NULL}, 121},
        {{7, 0x5a055a, {"k", NULL}, NULL}, 90}, /* of CUDA 12.0 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[ELF_CAPACITY];
        cuda__cubin cubin;
        uint32_t count = 0;
        uint64_t size = elf_make(&cases[i].wish, bytes);
        assert_null(cuda__cubin_open(&cubin, bytes, size));
        assert_int_equal(cubin.architecture, cases[i].architecture);
        assert_true(cuda__cubin_has(&cubin, "k", &count));
        assert_int_equal(count, 1);
        assert_false(cuda__cubin_has(&cubin, "other", &count));
    }
}

static void cubin_entries_are_found(void **state)
{
    (void)state;
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    uint64_t mask, size = elf_sm_90("mul_3", "mul_7", bytes);
    declare(&code, "cubin", bytes, size, DDISP_MODE_BACKWARD, "mul_3");
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 0);
    code.entries[0].name = "mul_{mask}";
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.entries[0].flags = DDISP_ENTRY_MASKED;
    code.entries[0].mask = 7;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.entries[0].mask = 5;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_NOT_FOUND);
    says("'mul_5'");
    says("2 others");
    code.entries[0].flags = 0;
    code.entries[0].name = "helper"; /* a function, but no kernel */
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_NOT_FOUND);
    static const ddisp_native_arg natives[2] = {DATA_A, ADD_A};
    code.entries[0].name = "mul_3";
    code.entries[0].native = natives;
    code.entries[0].native_count = 2;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("gradient of 'b'");
}

/* Every shorter file and every flipped byte is taken or refused, never read past its end (which
 * AddressSanitizer would see: each copy has a block of its own). */
static void broken_cubins_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    uint64_t mask, size = elf_sm_90("mul_3", "mul_7", bytes);
    for (uint64_t length = 0; length < size; length++) {
        unsigned char *copy = malloc(length + 1);
        assert_non_null(copy);
        memcpy(copy, bytes, length);
        declare(&code, "cubin", copy, length, DDISP_MODE_BACKWARD, "mul_3");
        assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
        free(copy);
    }
    for (uint64_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            unsigned char *copy = malloc(size);
            assert_non_null(copy);
            memcpy(copy, bytes, size);
            copy[at] ^= (unsigned char)(1 << bit);
            declare(&code, "cubin", copy, size, DDISP_MODE_BACKWARD, "mul_3");
            (void)inspect(&code, &mask);
            free(copy);
        }
    }
    Elf64_Ehdr head;
    memcpy(&head, bytes, sizeof head);
    head.e_machine = EM_X86_64;
    memcpy(bytes, &head, sizeof head);
    declare(&code, "cubin", bytes, size, DDISP_MODE_BACKWARD, "mul_3");
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("another machine");
}

static void cubins_run_on_their_own_major_only(void **state)
{
    (void)state;
    static const struct {
        uint32_t flags, major, minor;
        int fits;
    } cases[] = {{0x6005a04, 9, 0, 1},  {0x6005004, 8, 0, 1}, {0x6005004, 8, 6, 1},
                 {0x6005604, 8, 0, 0},  {0x6005004, 9, 0, 0}, {0x6006402, 10, 3, 1},
                 {0x6006402, 12, 0, 0}, {0x6007802, 12, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[ELF_CAPACITY];
        const elf_wish wish = {8, cases[i].flags, {"k", NULL}, NULL};
        sample_code code;
        cuda__device device = {.services = &sample_services,
                               .version = 13000,
                               .capability_major = cases[i].major,
                               .capability_minor = cases[i].minor};
        declare(&code, "cubin", bytes, elf_make(&wish, bytes), DDISP_MODE_FORWARD, "k");
        ddisp_status status = cuda__code_fits(&device, &code.backend_code);
        if (status != (cases[i].fits ? DDISP_STATUS_OK : DDISP_STATUS_UNSUPPORTED)) {
            fail_msg("case %zu: %u %s", i, status, sample_message);
        }
    }
    says("sm_100");
    says("sm_120");
}

static void fatbins_are_measured(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48};
    sample_code code;
    uint64_t mask;
    cuda__device device = {.services = &sample_services, .version = 13000};
    declare(&code, "fatbin", bytes, sizeof bytes, DDISP_MODE_FORWARD, "whatever");
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 0);
    assert_int_equal(cuda__code_fits(&device, &code.backend_code), DDISP_STATUS_OK);
    code.code.size_bytes = 63;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("cut off");
    code.code.size_bytes = 15;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    code.code.size_bytes = sizeof bytes;
    bytes[15] = 0xFF; /* a size near 2^64 */
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    bytes[15] = 0;
    bytes[0] = 0x51;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("does not begin");
}

/* ---- source */

static uint64_t switches_of(const char *source, ddisp_mode mode, const char *entry)
{
    sample_code code;
    uint64_t mask;
    declare(&code, "cuda-c++", source, strlen(source), mode, entry);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    return mask;
}

static void sources_say_which_gradients_they_can_leave_out(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        uint64_t mask;
    } cases[] = {
        {"if (DDISP_SWITCH_0) x();", 1},
        {"#if DDISP_SWITCH_1\n#endif\nDDISP_SWITCH_0 DDISP_SWITCH_2", 7},
        {"DDISP_SWITCH_3", 0}, /* a scalar */
        {"DDISP_SWITCH_63 DDISP_SWITCH_01 DDISP_SWITCH_0x MY_DDISP_SWITCH_0 DDISP_SWITCH_", 0},
        {"// DDISP_SWITCH_0\nint x;", 0},
        {"// a \\\nDDISP_SWITCH_0\nDDISP_SWITCH_1", 2},
        {"/* DDISP_SWITCH_0 */ DDISP_SWITCH_1", 2},
        {"\"DDISP_SWITCH_0 \\\" DDISP_SWITCH_0\" DDISP_SWITCH_1", 2},
        {"'\"' DDISP_SWITCH_0 '\"'", 1},
        {"1'000'000 DDISP_SWITCH_0", 1},
        {"R\"x(DDISP_SWITCH_0 )\" )x\" DDISP_SWITCH_1", 2},
        {"u8R\"(\" DDISP_SWITCH_0)\" DDISP_SWITCH_1", 2},
        {"/* DDISP_SWITCH_0", 0},
        {"R\"x(DDISP_SWITCH_0", 0},
        {"\"DDISP_SWITCH_0\nDDISP_SWITCH_1", 2},
        /* macros of the device header: in the body of the entry */
        {"DDISP_KERNEL(k, 3) { auto a = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(f16, 2); }", 5},
        {"DDISP_KERNEL(k, 3) { if (x) { DDISP_SWITCH(1); } DDISP_TENSOR_AT(float, 2, 1); }", 6},
        {"DDISP_KERNEL(other, 3) { DDISP_TENSOR(float, 0); }\n"
         "DDISP_KERNEL(k, 3) { DDISP_TENSOR(float, 1); }\nDDISP_TENSOR(float, 2)",
         2},
        {"DDISP_KERNEL(k, 3);\nDDISP_KERNEL(k, 3) { DDISP_TENSOR(float, 1) }", 0},
        {"DDISP_KERNEL(k, 3) { DDISP_TENSOR(float, i); DDISP_TENSOR(float, 0 + 1); }", 0},
        {"DDISP_KERNEL(k, 3) { DDISP_TENSOR(pair<int, 1>, 0) DDISP_TENSOR((x, 1), 0); }", 1},
        {"DDISP_KERNEL(k", 0},
        {"DDISP_KERNEL(k, 3) { DDISP_TENSOR(float, 0", 0},
        {"void k() { DDISP_TENSOR(float, 0); }", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t mask = switches_of(cases[i].source, DDISP_MODE_BACKWARD, "k");
        if (mask != cases[i].mask) {
            fail_msg("%s: %llu", cases[i].source, (unsigned long long)mask);
        }
    }
    assert_int_equal(switches_of(cases[15].source, DDISP_MODE_FORWARD, "k"), 0);
}

static void all_backward_entries_must_have_the_macro(void **state)
{
    (void)state;
    static const char source[] =
        "DDISP_KERNEL(k, 3) { DDISP_TENSOR(float, 0); DDISP_TENSOR(float, 1); }\n"
        "DDISP_KERNEL(m, 3) { DDISP_TENSOR(float, 1); }";
    sample_code code;
    uint64_t mask;
    declare(&code, "cuda-c++", source, strlen(source), DDISP_MODE_BACKWARD, "k");
    sample_add_entry(&code, DDISP_MODE_BACKWARD, "m", 256);
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 2);
    code.entries[1].flags = DDISP_ENTRY_MASKED;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    assert_int_equal(mask, 3);
}

static void source_that_is_no_text_is_refused(void **state)
{
    (void)state;
    sample_code code;
    uint64_t mask;
    declare(&code, "cuda-c++", "int x;\0int y;", 13, DDISP_MODE_FORWARD, "k");
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("NUL");
    code.code.size_bytes = 7; /* with the NUL at its end */
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_OK);
    code.code.size_bytes = 0;
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("empty");
    declare(&code, "cuda-c++", "int x;", 6, DDISP_MODE_FORWARD, "");
    assert_int_equal(inspect(&code, &mask), DDISP_STATUS_CODE_INVALID);
    says("no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_list_is_taken),
        cmocka_unit_test(swapped_and_missing_arguments_are_found_by_name),
        cmocka_unit_test(address_of_a_block_fits_a_pointer),
        cmocka_unit_test(parameters_are_read_with_care),
        cmocka_unit_test(more_parameters_than_arguments_can_fill_are_refused),
        cmocka_unit_test(cubins_are_read),
        cmocka_unit_test(cubin_entries_are_found),
        cmocka_unit_test(broken_cubins_are_refused),
        cmocka_unit_test(cubins_run_on_their_own_major_only),
        cmocka_unit_test(fatbins_are_measured),
        cmocka_unit_test(sources_say_which_gradients_they_can_leave_out),
        cmocka_unit_test(all_backward_entries_must_have_the_macro),
        cmocka_unit_test(source_that_is_no_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
