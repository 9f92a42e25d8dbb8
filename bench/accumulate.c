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
#include "accumulate.h"

/* ---- rows */

static void scatter(const row *it)
{
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = it->flags;
    CHECK(ddisp_tensor_scatter_add(it->to, 0, it->on->index, it->from, &options, NULL));
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

/* ---- all of it */

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
