/*
 * memory.c - what frozen inputs cost in memory, judged from outside of the library: the process's
 * proportional set size on the host and on software devices, what the driver says is free on CUDA,
 * and the sum of vkAllocateMemory on Vulkan. Each case runs in a process of its own.
 *
 *   memory [--device host|cuda|vulkan] [--n N]
 */
#include <diffdispatch/device/ddisp_block.h>

#include "bench.h"

#include "nine.ptx.h"
#include "nine_all.spv.h"
#include "nine_first.spv.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUTS 9

/* Proportional set size of this process in bytes. */
static uint64_t set_size(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %" SCNu64, &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return kib * 1024;
}

static atomic_bool done;

/* Watches the set size until the work is done; gives the largest. */
static void *watch(void *peak)
{
    while (!atomic_load(&done)) {
        uint64_t now = set_size();
        if (now > *(uint64_t *)peak)
            *(uint64_t *)peak = now;
        (void)usleep(1000);
    }
    return NULL;
}

static void add(const ddisp_block *block, uint64_t begin, uint64_t end, int count)
{
    const float *gy = (const float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, 9)->grad_read;
    for (int k = 0; k < count; k++) {
        float *g = (float *)(uintptr_t)DDISP_BLOCK_TENSOR(block, k)->grad_add;
        for (uint64_t i = begin; i < end; i++)
            g[i] += gy[i];
    }
}

static void nine_all(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    add(block, begin, end, INPUTS);
}

static void nine_first(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    add(block, begin, end, 1);
}

/* Mask of the first input and the output. */
#define FIRST (UINT64_C(1) | UINT64_C(1) << INPUTS)

/* One code that adds to all gradients, and one for the first alone. */
static ddisp_kernel *make_kernel(ddisp_context *context)
{
    static const char *const names[INPUTS + 1] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "y"};
    static const ddisp_entry host[2] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, nine_all, 1),
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, nine_first, 2, FIRST),
    };
    static ddisp_entry ptx[2] = {
        DDISP_ENTRY(DDISP_MODE_BACKWARD, "nine_all", 256),
        DDISP_ENTRY(DDISP_MODE_BACKWARD, "nine_first", 256),
    };
    static ddisp_entry all[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 256)};
    static ddisp_entry first[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 256)};
    ptx[0].flags = all[0].flags = DDISP_ENTRY_LOOPS;
    ptx[1].flags = first[0].flags = DDISP_ENTRY_LOOPS | DDISP_ENTRY_MASKED;
    ptx[1].mask = first[0].mask = FIRST;
    const ddisp_code codes[4] = {
        DDISP_CODE("host", "host-function", NULL, 0, host, 0),
        DDISP_CODE("cuda", "ptx", nine_ptx, sizeof nine_ptx, ptx, 0),
        DDISP_CODE("vulkan", "spirv", nine_first_spv, sizeof nine_first_spv, first, 0),
        DDISP_CODE("vulkan", "spirv", nine_all_spv, sizeof nine_all_spv, all, 0),
    };
    ddisp_param params[INPUTS + 1];
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel;
    for (int i = 0; i <= INPUTS; i++)
        params[i] =
            (ddisp_param)DDISP_PARAM(names[i], i < INPUTS ? DDISP_ACCESS_IN : DDISP_ACCESS_OUT,
                                     DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE);
    desc.size = (uint32_t)sizeof desc;
    desc.name = "nine";
    desc.params = params;
    desc.param_count = INPUTS + 1;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = 4;
    desc.code_size = (uint32_t)sizeof codes[0];
    CHECK(ddisp_kernel_create(context, &desc, &kernel));
    return kernel;
}

/* Device memory in use as the CUDA driver sees it, in the context of the calling thread or the
 * primary one. */
static uint64_t cuda_used(void)
{
    int (*info)(size_t *, size_t *), (*retain)(void **, int), (*push)(void *), (*pop)(void **);
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    size_t left = 0, total = 0;
    void *symbols[4] = {
        dlsym(library, "cuMemGetInfo_v2"), dlsym(library, "cuDevicePrimaryCtxRetain"),
        dlsym(library, "cuCtxPushCurrent_v2"), dlsym(library, "cuCtxPopCurrent_v2")};
    memcpy(&info, &symbols[0], sizeof info);
    memcpy(&retain, &symbols[1], sizeof retain);
    memcpy(&push, &symbols[2], sizeof push);
    memcpy(&pop, &symbols[3], sizeof pop);
    if (retain(&context, 0) == 0 && push(context) == 0) {
        (void)info(&left, &total);
        (void)pop(&context);
    }
    return total - left;
}

/* The most that was allocated through vkAllocateMemory; see counting_vulkan.c. */
static uint64_t vulkan_peak(void)
{
    uint64_t (*peak)(void);
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "counted_vulkan_peak_bytes") : NULL;
    if (!symbol) {
        fprintf(stderr, "memory: vkAllocateMemory is not counted\n");
        exit(1);
    }
    memcpy(&peak, &symbol, sizeof peak);
    return peak();
}

/* Runs one backward launch and prints the memory in use. */
static void child(const char *device_name, uint64_t n, ddisp_policy policy, int frozen)
{
    ddisp_context *context;
    ddisp_device *device;
    ddisp_tensor *tensor[INPUTS + 1], *upstream;
    int64_t shape[1] = {(int64_t)n};
    ddisp_device_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    CHECK(ddisp_context_create(NULL, &context));
    CHECK(ddisp_device_open(context, device_name, &device));
    CHECK(ddisp_device_get_info(device, &info));
    ddisp_kernel *kernel = make_kernel(context);
    ddisp_arg args[INPUTS + 1];
    /* Inputs beyond the counted ones are guarded by the sink's counterpart: they are omitted with
     * the first code */
    for (int i = 0; i <= INPUTS; i++) {
        uint64_t flags = i == 0 || i == INPUTS ? DDISP_TENSOR_REQUIRES_GRAD : 0;
        CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, flags, &tensor[i]));
        args[i] = (ddisp_arg)DDISP_ARG_POLICY(tensor[i], policy);
        if (policy != DDISP_POLICY_SPECIALIZE && i > frozen)
            args[i].policy = DDISP_POLICY_SINK;
    }
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, 0, &upstream));
    CHECK(ddisp_tensor_fill(upstream, 1, NULL));
    CHECK(ddisp_tensor_set_grad(tensor[INPUTS], upstream));
    uint64_t peak = 0;
    pthread_t watcher;
    CHECK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    (void)pthread_create(&watcher, NULL, watch, &peak);
    CHECK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, INPUTS + 1, NULL, NULL));
    CHECK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
    atomic_store(&done, 1);
    (void)pthread_join(watcher, NULL);
    uint64_t used = strcmp(info.backend, "cuda") == 0         ? cuda_used()
                    : info.flags & DDISP_DEVICE_FLAG_SOFTWARE ? peak
                                                              : vulkan_peak();
    printf("%" PRIu64 "\n", used);
    (void)fflush(stdout);
    _exit(0);
}

/* Variables for the children that put counting_vulkan.c before the loader that there is. */
static char counted[1024];

static void count_vulkan(const char *program)
{
    struct link_map *map;
    const char *end = strrchr(program, '/'), *old = getenv("LD_LIBRARY_PATH");
    void *library = dlopen("libvulkan.so.1", RTLD_NOW);
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        (void)snprintf(counted, sizeof counted,
                       "DDISP_COUNTED_VULKAN='%s' LD_LIBRARY_PATH='%.*s/counting:%s'", map->l_name,
                       end ? (int)(end - program) : 1, end ? program : ".", old ? old : "");
}

static uint64_t measure(const char *program, const char *device, uint64_t n, ddisp_policy policy,
                        int frozen)
{
    char command[2048], line[64] = "";
    (void)snprintf(command, sizeof command, "%s '%s' --child '%s' %" PRIu64 " %u %d", counted,
                   program, device, n, policy, frozen);
    FILE *pipe = popen(command, "r");
    if (!pipe || !fgets(line, sizeof line, pipe))
        fprintf(stderr, "memory: no answer from %s\n", command);
    if (pipe)
        (void)pclose(pipe);
    return strtoull(line, NULL, 10);
}

static double mib(uint64_t bytes, uint64_t base)
{
    return ((double)bytes - (double)base) / 1048576.0;
}

int main(int argc, char **argv)
{
    const char *device = "host";
    uint64_t n = UINT64_C(64) << 20;
    if (argc == 6 && strcmp(argv[1], "--child") == 0)
        child(argv[2], strtoull(argv[3], NULL, 10), (ddisp_policy)atoi(argv[4]), atoi(argv[5]));
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            n = strtoull(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "usage: memory [--device host|cuda|vulkan] [--n N]\n");
            return 2;
        }
    }
    if (strncmp(device, "vulkan", 6) == 0)
        count_vulkan(argv[0]);
    uint64_t base = measure(argv[0], device, n, DDISP_POLICY_SPECIALIZE, 8);
    printf("%s, %" PRIu64 " f32 an input, eight of nine inputs frozen; MiB above specialize\n",
           device, n);
    printf("  sink, 8 frozen inputs      %9.1f\n",
           mib(measure(argv[0], device, n, DDISP_POLICY_SINK, 8), base));
    printf("  scratch for 1, sink for 7  %9.1f\n",
           mib(measure(argv[0], device, n, DDISP_POLICY_SCRATCH, 1), base));
    printf("  scratch for 8              %9.1f\n",
           mib(measure(argv[0], device, n, DDISP_POLICY_SCRATCH, 8), base));
    return 0;
}
