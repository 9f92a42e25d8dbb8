/*
 * host_fixture.h - drives the host backend through its table, without the core: services that count
 * and can be made to fail, an open device, and a gate that holds kernels up.
 *
 * The plugin's path is in the environment variable DDISP_TEST_HOST_PLUGIN.
 */
#ifndef DDISP_TESTS_HOST_FIXTURE_H
#define DDISP_TESTS_HOST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>

typedef struct fixture {
    const ddisp_backend_table *table;
    void *instance;
    void *device;
    void *own; /* the device's own stream */
} fixture;

extern const ddisp_backend_services services;

/** Blocks of memory that the backend holds. */
extern atomic_int live;
/** The n-th allocation from now on fails (1: the next); 0: none. */
extern atomic_int fail_allocation;
/** This thread's last failure. */
extern _Thread_local ddisp_status last_status;
extern _Thread_local char last_message[1024];

/** Kernels that call gate_pass wait here until gate_open. fixture_open closes it. */
void gate_pass(void);
void gate_open(void);
void gate_close(void);

/** The plugin's query function. */
ddisp_backend_query_function plugin_query(void);

/** cmocka setup and teardown. Teardown opens the gate and fails when the backend kept memory. */
int fixture_open(void **state);
int fixture_close(void **state);

/** A stream with a worker. */
void *stream_make(const fixture *f);
/** Waits for all work queued on stream. */
void stream_finish(const fixture *f, void *stream);
/** Whether all work queued on stream is done now. */
bool stream_is_done(const fixture *f, void *stream);

ddisp_backend_memory memory_make(const fixture *f, void *stream, uint64_t size_bytes);
ddisp_backend_range range_of(const ddisp_backend_memory *memory, uint64_t offset,
                             uint64_t size_bytes);

/** An argument block of six scalars and no tensors. */
typedef struct arguments {
    ddisp_block head;
    uint64_t slot[6];
} arguments;

arguments arguments_make(uint64_t items, uint64_t a, uint64_t b, uint64_t c);
/** Scalar i of a block. */
uint64_t argument(const ddisp_block *block, uint32_t i);
/** The same as an address. */
void *argument_pointer(const ddisp_block *block, uint32_t i);
/** An address as an argument. */
uint64_t address_of(const void *pointer);

/** Launches function with the arguments on a stream, through a variant of its own. */
ddisp_status launch(const fixture *f, void *stream, ddisp_host_function function,
                    const arguments *args);

#endif
