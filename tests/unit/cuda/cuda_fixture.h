/*
 * cuda_fixture.h - the plugin's table over the stand-in driver: opened, with one device, one stream
 * and the sample code. Every call is checked to leave the thread's current context as it was.
 */
#ifndef CUDA_FIXTURE_H
#define CUDA_FIXTURE_H

#include "cuda_sample.h"
#include "fake_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <diffdispatch/device/ddisp_block.h>

#include <string.h>

extern const ddisp_backend_table *table;
extern void *instance, *device, *stream;
extern char *sample_text;
extern uint64_t sample_text_size;

/** The standard block of sample.ptx. */
typedef struct sample_block {
    ddisp_block head;
    ddisp_device_tensor tensors[3];
} sample_block;

/** Loads the plugin; once per process. */
int fixture_load(void **state);
/** Resets the driver, opens instance, device 0 and a stream. */
int fixture_open(void **state);
/** Closes them; fails when anything is left in the driver, on the host, or on the thread. */
int fixture_close(void **state);

/** Message of the last failure has the part. */
void fixture_says(const char *part);
/** Memory on the fixture's stream; asserted. */
ddisp_backend_memory fixture_allocate(uint64_t size_bytes);
void fixture_free(ddisp_backend_memory *memory);
ddisp_backend_range fixture_range(const ddisp_backend_memory *memory, uint64_t offset_bytes,
                                  uint64_t size_bytes);
/** A variant of sample_backward with the switches given. */
ddisp_status fixture_build(const char *entry, ddisp_mode mode, uint32_t block_size_bytes,
                           uint64_t switches, uint32_t shared_bytes, void **out_variant);
/** Launches groups of 256 on the fixture's stream. */
ddisp_status fixture_launch(void *variant, const void *block, uint32_t block_size_bytes,
                            uint32_t shared_bytes);

#endif
