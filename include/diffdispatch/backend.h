/*
 * backend.h - the plugin ABI: what a backend gives the core, and what the core gives a backend.
 *
 * A backend is a shared object ddisp-<name>.so that exports one function,
 * ddisp_<name>_backend_query. It never links the core: it is handed a table of services. It holds
 * mechanism only; every check of arguments and every policy is in the core. docs/backends.md is the
 * guide. This ABI is provisional until 1.0: its major version names the plugin directory, its minor
 * version is checked at load.
 *
 * Rules for every function of the table
 *   - Returns a ddisp_status; on failure it calls services->fail with a message that says what the
 * driver did, and has changed nothing. DDISP_STATUS_DEVICE_LOST makes the core stop calling all but
 * releasing functions.
 *   - Called from any thread; calls with the same stream never overlap, others may. A thread-bound
 * driver context is left as it was found.
 *   - No pointer handed in is kept after the return, except where said. Nothing unwinds out of a
 * function.
 *   - `device`, `stream`, `code` and `variant` are what the backend made; `stream` is never NULL.
 */
#ifndef DIFFDISPATCH_BACKEND_H
#define DIFFDISPATCH_BACKEND_H

#include "device.h"
#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDISP_BACKEND_ABI_MAJOR 0
#define DDISP_BACKEND_ABI_MINOR 1
#define DDISP_BACKEND_ABI       ((DDISP_BACKEND_ABI_MAJOR << 16) | DDISP_BACKEND_ABI_MINOR)

/** What the core lends a backend. Lives as long as the process. */
typedef struct ddisp_backend_services {
    uint32_t size; /**< sizeof(ddisp_backend_services) */
    uint32_t abi;  /**< DDISP_BACKEND_ABI of the core */
    void *self;    /**< first argument of every function here */
    void *(*allocate)(void *self, uint64_t size_bytes); /**< zeroed host memory, or NULL */
    void (*release)(void *self, void *pointer);         /**< NULL is allowed */
    void (*log)(void *self, ddisp_log_level level, const char *message);
    /** Records the calling thread's error and returns status, so that `return fail(...)` reads
     * well. */
    ddisp_status (*fail)(void *self, ddisp_status status, int64_t native_code, const char *message);
} ddisp_backend_services;

/** Memory that a backend allocated or imported. */
typedef struct ddisp_backend_memory {
    uint64_t address;    /**< device address of the first byte */
    uint64_t size_bytes; /**< as asked */
    void *handle;        /**< the backend's own */
    void *host_pointer;  /**< where the host sees it, or NULL */
} ddisp_backend_memory;

/** A range of device memory. */
typedef struct ddisp_backend_range {
    void *handle;     /**< of the memory it lies in; NULL for foreign addresses */
    uint64_t address; /**< device address of its first byte */
    uint64_t size_bytes;
} ddisp_backend_range;

/** stream_create: this is the device's own stream, the one NULL stands for. */
#define DDISP_BACKEND_STREAM_DEFAULT UINT64_C(1)

/** One code of a kernel, as the user declared it and the core copied it. Valid until code_close /
 * inspect returns. */
typedef struct ddisp_backend_code {
    uint32_t size; /**< sizeof(ddisp_backend_code) */
    uint32_t param_count;
    const char *kernel_name;
    const ddisp_code *code; /**< entries have the size of this header's ddisp_entry; names are never
                               NULL ("" for none) */
    const ddisp_param *params;  /**< parameters of the kernel */
    const uint32_t *switch_ids; /**< per parameter: declared specialization constant, 0 for none */
    uint32_t block_size_bytes;  /**< of the standard argument block */
    uint32_t reserved;
} ddisp_backend_code;

/** The code compares and swaps on memory (its loop might not end on memory that does not hold what
 * is written). */
#define DDISP_BACKEND_CODE_COMPARE_AND_SWAP UINT64_C(1)

/** What inspection finds. */
typedef struct ddisp_backend_code_info {
    uint32_t size; /**< sizeof(ddisp_backend_code_info) */
    uint32_t reserved;
    uint64_t switch_mask; /**< bit i: variant_build can remove the code of parameter i's gradient */
    uint64_t flags;       /**< DDISP_BACKEND_CODE_... */
} ddisp_backend_code_info;

/** One variant to build. */
typedef struct ddisp_backend_variant {
    uint32_t size; /**< sizeof(ddisp_backend_variant) */
    ddisp_mode mode;
    const ddisp_backend_code *code;
    const ddisp_entry *entry; /**< one of code's entries; group_size has no 0 */
    const char *entry_name;   /**< with {mask} replaced */
    uint64_t switches; /**< bit i: parameter i has a gradient; bits outside switch_mask are set */
    uint64_t switch_mask; /**< as inspection found it */
    /** What artifact_make made for this variant earlier, or NULL. An artifact that cannot be used
     * any more is refused with CODE_REJECTED; the core then builds without it. */
    const void *artifact;
    uint64_t artifact_size_bytes;
} ddisp_backend_variant;

/** The access of a launch to a range of memory. */
typedef struct ddisp_backend_access {
    ddisp_backend_range range;
    uint32_t writes; /**< 0: reads only; 1: writes; 2: writes, and nothing depends on the content
                        (sink) */
    uint32_t reserved;
} ddisp_backend_access;

/** One native argument, filled. */
typedef struct ddisp_backend_native {
    const ddisp_native_arg *arg;
    ddisp_backend_range range; /**< addresses and descriptors; address 0: null */
    uint64_t value;            /**< numbers and scalars, in the low bytes; addresses too */
    uint32_t size_bytes;       /**< of the value: 1, 2, 4 or 8 */
    uint32_t reserved;
} ddisp_backend_native;

/** One launch. */
typedef struct ddisp_backend_launch {
    uint32_t size; /**< sizeof(ddisp_backend_launch) */
    uint32_t block_size_bytes;
    void *variant;
    const void
        *block;       /**< standard argument block, or NULL when the entry takes native arguments */
    uint64_t items;   /**< work items */
    uint32_t grid[3]; /**< groups; all 0 on devices without groups */
    uint32_t group_size[3];
    uint32_t shared_bytes;
    uint32_t native_count;
    const ddisp_backend_native *natives;
    const ddisp_backend_access *accesses; /**< every range that the kernel may touch */
    uint32_t access_count;
    uint32_t reserved;
} ddisp_backend_launch;

/** A tensor for the element-wise operations of a backend. */
typedef struct ddisp_backend_tensor {
    ddisp_backend_range range; /**< every byte between its lowest and highest element */
    uint64_t address;          /**< of element (0, ..., 0) */
    ddisp_dtype dtype;
    uint32_t rank;      /**< entries past it are extent 1, stride 0 */
    int64_t shape[8];   /**< equal for all tensors of an operation; no extent is 0 */
    int64_t strides[8]; /**< in elements, any sign; 0: repeated */
} ddisp_backend_tensor;

/** What accumulate does with the destination. */
enum {
    DDISP_BACKEND_ACCUMULATE_ADD =
        0, /**< destination += alpha * source; destination strides of 0 sum over the axis */
    DDISP_BACKEND_ACCUMULATE_STORE =
        1, /**< destination = alpha * source; no destination stride of 0 on extents above 1 */
};
/** accumulate and scatter_add: the result is bit-identical whatever the geometry and order. */
#define DDISP_BACKEND_ACCUMULATE_DETERMINISTIC UINT64_C(1)
/** accumulate: nobody else touches the destination meanwhile; of use to a backend, or ignored. */
#define DDISP_BACKEND_ACCUMULATE_EXCLUSIVE UINT64_C(2)

/** fold: an element of the shadow is two integers, the second in units of 2^-30 of the first's. */
#define DDISP_BACKEND_FOLD_WIDE UINT64_C(1)

/** sink_acquire: the code compares and swaps on the memory. */
#define DDISP_BACKEND_SINK_COMPARE_AND_SWAP UINT64_C(1)

/** What a backend holds for memory_allocate. */
typedef struct ddisp_backend_memory_figures {
    uint32_t size; /**< sizeof(ddisp_backend_memory_figures) */
    uint32_t reserved;
    uint64_t reserved_bytes;      /**< taken from the driver */
    uint64_t reserved_peak_bytes; /**< most of it at once */
    uint64_t cached_bytes;        /**< of reserved_bytes: not handed out */
    uint64_t reuses;              /**< allocations for which nothing was taken from the driver */
} ddisp_backend_memory_figures;

/** The table of a backend. Entries are appended only; a core that knows fewer ignores the rest. */
typedef struct ddisp_backend_table {
    uint32_t size;       /**< sizeof(ddisp_backend_table) */
    uint32_t abi;        /**< DDISP_BACKEND_ABI that it was built for, not above the core's */
    const char *name;    /**< equal to the <name> of the file */
    const char *version; /**< of the plugin */

    /* instance: the driver, once per context */
    /** Finds the driver. BACKEND_UNAVAILABLE, with the reason in words, when there is none. */
    ddisp_status (*open)(const ddisp_backend_services *services, void **out_instance);
    void (*close)(void *instance);
    ddisp_status (*device_count)(void *instance, uint32_t *out_count);
    /** Fills info (its size is set; spec and backend are filled by the core). */
    ddisp_status (*device_describe)(void *instance, uint32_t index, ddisp_device_info *info);
    ddisp_status (*device_open)(void *instance, uint32_t index, void **out_device);
    /** All streams, memory, codes and variants of it are gone before. Must not fail on a lost
     * device. */
    void (*device_close)(void *device);

    /* memory */
    /** Allocates; usable by work queued on stream from now on. size_bytes > 0; aligned to 256
     * bytes. */
    ddisp_status (*memory_allocate)(void *device, void *stream, uint64_t size_bytes,
                                    ddisp_backend_memory *out_memory);
    /** Frees in order of stream: after all work queued there so far. */
    void (*memory_free)(void *device, void *stream, ddisp_backend_memory *memory);
    /** Takes note of memory that the caller owns. Release with memory_release_import. */
    ddisp_status (*memory_import)(void *device, uint64_t address, uint64_t size_bytes,
                                  ddisp_backend_memory *out_memory);
    void (*memory_release_import)(void *device, ddisp_backend_memory *memory);
    /** Copies from the host in stream order; returns when data may be reused. */
    ddisp_status (*upload)(void *device, void *stream, const ddisp_backend_range *destination,
                           const void *data);
    /** Copies to the host in stream order; returns when data is filled. */
    ddisp_status (*download)(void *device, void *stream, const ddisp_backend_range *source,
                             void *data);
    /** Fills with a repeated pattern of 1, 2, 4 or 8 bytes (the range is a multiple of it), in
     * stream order. */
    ddisp_status (*fill)(void *device, void *stream, const ddisp_backend_range *destination,
                         uint64_t pattern, uint32_t pattern_size_bytes);
    /** Copies size_bytes of source to destination, in stream order. Ranges do not overlap. */
    ddisp_status (*copy)(void *device, void *stream, const ddisp_backend_range *destination,
                         const ddisp_backend_range *source);

    /* streams. A ticket is a point in a stream's work; tickets of a stream increase, 0 is before
     * everything. */
    ddisp_status (*stream_create)(void *device, uint64_t flags, void **out_stream);
    /** Queued work still runs. */
    void (*stream_destroy)(void *device, void *stream);
    /** Hands queued work to the device. */
    ddisp_status (*stream_flush)(void *device, void *stream);
    /** Flushes, and gives the ticket of the present end. */
    ddisp_status (*stream_mark)(void *device, void *stream, uint64_t *out_ticket);
    /** Makes later work on stream wait, on the device, for a ticket of another stream. */
    ddisp_status (*stream_wait)(void *device, void *stream, void *other_stream, uint64_t ticket);
    /** OK when the ticket's work is done, NOT_READY when not. No message for NOT_READY. */
    ddisp_status (*stream_query)(void *device, void *stream, uint64_t ticket);
    /** Waits for the ticket's work. TIMEOUT when timeout_ns ended first (UINT64_MAX: no end). May
     * overlap with other calls on the same stream. */
    ddisp_status (*stream_synchronize)(void *device, void *stream, uint64_t ticket,
                                       uint64_t timeout_ns);

    /* code */
    /** Reads the code without a driver or device: CODE_INVALID (malformed), NOT_FOUND (missing
     * entry). */
    ddisp_status (*inspect)(const ddisp_backend_services *services, const ddisp_backend_code *code,
                            ddisp_backend_code_info *info);
    /** OK when the device can run the code; else UNSUPPORTED, with what is missing as the message.
     */
    ddisp_status (*code_fits)(void *device, const ddisp_backend_code *code);
    /** Compiles or loads. CODE_REJECTED with the driver's log. */
    ddisp_status (*variant_build)(void *device, const ddisp_backend_variant *variant,
                                  void **out_variant);
    /** No launch of it is pending. */
    void (*variant_release)(void *device, void *variant);
    ddisp_status (*launch)(void *device, void *stream, const ddisp_backend_launch *launch);

    /* Optional: NULL, or a table that ends before, means that the device cannot. */

    /** A writable range over O(1) physical memory whose content is unspecified, at least size_bytes
     * long. Its base stays the same for the life of the device (also when it grows) until
     * sink_trim; it is zeroed when physical memory is first taken. out_physical_bytes: physical
     * memory now held. OUT_OF_DEVICE_MEMORY when too long. */
    ddisp_status (*sink_acquire)(void *device, uint64_t size_bytes, uint64_t flags,
                                 ddisp_backend_range *out_range, uint64_t *out_physical_bytes);
    /** Gives the sink's memory back. Nothing uses it. */
    void (*sink_trim)(void *device);
    /** Stores one value, given as the bits of the dtype, into every element; nothing between them
     * is touched. */
    ddisp_status (*fill_elements)(void *device, void *stream,
                                  const ddisp_backend_tensor *destination, uint64_t bits);
    /** Adds or stores source elements, converting between dtypes; sums in at least f32, f64 when
     * either is f64. Safe against other streams adding to the same destination. operation:
     * DDISP_BACKEND_ACCUMULATE_... */
    ddisp_status (*accumulate)(void *device, void *stream, const ddisp_backend_tensor *destination,
                               const ddisp_backend_tensor *source, double alpha, uint32_t operation,
                               uint64_t flags);
    /** destination[..., index[i], ...] += source[..., i, ...] along axis: source and index have one
     * shape, except that index may have strides of 0; destination has it too but for the axis,
     * where it has axis_extent. Indices are I32 or I64; those outside 0 to axis_extent - 1 are not
     * added but counted into the 8 bytes at skipped (0: not counted). Sums of F16 and BF16 into
     * such a destination are rounded once per add at most. */
    ddisp_status (*scatter_add)(void *device, void *stream, const ddisp_backend_tensor *destination,
                                uint32_t axis, int64_t axis_extent,
                                const ddisp_backend_tensor *index,
                                const ddisp_backend_tensor *source,
                                const ddisp_backend_range *skipped, uint64_t flags);

    /** What an artifact depends on beyond the code, the entry, the switches and the architecture:
     *  versions of compiler and driver, cache UUIDs. Writes up to capacity bytes. device may be
     * NULL for formats that compile without one (architecture says what for). UNSUPPORTED when the
     *  format is not worth keeping. */
    ddisp_status (*artifact_key)(const ddisp_backend_services *services, void *device,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes);
    /** Compiles to bytes that variant_build takes as artifact; allocated by services->allocate. */
    ddisp_status (*artifact_make)(const ddisp_backend_services *services, void *device,
                                  const char *architecture, const ddisp_backend_variant *variant,
                                  void **out_bytes, uint64_t *out_size_bytes);

    /** A stream over the application's own (CUstream, VkQueue). The application keeps it alive. */
    ddisp_status (*stream_wrap)(void *device, uint64_t native_handle, void **out_stream);
    /** stream_mark whose ticket also notes the device's time. */
    ddisp_status (*stream_mark_timed)(void *device, void *stream, uint64_t *out_ticket);
    /** Device time between two timed tickets whose work is done; NOT_READY when it is not. */
    ddisp_status (*stream_elapsed)(void *device, void *begin_stream, uint64_t begin_ticket,
                                   void *end_stream, uint64_t end_ticket, uint64_t *out_ns);

    /** From here on, work queued on stream is recorded instead of run, by the calling thread. The
     * core queues only launch, fill, fill_elements, copy, accumulate and scatter_add until
     * capture_end. */
    ddisp_status (*capture_begin)(void *device, void *stream);
    /** Ends the recording, in the thread that began it. out_graph NULL: it is thrown away, by any
     * thread; nothing happens when the stream does not record. A failure with out_graph may leave
     * it going: the core then throws it away. */
    ddisp_status (*capture_end)(void *device, void *stream, void **out_graph);
    /** Queues the recorded work on stream. One launch of a graph is pending at a time per stream.
     */
    ddisp_status (*graph_launch)(void *device, void *stream, void *graph);
    /** Gives recorded launch number `index` (counting launches only) other arguments of the same
     *  variant and geometry. No launch of the graph is pending. */
    ddisp_status (*graph_update)(void *device, void *graph, uint32_t index,
                                 const ddisp_backend_launch *launch);
    /** No launch of it is pending. */
    void (*graph_release)(void *device, void *graph);

    /** Gives cached memory back to the driver. */
    ddisp_status (*memory_trim)(void *device);

    /** Fills figures (its size is set). */
    ddisp_status (*memory_figures)(void *device, ddisp_backend_memory_figures *figures);
    /** Opens a device over the application's objects, and describes it (info's size is set; spec
     * and backend are filled by the core). Chain types that the backend does not know:
     * INVALID_ARGUMENT. */
    ddisp_status (*device_wrap)(void *instance, const ddisp_chain *native, ddisp_device_info *info,
                                void **out_device);
    /** memory_import of a buffer that is more than an address. Release with memory_release_import.
     */
    ddisp_status (*memory_wrap)(void *device, const ddisp_chain *native, uint64_t size_bytes,
                                ddisp_backend_memory *out_memory);
    /** Fills one of the backend's own structs. */
    ddisp_status (*needs)(void *instance, ddisp_chain *needs);

    /** Ends deterministic mode: destination (+)= shadow / scale, rounded at most once to f32 (f64
     * for f64 or WIDE) and once to destination. shadow has dtype I64 and destination's shape (its
     * strides in elements, of one integer or, with WIDE, two); scale is a power of two. No elements
     * of destination share memory. Safe against other streams adding to the same destination.
     * operation: DDISP_BACKEND_ACCUMULATE_...; where an integer's magnitude is above 2^62, bit 2 of
     * the 32 bits at sticky is set. */
    ddisp_status (*fold)(void *device, void *stream, const ddisp_backend_tensor *destination,
                         const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                         uint64_t flags, const ddisp_backend_range *sticky);
} ddisp_backend_table;

/** Size of the table in plugin ABI 0.1; a table may not be smaller. */
#define DDISP_BACKEND_TABLE_SIZE_0_1 (24u + 26u * 8u)

/**
 * The one exported function of a plugin, named ddisp_<name>_backend_query. Must not touch the
 * driver. core_abi  highest version the core speaks Returns OK and a table that lives as long as
 * the process, or INCOMPATIBLE.
 */
typedef ddisp_status (*ddisp_backend_query_function)(uint32_t core_abi,
                                                     const ddisp_backend_services *services,
                                                     const ddisp_backend_table **out_table);

#ifdef __cplusplus
}
#endif

#endif
