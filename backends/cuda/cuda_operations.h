/*
 * cuda_operations.h - what the rooms behind fill_elements, accumulate and scatter_add share. All
 * functions are called with the context current.
 */
#ifndef DDISP_CUDA_OPERATIONS_H
#define DDISP_CUDA_OPERATIONS_H

#include "cuda_axes.h"
#include "cuda_internal.h"

/** Queues one of the backend's own kernels with its work (work.h). No groups: nothing to do. */
ddisp_status cuda__builtin_launch(cuda__device *device, cuda__stream *stream, uint32_t kernel,
                                  uint64_t groups, uint32_t shared_bytes, const void *work);
/** Groups of a kernel that fill the device. */
ddisp_status cuda__builtin_fill(cuda__device *device, uint32_t kernel, uint32_t shared_bytes,
                                uint64_t *out_groups);

/** Memory that an operation computes in: the stream's, given back behind the operation, or, while
 * the stream records, the graph's. */
ddisp_status cuda__work_take(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                             cu__address *out_address);
void cuda__work_give(cuda__device *device, cuda__stream *stream, cu__address address);
/** The graph's part of it (cuda_graph.c). */
ddisp_status cuda__graph_memory(cuda__device *device, cuda__stream *stream, uint64_t size_bytes,
                                cu__address *out_address);

/** Size of an element in bytes. */
static inline int64_t cuda__dtype_size(ddisp_dtype dtype)
{
    static const uint8_t sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dtype < sizeof sizes ? sizes[dtype] : 0;
}

static inline bool cuda__dtype_is_half(ddisp_dtype dtype)
{
    return dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16;
}

/** destination += alpha * source where the destination has strides of 0 (cuda_reduce.c). */
ddisp_status cuda__reduce(cuda__device *device, cuda__stream *stream,
                          const ddisp_backend_tensor *destination,
                          const ddisp_backend_tensor *source, double alpha);

#endif
