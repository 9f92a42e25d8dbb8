/*
 * test_cuda_build.c - the CUDA backend over the stand-in driver and the stand-in compiler: variants
 * of every format, native arguments and artifacts, when nothing fails.
 */
#include "cuda_elf.h"
#include "cuda_fixture.h"
#include "fake_nvrtc.h"

#include <stdlib.h>

/* ---- codes */

static const char source[] = "extern \"C\" __global__ void mul_bwd(float *a) DDISP_SWITCH_0\n"
                             "extern \"C\" __global__ void blocked(block) DDISP_SWITCH_1\n";

static const ddisp_native_arg natives[6] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 0),     DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2),
    DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0), DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 1),
    DDISP_NATIVE(DDISP_SOURCE_NUMEL, 2),    DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0)};

static void declare(sample_code *code, const char *format, const void *bytes, uint64_t size_bytes,
                    const char *entry)
{
    sample_declare(code, bytes, size_bytes, DDISP_MODE_BACKWARD, entry, 256);
    code->code.format = format;
    code->params[0].name = "a";
    code->params[1].name = "b";
    code->params[2].name = "y";
    code->params[2].access = DDISP_ACCESS_OUT;
    code->entries[0].group_size[1] = code->entries[0].group_size[2] = 1;
}

static void declare_native(sample_code *code, const char *format, const void *bytes,
                           uint64_t size_bytes, const char *entry)
{
    declare(code, format, bytes, size_bytes, entry);
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

static ddisp_status build(const sample_code *code, uint64_t switches, const void *artifact,
                          uint64_t artifact_bytes, void **out_variant)
{
    ddisp_backend_variant variant = variant_of(code, switches);
    variant.artifact = artifact;
    variant.artifact_size_bytes = artifact_bytes;
    sample_message[0] = '\0';
    *out_variant = NULL;
    return table->variant_build(device, &variant, out_variant);
}

static void release(void *variant)
{
    table->variant_release(device, variant);
}

static ddisp_status launch_native(void *variant, const uint64_t values[6], const void *block)
{
    ddisp_backend_native filled[6];
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .variant = variant,
                                   .block = block,
                                   .block_size_bytes = SAMPLE_BLOCK_BYTES,
                                   .items = 10,
                                   .grid = {3, 2, 1},
                                   .group_size = {256, 1, 1},
                                   .natives = filled,
                                   .native_count = 6};
    for (int i = 0; i < 6; i++) {
        filled[i] = (ddisp_backend_native){.arg = &natives[i], .value = values[i], .size_bytes = 8};
    }
    ddisp_status status = table->launch(device, stream, &launch);
    memset(filled, 0xEE, sizeof filled);
    return status;
}

/* ---- what a kernel sees */

static struct {
    int launches;
    uint64_t values[6];
    unsigned char block[SAMPLE_BLOCK_BYTES];
    unsigned int grid[3];
} seen;

static void look(const char *text, void **parameters, const unsigned int grid[3],
                 const unsigned int group[3])
{
    (void)text;
    (void)group;
    seen.launches++;
    for (int i = 0; i < 6; i++) {
        memcpy(&seen.values[i], parameters[i], 8);
    }
    memcpy(seen.block, (const void *)(uintptr_t)seen.values[5], sizeof seen.block);
    memcpy(seen.grid, grid, sizeof seen.grid);
}

static const size_t six[6] = {8, 8, 8, 8, 8, 8};
static const uint64_t values[6] = {0x1111, 0x2222, 0x3333, 0x4444, UINT64_C(1) << 40, 0};

/* ---- native arguments */

static void native_arguments_arrive_with_the_block(void **state)
{
    (void)state;
    unsigned char bytes[ELF_CAPACITY], block[SAMPLE_BLOCK_BYTES];
    sample_code code;
    void *variant;
    declare_native(&code, "cubin", bytes, elf_sm_90("mul_bwd", NULL, bytes), "mul_bwd");
    memset(&seen, 0, sizeof seen);
    memset(block, 0x5A, sizeof block);
    fake_cuda_set_function_params(six, 6);
    fake_cuda_register_kernel("mul_bwd", look);
    if (build(&code, 3, NULL, 0, &variant) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    for (int i = 1; i <= 3; i++) {
        block[0] = (unsigned char)i;
        assert_int_equal(launch_native(variant, values, block), DDISP_STATUS_OK);
        assert_int_equal(seen.launches, i);
        assert_memory_equal(seen.values, values, 5 * sizeof values[0]);
        assert_memory_equal(seen.block, block, sizeof block);
        assert_int_equal(seen.grid[1], 2);
    }
    release(variant);
}

static void steady_native_launch_makes_one_call(void **state)
{
    (void)state;
    static const ddisp_native_arg plain[2] = {DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 2),
                                              {DDISP_SOURCE_ITEMS, 0, 0, 0, 0, 0, 4, 0}};
    static const size_t sizes[2] = {8, 4};
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    void *variant;
    declare(&code, "cubin", bytes, elf_sm_90("mul_bwd", NULL, bytes), "mul_bwd");
    code.entries[0].mode = DDISP_MODE_FORWARD;
    code.entries[0].native = plain;
    code.entries[0].native_count = 2;
    fake_cuda_set_function_params(sizes, 2);
    assert_int_equal(build(&code, 3, NULL, 0, &variant), DDISP_STATUS_OK);
    ddisp_backend_native filled[2] = {{.arg = &plain[0], .size_bytes = 8},
                                      {.arg = &plain[1], .size_bytes = 4, .value = 10}};
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .variant = variant,
                                   .items = 10,
                                   .grid = {1, 1, 1},
                                   .group_size = {256, 1, 1},
                                   .natives = filled,
                                   .native_count = 2};
    uint64_t before = fake_cuda_call_count(NULL), host = sample_live_host_allocations;
    assert_int_equal(table->launch(device, stream, &launch), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count(NULL) - before, 4); /* get, push, launch, pop */
    assert_int_equal(sample_live_host_allocations, host);
    filled[1].value = UINT64_C(1) << 32;
    before = fake_cuda_call_count("cuLaunchKernel");
    assert_int_equal(table->launch(device, stream, &launch), DDISP_STATUS_LIMIT_EXCEEDED);
    fixture_says("4294967296");
    fixture_says("4294967295");
    assert_int_equal(fake_cuda_call_count("cuLaunchKernel"), before);
    release(variant);
}

/* Machine code is compared with what the driver knows of it. */
static void parameters_of_machine_code_are_checked_when_it_is_loaded(void **state)
{
    (void)state;
    static const struct {
        size_t sizes[7], count;
        const char *text;
    } cases[] = {
        {{8, 8, 8, 8, 4, 8}, 6, "native argument 4 (the element count of 'y') has 8 bytes"},
        {{8, 8, 8, 8, 8}, 5, "native argument 5 (the argument block) is one too many"},
        {{8, 8, 8, 8, 8, 8, 16}, 7, "parameter 6, of 16 bytes, has none"},
    };
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    void *variant;
    declare_native(&code, "cubin", bytes, elf_sm_90("mul_bwd", NULL, bytes), "mul_bwd");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_cuda_set_function_params(cases[i].sizes, cases[i].count);
        assert_int_equal(build(&code, 3, NULL, 0, &variant), DDISP_STATUS_CODE_INVALID);
        fixture_says(cases[i].text);
        assert_int_equal(fake_cuda_live_modules(), 0);
    }
    static const size_t block[1] = {SAMPLE_BLOCK_BYTES}, pointer[1] = {8};
    declare(&code, "cubin", bytes, elf_sm_90("mul_bwd", NULL, bytes), "mul_bwd");
    fake_cuda_set_function_params(block, 1);
    assert_int_equal(build(&code, 3, NULL, 0, &variant), DDISP_STATUS_OK);
    release(variant);
    fake_cuda_set_function_params(pointer, 1);
    assert_int_equal(build(&code, 3, NULL, 0, &variant), DDISP_STATUS_CODE_INVALID);
    fixture_says("992 bytes");
}

/* ---- formats */

static void entry_of_a_mask_is_loaded(void **state)
{
    (void)state;
    static const size_t block[1] = {SAMPLE_BLOCK_BYTES};
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    void *variant = NULL;
    declare(&code, "cubin", bytes, elf_sm_90("mul_3", "mul_7", bytes), "mul_{mask}");
    fake_cuda_set_function_params(block, 1);
    ddisp_backend_variant wanted = variant_of(&code, 3);
    wanted.entry_name = "mul_7"; /* as the core writes it */
    assert_int_equal(table->variant_build(device, &wanted, &variant), DDISP_STATUS_OK);
    release(variant);
    wanted.entry_name = "mul_5";
    assert_int_equal(table->variant_build(device, &wanted, &variant), DDISP_STATUS_CODE_REJECTED);
    fixture_says("'mul_5'");
    fixture_says("cubin");
    assert_int_equal(fake_cuda_live_modules(), 0);
}

static void fatbin_is_the_drivers_to_judge(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48};
    sample_code code;
    void *variant;
    declare(&code, "fatbin", bytes, sizeof bytes, "mul_bwd");
    fake_cuda_fail_function("cuModuleLoadDataEx", 1, CU__ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(build(&code, 3, NULL, 0, &variant), DDISP_STATUS_CODE_REJECTED);
    fixture_says("fatbin");
    fixture_says("(209)");
}

static void source_is_compiled_with_a_macro_for_each_gradient(void **state)
{
    (void)state;
    sample_code code;
    void *variant;
    uint64_t before = fake_nvrtc_compilations();
    declare(&code, "cuda-c++", source, strlen(source), "blocked");
    code.code.options = "-DX=1 -lineinfo";
    code.params[2].flags = 0; /* not differentiable: no macro */
    if (build(&code, 1, NULL, 0, &variant) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    assert_int_equal(fake_nvrtc_compilations(), before + 1);
    release(variant);
    /* the text shows what it was compiled with */
    ddisp_backend_variant wanted = variant_of(&code, 1);
    void *bytes = NULL;
    uint64_t size = 0;
    assert_int_equal(table->artifact_make(&sample_services, NULL, "sm_90", &wanted, &bytes, &size),
                     DDISP_STATUS_OK);
    assert_non_null(strstr(bytes, "// option -DX=1\n// option -lineinfo\n"));
    assert_non_null(strstr(bytes, "// option --gpu-architecture=sm_90\n"));
    assert_non_null(strstr(bytes, "// option -DDDISP_SWITCH_0=1\n// option -DDDISP_SWITCH_1=0\n"));
    assert_null(strstr(bytes, "DDISP_SWITCH_2"));
    sample_services.release(NULL, bytes);
    assert_int_equal(table->artifact_make(&sample_services, NULL, "sm_86", &wanted, &bytes, &size),
                     DDISP_STATUS_OK);
    assert_non_null(strstr(bytes, "// option --gpu-architecture=compute_75\n"));
    sample_services.release(NULL, bytes);
    declare(&code, "cuda-c++", "#error", 6, "blocked");
    assert_int_equal(build(&code, 1, NULL, 0, &variant), DDISP_STATUS_CODE_REJECTED);
    fixture_says("sample.cu(3): error: no good");
    assert_int_equal(fake_nvrtc_live(), 0);
}

/* What a newer compiler writes, an older driver does not take. */
static void compiler_is_not_newer_than_the_driver(void **state)
{
    (void)state;
    void *other = NULL, *old = NULL;
    sample_code code;
    fake_cuda_set_version(12040);
    assert_int_equal(table->open(&sample_services, &other), DDISP_STATUS_OK);
    assert_int_equal(table->device_open(other, 0, &old), DDISP_STATUS_OK);
    declare(&code, "cuda-c++", source, strlen(source), "blocked");
    ddisp_status status = table->code_fits(old, &code.backend_code);
    if (status != DDISP_STATUS_OK) { /* unless this machine has one of version 12 */
        assert_int_equal(status, DDISP_STATUS_UNSUPPORTED);
        fixture_says("libnvrtc.so.12");
    }
    table->device_close(old);
    table->close(other);
    assert_int_equal(table->code_fits(device, &code.backend_code), DDISP_STATUS_OK);
}

/* ---- artifacts */

static void ptx_is_linked_and_used_again(void **state)
{
    (void)state;
    sample_code code;
    void *bytes = NULL, *variant;
    uint64_t size = 0;
    uint8_t key[256];
    uint32_t key_size = 0;
    declare(&code, "ptx", sample_text, sample_text_size, "sample_backward");
    ddisp_backend_variant wanted = variant_of(&code, 1);
    assert_int_equal(
        table->artifact_key(&sample_services, device, "sm_90", &wanted, key, sizeof key, &key_size),
        DDISP_STATUS_UNSUPPORTED);
    fixture_says("kept by the driver");
    assert_int_equal(setenv("CUDA_CACHE_DISABLE", "1", 1), 0);
    assert_int_equal(
        table->artifact_key(&sample_services, device, "sm_90", &wanted, key, sizeof key, &key_size),
        DDISP_STATUS_OK);
    assert_int_equal(unsetenv("CUDA_CACHE_DISABLE"), 0);
    assert_non_null(memmem(key, key_size, "driver 13000", 12));
    assert_int_equal(
        table->artifact_make(&sample_services, device, "sm_90", &wanted, &bytes, &size),
        DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuLinkComplete"), 1);
    assert_int_equal(fake_cuda_live_links(), 0);
    assert_non_null(strstr(bytes, ", 0; // DDISP_SWITCH(1)")); /* the stand-in links nothing away */
    assert_int_equal(build(&code, 1, bytes, size, &variant), DDISP_STATUS_OK);
    release(variant);
    sample_services.release(NULL, bytes);
    assert_int_equal(table->artifact_make(&sample_services, NULL, "sm_90", &wanted, &bytes, &size),
                     DDISP_STATUS_UNSUPPORTED);
    fixture_says("without a device");
}

static void source_for_an_unknown_architecture_is_linked_too(void **state)
{
    (void)state;
    sample_code code;
    void *bytes = NULL, *variant;
    uint64_t size = 0;
    declare(&code, "cuda-c++", source, strlen(source), "blocked");
    ddisp_backend_variant wanted = variant_of(&code, 3);
    assert_int_equal(
        table->artifact_make(&sample_services, device, "sm_90", &wanted, &bytes, &size),
        DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_call_count("cuLinkComplete"), 1);
    uint64_t compilations = fake_nvrtc_compilations();
    assert_int_equal(build(&code, 3, bytes, size, &variant), DDISP_STATUS_OK);
    assert_int_equal(fake_nvrtc_compilations(), compilations);
    release(variant);
    sample_services.release(NULL, bytes);
}

static void useless_artifacts_are_refused_before_the_driver_sees_them(void **state)
{
    (void)state;
    unsigned char bytes[ELF_CAPACITY];
    const elf_wish other_device = {8, 0x6006402, {"sample_backward", NULL}, NULL};
    sample_code code;
    void *variant;
    declare(&code, "ptx", sample_text, sample_text_size, "sample_backward");
    uint64_t size = elf_sm_90("sample_backward", NULL, bytes);
    assert_int_equal(build(&code, 3, bytes, size - 1, &variant), DDISP_STATUS_CODE_REJECTED);
    fixture_says("cut off");
    assert_int_equal(build(&code, 3, bytes, elf_sm_90("other", NULL, bytes), &variant),
                     DDISP_STATUS_CODE_REJECTED);
    fixture_says("no such entry");
    assert_int_equal(build(&code, 3, bytes, elf_make(&other_device, bytes), &variant),
                     DDISP_STATUS_CODE_REJECTED);
    fixture_says("another architecture");
    assert_int_equal(build(&code, 3, "garbage", 7, &variant), DDISP_STATUS_CODE_REJECTED);
    assert_int_equal(build(&code, 3, sample_text, sample_text_size / 2, &variant),
                     DDISP_STATUS_CODE_REJECTED);
    assert_int_equal(fake_cuda_call_count("cuModuleLoadDataEx"), 0);
    size = elf_sm_90("sample_backward", NULL, bytes);
    assert_int_equal(build(&code, 3, bytes, size, &variant), DDISP_STATUS_OK);
    release(variant);
}

static void link_that_fails_gives_the_log(void **state)
{
    (void)state;
    sample_code code;
    void *bytes = NULL;
    uint64_t size = 0;
    declare(&code, "ptx", sample_text, sample_text_size, "sample_backward");
    ddisp_backend_variant wanted = variant_of(&code, 3);
    fake_cuda_fail_function("cuLinkAddData", 1, CU__ERROR_INVALID_PTX);
    assert_int_equal(
        table->artifact_make(&sample_services, device, "sm_90", &wanted, &bytes, &size),
        DDISP_STATUS_CODE_REJECTED);
    fixture_says("fake log: line 1: no good");
    assert_null(bytes);
    assert_int_equal(fake_cuda_live_links(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(native_arguments_arrive_with_the_block),
        CASE(steady_native_launch_makes_one_call),
        CASE(parameters_of_machine_code_are_checked_when_it_is_loaded),
        CASE(entry_of_a_mask_is_loaded),
        CASE(fatbin_is_the_drivers_to_judge),
        CASE(source_is_compiled_with_a_macro_for_each_gradient),
        CASE(compiler_is_not_newer_than_the_driver),
        CASE(ptx_is_linked_and_used_again),
        CASE(source_for_an_unknown_architecture_is_linked_too),
        CASE(useless_artifacts_are_refused_before_the_driver_sees_them),
        CASE(link_that_fails_gives_the_log),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
