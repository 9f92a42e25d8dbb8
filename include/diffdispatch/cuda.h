/*
 * cuda.h - what a program hands over that uses CUDA itself. No header of CUDA is needed: its
 * handles are pointers and numbers here.
 *
 * Streams are wrapped with ddisp_stream_wrap(device, (uint64_t)(uintptr_t)cu_stream, ...), memory
 * with ddisp_buffer_wrap(device, device_pointer, ...). docs/streams.md has the rules.
 */
#ifndef DIFFDISPATCH_CUDA_H
#define DIFFDISPATCH_CUDA_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Type of a ddisp_cuda_device_desc. */
#define DDISP_CHAIN_CUDA_DEVICE 0x40010001u

/**
 * A context of the application, for ddisp_device_wrap(context, "cuda", &desc.head, ...). Work runs
 * in this context, which need not be the device's primary one. The context that is current on a
 * calling thread is left as it was found.
 */
typedef struct ddisp_cuda_device_desc {
    ddisp_chain head; /**< sizeof(ddisp_cuda_device_desc), DDISP_CHAIN_CUDA_DEVICE, NULL */
    void *context;    /**< CUcontext */
} ddisp_cuda_device_desc;

#ifdef __cplusplus
}
#endif

#endif
