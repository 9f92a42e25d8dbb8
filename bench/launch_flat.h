/*
 * launch_flat.h - the part of bench/launch about what is alive.
 */
#ifndef DDISP_BENCH_LAUNCH_FLAT_H
#define DDISP_BENCH_LAUNCH_FLAT_H

#include "launch_subject.h"

void run_flat(const ddisp_device_info *info, bool quick);

#endif
