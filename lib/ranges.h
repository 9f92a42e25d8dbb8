/*
 * ranges.h - ranges for tools that show what a program does (NVTX).
 */
#ifndef DDISP_LIB_RANGES_H
#define DDISP_LIB_RANGES_H

#include <stdbool.h>

typedef struct ddisp__ranges {
    int (*push)(const char *name);
    int (*pop)(void);
} ddisp__ranges;

/** Whether a tool reads ranges, and how to tell it of them. Once a process. */
bool ddisp__ranges_find(ddisp__ranges *out_ranges);

#endif
