/*
 * accumulate_turns.c - cases that take turns: each is run in blocks of calls, block by block with
 * the others, and its median is what counts.
 */
#include "accumulate.h"

#include <time.h>

#define BLOCK_US 3000.0
#define SLOW_US  50000.0

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/** Microseconds since the begin event, by the device's own clock. */
static double device_us(const rig *on)
{
#ifdef DDISP_EVENT_TIMED
    uint64_t ns = 0;
    CHECK(ddisp_event_record(on->end, NULL));
    CHECK(ddisp_event_synchronize(on->end, DDISP_TIMEOUT_INFINITE));
    CHECK(ddisp_event_elapsed(on->begin, on->end, &ns));
    return (double)ns * 1e-3;
#else
    (void)on;
    return -1;
#endif
}

/** Microseconds a call. */
static double block(const row *it, uint32_t calls)
{
    rig *on = it->on;
    double begin = now_us(), us = 0;
    if (on->begin && calls > 1)
        it->call(it); /* while it runs the others are queued, so that no gap is measured */
    if (on->begin)
        CHECK(ddisp_event_record(on->begin, NULL));
    for (uint32_t i = 0; i < calls; i++)
        it->call(it);
    if (on->begin)
        us = device_us(on);
    else
        CHECK(ddisp_device_synchronize(on->device, DDISP_TIMEOUT_INFINITE));
    double passed = now_us() - begin;
    on->spent_us += passed;
    return (on->begin ? us : passed) / calls;
}

/** How many blocks of a row there is time for. */
static uint32_t count_blocks(const setup *s, const rig *on, double us, uint32_t calls)
{
    double left = s->seconds * 1e6 - on->spent_us;
    double share = left / (on->rows_left ? on->rows_left : 1) / (us * calls + 1);
    uint32_t wanted = us > SLOW_US && s->blocks > 3 ? 3 : s->blocks;
    return share >= wanted ? wanted : share < 1 ? 1 : (uint32_t)share;
}

static void print_series(const row *it, const char *rung, const double *series, uint32_t blocks,
                         uint32_t calls)
{
    printf("{\"rung\": \"%s\", \"row\": \"%s\", \"backend\": \"%s\", \"device\": \"%s\", \"n\": "
           "%" PRId64 ", \"clock\": \"%s\", \"calls\": %u, \"median_us\": %.2f, \"us\": [",
           rung, it->name, it->on->info.backend, it->on->info.name, it->on->n,
           it->on->begin ? "device" : "host", calls, it->us);
    for (uint32_t b = 0; b < blocks; b++)
        printf("%s%.2f", b ? ", " : "", series[b]);
    printf("]}\n");
    (void)fflush(stdout);
}

void measure(const setup *s, row *rows, uint32_t count, const char *rung)
{
    static double series[MOST_ROWS][MAX_BLOCKS];
    uint32_t calls[MOST_ROWS], blocks[MOST_ROWS], most = 0;
    for (uint32_t k = 0; k < count; k++) {
        (void)block(&rows[k], 1); /* loads kernels, fills pools */
        double us = block(&rows[k], 1);
        calls[k] = us >= BLOCK_US ? 1 : (uint32_t)(BLOCK_US / (us + 1)) + 1;
        blocks[k] = count_blocks(s, rows[k].on, us, calls[k]);
        most = blocks[k] > most ? blocks[k] : most;
        if (rows[k].on->rows_left)
            rows[k].on->rows_left--;
    }
    for (uint32_t b = 0; b < most; b++)
        for (uint32_t k = 0; k < count; k++)
            if (b < blocks[k])
                series[k][b] = block(&rows[k], calls[k]);
    for (uint32_t k = 0; k < count; k++) {
        rows[k].us = quantile(series[k], blocks[k], 0.5);
        if (s->json)
            print_series(&rows[k], rung, series[k], blocks[k], calls[k]);
    }
}
