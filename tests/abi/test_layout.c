/*
 * Frozen layouts of every public struct, of the argument block and of the plugin ABI's structs.
 *
 * Each row was written by hand: field, offset, size. Together the rows of a struct must cover it
 * without a gap, so that there is no implicit padding and no field that is not listed. Rows are
 * appended when a struct grows; a changed row is a broken ABI.
 */
#include <diffdispatch/accumulate.h>
#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct row {
    const char *field;
    size_t offset, size;           /* as compiled */
    size_t want_offset, want_size; /* as promised */
} row;

typedef struct layout {
    size_t size, want_size;
    const row *rows;
    size_t count;
} layout;

#define SIZE_OF(type, field) (sizeof(((type *)NULL)->field))
#define ROW(type, field, want_offset, want_size)                                                   \
    {                                                                                              \
#type "." #field, offsetof(type, field), SIZE_OF(type, field), (want_offset), (want_size)  \
    }
#define LAYOUT(type, want_size)                                                                    \
    static const layout type##_layout = {sizeof(type), (want_size), type##_rows,                   \
                                         sizeof type##_rows / sizeof type##_rows[0]}
#define TEST(type)                                                                                 \
    {                                                                                              \
#type "_is_frozen", is_frozen, NULL, NULL, (void *)(uintptr_t)&type##_layout               \
    }

static const row ddisp_error_rows[] = {
    ROW(ddisp_error, size, 0, 4),         ROW(ddisp_error, status, 4, 4),
    ROW(ddisp_error, argument, 8, 4),     ROW(ddisp_error, reserved, 12, 4),
    ROW(ddisp_error, native_code, 16, 8), ROW(ddisp_error, message, 24, 488),
};
LAYOUT(ddisp_error, 512);

static const row ddisp_allocator_rows[] = {
    ROW(ddisp_allocator, size, 0, 4),      ROW(ddisp_allocator, reserved, 4, 4),
    ROW(ddisp_allocator, user_data, 8, 8), ROW(ddisp_allocator, allocate, 16, 8),
    ROW(ddisp_allocator, release, 24, 8),
};
LAYOUT(ddisp_allocator, 32);

static const row ddisp_chain_rows[] = {
    ROW(ddisp_chain, size, 0, 4),
    ROW(ddisp_chain, type, 4, 4),
    ROW(ddisp_chain, next, 8, 8),
};
LAYOUT(ddisp_chain, 16);

static const row ddisp_context_desc_rows[] = {
    ROW(ddisp_context_desc, size, 0, 4),           ROW(ddisp_context_desc, log_level, 4, 4),
    ROW(ddisp_context_desc, next, 8, 8),           ROW(ddisp_context_desc, flags, 16, 8),
    ROW(ddisp_context_desc, allocator, 24, 8),     ROW(ddisp_context_desc, log, 32, 8),
    ROW(ddisp_context_desc, log_user_data, 40, 8), ROW(ddisp_context_desc, backends, 48, 8),
    ROW(ddisp_context_desc, backend_path, 56, 8),  ROW(ddisp_context_desc, cache_directory, 64, 8),
};
LAYOUT(ddisp_context_desc, 72);

static const row ddisp_backend_info_rows[] = {
    ROW(ddisp_backend_info, size, 0, 4),        ROW(ddisp_backend_info, status, 4, 4),
    ROW(ddisp_backend_info, abi_version, 8, 4), ROW(ddisp_backend_info, device_count, 12, 4),
    ROW(ddisp_backend_info, name, 16, 64),      ROW(ddisp_backend_info, version, 80, 64),
    ROW(ddisp_backend_info, path, 144, 512),    ROW(ddisp_backend_info, reason, 656, 512),
};
LAYOUT(ddisp_backend_info, 1168);

static const row ddisp_device_info_rows[] = {
    ROW(ddisp_device_info, size, 0, 4),
    ROW(ddisp_device_info, rank, 4, 4),
    ROW(ddisp_device_info, flags, 8, 8),
    ROW(ddisp_device_info, memory_bytes, 16, 8),
    ROW(ddisp_device_info, spec, 24, 32),
    ROW(ddisp_device_info, backend, 56, 32),
    ROW(ddisp_device_info, name, 88, 128),
    ROW(ddisp_device_info, uuid, 216, 40),
    ROW(ddisp_device_info, architecture, 256, 32),
    ROW(ddisp_device_info, driver, 288, 96),
    ROW(ddisp_device_info, formats, 384, 96),
    ROW(ddisp_device_info, specializes, 480, 96),
    ROW(ddisp_device_info, sink, 576, 32),
    ROW(ddisp_device_info, atomic_add_f16, 608, 4),
    ROW(ddisp_device_info, atomic_add_bf16, 612, 4),
    ROW(ddisp_device_info, atomic_add_f32, 616, 4),
    ROW(ddisp_device_info, atomic_add_f64, 620, 4),
    ROW(ddisp_device_info, max_allocation_bytes, 624, 8),
    ROW(ddisp_device_info, max_group_count, 632, 12),
    ROW(ddisp_device_info, max_group_size, 644, 12),
    ROW(ddisp_device_info, max_group_threads, 656, 4),
    ROW(ddisp_device_info, max_block_bytes, 660, 4),
    ROW(ddisp_device_info, preferred_group_count, 664, 4),
    ROW(ddisp_device_info, max_shared_bytes, 668, 4),
    ROW(ddisp_device_info, subgroup_size, 672, 4),
    ROW(ddisp_device_info, driver_version, 676, 4),
    ROW(ddisp_device_info, vendor_id, 680, 4),
    ROW(ddisp_device_info, device_id, 684, 4),
    ROW(ddisp_device_info, features, 688, 8),
};
LAYOUT(ddisp_device_info, 696);

static const row ddisp_device_statistics_rows[] = {
    ROW(ddisp_device_statistics, size, 0, 4),
    ROW(ddisp_device_statistics, reserved, 4, 4),
    ROW(ddisp_device_statistics, allocations, 8, 8),
    ROW(ddisp_device_statistics, frees, 16, 8),
    ROW(ddisp_device_statistics, bytes_live, 24, 8),
    ROW(ddisp_device_statistics, bytes_peak, 32, 8),
    ROW(ddisp_device_statistics, gradient_bytes_live, 40, 8),
    ROW(ddisp_device_statistics, gradient_bytes_peak, 48, 8),
    ROW(ddisp_device_statistics, scratch_bytes_live, 56, 8),
    ROW(ddisp_device_statistics, scratch_bytes_peak, 64, 8),
    ROW(ddisp_device_statistics, sink_bytes_live, 72, 8),
    ROW(ddisp_device_statistics, launches, 80, 8),
    ROW(ddisp_device_statistics, skips, 88, 8),
    ROW(ddisp_device_statistics, fills, 96, 8),
    ROW(ddisp_device_statistics, variants_built, 104, 8),
};
LAYOUT(ddisp_device_statistics, 112);

static const row ddisp_tensor_info_rows[] = {
    ROW(ddisp_tensor_info, size, 0, 4),       ROW(ddisp_tensor_info, dtype, 4, 4),
    ROW(ddisp_tensor_info, rank, 8, 4),       ROW(ddisp_tensor_info, grad_state, 12, 4),
    ROW(ddisp_tensor_info, flags, 16, 8),     ROW(ddisp_tensor_info, address, 24, 8),
    ROW(ddisp_tensor_info, numel, 32, 8),     ROW(ddisp_tensor_info, shape, 40, 64),
    ROW(ddisp_tensor_info, strides, 104, 64),
};
LAYOUT(ddisp_tensor_info, 168);

static const row ddisp_tensor_view_rows[] = {
    ROW(ddisp_tensor_view, size, 0, 4),
    ROW(ddisp_tensor_view, dtype, 4, 4),
    ROW(ddisp_tensor_view, rank, 8, 4),
    ROW(ddisp_tensor_view, grad_dtype, 12, 4),
    ROW(ddisp_tensor_view, flags, 16, 8),
    ROW(ddisp_tensor_view, address, 24, 8),
    ROW(ddisp_tensor_view, shape, 32, 8),
    ROW(ddisp_tensor_view, strides, 40, 8),
    ROW(ddisp_tensor_view, grad_add_strides, 48, 8),
    ROW(ddisp_tensor_view, grad_read_strides, 56, 8),
};
LAYOUT(ddisp_tensor_view, 64);

static const row ddisp_param_rows[] = {
    ROW(ddisp_param, name, 0, 8),   ROW(ddisp_param, kind, 8, 4),  ROW(ddisp_param, access, 12, 4),
    ROW(ddisp_param, dtype, 16, 4), ROW(ddisp_param, rank, 20, 4), ROW(ddisp_param, flags, 24, 8),
};
LAYOUT(ddisp_param, 32);

static const row ddisp_code_param_rows[] = {
    ROW(ddisp_code_param, param, 0, 4),         ROW(ddisp_code_param, write_mode, 4, 4),
    ROW(ddisp_code_param, grad_dtype, 8, 4),    ROW(ddisp_code_param, layouts, 12, 4),
    ROW(ddisp_code_param, grad_layouts, 16, 4), ROW(ddisp_code_param, alignment, 20, 4),
    ROW(ddisp_code_param, switch_id, 24, 4),    ROW(ddisp_code_param, reserved, 28, 4),
};
LAYOUT(ddisp_code_param, 32);

static const row ddisp_native_arg_rows[] = {
    ROW(ddisp_native_arg, source, 0, 4),      ROW(ddisp_native_arg, param, 4, 4),
    ROW(ddisp_native_arg, index, 8, 4),       ROW(ddisp_native_arg, space, 12, 4),
    ROW(ddisp_native_arg, set, 16, 4),        ROW(ddisp_native_arg, location, 20, 4),
    ROW(ddisp_native_arg, size_bytes, 24, 4), ROW(ddisp_native_arg, flags, 28, 4),
};
LAYOUT(ddisp_native_arg, 32);

static const row ddisp_entry_rows[] = {
    ROW(ddisp_entry, mode, 0, 4),          ROW(ddisp_entry, group_size, 4, 12),
    ROW(ddisp_entry, name, 16, 8),         ROW(ddisp_entry, function, 24, 8),
    ROW(ddisp_entry, function_id, 32, 8),  ROW(ddisp_entry, mask, 40, 8),
    ROW(ddisp_entry, flags, 48, 8),        ROW(ddisp_entry, native, 56, 8),
    ROW(ddisp_entry, native_count, 64, 4), ROW(ddisp_entry, shared_bytes, 68, 4),
};
LAYOUT(ddisp_entry, 72);

static const row ddisp_code_rows[] = {
    ROW(ddisp_code, backend, 0, 8),      ROW(ddisp_code, format, 8, 8),
    ROW(ddisp_code, bytes, 16, 8),       ROW(ddisp_code, size_bytes, 24, 8),
    ROW(ddisp_code, entries, 32, 8),     ROW(ddisp_code, entry_count, 40, 4),
    ROW(ddisp_code, entry_size, 44, 4),  ROW(ddisp_code, params, 48, 8),
    ROW(ddisp_code, param_count, 56, 4), ROW(ddisp_code, param_size, 60, 4),
    ROW(ddisp_code, options, 64, 8),     ROW(ddisp_code, flags, 72, 8),
};
LAYOUT(ddisp_code, 80);

static const row ddisp_kernel_desc_rows[] = {
    ROW(ddisp_kernel_desc, size, 0, 4),        ROW(ddisp_kernel_desc, variant_budget, 4, 4),
    ROW(ddisp_kernel_desc, next, 8, 8),        ROW(ddisp_kernel_desc, name, 16, 8),
    ROW(ddisp_kernel_desc, params, 24, 8),     ROW(ddisp_kernel_desc, param_count, 32, 4),
    ROW(ddisp_kernel_desc, param_size, 36, 4), ROW(ddisp_kernel_desc, codes, 40, 8),
    ROW(ddisp_kernel_desc, code_count, 48, 4), ROW(ddisp_kernel_desc, code_size, 52, 4),
    ROW(ddisp_kernel_desc, flags, 56, 8),
};
LAYOUT(ddisp_kernel_desc, 64);

static const row ddisp_kernel_statistics_rows[] = {
    ROW(ddisp_kernel_statistics, size, 0, 4),
    ROW(ddisp_kernel_statistics, reserved, 4, 4),
    ROW(ddisp_kernel_statistics, signatures, 8, 8),
    ROW(ddisp_kernel_statistics, variants, 16, 8),
    ROW(ddisp_kernel_statistics, variants_built, 24, 8),
    ROW(ddisp_kernel_statistics, signature_hits, 32, 8),
    ROW(ddisp_kernel_statistics, hash_collisions, 40, 8),
};
LAYOUT(ddisp_kernel_statistics, 48);

static const row ddisp_arg_rows[] = {
    ROW(ddisp_arg, tensor, 0, 8),    ROW(ddisp_arg, view, 8, 8),
    ROW(ddisp_arg, grad_add, 16, 8), ROW(ddisp_arg, grad_read, 24, 8),
    ROW(ddisp_arg, scalar, 32, 8),   ROW(ddisp_arg, scalar_size, 40, 4),
    ROW(ddisp_arg, policy, 44, 4),   ROW(ddisp_arg, flags, 48, 8),
    ROW(ddisp_arg, reserved, 56, 8),
};
LAYOUT(ddisp_arg, 64);

static const row ddisp_launch_options_rows[] = {
    ROW(ddisp_launch_options, size, 0, 4),      ROW(ddisp_launch_options, policy, 4, 4),
    ROW(ddisp_launch_options, next, 8, 8),      ROW(ddisp_launch_options, flags, 16, 8),
    ROW(ddisp_launch_options, items, 24, 24),   ROW(ddisp_launch_options, grid, 48, 12),
    ROW(ddisp_launch_options, reserved, 60, 4), ROW(ddisp_launch_options, device, 64, 8),
    ROW(ddisp_launch_options, error, 72, 8),    ROW(ddisp_launch_options, report, 80, 8),
};
LAYOUT(ddisp_launch_options, 88);

static const row ddisp_report_info_rows[] = {
    ROW(ddisp_report_info, size, 0, 4),         ROW(ddisp_report_info, status, 4, 4),
    ROW(ddisp_report_info, mode, 8, 4),         ROW(ddisp_report_info, skip, 12, 4),
    ROW(ddisp_report_info, launched, 16, 4),    ROW(ddisp_report_info, code, 20, 4),
    ROW(ddisp_report_info, variant, 24, 4),     ROW(ddisp_report_info, slot_count, 28, 4),
    ROW(ddisp_report_info, items, 32, 8),       ROW(ddisp_report_info, build_ns, 40, 8),
    ROW(ddisp_report_info, extra_bytes, 48, 8), ROW(ddisp_report_info, mask, 56, 8),
    ROW(ddisp_report_info, signature, 64, 16),
};
LAYOUT(ddisp_report_info, 80);

static const row ddisp_report_slot_rows[] = {
    ROW(ddisp_report_slot, size, 0, 4),      ROW(ddisp_report_slot, param, 4, 4),
    ROW(ddisp_report_slot, is_add, 8, 4),    ROW(ddisp_report_slot, backing, 12, 4),
    ROW(ddisp_report_slot, policy, 16, 4),   ROW(ddisp_report_slot, requires_grad, 20, 4),
    ROW(ddisp_report_slot, flags, 24, 8),    ROW(ddisp_report_slot, bytes, 32, 8),
    ROW(ddisp_report_slot, reason, 40, 128),
};
LAYOUT(ddisp_report_slot, 168);

static const row ddisp_accumulate_options_rows[] = {
    ROW(ddisp_accumulate_options, size, 0, 4),
    ROW(ddisp_accumulate_options, reserved, 4, 4),
    ROW(ddisp_accumulate_options, flags, 8, 8),
    ROW(ddisp_accumulate_options, out_skipped, 16, 8),
};
LAYOUT(ddisp_accumulate_options, 24);

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
    ROW(ddisp_device_tensor, sticky, 304, 8),       ROW(ddisp_device_tensor, reserved, 312, 8),
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
};
LAYOUT(ddisp_backend_table, 360);

static const row ddisp_backend_tensor_rows[] = {
    ROW(ddisp_backend_tensor, range, 0, 24),  ROW(ddisp_backend_tensor, address, 24, 8),
    ROW(ddisp_backend_tensor, dtype, 32, 4),  ROW(ddisp_backend_tensor, rank, 36, 4),
    ROW(ddisp_backend_tensor, shape, 40, 64), ROW(ddisp_backend_tensor, strides, 104, 64),
};
LAYOUT(ddisp_backend_tensor, 168);

static void is_frozen(void **state)
{
    const layout *type = *state;
    size_t end = 0;
    for (size_t i = 0; i < type->count; i++) {
        const row *field = &type->rows[i];
        if (field->offset != field->want_offset || field->size != field->want_size ||
            field->offset != end)
            fail_msg("%s is %zu bytes at %zu, promised are %zu bytes at %zu; the field before ends "
                     "at %zu",
                     field->field, field->size, field->offset, field->want_size, field->want_offset,
                     end);
        end = field->offset + field->size;
    }
    assert_int_equal(type->size, type->want_size);
    assert_int_equal(end, type->size);
}

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
        TEST(ddisp_error),
        TEST(ddisp_allocator),
        TEST(ddisp_chain),
        TEST(ddisp_context_desc),
        TEST(ddisp_backend_info),
        TEST(ddisp_device_info),
        TEST(ddisp_device_statistics),
        TEST(ddisp_tensor_info),
        TEST(ddisp_tensor_view),
        TEST(ddisp_param),
        TEST(ddisp_code_param),
        TEST(ddisp_native_arg),
        TEST(ddisp_entry),
        TEST(ddisp_code),
        TEST(ddisp_kernel_desc),
        TEST(ddisp_kernel_statistics),
        TEST(ddisp_arg),
        TEST(ddisp_launch_options),
        TEST(ddisp_report_info),
        TEST(ddisp_report_slot),
        TEST(ddisp_accumulate_options),
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
        cmocka_unit_test(plugin_abi_size_constant_is_the_table),
        cmocka_unit_test(block_macros_find_views_and_scalars),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
