/*
 * step_vulkan.c - the stand-in loader over a software driver.
 */
#include "fake_vulkan.h"
#include "step.h"

const char *const step_backend = "vulkan";
const int step_results[] = {-1, -2}; /* VK_ERROR_OUT_OF_HOST_MEMORY, ..._DEVICE_MEMORY */
const uint32_t step_result_count = 2;

void step_prepare(void)
{
    fake_vulkan_reset();
}

void step_fail_at(uint64_t nth, int result)
{
    fake_vulkan_reset();
    if (nth)
        fake_vulkan_fail_at(nth, result);
}

const char *step_failed(void)
{
    return fake_vulkan_failed();
}

uint64_t step_live(void)
{
    return fake_vulkan_live();
}

void step_check(const char *step)
{
    (void)step;
}

bool step_loses_work(const char *failed)
{
    return strcmp(failed, "vkEndCommandBuffer") == 0;
}
