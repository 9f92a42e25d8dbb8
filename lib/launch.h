/*
 * launch.h - one launch on its way through the core. The rooms pass a ddisp__launch along in one
 * direction:
 *
 *   arguments   what the caller gave, checked and resolved into operands
 *   gradient    which gradients exist; who is locked; later: made, filled, taken
 *   signature   the canonical bytes of the request
 *   variant     signature -> plan (code, entry, backings by policy in backing.c) -> loaded variant
 *   geometry    items, groups, limits
 *   block       the argument block and the ranges that the kernel may touch
 *   report      what happened, for the caller
 *
 * A launch that comes again as it was goes none of this way: repeat.h.
 */
#ifndef DDISP_LIB_LAUNCH_H
#define DDISP_LIB_LAUNCH_H

#include "objects.h"

/** Longest signature: head and DDISP_MAX_PARAMS parameters. */
#define DDISP__SIGNATURE_CAPACITY 2048

/** Most native arguments of an entry. */
#define DDISP__MAX_NATIVES 128

/** How a shadow counts. */
typedef struct ddisp__shadow {
    ddisp_backend_range words; /* of the stream's watch */
    double scale, limit;       /* as in the argument block */
    bool is_wide;              /* two integers per element */
    bool finds_bound;          /* nothing is added, the words are written */
} ddisp__shadow;

/** A gradient slot of an operand. The fields up to `gradient` start as zeros, the rest is set
 * before it is read. */
typedef struct ddisp__slot {
    bool exists;
    bool wanted;         /* add: the operand requires a gradient. read: an upstream is there */
    bool is_explicit;    /* an address from the caller: never stored, taken or made */
    bool converts;       /* the kernel is given a temporary instead of target */
    bool is_shared;      /* add: another add slot has the same memory; set with alias */
    uint32_t alias;      /* add: 1 + index of the first add slot with the same memory, 0: none */
    ddisp_policy policy; /* of a frozen add slot */
    ddisp_backing backing;
    uint32_t operation; /* how the temporary gets into target: DDISP_BACKEND_ACCUMULATE_... */
    const char *reason; /* static text for the report */
    uint64_t report_flags;
    uint64_t bytes;           /* memory that this launch took for it */
    ddisp_buffer *temporary;  /* counted: scratch, zeros or a conversion of this launch */
    ddisp__gradient gradient; /* what the kernel is given; buffer not counted */
    ddisp__gradient target;   /* the gradient itself, when it converts; buffer not counted */
    ddisp_backend_range sink; /* when the backing is SINK */
    ddisp__shadow shadow;     /* when the backing is SHADOW */
} ddisp__slot;

/** An argument, resolved. */
typedef struct ddisp__operand {
    const ddisp_param *param;
    ddisp_tensor *tensor; /* NULL for views and scalars; not counted */
    uint64_t tensor_id;   /* of tensor: tells whether a handle is still the same tensor */
    uint64_t version;     /* of the gradient's owner, read before anything else of it */
    ddisp_buffer *buffer; /* of tensor */
    uint64_t address;
    uint64_t flags; /* DDISP_TENSOR_... as the caller sees them */
    ddisp_dtype dtype;
    ddisp__layout layout;
    ddisp__span span; /* bytes that it lies over, from the address */
    uint32_t owner;   /* index of the gradient owner, when it has one */
    uint32_t alias;   /* 1 + index of the first operand with the same data, 0: none before */
    uint64_t scalar;  /* value in the low bytes */
    ddisp__slot add, read;
} ddisp__operand;

/** A tensor that stores a gradient of this launch, locked from the snapshot to the commit. */
typedef struct ddisp__owner {
    ddisp_tensor *tensor;
    uint32_t adds;         /* operands whose add slots are wanted */
    bool taken;            /* an output's: empty afterwards */
    ddisp__gradient fresh; /* counted: made by this launch, stored by the commit */
    ddisp_buffer *dropped; /* counted: what the commit replaced, released without locks */
} ddisp__owner;

/** What a signature resolves to. Lives as long as the kernel. */
typedef struct ddisp__variant ddisp__variant;
struct ddisp__plan {
    uint32_t code;
    uint32_t entry;
    uint64_t mask; /* parameters whose gradient the variant has code for */
    ddisp__variant *variant;
    uint8_t add[DDISP_MAX_PARAMS]; /* ddisp_backing */
    uint8_t read[DDISP_MAX_PARAMS];
    const char *add_reason[DDISP_MAX_PARAMS]; /* static */
    const char *read_reason[DDISP_MAX_PARAMS];
};

/** Where a launch is laid out for the backend. */
typedef struct ddisp__places {
    ddisp_backend_launch *request; /* points to the others */
    unsigned char *block;
    ddisp_backend_native *natives;
    ddisp_backend_access *accesses;
} ddisp__places;

typedef struct ddisp__launch {
    ddisp_kernel *kernel;
    ddisp_mode mode;
    ddisp_launch_options options; /* policy resolved: never DEFAULT */
    ddisp_device *device;
    ddisp_stream *stream;
    uint64_t items;
    uint32_t grid[3]; /* groups, once the plan is known */
    uint64_t axes[3]; /* items per axis; axes[1] and axes[2] are 1 unless the caller said so */
    ddisp_skip skip;
    ddisp_variant_origin origin;
    uint64_t build_ns;
    uint64_t notes;                 /* of the stream, before the first use was noted */
    const ddisp__places *places;    /* to be laid out in; NULL: on the stack */
    const char *how;                /* "launch" or "plan"; this and the next for the trace alone */
    uint64_t host_ns;               /* when the caller came */
    const struct ddisp__plan *plan; /* of a dry run: points to dry_plan */
    struct ddisp__plan dry_plan;
    bool locked;
    uint32_t owner_count;
    uint32_t signature_size;
    ddisp__hash hash;
    uint8_t signature[DDISP__SIGNATURE_CAPACITY];
    uint32_t count;
    ddisp__owner owners[DDISP_MAX_PARAMS];
    ddisp__operand operands[DDISP_MAX_PARAMS];
    /* in deterministic mode, per parameter */
    double bounds[DDISP_MAX_PARAMS]; /* 0: to be found */
    uint64_t adds[DDISP_MAX_PARAMS]; /* most values added to one element; 0: as many as items */
} ddisp__launch;

/** Most entries of a list of accesses: data and two gradients each, and the words of a watch. */
#define DDISP__MAX_ACCESSES (4 * DDISP_MAX_PARAMS)

/** Name for messages: "launch mul: parameter 'b' (argument 1)". Formats, records the argument,
 * returns status. */
ddisp_status ddisp__launch_fail(const ddisp__launch *launch, uint32_t argument, ddisp_status status,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* kernel.c, kernel_code.c */
/** One element of a growable array: at least known_size bytes each, an unknown tail of zeros. */
ddisp_status ddisp__kernel_read_item(const char *what, const void *items, uint32_t item_size,
                                     uint32_t known_size, uint32_t index, void *out);
/** The same for a struct that grew: its first version had first_size bytes. */
ddisp_status ddisp__kernel_read_grown(const char *what, const void *items, uint32_t item_size,
                                      uint32_t first_size, uint32_t known_size, uint32_t index,
                                      void *out);
ddisp_status ddisp__kernel_copy_codes(ddisp_kernel *kernel, const ddisp_kernel_desc *desc);
void ddisp__kernel_release_codes(ddisp_kernel *kernel);

/* code_bytes.c */
struct ddisp__bytes;
/** Canonical bytes of a code. whole: with the content of source and headers, else by hash. */
void ddisp__code_bytes(const ddisp_kernel *kernel, const ddisp__code *code, bool whole,
                       struct ddisp__bytes *out);
ddisp_status ddisp__code_hash(const ddisp_kernel *kernel, const ddisp__code *code,
                              ddisp__hash *out_hash);
/** Parameters without their names, and all codes in order. */
ddisp_status ddisp__kernel_hash(const ddisp_kernel *kernel, ddisp__hash *out_hash);

/* arguments.c */
ddisp_status ddisp__arguments_resolve(ddisp__launch *launch, const ddisp_arg *args);
/** For tensors and scalars that are resolved already: what may have changed, which is who requires
 * a gradient and where gradients are. */
ddisp_status ddisp__arguments_again(ddisp__launch *launch, const ddisp_arg *args);

/* alias.c: ranges that the launch writes overlap no others */
ddisp_status ddisp__alias_check_data(ddisp__launch *launch);
ddisp_status ddisp__alias_check_gradients(ddisp__launch *launch);

/* gradient.c */
/** REJECT, and whether any input requires a gradient (else launch->skip is set). */
ddisp_status ddisp__gradient_precheck(ddisp__launch *launch);
/** Locks the owners and notes which gradients are there. Checks absent upstreams; may set
 * launch->skip. */
ddisp_status ddisp__gradient_snapshot(ddisp__launch *launch);
/** Makes gradients and temporaries as the plan says, and queues fills. On failure everything made
 * is given back. */
ddisp_status ddisp__gradient_prepare(ddisp__launch *launch);
/** Stores what was made and takes what is taken, after the kernel was queued or skipped. */
ddisp_status ddisp__gradient_commit(ddisp__launch *launch);
/** Unlocks owners and gives temporaries (and uncommitted gradients) back. Always safe. */
void ddisp__gradient_finish(ddisp__launch *launch);

/* conversion.c: gradients that the code cannot be given as they are go through a dense temporary */
/** Why the gradient of operand i's add (or read) slot cannot be given to the chosen code; NULL when
 * it can. */
const char *ddisp__conversion_reason(const ddisp__launch *launch, uint32_t i, bool add);
/** Zeroed (or not) dense temporary of operand i's shape in the code's gradient dtype, given to the
 * slot. */
ddisp_status ddisp__conversion_temporary(ddisp__launch *launch, uint32_t i, ddisp__slot *slot,
                                         bool zero, bool one_element);
/** Gives the read slot a converted copy of its upstream. */
ddisp_status ddisp__conversion_read(ddisp__launch *launch, uint32_t i);
/** Gives the add slot a temporary; its real gradient becomes the target. */
ddisp_status ddisp__conversion_add(ddisp__launch *launch, uint32_t i, uint32_t operation);
/** After the kernel: adds the temporaries into their targets. */
ddisp_status ddisp__conversion_finish(ddisp__launch *launch);

/* shadow.c: deterministic mode */
static inline bool ddisp__launch_deterministic(const ddisp__launch *launch)
{
    return launch->mode == DDISP_MODE_BACKWARD &&
           (launch->options.flags & DDISP_LAUNCH_DETERMINISTIC) != 0;
}
/** Copies and checks what the options say about bounds; kernel and mode are set. */
ddisp_status ddisp__shadow_options(ddisp__launch *launch);
/** Why the code cannot add to a shadow of operand i's gradient; NULL when it can. */
const char *ddisp__shadow_obstacle(const ddisp__launch *launch, const ddisp__code *code,
                                   const ddisp_entry *entry, uint32_t i);
/** What the plan's shadows ask for is there: a stream that does not capture, bounds where the
 * kernel may not run twice. */
ddisp_status ddisp__shadow_check(const ddisp__launch *launch, const struct ddisp__plan *plan);
/** Places for words; runs the kernel to find the bounds that were not declared, and waits. Slots
 * without a shadow are prepared. */
ddisp_status ddisp__shadow_bounds(ddisp__launch *launch);
/** Gives the add slot a zeroed shadow; its real gradient becomes the target. */
ddisp_status ddisp__shadow_make(ddisp__launch *launch, uint32_t i, uint32_t operation);
/** After the kernel: the shadow goes into its target. */
ddisp_status ddisp__shadow_fold(ddisp__launch *launch, uint32_t i);

/* sink.c */
/** A range of at least size_bytes over the device's sink, ordered for use on stream. */
ddisp_status ddisp__sink_use(ddisp_device *device, ddisp_stream *stream, uint64_t size_bytes,
                             uint64_t flags, ddisp_backend_range *out_range,
                             uint64_t *out_grown_bytes);
bool ddisp__sink_offered(const ddisp_device *device);
/** Notes that stream uses the sink without asking for more of it. */
ddisp_status ddisp__sink_note(ddisp_device *device, ddisp_stream *stream);
/** Keeps the sink from being trimmed, or lets it go. */
void ddisp__sink_hold(ddisp_device *device, bool hold);

/* signature.c */
void ddisp__signature_write(ddisp__launch *launch);
/** Without the hash. */
void ddisp__signature_bytes(ddisp__launch *launch);
void ddisp__signature_label(const ddisp__launch *launch, char *text, size_t capacity);

/* variant.c */
/** The plan of launch->signature on launch->device, or NULL. */
const struct ddisp__plan *ddisp__plan_find(ddisp__launch *launch);
/** Puts a plan under launch->signature, unless there is one (out_added is false then). False when
 * out of memory. */
bool ddisp__plan_keep(ddisp__launch *launch, struct ddisp__plan *plan, bool *out_added);
/** Resolves and builds the plan; no gradient owner may be locked. */
ddisp_status ddisp__plan_build(ddisp__launch *launch);
/** Chooses code and backings into launch->dry_plan without building. */
ddisp_status ddisp__plan_dry(ddisp__launch *launch);
void *ddisp__variant_handle(const ddisp__variant *variant);
/** Notes that the variant is used on stream, so that it outlives that work. */
ddisp_status ddisp__variant_use(ddisp__variant *variant, ddisp_stream *stream);
/** Releases all plans and variants of a kernel. */
void ddisp__plans_release(ddisp_kernel *kernel);

/* backing.c */
/**
 * Decides the backing of every gradient slot and the entry for one code, into plan. auto_omits:
 * whether AUTO may specialize. On failure returns UNSUPPORTED or NO_CODE and writes into reason
 * what is missing.
 */
ddisp_status ddisp__backing_decide(const ddisp__launch *launch, uint32_t code, bool auto_omits,
                                   struct ddisp__plan *plan, char *reason, size_t capacity);
/** Whether a code takes the operands' dtypes, layouts and alignments; if not, why. */
ddisp_status ddisp__backing_accepts(const ddisp__launch *launch, uint32_t code, char *reason,
                                    size_t capacity);
/** Gradient dtype that a code uses for parameter i. */
static inline ddisp_dtype ddisp__code_gradient_dtype(const ddisp__code *code, uint32_t i,
                                                     ddisp_dtype data_dtype)
{
    ddisp_dtype declared = code->params[i].grad_dtype;
    return declared != DDISP_DTYPE_ANY ? declared : ddisp__dtype_gradient(data_dtype, false);
}

/* geometry.c */
/** Index of the parameter whose elements are the work items, or UINT32_MAX. */
uint32_t ddisp__geometry_items_param(const ddisp_kernel *kernel);
ddisp_status ddisp__geometry_items(ddisp__launch *launch);
/** Groups for the entry; LIMIT_EXCEEDED names the axis and both numbers. */
ddisp_status ddisp__geometry_grid(const ddisp__launch *launch, const ddisp_entry *entry,
                                  uint32_t grid[3]);
/** Group size of an entry with defaults filled in. */
void ddisp__geometry_group(const ddisp_entry *entry, uint32_t group_size[3]);

/* block.c */
/** Lays out the arguments and hands the launch to the backend. */
ddisp_status ddisp__block_launch(ddisp__launch *launch);
/** Lays out the arguments alone. */
void ddisp__block_lay_out(const ddisp__launch *launch, const ddisp__places *places);
/** Lays out the arguments of a recorded launch again, after an operand changed. */
void ddisp__block_relay(ddisp_kernel *kernel, ddisp_mode mode, uint32_t code, uint64_t items,
                        const ddisp__operand *operands, ddisp_backend_launch *request,
                        unsigned char *block, ddisp_backend_native *natives,
                        ddisp_backend_access *accesses);

/* launch.c, for plans */
/** Everything up to the plan, which is built when it is new. Nothing was made; owners are locked.
 */
ddisp_status ddisp__launch_resolve(ddisp__launch *launch, ddisp_kernel *kernel, ddisp_mode mode,
                                   const ddisp_arg *args, uint32_t arg_count,
                                   const ddisp_launch_options *options, ddisp_stream *stream);
/** The same with other arguments for a launch whose plan is known. same: with the very tensors and
 * scalars that a backward launch holds; only what concerns gradients is looked at. */
ddisp_status ddisp__launch_again(ddisp__launch *launch, const ddisp_arg *args, ddisp_stream *stream,
                                 bool same);
/** Makes and fills gradients as the plan says. */
ddisp_status ddisp__launch_prepare(ddisp__launch *launch);
/** From there to the commit. */
ddisp_status ddisp__launch_run(ddisp__launch *launch);

/* report.c */
void ddisp__report_begin(ddisp_report *report);
void ddisp__report_fill(ddisp_report *report, const ddisp__launch *launch, ddisp_status status);

#endif
