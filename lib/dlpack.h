/*
 * dlpack.h - the structs of DLPack 1.x, laid out as its specification says and declared here since
 * not every system has a header with all of them; and their element types.
 */
#ifndef DDISP_LIB_DLPACK_H
#define DDISP_LIB_DLPACK_H

#include <diffdispatch/dlpack.h>

#include <stddef.h>

/** Kinds of memory. */
enum {
    DDISP__DLPACK_CPU = 1,
    DDISP__DLPACK_CUDA_HOST = 3,  /* pinned: host memory */
    DDISP__DLPACK_ROCM_HOST = 11, /* pinned: host memory */
};

/** Flags of a versioned tensor. */
enum {
    DDISP__DLPACK_READ_ONLY = 1,
    DDISP__DLPACK_IS_COPIED = 2,
};

#define DDISP__DLPACK_MAJOR 1
#define DDISP__DLPACK_MINOR 1

typedef struct ddisp__dlpack_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} ddisp__dlpack_dtype;

typedef struct ddisp__dlpack_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    ddisp__dlpack_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense row-major */
    uint64_t byte_offset;
} ddisp__dlpack_tensor;

struct DLManagedTensor {
    ddisp__dlpack_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    ddisp__dlpack_tensor dl_tensor;
};

_Static_assert(sizeof(ddisp__dlpack_tensor) == 48, "DLTensor");
_Static_assert(offsetof(ddisp__dlpack_tensor, byte_offset) == 40, "DLTensor");
_Static_assert(sizeof(struct DLManagedTensor) == 64, "DLManagedTensor");
_Static_assert(offsetof(struct DLManagedTensorVersioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");
_Static_assert(sizeof(struct DLManagedTensorVersioned) == 80, "DLManagedTensorVersioned");

/** Element type of DLPack for a valid dtype. */
ddisp__dlpack_dtype ddisp__dlpack_dtype_of(ddisp_dtype dtype);
/** The other way; DDISP_DTYPE_ANY when there is none. */
ddisp_dtype ddisp__dlpack_dtype_from(ddisp__dlpack_dtype dtype);
/** Writes "complex64" or "float32x4". */
void ddisp__dlpack_dtype_format(ddisp__dlpack_dtype dtype, char *text, size_t capacity);

#endif
