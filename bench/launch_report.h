/*
 * launch_report.h - rows of bench/launch, as a table or as JSON, each written at once; and how much
 * of its time is left.
 */
#ifndef DDISP_BENCH_LAUNCH_REPORT_H
#define DDISP_BENCH_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCKS 31

/** Blocks of launches that are measured: BLOCKS, or less. */
extern int blocks;
extern bool json;

/** From here the time counts. */
void begin_report(double seconds);
/** Whether more than this part of the time is gone. */
bool is_late(double part);

/** Of JSON: the row is an object. */
void begin_row(const char *what);
void print_series(const char *name, const double *values);
/** Ends the row or line and writes it. */
void end_row(void);
/** A row that there was no time for. */
void print_left_out(const char *what, uint32_t count);

#endif
