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

/** Makes a device of an instance: `native` the application's, or NULL: device found->index. */
ddisp_status ddisp__device_make(ddisp_context *context, const ddisp__found *found,
                                const ddisp_chain *native, ddisp_device **out_device);
/** A backend with an instance, by the first `length` bytes of name. NOT_FOUND,
 * BACKEND_UNAVAILABLE. */
ddisp_status ddisp__backend_usable(ddisp_context *context, const char *name, size_t length,
                                   const ddisp__backend **out_backend);
/** The device that a spec names. */
ddisp_status ddisp__device_find(ddisp_context *context, const char *spec, ddisp__found *out_found);

/** Makes a stream's object and the backend's; flags are DDISP_BACKEND_STREAM_... No reference to
 * the device is taken. */
ddisp_status ddisp__stream_make(ddisp_device *device, uint64_t flags, ddisp_stream **out_stream);
/** OK when the ticket's work is done, NOT_READY, or a failure. Locks the stream. */
ddisp_status ddisp__stream_query(ddisp_stream *stream, uint64_t ticket);
/** Waits on the host for the ticket's work. Locks nothing. */
ddisp_status ddisp__stream_await(ddisp_stream *stream, uint64_t ticket, uint64_t timeout_ns);

/** Runs release functions of lent memory whose work is done; holds the device meanwhile. */
void ddisp__stream_reap(ddisp_device *device);

/** Has a function called when the ticket's work is done; stream NULL: there is none. */
ddisp_status ddisp__notify_add(ddisp_device *device, ddisp_stream *stream, uint64_t ticket,
                               ddisp_notify_function function, void *user_data);
/** Ends the context's thread for functions of the host, if there is one; none is waiting. */
void ddisp__notify_end(ddisp_context *context);

/** Leave to hand out so many bytes: to be left when they are not, or no more (which
 * ddisp__buffer_count does). OUT_OF_DEVICE_MEMORY beyond the device's limit. */
ddisp_status ddisp__pool_enter(ddisp_device *device, uint64_t size_bytes);
void ddisp__pool_leave(ddisp_device *device, uint64_t size_bytes);
/** After an allocation: what the backend keeps is given back when it is beyond the limit. */
void ddisp__pool_keep_limit(ddisp_device *device);
/** Gives back what the backend keeps for later allocations. */
ddisp_status ddisp__pool_trim(ddisp_device *device);
/** Fills in what the backend counts. */
void ddisp__pool_statistics(ddisp_device *device, ddisp_device_statistics *statistics);
/** Counts an allocation, or a free. */
void ddisp__buffer_count(ddisp_device *device, ddisp__purpose purpose, uint64_t size_bytes,
                         bool allocated);
/** Frees the object alone. */
void ddisp__buffer_free(ddisp_context *context, ddisp_buffer *buffer);

#endif
