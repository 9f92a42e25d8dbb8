/*
 * host_internal.h - what the rooms of the host backend share: the device, operations, streams, and
 * the splitting of a range over threads.
 *
 * A device address is a host pointer. The device's own stream runs work in the calling thread, so
 * that it is done when the call returns. Every other stream has a worker thread that runs queued
 * operations in order.
 */
#ifndef DDISP_HOST_INTERNAL_H
#define DDISP_HOST_INTERNAL_H

#include "backend_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct host_stream host_stream;
typedef struct host_graph host_graph; /* host_graph.c */

/** The sink. Guarded by the core, which calls for it one at a time. */
typedef struct host_sink {
    unsigned char *base; /* NULL: none */
    uint64_t reserved_bytes;
    uint64_t mapped_bytes;
    uint64_t block_bytes; /* physical */
    int block;
} host_sink;

typedef struct host_device {
    const ddisp_backend_services *services;
    uint64_t memory_bytes;
    host_sink sink;
    pthread_mutex_t lock; /* guards the field below */
    host_stream *retired; /* destroyed streams whose worker has not been joined yet */
} host_device;

/** Queued work. Embedded as the first member of what it works on. */
typedef struct host_operation {
    struct host_operation *next;
    /** Does the work and ends with host__operation_done. Called without locks. */
    void (*run)(host_device *device, struct host_operation *operation);
    bool kept;      /* recorded: it is run again, and released by its graph */
    bool is_launch; /* counted by graphs */
} host_operation;

/** Releases an operation that has run, unless it is kept. */
static inline void host__operation_done(host_device *device, host_operation *operation)
{
    if (!operation->kept) {
        backend_release(device->services, operation);
    }
}

/* ---- host_backend.c ---- */

/** Physical memory of the machine. */
uint64_t host__memory_bytes(void);

/* ---- host_stream.c ---- */

struct host_time; /* host_timed.c */

struct host_stream {
    host_device *device;
    bool is_inline;
    atomic_uint references;  /* the handle's, and one for each queued wait for this stream */
    pthread_mutex_t lock;    /* guards the fields below */
    pthread_cond_t work;     /* an operation was queued, or the stream is closing */
    pthread_cond_t progress; /* done has grown */
    host_operation *first, *last;
    uint64_t queued, done; /* ticket of the last operation queued, and of the last one run */
    bool started, closing, ended;
    pthread_t thread;
    host_graph *recording;                    /* NULL: what is queued runs */
    struct host_time *first_time, *last_time; /* of timed marks, tickets increase */
    uint32_t time_count;
    host_stream *next_retired; /* guarded by the device's lock */
};

/** Work on this stream is done by the calling thread, at once. */
bool host__stream_is_inline(const host_stream *stream);
/** Queues or records an operation, which then belongs to the stream or its graph; on failure it
 * stays the caller's. */
ddisp_status host__stream_submit(host_stream *stream, host_operation *operation,
                                 uint64_t *out_ticket);
/** Queues an operation behind unfinished work. False when there is none: then the caller runs it.
 */
bool host__stream_defer(host_stream *stream, host_operation *operation);
/** Waits for a ticket. False when timeout_ns ended first. */
bool host__stream_reach(host_stream *stream, uint64_t ticket, uint64_t timeout_ns);
/** Joins the workers of destroyed streams: those that have ended, or all. */
void host__stream_reap(host_device *device, bool all);

ddisp_status host__stream_create(void *device, uint64_t flags, void **out_stream);
void host__stream_destroy(void *device, void *stream);
ddisp_status host__stream_flush(void *device, void *stream);
ddisp_status host__stream_mark(void *device, void *stream, uint64_t *out_ticket);
ddisp_status host__stream_wait(void *device, void *stream, void *other_stream, uint64_t ticket);
ddisp_status host__stream_query(void *device, void *stream, uint64_t ticket);
ddisp_status host__stream_synchronize(void *device, void *stream, uint64_t ticket,
                                      uint64_t timeout_ns);

/** Runs an operation in order of the stream: now on the device's own, else queued. On failure it is
 * given back with backend_release. */
ddisp_status host__stream_run(host_device *device, host_stream *stream, host_operation *operation);

/* ---- host_timed.c ---- */

ddisp_status host__stream_mark_timed(void *device, void *stream, uint64_t *out_ticket);
ddisp_status host__stream_elapsed(void *device, void *begin_stream, uint64_t begin_ticket,
                                  void *end_stream, uint64_t end_ticket, uint64_t *out_ns);
void host__times_release(host_stream *stream);

/* ---- host_graph.c ---- */

ddisp_status host__capture_begin(void *device, void *stream);
ddisp_status host__capture_end(void *device, void *stream, void **out_graph);
ddisp_status host__graph_launch(void *device, void *stream, void *graph);
ddisp_status host__graph_update(void *device, void *graph, uint32_t index,
                                const ddisp_backend_launch *launch);
void host__graph_release(void *device, void *graph);
/** Appends an operation, which the graph then owns. */
void host__graph_append(host_graph *graph, host_operation *operation);

/* ---- host_sink.c, host_elements.c, host_scatter.c, host_fixed.c, host_fold.c ---- */

ddisp_status host__sink_acquire(void *device, uint64_t size_bytes, uint64_t flags,
                                ddisp_backend_range *out_range, uint64_t *out_physical_bytes);
void host__sink_trim(void *device);

/** Size of an element in bytes. */
uint32_t host__dtype_size(ddisp_dtype dtype);
ddisp_status host__fill_elements(void *device, void *stream,
                                 const ddisp_backend_tensor *destination, uint64_t bits);
ddisp_status host__accumulate(void *device, void *stream, const ddisp_backend_tensor *destination,
                              const ddisp_backend_tensor *source, double alpha, uint32_t operation,
                              uint64_t flags);
ddisp_status host__scatter_add(void *device, void *stream, const ddisp_backend_tensor *destination,
                               uint32_t axis, int64_t axis_extent,
                               const ddisp_backend_tensor *index,
                               const ddisp_backend_tensor *source,
                               const ddisp_backend_range *skipped, uint64_t flags);
/** What host__scatter_add does in deterministic mode. */
ddisp_status host__fixed_add(host_device *device, void *stream,
                             const ddisp_backend_tensor *destination, uint32_t axis,
                             int64_t axis_extent, const ddisp_backend_tensor *index,
                             const ddisp_backend_tensor *source,
                             const ddisp_backend_range *skipped);
ddisp_status host__fold(void *device, void *stream, const ddisp_backend_tensor *destination,
                        const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                        uint64_t flags, const ddisp_backend_range *sticky);

/* ---- host_memory.c ---- */

ddisp_status host__memory_allocate(void *device, void *stream, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory);
void host__memory_free(void *device, void *stream, ddisp_backend_memory *memory);
ddisp_status host__memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                 ddisp_backend_memory *out_memory);
void host__memory_release_import(void *device, ddisp_backend_memory *memory);
ddisp_status host__upload(void *device, void *stream, const ddisp_backend_range *destination,
                          const void *data);
ddisp_status host__download(void *device, void *stream, const ddisp_backend_range *source,
                            void *data);
ddisp_status host__fill(void *device, void *stream, const ddisp_backend_range *destination,
                        uint64_t pattern, uint32_t pattern_size_bytes);
ddisp_status host__copy(void *device, void *stream, const ddisp_backend_range *destination,
                        const ddisp_backend_range *source);

/* ---- host_variant.c ---- */

/** A function with a list of arguments, and how it is called. */
typedef struct host_native host_native;

/** A host function, ready to run. */
typedef struct host_variant {
    ddisp_host_function function; /* over a range of items */
    host_native *native;          /* or any function, called once; NULL: none */
} host_variant;

ddisp_status host__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                           ddisp_backend_code_info *info);
ddisp_status host__code_fits(void *device, const ddisp_backend_code *code);
ddisp_status host__variant_build(void *device, const ddisp_backend_variant *variant,
                                 void **out_variant);
void host__variant_release(void *device, void *variant);

/* ---- host_library.c ---- */

/** The library is there and has the entries. CODE_INVALID, NOT_FOUND. */
ddisp_status host__library_inspect(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code);
/** A function of the library that the code names. CODE_INVALID, NOT_FOUND. */
ddisp_status host__library_find(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const char *name,
                                ddisp_host_function *out_function);

/* ---- host_native.c ---- */

/** The list can be made a call. UNSUPPORTED without libffi, CODE_INVALID. */
ddisp_status host__native_check(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const ddisp_entry *entry);
ddisp_status host__native_make(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const ddisp_entry *entry,
                               ddisp_host_function function, host_native **out_native);
void host__native_release(const ddisp_backend_services *services, host_native *native);
/** Makes the call now. */
ddisp_status host__native_call(host_device *device, const ddisp_backend_launch *launch);
/** An operation that makes the call with the arguments as they are now. */
ddisp_status host__native_operation(host_device *device, const ddisp_backend_launch *launch,
                                    host_operation **out_operation);

/* ---- host_launch.c ---- */

/** An operation that does the launch, with its arguments copied. */
ddisp_status host__launch_operation(host_device *device, const ddisp_backend_launch *launch,
                                    host_operation **out_operation);

/** Works on the range begin to end - 1. */
typedef void (*host_body)(void *user, uint64_t begin, uint64_t end);

/**
 * Covers 0 to count - 1 by calls of body from several threads, and returns when all have returned.
 * Ranges begin at multiples of grain. Up to `alone` units are one call in the calling thread.
 */
void host__split(uint64_t count, uint64_t grain, uint64_t alone, host_body body, void *user);

ddisp_status host__launch(void *device, void *stream, const ddisp_backend_launch *launch);

#endif
