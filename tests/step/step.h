/*
 * step.h - a forward and backward step through the public API, over a driver that fails where the
 * test says so. test_step.c runs it; step_<backend>.c steers the driver.
 */
#ifndef DDISP_TESTS_STEP_H
#define DDISP_TESTS_STEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/diffdispatch.h>

/** Name of the backend. */
extern const char *const step_backend;
/** What failing calls give: the driver's own codes. The host has no driver: none. */
extern const int step_results[];
extern const uint32_t step_result_count;

/** To be called before anything else. */
void step_prepare(void);
/** The nth call of the driver from now fails with result; 0: none does. */
void step_fail_at(uint64_t nth, int result);
/** Name of the call that failed, or "a call"; NULL: none did. */
const char *step_failed(void);
/** What is alive in the driver. */
uint64_t step_live(void);
/** What must hold after every call. */
void step_check(const char *step);
/** Work that was recorded is gone with such a failure, so that it cannot come right. */
bool step_loses_work(const char *failed);

/* ---- the calls of a step (step_calls.c) */

enum { N = 64 }; /* elements of each tensor */

typedef struct run {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_kernel *kernels[2]; /* opaque, switched */
    ddisp_tensor *a, *b, *y, *upstream;
    ddisp_stream *stream;
    ddisp_plan *plan;
    ddisp_graph *graph;
    ddisp_event *events[2];
    float found[N];
    bool fatal;
    uint32_t failures;
} run;

/** Each does all or nothing. */
typedef struct step_call {
    const char *name;
    ddisp_status (*run)(run *r);
} step_call;
extern const step_call steps[];
extern const size_t step_count;

#endif
