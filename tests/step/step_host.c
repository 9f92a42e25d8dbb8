/*
 * step_host.c - the host has no driver that could fail; allocations of the core can (test_step.c).
 */
#include "step.h"

const char *const step_backend = "host";
const int step_results[] = {0};
const uint32_t step_result_count = 0;

void step_prepare(void)
{
}

void step_fail_at(uint64_t nth, int result)
{
    (void)nth;
    (void)result;
}

const char *step_failed(void)
{
    return NULL;
}

uint64_t step_live(void)
{
    return 0;
}

void step_check(const char *step)
{
    (void)step;
}

bool step_loses_work(const char *failed)
{
    (void)failed;
    return false;
}
