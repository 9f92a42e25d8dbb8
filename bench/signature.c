/*
 * signature.c - what it costs to name a launch and to find its plan: time on this processor, and
 * instructions as callgrind counts them (where valgrind is installed), for launches of 1 to 32
 * tensors among 1 to a million cached signatures.
 *
 * Usage: signature [--json] [--quick | --full]
 *
 * --quick leaves the million out; --full counts instructions for it too, which takes minutes.
 *
 * "hot" asks for one signature again and again, as a training loop does; "cold" for a random one of
 * those that are cached, so that every look-up waits for memory. Goal: at most 150 ns, hot, for 8
 * tensors; flat in the number of cached signatures, linear in that of tensors. Linked with the
 * core's objects: what is measured is one step inside ddisp_launch.
 */
#include "bench.h"
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 31

static const uint32_t tensor_counts[] = {1, 4, 8, 32};
static const uint32_t entry_counts[] = {1, 1000, 1000000};
#define TENSOR_COUNTS 4
#define ENTRY_COUNTS  3

/* A launch by hand, as far as naming it goes. */
struct subject {
    ddisp_context context;
    ddisp_device device;
    ddisp_kernel kernel;
    ddisp_param params[DDISP_MAX_PARAMS];
    ddisp__launch launch;
    struct ddisp__plan plan;
    uint32_t entries;
};

static void *allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    return malloc(size_bytes);
}

static void release(void *user_data, void *pointer)
{
    (void)user_data;
    free(pointer);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7FB5D329728EA185);
    x = (x ^ x >> 27) * UINT64_C(0x81DADEF4BC2DD44D);
    return x ^ x >> 33;
}

/* The i-th of the kernels whose signatures are cached. */
static ddisp__hash kernel_hash(uint32_t i)
{
    return (ddisp__hash){mix(2 * (uint64_t)i + 1), mix(2 * (uint64_t)i + 2)};
}

/* Dense f32 tensors of rank 2, every other one with a gradient, the last an output. */
static void describe(struct subject *s, uint32_t tensors)
{
    const int64_t shape[2] = {1024, 1024};
    s->launch.count = tensors;
    for (uint32_t i = 0; i < tensors; i++) {
        ddisp__operand *operand = &s->launch.operands[i];
        bool output = i + 1 == tensors && tensors > 1;
        s->params[i].access = output ? DDISP_ACCESS_OUT : DDISP_ACCESS_IN;
        operand->param = &s->params[i];
        operand->dtype = DDISP_DTYPE_F32;
        operand->address = UINT64_C(0x100000000) + UINT64_C(0x10000000) * i;
        (void)ddisp__layout_make("bench", DDISP_DTYPE_F32, 2, shape, NULL, &operand->layout);
        ddisp__slot *slot = output ? &operand->read : &operand->add;
        slot->exists = true;
        slot->wanted = output || i % 2 == 0;
        slot->policy = slot->wanted ? DDISP_POLICY_DEFAULT : DDISP_POLICY_AUTO;
        slot->is_explicit = true;
        slot->gradient.address = operand->address + 0x8000000;
        slot->gradient.dtype = DDISP_DTYPE_F32;
        slot->gradient.layout = operand->layout;
        s->kernel.write_modes[i] = 1;
    }
}

/* Puts the signature of this launch into the cache. */
static bool remember(struct subject *s)
{
    bool added;
    ddisp__signature_write(&s->launch);
    return ddisp__plan_keep(&s->launch, &s->plan, &added) && added;
}

static struct subject *make(uint32_t tensors, uint32_t entries)
{
    struct subject *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context.allocator.allocate = allocate;
    s->context.allocator.release = release;
    s->kernel.context = &s->context;
    (void)pthread_mutex_init(&s->kernel.lock, NULL);
    (void)snprintf(s->device.info.backend, sizeof s->device.info.backend, "cuda");
    (void)snprintf(s->device.info.architecture, sizeof s->device.info.architecture, "sm_90");
    s->device.serial = 1;
    ddisp__signature_device(&s->device.info, &s->device.signature_head);
    s->launch.kernel = &s->kernel;
    s->launch.device = &s->device;
    s->launch.mode = DDISP_MODE_BACKWARD;
    s->entries = entries;
    describe(s, tensors);
    bool good = true;
    for (uint32_t i = 0; i < entries && good; i++) {
        s->kernel.hash = kernel_hash(i);
        good = remember(s);
    }
    s->kernel.hash = kernel_hash(0);
    if (good)
        return s;
    free(s);
    return NULL;
}

static void drop(struct subject *s)
{
    ddisp__table_clear(&s->context, &s->kernel.plans, NULL, NULL);
    free(s);
}

/* ---- measuring */

static void name_only(struct subject *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ddisp__signature_write(&s->launch);
}

static void hot(struct subject *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ddisp__signature_write(&s->launch);
        if (!ddisp__plan_find(&s->launch))
            abort();
    }
}

static void cold(struct subject *s, uint32_t count)
{
    uint32_t seed = 1;
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        s->kernel.hash = kernel_hash((uint32_t)((uint64_t)seed * s->entries >> 32));
        ddisp__signature_write(&s->launch);
        if (!ddisp__plan_find(&s->launch))
            abort();
    }
    s->kernel.hash = kernel_hash(0);
}

/* Median over blocks of nanoseconds a call; raw receives the blocks. */
static double measure(struct subject *s, void (*work)(struct subject *, uint32_t), uint32_t calls,
                      double raw[BLOCKS])
{
    work(s, calls);
    for (int block = 0; block < BLOCKS; block++) {
        uint64_t start = ddisp__time_ns();
        work(s, calls);
        raw[block] = (double)(ddisp__time_ns() - start) / calls;
    }
    return quantile(raw, BLOCKS, 0.5);
}

/* Instructions of `calls` calls and all around them, or 0 without valgrind. */
static uint64_t collected(const char *self, uint32_t tensors, uint32_t entries, uint32_t calls)
{
    char command[1024], line[256];
    uint64_t instructions = 0;
    (void)snprintf(command, sizeof command,
                   "valgrind --tool=callgrind --callgrind-out-file=/dev/null '%s' --loop %u %u %u "
                   "2>&1",
                   self, tensors, entries, calls);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        const char *found = strstr(line, "Collected : ");
        if (found)
            instructions = strtoull(found + strlen("Collected : "), NULL, 10);
    }
    return pipe && pclose(pipe) == 0 ? instructions : 0;
}

static double instructions(const char *self, uint32_t tensors, uint32_t entries)
{
    enum { CALLS = 1000 };
    uint64_t few = collected(self, tensors, entries, CALLS);
    uint64_t more = few ? collected(self, tensors, entries, 2 * CALLS) : 0;
    return more > few ? (double)(more - few) / CALLS : 0;
}

static void processor(char *name, size_t capacity)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    (void)snprintf(name, capacity, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        (void)snprintf(name, capacity, "%.*s", (int)strcspn(value + 2, "\n\""), value + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void print_series(const char *name, const double raw[BLOCKS])
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < BLOCKS; i++)
        printf("%s%.2f", i ? ", " : "", raw[i]);
    printf("]");
}

static bool row(const char *self, uint32_t tensors, uint32_t entries, uint32_t calls, bool json,
                bool first, bool full)
{
    double raw[3][BLOCKS], median[3];
    struct subject *s = make(tensors, entries);
    if (!s) {
        fprintf(stderr, "signature: no memory for %u signatures of %u tensors\n", entries, tensors);
        return false;
    }
    median[0] = measure(s, name_only, calls, raw[0]);
    median[1] = measure(s, hot, calls, raw[1]);
    median[2] = measure(s, cold, calls, raw[2]);
    uint32_t size = s->launch.signature_size;
    drop(s);
    double counted = entries > 1000 && !full ? 0 : instructions(self, tensors, entries);
    if (!json) {
        printf("%7u %8u %6u %8.1f %8.1f %8.1f ", tensors, entries, size, median[0], median[1],
               median[2]);
        if (counted > 0)
            printf("%12.0f\n", counted);
        else
            printf("%12s\n", "-");
        return true;
    }
    printf("%s\n  {\"tensors\": %u, \"entries\": %u, \"bytes\": %u, \"name_ns\": %.2f, "
           "\"hot_ns\": %.2f, \"cold_ns\": %.2f, \"instructions\": ",
           first ? "" : ",", tensors, entries, size, median[0], median[1], median[2]);
    if (counted > 0)
        printf("%.1f", counted);
    else
        printf("null");
    print_series("raw_name_ns", raw[0]);
    print_series("raw_hot_ns", raw[1]);
    print_series("raw_cold_ns", raw[2]);
    printf("}");
    return true;
}

int main(int count, char **values)
{
    bool json = false, quick = false, full = false;
    char name[128];
    if (count == 5 && strcmp(values[1], "--loop") == 0) {
        struct subject *s =
            make((uint32_t)strtoul(values[2], NULL, 10), (uint32_t)strtoul(values[3], NULL, 10));
        if (!s)
            return 1;
        hot(s, (uint32_t)strtoul(values[4], NULL, 10));
        drop(s);
        return 0;
    }
    for (int i = 1; i < count; i++) {
        bool *known = strcmp(values[i], "--json") == 0    ? &json
                      : strcmp(values[i], "--quick") == 0 ? &quick
                      : strcmp(values[i], "--full") == 0  ? &full
                                                          : NULL;
        if (!known) {
            fprintf(stderr, "usage: %s [--json] [--quick | --full]\n", values[0]);
            return 2;
        }
        *known = true;
    }
    processor(name, sizeof name);
    if (json)
        printf("{\"benchmark\": \"signature\", \"processor\": \"%s\", \"blocks\": %d, \"rows\": [",
               name, BLOCKS);
    else
        printf("naming a launch and finding its plan, on %s; nanoseconds, medians of %d blocks\n"
               "%7s %8s %6s %8s %8s %8s %12s\n",
               name, BLOCKS, "tensors", "entries", "bytes", "name", "hot", "cold", "instructions");
    for (int t = 0; t < TENSOR_COUNTS; t++)
        for (int e = 0; e < (quick ? ENTRY_COUNTS - 1 : ENTRY_COUNTS); e++)
            if (!row(values[0], tensor_counts[t], entry_counts[e], quick ? 2000 : 20000, json,
                     t + e == 0, full))
                return 1;
    if (json)
        printf("\n]}\n");
    return 0;
}
