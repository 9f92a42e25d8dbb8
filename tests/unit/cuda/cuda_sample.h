/*
 * cuda_sample.h - sample.ptx as the tests declare it, and services that record what a backend says.
 */
#ifndef CUDA_SAMPLE_H
#define CUDA_SAMPLE_H

#include <diffdispatch/backend.h>

#define SAMPLE_BLOCK_BYTES 992u  /* 32 + 3 * 320 */
#define WIDE_BLOCK_BYTES   4192u /* 32 + 13 * 320 */

/** Services; what they were told is below. Host allocations are counted. */
extern const ddisp_backend_services sample_services;
extern char sample_message[2048]; /* of the last failure */
extern ddisp_status sample_status;
extern uint64_t sample_live_host_allocations;
extern uint64_t sample_fail_allocation; /* the nth from now on fails; 0: none */
extern uint64_t sample_warnings;
/** The nth allocation from now (1: the next) fails; 0: none. */
extern uint64_t sample_fail_allocation;

/** A file of the test's folder, NUL-terminated; aborts when it cannot be read. */
char *sample_read(const char *name, uint64_t *out_size_bytes);

/** A declared code: sample.ptx with its three entries, or any text. */
typedef struct sample_code {
    ddisp_entry entries[4];
    ddisp_code code;
    ddisp_param params[13];
    uint32_t switch_ids[13];
    ddisp_backend_code backend_code;
} sample_code;

/** Declares text as the code of a kernel of three tensors with one entry. */
void sample_declare(sample_code *sample, const char *text, uint64_t size_bytes, ddisp_mode mode,
                    const char *entry, uint32_t group_size);
/** Adds an entry. */
void sample_add_entry(sample_code *sample, ddisp_mode mode, const char *entry, uint32_t group_size);

#endif
