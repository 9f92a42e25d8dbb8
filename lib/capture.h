/*
 * capture.h - what a capturing stream collects, and the hooks by which the other rooms feed it.
 */
#ifndef DDISP_LIB_CAPTURE_H
#define DDISP_LIB_CAPTURE_H

#include "launch.h"

typedef struct ddisp__capture ddisp__capture;

/** A buffer that recorded work uses; instead of ordering it now, every replay will. */
ddisp_status ddisp__capture_buffer(ddisp__capture *capture, ddisp_buffer *buffer);
/** A tensor whose stored gradient recorded work is about to touch. It is locked. */
ddisp_status ddisp__capture_owner(ddisp__capture *capture, const ddisp__launch *launch,
                                  ddisp_tensor *owner);
/** A launch that the backend recorded. */
ddisp_status ddisp__capture_launch(ddisp__capture *capture, const ddisp__launch *launch,
                                   const ddisp_backend_launch *request);
/** Recorded work uses the sink, which must stay. */
ddisp_status ddisp__capture_sink(ddisp__capture *capture);
/** UNSUPPORTED when stream captures: `what` would need results. */
ddisp_status ddisp__capture_refuse(ddisp_stream *stream, const char *what);

#endif
