/*
 * steady_vulkan.c - the wrapped Vulkan loader counts: launches are recorded, and handed over in
 * batches; nothing is made, allocated or written beside that.
 */
#include "fake_vulkan.h"

#include "steady.h"

const char *const steady_backend = "vulkan";

/** Launches of a batch. */
#define BATCH 64u

static uint64_t live;

void steady_prepare(void)
{
}

void steady_reset(void)
{
    fake_vulkan_reset();
    live = fake_vulkan_live();
}

void steady_check(uint64_t launches)
{
    uint64_t batches = launches / BATCH + 1;
    assert_int_equal(fake_vulkan_live(), live);
    assert_int_equal(fake_vulkan_calls("vkAllocateMemory"), 0);
    assert_int_equal(fake_vulkan_calls("vkCreateBuffer"), 0);
    assert_int_equal(fake_vulkan_calls("vkAllocateCommandBuffers"), 0);
    assert_int_equal(fake_vulkan_calls("vkAllocateDescriptorSets"), 0);
    assert_in_range(fake_vulkan_calls("vkQueueSubmit"), launches / BATCH - 1, batches);
    /* Each writes what the one before wrote, so a barrier is between them. */
    uint64_t recorded = fake_vulkan_calls("vkCmdPushConstants") +
                        fake_vulkan_calls("vkCmdDispatch") +
                        fake_vulkan_calls("vkCmdPipelineBarrier");
    /* The arguments are the same each time: they are written once, and pushed once per batch. */
    assert_in_range(fake_vulkan_calls("vkCmdPushConstants"), 1, batches);
    assert_int_equal(fake_vulkan_calls("vkCmdDispatch"), launches);
    assert_in_range(fake_vulkan_calls("vkCmdPipelineBarrier"), launches, launches + batches);
    /* Per batch: begin, bind, end, submit, and looking whether earlier ones are done. */
    assert_in_range(fake_vulkan_calls(NULL) - recorded, 1, 8 * batches);
}
