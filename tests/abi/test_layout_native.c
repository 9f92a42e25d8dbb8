/*
 * Frozen layouts of the structs by which programs hand their own CUDA and Vulkan objects over.
 */
#include <diffdispatch/cuda.h>
#include <diffdispatch/vulkan.h>

#include "layout.h"

static const row ddisp_cuda_device_desc_rows[] = {
    ROW(ddisp_cuda_device_desc, head, 0, 16),
    ROW(ddisp_cuda_device_desc, context, 16, 8),
};
LAYOUT(ddisp_cuda_device_desc, 24);

static const row ddisp_vulkan_needs_rows[] = {
    ROW(ddisp_vulkan_needs, head, 0, 16),
    ROW(ddisp_vulkan_needs, instance, 16, 8),
    ROW(ddisp_vulkan_needs, physical_device, 24, 8),
    ROW(ddisp_vulkan_needs, api_version, 32, 4),
    ROW(ddisp_vulkan_needs, queue_flags, 36, 4),
    ROW(ddisp_vulkan_needs, buffer_usage, 40, 4),
    ROW(ddisp_vulkan_needs, memory_flags, 44, 4),
    ROW(ddisp_vulkan_needs, extension_count, 48, 4),
    ROW(ddisp_vulkan_needs, reserved, 52, 4),
    ROW(ddisp_vulkan_needs, extensions, 56, 256),
    ROW(ddisp_vulkan_needs, features, 312, 8),
    ROW(ddisp_vulkan_needs, storage, 320, 2048),
};
LAYOUT(ddisp_vulkan_needs, 2368);

static const row ddisp_vulkan_queue_rows[] = {
    ROW(ddisp_vulkan_queue, queue, 0, 8),
    ROW(ddisp_vulkan_queue, user_data, 8, 8),
    ROW(ddisp_vulkan_queue, lock, 16, 8),
    ROW(ddisp_vulkan_queue, unlock, 24, 8),
};
LAYOUT(ddisp_vulkan_queue, 32);

static const row ddisp_vulkan_device_desc_rows[] = {
    ROW(ddisp_vulkan_device_desc, head, 0, 16),
    ROW(ddisp_vulkan_device_desc, instance, 16, 8),
    ROW(ddisp_vulkan_device_desc, physical_device, 24, 8),
    ROW(ddisp_vulkan_device_desc, device, 32, 8),
    ROW(ddisp_vulkan_device_desc, api_version, 40, 4),
    ROW(ddisp_vulkan_device_desc, queue_family, 44, 4),
    ROW(ddisp_vulkan_device_desc, queues, 48, 8),
    ROW(ddisp_vulkan_device_desc, queue_count, 56, 4),
    ROW(ddisp_vulkan_device_desc, extension_count, 60, 4),
    ROW(ddisp_vulkan_device_desc, extensions, 64, 8),
    ROW(ddisp_vulkan_device_desc, features, 72, 8),
    ROW(ddisp_vulkan_device_desc, core_features, 80, 8),
};
LAYOUT(ddisp_vulkan_device_desc, 88);

static const row ddisp_vulkan_buffer_desc_rows[] = {
    ROW(ddisp_vulkan_buffer_desc, head, 0, 16),
    ROW(ddisp_vulkan_buffer_desc, buffer, 16, 8),
    ROW(ddisp_vulkan_buffer_desc, buffer_size_bytes, 24, 8),
    ROW(ddisp_vulkan_buffer_desc, offset_bytes, 32, 8),
    ROW(ddisp_vulkan_buffer_desc, usage, 40, 4),
    ROW(ddisp_vulkan_buffer_desc, reserved, 44, 4),
};
LAYOUT(ddisp_vulkan_buffer_desc, 48);

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ddisp_cuda_device_desc),   TEST(ddisp_vulkan_needs),       TEST(ddisp_vulkan_queue),
        TEST(ddisp_vulkan_device_desc), TEST(ddisp_vulkan_buffer_desc),
    };
    return cmocka_run_group_tests_name("layout of native structs", tests, NULL, NULL);
}
