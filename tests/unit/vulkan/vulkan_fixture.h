/*
 * vulkan_fixture.h - drives the Vulkan backend through its table, without the core: services that
 * count and can be made to fail, an open device, streams, memory, and the kernel y = a * b.
 *
 * The plugin's path is in the environment variable DDISP_TEST_VULKAN_PLUGIN. Where there is no
 * Vulkan device every test is skipped, with the reason.
 */
#ifndef DDISP_TESTS_VULKAN_FIXTURE_H
#define DDISP_TESTS_VULKAN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>

typedef struct fixture {
    const ddisp_backend_table *table;
    void *instance;
    ddisp_device_info info;
    void *device;
    void *own; /* the device's own stream */
} fixture;

extern const ddisp_backend_services services;

/** Blocks of host memory that the backend holds. */
extern atomic_int live;
/** The n-th allocation of host memory from now on fails (1: the next); 0: none. */
extern atomic_int fail_allocation;
/** The last failure. */
extern ddisp_status last_status;
extern char last_message[1024];

/** Fails with the backend's message unless the call succeeded. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        ddisp_status assert_ok_status = (call);                                                    \
        if (assert_ok_status != DDISP_STATUS_OK)                                                   \
            fail_msg("%s gave status %u: %s", #call, assert_ok_status, last_message);              \
    } while (0)

/** The plugin's table. */
const ddisp_backend_table *plugin_table(void);

/** cmocka group setup and teardown. Teardown fails when the backend kept host memory. */
int fixture_open(void **state);
int fixture_close(void **state);
/** To be called first by each test: skips it where there is no device. */
fixture *fixture_of(void **state);

void *stream_make(const fixture *f);
/** Waits for all work queued on stream. */
void stream_finish(const fixture *f, void *stream);

ddisp_backend_memory memory_make(const fixture *f, void *stream, uint64_t size_bytes);
ddisp_backend_range range_of(const ddisp_backend_memory *memory, uint64_t offset,
                             uint64_t size_bytes);
/** The same without a handle, as for foreign addresses. */
ddisp_backend_range bare_range_of(const ddisp_backend_memory *memory, uint64_t offset,
                                  uint64_t size_bytes);
void upload(const fixture *f, void *stream, const ddisp_backend_memory *memory, uint64_t offset,
            const void *data, uint64_t size_bytes);
void download(const fixture *f, void *stream, const ddisp_backend_memory *memory, uint64_t offset,
              void *data, uint64_t size_bytes);

/** The kernel mul: y = a * b, three tensors. */
typedef enum mul_code {
    MUL_FORWARD,
    MUL_SPIN, /* block.flags turns before */
    MUL_BACKWARD_NATIVE,
    MUL_BACKWARD_SWAP,
    MUL_SIZED, /* forward, its group size a specialization constant */
    MUL_COUNT,
} mul_code;

/** A code as the core would hand it over. Points into itself. */
typedef struct code {
    ddisp_code code;
    ddisp_entry entry;
    ddisp_param params[3];
    uint32_t switch_ids[3];
    ddisp_native_arg block; /* that code_make_native declares */
    ddisp_backend_code backend_code;
} code;

/** SPIR-V of a code. */
const void *mul_bytes(mul_code which, uint64_t *out_size_bytes);
void code_init(code *c, mul_code which);
/** Declares the block as a native argument, the only one. */
void code_make_native(code *c);
/** Another SPIR-V in the same place. */
void code_set_bytes(code *c, const void *bytes, uint64_t size_bytes);
void *variant_make(const fixture *f, const code *c, uint64_t switches);

/** The standard block of three tensors. */
typedef struct mul_block {
    ddisp_block head;
    ddisp_device_tensor tensors[3];
} mul_block;
/** A launch, and what it points to. */
typedef struct mul_request {
    mul_block block;
    ddisp_backend_access accesses[6];
    ddisp_backend_native native;
    ddisp_backend_launch launch;
} mul_request;
/** Fills the arguments of mul_launch into a request. c: where it was made native, else NULL. */
void mul_request_fill(mul_request *request, const code *c, void *variant, uint64_t n,
                      const ddisp_backend_memory *data[3], const ddisp_backend_memory *gradients[3],
                      uint64_t flags);
/** Launches over n elements. Each memory is that of data, gradient to add to (a, b) or to read (y).
 * NULL: absent. flags: turns of MUL_SPIN. */
ddisp_status mul_launch(const fixture *f, void *stream, void *variant, uint64_t n,
                        const ddisp_backend_memory *data[3],
                        const ddisp_backend_memory *gradients[3], uint64_t flags);

#endif
