/*
 * ddisp_block.h - the standard argument block, as host, CUDA and Vulkan kernels see it.
 *
 * A header, then one view per tensor parameter in parameter order, then one 8-byte slot per scalar
 * parameter in parameter order (the value in its low bytes). The layout is ABI: it is compiled into
 * users' kernels. CUDA kernels take the block by value as their only parameter (by pointer when it
 * is larger than 4096 bytes), Vulkan kernels find its address in an 8-byte push constant, host
 * kernels get a pointer.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_BLOCK_H
#define DIFFDISPATCH_DEVICE_DDISP_BLOCK_H

#if !defined(__CUDACC_RTC__) || defined(DDISP_HAVE_STDINT)
#include <stdint.h>
#else /* NVRTC comes without <stdint.h>; these are the types that its libcu++ declares */
typedef int int32_t;
typedef long long int64_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#endif

/** Version of the layout below. */
#define DDISP_BLOCK_ABI 1

/** flags of a ddisp_device_tensor */
#define DDISP_DEVICE_TENSOR_REQUIRES_GRAD 1u /* grad_add is a gradient that counts */
#define DDISP_DEVICE_TENSOR_HAS_UPSTREAM  2u /* grad_read is an upstream gradient */
/* grad_add is an array of 64-bit integers (deterministic mode): a gradient v is added to the one
 * that add_stride indexes as round(v * scale), to even. f64 gradients take two integers per
 * element, floor(v * scale) and round((v * scale - floor(v * scale)) * 2^30). Where v is not
 * finite, bit 0 of the 32 bits at sticky is set instead; where |v * scale| > limit (limit 0:
 * >= 2^62), bit 1. */
#define DDISP_DEVICE_TENSOR_SHADOW 4u
/* With SHADOW: nothing is added, and grad_add is not touched. The 64 bits at sticky + 8 become the
 * largest magnitude of all v, as the bits of an f32 (f64 for f64 tensors); those at sticky + 16
 * count the v. */
#define DDISP_DEVICE_TENSOR_BOUND 8u
/* The elements of data, grad_add or grad_read lie one behind the other in row-major order, and
 * there are as many as items: item i is i elements behind the address. Without the flag only the
 * strides tell. */
#define DDISP_DEVICE_TENSOR_DENSE      16u
#define DDISP_DEVICE_TENSOR_ADD_DENSE  32u
#define DDISP_DEVICE_TENSOR_READ_DENSE 64u

/** Head of the block: 32 bytes. */
typedef struct ddisp_block {
    uint32_t abi;          /* DDISP_BLOCK_ABI */
    uint32_t size_bytes;   /* of the whole block */
    uint64_t items;        /* work items */
    uint32_t tensor_count; /* views that follow */
    uint32_t scalar_count; /* 8-byte slots behind them */
    uint64_t flags;        /* zero */
} ddisp_block;

/** A tensor as a kernel sees it: 320 bytes. Addresses are of element (0, ..., 0); strides are in
 * elements. */
typedef struct ddisp_device_tensor {
    uint64_t data;       /* 0 when the tensor has no elements */
    uint64_t grad_add;   /* backward, in and inout: add here; 0 when there is nothing to add to */
    uint64_t grad_read;  /* backward, out and inout: upstream gradient; 0 when absent */
    uint32_t dtype;      /* DDISP_DTYPE_... of data */
    uint32_t grad_dtype; /* DDISP_DTYPE_... of both gradients */
    uint32_t flags;      /* DDISP_DEVICE_TENSOR_... */
    uint32_t rank;       /* entries used in the arrays; the rest are extent 1, stride 0 */
    int64_t shape[8];
    int64_t stride[8];      /* of data */
    int64_t add_stride[8];  /* of grad_add */
    int64_t read_stride[8]; /* of grad_read */
    double scale;           /* deterministic mode; else 0 */
    uint64_t sticky;        /* deterministic mode: address of the overflow flag; else 0 */
    double limit;           /* deterministic mode: a power of two, see SHADOW; else 0 */
} ddisp_device_tensor;

/** View of tensor parameter i (counting tensor parameters only) of a block in memory. */
#define DDISP_BLOCK_TENSOR(block, i)                                                               \
    ((const ddisp_device_tensor *)(const void *)((const unsigned char *)(block) +                  \
                                                 sizeof(ddisp_block)) +                            \
     (i))
/** Address of the slot of scalar parameter i (counting scalar parameters only) of a block in
 * memory. */
#define DDISP_BLOCK_SCALAR(block, i)                                                               \
    ((const void *)((const unsigned char *)(block) + sizeof(ddisp_block) +                         \
                    (block)->tensor_count * sizeof(ddisp_device_tensor) + 8u * (i)))

#endif
