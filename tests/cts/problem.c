/*
 * problem.c - the backward launch that the tests of deterministic mode share.
 */
#include "problem.h"

#include <stdlib.h>

const ddisp_dtype problem_dtypes[TYPES] = {DDISP_DTYPE_F16, DDISP_DTYPE_BF16, DDISP_DTYPE_F32,
                                           DDISP_DTYPE_F64};

ddisp_tensor *problem_upstream(const problem *p)
{
    return cts_numbers(p->t, p->type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32, 1, &p->items, NULL,
                       p->values);
}

problem problem_make(cts *t, int type, int64_t items, int64_t bins, uint64_t flags)
{
    problem p = {.t = t, .type = type, .items = items, .bins = bins};
    int64_t one = 1;
    p.index = calloc((size_t)items, sizeof *p.index);
    p.values = calloc((size_t)items, sizeof *p.values);
    assert_non_null(p.index);
    assert_non_null(p.values);
    p.x = cts_tensor(t, problem_dtypes[type], 1, &bins, NULL, CTS_GRAD | flags, NULL);
    p.s = cts_tensor(t, problem_dtypes[type], 1, &one, NULL, CTS_GRAD | flags, NULL);
    p.y = cts_tensor(t, type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32, 1, &items, NULL, CTS_GRAD,
                     NULL);
    return p;
}

void problem_load(problem *p)
{
    p->n = cts_tensor(p->t, DDISP_DTYPE_I32, 1, &p->items, NULL, 0, p->index);
    CTS_OK(ddisp_tensor_set_grad(p->y, problem_upstream(p)));
}

void problem_drop(problem *p)
{
    free(p->index);
    free(p->values);
}

ddisp_launch_options problem_options(uint64_t flags, ddisp_report *report, const ddisp_bound *bound)
{
    ddisp_launch_options options =
        cts_options(DDISP_POLICY_AUTO, DDISP_LAUNCH_DETERMINISTIC | flags, report);
    options.bounds = bound;
    options.bound_count = bound ? 1 : 0;
    options.bound_size = (uint32_t)sizeof *bound;
    return options;
}

ddisp_status problem_run(problem *p, ddisp_kernel *kernel, const ddisp_launch_options *options)
{
    return CTS_BACKWARD(kernel, options, p->x, p->n, p->s, p->y);
}

ddisp_bound problem_bound(double bound, uint64_t adds)
{
    return (ddisp_bound){.param = DDISP_BOUND_EVERY_PARAM, .bound = bound, .adds = adds};
}

problem problem_spoilt(cts *t, double value)
{
    problem p = problem_make(t, F32, 100, 3, 0);
    for (int64_t i = 0; i < p.items; i++)
        p.values[i] = 1;
    p.values[37] = value;
    problem_load(&p);
    return p;
}
