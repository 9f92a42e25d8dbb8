/*
 * cost.h - one step of work, done in C and in C++ on the same objects.
 */
#ifndef DIFFDISPATCH_TESTS_CXX_COST_H
#define DIFFDISPATCH_TESTS_CXX_COST_H

#include <diffdispatch/diffdispatch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cost {
    ddisp_kernel *kernel;
    ddisp_tensor *a, *b, *y, *upstream;
    ddisp_report *report;
    ddisp_plan *plan;
    ddisp_stream *stream;
    float values[4];
};

ddisp_status cost_c(struct cost *on);

#ifdef __cplusplus
}
#endif

#endif
