/*
 * accumulate.c - accumulation under contention: 64 Mi adds into 1 to 16 Mi cells, indices by chance
 * and in runs of 64, f32 and f16, plain and deterministic, beside one atomic add for each element;
 * then accumulate of equal shapes, the sum of everything, and a copy. All devices are measured in
 * one run; cases of all of them take turns, block by block, and medians of blocks are compared.
 *
 *   accumulate [--device NAME[,NAME...]] [--n N] [--blocks N] [--seconds N] [--quick] [--json]
 *
 * Without --device: host, cuda and vulkan, as far as there are real ones. Times are the device's
 * own, between timed events, or of a clock where it tells none. 31 blocks of a few milliseconds, 3
 * where a call takes more than 50 ms, fewer when a device would take more than 60 seconds in all;
 * --quick: 5. The host adds a sixteenth of the elements. --json: a line for each row, no table.
 */
#include <diffdispatch/diffdispatch.h>

#include "scatter.ptx.h"
#ifdef WITH_SPIRV
#include "scatter.spv.h"
#endif

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BLOCKS 1000
#define BLOCK_US   3000.0
#define SLOW_US    50000.0

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != DDISP_STATUS_OK) {                                                           \
            char message_[512];                                                                    \
            (void)ddisp_last_error(message_, sizeof message_, NULL);                               \
            fprintf(stderr, "%s: %s\n", #call, message_);                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

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

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, uint32_t count)
{
    static double sorted[MAX_BLOCKS];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- cases that take turns */

typedef struct row {
    const char *name;
    rig *on;
    void (*call)(const struct row *row);
    ddisp_tensor *to, *from;
    uint64_t flags;
    double us; /* median */
} row;

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

/** Runs the rows in turns and fills their medians; prints their series as JSON. */
static void measure(const setup *s, row *rows, uint32_t count, const char *rung)
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
        rows[k].us = median(series[k], blocks[k]);
        if (s->json)
            print_series(&rows[k], rung, series[k], blocks[k], calls[k]);
    }
}

static void scatter(const row *it)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = it->flags;
    CHECK(ddisp_tensor_scatter_add(it->to, 0, it->on->index, it->from, &options, NULL));
}

static ddisp_status launch_plain(const row *it, uint64_t flags)
{
    ddisp_arg args[3] = {DDISP_ARG(it->on->index), DDISP_ARG(it->from), DDISP_ARG(it->to)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    options.items[0] = (uint64_t)it->on->n;
    options.items[1] = options.items[2] = 1;
    return ddisp_launch(it->on->plain, DDISP_MODE_FORWARD, args, 3, &options, NULL);
}

static void scatter_plain(const row *it)
{
    CHECK(launch_plain(it, 0));
}

static void accumulate(const row *it)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = it->flags;
    CHECK(ddisp_tensor_accumulate(it->to, it->from, 1, &options, NULL));
}

static void copy(const row *it)
{
    CHECK(ddisp_tensor_copy(it->to, it->from, NULL));
}

static void fill(const row *it)
{
    CHECK(ddisp_tensor_fill(it->to, 1, NULL));
}

/* ---- data */

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static ddisp_tensor *make(const rig *on, ddisp_dtype dtype, int64_t n)
{
    ddisp_tensor *tensor;
    CHECK(ddisp_tensor_create(on->device, dtype, 1, &n, 0, &tensor));
    CHECK(ddisp_tensor_fill(tensor, 0, NULL));
    return tensor;
}

static void *host_memory(int64_t n)
{
    void *memory = malloc((size_t)n * 4);
    if (!memory) {
        fprintf(stderr, "accumulate: no memory for %" PRId64 " elements\n", n);
        exit(1);
    }
    return memory;
}

static void make_data(setup *s)
{
    float *values = host_memory(s->n);
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; i < s->n; i++)
        values[i] = (float)(next(&state) >> 40) * 0x1p-23f - 1;
    for (uint32_t k = 0; k < s->rig_count; k++) {
        rig *on = &s->rigs[k];
        on->source[0] = make(on, DDISP_DTYPE_F32, on->n);
        on->source[1] = make(on, DDISP_DTYPE_F16, on->n);
        on->index = make(on, DDISP_DTYPE_I32, on->n);
        CHECK(ddisp_tensor_write(on->source[0], values, (uint64_t)on->n * sizeof *values, NULL));
        CHECK(ddisp_tensor_copy(on->source[1], on->source[0], NULL));
    }
    free(values);
}

static void choose_indices(const setup *s, int64_t bins, int64_t run)
{
    int32_t *values = host_memory(s->n);
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < s->n; i++)
        values[i] =
            i % run ? values[i - 1] : (int32_t)((next(&state) >> 32) * (uint64_t)bins >> 32);
    for (uint32_t k = 0; k < s->rig_count; k++)
        CHECK(ddisp_tensor_write(s->rigs[k].index, values, (uint64_t)s->rigs[k].n * sizeof *values,
                                 NULL));
    free(values);
}

static ddisp_kernel *make_plain(const setup *s, const rig *on)
{
    static const ddisp_param params[3] = {
        DDISP_PARAM("index", DDISP_ACCESS_IN, DDISP_DTYPE_I32, 1, 0),
        DDISP_PARAM("source", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, 0),
        DDISP_PARAM("sum", DDISP_ACCESS_INOUT, DDISP_DTYPE_F32, 1, 0),
    };
    static ddisp_entry ptx[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "scatter_plain", 256)};
    static ddisp_entry spirv[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "main", 256)};
    ptx[0].flags = spirv[0].flags = DDISP_ENTRY_LOOPS;
    const ddisp_code codes[] = {
        DDISP_CODE("cuda", "ptx", scatter_ptx, sizeof scatter_ptx, ptx, 0),
#ifdef WITH_SPIRV
        DDISP_CODE("vulkan", "spirv", scatter_spv, sizeof scatter_spv, spirv, 0),
#endif
    };
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel;
    if (strcmp(on->info.backend, "host") == 0)
        return NULL;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "scatter_plain";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = (uint32_t)(sizeof codes / sizeof codes[0]);
    desc.code_size = (uint32_t)sizeof codes[0];
    CHECK(ddisp_kernel_create(s->context, &desc, &kernel));
    return kernel;
}

/* ---- the ladder */

/** The median of the same row on the CUDA device; 0: there is none. */
static double on_cuda(const row *rows, uint32_t count, const row *like)
{
    for (uint32_t k = 0; k < count; k++)
        if (strcmp(rows[k].on->info.backend, "cuda") == 0 && rows[k].name == like->name)
            return rows[k].us;
    return 0;
}

static void rung(setup *s, int type, int64_t bins, const char *name)
{
    static const char ours[] = "ours", fixed[] = "deterministic", plain[] = "plain atomics";
    row rows[MOST_ROWS];
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->rig_count; k++) {
        rig *on = &s->rigs[k];
        ddisp_tensor *to = make(on, type ? DDISP_DTYPE_F16 : DDISP_DTYPE_F32, bins);
        rows[count++] = (row){ours, on, scatter, to, on->source[type], 0, 0};
        if (on->deterministic)
            rows[count++] =
                (row){fixed, on, scatter, to, on->source[type], DDISP_ACCUMULATE_DETERMINISTIC, 0};
        const row one = {plain, on, scatter_plain, to, on->source[0], 0, 0};
        if (on->plain && type == 0 && launch_plain(&one, DDISP_LAUNCH_DRY_RUN) == DDISP_STATUS_OK)
            rows[count++] = one;
    }
    measure(s, rows, count, name);
    for (uint32_t k = 0; k < count; k++) {
        if (rows[k].name != ours)
            continue;
        double det = 0, atomics = 0, cuda = on_cuda(rows, count, &rows[k]);
        for (uint32_t i = k + 1; i < count && rows[i].on == rows[k].on; i++)
            *(rows[i].name == fixed ? &det : &atomics) = rows[i].us;
        if (!s->json)
            printf("%-27s %-7s %10.1f %10.1f %10.1f %10.3f %10.3f %10.3f\n", name,
                   rows[k].on->info.backend, atomics, rows[k].us, det,
                   atomics > 0 ? rows[k].us / atomics : 0, det / rows[k].us,
                   cuda > 0 ? rows[k].us / cuda : 0);
        ddisp_tensor_release(rows[k].to);
    }
    (void)fflush(stdout);
}

static void climb(setup *s)
{
    static const int64_t bins[] = {1, 32, 1024, 65536, 16 << 20}, runs[] = {1, 64};
    if (!s->json)
        printf("%-27s %-7s %10s %10s %10s %10s %10s %10s\n", "adds, us", "on", "plain", "ours",
               "determ.", "ours/plain", "det./ours", "ours/cuda");
    for (int r = 0; r < 2; r++)
        for (int b = 0; b < 5; b++) {
            char name[64];
            if (bins[b] == 1 && runs[r] != 1)
                continue;
            choose_indices(s, bins[b], runs[r]);
            for (int type = 0; type < 2; type++) {
                (void)snprintf(name, sizeof name, "%s, %" PRId64 " cells%s", type ? "f16" : "f32",
                               bins[b], r ? ", runs of 64" : "");
                rung(s, type, bins[b], name);
            }
        }
}

static void dense(setup *s)
{
    static const char *const names[DENSE_ROWS] = {"copy",
                                                  "fill",
                                                  "accumulate f32",
                                                  "accumulate f16",
                                                  "sum of all f32",
                                                  "accumulate f32, exclusive",
                                                  "accumulate f16, exclusive"};
    static const uint64_t exclusive = DDISP_ACCUMULATE_EXCLUSIVE;
    row rows[MOST_DEVICES * DENSE_ROWS];
    for (uint32_t k = 0; k < s->rig_count; k++) {
        rig *on = &s->rigs[k];
        ddisp_tensor *to = make(on, DDISP_DTYPE_F32, on->n);
        row *at = &rows[k * DENSE_ROWS];
        at[0] = (row){names[0], on, copy, to, on->source[0], 0, 0};
        at[1] = (row){names[1], on, fill, to, NULL, 0, 0};
        at[2] = (row){names[2], on, accumulate, to, on->source[0], 0, 0};
        at[3] =
            (row){names[3], on, accumulate, make(on, DDISP_DTYPE_F16, on->n), on->source[1], 0, 0};
        at[4] = (row){names[4], on, accumulate, make(on, DDISP_DTYPE_F32, 1), on->source[0], 0, 0};
        at[5] = (row){names[5], on, accumulate, to, on->source[0], exclusive, 0};
        at[6] = (row){names[6], on, accumulate, at[3].to, on->source[1], exclusive, 0};
    }
    uint32_t count = s->rig_count * DENSE_ROWS;
    measure(s, rows, count, "dense");
    for (uint32_t k = 0; k < count; k++) {
        /* bytes that each reads and writes, beside those of the copy */
        static const double parts[DENSE_ROWS] = {1, 0.5, 1.5, 0.75, 0.5, 1.5, 0.75};
        const row *first = &rows[k - k % DENSE_ROWS];
        double cuda = on_cuda(rows, count, &rows[k]);
        if (!s->json)
            printf("%-27s %-7s %10.1f us, %6.3f of the copy rate, %6.3f of cuda\n", rows[k].name,
                   rows[k].on->info.backend, rows[k].us,
                   parts[k % DENSE_ROWS] * first->us / rows[k].us,
                   cuda > 0 ? rows[k].us / cuda : 0);
        if (k % DENSE_ROWS == 0 || k % DENSE_ROWS == 3 || k % DENSE_ROWS == 4)
            ddisp_tensor_release(rows[k].to);
    }
}

/* ---- devices */

/** Whether the device has deterministic scatter-add. */
static bool has_deterministic(const rig *on)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    ddisp_tensor *one = make(on, DDISP_DTYPE_F32, 1);
    options.size = (uint32_t)sizeof options;
    options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
    ddisp_status status =
        ddisp_tensor_scatter_add(one, 0, on->index, on->source[0], &options, NULL);
    if (status != DDISP_STATUS_UNSUPPORTED)
        CHECK(status);
    ddisp_tensor_release(one);
    return status == DDISP_STATUS_OK;
}

/** Opens one of the names in list; false at its end. What is not there is left out, unless named.
 */
static bool open_next(setup *s, const char **list, bool named)
{
    char name[128];
    size_t length = strcspn(*list, ",");
    if (length == 0)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    rig *on = &s->rigs[s->rig_count];
    *on = (rig){.info.size = (uint32_t)sizeof on->info, .rows_left = 18 * 3 + DENSE_ROWS};
    ddisp_status status = ddisp_device_open(s->context, name, &on->device);
    if (status != DDISP_STATUS_OK && !named) {
        fprintf(stderr, "no %s device\n", name);
        return true;
    }
    CHECK(status);
    CHECK(ddisp_device_get_info(on->device, &on->info));
    bool software = (on->info.flags & DDISP_DEVICE_FLAG_SOFTWARE) != 0;
    bool host = strcmp(on->info.backend, "host") == 0;
    if (software && !host && !named) {
        fprintf(stderr, "%s is software: name it to measure it\n", on->info.name);
        ddisp_device_release(on->device);
        return true;
    }
    on->n = !software && !host ? s->n : s->n > 16 ? s->n / 16 : 1;
    on->plain = make_plain(s, on);
#ifdef DDISP_EVENT_TIMED
    if (ddisp_event_create(on->device, DDISP_EVENT_TIMED, &on->begin) != DDISP_STATUS_OK ||
        ddisp_event_create(on->device, DDISP_EVENT_TIMED, &on->end) != DDISP_STATUS_OK)
        on->begin = NULL;
#endif
    s->rig_count++;
    return true;
}

static void close_rig(rig *on)
{
    if (on->begin)
        ddisp_event_release(on->begin);
    if (on->end)
        ddisp_event_release(on->end);
    for (int i = 0; i < 2; i++)
        ddisp_tensor_release(on->source[i]);
    ddisp_tensor_release(on->index);
    if (on->plain)
        ddisp_kernel_release(on->plain);
    ddisp_device_release(on->device);
}

static const char *parse(int argc, char **argv, setup *s)
{
    const char *devices = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            s->json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            s->blocks = 5;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            devices = argv[++i];
        else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            s->n = (int64_t)strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            s->seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--blocks") == 0 && i + 1 < argc)
            s->blocks = (uint32_t)strtoul(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "usage: accumulate [--device NAME[,NAME...]] [--n N] [--blocks N] "
                            "[--seconds N] [--quick] [--json]\n");
            exit(2);
        }
    }
    s->blocks = s->blocks < 1 ? 1 : s->blocks > MAX_BLOCKS ? MAX_BLOCKS : s->blocks;
    s->n = s->n < 1 ? 1 : s->n;
    return devices;
}

int main(int argc, char **argv)
{
    static setup s = {.n = INT64_C(64) << 20, .blocks = 31, .seconds = 60};
    const char *named = parse(argc, argv, &s), *list = named ? named : "cuda,vulkan,host";
    CHECK(ddisp_context_create(NULL, &s.context));
    while (s.rig_count < MOST_DEVICES && open_next(&s, &list, named != NULL)) {
    }
    make_data(&s);
    choose_indices(&s, 1, 1);
    for (uint32_t k = 0; k < s.rig_count; k++) {
        rig *on = &s.rigs[k];
        on->deterministic = has_deterministic(on);
        if (!s.json)
            printf("%s: %s, %s; %" PRId64 " elements, %u blocks, %s's clock\n", on->info.backend,
                   on->info.name, on->info.driver, on->n, s.blocks, on->begin ? "device" : "host");
    }
    climb(&s);
    dense(&s);
    for (uint32_t k = 0; k < s.rig_count; k++)
        close_rig(&s.rigs[k]);
    ddisp_context_release(s.context);
    return 0;
}
