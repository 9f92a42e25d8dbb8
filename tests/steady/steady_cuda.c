/*
 * steady_cuda.c - the stand-in CUDA driver counts: one cuLaunchKernel and the question for the
 * current context, nothing else.
 */
#include "fake_cuda.h"

#include "steady.h"

const char *const steady_backend = "cuda";

void steady_prepare(void)
{
    cu__context primary = NULL;
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(primary), CU__SUCCESS);
}

void steady_reset(void)
{
    fake_cuda_reset();
}

void steady_check(uint64_t launches)
{
    assert_int_equal(fake_cuda_call_count("cuLaunchKernel"), launches);
    assert_int_equal(fake_cuda_call_count("cuCtxGetCurrent"), launches);
    assert_int_equal(fake_cuda_call_count(NULL), 2 * launches);
}
