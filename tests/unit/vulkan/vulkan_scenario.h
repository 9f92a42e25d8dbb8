/*
 * vulkan_scenario.h - a program of a few calls over the stand-in loader: from the backend's opening
 * to its closing, with two streams, memory, a kernel and copies. Each call may fail.
 */
#ifndef DDISP_TESTS_VULKAN_SCENARIO_H
#define DDISP_TESTS_VULKAN_SCENARIO_H

#include "vulkan_fixture.h"

#include "fake_vulkan.h"

/** Elements of its tensors. */
enum { SCENARIO_COUNT = 64 };

/** What one run of the scenario holds; released whatever happened. */
typedef struct scenario {
    fixture f;
    void *variant;
    void *other;
    ddisp_backend_memory memory[4]; /* a, b, y, z */
    ddisp_status first;             /* the first failure */
    char message[1024];
    bool again; /* a failed call is made once more */
    bool fatal; /* and that failed too */
} scenario;

/** Opens the backend, computes z = (a * b) over two streams, reads it. */
void scenario_work(scenario *r, float found[SCENARIO_COUNT]);
/** Releases what there is. */
void scenario_finish(scenario *r);
/** Both; fails where anything is left. again: what failed is tried once more. */
scenario scenario_run(const fixture *f, bool again, float found[SCENARIO_COUNT]);
/** What was read is what should have been computed. */
bool scenario_right(const float found[SCENARIO_COUNT]);

/** cmocka group setup: only the table. */
int scenario_setup(void **state);
/** To be called first by each test: skips where there is no device behind the stand-in. */
fixture *scenario_prepared(void **state);

#endif
