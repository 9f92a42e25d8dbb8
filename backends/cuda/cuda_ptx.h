/*
 * cuda_ptx.h - what can be known about PTX by reading it: header, entries, switch lines. Needs no
 * driver and no memory; never writes to the text, except cuda__ptx_rewrite to a copy.
 */
#ifndef DDISP_CUDA_PTX_H
#define DDISP_CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What the three header directives say. */
typedef struct cuda__ptx_header {
    uint32_t version_major, version_minor;
    uint32_t target_major, target_minor; /* sm_90: 9, 0 */
    char target_suffix;                  /* 'a', 'f' or 0 */
    char target[16];                     /* "sm_90a" */
} cuda__ptx_header;

/** An entry as its declaration has it. name is not terminated. */
typedef struct cuda__ptx_entry {
    const char *name;
    uint64_t name_length;
    uint32_t param_count;
    uint64_t param_bytes; /* of the first parameter */
    bool param_is_scalar; /* the first parameter is one number, not an array of bytes */
    uint32_t required[3]; /* .reqntid, 0 when absent */
    uint32_t maximum[3];  /* .maxntid, 0 when absent */
} cuda__ptx_entry;

typedef enum cuda__ptx_event {
    CUDA__PTX_END,      /* all read, nothing amiss */
    CUDA__PTX_BROKEN,   /* reader.why says what is wrong */
    CUDA__PTX_ENTRY,    /* reader.entry: the body of an entry begins */
    CUDA__PTX_FUNCTION, /* the body of a .func begins */
    CUDA__PTX_SWITCH,   /* reader.switch_index, reader.switch_offset: a switch line in a body */
} cuda__ptx_event;

/** Reads one PTX text from start to end. */
typedef struct cuda__ptx_reader {
    const char *text;
    uint64_t length; /* without NULs at the end */
    uint64_t at;
    uint64_t line;
    bool line_start;  /* only at a true line start may a switch line begin */
    uint32_t depth;   /* of braces */
    bool in_function; /* the braces are a body, not an initializer */
    uint64_t body_line;
    cuda__ptx_header header;
    cuda__ptx_entry entry;
    uint32_t entry_count;
    uint32_t switch_index;
    uint64_t switch_offset; /* of the digit 1 */
    bool swaps;             /* so far an atomic compare-and-swap was met */
    char why[200];
} cuda__ptx_reader;

/** Starts reading: the header. False with reader->why when it is not PTX. */
bool cuda__ptx_open(cuda__ptx_reader *reader, const void *bytes, uint64_t size_bytes);
/** Reads on. After END and BROKEN it must not be called again. */
cuda__ptx_event cuda__ptx_next(cuda__ptx_reader *reader);

typedef enum cuda__ptx_found {
    CUDA__PTX_FOUND,
    CUDA__PTX_MISSING, /* well-formed, but has no such entry */
    CUDA__PTX_MALFORMED,
} cuda__ptx_found;

/**
 * Reads the whole text and looks for an entry.
 *   name              "{mask}" in it stands for any decimal number: the first that matches is found
 *   out_entry         points into bytes
 *   out_switch_mask   switches in the entry's body and in functions that it may call
 *   reader            for header and why
 */
cuda__ptx_found cuda__ptx_find(cuda__ptx_reader *reader, const void *bytes, uint64_t size_bytes,
                               const char *name, cuda__ptx_entry *out_entry,
                               uint64_t *out_switch_mask);

/** Whether an entry's name is the one asked for: "{mask}" in it stands for any decimal number. */
bool cuda__name_matches(const char *name, uint64_t name_length, const char *asked);

/** Most parameters of an entry that are looked at. */
#define CUDA__MAX_PARAMS 128u

/** What is known of the value that a parameter takes. */
typedef enum cuda__param_kind {
    CUDA__PARAM_BYTES, /* nothing but its size */
    CUDA__PARAM_INTEGER,
    CUDA__PARAM_FLOAT,
    CUDA__PARAM_ADDRESS,
} cuda__param_kind;

typedef struct cuda__param {
    uint64_t size_bytes;
    cuda__param_kind kind;
} cuda__param;

/** Parameters of an entry that was found in these bytes; writes up to capacity, returns how many
 * (CUDA__MAX_PARAMS at most). */
uint32_t cuda__ptx_params(const void *bytes, uint64_t size_bytes, const cuda__ptx_entry *entry,
                          cuda__param *params, uint32_t capacity);

/** Whether well-formed text has an atomic compare-and-swap. */
bool cuda__ptx_swaps(const void *bytes, uint64_t size_bytes);

/** Copies the text to copy (size_bytes + 1 bytes, NUL-terminated) with the switches of off_mask
 * turned from 1 to 0. False when malformed. */
bool cuda__ptx_rewrite(const void *bytes, uint64_t size_bytes, uint64_t off_mask, char *copy);

#endif
