/*
 * test_cuda_nvrtc.c - CUDA C++ source through the real NVRTC, without a driver or a device:
 * compiled for architectures that need not be here, kept as artifacts, refused with the compiler's
 * words. Skipped where there is no NVRTC.
 */
#include "cuda_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>

static const ddisp_backend_table *table;

/* ---- a code, and what becomes of it */

static const char opaque[] =
    "extern \"C\" __global__ void mul_bwd(const float *a, const float *b,\n"
    "    const float *gy, float *ga, float *gb, unsigned long long n)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "#if DDISP_SWITCH_0\n"
    "        atomicAdd(ga + i, gy[i] * b[i]);\n"
    "#endif\n"
    "        if (DDISP_SWITCH_1)\n"
    "            atomicAdd(gb + i, gy[i] * a[i]);\n"
    "    }\n"
    "}\n";

static const ddisp_native_arg natives[6] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0),      DDISP_NATIVE(DDISP_SOURCE_DATA, 1),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2), DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1),  DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2)};

static void declare(sample_code *code, const char *source, const char *options)
{
    sample_declare(code, source, strlen(source), DDISP_MODE_BACKWARD, "mul_bwd", 256);
    code->code.format = "cuda-c++";
    code->code.options = options;
    code->params[2].access = DDISP_ACCESS_OUT;
    code->entries[0].native = natives;
    code->entries[0].native_count = 6;
}

static ddisp_backend_variant variant_of(const sample_code *code, uint64_t switches)
{
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant,
                                     .mode = DDISP_MODE_BACKWARD,
                                     .code = &code->backend_code,
                                     .entry = &code->entries[0],
                                     .entry_name = code->entries[0].name,
                                     .switches = switches | ~UINT64_C(3),
                                     .switch_mask = 3};
    return variant;
}

static ddisp_status make(const sample_code *code, uint64_t switches, const char *architecture,
                         char **out_bytes, uint64_t *out_size)
{
    ddisp_backend_variant variant = variant_of(code, switches);
    void *bytes = NULL;
    sample_message[0] = '\0';
    ddisp_status status =
        table->artifact_make(&sample_services, NULL, architecture, &variant, &bytes, out_size);
    *out_bytes = bytes;
    return status;
}

static void drop(char *bytes)
{
    sample_services.release(sample_services.self, bytes);
}

static void says(const char *part)
{
    if (!strstr(sample_message, part)) {
        fail_msg("'%s' is not in: %s", part, sample_message);
    }
}

/* PTX of the source for compute_80; released by drop. */
static char *ptx_of(const sample_code *code, uint64_t switches)
{
    char *text = NULL;
    uint64_t size = 0;
    if (make(code, switches, "sm_80", &text, &size) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    assert_int_equal(strncmp(text, "//", 2), 0); /* NVRTC begins with a comment */
    return text;
}

static int count(const char *text, const char *word)
{
    int result = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        result++;
    }
    return result;
}

static int adds(const char *ptx)
{
    return count(ptx, "red.global.add.f32") + count(ptx, "atom.global.add.f32") +
           count(ptx, "red.add.f32") + count(ptx, "atom.add.f32");
}

/* Whether there is an NVRTC; else sample_message says what is missing. */
static int is_there(void)
{
    sample_code code;
    uint8_t key[4096];
    uint32_t size = 0;
    declare(&code, opaque, "");
    ddisp_backend_variant variant = variant_of(&code, 3);
    return table->artifact_key(&sample_services, NULL, "sm_80", &variant, key, sizeof key, &size) ==
           DDISP_STATUS_OK;
}

/* ---- tests */

static void source_is_compiled_without_a_device(void **state)
{
    (void)state;
    static const char *const architectures[] = {"sm_80", "sm_86", "sm_90", "sm_100"};
    sample_code code;
    declare(&code, opaque, "");
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        char *bytes = NULL;
        uint64_t size = 0;
        Elf64_Ehdr head;
        if (make(&code, 3, architectures[i], &bytes, &size) != DDISP_STATUS_OK) {
            fail_msg("%s", sample_message);
        }
        if (i == 3 && memcmp(bytes, ELFMAG, SELFMAG) != 0) {
            drop(bytes); /* an NVRTC that does not know sm_100 yet gives PTX */
            continue;
        }
        memcpy(&head, bytes, sizeof head);
        assert_int_equal(head.e_machine, 190);
        uint32_t sm =
            head.e_ident[EI_ABIVERSION] >= 8 ? head.e_flags >> 8 & 0xFF : head.e_flags & 0xFF;
        assert_int_equal(sm, atoi(architectures[i] + 3));
        assert_non_null(memmem(bytes, size, "\0mul_bwd", 9));
        drop(bytes);
    }
    assert_int_equal(sample_live_host_allocations, 0);
}

static void macros_remove_code(void **state)
{
    (void)state;
    sample_code code;
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    declare(&code, opaque, " --gpu-architecture=compute_80  -DUNUSED=1\t");
    assert_int_equal(table->inspect(&sample_services, &code.backend_code, &info), DDISP_STATUS_OK);
    assert_int_equal(info.switch_mask, 3);
    static const int wanted[4] = {0, 1, 1, 2};
    for (uint64_t switches = 0; switches < 4; switches++) {
        char *text = ptx_of(&code, switches);
        assert_int_equal(adds(text), wanted[switches]);
        drop(text);
    }
    /* machine code shrinks too */
    char *all = NULL, *none = NULL;
    uint64_t all_size = 0, none_size = 0;
    declare(&code, opaque, NULL);
    assert_int_equal(make(&code, 3, "sm_80", &all, &all_size), DDISP_STATUS_OK);
    assert_int_equal(make(&code, 0, "sm_80", &none, &none_size), DDISP_STATUS_OK);
    assert_true(none_size < all_size);
    drop(all);
    drop(none);
}

static void headers_are_given_as_bytes(void **state)
{
    (void)state;
    static const char source[] =
        "#include <parts/factor.h>\n"
        "extern \"C\" __global__ void mul_bwd(float *y) { *y = FACTOR; }\n";
    static const struct {
        const char *text;
        uint64_t size; /* without a NUL behind it */
        const char *constant;
    } cases[] = {{"#define FACTOR 2.0f\n#error", 20, "40000000"},
                 {"#define FACTOR 3.0f\n#error", 20, "40400000"}};
    for (size_t i = 0; i < 2; i++) {
        sample_code code;
        ddisp_header headers[1] = {DDISP_HEADER("parts/factor.h", cases[i].text, cases[i].size)};
        declare(&code, source, "-arch=compute_80");
        code.code.headers = headers;
        code.code.header_count = 1;
        code.code.header_size = (uint32_t)sizeof headers[0];
        char *text = ptx_of(&code, 3);
        char upper[16] = "0f", lower[16] = "0F";
        strcat(upper, cases[i].constant);
        strcat(lower, cases[i].constant);
        assert_true(strstr(text, upper) || strstr(text, lower) ||
                    strstr(text, i == 0 ? "1073741824" : "1077936128"));
        drop(text);
    }
}

static void refused_source_comes_with_the_log(void **state)
{
    (void)state;
    sample_code code;
    char *bytes = NULL;
    uint64_t size = 0;
    declare(&code, "extern \"C\" __global__ void mul_bwd()\n{\n    undeclared_name = 1;\n}\n", "");
    assert_int_equal(make(&code, 3, "sm_80", &bytes, &size), DDISP_STATUS_CODE_REJECTED);
    assert_null(bytes);
    says("kernel sample, entry 'mul_bwd'");
    says("refused the source");
    says("undeclared_name");
    says("(3)");
    declare(&code, "__global__ void mul_bwd() {}\n", "");
    assert_int_equal(make(&code, 3, "sm_80", &bytes, &size), DDISP_STATUS_CODE_REJECTED);
    says("extern \"C\"");
    declare(&code, opaque, "--no-such-option");
    assert_int_equal(make(&code, 3, "sm_80", &bytes, &size), DDISP_STATUS_CODE_REJECTED);
    says("NVRTC");
    assert_int_equal(sample_live_host_allocations, 0);
}

static void architectures_that_are_not_known_get_ptx_or_a_sentence(void **state)
{
    (void)state;
    sample_code code;
    char *bytes = NULL;
    uint64_t size = 0;
    declare(&code, opaque, "");
    assert_int_equal(make(&code, 3, "sm_20", &bytes, &size), DDISP_STATUS_UNSUPPORTED);
    says("not for sm_20");
    assert_int_equal(make(&code, 3, "sm_9990", &bytes, &size), DDISP_STATUS_OK);
    assert_non_null(strstr(bytes, ".target sm_"));
    drop(bytes);
}

static void key_holds_what_the_code_depends_on(void **state)
{
    (void)state;
    sample_code code;
    uint8_t first[4096], other[4096];
    uint32_t first_size = 0, other_size = 0;
    declare(&code, opaque, "-DX=1");
    ddisp_backend_variant variant = variant_of(&code, 3);
#define KEY(architecture, key, size)                                                               \
    table->artifact_key(&sample_services, NULL, architecture, &variant, key, sizeof key, &size)
    assert_int_equal(KEY("sm_80", first, first_size), DDISP_STATUS_OK);
    assert_int_equal(KEY("sm_80", other, other_size), DDISP_STATUS_OK);
    assert_int_equal(first_size, other_size);
    assert_memory_equal(first, other, first_size);
    assert_non_null(memmem(first, first_size, "nvrtc 1", 7));
    assert_non_null(memmem(first, first_size, "-DX=1", 5));
    assert_int_equal(KEY("sm_90", other, other_size), DDISP_STATUS_OK);
    assert_true(other_size != first_size || memcmp(first, other, first_size) != 0);
    variant = variant_of(&code, 1);
    assert_int_equal(KEY("sm_80", other, other_size), DDISP_STATUS_OK);
    assert_true(other_size != first_size || memcmp(first, other, first_size) != 0);
    assert_int_equal(
        table->artifact_key(&sample_services, NULL, "sm_80", &variant, other, 10, &other_size),
        DDISP_STATUS_UNSUPPORTED);
#undef KEY
    declare(&code, opaque, "");
    code.code.format = "ptx";
    assert_int_equal(table->artifact_key(&sample_services, NULL, "sm_80", &variant, other,
                                         sizeof other, &other_size),
                     DDISP_STATUS_UNSUPPORTED);
    code.code.format = "cubin";
    assert_int_equal(table->artifact_key(&sample_services, NULL, "sm_80", &variant, other,
                                         sizeof other, &other_size),
                     DDISP_STATUS_UNSUPPORTED);
    says("cubin");
    assert_int_equal(sample_live_host_allocations, 0);
}

/* NVRTC reads what was not given from the disk: what comes of it must not be kept. */
static void source_that_reads_files_is_not_kept(void **state)
{
    (void)state;
    static const struct {
        const char *source, *header;
        bool kept;
    } cases[] = {
        {"int x;\n", "", true},
        {"#include <a.h>\n#include \"a.h\"\n  #  include \\\n <a.h>\n", "", true},
        {"// says include \"b.h\"\nconst char *t = \"#include <b.h>\";\n", "", true},
        {"#define INCLUDED include\n#ifdef includes\n#endif\n", "", true},
        {"#include \"b.h\"\n", "", false},
        {"#include \"/a.h\"\n", "", false},
        {"#include <a.h>\n", "#pragma once\n#include \"b.h\"", false},
        {"#inc\\\nlude \"b.h\"\n", "", false},
        {"#include NAME\n", "", false},
        {"%:include <b.h>\n", "", false},
        {"#if __has_include(\"a.h\")\n#endif\n", "", false},
        {"# /* */ include \"b.h\"", "", false},
        {"#include_next <a.h>\n", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sample_code code;
        uint8_t key[4096];
        uint32_t size = 0;
        ddisp_header headers[1] = {DDISP_HEADER("a.h", cases[i].header, strlen(cases[i].header))};
        declare(&code, cases[i].source, "");
        code.code.headers = headers;
        code.code.header_count = 1;
        code.code.header_size = (uint32_t)sizeof headers[0];
        ddisp_backend_variant variant = variant_of(&code, 3);
        ddisp_status status =
            table->artifact_key(&sample_services, NULL, "sm_80", &variant, key, sizeof key, &size);
        if (status != (cases[i].kept ? DDISP_STATUS_OK : DDISP_STATUS_UNSUPPORTED))
            fail_msg("source %zu: status %u", i, status);
        if (!cases[i].kept)
            says("not among its headers");
    }
}

/* The device headers, as an application hands them over. */
static void device_headers_are_switched_by_macros(void **state)
{
    (void)state;
    static const char source[] =
        "#include <diffdispatch/device/ddisp.cuh>\n"
        "DDISP_KERNEL(mul_bwd, 3)\n"
        "{\n"
        "    auto a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1);\n"
        "    auto y = DDISP_TENSOR(float, 2);\n"
        "    DDISP_FOR_EACH_ITEM(i) {\n"
        "        float g = y.grad(i);\n"
        "        a.add_grad(i, g * b[i]);\n"
        "        b.add_grad(i, g * a[i]);\n"
        "    }\n"
        "}\n";
    static const char *const names[] = {"ddisp.cuh", "ddisp_add.cuh", "ddisp_block.h"};
    char full[3][64];
    ddisp_header headers[6];
    char *texts[3];
    sample_code code;
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    for (int i = 0; i < 3; i++) { /* by both names: files of the folder include each other */
        char path[128];
        uint64_t size = 0;
        (void)snprintf(path, sizeof path, "../../../include/diffdispatch/device/%s", names[i]);
        (void)snprintf(full[i], sizeof full[i], "diffdispatch/device/%s", names[i]);
        texts[i] = sample_read(path, &size);
        headers[2 * i] = (ddisp_header)DDISP_HEADER(full[i], texts[i], size);
        headers[2 * i + 1] = (ddisp_header)DDISP_HEADER(names[i], texts[i], size);
    }
    declare(&code, source, "--gpu-architecture=compute_80");
    code.entries[0].native = NULL;
    code.entries[0].native_count = 0;
    code.code.headers = headers;
    code.code.header_count = 6;
    code.code.header_size = (uint32_t)sizeof headers[0];
    assert_int_equal(table->inspect(&sample_services, &code.backend_code, &info), DDISP_STATUS_OK);
    assert_int_equal(info.switch_mask, 7);
    char *both = ptx_of(&code, 3), *one = ptx_of(&code, 1), *none = ptx_of(&code, 0);
    assert_int_equal(count(both, "DDISP_SWITCH"), 0);
    assert_true(adds(both) > adds(one) && adds(one) > 0);
    assert_int_equal(adds(none), 0);
    drop(both);
    drop(one);
    drop(none);
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
    }
}

static int load(void)
{
    ddisp_backend_query_function query = NULL;
    const char *path = getenv("DDISP_TEST_CUDA_PLUGIN");
    void *plugin = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = plugin ? dlsym(plugin, "ddisp_cuda_backend_query") : NULL;
    if (!symbol) {
        return 0;
    }
    memcpy(&query, &symbol, sizeof query);
    return query(DDISP_BACKEND_ABI, &sample_services, &table) == DDISP_STATUS_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_is_compiled_without_a_device),
        cmocka_unit_test(macros_remove_code),
        cmocka_unit_test(headers_are_given_as_bytes),
        cmocka_unit_test(refused_source_comes_with_the_log),
        cmocka_unit_test(architectures_that_are_not_known_get_ptx_or_a_sentence),
        cmocka_unit_test(key_holds_what_the_code_depends_on),
        cmocka_unit_test(source_that_reads_files_is_not_kept),
        cmocka_unit_test(device_headers_are_switched_by_macros),
    };
    if (!load()) {
        (void)fprintf(stderr, "DDISP_TEST_CUDA_PLUGIN is no plugin\n");
        return 1;
    }
    if (!is_there()) {
        (void)printf("1..0 # SKIP %s\n", sample_message);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
