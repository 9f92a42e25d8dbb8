/*
 * device.h - contexts, backends, devices, buffers, streams and events: where work runs and where
 * its bytes live.
 *
 * A context loads backends (shared objects) and opens their devices. A device has one stream of its
 * own, which NULL stands for wherever a stream is taken; more can be made. Work on one stream runs
 * in order; order between streams is the caller's business (events), except that the library orders
 * its own allocations, fills and reuse of memory.
 */
#ifndef DIFFDISPATCH_DEVICE_H
#define DIFFDISPATCH_DEVICE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ddisp_context ddisp_context;
typedef struct ddisp_device ddisp_device;
typedef struct ddisp_buffer ddisp_buffer;
typedef struct ddisp_stream ddisp_stream;
typedef struct ddisp_event ddisp_event;

/* ---- context ---- */

/** Launches are as with DDISP_LAUNCH_DETERMINISTIC, accumulate and scatter-add as with
 * DDISP_ACCUMULATE_DETERMINISTIC. */
#define DDISP_CONTEXT_DETERMINISTIC UINT64_C(1)

/** How a context is made. All zero: find every backend, log warnings to standard error, use malloc.
 */
typedef struct ddisp_context_desc {
    uint32_t size;             /**< sizeof(ddisp_context_desc) */
    ddisp_log_level log_level; /**< 0: environment variable DDISP_LOG, else warnings */
    const ddisp_chain *next;   /**< NULL */
    uint64_t flags;            /**< DDISP_CONTEXT_... */
    const ddisp_allocator
        *allocator; /**< NULL: malloc and free. Copied; must work until the context is gone */
    ddisp_log_function log; /**< NULL: standard error */
    void *log_user_data;    /**< handed to log */
    const char *backends;   /**< comma-separated names to load; NULL: DDISP_BACKENDS, else all that
                               are found */
    const char *backend_path;    /**< absolute directory searched before all others; NULL: none */
    const char *cache_directory; /**< absolute directory of the kernel cache; NULL: DDISP_CACHE_DIR,
                                    else the user's cache */
} ddisp_context_desc;

/**
 * Creates a context: finds and loads backends. Succeeds even if no backend can work;
 * ddisp_backend_get_info says why. desc         NULL for every default out_context  receives the
 * context (one reference) Returns OK, INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_context_create(const ddisp_context_desc *desc,
                                            ddisp_context **out_context);
DDISP_API void ddisp_context_retain(ddisp_context *context);
/** Gives a reference back. Devices, kernels and tensors hold their context, so order of release
 * does not matter. */
DDISP_API void ddisp_context_release(ddisp_context *context);

/** What became of one candidate for a backend. */
typedef struct ddisp_backend_info {
    uint32_t size;       /**< sizeof(ddisp_backend_info) */
    ddisp_status status; /**< OK when usable, else why not */
    /** plugin ABI it reported, major * 65536 + minor; 0 when it was not asked */
    uint32_t abi_version;
    uint32_t device_count; /**< devices it found */
    char name[64];         /**< backend name, such as "cuda" */
    char version[64];      /**< version of the plugin, empty when unknown */
    char path[512];        /**< file that was tried; "built in" for linked-in backends */
    char reason[512];      /**< in words, why it is not usable; empty when it is */
} ddisp_backend_info;

/** Number of candidates that were looked at. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_backend_count(ddisp_context *context, uint32_t *out_count);
/** Describes candidate `index`, 0 to count - 1. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_backend_get_info(ddisp_context *context, uint32_t index,
                                              ddisp_backend_info *out_info);

/**
 * The directory of the context's kernel cache, copied into buffer (capacity bytes) with its NUL.
 * Returns OK, INVALID_ARGUMENT, BUFFER_TOO_SMALL (out_length has the length needed without the
 * NUL).
 */
DDISP_API ddisp_status ddisp_context_get_cache_directory(ddisp_context *context, char *buffer,
                                                         uint64_t capacity, uint64_t *out_length);

/* ---- devices ---- */

/** How a device offers an operation. */
typedef uint32_t ddisp_support;
enum {
    DDISP_SUPPORT_NONE = 0,     /**< not offered */
    DDISP_SUPPORT_EMULATED = 1, /**< offered through a compare-and-swap loop */
    DDISP_SUPPORT_NATIVE = 2,   /**< one instruction */
};

/** Properties of a device, as flags. */
#define DDISP_DEVICE_FLAG_SOFTWARE       UINT64_C(1) /**< runs on the processor */
#define DDISP_DEVICE_FLAG_HOST_ADDRESSES UINT64_C(2) /**< device addresses are host pointers */
#define DDISP_DEVICE_FLAG_NULL_DESCRIPTOR                                                          \
    UINT64_C(4) /**< a null descriptor is defined: reads 0, writes nothing */
#define DDISP_DEVICE_FLAG_FAKE UINT64_C(8) /**< a stand-in used by tests */

/** What a device is and can do. */
typedef struct ddisp_device_info {
    uint32_t size;         /**< sizeof(ddisp_device_info) */
    uint32_t rank;         /**< "auto" opens the highest; 0 to 1000 */
    uint64_t flags;        /**< DDISP_DEVICE_FLAG_... */
    uint64_t memory_bytes; /**< size of its memory */
    char spec[32];         /**< opens this device, such as "cuda:0" */
    char backend[32];      /**< such as "cuda" */
    char name[128];        /**< such as "NVIDIA H200" */
    char uuid[40]; /**< stable identity, hexadecimal with dashes; "name:uuid=..." opens it */
    char architecture[32];        /**< such as "sm_90" */
    char driver[96];              /**< driver name and version */
    char formats[96];             /**< code formats taken, comma-separated */
    char specializes[96];         /**< formats that it specializes by itself, comma-separated */
    char sink[32];                /**< kind of sink, "none" when it has none */
    ddisp_support atomic_add_f16; /**< adding to a gradient in memory, per dtype */
    ddisp_support atomic_add_bf16;
    ddisp_support atomic_add_f32;
    ddisp_support atomic_add_f64;
    uint64_t max_allocation_bytes; /**< largest single allocation */
    /** groups per launch and axis; all 0 when the device has no groups */
    uint32_t max_group_count[3];
    uint32_t max_group_size[3]; /**< threads per group and axis */
    uint32_t max_group_threads; /**< product of the group size */
    uint32_t max_block_bytes;   /**< argument block passed by value; larger ones go by pointer */
    /** groups that fill the device, for codes that loop over items */
    uint32_t preferred_group_count;
    uint32_t max_shared_bytes; /**< dynamic shared memory per group; 0 when not offered */
    uint32_t subgroup_size;    /**< lanes that run together, 1 for none */
    uint32_t driver_version;   /**< the driver's own number */
    uint32_t vendor_id;        /**< PCI vendor, 0 for none */
    uint32_t device_id;        /**< PCI device, 0 for none */
    uint64_t features;         /**< bits private to the backend that change which code fits; part of
                                  signatures */
    uint32_t driver_id; /**< which driver serves it (VkDriverId), 0 where there is but one; part of
                           signatures */
    ddisp_support atomic_add_i64; /**< adding to 64-bit integers, which deterministic mode needs */
    uint32_t dlpack_device_type;  /**< kind of its addresses in DLPack (DLDeviceType: 1 host memory,
                                     2 CUDA), 0 when they have no meaning to others */
    int32_t dlpack_device_id;     /**< number of the device in DLPack, with a type above 0 */
} ddisp_device_info;

/** Number of devices of all usable backends, highest rank first. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_device_count(ddisp_context *context, uint32_t *out_count);
/** Describes device `index` without opening it. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_device_describe(ddisp_context *context, uint32_t index,
                                             ddisp_device_info *out_info);

/**
 * Opens a device.
 *   spec  "auto" (highest rank), "host", "cuda:0", "vulkan:uuid=...": backend name, then an index
 * (default 0) or UUID Opening one device twice in a context gives the same device with one more
 * reference. Returns OK, INVALID_ARGUMENT, NOT_FOUND, BACKEND_UNAVAILABLE (message has the
 * backend's reason), DRIVER_ERROR, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_device_open(ddisp_context *context, const char *spec,
                                         ddisp_device **out_device);
DDISP_API void ddisp_device_retain(ddisp_device *device);
/** Gives a reference back. The last one waits for the device's work; tensors and buffers hold their
 * device. */
DDISP_API void ddisp_device_release(ddisp_device *device);
/** Describes an open device. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_device_get_info(ddisp_device *device, ddisp_device_info *out_info);
/** OK while the device works; after it was lost, DEVICE_LOST, and ddisp_last_error has the first
 * cause. */
DDISP_API ddisp_status ddisp_device_status(ddisp_device *device);
/** Waits until all work on the device's own stream is done. Returns OK, TIMEOUT, DEVICE_LOST. */
DDISP_API ddisp_status ddisp_device_synchronize(ddisp_device *device, uint64_t timeout_ns);

/** Wait without end. */
#define DDISP_TIMEOUT_INFINITE UINT64_MAX

/** Counters of a device since it was opened; bytes as handed out by the library, wrapped memory not
 * counted. */
typedef struct ddisp_device_statistics {
    uint32_t size;                /**< sizeof(ddisp_device_statistics) */
    uint32_t reserved;            /**< zero */
    uint64_t allocations;         /**< allocations made */
    uint64_t frees;               /**< allocations given back */
    uint64_t bytes_live;          /**< bytes now allocated */
    uint64_t bytes_peak;          /**< most bytes allocated at once */
    uint64_t gradient_bytes_live; /**< of these: gradients */
    uint64_t gradient_bytes_peak;
    uint64_t scratch_bytes_live; /**< of these: temporaries of launches */
    uint64_t scratch_bytes_peak;
    uint64_t sink_bytes_live; /**< of these: physical memory of the sink */
    uint64_t launches;        /**< launches handed to the driver */
    uint64_t skips;           /**< launches that needed no work */
    uint64_t fills;           /**< zero-fills queued */
    uint64_t variants_built;  /**< variants compiled or loaded */
    uint64_t bytes_cached;    /**< bytes taken from the driver and kept for later allocations */
    /** most bytes taken from the driver at once, handed out or kept */
    uint64_t bytes_reserved_peak;
    uint64_t reuses;             /**< allocations for which nothing was taken from the driver */
    uint64_t memory_limit_bytes; /**< as set by ddisp_device_set_memory_limit; 0: none */
} ddisp_device_statistics;

/** Reads the counters. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_device_get_statistics(ddisp_device *device,
                                                   ddisp_device_statistics *out_statistics);

/**
 * Gives memory back that the library holds for later: freed memory that is kept, and the sink, once
 * the work that uses it is done (waits for it). Returns OK, INVALID_ARGUMENT, DEVICE_LOST,
 * DRIVER_ERROR.
 */
DDISP_API ddisp_status ddisp_device_trim(ddisp_device *device);

/**
 * Limits the memory that the library takes on a device for buffers, gradients and temporaries.
 *   limit_bytes  most bytes handed out at once; what is kept for later is given back when it would
 *                go beyond the limit together with them. 0: no limit but the device's
 * Memory handed out already stays. An allocation beyond the limit gives OUT_OF_DEVICE_MEMORY, which
 * names the limit and what is left of it. Returns OK, INVALID_ARGUMENT, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_device_set_memory_limit(ddisp_device *device, uint64_t limit_bytes);

/**
 * Makes a device of the application's own, so that its objects and the library's can be used
 * together: a context of CUDA (cuda.h), a device and queues of Vulkan (vulkan.h).
 *   backend  name of the backend, such as "cuda"
 *   native   head of one of the backend's structs, such as &desc.head of a ddisp_cuda_device_desc;
 *            read during the call only
 * Every call makes another device; its spec is "cuda:wrapped", which opens nothing. The application
 * keeps what it lent alive until the last reference is given back (tensors and the like hold their
 * device). Returns OK, INVALID_ARGUMENT, NOT_FOUND, BACKEND_UNAVAILABLE, UNSUPPORTED (the backend
 * wraps nothing, or the device lacks what is needed: the message says what), DRIVER_ERROR,
 * OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_device_wrap(ddisp_context *context, const char *backend,
                                         const ddisp_chain *native, ddisp_device **out_device);
/**
 * Fills one of a backend's structs with what it needs of objects that the application makes, such
 * as a ddisp_vulkan_needs. Returns OK, INVALID_ARGUMENT, NOT_FOUND, BACKEND_UNAVAILABLE,
 * UNSUPPORTED, DRIVER_ERROR, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_backend_get_needs(ddisp_context *context, const char *backend,
                                               ddisp_chain *needs);

/* ---- buffers ---- */

/**
 * Allocates size_bytes of device memory, content undefined. 0 bytes is legal and gives a usable
 * handle. Returns OK, INVALID_ARGUMENT, OUT_OF_DEVICE_MEMORY, OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_buffer_create(ddisp_device *device, uint64_t size_bytes,
                                           ddisp_buffer **out_buffer);
/**
 * Wraps memory that the caller owns: a host pointer on the host device, a device pointer on CUDA, a
 * buffer device address on Vulkan. release  called once with user_data when the library no longer
 * uses the memory (after completion); may be NULL On failure the memory stays the caller's and
 * release is not called. Returns OK, INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_buffer_wrap(ddisp_device *device, uint64_t address,
                                         uint64_t size_bytes, ddisp_release_function release,
                                         void *user_data, ddisp_buffer **out_buffer);
/**
 * Wraps a buffer of the application that is more than an address, such as a VkBuffer (vulkan.h).
 *   native      head of one of the backend's structs; read during the call only
 *   size_bytes  of the part that is wrapped
 *   release     as for ddisp_buffer_wrap
 * Returns OK, INVALID_ARGUMENT (a need that the buffer does not meet is named), UNSUPPORTED (the
 * device's buffers are addresses: use ddisp_buffer_wrap), OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_buffer_wrap_native(ddisp_device *device, const ddisp_chain *native,
                                                uint64_t size_bytes, ddisp_release_function release,
                                                void *user_data, ddisp_buffer **out_buffer);
DDISP_API void ddisp_buffer_retain(ddisp_buffer *buffer);
/** Gives a reference back, at any time: memory is freed after the work that uses it. */
DDISP_API void ddisp_buffer_release(ddisp_buffer *buffer);
/** Device address of the first byte (0 for a NULL buffer or one of 0 bytes). */
DDISP_API uint64_t ddisp_buffer_address(const ddisp_buffer *buffer);
/** Size in bytes (0 for NULL). */
DDISP_API uint64_t ddisp_buffer_size(const ddisp_buffer *buffer);
/**
 * Copies size_bytes between host memory and the buffer at offset_bytes, in stream order (NULL: the
 * device's own). write returns when data may be reused, read when data is filled. Returns OK,
 * INVALID_ARGUMENT (out of range), DEVICE_MISMATCH (stream), DEVICE_LOST, DRIVER_ERROR.
 */
DDISP_API ddisp_status ddisp_buffer_write(ddisp_buffer *buffer, uint64_t offset_bytes,
                                          const void *data, uint64_t size_bytes,
                                          ddisp_stream *stream);
DDISP_API ddisp_status ddisp_buffer_read(ddisp_buffer *buffer, uint64_t offset_bytes, void *data,
                                         uint64_t size_bytes, ddisp_stream *stream);

/* ---- streams and events
 * ------------------------------------------------------------------------------------- */

/**
 * Creates an in-order queue of work. A stream is used by one thread at a time. Work on different
 * streams may overlap and has no order but that of events and of the library's own allocations and
 * fills (docs/streams.md).
 *   flags  zero
 * Returns OK, INVALID_ARGUMENT, OUT_OF_MEMORY, DRIVER_ERROR, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_stream_create(ddisp_device *device, uint64_t flags,
                                           ddisp_stream **out_stream);
/**
 * Makes a stream over one of the application's own, so that the library's work runs in its order.
 *   native_handle  a CUstream on CUDA (0: the legacy default stream), on a wrapped Vulkan device
 * one of the VkQueues that it was made with
 *
 * On Vulkan, work is gathered until a flush: flush before the application submits work of its own.
 * The application keeps the native stream alive until the last reference is given back and the work
 * queued here is done. Returns OK, INVALID_ARGUMENT, UNSUPPORTED (the device's work does not run in
 * streams of the application), OUT_OF_MEMORY, DRIVER_ERROR, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_stream_wrap(ddisp_device *device, uint64_t native_handle,
                                         ddisp_stream **out_stream);
DDISP_API void ddisp_stream_retain(ddisp_stream *stream);
/** Gives a reference back. Work already queued still runs. */
DDISP_API void ddisp_stream_release(ddisp_stream *stream);
/** Hands queued work to the device without waiting. Returns OK, INVALID_ARGUMENT, DEVICE_LOST,
 * DRIVER_ERROR. */
DDISP_API ddisp_status ddisp_stream_flush(ddisp_stream *stream);
/** Flushes and waits until all queued work is done. Returns OK, INVALID_ARGUMENT, TIMEOUT,
 * DEVICE_LOST. */
DDISP_API ddisp_status ddisp_stream_synchronize(ddisp_stream *stream, uint64_t timeout_ns);
/** Makes later work on stream wait, on the device, for an event recorded on another stream of the
 * same device. An event that was never recorded is already done. Returns OK, INVALID_ARGUMENT,
 * DEVICE_MISMATCH, DEVICE_LOST. */
DDISP_API ddisp_status ddisp_stream_wait_event(ddisp_stream *stream, ddisp_event *event);

/** The event also notes the device's time, for ddisp_event_elapsed. */
#define DDISP_EVENT_TIMED UINT64_C(1)

/** Creates an event. flags: DDISP_EVENT_... Returns OK, INVALID_ARGUMENT, UNSUPPORTED (the device
 * tells no time), OUT_OF_MEMORY, DEVICE_LOST. */
DDISP_API ddisp_status ddisp_event_create(ddisp_device *device, uint64_t flags,
                                          ddisp_event **out_event);
DDISP_API void ddisp_event_retain(ddisp_event *event);
DDISP_API void ddisp_event_release(ddisp_event *event);
/** Marks the present end of stream (NULL: the device's own). A later record replaces the mark.
 * Exclusive use of event. Returns OK, INVALID_ARGUMENT, DEVICE_MISMATCH, UNSUPPORTED (stream
 * captures, or its queue tells no time), OUT_OF_MEMORY, DRIVER_ERROR, DEVICE_LOST. */
DDISP_API ddisp_status ddisp_event_record(ddisp_event *event, ddisp_stream *stream);
/** OK when the marked work is done, NOT_READY when not, DEVICE_LOST. */
DDISP_API ddisp_status ddisp_event_query(ddisp_event *event);
/** Waits for the marked work. Returns OK, TIMEOUT, DEVICE_LOST, INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_event_synchronize(ddisp_event *event, uint64_t timeout_ns);
/**
 * The device's time from one timed event to another of the same device, on any streams.
 *   out_ns  receives nanoseconds; as fine as the device's clock
 * Returns OK, NOT_READY (the work of one is not done yet), INVALID_ARGUMENT (an event is not timed,
 * was never recorded, was recorded so long ago that its time is gone, or end was reached before
 * begin), DEVICE_MISMATCH, DEVICE_LOST, DRIVER_ERROR.
 */
DDISP_API ddisp_status ddisp_event_elapsed(ddisp_event *begin, ddisp_event *end, uint64_t *out_ns);

/** Is told that work is done: status is OK, or what the wait ended with (DEVICE_LOST). */
typedef void (*ddisp_notify_function)(void *user_data, ddisp_status status);
/**
 * Has a function called once the work that the event marks now is done; a later record changes
 * nothing. It runs exactly once, on a thread of the library's own (one per context, started at
 * first use), never on a driver's and never under a lock; functions for one stream run in the order
 * of these calls. It may call the library, but while it waits no other runs. The stream and its
 * device live until it has returned. Returns OK, INVALID_ARGUMENT, OUT_OF_MEMORY (of a thread,
 * too), DEVICE_LOST; on failure it is not called.
 */
DDISP_API ddisp_status ddisp_event_notify(ddisp_event *event, ddisp_notify_function function,
                                          void *user_data);

#ifdef __cplusplus
}
#endif

#endif
