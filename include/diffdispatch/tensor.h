/*
 * tensor.h - tensors over device memory and the state of their gradients.
 *
 * A tensor is a dtype, a shape of up to 8 extents, strides in elements and an offset over a buffer,
 * plus one bit: whether it requires a gradient. Its gradient is none (it does not require one),
 * empty (logically zero, nothing stored) or present. Backward launches take the gradients of
 * outputs and add to the gradients of inputs.
 */
#ifndef DIFFDISPATCH_TENSOR_H
#define DIFFDISPATCH_TENSOR_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ddisp_tensor ddisp_tensor;

/** Highest rank of a tensor. */
#define DDISP_MAX_RANK 8

/** Type of an element. Differentiable: F16, BF16, F32, F64. */
typedef uint32_t ddisp_dtype;
enum {
    DDISP_DTYPE_ANY = 0,  /**< in a parameter: any; in a tensor: invalid */
    DDISP_DTYPE_BOOL = 1, /**< one byte, 0 or 1 */
    DDISP_DTYPE_U8 = 2,
    DDISP_DTYPE_I8 = 3,
    DDISP_DTYPE_U16 = 4,
    DDISP_DTYPE_I16 = 5,
    DDISP_DTYPE_U32 = 6,
    DDISP_DTYPE_I32 = 7,
    DDISP_DTYPE_U64 = 8,
    DDISP_DTYPE_I64 = 9,
    DDISP_DTYPE_F16 = 10,  /**< IEEE 754 binary16 */
    DDISP_DTYPE_BF16 = 11, /**< upper half of a binary32 */
    DDISP_DTYPE_F32 = 12,
    DDISP_DTYPE_F64 = 13,
};

/** Size of an element in bytes, 0 for unknown dtypes. */
DDISP_API uint32_t ddisp_dtype_size(ddisp_dtype dtype);
/** Name such as "f32"; "unknown" for others. Static string. */
DDISP_API const char *ddisp_dtype_name(ddisp_dtype dtype);

/** The tensor requires a gradient (floating-point dtypes only). */
#define DDISP_TENSOR_REQUIRES_GRAD UINT64_C(1)
/** The tensor is never written: refused as an output, as inout and as a gradient that is added to.
 */
#define DDISP_TENSOR_READ_ONLY UINT64_C(2)
/** Its gradient has the tensor's own dtype; by default gradients of F16 and BF16 tensors are F32.
 */
#define DDISP_TENSOR_GRAD_SAME_DTYPE UINT64_C(4)

/**
 * Allocates a dense row-major tensor, content undefined.
 *   rank   0 to 8; shape: rank extents, each >= 0 (NULL when rank is 0)
 *   flags  DDISP_TENSOR_...
 * Returns OK, INVALID_ARGUMENT (rank, negative extent, dtype, flags, a gradient on an integer
 * dtype), OVERFLOW, OUT_OF_DEVICE_MEMORY, OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_create(ddisp_device *device, ddisp_dtype dtype, uint32_t rank,
                                           const int64_t *shape, uint64_t flags,
                                           ddisp_tensor **out_tensor);
/**
 * Makes a tensor over a buffer, which it keeps alive.
 *   strides  rank strides in elements, any sign, 0 for broadcast; NULL: dense row-major
 *   offset   element of the buffer where index (0, ..., 0) lies
 * The whole index range must lie inside the buffer. The address of element 0 must be aligned to the
 * dtype. Returns OK, INVALID_ARGUMENT, OVERFLOW, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_tensor_create_over(ddisp_buffer *buffer, ddisp_dtype dtype,
                                                uint32_t rank, const int64_t *shape,
                                                const int64_t *strides, int64_t offset,
                                                uint64_t flags, ddisp_tensor **out_tensor);
/**
 * Makes a view: another shape, strides and offset (in elements of the base's buffer) over the same
 * memory. A view of a tensor that requires a gradient requires one too and shares the base's:
 * adding through the view adds into the base. Every element of the view must be an element of the
 * buffer. With gradients, the base must be dense. Returns OK, INVALID_ARGUMENT, OVERFLOW,
 * UNSUPPORTED, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_tensor_as_strided(ddisp_tensor *base, uint32_t rank,
                                               const int64_t *shape, const int64_t *strides,
                                               int64_t offset, ddisp_tensor **out_view);
/** Makes a view of the same memory that does not require a gradient. Returns OK, INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
DDISP_API ddisp_status ddisp_tensor_detach(ddisp_tensor *tensor, ddisp_tensor **out_tensor);
DDISP_API void ddisp_tensor_retain(ddisp_tensor *tensor);
/** Gives a reference back, at any time: memory is freed after the work that uses it. */
DDISP_API void ddisp_tensor_release(ddisp_tensor *tensor);

/** Description of a tensor. */
typedef struct ddisp_tensor_info {
    uint32_t size; /**< sizeof(ddisp_tensor_info) */
    ddisp_dtype dtype;
    uint32_t rank;
    uint32_t grad_state; /**< DDISP_GRAD_STATE_... */
    uint64_t flags;      /**< DDISP_TENSOR_... */
    uint64_t address;    /**< device address of element (0, ..., 0); 0 when it has no elements */
    int64_t numel;       /**< number of elements */
    int64_t shape[8];    /**< first rank extents */
    int64_t strides[8];  /**< first rank strides, in elements, as given at creation */
} ddisp_tensor_info;

/** Describes a tensor. Returns OK or INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_tensor_get_info(ddisp_tensor *tensor, ddisp_tensor_info *out_info);
/** The device of a tensor, without a new reference; NULL for NULL. */
DDISP_API ddisp_device *ddisp_tensor_device(ddisp_tensor *tensor);

/**
 * Copies all elements from or to dense row-major host memory, in stream order (NULL: the device's
 * own stream). size_bytes  exactly numel * element size write returns when data may be reused, read
 * when data is filled. Returns OK, INVALID_ARGUMENT (size_bytes), READ_ONLY, DEVICE_MISMATCH,
 * DEVICE_LOST, DRIVER_ERROR, OUT_OF_MEMORY.
 */
DDISP_API ddisp_status ddisp_tensor_write(ddisp_tensor *tensor, const void *data,
                                          uint64_t size_bytes, ddisp_stream *stream);
DDISP_API ddisp_status ddisp_tensor_read(ddisp_tensor *tensor, void *data, uint64_t size_bytes,
                                         ddisp_stream *stream);

/** State of a gradient. */
typedef uint32_t ddisp_grad_state;
enum {
    DDISP_GRAD_STATE_NONE = 0,    /**< the tensor does not require one */
    DDISP_GRAD_STATE_EMPTY = 1,   /**< logically zero, nothing stored */
    DDISP_GRAD_STATE_PRESENT = 2, /**< stored */
};

/**
 * Switches requires_grad. Switching off drops the gradient. Only on tensors that are no view of
 * another that requires one. Exclusive use of the tensor. Returns OK, INVALID_ARGUMENT (integer
 * dtype, a view, value other than 0 and 1).
 */
DDISP_API ddisp_status ddisp_tensor_set_requires_grad(ddisp_tensor *tensor, uint32_t requires_grad);
/**
 * The gradient as a tensor (one reference): the tensor's shape, gradients have no gradients. An
 * empty gradient is made present first, filled with zeros in order of the device's own stream.
 * Returns OK, NO_GRADIENT (out_grad receives NULL), INVALID_ARGUMENT, OUT_OF_DEVICE_MEMORY,
 * OUT_OF_MEMORY, DEVICE_LOST.
 */
DDISP_API ddisp_status ddisp_tensor_grad(ddisp_tensor *tensor, ddisp_tensor **out_grad);
/**
 * Makes grad's memory the gradient of tensor, replacing what was there. On an output it is the
 * upstream gradient and only read; on an input it is added to in place. The tensor keeps the memory
 * alive. NULL clears. Exclusive use of the tensor. Returns OK, NO_GRADIENT, INVALID_ARGUMENT,
 * SHAPE_MISMATCH, DTYPE_MISMATCH (not a floating-point dtype), DEVICE_MISMATCH.
 */
DDISP_API ddisp_status ddisp_tensor_set_grad(ddisp_tensor *tensor, ddisp_tensor *grad);
/** Makes the gradient empty. Exclusive use of the tensor. Returns OK, NO_GRADIENT,
 * INVALID_ARGUMENT. */
DDISP_API ddisp_status ddisp_tensor_clear_grad(ddisp_tensor *tensor);

/** A tensor that the caller describes in place, for launches without handles. Read during the call
 * only. */
#define DDISP_VIEW_REQUIRES_GRAD DDISP_TENSOR_REQUIRES_GRAD
#define DDISP_VIEW_READ_ONLY     DDISP_TENSOR_READ_ONLY
typedef struct ddisp_tensor_view {
    uint32_t size; /**< sizeof(ddisp_tensor_view) */
    ddisp_dtype dtype;
    uint32_t rank;
    ddisp_dtype grad_dtype; /**< of the argument's explicit gradient addresses; ANY: F32 for F16 and
                               BF16, else dtype */
    uint64_t flags;         /**< DDISP_VIEW_... */
    uint64_t address;       /**< device address of element (0, ..., 0) */
    const int64_t *shape;   /**< rank extents */
    const int64_t *strides; /**< rank strides in elements; NULL: dense row-major */
    const int64_t *grad_add_strides; /**< of the argument's grad_add; NULL: dense row-major, 0 where
                                        strides are 0 */
    const int64_t *grad_read_strides; /**< of the argument's grad_read; NULL: dense row-major */
} ddisp_tensor_view;

#ifdef __cplusplus
}
#endif

#endif
