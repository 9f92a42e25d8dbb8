/*
 * backend_support.h - what every backend needs to speak with the core: failing with a formatted
 * message, logging, and zeroed memory. Included by each backend's own files; backends never link
 * the core.
 */
#ifndef DDISP_BACKEND_SUPPORT_H
#define DDISP_BACKEND_SUPPORT_H

#include <diffdispatch/backend.h>

#include <stdarg.h>
#include <stdio.h>

/** Records the error in the core and returns status. */
__attribute__((format(printf, 4, 5))) static inline ddisp_status
backend_fail(const ddisp_backend_services *services, ddisp_status status, int64_t native_code,
             const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return services->fail(services->self, status, native_code, message);
}

__attribute__((format(printf, 3, 4))) static inline void
backend_log(const ddisp_backend_services *services, ddisp_log_level level, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    services->log(services->self, level, message);
}

static inline void *backend_allocate(const ddisp_backend_services *services, uint64_t size_bytes)
{
    return services->allocate(services->self, size_bytes);
}

static inline void backend_release(const ddisp_backend_services *services, void *pointer)
{
    services->release(services->self, pointer);
}

#endif
