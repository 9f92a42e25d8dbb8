/*
 * dlpack.h - tensors handed to and taken from other libraries without a copy, through DLPack
 * (https://dmlc.github.io/dlpack): both the struct with a version (1.x) and the older one.
 *
 * DLPack's structs are named here by their tags alone, so that this header agrees with any dlpack.h
 * that a program also includes, and needs none. DLPack does not carry streams or requires_grad:
 * both are passed beside it.
 */
#ifndef DIFFDISPATCH_DLPACK_H
#define DIFFDISPATCH_DLPACK_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/** Import: what the producer flags as a copy may be written. Without it such a tensor is taken as
 * READ_ONLY, since its producer never sees what is written. */
#define DDISP_DLPACK_WRITE_COPY UINT64_C(0x100000000)

/**
 * Takes over a tensor from another library. Its memory must be the device's: DLPack's device type
 * and number as in ddisp_device_info (pinned host memory counts as host memory).
 *   managed     on success the library's: its deleter is called once, after the work that uses the
 *               memory, inside some ddisp call, never under a lock; it may be NULL. On failure it
 *               stays the caller's, untouched. One that the library holds already is refused
 *   flags       DDISP_TENSOR_..., also REQUIRES_GRAD, and DDISP_DLPACK_WRITE_COPY. READ_ONLY is
 * added where the producer says so; the older struct cannot say it, so its tensors may be written
 * unless READ_ONLY is given stream      where work that still fills the memory is queued: work on
 * other streams of the device then waits for it; NULL: the memory is ready Strides may be NULL
 * (dense row-major), zero or negative. Returns OK, INVALID_ARGUMENT (a rank, extent, alignment,
 * flag or address that cannot be; held already), INCOMPATIBLE (major version), DEVICE_MISMATCH,
 * UNSUPPORTED (dtype, lanes, rank above 8, kind of memory), OVERFLOW, OUT_OF_MEMORY, DRIVER_ERROR,
 * DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_from_dlpack_versioned(ddisp_device *device,
                                                          struct DLManagedTensorVersioned *managed,
                                                          uint64_t flags, ddisp_stream *stream,
                                                          ddisp_tensor **out_tensor);
DDISP_API ddisp_status ddisp_tensor_from_dlpack(ddisp_device *device,
                                                struct DLManagedTensor *managed, uint64_t flags,
                                                ddisp_stream *stream, ddisp_tensor **out_tensor);

/**
 * Hands a tensor to another library, without its gradient. The memory lives until the deleter is
 * called, from any thread. Strides are as given at creation and never NULL.
 *   stream       where the consumer will use it: what was queued so far is ordered before that
 *                stream's later work; NULL: the call waits for it
 *   out_managed  the caller's, who calls its deleter when nobody took it
 * A READ_ONLY tensor is flagged so; the older struct cannot say it, which is refused. Returns OK,
 * INVALID_ARGUMENT, DEVICE_MISMATCH (stream), READ_ONLY (older struct), UNSUPPORTED (addresses of
 * the device mean nothing to others), OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_to_dlpack_versioned(
    ddisp_tensor *tensor, ddisp_stream *stream, struct DLManagedTensorVersioned **out_managed);
DDISP_API ddisp_status ddisp_tensor_to_dlpack(ddisp_tensor *tensor, ddisp_stream *stream,
                                              struct DLManagedTensor **out_managed);

#ifdef __cplusplus
}
#endif

#endif
