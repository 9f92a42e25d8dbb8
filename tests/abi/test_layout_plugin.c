/*
 * Frozen layouts of the argument block, which is compiled into users' kernels, and of the plugin
 * ABI's structs.
 */
#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>

#include "layout.h"

/* ---- argument block: compiled into users' kernels ---- */

static const row ddisp_block_rows[] = {
    ROW(ddisp_block, abi, 0, 4),           ROW(ddisp_block, size_bytes, 4, 4),
    ROW(ddisp_block, items, 8, 8),         ROW(ddisp_block, tensor_count, 16, 4),
    ROW(ddisp_block, scalar_count, 20, 4), ROW(ddisp_block, flags, 24, 8),
};
LAYOUT(ddisp_block, 32);

static const row ddisp_device_tensor_rows[] = {
    ROW(ddisp_device_tensor, data, 0, 8),           ROW(ddisp_device_tensor, grad_add, 8, 8),
    ROW(ddisp_device_tensor, grad_read, 16, 8),     ROW(ddisp_device_tensor, dtype, 24, 4),
    ROW(ddisp_device_tensor, grad_dtype, 28, 4),    ROW(ddisp_device_tensor, flags, 32, 4),
    ROW(ddisp_device_tensor, rank, 36, 4),          ROW(ddisp_device_tensor, shape, 40, 64),
    ROW(ddisp_device_tensor, stride, 104, 64),      ROW(ddisp_device_tensor, add_stride, 168, 64),
    ROW(ddisp_device_tensor, read_stride, 232, 64), ROW(ddisp_device_tensor, scale, 296, 8),
    ROW(ddisp_device_tensor, sticky, 304, 8),       ROW(ddisp_device_tensor, limit, 312, 8),
};
LAYOUT(ddisp_device_tensor, 320);

/* ---- plugin ABI ---- */

static const row ddisp_backend_services_rows[] = {
    ROW(ddisp_backend_services, size, 0, 4),     ROW(ddisp_backend_services, abi, 4, 4),
    ROW(ddisp_backend_services, self, 8, 8),     ROW(ddisp_backend_services, allocate, 16, 8),
    ROW(ddisp_backend_services, release, 24, 8), ROW(ddisp_backend_services, log, 32, 8),
    ROW(ddisp_backend_services, fail, 40, 8),
};
LAYOUT(ddisp_backend_services, 48);

static const row ddisp_backend_memory_rows[] = {
    ROW(ddisp_backend_memory, address, 0, 8),
    ROW(ddisp_backend_memory, size_bytes, 8, 8),
    ROW(ddisp_backend_memory, handle, 16, 8),
    ROW(ddisp_backend_memory, host_pointer, 24, 8),
};
LAYOUT(ddisp_backend_memory, 32);

static const row ddisp_backend_range_rows[] = {
    ROW(ddisp_backend_range, handle, 0, 8),
    ROW(ddisp_backend_range, address, 8, 8),
    ROW(ddisp_backend_range, size_bytes, 16, 8),
};
LAYOUT(ddisp_backend_range, 24);

static const row ddisp_backend_code_rows[] = {
    ROW(ddisp_backend_code, size, 0, 4),
    ROW(ddisp_backend_code, param_count, 4, 4),
    ROW(ddisp_backend_code, kernel_name, 8, 8),
    ROW(ddisp_backend_code, code, 16, 8),
    ROW(ddisp_backend_code, params, 24, 8),
    ROW(ddisp_backend_code, switch_ids, 32, 8),
    ROW(ddisp_backend_code, block_size_bytes, 40, 4),
    ROW(ddisp_backend_code, reserved, 44, 4),
};
LAYOUT(ddisp_backend_code, 48);

static const row ddisp_backend_code_info_rows[] = {
    ROW(ddisp_backend_code_info, size, 0, 4),
    ROW(ddisp_backend_code_info, reserved, 4, 4),
    ROW(ddisp_backend_code_info, switch_mask, 8, 8),
    ROW(ddisp_backend_code_info, flags, 16, 8),
};
LAYOUT(ddisp_backend_code_info, 24);

static const row ddisp_backend_variant_rows[] = {
    ROW(ddisp_backend_variant, size, 0, 4),
    ROW(ddisp_backend_variant, mode, 4, 4),
    ROW(ddisp_backend_variant, code, 8, 8),
    ROW(ddisp_backend_variant, entry, 16, 8),
    ROW(ddisp_backend_variant, entry_name, 24, 8),
    ROW(ddisp_backend_variant, switches, 32, 8),
    ROW(ddisp_backend_variant, switch_mask, 40, 8),
    ROW(ddisp_backend_variant, artifact, 48, 8),
    ROW(ddisp_backend_variant, artifact_size_bytes, 56, 8),
};
LAYOUT(ddisp_backend_variant, 64);

static const row ddisp_backend_access_rows[] = {
    ROW(ddisp_backend_access, range, 0, 24),
    ROW(ddisp_backend_access, writes, 24, 4),
    ROW(ddisp_backend_access, reserved, 28, 4),
};
LAYOUT(ddisp_backend_access, 32);

static const row ddisp_backend_native_rows[] = {
    ROW(ddisp_backend_native, arg, 0, 8),       ROW(ddisp_backend_native, range, 8, 24),
    ROW(ddisp_backend_native, value, 32, 8),    ROW(ddisp_backend_native, size_bytes, 40, 4),
    ROW(ddisp_backend_native, reserved, 44, 4),
};
LAYOUT(ddisp_backend_native, 48);

static const row ddisp_backend_launch_rows[] = {
    ROW(ddisp_backend_launch, size, 0, 4),
    ROW(ddisp_backend_launch, block_size_bytes, 4, 4),
    ROW(ddisp_backend_launch, variant, 8, 8),
    ROW(ddisp_backend_launch, block, 16, 8),
    ROW(ddisp_backend_launch, items, 24, 8),
    ROW(ddisp_backend_launch, grid, 32, 12),
    ROW(ddisp_backend_launch, group_size, 44, 12),
    ROW(ddisp_backend_launch, shared_bytes, 56, 4),
    ROW(ddisp_backend_launch, native_count, 60, 4),
    ROW(ddisp_backend_launch, natives, 64, 8),
    ROW(ddisp_backend_launch, accesses, 72, 8),
    ROW(ddisp_backend_launch, access_count, 80, 4),
    ROW(ddisp_backend_launch, reserved, 84, 4),
};
LAYOUT(ddisp_backend_launch, 88);

static const row ddisp_backend_table_rows[] = {
    ROW(ddisp_backend_table, size, 0, 4),
    ROW(ddisp_backend_table, abi, 4, 4),
    ROW(ddisp_backend_table, name, 8, 8),
    ROW(ddisp_backend_table, version, 16, 8),
    ROW(ddisp_backend_table, open, 24, 8),
    ROW(ddisp_backend_table, close, 32, 8),
    ROW(ddisp_backend_table, device_count, 40, 8),
    ROW(ddisp_backend_table, device_describe, 48, 8),
    ROW(ddisp_backend_table, device_open, 56, 8),
    ROW(ddisp_backend_table, device_close, 64, 8),
    ROW(ddisp_backend_table, memory_allocate, 72, 8),
    ROW(ddisp_backend_table, memory_free, 80, 8),
    ROW(ddisp_backend_table, memory_import, 88, 8),
    ROW(ddisp_backend_table, memory_release_import, 96, 8),
    ROW(ddisp_backend_table, upload, 104, 8),
    ROW(ddisp_backend_table, download, 112, 8),
    ROW(ddisp_backend_table, fill, 120, 8),
    ROW(ddisp_backend_table, copy, 128, 8),
    ROW(ddisp_backend_table, stream_create, 136, 8),
    ROW(ddisp_backend_table, stream_destroy, 144, 8),
    ROW(ddisp_backend_table, stream_flush, 152, 8),
    ROW(ddisp_backend_table, stream_mark, 160, 8),
    ROW(ddisp_backend_table, stream_wait, 168, 8),
    ROW(ddisp_backend_table, stream_query, 176, 8),
    ROW(ddisp_backend_table, stream_synchronize, 184, 8),
    ROW(ddisp_backend_table, inspect, 192, 8),
    ROW(ddisp_backend_table, code_fits, 200, 8),
    ROW(ddisp_backend_table, variant_build, 208, 8),
    ROW(ddisp_backend_table, variant_release, 216, 8),
    ROW(ddisp_backend_table, launch, 224, 8),
    ROW(ddisp_backend_table, sink_acquire, 232, 8),
    ROW(ddisp_backend_table, sink_trim, 240, 8),
    ROW(ddisp_backend_table, fill_elements, 248, 8),
    ROW(ddisp_backend_table, accumulate, 256, 8),
    ROW(ddisp_backend_table, scatter_add, 264, 8),
    ROW(ddisp_backend_table, artifact_key, 272, 8),
    ROW(ddisp_backend_table, artifact_make, 280, 8),
    ROW(ddisp_backend_table, stream_wrap, 288, 8),
    ROW(ddisp_backend_table, stream_mark_timed, 296, 8),
    ROW(ddisp_backend_table, stream_elapsed, 304, 8),
    ROW(ddisp_backend_table, capture_begin, 312, 8),
    ROW(ddisp_backend_table, capture_end, 320, 8),
    ROW(ddisp_backend_table, graph_launch, 328, 8),
    ROW(ddisp_backend_table, graph_update, 336, 8),
    ROW(ddisp_backend_table, graph_release, 344, 8),
    ROW(ddisp_backend_table, memory_trim, 352, 8),
    ROW(ddisp_backend_table, memory_figures, 360, 8),
    ROW(ddisp_backend_table, device_wrap, 368, 8),
    ROW(ddisp_backend_table, memory_wrap, 376, 8),
    ROW(ddisp_backend_table, needs, 384, 8),
    ROW(ddisp_backend_table, fold, 392, 8),
};
LAYOUT(ddisp_backend_table, 400);

static const row ddisp_backend_memory_figures_rows[] = {
    ROW(ddisp_backend_memory_figures, size, 0, 4),
    ROW(ddisp_backend_memory_figures, reserved, 4, 4),
    ROW(ddisp_backend_memory_figures, reserved_bytes, 8, 8),
    ROW(ddisp_backend_memory_figures, reserved_peak_bytes, 16, 8),
    ROW(ddisp_backend_memory_figures, cached_bytes, 24, 8),
    ROW(ddisp_backend_memory_figures, reuses, 32, 8),
};
LAYOUT(ddisp_backend_memory_figures, 40);

static const row ddisp_backend_tensor_rows[] = {
    ROW(ddisp_backend_tensor, range, 0, 24),  ROW(ddisp_backend_tensor, address, 24, 8),
    ROW(ddisp_backend_tensor, dtype, 32, 4),  ROW(ddisp_backend_tensor, rank, 36, 4),
    ROW(ddisp_backend_tensor, shape, 40, 64), ROW(ddisp_backend_tensor, strides, 104, 64),
};
LAYOUT(ddisp_backend_tensor, 168);

static void plugin_abi_size_constant_is_the_table(void **state)
{
    (void)state;
    assert_int_equal(DDISP_BACKEND_TABLE_SIZE_0_1, 232);
    assert_int_equal(DDISP_BACKEND_ABI, 1);
    assert_int_equal(DDISP_BLOCK_ABI, 1);
}

static void block_macros_find_views_and_scalars(void **state)
{
    (void)state;
    _Alignas(8) unsigned char bytes[32 + 2 * 320 + 2 * 8] = {0};
    ddisp_block *block = (ddisp_block *)(void *)bytes;
    block->tensor_count = 2;
    block->scalar_count = 2;
    assert_ptr_equal(DDISP_BLOCK_TENSOR(block, 0), bytes + 32);
    assert_ptr_equal(DDISP_BLOCK_TENSOR(block, 1), bytes + 352);
    assert_ptr_equal(DDISP_BLOCK_SCALAR(block, 0), bytes + 672);
    assert_ptr_equal(DDISP_BLOCK_SCALAR(block, 1), bytes + 680);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ddisp_block),
        TEST(ddisp_device_tensor),
        TEST(ddisp_backend_services),
        TEST(ddisp_backend_memory),
        TEST(ddisp_backend_range),
        TEST(ddisp_backend_code),
        TEST(ddisp_backend_code_info),
        TEST(ddisp_backend_variant),
        TEST(ddisp_backend_access),
        TEST(ddisp_backend_native),
        TEST(ddisp_backend_launch),
        TEST(ddisp_backend_table),
        TEST(ddisp_backend_tensor),
        TEST(ddisp_backend_memory_figures),
        cmocka_unit_test(plugin_abi_size_constant_is_the_table),
        cmocka_unit_test(block_macros_find_views_and_scalars),
    };
    return cmocka_run_group_tests_name("layout of plugins", tests, NULL, NULL);
}
