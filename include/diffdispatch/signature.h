/*
 * signature.h - what the library takes a launch for: the canonical description that selects code,
 * compiled variants and the backing of every gradient slot. Equal requests have equal bytes, in
 * every process, build and locale; docs/signature.md has the encoding.
 *
 * Of use to caches above the library, to logs, and to whoever asks why two launches do not share a
 * variant: decode both and compare.
 */
#ifndef DIFFDISPATCH_SIGNATURE_H
#define DIFFDISPATCH_SIGNATURE_H

#include "launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes of a signature. */
#define DDISP_SIGNATURE_CAPACITY 2024

/** The signature of one launch. */
typedef struct ddisp_signature {
    uint32_t size;       /**< sizeof(ddisp_signature) */
    uint32_t byte_count; /**< how many of bytes are used */
    uint8_t hash[16];    /**< XXH3-128 of them */
    uint8_t bytes[DDISP_SIGNATURE_CAPACITY];
} ddisp_signature;

/**
 * Names a launch without launching: arguments as those of ddisp_launch. What that checks before it
 * chooses code is checked here, with the same statuses; nothing is built, made or changed, and a
 * launch that would be skipped has a signature too. options->report stays as it is. Returns OK; as
 * ddisp_launch up to MISSING_GRADIENT, and INVALID_ARGUMENT when out_signature is NULL or its size
 * is not accepted.
 */
DDISP_API ddisp_status ddisp_launch_signature(ddisp_kernel *kernel, ddisp_mode mode,
                                              const ddisp_arg *args, uint32_t arg_count,
                                              const ddisp_launch_options *options,
                                              ddisp_stream *stream, ddisp_signature *out_signature);

/** The part of a signature that is not about single parameters. */
typedef struct ddisp_signature_info {
    uint32_t size;    /**< sizeof(ddisp_signature_info) */
    uint32_t version; /**< of the encoding */
    ddisp_mode mode;
    uint32_t param_count;
    char backend[32];
    char architecture[32];
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_id;
    uint32_t index_width;   /**< bits of an element index */
    uint64_t features;      /**< of the device, as in ddisp_device_info */
    uint64_t flags;         /**< DDISP_LAUNCH_..., 0 in forward mode */
    uint32_t deterministic; /**< 1 in deterministic mode */
    uint32_t atomic_mode;   /**< 0: as the code adds */
    uint8_t kernel[16];     /**< hash of parameters and codes */
    uint8_t hash[16];       /**< of the signature */
} ddisp_signature_info;

/** The parameter has a gradient that is added to, in this mode. */
#define DDISP_SIGNATURE_HAS_ADD UINT32_C(1)
/** The argument requires a gradient. */
#define DDISP_SIGNATURE_REQUIRES_GRAD UINT32_C(2)
/** The parameter has an upstream gradient, in this mode. */
#define DDISP_SIGNATURE_HAS_READ UINT32_C(4)
/** The upstream gradient is there. */
#define DDISP_SIGNATURE_UPSTREAM UINT32_C(8)
/** Elements share memory, by strides of 0 or otherwise: of the data, of the gradient that is added
 * to, of the upstream gradient. */
#define DDISP_SIGNATURE_OVERLAPS      UINT32_C(16)
#define DDISP_SIGNATURE_ADD_OVERLAPS  UINT32_C(32)
#define DDISP_SIGNATURE_READ_OVERLAPS UINT32_C(64)

/** What a signature says of one parameter. Fields of gradients that are not there are 0. */
typedef struct ddisp_signature_param {
    uint32_t size; /**< sizeof(ddisp_signature_param) */
    ddisp_param_kind kind;
    ddisp_access access;
    ddisp_dtype dtype;     /**< of the argument */
    uint32_t rank;         /**< of the argument */
    uint32_t layout;       /**< DDISP_LAYOUT_DENSE, STRIDED or BROADCAST */
    uint32_t alignment;    /**< bytes that are known to divide the address; 1 when no code asks */
    uint32_t alias;        /**< 1 + index of the first parameter with the same data; 0: none */
    uint32_t flags;        /**< DDISP_SIGNATURE_... */
    ddisp_policy policy;   /**< of a frozen input, else DEFAULT */
    uint32_t write_modes;  /**< bit m: some code of the kernel writes this gradient in mode m */
    uint32_t add_alias;    /**< 1 + index of the first parameter with the same gradient; 0: none */
    ddisp_dtype add_dtype; /**< of the gradient that is added to */
    uint32_t add_layout;
    ddisp_dtype read_dtype; /**< of the upstream gradient */
    uint32_t read_layout;
} ddisp_signature_param;

/**
 * Reads canonical bytes back. They may come from anywhere: only what the library itself can have
 * written is taken. Returns OK; INVALID_ARGUMENT, whose message has the offset and what is wrong
 * there; INCOMPATIBLE for another version of the encoding.
 */
DDISP_API ddisp_status ddisp_signature_decode(const uint8_t *bytes, uint64_t size_bytes,
                                              ddisp_signature_info *out_info);
/** Reads parameter `index`, 0 to param_count - 1. Returns as ddisp_signature_decode. */
DDISP_API ddisp_status ddisp_signature_decode_param(const uint8_t *bytes, uint64_t size_bytes,
                                                    uint32_t index,
                                                    ddisp_signature_param *out_param);
/**
 * Canonical bytes as text for people: one line for the launch and one for each parameter, copied
 * into buffer, NUL-terminated and cut at capacity.
 *   out_length  full length without the NUL; may be NULL
 * Returns as ddisp_signature_decode, or BUFFER_TOO_SMALL (out_length is set).
 */
DDISP_API ddisp_status ddisp_signature_format(const uint8_t *bytes, uint64_t size_bytes,
                                              char *buffer, uint64_t capacity,
                                              uint64_t *out_length);

#ifdef __cplusplus
}
#endif

#endif
