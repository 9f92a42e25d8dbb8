/*
 * dlpack_spec.h - DLPack's structs as its specification lays them out, written apart from the
 * library, and what the tests make of them: tensors that count calls of their deleter.
 */
#ifndef DDISP_TESTS_DLPACK_SPEC_H
#define DDISP_TESTS_DLPACK_SPEC_H

#include "../unit/check.h"

#include <stdatomic.h>
#include <stdbool.h>

struct spec_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct DLManagedTensor {
    struct spec_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};
struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct spec_tensor dl_tensor;
};
enum { SPEC_READ_ONLY = 1, SPEC_IS_COPIED = 2 };
enum { SPEC_INT = 0, SPEC_UINT = 1, SPEC_FLOAT = 2, SPEC_BFLOAT = 4, SPEC_COMPLEX = 5 };

/** A context with the host device, as the tests start from. */
struct host_fixture {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_kernel *square; /* y = x * x on f32, atomic backward */
};
int host_setup(void **state);
int host_teardown(void **state);

/** How often deleters of offers ran in this test. */
extern atomic_int deleted;
/** A tensor of another library, in both structs; it may be changed before it is taken. */
struct offer {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor plain;
    int64_t shape[8], strides[8];
};
/** count f32 elements in one axis. */
void offer_floats(struct offer *offer, float *data, int64_t count);
/** Takes the versioned struct. */
#define TAKE(fixture, offer, flags, out)                                                           \
    ddisp_tensor_from_dlpack_versioned((fixture)->device, &(offer)->versioned, (flags), NULL, (out))

/** Reads f32 elements. */
void read_floats(ddisp_tensor *tensor, float *values, uint64_t count);
/** Launches square. */
ddisp_status square(struct host_fixture *fixture, ddisp_mode mode, ddisp_tensor *x,
                    ddisp_tensor *y);
#define DLPACK_TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)

#endif
