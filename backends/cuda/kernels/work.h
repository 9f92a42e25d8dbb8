/*
 * work.h - what the host hands to the backend's own kernels: one struct each, by value. Read by C
 * (cuda_accumulate.c and its neighbours) and by CUDA C++ (the .cu files here).
 *
 * Axes are collapsed and sorted before they come here: the last is the innermost. Strides are in
 * bytes, unless said. Nothing here depends on the device.
 */
#ifndef DDISP_CUDA_WORK_H
#define DDISP_CUDA_WORK_H

#include <stdint.h>

/** Threads of every group, and elements that a thread takes in element-wise work. */
#define WORK_GROUP 256
#define WORK_BATCH 4

/** Element types, as ddisp_dtype numbers them. */
enum { WORK_F16 = 10, WORK_BF16 = 11, WORK_F32 = 12, WORK_F64 = 13, WORK_I32 = 7, WORK_I64 = 9 };

/** A device address. Kernels see a pointer, which lets the compiler know that it is global. */
#ifdef __cplusplus
typedef char *work_address;
#else
typedef uint64_t work_address;
#endif

/** Extents, and how to divide by them: n / extent is (high half of n * magic, plus n) >> shift, for
 * n below 2^63. */
typedef struct work_axes {
    uint64_t count; /* product of the extents */
    uint32_t rank;  /* at least 1 */
    uint32_t reserved;
    uint64_t extent[8], magic[8];
    uint32_t shift[8];
} work_axes;

/** Element-wise work. Where lines (the innermost axis) are long, a group takes a piece of one:
 * `line` elements, WORK_GROUP * WORK_BATCH at a time, and the axes are the others; else line is 0,
 * the axes are all, and a thread takes one element. */
typedef struct work_each {
    work_axes axes;
    work_address to, from;
    int64_t to_stride[8], from_stride[8];
    int64_t to_step, from_step; /* along a line */
    uint64_t line;
    uint32_t line_groups;   /* groups that it takes for a line */
    uint32_t element_bytes; /* fill and copy: 1, 2, 4 or 8 */
    uint64_t bits;          /* fill */
    double alpha;           /* store and add: to = alpha * from, to += alpha * from */
    uint32_t to_type, from_type;
} work_each;

/** add_halves and add_pairs: to += alpha * from, where to is f16 or bf16 without gaps and from has
 * one stride. */
typedef struct work_halves {
    uint64_t count;
    work_address to; /* of the word that the first element lies in */
    work_address from;
    int64_t from_stride;
    double alpha;
    uint32_t skip; /* 1: the first element is the upper half of its word */
    uint32_t to_type, from_type;
    uint32_t reserved;
} work_halves;

/** update_words: to += alpha * from, of one type without gaps, aligned to 16 bytes, where nobody
 * else adds. */
typedef struct work_words {
    uint64_t count; /* of elements */
    work_address to, from;
    double alpha;
    uint32_t type;
    uint32_t reserved;
} work_words;

/** add_quads: to += alpha * from, of one type without gaps, aligned to 16 bytes: f32, or, where
 * alpha is 1, f16 and bf16. */
typedef struct work_quads {
    uint64_t count; /* of 16 bytes */
    work_address to, from;
    float alpha;
    uint32_t type;
} work_quads;

/** reduce: sums of terms for each cell. A group has `width` cells and WORK_GROUP / width threads
 * for each, and sums one chunk of the terms. Sums go to partial[chunk][cell], or, if that is NULL,
 * are added to the destination, alpha times. */
typedef struct work_reduce {
    work_axes cells, terms;
    work_address to, from, partial;
    int64_t to_stride[8];        /* of cells */
    int64_t from_cell_stride[8]; /* of cells */
    int64_t from_term_stride[8]; /* of terms */
    uint64_t chunk_terms;
    uint64_t tile_count;  /* groups that it takes for the cells */
    uint64_t group_count; /* tiles times chunks */
    double alpha;
    uint32_t to_type, from_type;
    uint32_t width_log2;
    uint32_t
        cells_first; /* neighbouring threads have neighbouring cells, else neighbouring terms */
} work_reduce;

/** shadow: to (+)= from * step, where from is one 64-bit integer or, when wide, two, the second in
 * steps of 2^-30 of the first's. */
typedef struct work_shadow {
    work_axes axes;
    work_address to, from, sticky; /* sticky: of the 32 bits that say that a sum was too large */
    int64_t to_stride[8], from_stride[8];
    double step;
    uint32_t to_type, wide, stores;
    uint32_t reserved;
} work_shadow;

/** Head of the memory that a deterministic scatter-add works in. Zero at first. */
typedef struct work_head {
    uint64_t sampled;    /* bits of a double: largest finite magnitude of the elements looked at */
    uint64_t largest;    /* the same, of all elements; found only if needed */
    uint32_t beyond;     /* an element was too large for the bound that the sample gave */
    uint32_t not_finite; /* there were infinities or NaNs */
    uint32_t reserved[2];
} work_head;

/** scatter: destination[cell] += source, where the cell's number comes from the item's place and
 * its index. Cells are numbered without gaps; `cells` finds their memory. */
typedef struct work_scatter {
    work_axes items, cells;
    work_address to, from, index;
    work_address skipped;                                    /* or NULL */
    int64_t to_stride[8];                                    /* of cells */
    int64_t from_stride[8], index_stride[8], cell_stride[8]; /* of items; the last in cells */
    int64_t index_cells;                                     /* cells from one index to the next */
    int64_t extent;                                          /* indices are below this */
    uint32_t to_type, from_type, index_type;
    uint32_t copies; /* of all cells, in the shared memory of a group */
    /* deterministic only */
    work_address head, sums; /* sums: one or two 64-bit integers for each cell */
    uint32_t count_log2;     /* at most 2^this elements come to one cell */
    uint32_t headroom_log2;  /* the bound is the sampled one times 2^this */
    uint32_t again;          /* the second time: only if `beyond` is set, with the exact bound */
    uint32_t sample_step;    /* of runs of 32 elements, look at every so many-th */
} work_scatter;

#endif
