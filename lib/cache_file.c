/*
 * cache_file.c - the kernel cache on disk: one file per entry, written under another name and then
 * renamed, so that a reader sees a whole entry or none; found by the hash of its key, believed only
 * when the whole key and a checksum agree. Bounded: least recently used entries go first. Nothing
 * here waits for another process, and no failure is one of the launch: the first is logged, with
 * the path and the setting, and the work goes on without.
 */
#include "cache_file.h"
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries stored by this process before the directory is counted again. */
#define STORES_PER_SCAN 64

/* ---- settings ---- */

/* A number of bytes with K, M or G behind it; 0 when it is none. */
static uint64_t parse_size(const char *text)
{
    static const char units[] = "KMG";
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return 0;
    const char *unit = *at ? strchr(units, *at & ~0x20) : NULL;
    if (*at && (!unit || at[1] || at == text))
        return 0;
    for (uint32_t i = 0; unit && i <= (uint32_t)(unit - units); i++)
        if (__builtin_mul_overflow(value, 1024, &value))
            return 0;
    return value;
}

void ddisp__cache_open(ddisp_context *context)
{
    ddisp__cache *cache = &context->cache;
    const char *on = ddisp__environment("DDISP_CACHE");
    const char *size = ddisp__environment("DDISP_CACHE_SIZE");
    (void)pthread_mutex_init(&cache->lock, NULL);
    cache->on = !on || strcmp(on, "0") != 0;
    cache->limit_bytes = DDISP__CACHE_BYTES;
    if (!size)
        return;
    uint64_t bytes = parse_size(size);
    if (bytes)
        cache->limit_bytes = bytes;
    else
        ddisp__context_log(context, DDISP_LOG_LEVEL_WARNING,
                           "DDISP_CACHE_SIZE is '%s'; it can be a number of bytes, such as "
                           "268435456 or 256M. DDISP_CACHE=0 turns the cache off",
                           size);
}

void ddisp__cache_close(ddisp_context *context)
{
    (void)pthread_mutex_destroy(&context->cache.lock);
}

bool ddisp__cache_on(const ddisp_context *context)
{
    return context->cache.on;
}

/* Once per context. */
static void warn(ddisp_context *context, const char *what, int code)
{
    char reason[128];
    pthread_mutex_lock(&context->cache.lock);
    bool warned = context->cache.warned;
    context->cache.warned = true;
    pthread_mutex_unlock(&context->cache.lock);
    if (warned)
        return;
    ddisp__file_reason(code, reason, sizeof reason);
    if (!context->cache_directory[0])
        (void)snprintf(reason, sizeof reason, "HOME, XDG_CACHE_HOME and DDISP_CACHE_DIR are unset");
    ddisp__context_log(context, DDISP_LOG_LEVEL_WARNING,
                       "kernel cache '%s' %s (%s): compiled code is not kept there. Set "
                       "DDISP_CACHE_DIR to a directory that this user owns and may write, or "
                       "DDISP_CACHE=0 to do without",
                       context->cache_directory, what, reason);
}

/* ---- the directory ---- */

static void sweep(void *user, const char *name)
{
    const ddisp_context *context = user;
    ddisp__file_sweep(context->cache_directory, name);
}

/* Makes the directory, at first use, and removes what writers that were killed left there. False
 * when it cannot be used. */
static bool enter(ddisp_context *context)
{
    ddisp__cache *cache = &context->cache;
    pthread_mutex_lock(&cache->lock);
    bool entered = cache->entered, usable = cache->usable;
    pthread_mutex_unlock(&cache->lock);
    if (entered)
        return usable;
    int code = ddisp__directory_make(context->cache_directory);
    if (code == 0)
        code = ddisp__directory_private(context->cache_directory);
    pthread_mutex_lock(&cache->lock);
    cache->entered = true;
    cache->usable = cache->writable = code == 0;
    pthread_mutex_unlock(&cache->lock);
    if (code == 0)
        (void)ddisp__directory_list(context->cache_directory, sweep, context);
    else
        warn(context, "cannot be used", code);
    return code == 0;
}

static void give_up_writing(ddisp_context *context, int code)
{
    pthread_mutex_lock(&context->cache.lock);
    context->cache.writable = false;
    pthread_mutex_unlock(&context->cache.lock);
    warn(context, "cannot be written", code);
}

/* ---- bound ---- */

typedef struct kept {
    uint64_t size_bytes, used_ns;
    char name[DDISP__CACHE_NAME];
} kept;

typedef struct census {
    ddisp_context *context;
    ddisp__array files; /* of kept */
    uint64_t total_bytes;
} census;

static bool is_entry(const char *name)
{
    size_t length = strlen(name);
    return length == DDISP__CACHE_NAME - 1 && strspn(name, "0123456789abcdef") == 32 &&
           strcmp(name + 32, ".ddisp") == 0;
}

static void count(void *user, const char *name)
{
    census *c = user;
    kept file;
    ddisp__file_sweep(c->context->cache_directory, name);
    if (!is_entry(name) ||
        !ddisp__file_figures(c->context->cache_directory, name, &file.size_bytes, &file.used_ns))
        return;
    kept *item = ddisp__array_push(c->context, &c->files);
    if (!item)
        return;
    memcpy(file.name, name, sizeof file.name);
    *item = file;
    c->total_bytes += file.size_bytes;
}

static int by_use(const void *a, const void *b)
{
    uint64_t first = ((const kept *)a)->used_ns, second = ((const kept *)b)->used_ns;
    return (first > second) - (first < second);
}

/* Counts what is kept and removes the least recently used until 7/8 of the bound is left. */
static uint64_t evict(ddisp_context *context)
{
    census c = {.context = context, .files = {.item_size = (uint32_t)sizeof(kept)}};
    uint64_t limit = context->cache.limit_bytes;
    (void)ddisp__directory_list(context->cache_directory, count, &c);
    if (c.total_bytes > limit && c.files.count) {
        qsort(c.files.items, c.files.count, sizeof(kept), by_use);
        for (uint32_t i = 0; i < c.files.count && c.total_bytes > limit - limit / 8; i++) {
            const kept *file = ddisp__array_at(&c.files, i);
            ddisp__file_remove(context->cache_directory, file->name);
            c.total_bytes -= file->size_bytes;
        }
    }
    ddisp__array_clear(context, &c.files);
    return c.total_bytes;
}

/* Notes that an entry was stored. One thread at a time counts; others go on. */
static void keep_bound(ddisp_context *context, uint64_t size_bytes)
{
    ddisp__cache *cache = &context->cache;
    pthread_mutex_lock(&cache->lock);
    cache->known_bytes += size_bytes;
    bool due = cache->until_scan == 0 || cache->known_bytes > cache->limit_bytes;
    bool scan = due && !cache->scanning;
    if (scan)
        cache->scanning = true;
    if (cache->until_scan)
        cache->until_scan--;
    pthread_mutex_unlock(&cache->lock);
    if (!scan)
        return;
    uint64_t total = evict(context);
    pthread_mutex_lock(&cache->lock);
    cache->scanning = false;
    cache->known_bytes = total;
    cache->until_scan = STORES_PER_SCAN;
    pthread_mutex_unlock(&cache->lock);
}

/* ---- reading and storing ---- */

ddisp__cache_found ddisp__cache_read(ddisp_context *context, const ddisp__bytes *key,
                                     ddisp__bytes *out_payload)
{
    char name[DDISP__CACHE_NAME];
    if (!enter(context))
        return DDISP__CACHE_MISS;
    ddisp__cache_name(key->data, key->size, name);
    ddisp__bytes file = {.context = context};
    int code = ddisp__file_load(context->cache_directory, name, context->cache.limit_bytes, &file);
    if (code) {
        ddisp__bytes_clear(&file);
        return ddisp__file_absent(code) ? DDISP__CACHE_MISS : DDISP__CACHE_BAD;
    }
    const char *why;
    uint64_t offset, size_bytes;
    bool whole =
        ddisp__cache_parse(file.data, file.size, key->data, key->size, &offset, &size_bytes, &why);
    if (whole) {
        ddisp__bytes_put(out_payload, file.data + offset, size_bytes);
        whole = !out_payload->failed;
    } else {
        ddisp__context_log(context, DDISP_LOG_LEVEL_INFO,
                           "kernel cache: entry '%s/%s' is not used: %s; it is made anew",
                           context->cache_directory, name, why);
    }
    ddisp__bytes_clear(&file);
    return whole ? DDISP__CACHE_HIT : DDISP__CACHE_BAD;
}

void ddisp__cache_store(ddisp_context *context, const ddisp__bytes *key, const void *payload,
                        uint64_t size_bytes)
{
    ddisp__cache *cache = &context->cache;
    char name[DDISP__CACHE_NAME];
    uint8_t head[DDISP__CACHE_HEAD];
    pthread_mutex_lock(&cache->lock);
    bool writable = cache->writable;
    pthread_mutex_unlock(&cache->lock);
    uint64_t total = sizeof head + key->size + size_bytes;
    if (!writable || total > cache->limit_bytes)
        return;
    ddisp__cache_name(key->data, key->size, name);
    ddisp__cache_head(key->data, key->size, payload, size_bytes, head);
    const ddisp__file_part parts[3] = {
        {head, sizeof head}, {key->data, key->size}, {payload, size_bytes}};
    int code = ddisp__file_store(context->cache_directory, name, parts, 3);
    if (code && ddisp__file_absent(code) && /* the directory went away */
        ddisp__directory_make(context->cache_directory) == 0)
        code = ddisp__file_store(context->cache_directory, name, parts, 3);
    if (code)
        give_up_writing(context, code);
    else
        keep_bound(context, total);
}
