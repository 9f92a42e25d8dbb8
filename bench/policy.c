/*
 * policy.c - what each policy for a frozen input costs: the backward of y = a * b on f32, in time
 * and in device memory, beside the same work launched by hand through the driver's API in this
 * process. The cases take turns, block by block; medians of blocks are compared.
 *
 *   policy [--device cuda|vulkan] [--n N] [--blocks N] [--launches N] [--grid GROUPS] [--json]
 */
#include "bench.h"
#include "raw.h"

#include "bound.spv.h"
#include "mul_kernel.h"
#include "store.ptx.h"
#include "store.spv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BLOCKS 1000

enum row {
    HAND_ONE,
    SPECIALIZE,
    GUARD,
    SINK,
    HAND_BOTH,
    BOTH,
    HAND_SCRATCH,
    SCRATCH,
    HAND_COPY,
    STORE,
    BOUND_BOTH, /* the rest on Vulkan alone */
    BOUND_SPECIALIZE,
    BOUND_NULL,
    ROWS
};

static const char *const names[ROWS] = {"hand-written, one gradient",
                                        "specialize",
                                        "guard",
                                        "sink",
                                        "hand-written, both",
                                        "both real",
                                        "hand-written scratch",
                                        "scratch",
                                        "copy by hand",
                                        "both, store once",
                                        "descriptors, both real",
                                        "descriptors, specialize",
                                        "descriptors, null descriptor"};

typedef struct setup {
    ddisp_device *device;
    ddisp_kernel *mul, *store, *bound; /* bound NULL: no null descriptors */
    ddisp_tensor *a, *b, *y;
    raw *rival;
    uint32_t launches;
    uint32_t grid; /* groups asked for; 0: chosen by the library */
} setup;

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void launch(const setup *s, ddisp_kernel *kernel, ddisp_policy policy, bool both,
                   bool overwrite)
{
    ddisp_arg args[3] = {DDISP_ARG(s->a), DDISP_ARG(s->b), DDISP_ARG(s->y)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.grid[0] = s->grid;
    options.flags = DDISP_LAUNCH_KEEP_UPSTREAM | (overwrite ? DDISP_LAUNCH_OVERWRITE : 0);
    CHECK(ddisp_tensor_set_requires_grad(s->b, both));
    for (uint32_t i = 0; i < s->launches; i++)
        CHECK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    CHECK(ddisp_device_synchronize(s->device, DDISP_TIMEOUT_INFINITE));
}

static void hand(const setup *s, enum raw_work work)
{
    if (!s->rival->run(s->rival, work, s->launches))
        exit(1);
}

static void run(const setup *s, enum row row)
{
    switch (row) {
    case HAND_ONE:
        hand(s, RAW_ONE);
        break;
    case HAND_BOTH:
        hand(s, RAW_BOTH);
        break;
    case HAND_SCRATCH:
        hand(s, RAW_SCRATCH);
        break;
    case HAND_COPY:
        hand(s, RAW_COPY);
        break;
    case BOTH:
        launch(s, s->mul, DDISP_POLICY_AUTO, true, false);
        break;
    case STORE:
        launch(s, s->store, DDISP_POLICY_AUTO, true, true);
        break;
    case SPECIALIZE:
        launch(s, s->mul, DDISP_POLICY_SPECIALIZE, false, false);
        break;
    case BOUND_BOTH:
        launch(s, s->bound, DDISP_POLICY_AUTO, true, false);
        break;
    case BOUND_SPECIALIZE:
        launch(s, s->bound, DDISP_POLICY_SPECIALIZE, false, false);
        break;
    case BOUND_NULL:
        launch(s, s->bound, DDISP_POLICY_GUARD, false, false);
        break;
    case GUARD:
        launch(s, s->mul, DDISP_POLICY_GUARD, false, false);
        break;
    case SINK:
        launch(s, s->mul, DDISP_POLICY_SINK, false, false);
        break;
    default:
        launch(s, s->mul, DDISP_POLICY_SCRATCH, false, false);
        break;
    }
}

static const ddisp_param params[3] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
};

static ddisp_kernel *make_kernel(ddisp_context *context, const char *name, const ddisp_code *codes,
                                 uint32_t count)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel;
    desc.size = (uint32_t)sizeof desc;
    desc.name = name;
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = count;
    desc.code_size = (uint32_t)sizeof codes[0];
    CHECK(ddisp_kernel_create(context, &desc, &kernel));
    return kernel;
}

static ddisp_kernel *make_store(ddisp_context *context)
{
    static ddisp_entry ptx[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "store_backward", 256)};
    static ddisp_entry spirv[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 256)};
    static const ddisp_code_param stores[2] = {
        {0, DDISP_WRITE_MODE_STORE_ONCE, DDISP_DTYPE_ANY, 0, 0, 16, 0, 0},
        {1, DDISP_WRITE_MODE_STORE_ONCE, DDISP_DTYPE_ANY, 0, 0, 16, 0, 0},
    };
    ptx[0].flags = spirv[0].flags = DDISP_ENTRY_LOOPS;
    ddisp_code codes[2] = {
        DDISP_CODE("cuda", "ptx", store_ptx, sizeof store_ptx, ptx, 0),
        DDISP_CODE("vulkan", "spirv", store_spv, sizeof store_spv, spirv, 0),
    };
    for (int i = 0; i < 2; i++) {
        codes[i].params = stores;
        codes[i].param_count = 2;
        codes[i].param_size = (uint32_t)sizeof stores[0];
    }
    return make_kernel(context, "store", codes, 2);
}

/* An existing shader on storage buffers, for the form of the frozen input's gradient that only they
 * have. */
static ddisp_kernel *make_bound(ddisp_context *context)
{
    static const ddisp_native_arg native[6] = {
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 0, 0, 0),
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 1, 0, 1),
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_READ, 2, 0, 2),
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_ADD, 0, 0, 3),
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_ADD, 1, 0, 4),
        {DDISP_SOURCE_ITEMS, 0, 0, DDISP_SPACE_DEFAULT, 0, 0, 4, 0},
    };
    static ddisp_entry entry[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 256)};
    entry[0].native = native;
    entry[0].native_count = 6;
    ddisp_code code = DDISP_CODE("vulkan", "spirv", bound_spv, sizeof bound_spv, entry, 0);
    return make_kernel(context, "bound", &code, 1);
}

static void make_tensors(setup *s, uint64_t n)
{
    int64_t shape[1] = {(int64_t)n};
    ddisp_tensor *upstream;
    CHECK(ddisp_tensor_create(s->device, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD,
                              &s->a));
    CHECK(ddisp_tensor_create(s->device, DDISP_DTYPE_F32, 1, shape, 0, &s->b));
    CHECK(ddisp_tensor_create(s->device, DDISP_DTYPE_F32, 1, shape, DDISP_TENSOR_REQUIRES_GRAD,
                              &s->y));
    CHECK(ddisp_tensor_create(s->device, DDISP_DTYPE_F32, 1, shape, 0, &upstream));
    CHECK(ddisp_tensor_fill(s->a, 1.25, NULL));
    CHECK(ddisp_tensor_fill(s->b, -0.75, NULL));
    CHECK(ddisp_tensor_fill(upstream, 0.5, NULL));
    CHECK(ddisp_tensor_set_grad(s->y, upstream));
    ddisp_tensor_release(upstream);
}

/* Bytes that one launch under a policy takes beyond what is there before: peak of temporaries,
 * sink. */
static uint64_t extra_bytes(ddisp_context *context, const setup *s, ddisp_policy policy)
{
    ddisp_arg args[3] = {DDISP_ARG(s->a), DDISP_ARG(s->b), DDISP_ARG(s->y)};
    ddisp_launch_options options = DDISP_ZERO;
    ddisp_report_info info = DDISP_ZERO;
    ddisp_report *report;
    CHECK(ddisp_device_trim(s->device));
    CHECK(ddisp_report_create(context, &report));
    CHECK(ddisp_tensor_set_requires_grad(s->b, 0));
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    options.report = report;
    info.size = (uint32_t)sizeof info;
    CHECK(ddisp_launch(s->mul, DDISP_MODE_BACKWARD, args, 3, &options, NULL));
    CHECK(ddisp_report_get_info(report, &info));
    ddisp_report_release(report);
    return info.extra_bytes;
}

static void print_ratio(const char *what, double value, double against)
{
    printf("  %-46s %6.3f\n", what, value / against);
}

int main(int argc, char **argv)
{
    static double series[ROWS][MAX_BLOCKS];
    uint64_t n = UINT64_C(64) << 20;
    uint32_t blocks = 31;
    const char *device = "cuda";
    bool json = false;
    setup s = {.launches = 8};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            n = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--blocks") == 0 && i + 1 < argc)
            blocks = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--grid") == 0 && i + 1 < argc)
            s.grid = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--launches") == 0 && i + 1 < argc)
            s.launches = (uint32_t)strtoul(argv[++i], NULL, 10);
        else {
            fprintf(stderr, "usage: policy [--device cuda|vulkan] [--n N] [--blocks N] [--launches "
                            "N] [--json]\n");
            return 2;
        }
    }
    blocks = blocks < 1 ? 1 : blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks;
    ddisp_context *context;
    ddisp_device_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    CHECK(ddisp_context_create(NULL, &context));
    CHECK(ddisp_device_open(context, device, &s.device));
    CHECK(ddisp_device_get_info(s.device, &info));
    s.rival = strcmp(info.backend, "cuda") == 0 ? raw_cuda_open(n) : raw_vulkan_open(n, info.name);
    if (!s.rival) {
        fprintf(stderr, "policy: no %s device to launch by hand on\n", device);
        return 1;
    }
    CHECK(ddisp_kernel_create(context, mul_kernel_desc(), &s.mul));
    s.store = make_store(context);
    if (info.flags & DDISP_DEVICE_FLAG_NULL_DESCRIPTOR)
        s.bound = make_bound(context);
    const int rows = s.bound ? ROWS : BOUND_BOTH;
    make_tensors(&s, n);

    for (int row = 0; row < rows; row++) /* builds variants, makes gradients, fills pools */
        run(&s, (enum row)row);
    for (uint32_t block = 0; block < blocks; block++)
        for (int row = 0; row < rows; row++) {
            uint32_t launches = s.launches;
            s.launches = 1; /* the rival's device and ours take turns on the hardware */
            run(&s, (enum row)row);
            s.launches = launches;
            double start = now_us();
            run(&s, (enum row)row);
            series[row][block] = (now_us() - start) / s.launches;
        }

    double m[ROWS];
    for (int row = 0; row < rows; row++)
        m[row] = quantile(series[row], blocks, 0.5);
    printf("%s, %s; %" PRIu64 " f32, %u blocks of %u launches\n", info.name, info.driver, n, blocks,
           s.launches);
    for (int row = 0; row < rows; row++)
        printf("  %-46s %9.1f us\n", names[row], m[row]);
    print_ratio("specialize / hand-written one", m[SPECIALIZE], m[HAND_ONE]);
    print_ratio("guard / hand-written one", m[GUARD], m[HAND_ONE]);
    print_ratio("specialize / both real", m[SPECIALIZE], m[BOTH]);
    print_ratio("guard / both real", m[GUARD], m[BOTH]);
    print_ratio("sink / both real", m[SINK], m[BOTH]);
    print_ratio("both real / hand-written both", m[BOTH], m[HAND_BOTH]);
    print_ratio("scratch / hand-written scratch", m[SCRATCH], m[HAND_SCRATCH]);
    print_ratio("store once, both / 5 tensors at the copy rate", m[STORE], m[HAND_COPY] * 2.5);
    if (s.bound)
        print_ratio("null descriptor / specialize, descriptors", m[BOUND_NULL],
                    m[BOUND_SPECIALIZE]);
    static const ddisp_policy policies[4] = {DDISP_POLICY_SPECIALIZE, DDISP_POLICY_GUARD,
                                             DDISP_POLICY_SINK, DDISP_POLICY_SCRATCH};
    for (int i = 0; i < 4; i++)
        printf("  extra bytes, %-33s %11" PRIu64 "\n", ddisp_policy_name(policies[i]),
               extra_bytes(context, &s, policies[i]));
    for (int row = 0; row < rows && json; row++) {
        printf("{\"row\": \"%s\", \"device\": \"%s\", \"n\": %" PRIu64 ", \"us\": [", names[row],
               info.spec, n);
        for (uint32_t block = 0; block < blocks; block++)
            printf("%s%.2f", block ? ", " : "", series[row][block]);
        printf("]}\n");
    }
    s.rival->close(s.rival);
    return 0;
}
