/*
 * launch.h - launching kernels, the policy for frozen inputs, and the report of what a launch did.
 *
 * One rule carries all of autograd: a backward launch takes the gradients of its outputs and adds
 * to the gradients of its inputs that require one. An input that does not is frozen; its policy
 * says what its gradient slot is given, so that the kernel can run without touching memory that is
 * not there.
 */
#ifndef DIFFDISPATCH_LAUNCH_H
#define DIFFDISPATCH_LAUNCH_H

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What backs the add slot of a frozen input. */
typedef uint32_t ddisp_policy;
enum {
    DDISP_POLICY_DEFAULT = 0, /**< in an argument: the launch's; in a launch: AUTO */
    DDISP_POLICY_AUTO =
        1, /**< the first of SPECIALIZE, GUARD, SINK, SCRATCH that code and device support */
    DDISP_POLICY_SPECIALIZE = 2, /**< a variant without the code that touches the slot */
    DDISP_POLICY_GUARD = 3,      /**< a null address, which the kernel tests */
    DDISP_POLICY_SINK = 4,       /**< a writable range over a small block shared by all launches */
    DDISP_POLICY_SCRATCH = 5,    /**< a zeroed temporary of the input's size */
    DDISP_POLICY_REJECT = 6,     /**< DDISP_STATUS_GRADIENT_REJECTED */
};

/** What a gradient slot was given. */
typedef uint32_t ddisp_backing;
enum {
    DDISP_BACKING_NONE = 0, /**< no slot: the parameter or mode has none, or nothing was launched */
    DDISP_BACKING_REAL = 1, /**< the tensor's gradient */
    DDISP_BACKING_OMITTED = 2, /**< the variant has no code for the slot */
    DDISP_BACKING_NULL = 3,    /**< address 0 or a null descriptor */
    DDISP_BACKING_SINK = 4,
    DDISP_BACKING_SCRATCH = 5,
    DDISP_BACKING_ZERO = 6,   /**< read-only zeros for an absent upstream */
    DDISP_BACKING_SHADOW = 7, /**< an integer accumulator of deterministic mode */
};

/** Names such as "specialize" and "omitted"; "unknown" for others. Static strings. */
DDISP_API const char *ddisp_policy_name(ddisp_policy policy);
DDISP_API const char *ddisp_backing_name(ddisp_backing backing);

/** One argument of a launch. This struct never grows. Either tensor, view or scalar is set. */
typedef struct ddisp_arg {
    ddisp_tensor *tensor;          /**< a tensor handle */
    const ddisp_tensor_view *view; /**< or a tensor described in place */
    uint64_t grad_add;    /**< explicit address of the gradient to add to; 0: the tensor's own */
    uint64_t grad_read;   /**< explicit address of the upstream gradient; 0: the tensor's own */
    const void *scalar;   /**< or the value of a scalar parameter */
    uint32_t scalar_size; /**< bytes of scalar, equal to its dtype's size */
    ddisp_policy policy;  /**< for this input; DEFAULT: the launch's */
    uint64_t flags;       /**< zero */
    uint64_t reserved;    /**< zero */
} ddisp_arg;

/** Initializers of a ddisp_arg. */
#define DDISP_ARG(tensor)                                                                          \
    {                                                                                              \
        (tensor), NULL, 0, 0, NULL, 0, 0, 0, 0                                                     \
    }
#define DDISP_ARG_POLICY(tensor, policy)                                                           \
    {                                                                                              \
        (tensor), NULL, 0, 0, NULL, 0, (policy), 0, 0                                              \
    }
#define DDISP_ARG_VIEW(view_pointer)                                                               \
    {                                                                                              \
        NULL, (view_pointer), 0, 0, NULL, 0, 0, 0, 0                                               \
    }
#define DDISP_ARG_SCALAR(value_pointer)                                                            \
    {                                                                                              \
        NULL, NULL, 0, 0, (value_pointer), (uint32_t)sizeof(*(value_pointer)), 0, 0, 0             \
    }

/** An absent upstream gradient of an output counts as zero. */
#define DDISP_LAUNCH_ZERO_UPSTREAM UINT64_C(1)
/** Gradients of outputs stay in place. */
#define DDISP_LAUNCH_KEEP_UPSTREAM UINT64_C(2)
/** Gradients of inputs are replaced instead of added to. */
#define DDISP_LAUNCH_OVERWRITE UINT64_C(4)
/** A missing gradient of an input is an error instead of being made. */
#define DDISP_LAUNCH_NO_ALLOC UINT64_C(8)
/** Nothing is launched, made or changed; the report is filled. */
#define DDISP_LAUNCH_DRY_RUN UINT64_C(16)
/** Gradients have the same bits in every run, whatever the geometry and order of the work: codes
 * add integers to a shadow of the gradient. Needs codes with DDISP_CODE_DETERMINISTIC. */
#define DDISP_LAUNCH_DETERMINISTIC UINT64_C(32)

/** Deterministic mode: what is known of the values that a launch adds to gradients. */
typedef struct ddisp_bound {
    uint32_t param;    /**< index of an input, or DDISP_BOUND_EVERY_PARAM */
    uint32_t reserved; /**< zero */
    double bound; /**< no value is larger in magnitude; 0: the launch finds it by running the kernel
                     once before, and waits for that */
    uint64_t adds; /**< most values added to one element; 0: as many as work items. Not used without
                      a bound */
} ddisp_bound;

/** The bound of every parameter that has none of its own. */
#define DDISP_BOUND_EVERY_PARAM UINT32_C(0xFFFFFFFF)

typedef struct ddisp_report ddisp_report;

/** Options of a launch. */
typedef struct ddisp_launch_options {
    uint32_t size;           /**< sizeof(ddisp_launch_options) */
    ddisp_policy policy;     /**< for frozen inputs; DEFAULT: AUTO */
    const ddisp_chain *next; /**< NULL */
    uint64_t flags;          /**< DDISP_LAUNCH_... */
    uint64_t items[3];       /**< work items; all 0: from the parameters. Unset axes count as 1 */
    /** explicit number of groups, for opaque kernels; all 0: chosen by the library */
    uint32_t grid[3];
    uint32_t reserved;    /**< zero */
    ddisp_device *device; /**< where to run when no argument or stream says so; else NULL or the
                             same device */
    ddisp_error *error;   /**< filled on failure; may be NULL */
    ddisp_report *report; /**< filled on success, and as far as known on failure; may be NULL */
    const ddisp_bound *bounds; /**< deterministic mode; NULL: all bounds are found. Copied */
    uint32_t bound_count;
    uint32_t bound_size; /**< sizeof(ddisp_bound) */
} ddisp_launch_options;

/**
 * Launches a kernel.
 *   args, arg_count  one per parameter, in order; copied before the call returns
 *   options          NULL for every default
 *   stream           NULL: the device's own stream
 *
 * Backward mode checks, in this order: arguments; policy REJECT; no input requires a gradient
 * (nothing is launched, OK); an upstream gradient is absent without ZERO_UPSTREAM
 * (MISSING_GRADIENT); all absent with it or no items (nothing is launched, OK); then backings,
 * variant, fills, launch. On success the stored gradients of outputs were taken and those of inputs
 * that require one were added to. Explicit addresses are never taken.
 *
 * Returns OK; INVALID_ARGUMENT, DTYPE_MISMATCH, RANK_MISMATCH, SHAPE_MISMATCH, LAYOUT_MISMATCH,
 * DEVICE_MISMATCH, READ_ONLY, OVERFLOW (an argument, by name); ALIASED; GRADIENT_REJECTED;
 * MISSING_GRADIENT; NO_CODE; UNSUPPORTED (a policy that cannot be honoured); CODE_REJECTED;
 * LIMIT_EXCEEDED; OUT_OF_MEMORY; OUT_OF_DEVICE_MEMORY; DEVICE_LOST; DRIVER_ERROR; FORKED;
 * BOUND_EXCEEDED (deterministic mode without a declared bound: a value is not finite).
 */
DDISP_API ddisp_status ddisp_launch(ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args,
                                    uint32_t arg_count, const ddisp_launch_options *options,
                                    ddisp_stream *stream);

/* ---- report ---- */

/** Makes an empty report; one may serve many launches in turn, by one thread at a time. Returns OK,
 * OUT_OF_MEMORY. */
DDISP_API ddisp_status ddisp_report_create(ddisp_context *context, ddisp_report **out_report);
DDISP_API void ddisp_report_release(ddisp_report *report);

/** Why nothing was launched. */
typedef uint32_t ddisp_skip;
enum {
    DDISP_SKIP_NONE = 0,          /**< it was launched */
    DDISP_SKIP_NO_GRADIENT = 1,   /**< no input requires a gradient */
    DDISP_SKIP_ZERO_UPSTREAM = 2, /**< every upstream gradient is zero */
    DDISP_SKIP_NO_ITEMS = 3,      /**< there are no work items */
    DDISP_SKIP_DRY_RUN = 4,
    DDISP_SKIP_FAILED = 5, /**< the call failed */
};

/** How the variant was come by. */
typedef uint32_t ddisp_variant_origin;
enum {
    DDISP_VARIANT_ORIGIN_NONE = 0,
    DDISP_VARIANT_ORIGIN_HIT = 1,   /**< it existed */
    DDISP_VARIANT_ORIGIN_BUILT = 2, /**< it was built for this launch */
    DDISP_VARIANT_ORIGIN_LOADED =
        3, /**< it was loaded for this launch from the kernel cache on disk */
};

/** Summary of a launch. */
typedef struct ddisp_report_info {
    uint32_t size; /**< sizeof(ddisp_report_info) */
    ddisp_status status;
    ddisp_mode mode;
    ddisp_skip skip;
    uint32_t launched; /**< 1 when the kernel was handed to the driver */
    uint32_t code;     /**< index of the code used */
    ddisp_variant_origin variant;
    uint32_t slot_count;   /**< number of gradient slots, see ddisp_report_get_slot */
    uint64_t items;        /**< work items */
    uint64_t build_ns;     /**< time spent building the variant */
    uint64_t extra_bytes;  /**< device memory taken for frozen inputs and absent upstreams */
    uint64_t mask;         /**< bit i: parameter i has a gradient in the variant */
    uint8_t signature[16]; /**< hash of the signature */
} ddisp_report_info;

/** The slot's gradient was allocated by this launch. */
#define DDISP_REPORT_SLOT_MADE UINT64_C(1)
/** The slot's stored gradient was taken by this launch. */
#define DDISP_REPORT_SLOT_TAKEN UINT64_C(2)
/** The slot's gradient was filled with zeros by this launch. */
#define DDISP_REPORT_SLOT_FILLED UINT64_C(4)
/** The launch failed after an overwrite: the gradient's content is undefined. */
#define DDISP_REPORT_SLOT_UNDEFINED UINT64_C(8)

/** The kernel was given a dense temporary, because the gradient could not be given to the code as
 * it is. */
#define DDISP_REPORT_SLOT_CONVERTED UINT64_C(16)

/** One gradient slot of a launch. */
typedef struct ddisp_report_slot {
    uint32_t size;   /**< sizeof(ddisp_report_slot) */
    uint32_t param;  /**< index of the parameter */
    uint32_t is_add; /**< 1: add slot, 0: read slot */
    ddisp_backing backing;
    ddisp_policy policy;    /**< as asked; DEFAULT for slots that need none */
    uint32_t requires_grad; /**< of the argument */
    uint64_t flags;         /**< DDISP_REPORT_SLOT_... */
    uint64_t bytes;         /**< memory of the backing that this launch took */
    char reason[128];       /**< why this backing, in words */
} ddisp_report_slot;

/** Reads the summary. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_report_get_info(const ddisp_report *report,
                                             ddisp_report_info *out_info);
/** Reads gradient slot `index`, 0 to slot_count - 1. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_report_get_slot(const ddisp_report *report, uint32_t index,
                                             ddisp_report_slot *out_slot);
/**
 * The report as a table, the signature's one-line label, and the signature's canonical bytes,
 * copied into buffer. Text is NUL-terminated and cut at capacity; bytes are whole or not at all.
 *   out_length  full length (without the NUL); may be NULL
 * Returns OK, INVALID_ARGUMENT, BUFFER_TOO_SMALL (out_length is set).
 */
DDISP_API ddisp_status ddisp_report_format(const ddisp_report *report, char *buffer,
                                           uint64_t capacity, uint64_t *out_length);
DDISP_API ddisp_status ddisp_report_get_label(const ddisp_report *report, char *buffer,
                                              uint64_t capacity, uint64_t *out_length);
DDISP_API ddisp_status ddisp_report_get_signature(const ddisp_report *report, uint8_t *buffer,
                                                  uint64_t capacity, uint64_t *out_length);

#ifdef __cplusplus
}
#endif

#endif
