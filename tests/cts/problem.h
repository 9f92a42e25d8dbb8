/*
 * problem.h - a backward launch in deterministic mode: upstream gradients that go to bins, and all
 * of them to one cell (cts_bins).
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "cts.h"

enum { F16, BF16, F32, F64, TYPES };
enum { X, INDEX, S, Y };

extern const ddisp_dtype problem_dtypes[TYPES];

#define NEEDS_INTEGERS(t)                                                                          \
    do {                                                                                           \
        if ((t)->info.atomic_add_i64 == DDISP_SUPPORT_NONE)                                        \
            CTS_SKIP(t, "the device adds no 64-bit integers");                                     \
    } while (0)

typedef struct problem {
    cts *t;
    int type;
    int64_t items, bins;
    int32_t *index;
    double *values;
    ddisp_tensor *x, *n, *s, *y;
} problem;

/** All indices and values 0. flags: of x and s, beside CTS_GRAD. */
problem problem_make(cts *t, int type, int64_t items, int64_t bins, uint64_t flags);
/** Index and upstream as the arrays say. */
void problem_load(problem *p);
ddisp_tensor *problem_upstream(const problem *p);
/** Frees the arrays. */
void problem_drop(problem *p);
/** f32, loaded: a hundred values into the first of three bins, ones but for one. */
problem problem_spoilt(cts *t, double value);

/** Options in deterministic mode; bound may be NULL. */
ddisp_launch_options problem_options(uint64_t flags, ddisp_report *report,
                                     const ddisp_bound *bound);
/** Of every parameter. */
ddisp_bound problem_bound(double bound, uint64_t adds);
ddisp_status problem_run(problem *p, ddisp_kernel *kernel, const ddisp_launch_options *options);

#endif
