/*
 * test_vulkan_devices.c - the Vulkan backend over a stand-in loader that hides what devices have:
 * without what is needed a device is left out, without what is not it serves.
 */
#include "vulkan_scenario.h"

#include <stdlib.h>

enum { N = SCENARIO_COUNT };

static void without_float_atomics_only_the_other_code_fits(void **state)
{
    const fixture *f = scenario_prepared(state);
    fake_vulkan_hide("VK_EXT_shader_atomic_float,VK_EXT_shader_atomic_float2");
    scenario r = {.f = {.table = f->table}};
    assert_ok(f->table->open(&services, &r.f.instance));
    r.f.info.size = (uint32_t)sizeof r.f.info;
    assert_ok(f->table->device_describe(r.f.instance, 0, &r.f.info));
    assert_int_equal(r.f.info.atomic_add_f32, DDISP_SUPPORT_EMULATED);
    assert_int_equal(r.f.info.flags & DDISP_DEVICE_FLAG_FAKE, DDISP_DEVICE_FLAG_FAKE);
    assert_ok(f->table->device_open(r.f.instance, 0, &r.f.device));
    code c;
    code_init(&c, MUL_BACKWARD_NATIVE);
    assert_int_equal(f->table->code_fits(r.f.device, &c.backend_code), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "AtomicFloat32AddEXT"));
    assert_non_null(strstr(last_message, "compares and swaps would fit"));
    code_init(&c, MUL_BACKWARD_SWAP);
    assert_ok(f->table->code_fits(r.f.device, &c.backend_code));
    scenario_finish(&r);
}

static void a_device_of_vulkan_1_2_serves(void **state)
{
    const fixture *f = scenario_prepared(state);
    float found[N];
    fake_vulkan_hide("vulkan1.3");
    scenario r = scenario_run(f, false, found);
    if (r.first != DDISP_STATUS_OK)
        fail_msg("status %u: %s", r.first, r.message);
    assert_true(scenario_right(found));
    scenario again = {.f = {.table = f->table}};
    assert_ok(f->table->open(&services, &again.f.instance));
    assert_ok(f->table->device_open(again.f.instance, 0, &again.f.device));
    uint64_t size_bytes;
    const void *bytes = mul_bytes(MUL_FORWARD, &size_bytes);
    uint32_t *words = malloc(size_bytes);
    assert_non_null(words);
    memcpy(words, bytes, size_bytes);
    code c;
    code_init(&c, MUL_FORWARD);
    code_set_bytes(&c, words, size_bytes);
    assert_ok(f->table->code_fits(again.f.device, &c.backend_code));
    words[1] = 0x00010600; /* SPIR-V 1.6 comes with Vulkan 1.3 */
    assert_int_equal(f->table->code_fits(again.f.device, &c.backend_code),
                     DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "SPIR-V 1.6"));
    free(words);
    scenario_finish(&again);
}

static void devices_that_lack_a_requirement_are_left_out(void **state)
{
    const fixture *f = scenario_prepared(state);
    static const char *const needed[][2] = {{"bufferDeviceAddress", "bufferDeviceAddress"},
                                            {"timelineSemaphore", "timelineSemaphore"},
                                            {"shaderInt64", "shaderInt64"},
                                            {"vulkan1.2", "offers Vulkan 1.1, 1.2 is needed"}};
    for (int i = 0; i < 4; i++) {
        void *instance = NULL;
        fake_vulkan_hide(needed[i][0]);
        assert_int_equal(f->table->open(&services, &instance), DDISP_STATUS_BACKEND_UNAVAILABLE);
        assert_non_null(strstr(last_message, needed[i][1]));
        assert_null(instance);
    }
    fake_vulkan_reset();
    assert_int_equal(fake_vulkan_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_float_atomics_only_the_other_code_fits),
        cmocka_unit_test(a_device_of_vulkan_1_2_serves),
        cmocka_unit_test(devices_that_lack_a_requirement_are_left_out),
    };
    return cmocka_run_group_tests(tests, scenario_setup, NULL);
}
