/*
 * launch_subject.c - makes and runs what bench/launch measures. All tensors but the last of a
 * kernel are inputs; upstream gradients stay in place, so that every launch is like the one before.
 */
#include "launch_subject.h"

#include "empty.spv.h"

#include <diffdispatch/device/ddisp_block.h>

#include <string.h>

ddisp_context *context;
ddisp_device *device;
const rival *other;
bool in_caller;
bool changes;

uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const rival *find_rival(const ddisp_device_info *info)
{
    if (strcmp(info->backend, "cuda") == 0)
        return launch_cuda_open();
    if (strcmp(info->backend, "vulkan") == 0)
        return launch_vulkan_open(info->name, empty_spv, sizeof empty_spv);
    return launch_host_open();
}

/* ---- the empty kernel ---- */

void launch_empty(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)block;
    (void)begin;
    (void)end;
}

static uint32_t block_bytes(uint32_t tensors)
{
    return (uint32_t)(sizeof(ddisp_block) + tensors * sizeof(ddisp_device_tensor));
}

/* All tensors but the last are inputs. */
ddisp_kernel *make_kernel(uint32_t tensors, ddisp_dtype dtype, uint32_t serial)
{
    static const ddisp_entry compiled[2] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "empty", 64),
                                            DDISP_ENTRY(DDISP_MODE_BACKWARD, "empty", 64)};
    static const ddisp_entry shader[2] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "main", 64),
                                          DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 64)};
    ddisp_entry functions[2] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, launch_empty, 2 * (uint64_t)serial + 1),
        DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, launch_empty, 2 * (uint64_t)serial + 2)};
    ddisp_param params[MOST_TENSORS];
    char names[MOST_TENSORS][8], name[32], ptx[512];
    for (uint32_t i = 0; i < tensors; i++) {
        bool last = i + 1 == tensors;
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        params[i] = (ddisp_param)DDISP_PARAM(names[i], last ? DDISP_ACCESS_OUT : DDISP_ACCESS_IN,
                                             dtype, 1, dtype ? DDISP_PARAM_DIFFERENTIABLE : 0);
    }
    launch_ptx(block_bytes(tensors), ptx, sizeof ptx);
    if (serial) /* a text of its own */
        (void)snprintf(ptx + strlen(ptx), sizeof ptx - strlen(ptx), "// %u\n", serial);
    ddisp_code codes[3] = {DDISP_CODE("cuda", "ptx", ptx, strlen(ptx), compiled, 0),
                           DDISP_CODE("vulkan", "spirv", empty_spv, sizeof empty_spv, shader, 0),
                           DDISP_CODE("host", "host-function", NULL, 0, functions, 0)};
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel;
    (void)snprintf(name, sizeof name, "empty%u_%u", tensors, serial);
    desc.size = (uint32_t)sizeof desc;
    desc.name = name;
    desc.params = params;
    desc.param_count = tensors;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = 3;
    desc.code_size = (uint32_t)sizeof codes[0];
    CHECK(ddisp_kernel_create(context, &desc, &kernel));
    return kernel;
}

ddisp_tensor *make_tensor(uint64_t flags)
{
    const int64_t shape[1] = {32};
    ddisp_tensor *tensor;
    CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, shape, flags, &tensor));
    return tensor;
}

static void next_output(subject *s)
{
    if (s->outputs)
        s->args[s->tensors - 1].tensor = s->outputs[s->turn++ % OUTPUTS];
}

static void launch_dynamic(subject *s)
{
    next_output(s);
    CHECK(ddisp_launch(s->kernel, s->mode, s->args, s->tensors, &s->options, s->on));
}

static void launch_prepared(subject *s)
{
    next_output(s);
    CHECK(ddisp_plan_launch(s->plan, s->args, s->tensors, s->on));
}

void prepare(subject *s, ddisp_kernel *kernel, ddisp_mode mode, uint32_t tensors, bool bare)
{
    memset(s, 0, sizeof *s);
    s->kernel = kernel;
    s->mode = mode;
    s->tensors = tensors;
    CHECK(ddisp_stream_create(device, 0, &s->stream));
    s->on = s->stream;
    for (uint32_t i = 0; i < tensors; i++) {
        s->args[i].tensor = make_tensor(DDISP_TENSOR_REQUIRES_GRAD);
        CHECK(ddisp_tensor_fill(s->args[i].tensor, 1, s->stream));
    }
    if (changes && tensors && mode == DDISP_MODE_FORWARD) {
        s->outputs = malloc(OUTPUTS * sizeof(ddisp_tensor *));
        for (uint32_t i = 0; s->outputs && i < OUTPUTS; i++)
            s->outputs[i] =
                i ? make_tensor(DDISP_TENSOR_REQUIRES_GRAD) : s->args[tensors - 1].tensor;
    }
    s->options.size = (uint32_t)sizeof s->options;
    s->options.flags = mode == DDISP_MODE_BACKWARD ? DDISP_LAUNCH_KEEP_UPSTREAM : 0;
    s->options.device = device;
    if (mode == DDISP_MODE_BACKWARD) {
        ddisp_tensor *upstream = make_tensor(0);
        CHECK(ddisp_tensor_fill(upstream, 1, s->stream));
        CHECK(ddisp_tensor_set_grad(s->args[tensors - 1].tensor, upstream));
        ddisp_tensor_release(upstream);
    }
    launch_dynamic(s); /* builds the variant, makes gradients */
    CHECK(ddisp_plan_create(kernel, mode, s->args, tensors, &s->options, s->stream, &s->plan));
    launch_prepared(s);
    CHECK(ddisp_stream_synchronize(s->stream, DDISP_TIMEOUT_INFINITE));
    CHECK(ddisp_stream_begin_capture(s->stream));
    for (int i = 0; i < GRAPH_LAUNCHES; i++)
        launch_dynamic(s);
    CHECK(ddisp_stream_end_capture(s->stream, &s->graph));
    if (in_caller)
        s->on = NULL;
    s->lane = bare ? other->open(block_bytes(tensors), tensors) : NULL;
    if (bare && !s->lane)
        exit(1);
}

void finish(subject *s)
{
    CHECK(ddisp_stream_synchronize(s->stream, DDISP_TIMEOUT_INFINITE));
    if (s->lane)
        other->close(s->lane);
    ddisp_graph_release(s->graph);
    ddisp_plan_release(s->plan);
    for (uint32_t i = 0; i < s->tensors - (s->outputs ? 1 : 0); i++)
        ddisp_tensor_release(s->args[i].tensor);
    for (uint32_t i = 0; s->outputs && i < OUTPUTS; i++)
        ddisp_tensor_release(s->outputs[i]);
    free(s->outputs);
    ddisp_stream_release(s->stream);
}

static void require(bool good)
{
    if (good)
        return;
    fprintf(stderr, "launch: the driver failed by hand\n");
    exit(1);
}

void one(subject *s, enum kind kind)
{
    switch (kind) {
    case BARE:
        require(other->launch(s->lane));
        break;
    case DYNAMIC:
        launch_dynamic(s);
        break;
    case PREPARED:
        launch_prepared(s);
        break;
    case BARE_GRAPH:
        require(other->replay(s->lane));
        break;
    default:
        CHECK(ddisp_graph_launch(s->graph, s->stream));
    }
}

void hand_over(subject *s, enum kind kind)
{
    if (kind == BARE)
        require(other->flush(s->lane));
    else if (kind == DYNAMIC || kind == PREPARED)
        CHECK(s->on ? ddisp_stream_flush(s->on) : DDISP_STATUS_OK);
}

void await(subject *s, enum kind kind)
{
    if (kind == BARE || kind == BARE_GRAPH)
        require(other->wait(s->lane));
    else if (kind == GRAPH || s->on)
        CHECK(ddisp_stream_synchronize(s->stream, DDISP_TIMEOUT_INFINITE));
}

double block_of(subject *s, enum kind kind)
{
    int count = kind == GRAPH || kind == BARE_GRAPH ? LAUNCHES / GRAPH_LAUNCHES : LAUNCHES;
    one(s, kind); /* whoever was before left the caches to the others */
    hand_over(s, kind);
    await(s, kind);
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < count; i++)
        one(s, kind);
    hand_over(s, kind);
    double spent = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / count;
    await(s, kind);
    return spent;
}
