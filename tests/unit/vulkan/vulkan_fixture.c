/*
 * vulkan_fixture.c - see vulkan_fixture.h.
 */
#include "vulkan_fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "mul_backward_native.h"
#include "mul_backward_swap.h"
#include "mul_forward.h"
#include "mul_sized.h"
#include "mul_spin.h"

atomic_int live;
atomic_int fail_allocation;
ddisp_status last_status;
char last_message[1024];

static char unavailable[1024];

static void *allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    int left = atomic_load(&fail_allocation);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_allocation, &left, left - 1)) {
    }
    if (left == 1)
        return NULL;
    atomic_fetch_add(&live, 1);
    return calloc(1, size_bytes);
}

static void release(void *self, void *pointer)
{
    (void)self;
    if (!pointer)
        return;
    free(pointer);
    atomic_fetch_sub(&live, 1);
}

static void log_message(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    if (level <= DDISP_LOG_LEVEL_WARNING)
        fprintf(stderr, "# %s\n", message);
}

static ddisp_status fail_here(void *self, ddisp_status status, int64_t native_code,
                              const char *message)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)self;
    (void)native_code;
    pthread_mutex_lock(&lock);
    last_status = status;
    (void)snprintf(last_message, sizeof last_message, "%s", message);
    pthread_mutex_unlock(&lock);
    return status;
}

const ddisp_backend_services services = {
    .size = (uint32_t)sizeof(ddisp_backend_services),
    .abi = DDISP_BACKEND_ABI,
    .allocate = allocate,
    .release = release,
    .log = log_message,
    .fail = fail_here,
};

const ddisp_backend_table *plugin_table(void)
{
    const char *path = getenv("DDISP_TEST_VULKAN_PLUGIN");
    if (!path)
        fail_msg("DDISP_TEST_VULKAN_PLUGIN is not set to the path of ddisp-vulkan.so");
    /* Mesa's driver leaves memory to the exit of the process; where the leak checker can name it,
     * it is known. */
    (void)dlopen("libvulkan_lvp.so", RTLD_NOW | RTLD_NODELETE);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "ddisp_vulkan_backend_query");
    assert_non_null(symbol);
    ddisp_backend_query_function query;
    memcpy(&query, &symbol, sizeof query);
    const ddisp_backend_table *table = NULL;
    assert_ok(query(DDISP_BACKEND_ABI, &services, &table));
    return table;
}

int fixture_open(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    f.table = plugin_table();
    *state = &f;
    ddisp_status status = f.table->open(&services, &f.instance);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE) {
        (void)snprintf(unavailable, sizeof unavailable, "%s", last_message);
        return 0;
    }
    assert_ok(status);
    f.info.size = (uint32_t)sizeof f.info;
    assert_ok(f.table->device_describe(f.instance, 0, &f.info));
    assert_ok(f.table->device_open(f.instance, 0, &f.device));
    assert_ok(f.table->stream_create(f.device, DDISP_BACKEND_STREAM_DEFAULT, &f.own));
    return 0;
}

int fixture_close(void **state)
{
    fixture *f = *state;
    if (f->own)
        f->table->stream_destroy(f->device, f->own);
    if (f->device)
        f->table->device_close(f->device);
    if (f->instance)
        f->table->close(f->instance);
    if (atomic_load(&live) != 0)
        fprintf(stderr, "# the backend kept %d blocks of host memory\n", atomic_load(&live));
    return atomic_load(&live) == 0 ? 0 : -1;
}

fixture *fixture_of(void **state)
{
    fixture *f = *state;
    if (!f->device) {
        print_message("# skipped: %s\n", unavailable);
        skip();
    }
    return f;
}

void *stream_make(const fixture *f)
{
    void *stream = NULL;
    assert_ok(f->table->stream_create(f->device, 0, &stream));
    return stream;
}

void stream_finish(const fixture *f, void *stream)
{
    uint64_t ticket = 0;
    assert_ok(f->table->stream_mark(f->device, stream, &ticket));
    assert_ok(f->table->stream_synchronize(f->device, stream, ticket, UINT64_MAX));
}

ddisp_backend_memory memory_make(const fixture *f, void *stream, uint64_t size_bytes)
{
    ddisp_backend_memory memory = DDISP_ZERO;
    assert_ok(f->table->memory_allocate(f->device, stream, size_bytes, &memory));
    assert_int_equal(memory.size_bytes, size_bytes);
    assert_int_not_equal(memory.address, 0);
    assert_int_equal(memory.address % 256, 0);
    return memory;
}

ddisp_backend_range range_of(const ddisp_backend_memory *memory, uint64_t offset,
                             uint64_t size_bytes)
{
    return (ddisp_backend_range){memory->handle, memory->address + offset, size_bytes};
}

ddisp_backend_range bare_range_of(const ddisp_backend_memory *memory, uint64_t offset,
                                  uint64_t size_bytes)
{
    return (ddisp_backend_range){NULL, memory->address + offset, size_bytes};
}

void upload(const fixture *f, void *stream, const ddisp_backend_memory *memory, uint64_t offset,
            const void *data, uint64_t size_bytes)
{
    ddisp_backend_range range = range_of(memory, offset, size_bytes);
    assert_ok(f->table->upload(f->device, stream, &range, data));
}

void download(const fixture *f, void *stream, const ddisp_backend_memory *memory, uint64_t offset,
              void *data, uint64_t size_bytes)
{
    ddisp_backend_range range = range_of(memory, offset, size_bytes);
    assert_ok(f->table->download(f->device, stream, &range, data));
}

const void *mul_bytes(mul_code which, uint64_t *out_size_bytes)
{
    static const struct {
        const void *bytes;
        uint64_t size_bytes;
    } codes[MUL_COUNT] = {
        [MUL_FORWARD] = {mul_forward, sizeof mul_forward},
        [MUL_SPIN] = {mul_spin, sizeof mul_spin},
        [MUL_BACKWARD_NATIVE] = {mul_backward_native, sizeof mul_backward_native},
        [MUL_BACKWARD_SWAP] = {mul_backward_swap, sizeof mul_backward_swap},
        [MUL_SIZED] = {mul_sized, sizeof mul_sized},
    };
    *out_size_bytes = codes[which].size_bytes;
    return codes[which].bytes;
}

void code_set_bytes(code *c, const void *bytes, uint64_t size_bytes)
{
    c->code.bytes = bytes;
    c->code.size_bytes = size_bytes;
}

void code_init(code *c, mul_code which)
{
    static const char *const names[3] = {"a", "b", "y"};
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < 3; i++) {
        c->params[i].name = names[i];
        c->params[i].access = i == 2 ? DDISP_ACCESS_OUT : DDISP_ACCESS_IN;
        c->params[i].dtype = DDISP_DTYPE_F32;
        c->params[i].rank = 1;
        c->params[i].flags = DDISP_PARAM_DIFFERENTIABLE;
    }
    bool backward = which == MUL_BACKWARD_NATIVE || which == MUL_BACKWARD_SWAP;
    c->entry.mode = backward ? DDISP_MODE_BACKWARD : DDISP_MODE_FORWARD;
    c->entry.group_size[0] = 64;
    c->entry.group_size[1] = 1;
    c->entry.group_size[2] = 1;
    c->entry.name = "main";
    c->code.backend = "vulkan";
    c->code.format = "spirv";
    c->code.entries = &c->entry;
    c->code.entry_count = 1;
    c->code.entry_size = (uint32_t)sizeof c->entry;
    uint64_t size_bytes;
    const void *bytes = mul_bytes(which, &size_bytes);
    code_set_bytes(c, bytes, size_bytes);
    c->backend_code.size = (uint32_t)sizeof c->backend_code;
    c->backend_code.param_count = 3;
    c->backend_code.kernel_name = "mul";
    c->backend_code.code = &c->code;
    c->backend_code.params = c->params;
    c->backend_code.switch_ids = c->switch_ids;
    c->backend_code.block_size_bytes = (uint32_t)sizeof(mul_block);
}

void code_make_native(code *c)
{
    c->block = (ddisp_native_arg)DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0);
    c->entry.native = &c->block;
    c->entry.native_count = 1;
}

void *variant_make(const fixture *f, const code *c, uint64_t switches)
{
    ddisp_backend_code_info found = DDISP_ZERO;
    found.size = (uint32_t)sizeof found;
    assert_ok(f->table->inspect(&services, &c->backend_code, &found));
    ddisp_backend_variant wanted = DDISP_ZERO;
    wanted.size = (uint32_t)sizeof wanted;
    wanted.mode = c->entry.mode;
    wanted.code = &c->backend_code;
    wanted.entry = &c->entry;
    wanted.entry_name = c->entry.name;
    wanted.switches = switches | ~found.switch_mask;
    wanted.switch_mask = found.switch_mask;
    void *variant = NULL;
    assert_ok(f->table->variant_build(f->device, &wanted, &variant));
    return variant;
}

void mul_request_fill(mul_request *request, const code *c, void *variant, uint64_t n,
                      const ddisp_backend_memory *data[3], const ddisp_backend_memory *gradients[3],
                      uint64_t flags)
{
    uint32_t count = 0;
    memset(request, 0, sizeof *request);
    mul_block *block = &request->block;
    ddisp_backend_access *accesses = request->accesses;
    block->head.abi = DDISP_BLOCK_ABI;
    block->head.size_bytes = (uint32_t)sizeof *block;
    block->head.items = n;
    block->head.tensor_count = 3;
    block->head.flags = flags;
    for (uint32_t i = 0; i < 3; i++) {
        if (data && data[i]) {
            block->tensors[i].data = data[i]->address;
            accesses[count].range = range_of(data[i], 0, n * 4);
            accesses[count++].writes = i == 2 && !gradients;
        }
        if (gradients && gradients[i]) {
            *(i == 2 ? &block->tensors[i].grad_read : &block->tensors[i].grad_add) =
                gradients[i]->address;
            accesses[count].range = range_of(gradients[i], 0, n * 4);
            accesses[count++].writes = i != 2;
        }
    }
    ddisp_backend_launch *launch = &request->launch;
    launch->size = (uint32_t)sizeof *launch;
    launch->block_size_bytes = (uint32_t)sizeof *block;
    launch->variant = variant;
    launch->block = block;
    launch->items = n;
    launch->grid[0] = (uint32_t)((n + 63) / 64);
    launch->grid[1] = launch->grid[2] = 1;
    launch->group_size[0] = 64;
    launch->group_size[1] = launch->group_size[2] = 1;
    launch->accesses = accesses;
    launch->access_count = count;
    if (!c)
        return;
    request->native = (ddisp_backend_native){.arg = &c->block, .size_bytes = 8};
    launch->natives = &request->native;
    launch->native_count = 1;
}

ddisp_status mul_launch(const fixture *f, void *stream, void *variant, uint64_t n,
                        const ddisp_backend_memory *data[3],
                        const ddisp_backend_memory *gradients[3], uint64_t flags)
{
    mul_request request;
    mul_request_fill(&request, NULL, variant, n, data, gradients, flags);
    return f->table->launch(f->device, stream, &request.launch);
}
