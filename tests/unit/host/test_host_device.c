/*
 * test_host_device.c - the host backend's handshake, its device's description, and which codes it
 * takes.
 */
#include "host_fixture.h"

#include <ctype.h>
#include <string.h>

static void no_work(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)block;
    (void)begin;
    (void)end;
}

static void query_answers_its_abi_only(void **state)
{
    (void)state;
    ddisp_backend_query_function query = plugin_query();
    const ddisp_backend_table *table = NULL;
    assert_int_equal(query((DDISP_BACKEND_ABI_MAJOR + 1) << 16, &services, &table),
                     DDISP_STATUS_INCOMPATIBLE);
    assert_null(table);
    assert_non_null(strstr(last_message, "0.1"));
    assert_non_null(strstr(last_message, "1.0"));
    assert_int_equal(query(DDISP_BACKEND_ABI - 1, &services, &table), DDISP_STATUS_INCOMPATIBLE);
    assert_null(table);
    assert_int_equal(query(DDISP_BACKEND_ABI + 1, &services, &table), DDISP_STATUS_OK);
    assert_int_equal(table->abi, DDISP_BACKEND_ABI);
    assert_true(table->size >= DDISP_BACKEND_TABLE_SIZE_0_1);
    assert_string_equal(table->name, "host");
}

static void every_required_entry_of_the_table_is_there(void **state)
{
    const fixture *f = *state;
    void *const *entry = (void *const *)(const void *)&f->table->open;
    void *const *end = (void *const *)(const void *)((const unsigned char *)f->table +
                                                     DDISP_BACKEND_TABLE_SIZE_0_1);
    assert_ptr_equal(end, (const void *)(&f->table->launch + 1));
    for (; entry < end; entry++) {
        assert_non_null(*entry);
    }
}

static void assert_is_uuid(const char *uuid)
{
    assert_int_equal(strlen(uuid), 36);
    for (int i = 0; i < 36; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            assert_int_equal(uuid[i], '-');
        } else {
            assert_true(isxdigit((unsigned char)uuid[i]));
        }
    }
    assert_int_equal(uuid[14], '8');
    assert_non_null(strchr("89ab", uuid[19]));
}

static void device_is_described(void **state)
{
    const fixture *f = *state;
    uint32_t count = 0;
    assert_int_equal(f->table->device_count(f->instance, &count), DDISP_STATUS_OK);
    assert_int_equal(count, 1);
    ddisp_device_info info = DDISP_ZERO, again = DDISP_ZERO;
    info.size = again.size = (uint32_t)sizeof info;
    assert_int_equal(f->table->device_describe(f->instance, 0, &info), DDISP_STATUS_OK);
    assert_int_equal(f->table->device_describe(f->instance, 0, &again), DDISP_STATUS_OK);
    assert_memory_equal(&info, &again, sizeof info);
    assert_true(strlen(info.name) > 0);
    assert_is_uuid(info.uuid);
    assert_string_equal(info.formats, "host-function,host-library");
    assert_string_equal(info.specializes, "");
    assert_int_equal(strcmp(info.sink, "none") == 0, !f->table->sink_acquire);
    assert_int_equal(strncmp(info.driver, "OpenMP, ", 8), 0);
    assert_int_equal(info.flags, DDISP_DEVICE_FLAG_SOFTWARE | DDISP_DEVICE_FLAG_HOST_ADDRESSES);
    assert_int_equal(info.rank, 10);
    assert_int_equal(info.atomic_add_f32, DDISP_SUPPORT_EMULATED);
    for (int axis = 0; axis < 3; axis++) {
        assert_int_equal(info.max_group_count[axis], 0);
        assert_int_equal(info.max_group_size[axis], 0);
    }
    assert_true(info.max_allocation_bytes > 0);
    assert_true(info.max_allocation_bytes <= info.memory_bytes);
}

/** A code of two entries, as the core hands it over. */
typedef struct example {
    ddisp_entry entries[2];
    ddisp_code code;
    ddisp_backend_code backend_code;
} example;

static void example_make(example *it)
{
    const ddisp_entry entries[2] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, no_work, 11),
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, no_work, 12, 1)};
    memcpy(it->entries, entries, sizeof entries);
    ddisp_code code = DDISP_CODE("host", "host-function", NULL, 0, it->entries, 0);
    ddisp_backend_code backend_code = {.size = (uint32_t)sizeof backend_code,
                                       .kernel_name = "mul",
                                       .block_size_bytes = (uint32_t)sizeof(ddisp_block)};
    it->code = code;
    it->backend_code = backend_code;
    it->backend_code.code = &it->code;
}

static ddisp_status inspect(const fixture *f, const example *it)
{
    ddisp_backend_code_info info = {(uint32_t)sizeof info, 0, 77, 0};
    ddisp_status status = f->table->inspect(&services, &it->backend_code, &info);
    assert_int_equal(info.switch_mask, status == DDISP_STATUS_OK ? 0 : 77);
    return status;
}

static void host_functions_are_taken(void **state)
{
    const fixture *f = *state;
    example it;
    example_make(&it);
    assert_int_equal(inspect(f, &it), DDISP_STATUS_OK);
    assert_int_equal(f->table->code_fits(f->device, &it.backend_code), DDISP_STATUS_OK);
}

static void unknown_format_is_refused_with_the_known_ones(void **state)
{
    const fixture *f = *state;
    example it;
    example_make(&it);
    it.code.format = "ptx";
    assert_int_equal(inspect(f, &it), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "mul"));
    assert_non_null(strstr(last_message, "'ptx'"));
    assert_non_null(strstr(last_message, "host-function"));
    last_message[0] = '\0';
    assert_int_equal(f->table->code_fits(f->device, &it.backend_code), DDISP_STATUS_UNSUPPORTED);
    assert_non_null(strstr(last_message, "host-function"));
}

static void entry_without_function_is_refused(void **state)
{
    const fixture *f = *state;
    example it;
    example_make(&it);
    it.entries[1].function = NULL;
    assert_int_equal(inspect(f, &it), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "entry 1 (backward)"));
}

static void entry_without_identity_is_refused(void **state)
{
    const fixture *f = *state;
    example it;
    example_make(&it);
    it.entries[0].function_id = 0;
    assert_int_equal(inspect(f, &it), DDISP_STATUS_CODE_INVALID);
    assert_non_null(strstr(last_message, "entry 0 (forward)"));
    assert_non_null(strstr(last_message, "id 0"));
}

/** Everything that is allocated on the way to a launch fails in turn. */
static void failing_to_open_leaves_nothing(void **state)
{
    (void)state;
    const ddisp_backend_table *table;
    assert_int_equal(plugin_query()(DDISP_BACKEND_ABI, &services, &table), DDISP_STATUS_OK);
    void *instance = NULL, *device = NULL, *stream = NULL;
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->open(&services, &instance), DDISP_STATUS_OUT_OF_MEMORY);
    assert_null(instance);
    assert_int_equal(table->open(&services, &instance), DDISP_STATUS_OK);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->device_open(instance, 0, &device), DDISP_STATUS_OUT_OF_MEMORY);
    assert_null(device);
    assert_int_equal(table->device_open(instance, 0, &device), DDISP_STATUS_OK);
    atomic_store(&fail_allocation, 1);
    assert_int_equal(table->stream_create(device, 0, &stream), DDISP_STATUS_OUT_OF_MEMORY);
    assert_null(stream);
    table->device_close(device);
    table->close(instance);
    assert_int_equal(atomic_load(&live), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_answers_its_abi_only),
        cmocka_unit_test(failing_to_open_leaves_nothing),
        cmocka_unit_test_setup_teardown(every_required_entry_of_the_table_is_there, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(device_is_described, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(host_functions_are_taken, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(unknown_format_is_refused_with_the_known_ones, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(entry_without_function_is_refused, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(entry_without_identity_is_refused, fixture_open,
                                        fixture_close),
    };
    return cmocka_run_group_tests_name("host device", tests, NULL, NULL);
}
