/*
 * status.h - the core's only way to fail: record this thread's error and return its status.
 */
#ifndef DDISP_LIB_STATUS_H
#define DDISP_LIB_STATUS_H

#include <diffdispatch/base.h>

#include <stdarg.h>

/** Records the error and returns status: `return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "rank:
 * ...", ...)`. */
ddisp_status ddisp__fail(ddisp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** The same for launch argument `argument`. */
ddisp_status ddisp__fail_argument(ddisp_status status, int32_t argument, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Records an error that carries a driver's code. message is taken as it is. */
ddisp_status ddisp__fail_native(ddisp_status status, int64_t native_code, const char *message);
/** This thread's last error. Never NULL. */
const ddisp_error *ddisp__error(void);
/** Puts a saved error back. */
void ddisp__error_restore(const ddisp_error *error);

/**
 * Checks a caller's struct: size from first_size to 4096, a tail beyond known_size all zero. Copies
 * what is known into out (known_size bytes, rest zeroed). name is used in the message: "desc".
 */
ddisp_status ddisp__struct_read(const char *name, const void *caller, uint32_t first_size,
                                uint32_t known_size, void *out);
/** Checks a caller's out struct the same way, then copies the first min(size, known_size) bytes of
 * value into it. */
ddisp_status ddisp__struct_write(const char *name, void *caller, uint32_t first_size,
                                 uint32_t known_size, const void *value);
/** Copies text into the caller's buffer, cut and terminated; BUFFER_TOO_SMALL when cut. Sets
 * out_length. */
ddisp_status ddisp__text_write(const char *text, char *buffer, uint64_t capacity,
                               uint64_t *out_length);

#endif
