/*
 * test_vulkan_code.c - SPIR-V in the Vulkan backend: what inspection finds and refuses, what fits a
 * device, and what variants compute. Broken modules must be refused or taken, never crash; the
 * driver never sees them.
 */
#include "vulkan_fixture.h"

#include <stdlib.h>

static ddisp_status inspect(const fixture *f, const code *c, ddisp_backend_code_info *info)
{
    memset(info, 0, sizeof *info);
    info->size = (uint32_t)sizeof *info;
    last_message[0] = 0;
    return f->table->inspect(&services, &c->backend_code, info);
}

/** A copy of a code's SPIR-V as words. The caller frees it. */
static uint32_t *words_of(mul_code which, uint64_t *out_count)
{
    uint64_t size_bytes;
    const void *bytes = mul_bytes(which, &size_bytes);
    uint32_t *words = malloc(size_bytes);
    assert_non_null(words);
    memcpy(words, bytes, size_bytes);
    *out_count = size_bytes / 4;
    return words;
}

static void switches_are_found(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    assert_ok(inspect(f, &c, &info));
    assert_int_equal(info.switch_mask, 3);
    assert_int_equal(info.flags, DDISP_BACKEND_CODE_COMPARE_AND_SWAP);
    code_init(&c, MUL_BACKWARD_NATIVE);
    assert_ok(inspect(f, &c, &info));
    assert_int_equal(info.switch_mask, 3);
    assert_int_equal(info.flags, 0);
    code_init(&c, MUL_FORWARD);
    assert_ok(inspect(f, &c, &info));
    assert_int_equal(info.switch_mask, 0);
}

static void declared_switches_must_be_there(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    c.switch_ids[2] = 1025; /* b's, so that y has one and b's own is taken twice */
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "1025"));
    c.switch_ids[2] = 77;
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "77"));
    assert_non_null(strstr(last_message, "'y'"));
    c.switch_ids[2] = 0;
    c.switch_ids[0] = 1024;
    assert_ok(inspect(f, &c, &info));
    assert_int_equal(info.switch_mask, 3);
}

static void a_missing_entry_is_named(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_FORWARD);
    c.entry.name = "mul_backward";
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_NOT_FOUND);
    assert_non_null(strstr(last_message, "'mul_backward'"));
    assert_non_null(strstr(last_message, "'main'"));
    c.entry.name = "mai";
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_NOT_FOUND);
    c.entry.name = "main{mask}";
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_NOT_FOUND);
}

static void another_group_size_is_refused_with_both_numbers(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_FORWARD);
    c.entry.group_size[0] = 96;
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "96"));
    assert_non_null(strstr(last_message, "64"));
    code_init(&c, MUL_SIZED); /* its size is a specialization constant: any fits */
    c.entry.group_size[0] = 96;
    assert_ok(inspect(f, &c, &info));
}

static void what_is_no_spirv_is_refused(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_FORWARD);
    static const unsigned char text[64] = "this is not SPIR-V at all, but it is long enough";
    code_set_bytes(&c, text, sizeof text);
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "not SPIR-V"));
    code_set_bytes(&c, text, 0);
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    uint64_t size_bytes;
    const void *bytes = mul_bytes(MUL_FORWARD, &size_bytes);
    code_set_bytes(&c, bytes, size_bytes - 1);
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
}

static void a_larger_push_constant_is_refused(void **state)
{
    fixture *f = fixture_of(state);
    ddisp_backend_code_info info;
    uint64_t count;
    uint32_t *words = words_of(MUL_FORWARD, &count);
    code c;
    code_init(&c, MUL_FORWARD);
    /* The block's only member, an address, moves to byte 8. */
    bool found = false;
    for (uint64_t at = 5; at < count; at += words[at] >> 16) {
        if ((words[at] & 0xFFFF) != 32 || words[at + 2] != 9) /* OpTypePointer PushConstant */
            continue;
        for (uint64_t k = 5; k < count; k += words[k] >> 16)
            if ((words[k] & 0xFFFF) == 72 && words[k + 1] == words[at + 3] && words[k + 3] == 35) {
                words[k + 4] = 8; /* OpMemberDecorate ... Offset */
                found = true;
            }
    }
    assert_true(found);
    code_set_bytes(&c, words, count * 4);
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "16 bytes of push constants"));
    free(words);
}

static void truncated_modules_are_refused(void **state)
{
    fixture *f = fixture_of(state);
    for (mul_code which = 0; which < MUL_COUNT; which++) {
        uint64_t count;
        uint32_t *words = words_of(which, &count);
        ddisp_backend_code_info info;
        code c;
        code_init(&c, which);
        for (uint64_t keep = 0; keep < count; keep++) {
            uint32_t *cut = malloc(keep * 4 + 1); /* exactly so long, for the address sanitizer */
            assert_non_null(cut);
            memcpy(cut, words, keep * 4);
            code_set_bytes(&c, cut, keep * 4);
            ddisp_status status = inspect(f, &c, &info);
            if (status != DDISP_STATUS_CODE_INVALID && status != DDISP_STATUS_NOT_FOUND)
                fail_msg("%llu of %llu words gave status %u", (unsigned long long)keep,
                         (unsigned long long)count, status);
            assert_true(f->table->code_fits(f->device, &c.backend_code) != DDISP_STATUS_OK ||
                        status == DDISP_STATUS_NOT_FOUND);
            free(cut);
        }
        free(words);
    }
}

static void random_modules_do_no_harm(void **state)
{
    fixture *f = fixture_of(state);
    uint64_t count, seed = 12345, refused = 0;
    uint32_t *words = words_of(MUL_BACKWARD_SWAP, &count);
    uint32_t *broken = malloc(count * 4);
    assert_non_null(broken);
    for (int round = 0; round < 10000; round++) {
        ddisp_backend_code_info info;
        code c;
        code_init(&c, MUL_BACKWARD_SWAP);
        memcpy(broken, words, count * 4);
        for (int hit = 0; hit < 1 + round % 4; hit++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint64_t at = (seed >> 33) % count;
            uint32_t kind = (uint32_t)(seed >> 20) & 3;
            broken[at] = kind == 0   ? (uint32_t)(seed >> 24)
                         : kind == 1 ? broken[at] ^ UINT32_C(1) << (seed >> 15 & 31)
                         : kind == 2 ? UINT32_MAX
                                     : 0;
        }
        code_set_bytes(&c, broken, count * 4);
        refused += inspect(f, &c, &info) != DDISP_STATUS_OK;
        (void)f->table->code_fits(f->device, &c.backend_code);
    }
    assert_true(refused > 5000);
    /* And with nothing right but the header. */
    for (int round = 0; round < 1000; round++) {
        ddisp_backend_code_info info;
        code c;
        code_init(&c, MUL_BACKWARD_SWAP);
        for (uint64_t i = 5; i < count; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            broken[i] = round & 1 ? (uint32_t)(seed >> 32)
                                  : (uint32_t)(seed >> 33) % 400 | (uint32_t)(seed >> 50 & 7) << 16;
        }
        memcpy(broken, words, 20);
        code_set_bytes(&c, broken, count * 4);
        assert_true(inspect(f, &c, &info) != DDISP_STATUS_OK);
    }
    free(broken);
    free(words);
}

static void unaligned_code_is_taken(void **state)
{
    fixture *f = fixture_of(state);
    uint64_t size_bytes;
    const void *bytes = mul_bytes(MUL_FORWARD, &size_bytes);
    unsigned char *moved = malloc(size_bytes + 1);
    assert_non_null(moved);
    memcpy(moved + 1, bytes, size_bytes);
    code c;
    code_init(&c, MUL_FORWARD);
    code_set_bytes(&c, moved + 1, size_bytes);
    assert_ok(f->table->code_fits(f->device, &c.backend_code));
    f->table->variant_release(f->device, variant_make(f, &c, UINT64_MAX));
    free(moved);
}

static void missing_capabilities_are_named(void **state)
{
    fixture *f = fixture_of(state);
    uint64_t count;
    uint32_t *words = words_of(MUL_FORWARD, &count);
    code c;
    code_init(&c, MUL_FORWARD);
    assert_ok(f->table->code_fits(f->device, &c.backend_code));
    assert_int_equal(words[5], 2u << 16 | 17); /* OpCapability */
    code_set_bytes(&c, words, count * 4);
    words[6] = 6; /* Kernel: of OpenCL */
    assert_int_equal(f->table->code_fits(f->device, &c.backend_code), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "capability 6"));
    words[6] = 6095; /* AtomicFloat16AddEXT */
    ddisp_status status = f->table->code_fits(f->device, &c.backend_code);
    if (f->info.atomic_add_f16 != DDISP_SUPPORT_NATIVE) {
        assert_int_equal(status, DDISP_STATUS_UNSUPPORTED);
        assert_non_null(strstr(last_message, "AtomicFloat16AddEXT"));
        assert_non_null(strstr(last_message, "VK_EXT_shader_atomic_float2"));
        assert_non_null(strstr(last_message, "compares and swaps would fit"));
    }
    words[6] = 1;
    words[1] = 0x00010700;
    assert_int_equal(f->table->code_fits(f->device, &c.backend_code), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "SPIR-V 1.7"));
    free(words);
}

static void a_buffer_that_is_not_there_is_refused(void **state)
{
    fixture *f = fixture_of(state);
    static const ddisp_native_arg native[1] = {DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 0, 0, 0)};
    ddisp_backend_code_info info;
    code c;
    code_init(&c, MUL_FORWARD);
    c.entry.native = native;
    c.entry.native_count = 1;
    assert_int_equal(inspect(f, &c, &info), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "binding 0"));
    assert_non_null(strstr(last_message, "'a'"));
}

/** Runs backward over 4 elements with the switches; gradients begin at 10. */
static void run_backward(const fixture *f, mul_code which, uint64_t switches, float ga[4],
                         float gb[4])
{
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, gy[4] = {1, 2, 1, 2};
    const float ten[4] = {10, 10, 10, 10};
    code c;
    code_init(&c, which);
    void *variant = variant_make(f, &c, switches);
    ddisp_backend_memory m[5];
    const float *const content[5] = {a, b, gy, ten, ten};
    for (int i = 0; i < 5; i++) {
        m[i] = memory_make(f, f->own, 16);
        upload(f, f->own, &m[i], 0, content[i], 16);
    }
    const ddisp_backend_memory *data[3] = {&m[0], &m[1], NULL};
    const ddisp_backend_memory *gradients[3] = {switches & 1 ? &m[3] : NULL,
                                                switches & 2 ? &m[4] : NULL, &m[2]};
    assert_ok(mul_launch(f, f->own, variant, 4, data, gradients, 0));
    download(f, f->own, &m[3], 0, ga, 16);
    download(f, f->own, &m[4], 0, gb, 16);
    for (int i = 0; i < 5; i++)
        f->table->memory_free(f->device, f->own, &m[i]);
    f->table->variant_release(f->device, variant);
}

static void variants_leave_out_what_is_switched_off(void **state)
{
    fixture *f = fixture_of(state);
    static const float with_a[4] = {15, 22, 17, 26}, with_b[4] = {11, 14, 13, 18};
    static const float without[4] = {10, 10, 10, 10};
    for (int native = 0; native < 2; native++) {
        mul_code which = native ? MUL_BACKWARD_NATIVE : MUL_BACKWARD_SWAP;
        code c;
        code_init(&c, which);
        if (native && f->info.atomic_add_f32 != DDISP_SUPPORT_NATIVE) {
            assert_int_equal(f->table->code_fits(f->device, &c.backend_code),
                             DDISP_STATUS_UNSUPPORTED);
            continue;
        }
        assert_ok(f->table->code_fits(f->device, &c.backend_code));
        for (uint64_t switches = 0; switches < 4; switches++) {
            float ga[4], gb[4];
            run_backward(f, which, switches, ga, gb);
            for (int i = 0; i < 4; i++) {
                assert_true(ga[i] == (switches & 1 ? with_a : without)[i]);
                assert_true(gb[i] == (switches & 2 ? with_b : without)[i]);
            }
        }
    }
}

static void group_size_constants_are_set_to_the_declared_size(void **state)
{
    fixture *f = fixture_of(state);
    enum { N = 1000 };
    code c;
    code_init(&c, MUL_SIZED); /* by default 1: then only 16 elements would be computed */
    void *variant = variant_make(f, &c, UINT64_MAX);
    float a[N], y[N];
    for (int i = 0; i < N; i++)
        a[i] = (float)i;
    ddisp_backend_memory ma = memory_make(f, f->own, sizeof a);
    ddisp_backend_memory my = memory_make(f, f->own, sizeof y);
    upload(f, f->own, &ma, 0, a, sizeof a);
    const ddisp_backend_memory *data[3] = {&ma, &ma, &my};
    assert_ok(mul_launch(f, f->own, variant, N, data, NULL, 0));
    download(f, f->own, &my, 0, y, sizeof y);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == (float)i * (float)i);
    f->table->memory_free(f->device, f->own, &ma);
    f->table->memory_free(f->device, f->own, &my);
    f->table->variant_release(f->device, variant);
}

static void a_group_beyond_the_limit_is_refused_with_both_numbers(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_SIZED);
    c.entry.group_size[0] = f->info.max_group_size[0];
    c.entry.group_size[1] = f->info.max_group_size[1];
    ddisp_backend_variant wanted = DDISP_ZERO;
    wanted.size = (uint32_t)sizeof wanted;
    wanted.mode = DDISP_MODE_FORWARD;
    wanted.code = &c.backend_code;
    wanted.entry = &c.entry;
    wanted.entry_name = "main";
    wanted.switches = UINT64_MAX;
    void *variant = NULL;
    assert_int_equal(f->table->variant_build(f->device, &wanted, &variant),
                     DDISP_STATUS_LIMIT_EXCEEDED);
    char product[32], limit[32];
    (void)snprintf(product, sizeof product, "%llu",
                   (unsigned long long)f->info.max_group_size[0] * f->info.max_group_size[1]);
    (void)snprintf(limit, sizeof limit, "%u", f->info.max_group_threads);
    assert_non_null(strstr(last_message, product));
    assert_non_null(strstr(last_message, limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_are_found),
        cmocka_unit_test(declared_switches_must_be_there),
        cmocka_unit_test(a_missing_entry_is_named),
        cmocka_unit_test(another_group_size_is_refused_with_both_numbers),
        cmocka_unit_test(what_is_no_spirv_is_refused),
        cmocka_unit_test(a_larger_push_constant_is_refused),
        cmocka_unit_test(truncated_modules_are_refused),
        cmocka_unit_test(random_modules_do_no_harm),
        cmocka_unit_test(unaligned_code_is_taken),
        cmocka_unit_test(missing_capabilities_are_named),
        cmocka_unit_test(a_buffer_that_is_not_there_is_refused),
        cmocka_unit_test(variants_leave_out_what_is_switched_off),
        cmocka_unit_test(group_size_constants_are_set_to_the_declared_size),
        cmocka_unit_test(a_group_beyond_the_limit_is_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
