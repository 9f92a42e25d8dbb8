/*
 * fake_cuda.h - how tests steer the stand-in driver that tests/fakes/cuda builds as libcuda.so.1.
 *
 * Its device is called "fake", its memory is host memory, and work is done at once; what a program
 * sees of completion can be delayed. Kernels do nothing unless registered. Any call can be made to
 * fail. Out of process the same is set through the environment:
 *   FAKE_CUDA_INIT_RESULT  result of cuInit, such as 34
 *   FAKE_CUDA_VERSION      version of the driver, such as 12040 (13000 when unset)
 *   FAKE_CUDA_DEVICES      number of devices (1 when unset)
 *   FAKE_CUDA_POOLS        0: the devices have no memory pools
 *   FAKE_CUDA_PROC_ADDRESS 0: cuGetProcAddress finds nothing
 *
 * A capturing stream records; what CUDA forbids a capturing thread fails, and spoils the capture.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "cuda_api.h"

/* The entry points, for tests that play another user of the driver. */
#define FAKE_CUDA_DECLARE(member, name, symbol, parameters)                                        \
    __attribute__((visibility("default"))) cu__result symbol parameters;
CU__ENTRY_POINTS(FAKE_CUDA_DECLARE)
CU__OPTIONAL_ENTRY_POINTS(FAKE_CUDA_DECLARE)
#undef FAKE_CUDA_DECLARE

/** Forgets counts, failures, delays, settings and registered kernels; live objects stay. */
void fake_cuda_reset(void);

/** The nth call from now (1: the next) returns result. Functions that release do so nevertheless,
 * as the driver does when it reports an earlier failure. */
void fake_cuda_fail_at(uint64_t nth, cu__result result);
/** The nth call of a function (by its plain name, "cuMemAlloc") from now returns result. */
void fake_cuda_fail_function(const char *name, uint64_t nth, cu__result result);
/** Whether the failure asked for last has happened. */
int fake_cuda_failed(void);
/** From the nth call from now on every call returns result; 0: never. */
void fake_cuda_lose_at(uint64_t nth, cu__result result);
/** Whether that has happened. */
int fake_cuda_lost(void);

/** Calls since the last reset: of one function, or of all for NULL. */
uint64_t fake_cuda_call_count(const char *name);
/** Plain name of the last function called. */
const char *fake_cuda_last_call(void);

/** What is alive now. */
uint64_t fake_cuda_live_allocations(void); /**< device memory, pooled and plain */
uint64_t fake_cuda_live_host_allocations(void);
uint64_t fake_cuda_live_contexts(void); /**< references to primary contexts */
uint64_t fake_cuda_live_pools(void);
uint64_t fake_cuda_live_streams(void);
uint64_t fake_cuda_live_events(void);
uint64_t fake_cuda_live_modules(void);
uint64_t fake_cuda_live_virtual(void); /**< reserved ranges, physical memory, mappings */
uint64_t fake_cuda_live_links(void);
uint64_t fake_cuda_live_graphs(void); /**< graphs, and what was instantiated of them */
/** All of these together. */
uint64_t fake_cuda_live(void);

/** Events recorded from now on are not ready for this many queries, or until synchronized. */
void fake_cuda_delay(uint64_t queries);
/** Size of a device's memory from now on (64 MiB). Memory freed to a pool counts until trimmed. */
void fake_cuda_set_memory(uint64_t size_bytes);
void fake_cuda_set_version(int version);
void fake_cuda_set_capability(int major, int minor);
void fake_cuda_set_pools(int supported);
void fake_cuda_set_virtual_memory(int supported);
/** What compiled functions report as most threads per block, and as static shared memory. */
void fake_cuda_set_function_limits(int max_threads, int static_shared_bytes);

/** Sizes of the parameters of functions of binary modules, as cuFuncGetParamInfo tells them; those
 * of PTX are read from its text. */
void fake_cuda_set_function_params(const size_t *sizes_bytes, size_t count);
/** Milliseconds that cuEventElapsedTime tells. */
void fake_cuda_set_elapsed(float milliseconds);

/** A context that is not the primary one of any device, for the test to make current. */
cu__context fake_cuda_foreign_context(void);

/** A context of device 0 that the test made for itself and may hand to the library. */
cu__context fake_cuda_lent_context(void);

/** The context current on this thread, without a driver call. */
cu__context fake_cuda_current_context(void);

/** What a launch is handed to. ptx is the text that was loaded. */
typedef void (*fake_cuda_kernel)(const char *ptx, void **parameters, const unsigned int grid[3],
                                 const unsigned int group[3]);
/** Runs function for launches of entry name; one at a time, NULL for none. */
void fake_cuda_register_kernel(const char *name, fake_cuda_kernel function);

/** What all other launches are handed to. */
typedef void (*fake_cuda_launcher)(const char *name, void **parameters, const unsigned int grid[3],
                                   const unsigned int group[3], unsigned int shared_bytes);
void fake_cuda_set_launcher(fake_cuda_launcher launcher);

#endif
