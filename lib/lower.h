/*
 * lower.h - what the rooms under the tensor (device, stream, buffer) share among themselves. The
 * rooms above use objects.h alone.
 */
#ifndef DDISP_LIB_LOWER_H
#define DDISP_LIB_LOWER_H

#include "objects.h"

/** Whether this process is a fork of the one that made the context: no backend may be called. */
static inline bool ddisp__context_forked(const ddisp_context *context)
{
    return context->fork_generation != ddisp__fork_generation();
}

static inline bool ddisp__device_lost(ddisp_device *device)
{
    return atomic_load_explicit(&device->lost, memory_order_acquire);
}

/** A device of a backend, described but not opened. */
typedef struct ddisp__found {
    const ddisp__backend *backend;
    uint32_t index;
    ddisp_device_info info;
} ddisp__found;

/** The device that a spec names. */
ddisp_status ddisp__device_find(ddisp_context *context, const char *spec, ddisp__found *out_found);

/** Makes a stream's object and the backend's; flags are DDISP_BACKEND_STREAM_... No reference to
 * the device is taken. */
ddisp_status ddisp__stream_make(ddisp_device *device, uint64_t flags, ddisp_stream **out_stream);
/** OK when the ticket's work is done, NOT_READY, or a failure. Locks the stream. */
ddisp_status ddisp__stream_query(ddisp_stream *stream, uint64_t ticket);
/** Waits on the host for the ticket's work. Locks nothing. */
ddisp_status ddisp__stream_await(ddisp_stream *stream, uint64_t ticket, uint64_t timeout_ns);

/** Counts an allocation, or a free. */
void ddisp__buffer_count(ddisp_device *device, ddisp__purpose purpose, uint64_t size_bytes,
                         bool allocated);
/** Frees the object alone. */
void ddisp__buffer_free(ddisp_context *context, ddisp_buffer *buffer);

#endif
