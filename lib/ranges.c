/*
 * ranges.c - finds the tool that reads NVTX ranges.
 *
 * A tool says so by NVTX_INJECTION64_PATH, the path of its own library. NVTX 3 is a header that
 * loads that library; where it was not there when this library was built, libnvToolsExt of older
 * toolkits does the same. Without the variable nothing is loaded.
 */
#include "ranges.h"
#include "lower.h"

#include <dlfcn.h>
#include <string.h>

#ifdef DDISP_HAVE_NVTX3
#include <nvtx3/nvToolsExt.h>

static bool find(ddisp__ranges *out_ranges)
{
    nvtxInitialize(NULL);
    out_ranges->push = nvtxRangePushA;
    out_ranges->pop = nvtxRangePop;
    return true;
}
#else
static bool find(ddisp__ranges *out_ranges)
{
    void *library = dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *push = library ? dlsym(library, "nvtxRangePushA") : NULL;
    void *pop = library ? dlsym(library, "nvtxRangePop") : NULL;
    memcpy(&out_ranges->push, &push, sizeof push);
    memcpy(&out_ranges->pop, &pop, sizeof pop);
    return push && pop;
}
#endif

bool ddisp__ranges_find(ddisp__ranges *out_ranges)
{
    const char *path = ddisp__environment("NVTX_INJECTION64_PATH");
    return path && *path && find(out_ranges);
}
