/*
 * test_geometry.c - how many items a launch has and how many groups run them, with numbers worked
 * out by hand, and the limits with both numbers in the message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch.h"

static ddisp_device device;
static ddisp_kernel kernel;
static ddisp_param params[3];
static ddisp__launch launch;
static char name[] = "step";

static int set_up(void **unused)
{
    (void)unused;
    memset(&device, 0, sizeof device);
    memset(&kernel, 0, sizeof kernel);
    memset(&launch, 0, sizeof launch);
    strcpy(device.info.spec, "gpu:0");
    for (int k = 0; k < 3; k++) {
        device.info.max_group_count[k] = 65535;
        device.info.max_group_size[k] = k == 2 ? 64 : 1024;
    }
    device.info.max_group_threads = 1024;
    device.info.preferred_group_count = 100;
    device.info.max_shared_bytes = 49152;
    kernel.name = name;
    launch.device = &device;
    launch.kernel = &kernel;
    launch.count = 3;
    for (int i = 0; i < 3; i++) {
        params[i] = (ddisp_param){.kind = DDISP_PARAM_KIND_TENSOR,
                                  .access = i == 2 ? DDISP_ACCESS_OUT : DDISP_ACCESS_IN};
        launch.operands[i].param = &params[i];
        launch.operands[i].layout.numel = 10 * (i + 1);
    }
    return 0;
}

static uint64_t items(void)
{
    kernel.params = params;
    kernel.param_count = launch.count;
    kernel.items_param = ddisp__geometry_items_param(&kernel);
    assert_int_equal(ddisp__geometry_items(&launch), 0);
    return launch.items;
}

static void items_come_from_the_first_output(void **unused)
{
    (void)unused;
    assert_int_equal(items(), 30);
    params[2].access = DDISP_ACCESS_INOUT;
    assert_int_equal(items(), 30);
    params[1].access = DDISP_ACCESS_OUT;
    assert_int_equal(items(), 20);
    params[1].access = params[2].access = DDISP_ACCESS_IN;
    assert_int_equal(items(), 10);
    params[0].kind = DDISP_PARAM_KIND_SCALAR;
    assert_int_equal(items(), 20);
    params[2].flags = DDISP_PARAM_ITEMS;
    assert_int_equal(items(), 30);
    launch.count = 0;
    assert_int_equal(items(), 1);
}

static void items_of_the_launch_come_first(void **unused)
{
    (void)unused;
    params[2].flags = DDISP_PARAM_ITEMS;
    launch.options.items[0] = 7;
    assert_int_equal(items(), 7);
    launch.options.items[2] = 5;
    assert_int_equal(items(), 35);
    assert_int_equal(launch.axes[1], 1);
    launch.options.items[1] = launch.options.items[0] = UINT64_C(1) << 32;
    assert_int_equal(ddisp__geometry_items(&launch), DDISP_STATUS_OVERFLOW);
    assert_non_null(strstr(ddisp__error()->message, "items"));
}

/* Groups for so many items of one axis. */
static void expect(uint64_t count, uint64_t flags, uint32_t x)
{
    ddisp_entry entry = {.flags = flags, .group_size = {128, 0, 0}};
    uint32_t grid[3];
    launch.options.items[0] = count;
    (void)items();
    assert_int_equal(ddisp__geometry_grid(&launch, &entry, grid), 0);
    assert_int_equal(grid[0], x);
    assert_int_equal(grid[1], 1);
    assert_int_equal(grid[2], 1);
}

static void groups_cover_the_items(void **unused)
{
    (void)unused;
    expect(1, 0, 1);
    expect(128, 0, 1);
    expect(129, 0, 2);
    expect(65535 * 128, 0, 65535);
    expect(1, DDISP_ENTRY_LOOPS, 1);
    expect(129, DDISP_ENTRY_LOOPS, 2);
    expect(100 * 128, DDISP_ENTRY_LOOPS, 100);
    expect(UINT64_C(1) << 60, DDISP_ENTRY_LOOPS, 100); /* as many as fill the device */
}

static void axes_are_covered_one_by_one(void **unused)
{
    ddisp_entry entry = {.group_size = {8, 4, 2}};
    uint32_t grid[3];
    (void)unused;
    launch.options.items[0] = 17;
    launch.options.items[1] = 8;
    launch.options.items[2] = 3;
    assert_int_equal(items(), 408);
    assert_int_equal(ddisp__geometry_grid(&launch, &entry, grid), 0);
    assert_int_equal(grid[0], 3);
    assert_int_equal(grid[1], 2);
    assert_int_equal(grid[2], 2);
}

static void exceeds(const ddisp_entry *entry, const char *one, const char *other)
{
    uint32_t grid[3];
    (void)items();
    assert_int_equal(ddisp__geometry_grid(&launch, entry, grid), DDISP_STATUS_LIMIT_EXCEEDED);
    const char *message = ddisp__error()->message;
    assert_non_null(strstr(message, "step"));
    assert_non_null(strstr(message, "gpu:0"));
    assert_non_null(strstr(message, one));
    assert_non_null(strstr(message, other));
}

static void limits_are_named_with_both_numbers(void **unused)
{
    ddisp_entry entry = {.group_size = {128, 1, 1}};
    (void)unused;
    launch.options.items[0] = 65535 * 128 + 1;
    exceeds(&entry, "65536", "65535");
    launch.options.items[0] = UINT64_C(1) << 62;
    exceeds(&entry, "36028797018963968", "axis x");
    launch.options.items[0] = 1;
    launch.options.grid[1] = 70000;
    exceeds(&entry, "70000", "axis y");
    launch.options.grid[1] = 0;
    entry.group_size[0] = 2048;
    exceeds(&entry, "2048", "1024");
    entry.group_size[0] = entry.group_size[1] = entry.group_size[2] = 16;
    exceeds(&entry, "4096", "1024");
    entry.group_size[0] = 1;
    entry.group_size[1] = 1;
    entry.group_size[2] = 65;
    exceeds(&entry, "65", "axis z");
    entry.group_size[2] = 1;
    entry.shared_bytes = 49153;
    exceeds(&entry, "49153", "49152");
}

static void devices_without_groups_have_no_grid(void **unused)
{
    ddisp_entry entry = {.group_size = {4096, 1, 1}};
    uint32_t grid[3] = {9, 9, 9};
    (void)unused;
    memset(device.info.max_group_count, 0, sizeof device.info.max_group_count);
    assert_int_equal(ddisp__geometry_grid(&launch, &entry, grid), 0);
    assert_true(!grid[0] && !grid[1] && !grid[2]);
}

static void default_group_is_256_threads(void **unused)
{
    ddisp_entry entry = {.mode = DDISP_MODE_FORWARD};
    uint32_t group[3];
    (void)unused;
    ddisp__geometry_group(&entry, group);
    assert_int_equal(group[0], 256);
    assert_int_equal(group[1], 1);
    assert_int_equal(group[2], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(items_come_from_the_first_output, set_up),
        cmocka_unit_test_setup(items_of_the_launch_come_first, set_up),
        cmocka_unit_test_setup(groups_cover_the_items, set_up),
        cmocka_unit_test_setup(axes_are_covered_one_by_one, set_up),
        cmocka_unit_test_setup(limits_are_named_with_both_numbers, set_up),
        cmocka_unit_test_setup(devices_without_groups_have_no_grid, set_up),
        cmocka_unit_test_setup(default_group_is_256_threads, set_up),
    };
    return cmocka_run_group_tests_name("geometry", tests, NULL, NULL);
}
