/*
 * bytes.h - a growing run of bytes, written field by field: what is hashed, and what files hold.
 * Numbers are little-endian, so that the bytes are the same in every process and build.
 */
#ifndef DDISP_LIB_BYTES_H
#define DDISP_LIB_BYTES_H

#include "memory.h"

/** Zero-initialize, set context. Out of memory sets failed; whoever reads the bytes asks for it. */
typedef struct ddisp__bytes {
    ddisp_context *context;
    uint8_t *data;
    uint64_t size, capacity;
    bool failed;
} ddisp__bytes;

void ddisp__bytes_put(ddisp__bytes *bytes, const void *data, uint64_t size_bytes);
/** The low `width` bytes of a number, 1 to 8. */
void ddisp__bytes_number(ddisp__bytes *bytes, uint64_t number, uint32_t width);
/** Length in 4 bytes, then the text without its NUL. */
void ddisp__bytes_text(ddisp__bytes *bytes, const char *text);
void ddisp__bytes_clear(ddisp__bytes *bytes);

#endif
