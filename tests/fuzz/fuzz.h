/*
 * fuzz.h - what the fuzz targets share. Each target is one function, which libFuzzer calls with
 * ever new bytes, and replay.c with those of the corpus. A property that does not hold ends the
 * process.
 */
#ifndef DDISP_TESTS_FUZZ_H
#define DDISP_TESTS_FUZZ_H

#include <diffdispatch/backend.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Ends the process when a property does not hold. */
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/** Copy of bytes in memory of exactly that size, so that a sanitizer sees every read beyond. */
static inline uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        exit(0);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

/* ---- services for backends without a core */

static inline void *fuzz_allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    return size_bytes > UINT64_C(1) << 30 ? NULL : calloc(1, size_bytes ? size_bytes : 1);
}

static inline void fuzz_release(void *self, void *pointer)
{
    (void)self;
    free(pointer);
}

static inline void fuzz_log(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    (void)level;
    HOLDS(message != NULL);
}

/* A failure has a reason in words. */
static inline ddisp_status fuzz_fail(void *self, ddisp_status status, int64_t native_code,
                                     const char *message)
{
    (void)self;
    (void)native_code;
    HOLDS(status != DDISP_STATUS_OK);
    HOLDS(message && message[0]);
    return status;
}

static const ddisp_backend_services fuzz_services = {.size = sizeof(ddisp_backend_services),
                                                     .abi = DDISP_BACKEND_ABI,
                                                     .allocate = fuzz_allocate,
                                                     .release = fuzz_release,
                                                     .log = fuzz_log,
                                                     .fail = fuzz_fail};

#endif
