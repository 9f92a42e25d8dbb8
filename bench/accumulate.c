/*
 * accumulate.c - accumulation under contention: 64 Mi adds into 1 to 16 Mi cells, indices by chance
 * and in runs of 64, f32 and f16, plain and deterministic, beside one atomic add for each element;
 * then accumulate of equal shapes, the sum of everything, and a copy. Cases take turns, block by
 * block; medians of blocks are compared.
 *
 *   accumulate [--device cuda|vulkan|host] [--n N] [--blocks N] [--quick] [--json]
 *
 * Times are those of a clock around blocks of calls that end with a wait. 31 blocks of a few
 * milliseconds, 3 where a call takes more than 50 ms; --quick: 5.
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

typedef struct setup {
    ddisp_context *context;
    ddisp_device *device;
    ddisp_device_info info;
    ddisp_kernel *plain; /* NULL: none for this device */
    int64_t n;
    uint32_t blocks;
    bool json, deterministic;
    ddisp_tensor *source[2]; /* f32, f16 */
    ddisp_tensor *index;
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
    void (*call)(const setup *s, const struct row *row);
    ddisp_tensor *to, *from;
    uint64_t flags;
    double us; /* median */
} row;

static double block(const setup *s, const row *it, uint32_t calls)
{
    double begin = now_us();
    for (uint32_t i = 0; i < calls; i++)
        it->call(s, it);
    CHECK(ddisp_device_synchronize(s->device, DDISP_TIMEOUT_INFINITE));
    return (now_us() - begin) / calls;
}

/* Runs the rows in turns and fills their medians; prints their series as JSON. */
static void measure(const setup *s, row *rows, uint32_t count, const char *rung)
{
    static double series[4][MAX_BLOCKS];
    uint32_t calls[4], blocks[4], most = 0;
    for (uint32_t k = 0; k < count; k++) {
        (void)block(s, &rows[k], 1); /* loads kernels, fills pools */
        double us = block(s, &rows[k], 1);
        calls[k] = us >= BLOCK_US ? 1 : (uint32_t)(BLOCK_US / us) + 1;
        blocks[k] = us > SLOW_US && s->blocks > 3 ? 3 : s->blocks;
        most = blocks[k] > most ? blocks[k] : most;
    }
    for (uint32_t b = 0; b < most; b++)
        for (uint32_t k = 0; k < count; k++)
            if (b < blocks[k])
                series[k][b] = block(s, &rows[k], calls[k]);
    for (uint32_t k = 0; k < count; k++) {
        rows[k].us = median(series[k], blocks[k]);
        if (!s->json)
            continue;
        printf("{\"rung\": \"%s\", \"row\": \"%s\", \"device\": \"%s\", \"n\": %" PRId64
               ", \"calls\": %u, \"us\": [",
               rung, rows[k].name, s->info.spec, s->n, calls[k]);
        for (uint32_t b = 0; b < blocks[k]; b++)
            printf("%s%.2f", b ? ", " : "", series[k][b]);
        printf("]}\n");
    }
}

static void scatter(const setup *s, const row *it)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = it->flags;
    CHECK(ddisp_tensor_scatter_add(it->to, 0, s->index, it->from, &options, NULL));
}

static ddisp_status launch_plain(const setup *s, const row *it, uint64_t flags)
{
    ddisp_arg args[3] = {DDISP_ARG(s->index), DDISP_ARG(it->from), DDISP_ARG(it->to)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    options.items[0] = (uint64_t)s->n;
    options.items[1] = options.items[2] = 1;
    return ddisp_launch(s->plain, DDISP_MODE_FORWARD, args, 3, &options, NULL);
}

static void scatter_plain(const setup *s, const row *it)
{
    CHECK(launch_plain(s, it, 0));
}

static void accumulate(const setup *s, const row *it)
{
    (void)s;
    CHECK(ddisp_tensor_accumulate(it->to, it->from, 1, NULL, NULL));
}

static void copy(const setup *s, const row *it)
{
    (void)s;
    CHECK(ddisp_tensor_copy(it->to, it->from, NULL));
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

static ddisp_tensor *make(const setup *s, ddisp_dtype dtype, int64_t n)
{
    ddisp_tensor *tensor;
    CHECK(ddisp_tensor_create(s->device, dtype, 1, &n, 0, &tensor));
    return tensor;
}

static void make_data(setup *s)
{
    float *values = malloc((size_t)s->n * sizeof *values);
    uint64_t state = 88172645463325252u;
    if (!values) {
        fprintf(stderr, "accumulate: no memory for %" PRId64 " elements\n", s->n);
        exit(1);
    }
    for (int64_t i = 0; i < s->n; i++)
        values[i] = (float)(next(&state) >> 40) * 0x1p-23f - 1;
    s->source[0] = make(s, DDISP_DTYPE_F32, s->n);
    s->source[1] = make(s, DDISP_DTYPE_F16, s->n);
    s->index = make(s, DDISP_DTYPE_I32, s->n);
    CHECK(ddisp_tensor_write(s->source[0], values, (uint64_t)s->n * sizeof *values, NULL));
    free(values);
    CHECK(ddisp_tensor_copy(s->source[1], s->source[0], NULL));
}

static void choose_indices(const setup *s, int64_t bins, int64_t run)
{
    int32_t *values = malloc((size_t)s->n * sizeof *values);
    uint64_t state = 0x9E3779B97F4A7C15u;
    if (!values)
        exit(1);
    for (int64_t i = 0; i < s->n; i++)
        values[i] =
            i % run ? values[i - 1] : (int32_t)((next(&state) >> 32) * (uint64_t)bins >> 32);
    CHECK(ddisp_tensor_write(s->index, values, (uint64_t)s->n * sizeof *values, NULL));
    free(values);
}

static ddisp_kernel *make_plain(const setup *s)
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
    if (strcmp(s->info.backend, "host") == 0)
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

static void climb(setup *s)
{
    static const int64_t bins[] = {1, 32, 1024, 65536, 16 << 20}, runs[] = {1, 64};
    printf("%-28s %10s %10s %10s %10s %10s\n", "adds, us", "plain", "ours", "determ.", "ours/plain",
           "det./ours");
    for (int type = 0; type < 2; type++)
        for (int r = 0; r < 2; r++)
            for (int b = 0; b < 5; b++) {
                char rung[64];
                ddisp_dtype dtype = type ? DDISP_DTYPE_F16 : DDISP_DTYPE_F32;
                if (bins[b] == 1 && runs[r] != 1)
                    continue;
                (void)snprintf(rung, sizeof rung, "%s, %" PRId64 " cells%s",
                               ddisp_dtype_name(dtype), bins[b], r ? ", runs of 64" : "");
                choose_indices(s, bins[b], runs[r]);
                ddisp_tensor *to = make(s, dtype, bins[b]);
                CHECK(ddisp_tensor_fill(to, 0, NULL));
                row rows[3] = {{"ours", scatter, to, s->source[type], 0, 0}};
                uint32_t count = 1, fixed = 0, plain = 0;
                if (s->deterministic) {
                    fixed = count;
                    rows[count++] = (row){"deterministic",
                                          scatter,
                                          to,
                                          s->source[type],
                                          DDISP_ACCUMULATE_DETERMINISTIC,
                                          0};
                }
                const row one = {"", NULL, to, s->source[0], 0, 0};
                if (s->plain && type == 0 &&
                    launch_plain(s, &one, DDISP_LAUNCH_DRY_RUN) == DDISP_STATUS_OK) {
                    plain = count;
                    rows[count++] =
                        (row){"plain atomics", scatter_plain, to, s->source[type], 0, 0};
                }
                measure(s, rows, count, rung);
                double ours = rows[0].us;
                printf("%-28s %10.1f %10.1f %10.1f %10.3f %10.3f\n", rung,
                       plain ? rows[plain].us : 0, ours, fixed ? rows[fixed].us : 0,
                       plain ? ours / rows[plain].us : 0, fixed ? rows[fixed].us / ours : 0);
                (void)fflush(stdout);
                ddisp_tensor_release(to);
            }
}

static void dense(setup *s)
{
    ddisp_tensor *to = make(s, DDISP_DTYPE_F32, s->n), *half = make(s, DDISP_DTYPE_F16, s->n);
    ddisp_tensor *sum = make(s, DDISP_DTYPE_F32, 1);
    CHECK(ddisp_tensor_fill(to, 0, NULL));
    CHECK(ddisp_tensor_fill(half, 0, NULL));
    CHECK(ddisp_tensor_fill(sum, 0, NULL));
    row rows[4] = {{"copy", copy, to, s->source[0], 0, 0},
                   {"accumulate f32", accumulate, to, s->source[0], 0, 0},
                   {"accumulate f16", accumulate, half, s->source[1], 0, 0},
                   {"sum of all f32", accumulate, sum, s->source[0], 0, 0}};
    measure(s, rows, 4, "dense");
    double bytes = (double)s->n * 4, rate = 2 * bytes / rows[0].us;
    for (int i = 0; i < 4; i++)
        printf("%-28s %10.1f us\n", rows[i].name, rows[i].us);
    printf("%-28s %10.3f\n", "accumulate f32 / copy rate", 3 * bytes / rows[1].us / rate);
    printf("%-28s %10.3f\n", "accumulate f16 / copy rate", 1.5 * bytes / rows[2].us / rate);
    printf("%-28s %10.3f\n", "sum / copy rate", bytes / rows[3].us / rate);
    ddisp_tensor_release(to);
    ddisp_tensor_release(half);
    ddisp_tensor_release(sum);
}

/* Whether the device has deterministic scatter-add. */
static bool has_deterministic(const setup *s)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    ddisp_tensor *one = make(s, DDISP_DTYPE_F32, 1);
    options.size = (uint32_t)sizeof options;
    options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
    CHECK(ddisp_tensor_fill(one, 0, NULL));
    choose_indices(s, 1, 1);
    ddisp_status status = ddisp_tensor_scatter_add(one, 0, s->index, s->source[0], &options, NULL);
    if (status != DDISP_STATUS_UNSUPPORTED)
        CHECK(status);
    ddisp_tensor_release(one);
    return status == DDISP_STATUS_OK;
}

int main(int argc, char **argv)
{
    const char *device = "cuda";
    setup s = {.n = INT64_C(64) << 20, .blocks = 31};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            s.json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            s.blocks = 5;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            s.n = (int64_t)strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--blocks") == 0 && i + 1 < argc)
            s.blocks = (uint32_t)strtoul(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "usage: accumulate [--device cuda|vulkan|host] [--n N] [--blocks N] "
                            "[--quick] [--json]\n");
            return 2;
        }
    }
    s.blocks = s.blocks < 1 ? 1 : s.blocks > MAX_BLOCKS ? MAX_BLOCKS : s.blocks;
    s.info.size = (uint32_t)sizeof s.info;
    CHECK(ddisp_context_create(NULL, &s.context));
    CHECK(ddisp_device_open(s.context, device, &s.device));
    CHECK(ddisp_device_get_info(s.device, &s.info));
    s.plain = make_plain(&s);
    make_data(&s);
    s.deterministic = has_deterministic(&s);
    printf("%s, %s; %" PRId64 " elements, %u blocks\n", s.info.name, s.info.driver, s.n, s.blocks);
    climb(&s);
    dense(&s);
    for (int i = 0; i < 2; i++)
        ddisp_tensor_release(s.source[i]);
    ddisp_tensor_release(s.index);
    if (s.plain)
        ddisp_kernel_release(s.plain);
    ddisp_device_release(s.device);
    ddisp_context_release(s.context);
    return 0;
}
