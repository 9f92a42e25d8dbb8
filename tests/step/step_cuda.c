/*
 * step_cuda.c - the stand-in driver. Its memory is the host's, so that the test plays the kernels.
 */
#include "fake_cuda.h"
#include "step.h"

#include <diffdispatch/device/ddisp_block.h>

const char *const step_backend = "cuda";
const int step_results[] = {CU__ERROR_UNKNOWN, CU__ERROR_OUT_OF_MEMORY};
const uint32_t step_result_count = 2;

static float *floats(uint64_t address)
{
    return (float *)(uintptr_t)address;
}

/* mul and mul_opaque: y = a b, dense. */
static void play(const char *name, void **parameters, const unsigned int grid[3],
                 const unsigned int group[3], unsigned int shared_bytes)
{
    const ddisp_block *block = parameters[0];
    const ddisp_device_tensor *a = DDISP_BLOCK_TENSOR(block, 0);
    const ddisp_device_tensor *b = DDISP_BLOCK_TENSOR(block, 1);
    const ddisp_device_tensor *y = DDISP_BLOCK_TENSOR(block, 2);
    (void)grid;
    (void)group;
    (void)shared_bytes;
    if (strncmp(name, "mul", 3) != 0)
        return;
    for (uint64_t i = 0; i < block->items; i++) {
        if (!strstr(name, "backward")) {
            floats(y->data)[i] = floats(a->data)[i] * floats(b->data)[i];
            continue;
        }
        if (a->grad_add)
            floats(a->grad_add)[i] += floats(y->grad_read)[i] * floats(b->data)[i];
        if (b->grad_add)
            floats(b->grad_add)[i] += floats(y->grad_read)[i] * floats(a->data)[i];
    }
}

void step_prepare(void)
{
    fake_cuda_reset();
    fake_cuda_set_launcher(play);
    if (!fake_cuda_current_context()) {
        (void)cuInit(0);
        (void)cuCtxPushCurrent_v2(fake_cuda_foreign_context());
    }
}

void step_fail_at(uint64_t nth, int result)
{
    fake_cuda_fail_at(nth, (cu__result)result);
}

const char *step_failed(void)
{
    return fake_cuda_failed() ? "a call" : NULL;
}

uint64_t step_live(void)
{
    return fake_cuda_live();
}

/* Case 36: the context that the program has made current stays so, whatever is called and fails. */
void step_check(const char *step)
{
    if (fake_cuda_current_context() != fake_cuda_foreign_context())
        fail_msg("%s left another context current", step);
}

bool step_loses_work(const char *failed)
{
    (void)failed;
    return false;
}
