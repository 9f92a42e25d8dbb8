/*
 * control.c - shows that the fault which the policies prevent is real. A program that does what the
 * library never does: launches the opaque backward of y = a b with a null gradient for b, straight
 * through a backend's table. It must see the process die of it, or the device get lost.
 *
 *   control DEVICE        runs both children below and judges, in TAP
 *   control DEVICE real   a launch by the same way with both gradients there: works
 *   control DEVICE null   the same with the gradient of b at address 0: must not survive
 *
 * Children are started by exec, before anything of the library was touched. Not to be run under a
 * memory checker: the fault is the point.
 */
#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

#include "cts_kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4096, TENSORS = 3 };
enum { RAN = 0, FAILED = 1, NO_DEVICE = 77, LOST = 40 };

struct control {
    const ddisp_backend_table *table;
    void *instance, *device, *stream;
    const ddisp_code *code;
    ddisp_backend_code described;
    ddisp_code own;
    ddisp_entry entry;
    uint32_t switch_ids[TENSORS];
    void *variant;
    ddisp_backend_memory data[TENSORS], gradient[TENSORS];
};

/* ---- services */

static char last_failure[1024];

static void *allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    return calloc(1, size_bytes);
}

static void release(void *self, void *pointer)
{
    (void)self;
    free(pointer);
}

static void note(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    (void)level;
    (void)message;
}

static ddisp_status failed(void *self, ddisp_status status, int64_t native, const char *message)
{
    (void)self;
    (void)snprintf(last_failure, sizeof last_failure, "%s (%lld): %s", ddisp_status_name(status),
                   (long long)native, message);
    return status;
}

static const ddisp_backend_services services = {.size = (uint32_t)sizeof services,
                                                .abi = DDISP_BACKEND_ABI,
                                                .allocate = allocate,
                                                .release = release,
                                                .log = note,
                                                .fail = failed};

/* Ends the child: a lost device is what was wanted, anything else is a failure of this program. */
static void must(ddisp_status status, const char *what)
{
    if (!status)
        return;
    printf("# %s: %s\n", what, last_failure);
    (void)fflush(stdout);
    _exit(status == DDISP_STATUS_DEVICE_LOST ? LOST : FAILED);
}

/* ---- a backend, without the core */

/* The file of a usable backend, as the library finds it; false with the reason in words. */
static int find_plugin(const char *backend, char *path, char *reason)
{
    ddisp_context *context = NULL;
    uint32_t count = 0;
    (void)snprintf(reason, 512, "there is no such backend");
    if (ddisp_context_create(NULL, &context) || ddisp_backend_count(context, &count))
        return 0;
    int found = 0;
    for (uint32_t i = 0; i < count && !found; i++) {
        ddisp_backend_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (ddisp_backend_get_info(context, i, &info) || strcmp(info.name, backend) != 0)
            continue;
        (void)snprintf(reason, 512, "%s", info.reason);
        (void)snprintf(path, 512, "%s", info.path);
        found = info.status == DDISP_STATUS_OK;
    }
    ddisp_context_release(context);
    return found;
}

static void open_device(struct control *c, const char *backend, const char *path, uint32_t index)
{
    char name[64];
    ddisp_backend_query_function query;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    (void)snprintf(name, sizeof name, "ddisp_%s_backend_query", backend);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol) {
        printf("# %s: %s\n", path, dlerror());
        exit(FAILED);
    }
    memcpy(&query, &symbol, sizeof query);
    must(query(DDISP_BACKEND_ABI, &services, &c->table), "query");
    must(c->table->open(&services, &c->instance), "open");
    must(c->table->device_open(c->instance, index, &c->device), "device_open");
    must(c->table->stream_create(c->device, DDISP_BACKEND_STREAM_DEFAULT, &c->stream), "stream");
}

/* The first code of the opaque kernel that has a backward entry and fits the device. */
static void build(struct control *c, const char *backend)
{
    const cts_source *source = &cts_mul_opaque;
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    for (uint32_t i = 0; i < source->code_count; i++) {
        const ddisp_code *code = &source->codes[i];
        if (strcmp(code->backend, backend) != 0)
            continue;
        for (uint32_t e = 0; e < code->entry_count; e++)
            if (code->entries[e].mode == DDISP_MODE_BACKWARD)
                c->entry = code->entries[e];
        c->own = *code;
        c->own.options = "";
        c->own.entries = &c->entry;
        c->own.entry_count = 1;
        if (!c->entry.mode)
            continue;
        if (!c->entry.name)
            c->entry.name = "";
        for (int k = 0; k < 3; k++)
            if (!c->entry.group_size[k])
                c->entry.group_size[k] = 1;
        c->described = (ddisp_backend_code){
            .size = (uint32_t)sizeof c->described,
            .param_count = TENSORS,
            .kernel_name = source->name,
            .code = &c->own,
            .params = source->params,
            .switch_ids = c->switch_ids,
            .block_size_bytes =
                (uint32_t)(sizeof(ddisp_block) + TENSORS * sizeof(ddisp_device_tensor))};
        must(c->table->inspect(&services, &c->described, &info), "inspect");
        if (c->table->code_fits(c->device, &c->described) == DDISP_STATUS_OK)
            break;
    }
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant,
                                     .mode = DDISP_MODE_BACKWARD,
                                     .code = &c->described,
                                     .entry = &c->entry,
                                     .entry_name = c->entry.name,
                                     .switches = UINT64_MAX,
                                     .switch_mask = info.switch_mask};
    must(c->table->variant_build(c->device, &variant, &c->variant), "variant_build");
}

static ddisp_backend_range whole(const ddisp_backend_memory *memory)
{
    return (ddisp_backend_range){memory->handle, memory->address, memory->size_bytes};
}

/* a = 2, b = 3, the upstream of y is 5, the gradients of a and b start from 0. */
static void make_memory(struct control *c, int with_gradient_of_b)
{
    static const float values[TENSORS] = {2, 3, 6}, gradients[TENSORS] = {0, 0, 5};
    static float fill[N];
    for (int p = 0; p < TENSORS; p++)
        for (int g = 0; g < 2; g++) {
            ddisp_backend_memory *memory = g ? &c->gradient[p] : &c->data[p];
            if (g && p == 1 && !with_gradient_of_b)
                continue;
            must(c->table->memory_allocate(c->device, c->stream, sizeof fill, memory), "allocate");
            for (int i = 0; i < N; i++)
                fill[i] = g ? gradients[p] : values[p];
            ddisp_backend_range range = whole(memory);
            must(c->table->upload(c->device, c->stream, &range, fill), "upload");
        }
}

static void launch(struct control *c)
{
    struct {
        ddisp_block head;
        ddisp_device_tensor tensors[TENSORS];
    } block;
    ddisp_backend_access accesses[2 * TENSORS];
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .block_size_bytes = (uint32_t)sizeof block,
                                   .variant = c->variant,
                                   .block = &block,
                                   .items = N,
                                   .accesses = accesses};
    memset(&block, 0, sizeof block);
    memset(accesses, 0, sizeof accesses);
    block.head = (ddisp_block){DDISP_BLOCK_ABI, (uint32_t)sizeof block, N, TENSORS, 0, 0};
    for (int p = 0; p < TENSORS; p++) {
        ddisp_device_tensor *tensor = &block.tensors[p];
        tensor->data = c->data[p].address;
        tensor->grad_add = p < 2 ? c->gradient[p].address : 0;
        tensor->grad_read = p < 2 ? 0 : c->gradient[p].address;
        tensor->dtype = tensor->grad_dtype = DDISP_DTYPE_F32;
        tensor->rank = 1;
        for (int d = 0; d < 8; d++)
            tensor->shape[d] = d ? 1 : N;
        tensor->stride[0] = tensor->add_stride[0] = tensor->read_stride[0] = 1;
        accesses[launch.access_count++].range = whole(&c->data[p]);
        if (!c->gradient[p].address)
            continue;
        accesses[launch.access_count].writes = p < 2;
        accesses[launch.access_count++].range = whole(&c->gradient[p]);
    }
    for (int k = 0; k < 3; k++) {
        launch.group_size[k] = c->entry.group_size[k];
        launch.grid[k] = 1;
    }
    launch.grid[0] = N / c->entry.group_size[0];
    must(c->table->launch(c->device, c->stream, &launch), "launch");
    uint64_t ticket = 0;
    must(c->table->stream_mark(c->device, c->stream, &ticket), "mark");
    must(c->table->stream_synchronize(c->device, c->stream, ticket, DDISP_TIMEOUT_INFINITE),
         "wait");
}

/* With real gradients everything is as it should be, so that the null is what made the difference.
 */
static int check(struct control *c, int parameter, float expected)
{
    static float values[N];
    ddisp_backend_range range = whole(&c->gradient[parameter]);
    must(c->table->download(c->device, c->stream, &range, values), "download");
    for (int i = 0; i < N; i++)
        if (!(values[i] == expected)) {
            printf("# gradient of parameter %d, element %d: %g instead of %g\n", parameter, i,
                   (double)values[i], (double)expected);
            return FAILED;
        }
    return RAN;
}

static int run_child(const char *backend, uint32_t index, int real)
{
    struct control c;
    char path[512], reason[512];
    memset(&c, 0, sizeof c);
    if (!find_plugin(backend, path, reason)) {
        printf("# %s: %s\n", backend, reason);
        return NO_DEVICE;
    }
    open_device(&c, backend, path, index);
    uint32_t count = 0;
    must(c.table->device_count(c.instance, &count), "device_count");
    build(&c, backend);
    make_memory(&c, real);
    launch(&c);
    return check(&c, 0, 15) || (real && check(&c, 1, 10)) ? FAILED : RAN;
}

/* ---- the parent */

/* Runs this program again with one more argument; returns its wait status. */
static int start(const char *device, const char *which)
{
    char sanitizer[1024];
    const char *given = getenv("ASAN_OPTIONS");
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)snprintf(sanitizer, sizeof sanitizer, "%s:%s", given ? given : "",
                       "handle_segv=0:handle_sigbus=0:detect_leaks=0");
        (void)setenv("ASAN_OPTIONS", sanitizer, 1);
        (void)execl("/proc/self/exe", "control", device, which, (char *)NULL);
        _exit(FAILED);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

int main(int argument_count, char **arguments)
{
    char backend[64];
    uint32_t index = 0;
    if (argument_count < 2 || sscanf(arguments[1], "%63[^:]:%u", backend, &index) < 1) {
        printf("usage: control DEVICE\n");
        return 2;
    }
    if (argument_count > 2)
        return run_child(backend, index, strcmp(arguments[2], "real") == 0);

    int real = start(arguments[1], "real");
    if (WIFEXITED(real) && WEXITSTATUS(real) == NO_DEVICE) {
        printf("1..0 # SKIP %s cannot be used here\n", backend);
        return 0;
    }
    int null = start(arguments[1], "null");
    int ran = WIFEXITED(real) && WEXITSTATUS(real) == RAN;
    int died = WIFSIGNALED(null), lost = WIFEXITED(null) && WEXITSTATUS(null) == LOST;
    printf("1..2\n%s 1 - control_%s_runs_with_real_gradients\n", ran ? "ok" : "not ok", backend);
    printf("%s 2 - control_%s_faults_with_a_null_gradient\n", died || lost ? "ok" : "not ok",
           backend);
    if (died)
        printf("# died of signal %d: %s\n", WTERMSIG(null), strsignal(WTERMSIG(null)));
    if (lost)
        printf("# the device was lost\n");
    if (!died && !lost)
        printf("# wait status 0x%x\n", (unsigned)null);
    return ran && (died || lost) ? 0 : 1;
}
