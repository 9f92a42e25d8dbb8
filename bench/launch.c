/*
 * launch.c - what a launch costs the processor: dynamic (ddisp_launch), prepared
 * (ddisp_plan_launch) and replayed (ddisp_graph_launch) launches of an empty kernel, beside the
 * driver's own calls with the same arguments, which take turns with them block by block.
 *
 *   launch [--device cuda|vulkan|host] [--quick | --step] [--changes] [--seconds N] [--json]
 *   launch --loop dynamic|prepared|replayed forward|backward TENSORS COUNT [--device D]
 *                                                                            for callgrind
 *
 * With --changes each forward launch writes another tensor than those before it, as where results
 * are allocated anew; without it all launches have the same arguments, which the driver's own calls
 * have in either case.
 *
 * Times are the launching thread's CPU time per launch: of each block of launches the mean, of the
 * blocks the median; p99 is of launches that were timed alone. A block on Vulkan holds its
 * submissions. Rows are printed as they come; those of several threads, and of many live objects,
 * that would not end within --seconds (30) are left out, which is said.
 */
#include "launch_flat.h"
#include "launch_report.h"

#include "mul_kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_THREADS 8
#define ALONE        2048 /* launches timed alone */

static const char *const kinds[KINDS] = {"bare", "dynamic", "prepared", "bare graph", "replayed"};

/* ---- one configuration on some threads ---- */

typedef struct worker {
    pthread_barrier_t *barrier;
    ddisp_kernel *kernel;
    ddisp_mode mode;
    uint32_t tensors;
    double series[KINDS][BLOCKS];
    double p99[KINDS];
} worker;

static void time_alone(subject *s, enum kind kind, double *out_p99)
{
    static _Thread_local double times[ALONE];
    bool replays = kind == GRAPH || kind == BARE_GRAPH; /* each is submitted by itself */
    int count = replays ? ALONE / 8 : blocks < BLOCKS ? ALONE / 4 : ALONE;
    for (int i = 0; i < count; i++) {
        if (i % LAUNCHES == 0) {
            hand_over(s, kind);
            await(s, kind);
        }
        uint64_t start = clock_ns(CLOCK_MONOTONIC);
        one(s, kind);
        times[i] = (double)(clock_ns(CLOCK_MONOTONIC) - start);
    }
    hand_over(s, kind);
    await(s, kind);
    *out_p99 = quantile(times, count, 0.99);
}

static void *work(void *argument)
{
    worker *w = argument;
    subject *s = malloc(sizeof *s);
    prepare(s, w->kernel, w->mode, w->tensors, true);
    for (int kind = 0; kind < KINDS; kind++)
        (void)block_of(s, (enum kind)kind);
    for (int block = 0; block < blocks; block++)
        for (int kind = 0; kind < KINDS; kind++) {
            (void)pthread_barrier_wait(w->barrier);
            w->series[kind][block] = block_of(s, (enum kind)kind);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        (void)pthread_barrier_wait(w->barrier);
        time_alone(s, (enum kind)kind, &w->p99[kind]);
    }
    finish(s);
    free(s);
    return NULL;
}

typedef struct row {
    double series[KINDS][BLOCKS], median[KINDS], p99[KINDS];
} row;

/* The mean over threads is what a block counts. */
static void measure(ddisp_kernel *kernel, ddisp_mode mode, uint32_t tensors, int threads, row *out)
{
    static worker workers[MOST_THREADS];
    pthread_t handles[MOST_THREADS];
    pthread_barrier_t barrier;
    memset(out, 0, sizeof *out);
    (void)pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    in_caller = threads == 1 && strcmp(other->api, "host") == 0;
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){&barrier, kernel, mode, tensors, {{0}}, {0}};
        if (pthread_create(&handles[i], NULL, work, &workers[i])) {
            fprintf(stderr, "launch: no thread\n");
            exit(1);
        }
    }
    for (int i = 0; i < threads; i++)
        (void)pthread_join(handles[i], NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < threads; i++) {
            for (int block = 0; block < blocks; block++)
                out->series[kind][block] += workers[i].series[kind][block] / threads;
            out->p99[kind] += workers[i].p99[kind] / threads;
        }
        out->median[kind] = quantile(out->series[kind], blocks, 0.5);
    }
    (void)pthread_barrier_destroy(&barrier);
}

/* ---- printing ---- */

static void print_row(ddisp_mode mode, uint32_t tensors, int threads, const row *r)
{
    const char *name = mode == DDISP_MODE_FORWARD ? "forward" : "backward";
    const double *m = r->median;
    if (!json) {
        printf("%-8s %7u %7d", name, tensors, threads);
        for (int kind = 0; kind < KINDS; kind++)
            printf(" %9.0f %8.0f", m[kind], r->p99[kind]);
        printf("   %5.2f %5.2f %5.2f", m[DYNAMIC] / m[BARE], m[PREPARED] / m[BARE],
               m[GRAPH] / m[BARE_GRAPH]);
        end_row();
        return;
    }
    begin_row("launch");
    printf(", \"mode\": \"%s\", \"tensors\": %u, \"threads\": %d, \"dynamic_ratio\": %.4f, "
           "\"prepared_ratio\": %.4f, \"replayed_ratio\": %.4f",
           name, tensors, threads, m[DYNAMIC] / m[BARE], m[PREPARED] / m[BARE],
           m[GRAPH] / m[BARE_GRAPH]);
    for (int kind = 0; kind < KINDS; kind++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%s", kinds[kind]);
        key[strcspn(key, " ")] = key[strcspn(key, " ")] ? '_' : 0;
        printf(", \"%s\": {\"median_ns\": %.1f, \"p99_ns\": %.1f", key, m[kind], r->p99[kind]);
        print_series("raw", r->series[kind]);
        printf("}");
    }
    end_row();
}

/* Least squares over the counts of tensors. */
static double slope(const uint32_t *tensors, const double *times, int count)
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < count; i++) {
        x += tensors[i];
        y += times[i];
        xx += (double)tensors[i] * tensors[i];
        xy += tensors[i] * times[i];
    }
    return (count * xy - x * y) / (count * xx - x * x);
}

static void run_launches(bool quick)
{
    static const uint32_t counts[5] = {0, 1, 3, 8, 32};
    static const int threads[4] = {1, 2, 4, 8};
    ddisp_kernel *kernels[5];
    double dynamic[2][5], prepared[2][5];
    bool complete = true; /* the rows of one thread */
    if (!json) {
        printf("CPU time of a launch in ns: median and p99; a replay has %d launches; ratios to "
               "the driver's own\n%-8s %7s %7s",
               GRAPH_LAUNCHES, "mode", "tensors", "threads");
        for (int kind = 0; kind < KINDS; kind++)
            printf(" %9s %8s", kinds[kind], "p99");
        printf("   %5s %5s %5s\n", "dyn", "prep", "repl");
    }
    for (int i = 0; i < 5; i++)
        kernels[i] = make_kernel(counts[i], DDISP_DTYPE_F32, 0);
    for (int t = 0; t < (quick ? 2 : 4); t++)
        for (int k = 0; k < 10; k++) {
            static row r;
            int mode = k / 5, i = k % 5;
            ddisp_mode m = mode ? DDISP_MODE_BACKWARD : DDISP_MODE_FORWARD;
            if (mode == 1 && counts[i] < 2) /* there is no input */
                continue;
            if (is_late(0.45)) {
                print_left_out("threads", (uint32_t)threads[t]);
                complete &= t > 0;
                break;
            }
            measure(kernels[i], m, counts[i], threads[t], &r);
            print_row(m, counts[i], threads[t], &r);
            if (t == 0) {
                dynamic[mode][i] = r.median[DYNAMIC];
                prepared[mode][i] = r.median[PREPARED];
            }
        }
    for (int i = 0; i < 5; i++)
        ddisp_kernel_release(kernels[i]);
    for (int mode = 0; mode < 2 && complete;
         mode++) { /* up to 8: larger blocks go by pointer on CUDA */
        int from = mode ? 2 : 0, count = 4 - from;
        const char *name = mode ? "backward" : "forward";
        double d = slope(counts + from, dynamic[mode] + from, count);
        double p = slope(counts + from, prepared[mode] + from, count);
        if (json) {
            begin_row("slope");
            printf(", \"mode\": \"%s\", \"dynamic_ns\": %.2f, \"prepared_ns\": %.2f", name, d, p);
        } else {
            printf("%s: each tensor costs %.1f ns dynamic, %.1f ns prepared", name, d, p);
        }
        end_row();
    }
}

/* ---- a step ---- */

/* y = a*b forward, its upstream set, backward with one gradient: what a framework does for one
 * operation. */
static void run_step(void)
{
    double series[BLOCKS];
    ddisp_kernel *mul;
    ddisp_tensor *a = make_tensor(DDISP_TENSOR_REQUIRES_GRAD), *b = make_tensor(0),
                 *y = make_tensor(DDISP_TENSOR_REQUIRES_GRAD), *gy = make_tensor(0);
    ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    ddisp_tensor *all[4] = {a, b, y, gy};
    CHECK(ddisp_kernel_create(context, mul_kernel_desc(), &mul));
    for (int i = 0; i < 4; i++)
        CHECK(ddisp_tensor_fill(all[i], 1, NULL));
    for (int block = -1; block < blocks; block++) {
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < LAUNCHES; i++) {
            CHECK(ddisp_launch(mul, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
            CHECK(ddisp_tensor_set_grad(y, gy));
            CHECK(ddisp_launch(mul, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
        }
        uint64_t spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        CHECK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
        if (block >= 0)
            series[block] = (double)spent / LAUNCHES;
    }
    if (json) {
        begin_row("step");
        printf(", \"median_ns\": %.1f", quantile(series, blocks, 0.5));
        print_series("raw", series);
    } else {
        printf("forward and backward of y = a*b, one gradient: %.0f ns",
               quantile(series, blocks, 0.5));
    }
    end_row();
    for (int i = 0; i < 4; i++)
        ddisp_tensor_release(all[i]);
    ddisp_kernel_release(mul);
}

/* ---- */

static int loop(char **values)
{
    static subject s;
    enum kind kind = strcmp(values[0], "dynamic") == 0    ? DYNAMIC
                     : strcmp(values[0], "replayed") == 0 ? GRAPH
                                                          : PREPARED;
    ddisp_mode mode = strcmp(values[1], "backward") == 0 ? DDISP_MODE_BACKWARD : DDISP_MODE_FORWARD;
    uint32_t tensors = (uint32_t)strtoul(values[2], NULL, 10);
    ddisp_kernel *kernel = make_kernel(tensors, DDISP_DTYPE_F32, 0);
    prepare(&s, kernel, mode, tensors, false);
    for (unsigned long i = strtoul(values[3], NULL, 10); i > 0; i--)
        one(&s, kind);
    finish(&s);
    ddisp_kernel_release(kernel);
    return 0;
}

int main(int count, char **values)
{
    const char *spec = "host";
    char **loop_values = NULL;
    bool quick = false, step = false;
    double seconds = 30;
    ddisp_device_info info = DDISP_ZERO;
    for (int i = 1; i < count; i++) {
        if (strcmp(values[i], "--json") == 0)
            json = true;
        else if (strcmp(values[i], "--quick") == 0)
            quick = true;
        else if (strcmp(values[i], "--step") == 0)
            step = true;
        else if (strcmp(values[i], "--changes") == 0)
            changes = true;
        else if (strcmp(values[i], "--device") == 0 && i + 1 < count)
            spec = values[++i];
        else if (strcmp(values[i], "--seconds") == 0 && i + 1 < count)
            seconds = strtod(values[++i], NULL);
        else if (strcmp(values[i], "--loop") == 0 && i + 4 < count) {
            loop_values = &values[i + 1];
            i += 4;
        } else {
            fprintf(stderr,
                    "usage: launch [--device cuda|vulkan|host] [--quick | --step] [--changes] "
                    "[--seconds N] [--json]\n");
            return 2;
        }
    }
    blocks = quick ? 5 : BLOCKS;
    begin_report(seconds);
    info.size = (uint32_t)sizeof info;
    CHECK(ddisp_context_create(NULL, &context));
    CHECK(ddisp_device_open(context, spec, &device));
    CHECK(ddisp_device_get_info(device, &info));
    if (loop_values)
        return loop(loop_values);
    other = find_rival(&info);
    if (!other) {
        fprintf(stderr, "launch: no %s device to launch by hand on\n", spec);
        return 1;
    }
    if (json)
        printf(
            "{\"benchmark\": \"launch\", \"device\": \"%s\", \"driver\": \"%s\", \"blocks\": %d, "
            "\"launches\": %d, \"graph_launches\": %d, \"rows\": [\n  ",
            info.name, info.driver, blocks, LAUNCHES, GRAPH_LAUNCHES);
    else
        printf("%s, %s; %d blocks of %d launches\n", info.name, info.driver, blocks, LAUNCHES);
    (void)fflush(stdout);
    if (!step) {
        run_launches(quick);
        run_flat(&info, quick);
    }
    run_step();
    if (json)
        printf("\n]}\n");
    ddisp_device_release(device);
    ddisp_context_release(context);
    return 0;
}
