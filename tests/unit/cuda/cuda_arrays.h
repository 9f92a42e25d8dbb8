/*
 * cuda_arrays.h - tensors in the stand-in driver's memory, which is the host's, for the tests of
 * the CUDA backend's own kernels: made between guards, filled by chance, and compared as whole
 * buffers.
 */
#ifndef CUDA_ARRAYS_H
#define CUDA_ARRAYS_H

#include "cuda_fixture.h"

/** The dtypes that are added. */
extern const ddisp_dtype floats[4];

typedef struct array {
    ddisp_backend_memory memory;
    ddisp_backend_tensor tensor;
    uint64_t size_bytes;
} array;

/** Bytes of an element. */
int size_of(ddisp_dtype dtype);
/** Elements as numbers: rounded to nearest. */
void put(ddisp_dtype dtype, void *at, double value);
double get(ddisp_dtype dtype, const void *at);
/** By chance, the same in every run. */
uint32_t below(uint32_t limit);
int64_t numel(const ddisp_backend_tensor *tensor);
/** Place of element n in the order of the indices. */
unsigned char *element(const ddisp_backend_tensor *tensor, int64_t n);
/** Between guards; strides in elements. */
array make(ddisp_dtype dtype, uint32_t rank, const int64_t *shape, const int64_t *strides);
void drop(array *it);
/** Integers of magnitude `most` at the most. */
void fill_small(array *it, int most);
/** Without overlap, in any order and direction, with gaps; axes of `zero` repeat. */
void any_strides(uint32_t rank, const int64_t *shape, uint32_t zero, int64_t *strides);
void dense(uint32_t rank, const int64_t *shape, int64_t *strides);
void any_shape(uint32_t rank, int64_t most, int64_t *shape);
/** All bytes of an array are as expected. */
void same(const array *got, const unsigned char *expected, const char *what);
/** A copy of all its bytes, and an element in it. */
unsigned char *image(const array *it);
unsigned char *in_image(const array *it, unsigned char *copy, int64_t n);

/** A device whose kernels run on the processor, with a stream. */
int arrays_open(void **state);
#define ARRAYS_CASE(name) cmocka_unit_test_setup_teardown(name, arrays_open, fixture_close)

#endif
