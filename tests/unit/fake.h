/*
 * fake.h - a backend inside the test that does no work, writes down every call, completes work when
 * the test says so, and fails where the test says so. It is put into a context behind the loader's
 * back; its rows are called fake and stand for no device.
 */
#ifndef DDISP_TESTS_FAKE_H
#define DDISP_TESTS_FAKE_H

#include "objects.h"

struct fake {
    /** Calls since the last fake_forget, such as "allocate s1 64; mark s1=1; ". */
    char trace[4096];
    /** While set, marked work stays undone until fake_complete or an endless wait. */
    bool holds;
    /** Name of a function that fails with fail_status, and whether it gives a message. */
    const char *fails;
    ddisp_status fail_status;
    bool fail_silently;
    /** Host allocations of the context that still succeed. */
    uint32_t allocations_left;
    uint32_t host_blocks;
    /** What is open. */
    uint32_t instances, devices, streams, blocks, imports;
    /** Largest size asked for. */
    uint64_t largest_bytes;
};

extern struct fake fake;

/** What the optional functions do and say (fake_optional.c). */
extern struct fake_optional {
    bool recording;
    uint32_t thrown_away, graphs, trims;
    ddisp_backend_memory_figures figures;
} fake_optional;
/** Adds them to a table. Only programs that are built with them do. */
void fake_offer_all(ddisp_backend_table *table) __attribute__((weak));
const ddisp_backend_table *fake_table(void);
/** The status that the named function returns, with its message. */
ddisp_status fake_outcome(const char *function);
/** Fails so, with a message that names the function. */
ddisp_status fake_outcome_of(const char *function, ddisp_status status);

/** A context whose only backend is the fake one, with `device_count` 2. */
ddisp_context *fake_context(void);
/** What most tests start from. */
struct fake_fixture {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_stream *second, *third; /* s2 and s3 */
};

/** cmocka's setup and teardown of a fixture. Whatever a test did, nothing may be left over. */
int fake_setup(void **state);
int fake_teardown(void **state);

/** A buffer of the fixture's device, or NULL. */
ddisp_buffer *fake_buffer(struct fake_fixture *fixture, uint64_t size_bytes);
/** 64 lent bytes at 0x5000; each release adds to *releases. */
ddisp_buffer *fake_wrap(struct fake_fixture *fixture, int *releases);
void fake_count_release(void *user_data);

/** Empties the trace. */
void fake_forget(void);
/** All work marked so far is done. */
void fake_complete(void);

#endif
