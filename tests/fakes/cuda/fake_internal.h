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
    CU__ENTRY_POINTS(FAKE_NUMBER) CU__OPTIONAL_ENTRY_POINTS(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_COUNT
};

#define FAKE_PARAMS 128

struct CUctx_st {
    int ordinal;
    uint64_t references;
};

struct CUstream_st {
    cu__context context;
    cu__graph capturing; /* NULL: it runs */
    pthread_t thread;    /* that began to capture */
    bool spoiled;        /* by something that is forbidden meanwhile */
    cu__graph_node last;
    struct CUstream_st *next;
};

struct CUfunc_st {
    struct CUfunc_st *next; /* of the module */
    cu__module module;
    char name[256];
    int dynamic_shared_bytes;
};

struct CUmod_st {
    char *text;
    size_t size_bytes;
    struct CUfunc_st *functions;
};

/** What a graph does at one point: works on copies of what it was handed. */
struct CUgraphNode_st {
    struct CUgraphNode_st *next;
    void (*run)(const struct CUgraphNode_st *node);
    cu__address destination, source;
    uint64_t size_bytes, stride_bytes, count;
    unsigned char value[8];
    struct CUfunc_st *function;
    unsigned int grid[3], group[3], shared_bytes;
    size_t param_sizes[FAKE_PARAMS], param_count;
    unsigned char params[16384];
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
    size_t param_sizes[FAKE_PARAMS], param_count;
    float elapsed;
    const char *kernel_name;
    fake_cuda_kernel kernel;
    fake_cuda_launcher launcher;
    /* live objects */
    uint64_t reservations, physical_allocations, mappings;
    uint64_t allocations, host_allocations, pool_count, streams, events, modules, links, graphs;
    struct CUstream_st *all_streams;
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
/** The same for what a thread that captures is forbidden, unless its mode is relaxed: then it
 * fails, and the capture is spoiled. */
cu__result fake_begin_unsafe(int call);
/** The node to fill when the stream captures, NULL when work is done now. Locked. */
struct CUgraphNode_st *fake_record(cu__stream stream);
/** A stream is destroyed: its capture is, too. Locked. */
void fake_abandon(cu__stream stream);
/** A call that no capturing stream allows was made on stream: spoils its capture. Locked. */
bool fake_spoils(cu__stream stream);
/** Sizes of a function's parameters; false when they are not known. Locked. */
bool fake_param_sizes(const struct CUfunc_st *function, size_t sizes[FAKE_PARAMS],
                      size_t *out_count);
/** Makes a node a launch of the function; false when its parameters are not known. Locked. */
bool fake_fill_kernel(struct CUgraphNode_st *node, struct CUfunc_st *function, void **parameters);
/** Unlocks and returns result. */
cu__result fake_end(cu__result result);
/** Whether [address, address + size) lies in live memory. Locked. */
bool fake_in_memory(cu__address address, uint64_t size_bytes);
/** Whether all of [address, address + size) is mapped and may be used. Locked. */
bool fake_in_mapping(cu__address address, uint64_t size_bytes);
/** Context current on this thread. */
cu__context fake_current(void);

#endif
