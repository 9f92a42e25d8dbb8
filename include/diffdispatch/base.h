/*
 * base.h - what every other header stands on: the export macro, status codes, error reporting, and
 * the hooks a program hands to a context (allocator, log).
 *
 * Conventions of the whole API
 *   - Every function that can fail returns a ddisp_status. A call that fails has changed nothing.
 *   - Out parameters come last and are named out_...; every handle returned through one belongs to
 * the caller (one reference), who gives it back with the matching _release. _release(NULL) does
 * nothing.
 *   - Structs that may grow begin with `uint32_t size`. Zero the struct, set size, set what you
 * need: ddisp_kernel_desc desc = DDISP_ZERO; desc.size = (uint32_t)sizeof desc; All-zero means
 * "every default".
 *   - Strings are UTF-8 and NUL-terminated going in; coming out they are copied into the caller's
 * buffer.
 *   - Unless a function says otherwise it may be called from any thread at any time.
 *   - In a process forked from one that created a context, every call returns DDISP_STATUS_FORKED.
 */
#ifndef DIFFDISPATCH_BASE_H
#define DIFFDISPATCH_BASE_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__LP64__) && !defined(_LP64) && UINTPTR_MAX != UINT64_MAX
#error "libdiffdispatch needs a 64-bit target"
#endif
#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) &&                                 \
    __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "libdiffdispatch needs a little-endian target"
#endif

/** Version of the headers. ddisp_version() tells that of the library. */
#define DDISP_VERSION_MAJOR 0
#define DDISP_VERSION_MINOR 1
#define DDISP_VERSION_PATCH 0

#if defined(DDISP_STATIC)
#define DDISP_API
#else
#define DDISP_API __attribute__((visibility("default")))
#endif

/** Initializer that zeroes any struct or array of structs of this API, in C and in C++. */
#ifdef __cplusplus
#define DDISP_ZERO                                                                                 \
    {                                                                                              \
    }
#else
#define DDISP_ZERO                                                                                 \
    {                                                                                              \
        0                                                                                          \
    }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a call. Values are stable and append-only; docs/errors.md has a cause and a cure for
 * each. */
typedef uint32_t ddisp_status;
enum {
    DDISP_STATUS_OK = 0,
    DDISP_STATUS_INVALID_ARGUMENT =
        1, /**< a NULL, a wrong size, an unknown enum value, an inconsistent field */
    DDISP_STATUS_OUT_OF_MEMORY = 2,        /**< the host allocator returned NULL */
    DDISP_STATUS_OUT_OF_DEVICE_MEMORY = 3, /**< the device has no such amount of memory left */
    DDISP_STATUS_UNSUPPORTED =
        4, /**< the device, code or library cannot do this; the message says what is missing */
    DDISP_STATUS_NOT_FOUND = 5,   /**< no such device, backend, entry or file */
    DDISP_STATUS_NO_GRADIENT = 6, /**< the tensor does not require a gradient */
    DDISP_STATUS_MISSING_GRADIENT =
        7, /**< an output has no upstream gradient, or an input's may not be made */
    DDISP_STATUS_GRADIENT_REJECTED = 8, /**< policy REJECT met a frozen input */
    DDISP_STATUS_ALIASED = 9,           /**< a range that the launch writes overlaps another */
    DDISP_STATUS_DTYPE_MISMATCH = 10,   /**< element type other than declared */
    DDISP_STATUS_RANK_MISMATCH = 11,    /**< number of dimensions other than declared */
    DDISP_STATUS_SHAPE_MISMATCH = 12,   /**< extents other than required */
    DDISP_STATUS_LAYOUT_MISMATCH = 13,  /**< strides that the code does not accept */
    DDISP_STATUS_DEVICE_MISMATCH = 14,  /**< an object of another device or context */
    DDISP_STATUS_OVERFLOW = 15,         /**< a product of extents does not fit in 64 bits */
    DDISP_STATUS_LIMIT_EXCEEDED = 16,   /**< a limit of the device; the message has both numbers */
    DDISP_STATUS_CODE_INVALID = 17, /**< code is truncated, malformed or lacks what was declared */
    DDISP_STATUS_CODE_REJECTED =
        18, /**< the driver or compiler refused the code; the message has its log */
    DDISP_STATUS_NO_CODE = 19,     /**< no code of the kernel fits this device, mode and policy */
    DDISP_STATUS_DEVICE_LOST = 20, /**< the device is gone, now and for every later call */
    DDISP_STATUS_DRIVER_ERROR =
        21, /**< the driver failed for another reason; native code in the error */
    DDISP_STATUS_TIMEOUT = 22,   /**< the wait ended before the work did */
    DDISP_STATUS_NOT_READY = 23, /**< the work asked about has not completed */
    DDISP_STATUS_BACKEND_UNAVAILABLE =
        24, /**< the backend cannot work here: no driver, no device */
    DDISP_STATUS_INCOMPATIBLE =
        25, /**< plugin and library, or caller and library, differ in ABI version */
    DDISP_STATUS_FORKED = 26,    /**< the process was forked after the context was created */
    DDISP_STATUS_READ_ONLY = 27, /**< a read-only tensor would have been written */
    DDISP_STATUS_BUFFER_TOO_SMALL =
        28, /**< the caller's buffer is too small; the needed length was returned */
    DDISP_STATUS_INTERNAL = 29, /**< a fault of the library: please report it */
    DDISP_STATUS_BOUND_EXCEEDED =
        30, /**< deterministic mode met a value that is not finite or beyond the declared bound */
};

/** Name of a status, such as "DDISP_STATUS_NO_GRADIENT"; "unknown status" for others. Static
 * string, never NULL. */
DDISP_API const char *ddisp_status_name(ddisp_status status);

/** One sentence for a status. Static string, never NULL. */
DDISP_API const char *ddisp_status_describe(ddisp_status status);

/** What went wrong, filled by calls whose options carry one. */
typedef struct ddisp_error {
    uint32_t size;       /**< sizeof(ddisp_error) */
    ddisp_status status; /**< status the call returned */
    int32_t argument;    /**< index of the launch argument at fault, -1 when none */
    uint32_t reserved;   /**< zero */
    int64_t native_code; /**< the driver's own code, 0 when none */
    char message[488];   /**< the message, NUL-terminated, cut if longer */
} ddisp_error;

/**
 * Copies the message of the calling thread's most recent failure into buffer, always NUL-terminated
 * when capacity is not 0, cut if too long. Successful calls leave it in place. buffer      capacity
 * bytes, may be NULL when capacity is 0 out_length  the full length without the NUL; may be NULL
 * Returns OK, or INVALID_ARGUMENT when buffer is NULL and capacity is not 0.
 */
DDISP_API ddisp_status ddisp_last_error(char *buffer, uint64_t capacity, uint64_t *out_length);

/**
 * Fills out_error with the calling thread's most recent failure (status OK and an empty message
 * when there was none). Returns OK, or INVALID_ARGUMENT when out_error is NULL or its size is not
 * accepted.
 */
DDISP_API ddisp_status ddisp_last_error_detail(ddisp_error *out_error);

/** Version of the library as major * 1000000 + minor * 1000 + patch. */
DDISP_API uint32_t ddisp_version(void);

/** Version of the library as text, such as "0.1.0". Static string. */
DDISP_API const char *ddisp_version_string(void);

/** Level of a log message; a context passes on messages up to its own level. */
typedef uint32_t ddisp_log_level;
enum {
    DDISP_LOG_LEVEL_DEFAULT = 0, /**< as DDISP_LOG says, else warnings */
    DDISP_LOG_LEVEL_NONE = 1,
    DDISP_LOG_LEVEL_ERROR = 2,
    DDISP_LOG_LEVEL_WARNING = 3,
    DDISP_LOG_LEVEL_INFO = 4,
    DDISP_LOG_LEVEL_DEBUG = 5,
};

/** Receives log messages. May be called from any thread inside a call, never under a lock; must
 * return. */
typedef void (*ddisp_log_function)(void *user_data, ddisp_log_level level, const char *message);

/** Called once when memory that the caller lent is no longer used, inside some ddisp call, never
 * under a lock. */
typedef void (*ddisp_release_function)(void *user_data);

/** Host allocator. Functions are called from any thread; allocate returns memory aligned to 16
 * bytes, or NULL. */
typedef struct ddisp_allocator {
    uint32_t size;     /**< sizeof(ddisp_allocator) */
    uint32_t reserved; /**< zero */
    void *user_data;   /**< first argument of both functions */
    void *(*allocate)(void *user_data, uint64_t size_bytes);
    void (*release)(void *user_data, void *pointer); /**< pointer is never NULL */
} ddisp_allocator;

/** Head of every struct that can be chained to a description through its `next` field. */
typedef struct ddisp_chain {
    uint32_t size; /**< size of the whole chained struct */
    uint32_t type; /**< which struct it is; unknown types are refused with INVALID_ARGUMENT */
    const struct ddisp_chain *next;
} ddisp_chain;

#ifdef __cplusplus
}
#endif

#endif
