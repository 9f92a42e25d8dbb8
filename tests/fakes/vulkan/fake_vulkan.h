/*
 * fake_vulkan.h - how tests steer the stand-in loader that tests/fakes/vulkan builds as
 * libvulkan.so.1.
 *
 * It hands every call on to the real loader, counts it, and fails or loses the device where told.
 * Its devices are called "fake over ...". A program that links it has it in place of the loader;
 * others find it through LD_LIBRARY_PATH and steer it through the environment:
 *   DDISP_FAKE_VULKAN_REAL  path of the real loader (else it is looked for in the usual places)
 *   DDISP_FAKE_VULKAN_FAIL  function:nth:result, such as vkQueueSubmit:2:-2, or any:7:-1
 *   DDISP_FAKE_VULKAN_LOSE  n: the device is lost at the n-th call that can say so
 *   DDISP_FAKE_VULKAN_HIDE  comma-separated extensions, and of vulkan1.2, vulkan1.3,
 *                           bufferDeviceAddress, timelineSemaphore and shaderInt64, that the
 *                           devices do not have
 *   DDISP_FAKE_VULKAN_LOG   file that the name of each call is appended to
 */
#ifndef FAKE_VULKAN_H
#define FAKE_VULKAN_H

#include <stdint.h>

#define FAKE_VULKAN_API __attribute__((visibility("default")))

/** Forgets counts, failures, holds and what is hidden; live objects stay. */
FAKE_VULKAN_API void fake_vulkan_reset(void);

/** The nth call from now (1: the next) that can fail gives result, a VkResult, and does nothing. */
FAKE_VULKAN_API void fake_vulkan_fail_at(uint64_t nth, int result);
/** The same for one function; aborts for one that is not known. */
FAKE_VULKAN_API void fake_vulkan_fail(const char *function, uint64_t nth, int result);
/** Name of the function that failed; NULL: not yet. */
FAKE_VULKAN_API const char *fake_vulkan_failed(void);

/** At the nth call from now that can say so the device is lost: from there on such calls give
 * VK_ERROR_DEVICE_LOST and do nothing, until another device is made. */
FAKE_VULKAN_API void fake_vulkan_lose_at(uint64_t nth);
/** Name of the call at which it was lost; NULL: not yet. */
FAKE_VULKAN_API const char *fake_vulkan_lost(void);
/** Calls after the one that told of the loss, those that destroy not counted. */
FAKE_VULKAN_API uint64_t fake_vulkan_calls_after_loss(void);

/** While held, no work is seen as done: counters stay at 0, waits below half a second time out. */
FAKE_VULKAN_API void fake_vulkan_hold(int hold);
/** See DDISP_FAKE_VULKAN_HIDE; NULL: nothing. */
FAKE_VULKAN_API void fake_vulkan_hide(const char *names);

/** Calls since the last reset: of one function, or of all for NULL. */
FAKE_VULKAN_API uint64_t fake_vulkan_calls(const char *function);
/** Objects and memory that were made and not destroyed. */
FAKE_VULKAN_API uint64_t fake_vulkan_live(void);
/** Waits submitted for values that had not been submitted yet; must stay 0. */
FAKE_VULKAN_API uint64_t fake_vulkan_early_waits(void);

/** The four below are for programs that record on one thread. Dispatches inside of a label. */
FAKE_VULKAN_API uint64_t fake_vulkan_dispatches_labelled(void);
/** Labels that were begun in another one, or ended in another command buffer or without beginning,
 * and command buffers that were ended inside of one; must stay 0. */
FAKE_VULKAN_API uint64_t fake_vulkan_labels_broken(void);
/** The last label and the last name of a pipeline; "": none. */
FAKE_VULKAN_API const char *fake_vulkan_label(void);
FAKE_VULKAN_API const char *fake_vulkan_pipeline_name(void);

#endif
