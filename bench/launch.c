/*
 * launch.c - what a launch costs the processor: dynamic (ddisp_launch), prepared
 * (ddisp_plan_launch) and replayed (ddisp_graph_launch) launches of an empty kernel, beside the
 * driver's own calls with the same arguments, which take turns with them block by block.
 *
 *   launch [--device cuda|vulkan|host] [--quick | --step] [--json]
 *   launch --loop dynamic|prepared forward|backward TENSORS COUNT [--device D]   for callgrind
 *
 * Times are the launching thread's CPU time per launch: of each block of launches the mean, of the
 * blocks the median; p99 is of launches that were timed alone. A block on Vulkan holds its
 * submissions.
 */
#include "launch_subject.h"

#include "mul_kernel.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_THREADS 8
#define BLOCKS       31
#define ALONE        2048 /* launches timed alone */

static const char *const kinds[KINDS] = {"bare", "dynamic", "prepared", "bare graph", "replayed"};

static int blocks = BLOCKS;

static int by_value(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double quantile(const double *values, int count, double at)
{
    double *sorted = malloc((size_t)count * sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    double value = sorted[(int)(at * (count - 1) + 0.5)];
    free(sorted);
    return value;
}

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
    int count = blocks < BLOCKS ? ALONE / 4 : ALONE;
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

static bool json;
static bool first_row = true;

static void begin_row(const char *what)
{
    printf("%s{\"row\": \"%s\"", first_row ? "" : ",\n  ", what);
    first_row = false;
}

static void print_series(const char *name, const double *values)
{
    printf(", \"%s_ns\": [", name);
    for (int i = 0; i < blocks; i++)
        printf("%s%.1f", i ? ", " : "", values[i]);
    printf("]");
}

static void print_row(ddisp_mode mode, uint32_t tensors, int threads, const row *r)
{
    const char *name = mode == DDISP_MODE_FORWARD ? "forward" : "backward";
    const double *m = r->median;
    if (!json) {
        printf("%-8s %7u %7d", name, tensors, threads);
        for (int kind = 0; kind < KINDS; kind++)
            printf(" %9.0f %8.0f", m[kind], r->p99[kind]);
        printf("   %5.2f %5.2f %5.2f\n", m[DYNAMIC] / m[BARE], m[PREPARED] / m[BARE],
               m[GRAPH] / m[BARE_GRAPH]);
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
    printf("}");
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
    double dynamic[2][5], prepared[2][5];
    if (!json) {
        printf("CPU time of a launch in ns: median and p99; a replay has %d launches; ratios to "
               "the driver's own\n%-8s %7s %7s",
               GRAPH_LAUNCHES, "mode", "tensors", "threads");
        for (int kind = 0; kind < KINDS; kind++)
            printf(" %9s %8s", kinds[kind], "p99");
        printf("   %5s %5s %5s\n", "dyn", "prep", "repl");
    }
    for (int mode = 0; mode < 2; mode++)
        for (int i = 0; i < 5; i++) {
            if (mode == 1 && counts[i] < 2) /* there is no input */
                continue;
            ddisp_kernel *kernel = make_kernel(counts[i], DDISP_DTYPE_F32, 0);
            for (int t = 0; t < (quick ? 2 : 4); t++) {
                static row r;
                ddisp_mode m = mode ? DDISP_MODE_BACKWARD : DDISP_MODE_FORWARD;
                measure(kernel, m, counts[i], threads[t], &r);
                print_row(m, counts[i], threads[t], &r);
                if (t == 0) {
                    dynamic[mode][i] = r.median[DYNAMIC];
                    prepared[mode][i] = r.median[PREPARED];
                }
            }
            ddisp_kernel_release(kernel);
        }
    for (int mode = 0; mode < 2; mode++) { /* up to 8: larger blocks go by pointer on CUDA */
        int from = mode ? 2 : 0, count = 4 - from;
        const char *name = mode ? "backward" : "forward";
        double d = slope(counts + from, dynamic[mode] + from, count);
        double p = slope(counts + from, prepared[mode] + from, count);
        if (json) {
            begin_row("slope");
            printf(", \"mode\": \"%s\", \"dynamic_ns\": %.2f, \"prepared_ns\": %.2f}", name, d, p);
        } else {
            printf("%s: each tensor costs %.1f ns dynamic, %.1f ns prepared\n", name, d, p);
        }
    }
}

/* ---- flat in what is alive ---- */

/* The two kinds on one thread. */
static void print_flat(const char *what, uint32_t count, subject *s)
{
    double series[2][BLOCKS];
    (void)block_of(s, DYNAMIC);
    (void)block_of(s, PREPARED);
    for (int block = 0; block < blocks; block++)
        for (int k = 0; k < 2; k++)
            series[k][block] = block_of(s, k ? PREPARED : DYNAMIC);
    double d = quantile(series[0], blocks, 0.5), p = quantile(series[1], blocks, 0.5);
    if (!json) {
        printf("with %6u live %-10s dynamic %6.0f ns, prepared %6.0f ns\n", count, what, d, p);
        return;
    }
    begin_row("live");
    printf(", \"what\": \"%s\", \"count\": %u, \"dynamic_ns\": %.1f, \"prepared_ns\": %.1f", what,
           count, d, p);
    print_series("raw_dynamic", series[0]);
    print_series("raw_prepared", series[1]);
    printf("}");
}

static void run_flat_tensors(subject *s, uint32_t most)
{
    ddisp_tensor **live = malloc(most * sizeof *live);
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 100) {
        while (made < count)
            live[made++] = make_tensor(0);
        CHECK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
        print_flat("tensors", count, s);
    }
    while (made)
        ddisp_tensor_release(live[--made]);
    free(live);
}

/* Kernels that are only there, or each launched once, so that it has a variant. */
static void run_flat_kernels(subject *s, uint32_t most, bool launched)
{
    ddisp_kernel **live = malloc(most * sizeof *live);
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 10) {
        for (; made < count; made++) {
            live[made] = make_kernel(s->tensors, DDISP_DTYPE_F32, made + 1);
            if (launched)
                CHECK(
                    ddisp_launch(live[made], s->mode, s->args, s->tensors, &s->options, s->stream));
        }
        if (count == 10 || count * 10 > most || count == 1000)
            print_flat(launched ? "variants" : "kernels", count, s);
    }
    while (made)
        ddisp_kernel_release(live[--made]);
    free(live);
}

/* Signatures of one kernel, which differ in the dtypes of its arguments. */
static void run_flat_signatures(uint32_t most)
{
    static const ddisp_dtype dtypes[4] = {DDISP_DTYPE_F32, DDISP_DTYPE_F64, DDISP_DTYPE_I32,
                                          DDISP_DTYPE_I64};
    enum { TENSORS = 9 };
    ddisp_kernel *kernel = make_kernel(TENSORS, DDISP_DTYPE_ANY, 0);
    static const int64_t shape[2] = {64, 32}; /* of the memory, of what is seen of it */
    ddisp_tensor *memory[TENSORS];
    ddisp_tensor_view views[TENSORS];
    ddisp_arg args[TENSORS];
    static subject s;
    memset(args, 0, sizeof args);
    prepare(&s, kernel, DDISP_MODE_FORWARD, TENSORS, false);
    for (int i = 0; i < TENSORS; i++) {
        ddisp_tensor_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F64, 1, shape, 0, &memory[i]));
        CHECK(ddisp_tensor_get_info(memory[i], &info));
        views[i] = (ddisp_tensor_view){.size = (uint32_t)sizeof views[i],
                                       .address = info.address,
                                       .rank = 1,
                                       .shape = &shape[1]};
        args[i].view = &views[i];
    }
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 100) {
        for (; made < count; made++) {
            for (int i = 0; i < TENSORS; i++)
                views[i].dtype = dtypes[made >> (2 * i) & 3];
            CHECK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, TENSORS, &s.options, s.stream));
        }
        CHECK(ddisp_stream_synchronize(s.stream, DDISP_TIMEOUT_INFINITE));
        print_flat("signatures", count, &s);
    }
    finish(&s);
    for (int i = 0; i < TENSORS; i++)
        ddisp_tensor_release(memory[i]);
    ddisp_kernel_release(kernel);
}

static void run_flat(const ddisp_device_info *info, bool quick)
{
    static subject s;
    bool host = in_caller = strcmp(info->backend, "host") == 0;
    uint32_t most = quick ? 1000 : 100000;
    ddisp_kernel *kernel = make_kernel(3, DDISP_DTYPE_F32, 0);
    prepare(&s, kernel, DDISP_MODE_FORWARD, 3, false);
    run_flat_tensors(&s, most);
    run_flat_kernels(&s, most, false);
    /* A variant takes the driver a while. */
    run_flat_kernels(&s, host ? most : quick ? 100 : 1000, true);
    finish(&s);
    ddisp_kernel_release(kernel);
    run_flat_signatures(most);
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
        printf("}");
    } else {
        printf("forward and backward of y = a*b, one gradient: %.0f ns\n",
               quantile(series, blocks, 0.5));
    }
    for (int i = 0; i < 4; i++)
        ddisp_tensor_release(all[i]);
    ddisp_kernel_release(mul);
}

/* ---- */

static int loop(char **values)
{
    static subject s;
    bool dynamic = strcmp(values[0], "dynamic") == 0;
    ddisp_mode mode = strcmp(values[1], "backward") == 0 ? DDISP_MODE_BACKWARD : DDISP_MODE_FORWARD;
    uint32_t tensors = (uint32_t)strtoul(values[2], NULL, 10);
    ddisp_kernel *kernel = make_kernel(tensors, DDISP_DTYPE_F32, 0);
    prepare(&s, kernel, mode, tensors, false);
    for (unsigned long i = strtoul(values[3], NULL, 10); i > 0; i--)
        one(&s, dynamic ? DYNAMIC : PREPARED);
    finish(&s);
    ddisp_kernel_release(kernel);
    return 0;
}

int main(int count, char **values)
{
    const char *spec = "host";
    char **loop_values = NULL;
    bool quick = false, step = false;
    ddisp_device_info info = DDISP_ZERO;
    for (int i = 1; i < count; i++) {
        if (strcmp(values[i], "--json") == 0)
            json = true;
        else if (strcmp(values[i], "--quick") == 0)
            quick = true;
        else if (strcmp(values[i], "--step") == 0)
            step = true;
        else if (strcmp(values[i], "--device") == 0 && i + 1 < count)
            spec = values[++i];
        else if (strcmp(values[i], "--loop") == 0 && i + 4 < count) {
            loop_values = &values[i + 1];
            i += 4;
        } else {
            fprintf(stderr,
                    "usage: launch [--device cuda|vulkan|host] [--quick | --step] [--json]\n");
            return 2;
        }
    }
    blocks = quick ? 5 : BLOCKS;
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
