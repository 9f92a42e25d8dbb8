/*
 * accumulate.h - what the rooms of bench/accumulate share: devices with their data (rigs), and
 * cases that take turns (rows).
 */
#ifndef BENCH_ACCUMULATE_H
#define BENCH_ACCUMULATE_H

#include "bench.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS   1000
#define MOST_DEVICES 4
#define DENSE_ROWS   7
#define MOST_ROWS    (MOST_DEVICES * DENSE_ROWS)

/** A device with its copies of the data. */
typedef struct rig {
    ddisp_device *device;
    ddisp_device_info info;
    ddisp_kernel *plain; /* NULL: none for this device */
    int64_t n;
    bool deterministic;
    ddisp_tensor *source[2]; /* f32, f16 */
    ddisp_tensor *index;
    ddisp_event *begin, *end; /* NULL: it tells no time */
    double spent_us;
    uint32_t rows_left;
} rig;

typedef struct setup {
    ddisp_context *context;
    rig rigs[MOST_DEVICES];
    uint32_t rig_count;
    int64_t n;
    uint32_t blocks;
    double seconds;
    bool json;
} setup;

typedef struct row {
    const char *name;
    rig *on;
    void (*call)(const struct row *row);
    ddisp_tensor *to, *from;
    uint64_t flags;
    double us; /* median */
} row;

/** Runs the rows in turns and fills their medians; prints their series as JSON. */
void measure(const setup *s, row *rows, uint32_t count, const char *rung);

/** Opens the next of a list of devices; false behind the last. named: by the user. */
bool open_next(setup *s, const char **list, bool named);
void close_rig(rig *on);
/** Sources of chance for all devices, and indices: of so many bins, in runs. */
void make_data(setup *s);
void choose_indices(const setup *s, int64_t bins, int64_t run);
/** A tensor of zeros. */
ddisp_tensor *make(const rig *on, ddisp_dtype dtype, int64_t n);
/** One atomic add for each element. */
ddisp_status launch_plain(const row *it, uint64_t flags);

#endif
