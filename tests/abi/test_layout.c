/*
 * Frozen layouts of the structs that programs hand to the library.
 */
#include <diffdispatch/diffdispatch.h>

#include "layout.h"

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
    ROW(ddisp_device_info, driver_id, 696, 4),
    ROW(ddisp_device_info, atomic_add_i64, 700, 4),
    ROW(ddisp_device_info, dlpack_device_type, 704, 4),
    ROW(ddisp_device_info, dlpack_device_id, 708, 4),
};
LAYOUT(ddisp_device_info, 712);

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
    ROW(ddisp_device_statistics, bytes_cached, 112, 8),
    ROW(ddisp_device_statistics, bytes_reserved_peak, 120, 8),
    ROW(ddisp_device_statistics, reuses, 128, 8),
    ROW(ddisp_device_statistics, memory_limit_bytes, 136, 8),
};
LAYOUT(ddisp_device_statistics, 144);

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
    ROW(ddisp_code, headers, 80, 8),     ROW(ddisp_code, header_count, 88, 4),
    ROW(ddisp_code, header_size, 92, 4),
};
LAYOUT(ddisp_code, 96);

static const row ddisp_header_rows[] = {
    ROW(ddisp_header, name, 0, 8),
    ROW(ddisp_header, bytes, 8, 8),
    ROW(ddisp_header, size_bytes, 16, 8),
};
LAYOUT(ddisp_header, 24);

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
    ROW(ddisp_kernel_statistics, artifacts_read, 48, 8),
    ROW(ddisp_kernel_statistics, artifacts_made, 56, 8),
    ROW(ddisp_kernel_statistics, artifacts_repaired, 64, 8),
};
LAYOUT(ddisp_kernel_statistics, 72);

static const row ddisp_arg_rows[] = {
    ROW(ddisp_arg, tensor, 0, 8),    ROW(ddisp_arg, view, 8, 8),
    ROW(ddisp_arg, grad_add, 16, 8), ROW(ddisp_arg, grad_read, 24, 8),
    ROW(ddisp_arg, scalar, 32, 8),   ROW(ddisp_arg, scalar_size, 40, 4),
    ROW(ddisp_arg, policy, 44, 4),   ROW(ddisp_arg, flags, 48, 8),
    ROW(ddisp_arg, reserved, 56, 8),
};
LAYOUT(ddisp_arg, 64);

static const row ddisp_launch_options_rows[] = {
    ROW(ddisp_launch_options, size, 0, 4),         ROW(ddisp_launch_options, policy, 4, 4),
    ROW(ddisp_launch_options, next, 8, 8),         ROW(ddisp_launch_options, flags, 16, 8),
    ROW(ddisp_launch_options, items, 24, 24),      ROW(ddisp_launch_options, grid, 48, 12),
    ROW(ddisp_launch_options, reserved, 60, 4),    ROW(ddisp_launch_options, device, 64, 8),
    ROW(ddisp_launch_options, error, 72, 8),       ROW(ddisp_launch_options, report, 80, 8),
    ROW(ddisp_launch_options, bounds, 88, 8),      ROW(ddisp_launch_options, bound_count, 96, 4),
    ROW(ddisp_launch_options, bound_size, 100, 4),
};
LAYOUT(ddisp_launch_options, 104);

static const row ddisp_bound_rows[] = {
    ROW(ddisp_bound, param, 0, 4),
    ROW(ddisp_bound, reserved, 4, 4),
    ROW(ddisp_bound, bound, 8, 8),
    ROW(ddisp_bound, adds, 16, 8),
};
LAYOUT(ddisp_bound, 24);

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

static const row ddisp_signature_rows[] = {
    ROW(ddisp_signature, size, 0, 4),
    ROW(ddisp_signature, byte_count, 4, 4),
    ROW(ddisp_signature, hash, 8, 16),
    ROW(ddisp_signature, bytes, 24, 2024),
};
LAYOUT(ddisp_signature, 2048);

static const row ddisp_signature_info_rows[] = {
    ROW(ddisp_signature_info, size, 0, 4),
    ROW(ddisp_signature_info, version, 4, 4),
    ROW(ddisp_signature_info, mode, 8, 4),
    ROW(ddisp_signature_info, param_count, 12, 4),
    ROW(ddisp_signature_info, backend, 16, 32),
    ROW(ddisp_signature_info, architecture, 48, 32),
    ROW(ddisp_signature_info, vendor_id, 80, 4),
    ROW(ddisp_signature_info, device_id, 84, 4),
    ROW(ddisp_signature_info, driver_id, 88, 4),
    ROW(ddisp_signature_info, index_width, 92, 4),
    ROW(ddisp_signature_info, features, 96, 8),
    ROW(ddisp_signature_info, flags, 104, 8),
    ROW(ddisp_signature_info, deterministic, 112, 4),
    ROW(ddisp_signature_info, atomic_mode, 116, 4),
    ROW(ddisp_signature_info, kernel, 120, 16),
    ROW(ddisp_signature_info, hash, 136, 16),
};
LAYOUT(ddisp_signature_info, 152);

static const row ddisp_signature_param_rows[] = {
    ROW(ddisp_signature_param, size, 0, 4),         ROW(ddisp_signature_param, kind, 4, 4),
    ROW(ddisp_signature_param, access, 8, 4),       ROW(ddisp_signature_param, dtype, 12, 4),
    ROW(ddisp_signature_param, rank, 16, 4),        ROW(ddisp_signature_param, layout, 20, 4),
    ROW(ddisp_signature_param, alignment, 24, 4),   ROW(ddisp_signature_param, alias, 28, 4),
    ROW(ddisp_signature_param, flags, 32, 4),       ROW(ddisp_signature_param, policy, 36, 4),
    ROW(ddisp_signature_param, write_modes, 40, 4), ROW(ddisp_signature_param, add_alias, 44, 4),
    ROW(ddisp_signature_param, add_dtype, 48, 4),   ROW(ddisp_signature_param, add_layout, 52, 4),
    ROW(ddisp_signature_param, read_dtype, 56, 4),  ROW(ddisp_signature_param, read_layout, 60, 4),
};
LAYOUT(ddisp_signature_param, 64);

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
        TEST(ddisp_header),
        TEST(ddisp_kernel_desc),
        TEST(ddisp_kernel_statistics),
        TEST(ddisp_arg),
        TEST(ddisp_launch_options),
        TEST(ddisp_bound),
        TEST(ddisp_report_info),
        TEST(ddisp_signature),
        TEST(ddisp_signature_info),
        TEST(ddisp_signature_param),
        TEST(ddisp_report_slot),
        TEST(ddisp_accumulate_options),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
