/*
 * host_code.h - codes for the host backend as a test declares them, the parameters of a kernel
 * y = a * b with a scalar, and launches with native arguments.
 */
#ifndef DDISP_TESTS_HOST_CODE_H
#define DDISP_TESTS_HOST_CODE_H

#include "host_fixture.h"

/** Parameters: a and b (inputs), y (output), all f32, rank 2 and differentiable; k, a scalar. */
typedef struct host_code {
    ddisp_param params[4];
    ddisp_entry entries[1];
    ddisp_code code;
    ddisp_backend_code backend_code;
    ddisp_backend_variant variant;
} host_code;

/** One entry of one mode; format host-function with `function`, or host-library when path is given.
 */
void host_code_make(host_code *it, ddisp_mode mode, const ddisp_native_arg *natives,
                    uint32_t count);
ddisp_status host_code_inspect(const fixture *f, const host_code *it);
ddisp_status host_code_build(const fixture *f, const host_code *it, void **out_variant);

/** Launches with these values, one per native argument. */
ddisp_status host_code_launch(const fixture *f, void *stream, void *variant, const host_code *it,
                              const uint64_t *values, const void *block, uint32_t block_bytes);
/** The same as the request that graph_update takes; natives has room for the entry's list. */
ddisp_backend_launch host_code_request(void *variant, const host_code *it, const uint64_t *values,
                                       const void *block, uint32_t block_bytes,
                                       ddisp_backend_native *natives);

#endif
