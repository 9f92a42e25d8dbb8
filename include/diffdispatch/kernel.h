/*
 * kernel.h - declared differentiable functions: parameters, and one or more codes that implement
 * them.
 *
 * A kernel says what a function takes (parameters); a code is machine code or source for one
 * backend, with one entry per mode. A kernel may carry several codes for one backend, in order of
 * preference: the first that fits the device, the mode and the asked policy is used.
 */
#ifndef DIFFDISPATCH_KERNEL_H
#define DIFFDISPATCH_KERNEL_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ddisp_kernel ddisp_kernel;

/** Most parameters of a kernel. */
#define DDISP_MAX_PARAMS 64

/** What a launch computes. */
typedef uint32_t ddisp_mode;
enum {
    DDISP_MODE_FORWARD = 1,
    DDISP_MODE_BACKWARD = 2,
};

/** Kind of a parameter. */
typedef uint32_t ddisp_param_kind;
enum {
    DDISP_PARAM_KIND_TENSOR = 0,
    DDISP_PARAM_KIND_SCALAR = 1,
};

/** What a forward launch does with a tensor. */
typedef uint32_t ddisp_access;
enum {
    DDISP_ACCESS_IN = 1,
    DDISP_ACCESS_OUT = 2,
    DDISP_ACCESS_INOUT = 3,
};

/** Any rank is taken. */
#define DDISP_RANK_ANY UINT32_C(0xFFFFFFFF)

/** The parameter has a gradient slot in backward mode: add for in, read for out, both for inout. */
#define DDISP_PARAM_DIFFERENTIABLE UINT64_C(1)
/** Without explicit items, the number of work items is this parameter's element count. */
#define DDISP_PARAM_ITEMS UINT64_C(2)

/** A parameter of a kernel. */
typedef struct ddisp_param {
    const char *name; /**< [A-Za-z_][A-Za-z0-9_.]{0,127}, unique in the kernel */
    ddisp_param_kind kind;
    ddisp_access access; /**< scalars: IN */
    ddisp_dtype dtype;   /**< ANY: any dtype (tensors only) */
    uint32_t rank;       /**< 0 to 8, or DDISP_RANK_ANY; scalars: 0 */
    uint64_t flags;      /**< DDISP_PARAM_... */
} ddisp_param;

/** Initializers of a ddisp_param. */
#define DDISP_PARAM(name, access, dtype, rank, flags)                                              \
    {                                                                                              \
        (name), DDISP_PARAM_KIND_TENSOR, (access), (dtype), (rank), (flags)                        \
    }
#define DDISP_PARAM_SCALAR(name, dtype)                                                            \
    {                                                                                              \
        (name), DDISP_PARAM_KIND_SCALAR, DDISP_ACCESS_IN, (dtype), 0, 0                            \
    }

/** How a code writes a gradient that it adds to. */
typedef uint32_t ddisp_write_mode;
enum {
    DDISP_WRITE_MODE_ATOMIC_ADD =
        0, /**< hardware atomics, or a compare-and-swap that compares bits */
    DDISP_WRITE_MODE_PLAIN_ADD = 1,  /**< load, add, store; one thread per element */
    DDISP_WRITE_MODE_STORE_ONCE = 2, /**< every element of the gradient stored exactly once */
    DDISP_WRITE_MODE_READS_BACK = 3, /**< adds and also reads its own gradient */
    DDISP_WRITE_MODE_UNKNOWN = 4,
};

/** Layouts that a code takes, as flags. Dense includes every layout that indexes like dense
 * row-major. */
#define DDISP_LAYOUT_DENSE     UINT32_C(1) /**< row-major without gaps */
#define DDISP_LAYOUT_STRIDED   UINT32_C(2) /**< any non-zero strides, also negative */
#define DDISP_LAYOUT_BROADCAST UINT32_C(4) /**< strides of 0 */
#define DDISP_LAYOUT_ANY       UINT32_C(7)

/** What a code does with one parameter, where it differs from the defaults. */
typedef struct ddisp_code_param {
    uint32_t param;              /**< index of the parameter */
    ddisp_write_mode write_mode; /**< of its add slot */
    ddisp_dtype grad_dtype; /**< ANY: F32 for F16 and BF16 parameters, else the parameter's dtype */
    uint32_t layouts;       /**< DDISP_LAYOUT_... of data; 0: dense, or any when the code says so */
    uint32_t grad_layouts;  /**< DDISP_LAYOUT_... of gradients; 0: as layouts */
    /** bytes that the data address must be a multiple of; 0: the element size */
    uint32_t alignment;
    uint32_t switch_id; /**< spirv: specialization constant of its switch; 0: 1024 + param when
                           present */
    uint32_t reserved;  /**< zero */
} ddisp_code_param;

/** First specialization constant of the switches that are found by reflection: 1024 + parameter
 * index. */
#define DDISP_SPIRV_SWITCH_BASE UINT32_C(1024)

struct ddisp_block; /* diffdispatch/device/ddisp_block.h */

/**
 * A host kernel: computes work items begin to end - 1. Called from several threads at once with
 * disjoint ranges; must return. In backward mode it reads and adds through the block's grad_read
 * and grad_add.
 */
typedef void (*ddisp_host_function)(const struct ddisp_block *block, uint64_t begin, uint64_t end);

/** Where a native argument is filled from. */
typedef uint32_t ddisp_source;
enum {
    DDISP_SOURCE_DATA = 1,      /**< address of a tensor's element (0, ..., 0) */
    DDISP_SOURCE_GRAD_ADD = 2,  /**< address of the gradient that is added to */
    DDISP_SOURCE_GRAD_READ = 3, /**< address of the upstream gradient */
    DDISP_SOURCE_SHAPE = 4,     /**< extent of dimension `index` */
    DDISP_SOURCE_STRIDE = 5,    /**< stride of dimension `index`, in elements */
    DDISP_SOURCE_NUMEL = 6,     /**< number of elements */
    DDISP_SOURCE_OFFSET =
        7, /**< elements between the start of a descriptor and element (0, ..., 0) */
    DDISP_SOURCE_SCALAR = 8, /**< a scalar parameter */
    DDISP_SOURCE_ITEMS = 9,  /**< number of work items */
    DDISP_SOURCE_BLOCK = 10, /**< address of the standard argument block */
};

/** Where a native argument goes. */
typedef uint32_t ddisp_space;
enum {
    DDISP_SPACE_DEFAULT =
        0, /**< kernel parameter (cuda), push constant (vulkan), C argument (host) */
    DDISP_SPACE_DESCRIPTOR = 1,    /**< storage buffer at (set, location) */
    DDISP_SPACE_PUSH_CONSTANT = 2, /**< push constant at byte `location` */
};

/** The location field is used; without it arguments follow in list order. */
#define DDISP_NATIVE_LOCATION UINT32_C(1)

/** One argument of an existing kernel. This struct never grows. */
typedef struct ddisp_native_arg {
    ddisp_source source;
    uint32_t param; /**< index of the parameter */
    uint32_t index; /**< dimension, for SHAPE and STRIDE */
    ddisp_space space;
    uint32_t set;        /**< descriptor set */
    uint32_t location;   /**< binding, byte offset or position */
    uint32_t size_bytes; /**< 4 or 8 for numbers; 0: 8 for addresses and numbers, the dtype's size
                            for scalars */
    uint32_t flags;      /**< DDISP_NATIVE_... */
} ddisp_native_arg;

/** Initializers of a ddisp_native_arg: in list order, and for descriptors. */
#define DDISP_NATIVE(source, param)                                                                \
    {                                                                                              \
        (source), (param), 0, DDISP_SPACE_DEFAULT, 0, 0, 0, 0                                      \
    }
#define DDISP_NATIVE_DESCRIPTOR(source, param, set, binding)                                       \
    {                                                                                              \
        (source), (param), 0, DDISP_SPACE_DESCRIPTOR, (set), (binding), 0, DDISP_NATIVE_LOCATION   \
    }

/** The entry serves exactly the gradient mask in `mask`: bit i is set when parameter i has a
 * gradient. */
#define DDISP_ENTRY_MASKED UINT64_C(1)
/** The entry loops over items by itself, so that the library chooses the number of groups. */
#define DDISP_ENTRY_LOOPS UINT64_C(2)

/** One entry point of a code. */
typedef struct ddisp_entry {
    ddisp_mode mode;        /**< which mode it serves */
    uint32_t group_size[3]; /**< threads per group; 0: 1 (axis 0: 256) */
    const char
        *name; /**< symbol in the code; "{mask}" in it stands for the gradient mask in decimal */
    /** host-function: the function, else NULL. With native arguments any function that takes them,
     * cast to this type: it is called once per launch. */
    ddisp_host_function function;
    uint64_t function_id; /**< host-function: caller's identity of the function, stable over runs */
    uint64_t mask;        /**< with DDISP_ENTRY_MASKED */
    uint64_t flags;       /**< DDISP_ENTRY_... */
    const ddisp_native_arg
        *native; /**< arguments of an existing kernel; NULL: the standard argument block */
    uint32_t native_count;
    uint32_t shared_bytes; /**< dynamic shared memory per group */
} ddisp_entry;

/** Initializers of a ddisp_entry. */
#define DDISP_ENTRY(mode, name, group_size)                                                        \
    {                                                                                              \
        (mode), {(group_size), 1, 1}, (name), NULL, 0, 0, 0, NULL, 0, 0                            \
    }
#define DDISP_ENTRY_FUNCTION(mode, function, id)                                                   \
    {                                                                                              \
        (mode), {0, 0, 0}, NULL, (function), (id), 0, 0, NULL, 0, 0                                \
    }
#define DDISP_ENTRY_FUNCTION_MASKED(mode, function, id, mask)                                      \
    {                                                                                              \
        (mode), {0, 0, 0}, NULL, (function), (id), (mask), DDISP_ENTRY_MASKED, NULL, 0, 0          \
    }

/** Add slots may be null: the code tests each gradient address before it touches it. */
#define DDISP_CODE_NULL_SAFE UINT64_C(1)
/** Bytes, also of headers, stay valid as long as the kernel lives, so they are not copied. */
#define DDISP_CODE_BORROWED UINT64_C(2)
/** The code takes every layout in every parameter, data and gradients. */
#define DDISP_CODE_ANY_LAYOUT UINT64_C(4)
/** Lanes that add to one address are summed first, so that contended adds stay fast. */
#define DDISP_CODE_PRE_REDUCES UINT64_C(8)
/** The code adds through add_grad of the device headers, which serves deterministic mode (spirv:
 * built with DDISP_DETERMINISTIC). */
#define DDISP_CODE_DETERMINISTIC UINT64_C(16)

/** A file that source code includes, given as bytes: it is part of the code's identity. */
typedef struct ddisp_header {
    const char *name; /**< as the source includes it */
    const void *bytes;
    uint64_t size_bytes;
} ddisp_header;

/** Initializer of a ddisp_header. */
#define DDISP_HEADER(name, bytes, size_bytes)                                                      \
    {                                                                                              \
        (name), (bytes), (size_bytes)                                                              \
    }

/** Machine code or source for one backend. */
typedef struct ddisp_code {
    const char *backend; /**< such as "cuda" */
    const char *format;  /**< such as "ptx", "spirv", "host-function" */
    /** the code; NULL for host-function; for host-library the absolute path of a shared object and
     * its NUL, entries are symbols in it */
    const void *bytes;
    uint64_t size_bytes;        /**< of bytes */
    const ddisp_entry *entries; /**< one or more per mode that it serves */
    uint32_t entry_count;
    uint32_t entry_size;            /**< sizeof(ddisp_entry) */
    const ddisp_code_param *params; /**< what differs from the defaults; NULL: nothing */
    uint32_t param_count;
    uint32_t param_size; /**< sizeof(ddisp_code_param) */
    /** compiler options of source formats; NULL: none. With a path to include from (-I), what is
     * compiled depends on files that the library does not see: it is not kept on disk. */
    const char *options;
    uint64_t flags;              /**< DDISP_CODE_... */
    const ddisp_header *headers; /**< what source formats include; NULL: nothing */
    uint32_t header_count;
    uint32_t header_size; /**< sizeof(ddisp_header) */
} ddisp_code;

/** Initializer of a ddisp_code. entries must be an array, not a pointer. */
#define DDISP_CODE(backend, format, bytes, size_bytes, entries, flags)                             \
    {                                                                                              \
        (backend), (format), (bytes), (size_bytes), (entries),                                     \
            (uint32_t)(sizeof(entries) / sizeof((entries)[0])), (uint32_t)sizeof((entries)[0]),    \
            NULL, 0, 0, NULL, (flags), NULL, 0, 0                                                  \
    }

/** How a kernel is made. */
typedef struct ddisp_kernel_desc {
    uint32_t size;             /**< sizeof(ddisp_kernel_desc) */
    uint32_t variant_budget;   /**< most variants per mode and device; 0: 32 */
    const ddisp_chain *next;   /**< NULL */
    const char *name;          /**< [A-Za-z_][A-Za-z0-9_.]{0,127} */
    const ddisp_param *params; /**< up to DDISP_MAX_PARAMS */
    uint32_t param_count;
    uint32_t param_size;     /**< sizeof(ddisp_param) */
    const ddisp_code *codes; /**< in order of preference */
    uint32_t code_count;
    uint32_t code_size; /**< sizeof(ddisp_code) */
    uint64_t flags;     /**< zero */
} ddisp_kernel_desc;

/**
 * Makes a kernel. Everything is copied (bytes too, unless BORROWED). Codes of loaded backends are
 * inspected now: bytes that are truncated or malformed and entries that are missing are found here.
 * Codes of other backends are kept unread. Returns OK, INVALID_ARGUMENT (naming parameter or code),
 * CODE_INVALID, NOT_FOUND (a missing entry), OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_kernel_create(ddisp_context *context, const ddisp_kernel_desc *desc,
                                           ddisp_kernel **out_kernel);
DDISP_API void ddisp_kernel_retain(ddisp_kernel *kernel);
/** Gives a reference back, at any time. */
DDISP_API void ddisp_kernel_release(ddisp_kernel *kernel);

/** Counters of a kernel. */
typedef struct ddisp_kernel_statistics {
    uint32_t size;           /**< sizeof(ddisp_kernel_statistics) */
    uint32_t reserved;       /**< zero */
    uint64_t signatures;     /**< different signatures seen */
    uint64_t variants;       /**< variants that exist now */
    uint64_t variants_built; /**< variants ever built */
    uint64_t signature_hits; /**< launches whose signature was known */
    /** entries with an equal hash and other bytes that were told apart */
    uint64_t hash_collisions;
    uint64_t artifacts_read;     /**< compiled code taken from the kernel cache on disk */
    uint64_t artifacts_made;     /**< code compiled because the kernel cache had none */
    uint64_t artifacts_repaired; /**< of these: in place of an entry that could not be used */
} ddisp_kernel_statistics;

/** Reads the counters. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_kernel_get_statistics(ddisp_kernel *kernel,
                                                   ddisp_kernel_statistics *out_statistics);

#ifdef __cplusplus
}
#endif

#endif
