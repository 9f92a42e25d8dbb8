/*
 * cuda_internal.h - the structs behind the CUDA backend's handles, and what its rooms offer each
 * other.
 *
 * Every driver call lies between cuda__enter and cuda__leave of its device, which keep the
 * caller's current context as it was found. Once a device is lost, cuda__enter fails and no driver
 * call is made for it any more, in this process: an illegal address cannot be recovered, and
 * touching the primary context again may crash.
 */
#ifndef DDISP_CUDA_INTERNAL_H
#define DDISP_CUDA_INTERNAL_H

#include "backend_support.h"
#include "cuda_api.h"
#include "cuda_builtin.h"
#include "cuda_ptx.h"

#include <pthread.h>
#include <stdatomic.h>

#define CUDA__MAX_DEVICES     64u   /* bits of the mask of lost devices */
#define CUDA__MAX_BLOCK_BYTES 4096u /* argument block by value; larger ones go by pointer */

/* ---- driver: one per process (cuda_driver.c) */

/** Loads libcuda.so.1 once. BACKEND_UNAVAILABLE with the reason in words. */
ddisp_status cuda__driver_load(const ddisp_backend_services *services, const cu__api **out_api);
/** Device `ordinal` was lost, in this process, whoever noticed. */
bool cuda__driver_lost(int ordinal);
bool cuda__driver_any_lost(void);
/** Status for a result that is not success. */
ddisp_status cuda__result_status(cu__result result);
/** The driver has shut down or destroyed the context: release paths pass over it in silence. */
bool cuda__result_is_shutdown(cu__result result);
/** Writes "call: NAME (number): text". */
void cuda__result_format(const cu__api *api, cu__result result, const char *call, char *text,
                         size_t capacity);

/* ---- instance and device (cuda_backend.c, cuda_device.c) */

typedef struct cuda__instance {
    const ddisp_backend_services *services;
    const cu__api *api;
    int version; /* 13000 for CUDA 13.0 */
    uint32_t device_count;
} cuda__instance;

typedef struct cuda__stream cuda__stream;

/** Physical memory that the sink shows over and over. */
typedef struct cuda__sink_block {
    cu__allocation allocation;
    uint64_t size_bytes;
    bool made, zeroed;
} cuda__sink_block;

typedef struct cuda__sink {
    cu__address base; /* 0: nothing is reserved */
    uint64_t reserved_bytes, mapped_bytes;
    cuda__sink_block blocks[2]; /* of the first 4 GiB, and beyond */
} cuda__sink;

typedef struct cuda__device {
    const ddisp_backend_services *services;
    const cu__api *api;
    int ordinal;
    int version;
    cu__device handle;
    cu__context context; /* primary, retained; or the application's */
    bool borrowed;       /* the application's */
    cu__pool pool;       /* NULL: the device has no memory pools */
    uint32_t capability_major, capability_minor;
    uint32_t max_shared_bytes;
    uint32_t multiprocessors;
    bool virtual_memory; /* ranges can be reserved and mapped */
    uint64_t memory_bytes;
    char release[32]; /* of the driver, such as "580.159.04"; empty when the system does not tell */
    pthread_mutex_t lock;                /* guards streams; taken before a stream's lock */
    cuda__stream *streams;               /* all, so that running out of memory can wait for them */
    cuda__sink sink;                     /* the core's lock guards it */
    atomic_uint captures;                /* streams that record now */
    atomic_uint_fast64_t reserved_bytes; /* of the pool, when it was last looked at */
    atomic_uint_fast64_t reuses;         /* allocations by which that did not grow */
    cuda__builtin builtin;               /* has a lock of its own */
} cuda__device;

/** Fails with "cuda:<ordinal>: call: NAME (number): text", for a device that is not open; notes a
 * loss. */
ddisp_status cuda__fail_closed(const cuda__instance *instance, int ordinal, cu__result result,
                               const char *call);
ddisp_status cuda__device_count(void *instance, uint32_t *out_count);
ddisp_status cuda__device_describe(void *instance, uint32_t index, ddisp_device_info *info);
ddisp_status cuda__device_open(void *instance, uint32_t index, void **out_device);
void cuda__device_close(void *device);
/** Opens device `index`, over its primary context or over one of the application's. */
ddisp_status cuda__device_make(cuda__instance *instance, uint32_t index, cu__context borrowed,
                               void **out_device);
ddisp_status cuda__device_wrap(void *instance, const ddisp_chain *native, ddisp_device_info *info,
                               void **out_device);

/** What cuda__leave has to undo. */
typedef struct cuda__scope {
    bool pushed;
    bool relaxed;
    unsigned int capture_mode; /* the thread's own, when relaxed */
} cuda__scope;

/** Makes the device's context current. DEVICE_LOST at once when it is lost. */
ddisp_status cuda__enter(cuda__device *device, cuda__scope *scope);
/** The same for releasing: false when the driver must not or cannot be called; says nothing. */
bool cuda__enter_release(cuda__device *device, cuda__scope *scope);
/** Puts back the context that was current. Keeps to the host side of the driver, so that it is
 * right after a loss too. */
void cuda__leave(cuda__device *device, const cuda__scope *scope);
/** Fails with "cuda:<ordinal>: call: NAME (number): text"; notes a loss. */
ddisp_status cuda__fail(cuda__device *device, cu__result result, const char *call);
/** For release paths: notes a loss, passes over a driver that has shut down, logs the rest. */
void cuda__note(cuda__device *device, cu__result result, const char *call);

/* ---- streams (cuda_stream.c, cuda_mark.c) */

/** A recorded event. */
typedef struct cuda__mark {
    struct cuda__mark *next;
    uint64_t ticket;
    cu__event event;
    uint32_t waiters; /* threads that wait for the event: it is not recorded anew */
} cuda__mark;

/** Memory without a pool, waiting for its stream before it can be freed. */
typedef struct cuda__allocation {
    struct cuda__allocation *next;
    cu__address address;
    uint64_t ticket;
} cuda__allocation;

typedef struct cuda__staging cuda__staging;
typedef struct cuda__graph cuda__graph; /* cuda_graph.c */

struct cuda__stream {
    cuda__stream *next; /* in the device's list */
    cu__stream handle;
    pthread_mutex_t lock; /* guards the marks: waits overlap with the stream's own user */
    uint64_t last_ticket;
    uint64_t done_ticket;        /* all tickets up to this one are known to be done */
    cuda__mark *oldest, *newest; /* recorded, tickets increase */
    cuda__mark *spare;
    uint32_t mark_count;        /* in both lists */
    cuda__allocation *deferred; /* oldest first; only without pools */
    cuda__staging *staging;     /* made at first use */
    cu__address block_address;  /* device memory for argument blocks that go by pointer */
    uint64_t block_capacity_bytes;
    bool borrowed;                        /* the application's: it is not destroyed */
    cuda__mark *first_timed, *last_timed; /* whose events tell the time, tickets increase */
    uint32_t timed_count;
    cuda__graph *recording; /* NULL: work runs; guarded by the device's lock */
};

ddisp_status cuda__stream_create(void *device, uint64_t flags, void **out_stream);
void cuda__stream_destroy(void *device, void *stream);
ddisp_status cuda__stream_flush(void *device, void *stream);
ddisp_status cuda__stream_mark(void *device, void *stream, uint64_t *out_ticket);
ddisp_status cuda__stream_wait(void *device, void *stream, void *other_stream, uint64_t ticket);
ddisp_status cuda__stream_query(void *device, void *stream, uint64_t ticket);
ddisp_status cuda__stream_synchronize(void *device, void *stream, uint64_t ticket,
                                      uint64_t timeout_ns);
ddisp_status cuda__stream_wrap(void *device, uint64_t native_handle, void **out_stream);
ddisp_status cuda__stream_mark_timed(void *device, void *stream, uint64_t *out_ticket);
ddisp_status cuda__stream_elapsed(void *device, void *begin_stream, uint64_t begin_ticket,
                                  void *end_stream, uint64_t end_ticket, uint64_t *out_ns);
/** Gives the events of timed marks back; the context is current when `entered`. */
void cuda__timed_release(cuda__device *device, cuda__stream *stream, bool entered);
/** Records an event at the stream's end; the context is current. */
ddisp_status cuda__stream_record(cuda__device *device, cuda__stream *stream, uint64_t *out_ticket);
/** OK, NOT_READY or an error; the context is current. */
ddisp_status cuda__stream_test(cuda__device *device, cuda__stream *stream, uint64_t ticket);
/** Makes stream wait for a ticket of another; the context is current. */
ddisp_status cuda__mark_wait(cuda__device *device, const cuda__stream *stream, cuda__stream *other,
                             uint64_t ticket);
/** Frees a list of marks, with their events when `entered`. */
void cuda__marks_destroy(cuda__device *device, cuda__mark *mark, bool entered);
/** Waits without end; the context is current. */
ddisp_status cuda__stream_await(cuda__device *device, cuda__stream *stream, uint64_t ticket);

/* ---- memory (cuda_memory.c), transfers (cuda_transfer.c), staging (cuda_staging.c) */

ddisp_status cuda__memory_allocate(void *device, void *stream, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory);
void cuda__memory_free(void *device, void *stream, ddisp_backend_memory *memory);
ddisp_status cuda__memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                 ddisp_backend_memory *out_memory);
void cuda__memory_release_import(void *device, ddisp_backend_memory *memory);
ddisp_status cuda__memory_trim(void *device);
ddisp_status cuda__memory_figures(void *device, ddisp_backend_memory_figures *figures);
/** Allocation and freeing with the context current, for the backend's own memory. */
ddisp_status cuda__memory_take(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                               cu__address *out_address);
void cuda__memory_give(cuda__device *device, cuda__stream *stream, cu__address address);
/** Frees what deferred memory of the stream can be freed; all, after waiting, with `wait`. */
void cuda__memory_reap(cuda__device *device, cuda__stream *stream, bool wait);

ddisp_status cuda__upload(void *device, void *stream, const ddisp_backend_range *destination,
                          const void *data);
ddisp_status cuda__download(void *device, void *stream, const ddisp_backend_range *source,
                            void *data);
ddisp_status cuda__fill(void *device, void *stream, const ddisp_backend_range *destination,
                        uint64_t pattern, uint32_t pattern_size_bytes);
ddisp_status cuda__copy(void *device, void *stream, const ddisp_backend_range *destination,
                        const ddisp_backend_range *source);

/** Largest piece that cuda__staging_send takes. */
#define CUDA__STAGING_LIMIT_BYTES UINT64_C(32768)

/** Queues a copy of a small piece of host memory; data may be reused at once. The context is
 * current. */
ddisp_status cuda__staging_send(cuda__device *device, cuda__stream *stream, cu__address destination,
                                const void *data, uint64_t size_bytes);
/** Frees it; the stream has been waited for, or `lost` says that no driver call may be made. */
void cuda__staging_release(cuda__device *device, cuda__stream *stream, bool lost);

/* ---- element-wise work (cuda_accumulate.c, cuda_scatter.c; cuda_operations.h is between them) */

ddisp_status cuda__fill_elements(void *device, void *stream,
                                 const ddisp_backend_tensor *destination, uint64_t bits);
ddisp_status cuda__accumulate(void *device, void *stream, const ddisp_backend_tensor *destination,
                              const ddisp_backend_tensor *source, double alpha, uint32_t operation,
                              uint64_t flags);
ddisp_status cuda__scatter_add(void *device, void *stream, const ddisp_backend_tensor *destination,
                               uint32_t axis, int64_t axis_extent,
                               const ddisp_backend_tensor *index,
                               const ddisp_backend_tensor *source,
                               const ddisp_backend_range *skipped, uint64_t flags);
ddisp_status cuda__fold(void *device, void *stream, const ddisp_backend_tensor *destination,
                        const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                        uint64_t flags, const ddisp_backend_range *sticky);
/** Unloads the backend's own kernels, with the context current. */
void cuda__builtin_release(cuda__device *device);

/* ---- sink (cuda_sink.c) */

ddisp_status cuda__sink_acquire(void *device, uint64_t size_bytes, uint64_t flags,
                                ddisp_backend_range *out_range, uint64_t *out_physical_bytes);
void cuda__sink_trim(void *device);
/** Gives everything back, with the context current. */
void cuda__sink_release(cuda__device *device);

#endif
