/*
 * layout.h - arithmetic of shapes and strides, all of it checked in 64 bits.
 */
#ifndef DDISP_LIB_LAYOUT_H
#define DDISP_LIB_LAYOUT_H

#include <diffdispatch/tensor.h>

#include <stdbool.h>

/** Shape and strides, in elements. Entries past rank are extent 1, stride 0. */
typedef struct ddisp__layout {
    uint32_t rank;
    bool dense; /* known to be dense row-major; false: not looked at. Whoever changes strides or
                   shape clears it. */
    int64_t shape[DDISP_MAX_RANK];
    int64_t strides[DDISP_MAX_RANK];
    int64_t numel;
} ddisp__layout;

/** Bytes that a layout touches, from low (inclusive) to high (exclusive), relative to index (0,
 * ..., 0). */
typedef struct ddisp__span {
    int64_t low, high;
} ddisp__span;

/** Checks and fills a layout; strides NULL: dense row-major. `what` names the argument in messages.
 */
ddisp_status ddisp__layout_make(const char *what, ddisp_dtype dtype, uint32_t rank,
                                const int64_t *shape, const int64_t *strides,
                                ddisp__layout *out_layout);
/** Dense row-major layout of the same shape, with stride 0 where like has stride 0 and
 * keep_broadcast is set. */
void ddisp__layout_dense(const ddisp__layout *like, bool keep_broadcast, ddisp__layout *out_layout);
/** Whether element k in row-major order lies k elements behind element 0 (axes of extent 1 do not
 * count). */
static inline bool ddisp__layout_is_dense(const ddisp__layout *layout)
{
    int64_t expected = 1;
    if (layout->dense)
        return true;
    for (uint32_t i = layout->rank; i-- > 0; expected *= layout->shape[i])
        if (layout->strides[i] != expected && layout->shape[i] != 1)
            return false;
    return true;
}
/** The same for a layout that is not known to be dense. */
ddisp__span ddisp__layout_span_of_others(const ddisp__layout *layout, uint32_t element_size);
/** Byte span; both 0 for no elements. Checked at make time to fit. */
static inline ddisp__span ddisp__layout_span(const ddisp__layout *layout, uint32_t element_size)
{
    return layout->dense ? (ddisp__span){0, layout->numel * (int64_t)element_size}
                         : ddisp__layout_span_of_others(layout, element_size);
}
/** Smallest class that holds it: DDISP_LAYOUT_DENSE, STRIDED or BROADCAST (size-1 and 0-element
 * axes do not count). */
uint32_t ddisp__layout_class(const ddisp__layout *layout);
/** Strides mean the same addresses (size-1 axes do not count) and shapes are equal. */
bool ddisp__layout_equal(const ddisp__layout *a, const ddisp__layout *b);
bool ddisp__layout_same_shape(const ddisp__layout *a, const ddisp__layout *b);
/** Two indices may share an address (by strides of 0 or otherwise). Exact for sorted, nested
 * strides, else true. */
bool ddisp__layout_self_overlaps(const ddisp__layout *layout);
/** Whether two tensors at byte addresses may share a byte. False is certain, true is certain for
 * dense layouts. */
bool ddisp__layout_overlap(uint64_t address_a, const ddisp__layout *a, uint32_t size_a,
                           uint64_t address_b, const ddisp__layout *b, uint32_t size_b);
/** Elements in memory, not counting repetitions by stride 0. */
int64_t ddisp__layout_stored(const ddisp__layout *layout);
/** Writes "f32[2,3]". */
void ddisp__layout_format(ddisp_dtype dtype, const ddisp__layout *layout, char *text,
                          size_t capacity);

/** A value as the bits of a floating-point dtype, rounded to nearest even. */
uint64_t ddisp__float_bits(ddisp_dtype dtype, double value);
bool ddisp__dtype_valid(ddisp_dtype dtype);
bool ddisp__dtype_differentiable(ddisp_dtype dtype);
/** F32 for F16 and BF16 (unless same is set), else dtype. */
static inline ddisp_dtype ddisp__dtype_gradient(ddisp_dtype dtype, bool same)
{
    return !same && (dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16) ? DDISP_DTYPE_F32
                                                                            : dtype;
}
/** Bytes of an element; 0: no such dtype. Four bits each, from ANY on. */
static inline uint32_t ddisp__dtype_size(ddisp_dtype dtype)
{
    return dtype <= DDISP_DTYPE_F64 ? (uint32_t)(UINT64_C(0x84228844221110) >> 4 * dtype & 15) : 0;
}

#endif
