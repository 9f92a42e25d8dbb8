/*
 * bench.h - what the benchmarks share: calls that must succeed, and quantiles of what was measured.
 */
#ifndef DDISP_BENCH_H
#define DDISP_BENCH_H

#include <diffdispatch/diffdispatch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != DDISP_STATUS_OK) {                                                           \
            char message_[512];                                                                    \
            (void)ddisp_last_error(message_, sizeof message_, NULL);                               \
            fprintf(stderr, "%s: %s\n", #call, message_);                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline int by_value(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/** The value behind so much of all of them: 0.5 for the median. */
static inline double quantile(const double *values, uint32_t count, double at)
{
    double *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        abort();
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    double value = sorted[(uint32_t)(at * (count - 1) + 0.5)];
    free(sorted);
    return value;
}

#endif
