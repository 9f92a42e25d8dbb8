/*
 * host_fixture.c - see host_fixture.h.
 *
 * Variants made by launch live in a fixed table until the fixture closes, because none may be
 * released while a launch of it is pending.
 */
#include "host_fixture.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FUNCTIONS 16

atomic_int live;
atomic_int fail_allocation;
_Thread_local ddisp_status last_status;
_Thread_local char last_message[1024];

static atomic_bool gate_is_open;

static pthread_mutex_t variants_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    ddisp_host_function function;
    void *variant;
} variants[MAX_FUNCTIONS];

static void *allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    int left = atomic_load(&fail_allocation);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_allocation, &left, left - 1)) {
    }
    if (left == 1) {
        return NULL;
    }
    atomic_fetch_add(&live, 1);
    return calloc(1, size_bytes);
}

static void release(void *self, void *pointer)
{
    (void)self;
    if (pointer) {
        memset(pointer, 0xDD, malloc_usable_size(pointer)); /* a later use shows */
        free(pointer);
        atomic_fetch_sub(&live, 1);
    }
}

static void log_nothing(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    (void)level;
    (void)message;
}

static ddisp_status fail_here(void *self, ddisp_status status, int64_t native_code,
                              const char *message)
{
    (void)self;
    (void)native_code;
    last_status = status;
    (void)snprintf(last_message, sizeof last_message, "%s", message);
    return status;
}

const ddisp_backend_services services = {
    .size = (uint32_t)sizeof(ddisp_backend_services),
    .abi = DDISP_BACKEND_ABI,
    .allocate = allocate,
    .release = release,
    .log = log_nothing,
    .fail = fail_here,
};

void gate_pass(void)
{
    while (!atomic_load(&gate_is_open)) {
        (void)sched_yield();
    }
}

void gate_open(void)
{
    atomic_store(&gate_is_open, true);
}

void gate_close(void)
{
    atomic_store(&gate_is_open, false);
}

ddisp_backend_query_function plugin_query(void)
{
    const char *path = getenv("DDISP_TEST_HOST_PLUGIN");
    if (!path) {
        fail_msg("DDISP_TEST_HOST_PLUGIN is not set to the path of ddisp-host.so");
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        fail_msg("%s", dlerror());
    }
    ddisp_backend_query_function query;
    *(void **)&query = dlsym(library, "ddisp_host_backend_query");
    assert_non_null(*(void **)&query);
    return query;
}

int fixture_open(void **state)
{
    static fixture f;
    gate_close();
    atomic_store(&fail_allocation, 0);
    last_status = DDISP_STATUS_OK;
    last_message[0] = '\0';
    assert_int_equal(plugin_query()(DDISP_BACKEND_ABI, &services, &f.table), DDISP_STATUS_OK);
    assert_int_equal(f.table->open(&services, &f.instance), DDISP_STATUS_OK);
    assert_int_equal(f.table->device_open(f.instance, 0, &f.device), DDISP_STATUS_OK);
    assert_int_equal(f.table->stream_create(f.device, DDISP_BACKEND_STREAM_DEFAULT, &f.own),
                     DDISP_STATUS_OK);
    *state = &f;
    return 0;
}

int fixture_close(void **state)
{
    fixture *f = *state;
    gate_open();
    f->table->stream_destroy(f->device, f->own);
    for (int i = 0; i < MAX_FUNCTIONS && variants[i].variant; i++) {
        f->table->variant_release(f->device, variants[i].variant);
    }
    memset(variants, 0, sizeof variants);
    f->table->device_close(f->device);
    f->table->close(f->instance);
    if (atomic_load(&live) != 0) {
        print_error("the backend kept %d blocks of memory\n", atomic_load(&live));
        return -1;
    }
    return 0;
}

void *stream_make(const fixture *f)
{
    void *stream;
    assert_int_equal(f->table->stream_create(f->device, 0, &stream), DDISP_STATUS_OK);
    return stream;
}

void stream_finish(const fixture *f, void *stream)
{
    uint64_t ticket;
    assert_int_equal(f->table->stream_mark(f->device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(f->table->stream_synchronize(f->device, stream, ticket, UINT64_MAX),
                     DDISP_STATUS_OK);
}

bool stream_is_done(const fixture *f, void *stream)
{
    uint64_t ticket;
    assert_int_equal(f->table->stream_mark(f->device, stream, &ticket), DDISP_STATUS_OK);
    ddisp_status status = f->table->stream_query(f->device, stream, ticket);
    assert_true(status == DDISP_STATUS_OK || status == DDISP_STATUS_NOT_READY);
    return status == DDISP_STATUS_OK;
}

ddisp_backend_memory memory_make(const fixture *f, void *stream, uint64_t size_bytes)
{
    ddisp_backend_memory memory = DDISP_ZERO;
    assert_int_equal(f->table->memory_allocate(f->device, stream, size_bytes, &memory),
                     DDISP_STATUS_OK);
    assert_int_equal(memory.size_bytes, size_bytes);
    assert_int_equal(memory.address % 256, 0);
    assert_int_equal(memory.address, address_of(memory.host_pointer));
    return memory;
}

ddisp_backend_range range_of(const ddisp_backend_memory *memory, uint64_t offset,
                             uint64_t size_bytes)
{
    ddisp_backend_range range = {memory->handle, memory->address + offset, size_bytes};
    return range;
}

arguments arguments_make(uint64_t items, uint64_t a, uint64_t b, uint64_t c)
{
    arguments args = {{DDISP_BLOCK_ABI, (uint32_t)sizeof(arguments), items, 0, 6, 0},
                      {a, b, c, 0, 0, 0}};
    return args;
}

uint64_t argument(const ddisp_block *block, uint32_t i)
{
    return *(const uint64_t *)DDISP_BLOCK_SCALAR(block, i);
}

void *argument_pointer(const ddisp_block *block, uint32_t i)
{
    return (void *)(uintptr_t)argument(block, i);
}

uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/** The variant of a function; made at its first use. NULL on failure. */
static void *variant_of(const fixture *f, ddisp_host_function function)
{
    ddisp_entry entries[1] = {DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, function, 1)};
    entries[0].name = "";
    const ddisp_code code = DDISP_CODE("host", "host-function", NULL, 0, entries, 0);
    ddisp_backend_code backend_code = {.size = (uint32_t)sizeof backend_code,
                                       .kernel_name = "test",
                                       .code = &code,
                                       .block_size_bytes = (uint32_t)sizeof(arguments)};
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant,
                                     .mode = DDISP_MODE_FORWARD,
                                     .code = &backend_code,
                                     .entry = &entries[0],
                                     .entry_name = "",
                                     .switches = UINT64_MAX};
    void *result = NULL;
    (void)pthread_mutex_lock(&variants_lock);
    for (int i = 0; i < MAX_FUNCTIONS && !result; i++) {
        if (!variants[i].variant &&
            f->table->variant_build(f->device, &variant, &variants[i].variant) == DDISP_STATUS_OK) {
            variants[i].function = function;
        }
        if (variants[i].function == function) {
            result = variants[i].variant;
        }
    }
    (void)pthread_mutex_unlock(&variants_lock);
    return result;
}

ddisp_status launch(const fixture *f, void *stream, ddisp_host_function function,
                    const arguments *args)
{
    ddisp_backend_launch it = {.size = (uint32_t)sizeof it,
                               .block_size_bytes = args->head.size_bytes,
                               .variant = variant_of(f, function),
                               .block = args,
                               .items = args->head.items};
    return it.variant ? f->table->launch(f->device, stream, &it) : DDISP_STATUS_INTERNAL;
}
