/*
 * objects.h - the structs behind the handles, and what the rooms of the core offer each other.
 *
 * Calls go one way: launch -> gradient -> signature -> variant -> arguments -> the backend. Tensors
 * stand on buffers, buffers on devices, devices on contexts. Nothing here is visible outside the
 * core.
 */
#ifndef DDISP_LIB_OBJECTS_H
#define DDISP_LIB_OBJECTS_H

#include "cache_file.h"
#include "layout.h"
#include "memory.h"
#include "platform.h"
#include "signature.h"
#include "status.h"

#include <diffdispatch/backend.h>
#include <diffdispatch/diffdispatch.h>

#include <pthread.h>

/* ---- context and loader
 * ----------------------------------------------------------------------------------- */

/** A candidate for a backend, with its outcome. */
typedef struct ddisp__backend {
    ddisp_backend_info info;
    const ddisp_backend_table
        *table;     /* NULL when the plugin was refused; set when only the driver is missing */
    void *instance; /* NULL unless info.status is OK */
} ddisp__backend;

typedef struct ddisp__trace ddisp__trace; /* trace.c */

struct ddisp_context {
    ddisp__reference reference;
    ddisp__trace *trace; /* the process's; NULL: nobody looks */
    uint32_t fork_generation;
    bool deterministic; /* DDISP_CONTEXT_DETERMINISTIC */
    ddisp_allocator allocator;
    ddisp_log_level log_level;
    ddisp_log_function log;
    void *log_user_data;
    char *cache_directory; /* "": none was found */
    ddisp__cache cache;
    ddisp__array backends; /* of ddisp__backend; fixed after creation */
    pthread_mutex_t lock;  /* guards the fields below */
    ddisp__array devices;  /* of ddisp_device *: open devices, not counted as references */
    struct ddisp__notifier *notifier; /* NULL until the first function of the host (notify.c) */
};

void ddisp__context_log(ddisp_context *context, ddisp_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** OK, or INVALID_ARGUMENT for NULL, or FORKED. */
ddisp_status ddisp__context_check(ddisp_context *context);
/** Services handed to every backend; `self` is not tied to a context. */
const ddisp_backend_services *ddisp__services(void);
/** Finds and opens backends into context->backends. Only OUT_OF_MEMORY fails. */
ddisp_status ddisp__loader_run(ddisp_context *context, const char *backend_path,
                               const char *backends);
void ddisp__loader_close(ddisp_context *context);
/** Table of a backend by name, even when its driver is missing; NULL when it is not loaded. */
const ddisp_backend_table *ddisp__loader_table(ddisp_context *context, const char *name);

/* ---- device ---- */

struct ddisp_device {
    ddisp__reference reference;
    ddisp_context *context; /* referenced */
    const ddisp_backend_table *table;
    void *handle; /* the backend's */
    ddisp_device_info info;
    uint64_t serial; /* of this opening: no other device of the process has it, ever */
    ddisp__signature_head signature_head;
    ddisp_stream *stream; /* the device's own; its device pointer is not counted */
    atomic_bool lost;
    pthread_mutex_t lock;   /* guards the fields below */
    ddisp_error lost_error; /* first cause */
    /* of struct ddisp__pending (buffer.c): foreign memory waiting for completion */
    ddisp__array pending;
    ddisp_device_statistics statistics;
    atomic_uint_fast64_t memory_limit; /* 0: none */
    atomic_uint_fast64_t handed_out;   /* bytes of buffers, with those about to be allocated */
    atomic_uint_fast64_t trim_floor;   /* bytes below which the backend's memory was not trimmed */
    pthread_mutex_t sink_lock;         /* guards the field below */
    /* of ddisp_stream *, not counted: living streams that used the sink */
    uint32_t sink_holders; /* graphs that keep the sink */
    ddisp__array sink_streams;
};

/** Whether a backend's table reaches to a function and has it. */
#define ddisp__table_offers(table, function)                                                       \
    ((table)->size >= offsetof(ddisp_backend_table, function) + sizeof((table)->function) &&       \
     (table)->function != NULL)

/** What memory is for, for the counters. */
typedef enum ddisp__purpose {
    DDISP__PURPOSE_DATA,
    DDISP__PURPOSE_GRADIENT,
    DDISP__PURPOSE_SCRATCH,
} ddisp__purpose;

/** OK, INVALID_ARGUMENT (NULL, named `what`), FORKED, or DEVICE_LOST with the first cause. */
ddisp_status ddisp__device_check(ddisp_device *device, const char *what);
/** Passes a backend's status on; notes DEVICE_LOST and its first cause. Every table call goes
 * through this. */
ddisp_status ddisp__device_result(ddisp_device *device, ddisp_status status);
void ddisp__device_count_launch(ddisp_device *device, bool launched);
void ddisp__device_count_fill(ddisp_device *device);
void ddisp__device_count_variant(ddisp_device *device);

/* ---- stream ---- */

typedef struct ddisp__repeat ddisp__repeat; /* repeat.c */

/** A place for a dynamic launch that comes again (recall.c). Prints stand for launches; 0: none. */
typedef struct ddisp__repeat_slot {
    atomic_uint_fast64_t print; /* whose place it is; changed under the stream's lock */
    atomic_uint_fast64_t rival; /* who else came, since the one whose place it is came last */
    ddisp__repeat *repeat;      /* under the stream's lock; NULL while a launch fills it */
} ddisp__repeat_slot;

#define DDISP__STREAM_SLOTS 256u

struct ddisp_stream {
    ddisp__reference reference;
    ddisp_device *device; /* referenced, except by the device's own stream */
    bool owned_by_device;
    void *handle;
    bool uses_sink;                 /* guarded by the device's sink_lock */
    struct ddisp__capture *capture; /* set while it captures; changed under lock */
    uint64_t capture_ticket;        /* end of the work queued before the capture */
    pthread_t capture_thread;       /* that began it */
    struct ddisp__watch *watch;     /* set by the first deterministic launch; under lock */
    /* changed, under lock, when a buffer forgets that this stream uses it: as long as it is the
       same, what was noted is noted. Never the same for two streams, never 0 */
    atomic_uint_fast64_t notes;
    ddisp__repeat_slot slots[DDISP__STREAM_SLOTS];
    /* makes calls of the library itself (marks, frees) safe beside the user's thread */
    pthread_mutex_t lock;
};

struct ddisp_event {
    ddisp__reference reference;
    ddisp_device *device; /* referenced */
    bool timed;
    pthread_mutex_t lock;
    ddisp_stream *stream; /* referenced; NULL before the first record */
    uint64_t ticket;
};

/** A value for a stream's notes that no stream ever had. */
uint64_t ddisp__stream_fresh_notes(void);
/** The stream to use: stream, or the device's own for NULL. DEVICE_MISMATCH when it is another
 * device's. */
ddisp_status ddisp__stream_resolve(ddisp_device *device, ddisp_stream *stream,
                                   ddisp_stream **out_stream);
/** A stream that is about to be destroyed leaves the sink: the device's own stream waits for its
 * work. */
void ddisp__sink_leave(ddisp_stream *stream);
/** Frees the launches that a stream remembers, since it ends. */
void ddisp__recall_forget(ddisp_stream *stream);
/** Throws a capture away, since its stream ends. */
void ddisp__capture_drop(ddisp_stream *stream);
/** Ticket of the stream's present end; of a capturing stream, of the work before. Locks the stream.
 */
ddisp_status ddisp__stream_mark(ddisp_stream *stream, uint64_t *out_ticket);
/** Makes stream wait for a ticket of other (nothing when they are the same or ticket is 0). Locks
 * stream. */
ddisp_status ddisp__stream_wait(ddisp_stream *stream, ddisp_stream *other, uint64_t ticket);

/* ---- watch: what deterministic launches on a stream could not add (watch.c) ---- */

/** What device code writes about a gradient: ddisp_block.h says when. */
typedef struct ddisp__watch_words {
    uint32_t flags, reserved; /* DDISP__WATCH_... */
    uint64_t largest;         /* bits of the largest magnitude */
    uint64_t adds;
    uint64_t unused;
} ddisp__watch_words;
enum {
    DDISP__WATCH_NOT_FINITE = 1,
    DDISP__WATCH_BEYOND_BOUND = 2,
    DDISP__WATCH_MANY_ADDS = 4,
};

/** The words of a kernel's parameter, for as long as the stream lives. */
ddisp_status ddisp__watch_place(ddisp_stream *stream, const char *kernel, const char *param,
                                uint32_t index, ddisp_backend_range *out_words);
/** Largest magnitude and number of adds become 0, in stream order. */
ddisp_status ddisp__watch_restart(ddisp_stream *stream, const ddisp_backend_range *words);
/** Waits for the work so far. */
ddisp_status ddisp__watch_read(ddisp_stream *stream, const ddisp_backend_range *words,
                               ddisp__watch_words *out_words);
/** From now on a check has something to look at. */
void ddisp__watch_arm(ddisp_stream *stream);
/** BOUND_EXCEEDED when a launch before could not add all values, once. Waits when there was a
 * deterministic launch since the last check. */
ddisp_status ddisp__watch_check(ddisp_stream *stream);
/** Frees the words; the stream is about to be destroyed. */
void ddisp__watch_drop(ddisp_stream *stream);

/* ---- buffer ---- */

struct ddisp_buffer {
    ddisp__reference reference;
    ddisp_device *device; /* referenced */
    ddisp_backend_memory memory;
    ddisp__purpose purpose;
    bool foreign;
    ddisp_release_function release;
    void *release_user_data;
    pthread_mutex_t lock; /* guards the fields below */
    ddisp_stream
        *creation; /* referenced; of foreign memory: the stream that still fills it, or NULL */
    uint64_t creation_ticket; /* work on other streams waits for it */
    ddisp__array uses; /* of ddisp_stream *, referenced: other streams that used it and waited for
                          creation */
    _Atomic(ddisp_stream *) last_use; /* one of uses, or NULL; read without the lock */
};

/** The stream needs no ddisp__buffer_use: its use is noted, and nothing records. */
static inline bool ddisp__buffer_noted(const ddisp_buffer *buffer, const ddisp_stream *stream)
{
    return !stream->capture &&
           (atomic_load_explicit(&buffer->last_use, memory_order_acquire) == stream ||
            (buffer->creation == stream && !buffer->foreign));
}

/** Allocates on a stream; size 0 gives a buffer without memory. */
ddisp_status ddisp__buffer_create_on(ddisp_stream *stream, uint64_t size_bytes,
                                     ddisp__purpose purpose, ddisp_buffer **out_buffer);
/** To be called before queueing work on stream that touches the buffer: orders it after creation,
 * notes the use. */
ddisp_status ddisp__buffer_use(ddisp_buffer *buffer, ddisp_stream *stream);
/** To be called after the library queued the buffer's first content (a fill) on its creation
 * stream. */
ddisp_status ddisp__buffer_created(ddisp_buffer *buffer);
/** Fills the whole buffer with zero bytes on stream. */
ddisp_status ddisp__buffer_zero(ddisp_buffer *buffer, ddisp_stream *stream);
/** Lent memory that work on stream still fills: its later use on other streams waits for that. */
ddisp_status ddisp__buffer_follow(ddisp_buffer *buffer, ddisp_stream *stream);
/** Orders stream's later work after all work on the buffer so far; NULL: waits for that work. */
ddisp_status ddisp__buffer_settle(ddisp_buffer *buffer, ddisp_stream *stream);
/** Runs release functions of foreign memory whose work is done. Called without locks. */
void ddisp__buffer_reap(ddisp_device *device, bool wait);

/* ---- tensor ---- */

/** A stored gradient: memory and layout. */
typedef struct ddisp__gradient {
    ddisp_buffer *buffer; /* referenced; NULL: empty */
    uint64_t address;     /* of element (0, ..., 0) */
    ddisp_dtype dtype;
    ddisp__layout layout;
    bool from_caller; /* set by ddisp_tensor_set_grad: never written when it is an upstream */
    bool read_only;   /* may not be added to */
} ddisp__gradient;

struct ddisp_tensor {
    ddisp__reference reference;
    uint64_t id; /* never used twice in a process */
    /* of a root: counts changes of its gradient and of requires_grad, each behind the change */
    atomic_uint_fast64_t version;
    ddisp_buffer *buffer; /* referenced */
    ddisp_dtype dtype;
    atomic_uint_fast64_t flags; /* DDISP_TENSOR_... */
    ddisp__layout layout;
    int64_t given_strides[DDISP_MAX_RANK]; /* as the caller wrote them, for size-1 axes */
    int64_t offset;                        /* of element (0, ..., 0) in the buffer, in elements */
    uint64_t address;                      /* of element (0, ..., 0) */
    ddisp_tensor *root;   /* referenced: whose gradient this view shares; NULL: its own */
    pthread_mutex_t lock; /* guards gradient; locks of several tensors are taken in address order */
    ddisp__gradient gradient; /* of a root only */
};

/** The tensor that stores the gradient: itself or its root. */
static inline ddisp_tensor *ddisp__tensor_owner(ddisp_tensor *tensor)
{
    return tensor->root ? tensor->root : tensor;
}
static inline bool ddisp__tensor_requires_grad(ddisp_tensor *tensor)
{
    return (atomic_load_explicit(&ddisp__tensor_owner(tensor)->flags, memory_order_relaxed) &
            DDISP_TENSOR_REQUIRES_GRAD) != 0;
}
/** To be called after the gradient of an owner, or its requires_grad, was changed and before what
 * was dropped is released: launches that remember the owner look at it anew. */
static inline void ddisp__tensor_changed(ddisp_tensor *owner)
{
    atomic_fetch_add_explicit(&owner->version, 1, memory_order_release);
}
/** OK; INVALID_ARGUMENT for NULL; else as ddisp__device_check. */
ddisp_status ddisp__tensor_check(const char *what, ddisp_tensor *tensor);
/** Refuses unknown flags, and requires_grad on dtypes that have no gradient. */
ddisp_status ddisp__tensor_check_flags(ddisp_dtype dtype, uint64_t flags);
/** A tensor over buffer (one more reference is taken); everything was checked. */
ddisp_status ddisp__tensor_over(ddisp_buffer *buffer, ddisp_dtype dtype,
                                const ddisp__layout *layout, int64_t offset, uint64_t flags,
                                ddisp_tensor **out_tensor);
/** Layout that a gradient made by the library has: dense, 0 where the tensor's stride is 0. Whole
 * root. */
void ddisp__tensor_gradient_layout(ddisp_tensor *owner, ddisp__layout *out_layout);
/**
 * Where tensor's part of its owner's stored gradient lies. Owner is locked, gradient present.
 * UNSUPPORTED when the stored layout cannot be seen through the view.
 */
ddisp_status ddisp__tensor_gradient_part(ddisp_tensor *tensor, const ddisp__gradient *stored,
                                         ddisp__gradient *out_part);
/** Allocates a gradient for owner on stream, without storing it; zero: filled with zeros. */
ddisp_status ddisp__tensor_gradient_make(ddisp_tensor *owner, ddisp_stream *stream, bool zero,
                                         ddisp__gradient *out_gradient);

/* ---- elements */

/** Stores the bits of one value into every element of a gradient and nothing between them. */
ddisp_status ddisp__elements_fill(ddisp_stream *stream, const ddisp__gradient *gradient,
                                  uint64_t bits);
/** Scatter-add; index has source's shape. skipped: 8 bytes that count indices out of range, or
 * NULL. */
ddisp_status ddisp__elements_scatter(ddisp_stream *stream, const ddisp__gradient *destination,
                                     uint32_t axis, const ddisp__gradient *index,
                                     const ddisp__gradient *source, const ddisp_buffer *skipped,
                                     uint64_t flags);
/** destination (+)= shadow / scale; shadow has dtype I64 (wide: two integers per element) and
 * destination's shape, with strides of 0 wherever destination has them. */
ddisp_status ddisp__elements_fold(ddisp_stream *stream, const ddisp__gradient *destination,
                                  const ddisp__gradient *shadow, double scale, bool wide,
                                  uint32_t operation, const ddisp_backend_range *sticky);
/** Reads and checks the options of accumulate and scatter-add; NULL: all zero. The flags of the
 * context are added. */
ddisp_status ddisp__accumulate_options(const ddisp_context *context,
                                       const ddisp_accumulate_options *options,
                                       ddisp_accumulate_options *out_options);
/** Zeroes the elements of a gradient and nothing between them, in order of stream. */
ddisp_status ddisp__elements_zero(ddisp_stream *stream, const ddisp__gradient *gradient);
/** destination (+)= alpha * source for equal shapes; operation: DDISP_BACKEND_ACCUMULATE_... */
ddisp_status ddisp__elements_accumulate(ddisp_stream *stream, const ddisp__gradient *destination,
                                        const ddisp__gradient *source, double alpha,
                                        uint32_t operation, uint64_t flags);

/* ---- kernel ---- */

/** A code with its properties per parameter spelled out. */
typedef struct ddisp__code {
    ddisp_code desc; /* owned copies */
    /* what backends are handed; points into this struct and the kernel */
    ddisp_backend_code backend_code;
    uint32_t switch_ids[DDISP_MAX_PARAMS];
    /* one per parameter, defaults resolved except dtype ANY */
    ddisp_code_param params[DDISP_MAX_PARAMS];
    bool inspected;
    ddisp_backend_code_info info;
    ddisp__hash hash; /* of everything that describes the code */
} ddisp__code;

typedef struct ddisp__plan ddisp__plan;

struct ddisp_kernel {
    ddisp__reference reference;
    uint64_t serial;        /* no other kernel of the process has it, ever */
    ddisp_context *context; /* referenced */
    char *name;
    ddisp_param *params;
    uint32_t param_count;
    uint32_t tensor_count;
    uint32_t scalar_count;
    uint32_t variant_budget;
    uint32_t items_param; /* whose elements are the work items; UINT32_MAX: one item */
    uint32_t block_size_bytes;
    uint32_t alignments[DDISP_MAX_PARAMS]; /* largest that any code asks for; 0: none asks */
    uint8_t write_modes[DDISP_MAX_PARAMS]; /* bit m: some code has ddisp_write_mode m */
    ddisp__code *codes;
    uint32_t code_count;
    ddisp__hash hash;           /* of parameters and codes: identity of the kernel in signatures */
    pthread_mutex_t lock;       /* held to add to plans; readers take no lock */
    ddisp__table plans;         /* signature and device -> ddisp__plan */
    pthread_mutex_t build_lock; /* guards the fields below */
    pthread_cond_t built;
    ddisp__table variants; /* variant key and device -> ddisp__variant */
    uint64_t variants_built;
    atomic_uint_fast64_t signature_hits;
    atomic_uint_fast64_t artifacts_read, artifacts_made, artifacts_repaired;
};

#endif
