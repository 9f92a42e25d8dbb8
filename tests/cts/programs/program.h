/*
 * program.h - what these programs share: calls that must succeed, and kernels of the suite.
 */
#ifndef CTS_PROGRAM_H
#define CTS_PROGRAM_H

#include <diffdispatch/diffdispatch.h>

#include "cts_kernels.h"

#include <stdio.h>
#include <stdlib.h>

/** Ends the program with status 1 when the call failed. */
static inline void must(ddisp_status status, const char *what)
{
    char message[512];
    if (!status)
        return;
    (void)ddisp_last_error(message, sizeof message, NULL);
    printf("%s: %s: %s\n", what, ddisp_status_name(status), message);
    exit(1);
}

static inline ddisp_kernel_desc describe_kernel(const cts_source *source)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = source->name;
    desc.params = source->params;
    desc.param_count = source->param_count;
    desc.param_size = (uint32_t)sizeof(ddisp_param);
    desc.codes = source->codes;
    desc.code_count = source->code_count;
    desc.code_size = (uint32_t)sizeof(ddisp_code);
    return desc;
}

#endif
