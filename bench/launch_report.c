/*
 * launch_report.c - see launch_report.h.
 */
#include "launch_report.h"

#include "launch_subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int blocks = BLOCKS;
bool json;

static bool first_row = true;
static uint64_t begun_ns;
static double limit_s;

void begin_report(double seconds)
{
    begun_ns = clock_ns(CLOCK_MONOTONIC);
    limit_s = seconds;
}

bool is_late(double part)
{
    return (double)(clock_ns(CLOCK_MONOTONIC) - begun_ns) * 1e-9 > part * limit_s;
}

void begin_row(const char *what)
{
    printf("%s{\"row\": \"%s\"", first_row ? "" : ",\n  ", what);
    first_row = false;
}

void print_series(const char *name, const double *values)
{
    printf(", \"%s_ns\": [", name);
    for (int i = 0; i < blocks; i++)
        printf("%s%.1f", i ? ", " : "", values[i]);
    printf("]");
}

void end_row(void)
{
    printf(json ? "}" : "\n");
    (void)fflush(stdout);
}

void print_left_out(const char *what, uint32_t count)
{
    if (json) {
        begin_row("left_out");
        printf(", \"what\": \"%s\", \"count\": %u", what, count);
    } else {
        printf("%u %s: left out for want of time (--seconds)", count, what);
    }
    end_row();
}
