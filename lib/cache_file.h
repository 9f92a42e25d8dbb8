/*
 * cache_file.h - the kernel cache on disk, as artifact.c sees it: bytes kept under a key.
 */
#ifndef DDISP_LIB_CACHE_FILE_H
#define DDISP_LIB_CACHE_FILE_H

#include "bytes.h"

#include <pthread.h>

/** Size of the cache when DDISP_CACHE_SIZE does not say otherwise. */
#define DDISP__CACHE_BYTES (UINT64_C(1) << 30)

/** A context's use of the directory. */
typedef struct ddisp__cache {
    bool on;
    uint64_t limit_bytes;
    pthread_mutex_t lock; /* guards the fields below; never held over a file operation or a log */
    bool entered;         /* the directory was looked at */
    bool usable;          /* it may be read */
    bool writable;        /* no write has failed so far */
    bool warned;
    bool scanning;        /* a thread counts and evicts */
    uint64_t known_bytes; /* in the directory, as far as known */
    uint64_t until_scan;  /* stores until it is counted again: others store too */
} ddisp__cache;

/** Reads DDISP_CACHE and DDISP_CACHE_SIZE; touches no file. */
void ddisp__cache_open(ddisp_context *context);
void ddisp__cache_close(ddisp_context *context);
bool ddisp__cache_on(const ddisp_context *context);

typedef enum ddisp__cache_found {
    DDISP__CACHE_MISS, /* nothing there */
    DDISP__CACHE_BAD,  /* something that cannot be used */
    DDISP__CACHE_HIT,
} ddisp__cache_found;

/** Looks a key up; out_payload receives what was kept under it. Whatever goes wrong is no hit. */
ddisp__cache_found ddisp__cache_read(ddisp_context *context, const ddisp__bytes *key,
                                     ddisp__bytes *out_payload);
/** Keeps a payload under a key. Failures are told once per context, in the log. */
void ddisp__cache_store(ddisp_context *context, const ddisp__bytes *key, const void *payload,
                        uint64_t size_bytes);

/* The entry itself, for cache_file.c and its tests. */

/** Bytes before the key. */
#define DDISP__CACHE_HEAD 48

/** Writes the head of an entry. */
void ddisp__cache_head(const void *key, uint64_t key_size, const void *payload,
                       uint64_t payload_size, uint8_t head[DDISP__CACHE_HEAD]);
/**
 * Whether these are the bytes of an entry of this key; then where its payload lies, else why not in
 * words. Reads nothing beyond size.
 */
bool ddisp__cache_parse(const uint8_t *file, uint64_t size, const void *key, uint64_t key_size,
                        uint64_t *out_offset, uint64_t *out_size, const char **out_why);
/** Length of an entry's file name with its NUL: hash of the key in hexadecimal, ".ddisp". */
#define DDISP__CACHE_NAME (32 + 6 + 1)
void ddisp__cache_name(const void *key, uint64_t key_size, char name[DDISP__CACHE_NAME]);

#endif
