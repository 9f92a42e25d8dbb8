/*
 * context.c - contexts: the allocator and log hooks, the environment, and the services lent to
 * backends.
 *
 * In comes a description, checked field by field; out goes a context with its backends loaded.
 * Devices and kernels hold their context, so that it goes last. Log functions are never called
 * under a lock.
 */
#include "lower.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"default", "none", "error", "warning", "info", "debug"};

/* ---- log */

static void log_to_standard_error(ddisp_log_level level, const char *message)
{
    fprintf(stderr, "diffdispatch: %s: %s\n", level_names[level], message);
}

/* Level named by DDISP_LOG, DEFAULT when it is unset or wrong. */
static ddisp_log_level level_from_environment(void)
{
    const char *text = ddisp__environment("DDISP_LOG");
    for (ddisp_log_level level = DDISP_LOG_LEVEL_NONE; text && level <= DDISP_LOG_LEVEL_DEBUG;
         level++) {
        if (!strcmp(text, level_names[level]))
            return level;
    }
    return DDISP_LOG_LEVEL_DEFAULT;
}

void ddisp__context_log(ddisp_context *context, ddisp_log_level level, const char *format, ...)
{
    if (level > context->log_level)
        return;

    char message[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(message, sizeof message, format, values);
    va_end(values);
    if (length < 0)
        return;
    if (context->log)
        context->log(context->log_user_data, level, message);
    else
        log_to_standard_error(level, message);
}

/* ---- services */

static void *service_allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    return ddisp__allocate(NULL, size_bytes);
}

static void service_release(void *self, void *pointer)
{
    (void)self;
    ddisp__release(NULL, pointer);
}

/* Backends log from inside calls that hold locks, where a context's log function may not run. */
static void service_log(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    ddisp_log_level limit = level_from_environment();
    if (limit == DDISP_LOG_LEVEL_DEFAULT)
        limit = DDISP_LOG_LEVEL_WARNING;
    if (message && level >= DDISP_LOG_LEVEL_ERROR && level <= limit)
        log_to_standard_error(level, message);
}

static ddisp_status service_fail(void *self, ddisp_status status, int64_t native_code,
                                 const char *message)
{
    (void)self;
    return ddisp__fail_native(status, native_code, message);
}

const ddisp_backend_services *ddisp__services(void)
{
    static const ddisp_backend_services services = {
        .size = sizeof(ddisp_backend_services),
        .abi = DDISP_BACKEND_ABI,
        .allocate = service_allocate,
        .release = service_release,
        .log = service_log,
        .fail = service_fail,
    };
    return &services;
}

/* ---- creation */

static void *default_allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    return malloc(size_bytes);
}

static void default_release(void *user_data, void *pointer)
{
    (void)user_data;
    free(pointer);
}

static ddisp_status check_directory(const char *field, const char *path)
{
    if (path && path[0] != '/')
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.%s is '%s', which is not an absolute directory", field, path);
    return DDISP_STATUS_OK;
}

/* Checks all that can be checked without making anything. */
static ddisp_status read_desc(const ddisp_context_desc *caller, ddisp_context_desc *out_desc,
                              ddisp_allocator *out_allocator)
{
    *out_desc = (ddisp_context_desc){.size = sizeof *out_desc};
    *out_allocator = (ddisp_allocator){
        .size = sizeof *out_allocator, .allocate = default_allocate, .release = default_release};
    if (!caller)
        return DDISP_STATUS_OK;

    ddisp_status status =
        ddisp__struct_read("desc", caller, sizeof *out_desc, sizeof *out_desc, out_desc);
    if (status != DDISP_STATUS_OK)
        return status;
    if (out_desc->flags & ~DDISP_CONTEXT_DETERMINISTIC)
        return ddisp__fail(
            DDISP_STATUS_INVALID_ARGUMENT, "desc.flags is 0x%llx, known are the bits 0x%llx",
            (unsigned long long)out_desc->flags, (unsigned long long)DDISP_CONTEXT_DETERMINISTIC);
    if (out_desc->next)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.next holds a struct of type %u, which library %s does not know",
                           out_desc->next->type, ddisp_version_string());
    if (out_desc->log_level > DDISP_LOG_LEVEL_DEBUG)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "desc.log_level is %u, must be 0 to %u",
                           out_desc->log_level, DDISP_LOG_LEVEL_DEBUG);
    status = check_directory("backend_path", out_desc->backend_path);
    if (status == DDISP_STATUS_OK)
        status = check_directory("cache_directory", out_desc->cache_directory);
    if (status != DDISP_STATUS_OK || !out_desc->allocator)
        return status;

    status = ddisp__struct_read("desc.allocator", out_desc->allocator, sizeof *out_allocator,
                                sizeof *out_allocator, out_allocator);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_allocator->allocate || !out_allocator->release)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.allocator.%s is NULL; an allocator needs both functions",
                           out_allocator->allocate ? "release" : "allocate");
    return DDISP_STATUS_OK;
}

/* The directory of the kernel cache, "" when there is none; NULL when out of memory. */
static char *find_cache_directory(ddisp_context *context, const char *from_desc)
{
    if (from_desc)
        return ddisp__duplicate_string(context, from_desc);

    static const struct {
        const char *variable, *suffix;
    } places[] = {{"DDISP_CACHE_DIR", ""},
                  {"XDG_CACHE_HOME", "/diffdispatch"},
                  {"HOME", "/.cache/diffdispatch"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *base = ddisp__environment(places[i].variable);
        if (!base)
            continue;
        if (base[0] != '/') {
            ddisp__context_log(context, DDISP_LOG_LEVEL_WARNING,
                               "%s is '%s', which is not an absolute directory; not used",
                               places[i].variable, base);
            continue;
        }
        uint64_t capacity = strlen(base) + strlen(places[i].suffix) + 1;
        char *path = ddisp__allocate(context, capacity);
        if (path)
            snprintf(path, capacity, "%s%s", base, places[i].suffix);
        return path;
    }
    return ddisp__duplicate_string(context, "");
}

static void set_log(ddisp_context *context, const ddisp_context_desc *desc)
{
    context->log = desc->log;
    context->log_user_data = desc->log_user_data;
    context->log_level = desc->log_level;
    if (context->log_level != DDISP_LOG_LEVEL_DEFAULT)
        return;

    context->log_level = level_from_environment();
    if (context->log_level != DDISP_LOG_LEVEL_DEFAULT)
        return;
    context->log_level = DDISP_LOG_LEVEL_WARNING;
    const char *text = ddisp__environment("DDISP_LOG");
    if (text)
        ddisp__context_log(context, DDISP_LOG_LEVEL_WARNING,
                           "DDISP_LOG is '%s'; it can be none, error, warning, info or debug",
                           text);
}

static void destroy(ddisp_context *context)
{
    ddisp__notify_end(context);
    /* In a forked child the driver behind an instance is not this process's. */
    if (context->fork_generation == ddisp__fork_generation())
        ddisp__loader_close(context);
    ddisp__array_clear(context, &context->backends);
    ddisp__array_clear(context, &context->devices);
    ddisp__cache_close(context);
    ddisp__release(context, context->cache_directory);
    (void)pthread_mutex_destroy(&context->lock);
    ddisp_allocator allocator = context->allocator;
    allocator.release(allocator.user_data, context);
}

ddisp_status ddisp_context_create(const ddisp_context_desc *desc, ddisp_context **out_context)
{
    if (!out_context)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_context is NULL");

    ddisp_context_desc known;
    ddisp_allocator allocator;
    ddisp_status status = read_desc(desc, &known, &allocator);
    if (status != DDISP_STATUS_OK)
        return status;

    ddisp_context *context = allocator.allocate(allocator.user_data, sizeof *context);
    if (!context)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a context");
    *context = (ddisp_context){.allocator = allocator};
    context->deterministic = (known.flags & DDISP_CONTEXT_DETERMINISTIC) != 0;
    ddisp__reference_start(&context->reference);
    (void)pthread_mutex_init(&context->lock, NULL);
    ddisp__fork_watch();
    context->fork_generation = ddisp__fork_generation();
    context->trace = ddisp__trace_open();
    context->backends.item_size = sizeof(ddisp__backend);
    context->devices.item_size = sizeof(ddisp_device *);
    set_log(context, &known);

    ddisp__cache_open(context);
    context->cache_directory = find_cache_directory(context, known.cache_directory);
    if (context->cache_directory)
        status = ddisp__loader_run(context, known.backend_path, known.backends);
    else
        status = ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for a path");
    if (status != DDISP_STATUS_OK) {
        destroy(context);
        return status;
    }
    *out_context = context;
    return DDISP_STATUS_OK;
}

void ddisp_context_retain(ddisp_context *context)
{
    if (context)
        ddisp__reference_take(&context->reference);
}

void ddisp_context_release(ddisp_context *context)
{
    if (context && ddisp__reference_drop(&context->reference))
        destroy(context);
}

ddisp_status ddisp__context_check(ddisp_context *context)
{
    if (!context)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "context is NULL");
    if (context->fork_generation != ddisp__fork_generation())
        return ddisp__fail(DDISP_STATUS_FORKED,
                           "this process was forked after the context was created, and drivers do "
                           "not survive that; create contexts after the fork");
    return DDISP_STATUS_OK;
}

/* ---- questions */

ddisp_status ddisp_backend_count(ddisp_context *context, uint32_t *out_count)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    if (!out_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_count is NULL");
    *out_count = context->backends.count;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_backend_get_info(ddisp_context *context, uint32_t index,
                                    ddisp_backend_info *out_info)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    if (index >= context->backends.count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "index is %u, but only %u backends were looked at", index,
                           context->backends.count);
    const ddisp__backend *backend = ddisp__array_at(&context->backends, index);
    return ddisp__struct_write("out_info", out_info, sizeof *out_info, sizeof *out_info,
                               &backend->info);
}

ddisp_status ddisp_context_get_cache_directory(ddisp_context *context, char *buffer,
                                               uint64_t capacity, uint64_t *out_length)
{
    ddisp_status status = ddisp__context_check(context);
    if (status != DDISP_STATUS_OK)
        return status;
    return ddisp__text_write(context->cache_directory, buffer, capacity, out_length);
}
