/*
 * vulkan_backend.c - the table of the Vulkan backend. Nothing here touches the driver: that begins
 * with open.
 */
#include "vulkan_internal.h"

static ddisp_status device_count(void *instance, uint32_t *out_count)
{
    *out_count = ((vulkan__instance *)instance)->adapter_count;
    return DDISP_STATUS_OK;
}

static const ddisp_backend_table table = {
    .size = (uint32_t)sizeof(ddisp_backend_table),
    .abi = DDISP_BACKEND_ABI,
    .name = "vulkan",
    .version = "0.1.0",
    .open = vulkan__instance_open,
    .close = vulkan__instance_close,
    .device_count = device_count,
    .device_describe = vulkan__device_describe,
    .device_open = vulkan__device_open,
    .device_close = vulkan__device_close,
    .memory_allocate = vulkan__memory_allocate,
    .memory_free = vulkan__memory_free,
    .memory_import = vulkan__memory_import,
    .memory_release_import = vulkan__memory_release_import,
    .upload = vulkan__upload,
    .download = vulkan__download,
    .fill = vulkan__fill,
    .copy = vulkan__copy,
    .stream_create = vulkan__stream_create,
    .stream_destroy = vulkan__stream_destroy,
    .stream_flush = vulkan__stream_flush,
    .stream_mark = vulkan__stream_mark,
    .stream_wait = vulkan__stream_wait,
    .stream_query = vulkan__stream_query,
    .stream_synchronize = vulkan__stream_synchronize,
    .inspect = vulkan__inspect,
    .code_fits = vulkan__code_fits,
    .variant_build = vulkan__variant_build,
    .variant_release = vulkan__variant_release,
    .launch = vulkan__launch,
    .sink_acquire = vulkan__sink_acquire,
    .sink_trim = vulkan__sink_trim,
    .fill_elements = vulkan__fill_elements,
    .accumulate = vulkan__accumulate,
    .scatter_add = vulkan__scatter_add,
    .fold = vulkan__fold,
    .artifact_key = vulkan__artifact_key,
    .artifact_make = vulkan__artifact_make,
    .stream_wrap = vulkan__stream_wrap,
    .stream_mark_timed = vulkan__stream_mark_timed,
    .stream_elapsed = vulkan__stream_elapsed,
    .capture_begin = vulkan__capture_begin,
    .capture_end = vulkan__capture_end,
    .graph_launch = vulkan__graph_launch,
    .graph_update = vulkan__graph_update,
    .graph_release = vulkan__graph_release,
    .memory_trim = vulkan__memory_trim,
    .memory_figures = vulkan__memory_figures,
    .device_wrap = vulkan__device_wrap,
    .memory_wrap = vulkan__memory_wrap,
    .needs = vulkan__needs,
};

DDISP_API ddisp_status ddisp_vulkan_backend_query(uint32_t core_abi,
                                                  const ddisp_backend_services *services,
                                                  const ddisp_backend_table **out_table);

DDISP_API ddisp_status ddisp_vulkan_backend_query(uint32_t core_abi,
                                                  const ddisp_backend_services *services,
                                                  const ddisp_backend_table **out_table)
{
    *out_table = NULL;
    if (core_abi >> 16 != DDISP_BACKEND_ABI_MAJOR || core_abi < DDISP_BACKEND_ABI)
        return backend_fail(services, DDISP_STATUS_INCOMPATIBLE, 0,
                            "the Vulkan backend speaks plugin ABI %u.%u, the library offers %u.%u",
                            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR, core_abi >> 16,
                            core_abi & 0xFFFFu);
    *out_table = &table;
    return DDISP_STATUS_OK;
}
