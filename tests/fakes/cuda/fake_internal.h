/*
 * fake_internal.h - what the files of the stand-in driver share.
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>

#define FAKE_DEVICES 4

/* One number per entry point. */
enum {
#define FAKE_NUMBER(member, name, symbol, parameters) FAKE_##member,
    CU__ENTRY_POINTS(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_COUNT
};

struct CUctx_st {
    int ordinal;
    uint64_t references;
};

struct fake_state {
    pthread_mutex_t lock;
    bool started;
    bool initialized;
    uint64_t calls[FAKE_COUNT];
    uint64_t call_count;
    int last_call;
    /* failures; counted down, 0: none */
    uint64_t fail_in;
    int fail_call; /* -1: any */
    cu__result fail_result;
    bool failed;
    bool injected; /* the call under way is told to fail */
    uint64_t lose_in;
    bool lost;
    cu__result lose_result;
    /* settings */
    uint64_t delay;
    uint64_t memory_bytes;
    cu__result init_result;
    int version;
    int device_count;
    int capability_major, capability_minor;
    bool pools;
    bool virtual_memory;
    bool proc_address;
    int max_threads, static_shared_bytes;
    const char *kernel_name;
    fake_cuda_kernel kernel;
    /* live objects */
    uint64_t reservations, physical_allocations, mappings;
    uint64_t allocations, host_allocations, pool_count, streams, events, modules;
    struct CUctx_st contexts[FAKE_DEVICES];
};

extern struct fake_state fake;

void fake_lock(void);
void fake_unlock(void);
/** Counts a call. The result to return instead of doing the work, or success. Locks. */
cu__result fake_begin(int call);
/** The same, and INVALID_CONTEXT when no context is current. */
cu__result fake_begin_current(int call);
/** Whether a releasing function does its work: also when it is told to report a failure, as the
 * driver does with those of earlier calls. */
bool fake_releases(cu__result result);
/** Unlocks and returns result. */
cu__result fake_end(cu__result result);
/** Whether [address, address + size) lies in live memory. Locked. */
bool fake_in_memory(cu__address address, uint64_t size_bytes);
/** Whether all of [address, address + size) is mapped and may be used. Locked. */
bool fake_in_mapping(cu__address address, uint64_t size_bytes);
/** Context current on this thread. */
cu__context fake_current(void);

#endif
