/*
 * fake.c - see fake.h. Streams are numbered in the order of their creation, the device's own is the
 * first.
 */
#include "fake.h"

#include "candidate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STREAMS 64u

struct fake fake;

struct fake_stream {
    uint32_t number;
    bool destroyed;
    uint64_t marked, done;
};

static struct fake_stream streams[MOST_STREAMS];
static uint32_t stream_count;
static const ddisp_backend_table *known_table;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t length = strlen(fake.trace);
    va_list values;
    va_start(values, format);
    vsnprintf(fake.trace + length, sizeof fake.trace - length, format, values);
    va_end(values);
}

void fake_forget(void)
{
    fake.trace[0] = '\0';
}

void fake_complete(void)
{
    for (uint32_t i = 0; i < stream_count; i++)
        streams[i].done = streams[i].marked;
}

ddisp_status fake_outcome_of(const char *function, ddisp_status status)
{
    char message[64];
    snprintf(message, sizeof message, "fake: %s failed", function);
    return ddisp__services()->fail(ddisp__services()->self, status, -77, message);
}

ddisp_status fake_outcome(const char *function)
{
    if (!fake.fails || strcmp(fake.fails, function) != 0)
        return DDISP_STATUS_OK;
    return fake.fail_silently ? fake.fail_status : fake_outcome_of(function, fake.fail_status);
}

static uint32_t number(void *stream)
{
    return ((struct fake_stream *)stream)->number;
}

static ddisp_status fake_open(const ddisp_backend_services *services, void **out_instance)
{
    (void)services;
    *out_instance = &fake;
    fake.instances++;
    return DDISP_STATUS_OK;
}

static void fake_close(void *instance)
{
    (void)instance;
    fake.instances--;
}

static ddisp_status fake_device_count(void *instance, uint32_t *out_count)
{
    (void)instance;
    *out_count = 2;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_device_describe(void *instance, uint32_t index, ddisp_device_info *info)
{
    (void)instance;
    info->rank = 10;
    info->flags = DDISP_DEVICE_FLAG_FAKE;
    info->memory_bytes = 1000000;
    info->max_allocation_bytes = 500000;
    snprintf(info->name, sizeof info->name, "fake %u", index);
    return fake_outcome("device_describe");
}

static ddisp_status fake_device_open(void *instance, uint32_t index, void **out_device)
{
    (void)index;
    ddisp_status status = fake_outcome("device_open");
    if (status == DDISP_STATUS_OK) {
        *out_device = instance;
        fake.devices++;
    }
    return status;
}

static void fake_device_close(void *device)
{
    (void)device;
    note("device_close; ");
    fake.devices--;
}

static ddisp_status fake_memory_allocate(void *device, void *stream, uint64_t size_bytes,
                                         ddisp_backend_memory *out_memory)
{
    (void)device;
    note("allocate s%u %llu; ", number(stream), (unsigned long long)size_bytes);
    if (size_bytes > fake.largest_bytes)
        fake.largest_bytes = size_bytes;
    ddisp_status status = fake_outcome("memory_allocate");
    if (status != DDISP_STATUS_OK)
        return status;
    fake.blocks++;
    *out_memory = (ddisp_backend_memory){
        .address = UINT64_C(0x100000) * fake.blocks, .size_bytes = size_bytes, .handle = &fake};
    return DDISP_STATUS_OK;
}

static void fake_memory_free(void *device, void *stream, ddisp_backend_memory *memory)
{
    (void)device;
    note("free s%u %llu; ", number(stream), (unsigned long long)memory->size_bytes);
    fake.blocks--;
}

static ddisp_status fake_memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                       ddisp_backend_memory *out_memory)
{
    (void)device;
    note("import %llu; ", (unsigned long long)size_bytes);
    ddisp_status status = fake_outcome("memory_import");
    if (status != DDISP_STATUS_OK)
        return status;
    fake.imports++;
    *out_memory = (ddisp_backend_memory){.address = address, .size_bytes = size_bytes};
    return DDISP_STATUS_OK;
}

static void fake_memory_release_import(void *device, ddisp_backend_memory *memory)
{
    (void)device;
    note("unimport %llu; ", (unsigned long long)memory->size_bytes);
    fake.imports--;
}

static ddisp_status fake_upload(void *device, void *stream, const ddisp_backend_range *destination,
                                const void *data)
{
    (void)device;
    (void)data;
    note("upload s%u %llu; ", number(stream), (unsigned long long)destination->size_bytes);
    return fake_outcome("upload");
}

static ddisp_status fake_download(void *device, void *stream, const ddisp_backend_range *source,
                                  void *data)
{
    (void)device;
    memset(data, 0x5A, source->size_bytes);
    note("download s%u %llu; ", number(stream), (unsigned long long)source->size_bytes);
    return fake_outcome("download");
}

static ddisp_status fake_fill(void *device, void *stream, const ddisp_backend_range *destination,
                              uint64_t pattern, uint32_t pattern_size_bytes)
{
    (void)device;
    note("fill s%u %llu with %llu:%u; ", number(stream),
         (unsigned long long)destination->size_bytes, (unsigned long long)pattern,
         pattern_size_bytes);
    return fake_outcome("fill");
}

static ddisp_status fake_copy(void *device, void *stream, const ddisp_backend_range *destination,
                              const ddisp_backend_range *source)
{
    (void)device;
    (void)source;
    note("copy s%u %llu; ", number(stream), (unsigned long long)destination->size_bytes);
    return fake_outcome("copy");
}

static ddisp_status fake_stream_create(void *device, uint64_t flags, void **out_stream)
{
    (void)device;
    ddisp_status status = fake_outcome("stream_create");
    if (status != DDISP_STATUS_OK)
        return status;
    if (stream_count == MOST_STREAMS)
        abort();
    struct fake_stream *stream = &streams[stream_count++];
    *stream = (struct fake_stream){.number = stream_count};
    note("%s s%u; ", flags & DDISP_BACKEND_STREAM_DEFAULT ? "own" : "stream", stream->number);
    fake.streams++;
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

static void fake_stream_destroy(void *device, void *stream)
{
    (void)device;
    note("destroy s%u; ", number(stream));
    ((struct fake_stream *)stream)->destroyed = true;
    fake.streams--;
}

static ddisp_status fake_stream_flush(void *device, void *stream)
{
    (void)device;
    note("flush s%u; ", number(stream));
    return fake_outcome("stream_flush");
}

static ddisp_status fake_stream_mark(void *device, void *opened, uint64_t *out_ticket)
{
    (void)device;
    struct fake_stream *stream = opened;
    if (stream->destroyed)
        abort();
    note("mark s%u=%llu; ", stream->number, (unsigned long long)stream->marked + 1);
    ddisp_status status = fake_outcome("stream_mark");
    if (status != DDISP_STATUS_OK)
        return status;
    *out_ticket = ++stream->marked;
    if (!fake.holds)
        stream->done = stream->marked;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_stream_wait(void *device, void *stream, void *other, uint64_t ticket)
{
    (void)device;
    if (((struct fake_stream *)other)->destroyed)
        abort();
    note("wait s%u for s%u=%llu; ", number(stream), number(other), (unsigned long long)ticket);
    return fake_outcome("stream_wait");
}

static ddisp_status fake_stream_query(void *device, void *opened, uint64_t ticket)
{
    (void)device;
    struct fake_stream *stream = opened;
    ddisp_status status = fake_outcome("stream_query");
    if (status != DDISP_STATUS_OK)
        return status;
    return ticket <= stream->done ? DDISP_STATUS_OK : DDISP_STATUS_NOT_READY;
}

static ddisp_status fake_stream_synchronize(void *device, void *opened, uint64_t ticket,
                                            uint64_t timeout_ns)
{
    (void)device;
    struct fake_stream *stream = opened;
    note("synchronize s%u=%llu; ", stream->number, (unsigned long long)ticket);
    ddisp_status status = fake_outcome("stream_synchronize");
    if (status != DDISP_STATUS_OK)
        return status;
    if (ticket > stream->done && timeout_ns != UINT64_MAX)
        return DDISP_STATUS_TIMEOUT;
    if (ticket > stream->done)
        stream->done = ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_inspect(const ddisp_backend_services *services,
                                 const ddisp_backend_code *code, ddisp_backend_code_info *info)
{
    (void)services;
    (void)code;
    (void)info;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_code_fits(void *device, const ddisp_backend_code *code)
{
    (void)device;
    (void)code;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_variant_build(void *device, const ddisp_backend_variant *variant,
                                       void **out_variant)
{
    (void)device;
    (void)variant;
    *out_variant = &fake;
    return DDISP_STATUS_OK;
}

static void fake_variant_release(void *device, void *variant)
{
    (void)device;
    (void)variant;
}

static ddisp_status fake_launch(void *device, void *stream, const ddisp_backend_launch *launch)
{
    (void)device;
    (void)stream;
    (void)launch;
    return DDISP_STATUS_OK;
}

static ddisp_status fake_query(uint32_t core_abi, const ddisp_backend_services *services,
                               const ddisp_backend_table **out_table)
{
    static ddisp_backend_table table;
    table = (ddisp_backend_table){
        .size = sizeof(ddisp_backend_table),
        .abi = DDISP_BACKEND_ABI,
        .name = "fake",
        .version = "0",
        .open = fake_open,
        .close = fake_close,
        .device_count = fake_device_count,
        .device_describe = fake_device_describe,
        .device_open = fake_device_open,
        .device_close = fake_device_close,
        .memory_allocate = fake_memory_allocate,
        .memory_free = fake_memory_free,
        .memory_import = fake_memory_import,
        .memory_release_import = fake_memory_release_import,
        .upload = fake_upload,
        .download = fake_download,
        .fill = fake_fill,
        .copy = fake_copy,
        .stream_create = fake_stream_create,
        .stream_destroy = fake_stream_destroy,
        .stream_flush = fake_stream_flush,
        .stream_mark = fake_stream_mark,
        .stream_wait = fake_stream_wait,
        .stream_query = fake_stream_query,
        .stream_synchronize = fake_stream_synchronize,
        .inspect = fake_inspect,
        .code_fits = fake_code_fits,
        .variant_build = fake_variant_build,
        .variant_release = fake_variant_release,
        .launch = fake_launch,
    };
    (void)core_abi;
    (void)services;
    if (fake_offer_all)
        fake_offer_all(&table);
    *out_table = known_table = &table;
    return DDISP_STATUS_OK;
}

const ddisp_backend_table *fake_table(void)
{
    return known_table;
}

static void *context_allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    if (fake.allocations_left == 0)
        return NULL;
    if (fake.allocations_left != UINT32_MAX)
        fake.allocations_left--;
    (void)__atomic_fetch_add(&fake.host_blocks, 1, __ATOMIC_RELAXED);
    return malloc(size_bytes);
}

static void context_release(void *user_data, void *pointer)
{
    (void)user_data;
    free(pointer);
    (void)__atomic_fetch_sub(&fake.host_blocks, 1, __ATOMIC_RELEASE);
}

ddisp_context *fake_context(void)
{
    static const ddisp_allocator allocator = {
        .size = sizeof(ddisp_allocator), .allocate = context_allocate, .release = context_release};
    ddisp_context_desc desc = {.size = sizeof desc,
                               .allocator = &allocator,
                               .log_level = DDISP_LOG_LEVEL_NONE,
                               .backends = "fake"};
    memset(&fake, 0, sizeof fake);
    fake.allocations_left = UINT32_MAX;
    stream_count = 0;

    ddisp_context *context = NULL;
    if (ddisp_context_create(&desc, &context) != DDISP_STATUS_OK)
        return NULL;
    struct ddisp__search search = {.context = context};
    ddisp__backend *backend = ddisp__candidate_add(&search, "fake", 4, "in the test");
    if (backend)
        ddisp__candidate_open(&search, backend, fake_query);
    return context;
}
