/*
 * test_vulkan_artifact.c - compiled variants as bytes: what a driver's pipeline cache gives is
 * taken back by the same driver, and bytes of another one are refused before the driver sees them.
 */
#include "vulkan_fixture.h"

#include <stdlib.h>

#define HEADER 32u

static ddisp_backend_variant variant_of(const fixture *f, const code *c)
{
    ddisp_backend_code_info found = DDISP_ZERO;
    found.size = (uint32_t)sizeof found;
    assert_ok(f->table->inspect(&services, &c->backend_code, &found));
    ddisp_backend_variant wanted = DDISP_ZERO;
    wanted.size = (uint32_t)sizeof wanted;
    wanted.mode = c->entry.mode;
    wanted.code = &c->backend_code;
    wanted.entry = &c->entry;
    wanted.entry_name = c->entry.name;
    wanted.switches = UINT64_MAX;
    wanted.switch_mask = found.switch_mask;
    return wanted;
}

/** y = a * b with a variant, which is released. */
static void check_product(const fixture *f, void *variant)
{
    static const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    float y[4] = {0};
    ddisp_backend_memory memory[3];
    const ddisp_backend_memory *data[3] = {&memory[0], &memory[1], &memory[2]};
    for (int i = 0; i < 3; i++)
        memory[i] = memory_make(f, f->own, sizeof y);
    upload(f, f->own, &memory[0], 0, a, sizeof a);
    upload(f, f->own, &memory[1], 0, b, sizeof b);
    assert_ok(mul_launch(f, f->own, variant, 4, data, NULL, 0));
    download(f, f->own, &memory[2], 0, y, sizeof y);
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == a[i] * b[i]);
    for (int i = 0; i < 3; i++)
        f->table->memory_free(f->device, f->own, &memory[i]);
    f->table->variant_release(f->device, variant);
}

static void a_key_names_the_driver(void **state)
{
    fixture *f = fixture_of(state);
    uint8_t first[64] = {0}, second[64] = {0};
    uint32_t size = 0, again = 0;
    code c;
    code_init(&c, MUL_FORWARD);
    ddisp_backend_variant wanted = variant_of(f, &c);
    assert_ok(f->table->artifact_key(&services, f->device, f->info.architecture, &wanted, first,
                                     sizeof first, &size));
    assert_ok(f->table->artifact_key(&services, f->device, f->info.architecture, &wanted, second,
                                     sizeof second, &again));
    assert_int_equal(size, again);
    assert_memory_equal(first, second, size);
    uint32_t numbers[4];
    memcpy(numbers, first + 16, sizeof numbers);
    assert_int_equal(numbers[0], f->info.driver_version);
    assert_int_equal(numbers[2], f->info.vendor_id);
    assert_int_equal(numbers[3], f->info.device_id);
    assert_int_equal(f->table->artifact_key(&services, f->device, f->info.architecture, &wanted,
                                            first, 3, &size),
                     DDISP_STATUS_BUFFER_TOO_SMALL);
    assert_int_equal(f->table->artifact_key(&services, NULL, f->info.architecture, &wanted, first,
                                            sizeof first, &size),
                     DDISP_STATUS_UNSUPPORTED);
}

static void what_there_is_to_keep_is_taken(void **state)
{
    fixture *f = fixture_of(state);
    void *bytes = NULL, *variant = NULL;
    uint64_t size = 0;
    uint8_t key[64];
    uint32_t key_size = 0;
    code c;
    code_init(&c, MUL_FORWARD);
    ddisp_backend_variant wanted = variant_of(f, &c);
    ddisp_status status =
        f->table->artifact_make(&services, f->device, f->info.architecture, &wanted, &bytes, &size);
    if (status == DDISP_STATUS_UNSUPPORTED) { /* and it is not asked again */
        assert_non_null(strstr(last_message, "empty"));
        assert_null(bytes);
        assert_int_equal(f->table->artifact_key(&services, f->device, f->info.architecture, &wanted,
                                                key, sizeof key, &key_size),
                         DDISP_STATUS_UNSUPPORTED);
        print_message("# this driver has nothing to keep: %s\n", last_message);
        return;
    }
    assert_ok(status);
    assert_true(size > HEADER);
    wanted.artifact = bytes;
    wanted.artifact_size_bytes = size;
    assert_ok(f->table->variant_build(f->device, &wanted, &variant));
    check_product(f, variant);
    ((uint8_t *)bytes)[HEADER - 1] ^= 1; /* of the UUID */
    assert_int_equal(f->table->variant_build(f->device, &wanted, &variant),
                     DDISP_STATUS_CODE_REJECTED);
    services.release(services.self, bytes);
}

/** Of any length, also with a header that is right but for the driver's UUID. */
static void another_drivers_bytes_are_refused(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    ddisp_backend_variant wanted = variant_of(f, &c);
    uint8_t bytes[HEADER + 16] = {0};
    const uint32_t head[4] = {HEADER, 1, f->info.vendor_id, f->info.device_id};
    memcpy(bytes, head, sizeof head);
    memset(bytes + sizeof head, 0xA5, 16); /* no driver's UUID */
    wanted.artifact = bytes;
    for (uint64_t size = 0; size <= sizeof bytes; size += 8) {
        void *variant = NULL;
        wanted.artifact_size_bytes = size;
        assert_int_equal(f->table->variant_build(f->device, &wanted, &variant),
                         DDISP_STATUS_CODE_REJECTED);
        assert_null(variant);
        assert_non_null(strstr(last_message, "kernel mul"));
    }
    assert_non_null(strstr(last_message, "another device or driver"));
}

static void a_failed_compilation_leaves_nothing(void **state)
{
    fixture *f = fixture_of(state);
    code c;
    code_init(&c, MUL_FORWARD);
    ddisp_backend_variant wanted = variant_of(f, &c);
    void *bytes = &c;
    uint64_t size = 7;
    int before = atomic_load(&live);
    wanted.entry_name = "absent";
    assert_int_equal(
        f->table->artifact_make(&services, f->device, f->info.architecture, &wanted, &bytes, &size),
        DDISP_STATUS_NOT_FOUND);
    assert_null(bytes);
    assert_int_equal(size, 0);
    assert_int_equal(atomic_load(&live), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_names_the_driver),
        cmocka_unit_test(another_drivers_bytes_are_refused),
        cmocka_unit_test(a_failed_compilation_leaves_nothing),
        cmocka_unit_test(what_there_is_to_keep_is_taken),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
