/*
 * toy_backend.c - a whole backend in one file: the example of docs/backends.md, built out of the
 * tree against the public headers alone.
 *
 * It serves two devices that are plain host memory and do everything at once, in the call. Codes
 * are C functions. Nothing here depends on the environment, and nothing is fast.
 */
#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>

#include <stdio.h>
#include <string.h>

#define DEVICE_COUNT  2u
#define ALIGNMENT     256u
#define MEMORY_BYTES  (UINT64_C(1) << 30)
#define LARGEST_BYTES (UINT64_C(1) << 28)

/* One per context. */
typedef struct toy_instance {
    const ddisp_backend_services *services;
} toy_instance;

typedef struct toy_device {
    const ddisp_backend_services *services;
    uint32_t index;
} toy_device;

/* All work is done when the call returns, so the end of a stream is a number that goes up. */
typedef struct toy_stream {
    uint64_t ticket;
} toy_stream;

typedef struct toy_variant {
    ddisp_host_function function;
} toy_variant;

/* Addresses are numbers in the API; here they are host pointers. */
static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- instance and devices */

static ddisp_status toy_open(const ddisp_backend_services *services, void **out_instance)
{
    toy_instance *instance = services->allocate(services->self, sizeof *instance);
    if (!instance)
        return services->fail(services->self, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "toy: no host memory for an instance");
    instance->services = services;
    *out_instance = instance;
    return DDISP_STATUS_OK;
}

static void toy_close(void *opened)
{
    toy_instance *instance = opened;
    instance->services->release(instance->services->self, instance);
}

static ddisp_status toy_device_count(void *instance, uint32_t *out_count)
{
    (void)instance;
    *out_count = DEVICE_COUNT;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_device_describe(void *instance, uint32_t index, ddisp_device_info *info)
{
    (void)instance;
    info->rank = 1 + index; /* below every real device */
    info->flags = DDISP_DEVICE_FLAG_SOFTWARE | DDISP_DEVICE_FLAG_HOST_ADDRESSES;
    info->memory_bytes = MEMORY_BYTES;
    info->max_allocation_bytes = LARGEST_BYTES;
    snprintf(info->name, sizeof info->name, "toy device %u", index);
    snprintf(info->uuid, sizeof info->uuid, "00000000-0000-0000-0000-0000000070%02x", index);
    snprintf(info->architecture, sizeof info->architecture, "toy");
    snprintf(info->driver, sizeof info->driver, "none");
    snprintf(info->formats, sizeof info->formats, "host-function");
    snprintf(info->sink, sizeof info->sink, "none");
    /* Work is done in one thread, so that an ordinary addition is an atomic one. */
    info->atomic_add_f32 = DDISP_SUPPORT_NATIVE;
    info->atomic_add_f64 = DDISP_SUPPORT_NATIVE;
    info->subgroup_size = 1;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_device_open(void *opened, uint32_t index, void **out_device)
{
    const ddisp_backend_services *services = ((toy_instance *)opened)->services;
    toy_device *device = services->allocate(services->self, sizeof *device);
    if (!device)
        return services->fail(services->self, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "toy: no host memory for a device");
    device->services = services;
    device->index = index;
    *out_device = device;
    return DDISP_STATUS_OK;
}

static void toy_device_close(void *opened)
{
    toy_device *device = opened;
    device->services->release(device->services->self, device);
}

/* ---- memory */

static ddisp_status toy_memory_allocate(void *opened, void *stream, uint64_t size_bytes,
                                        ddisp_backend_memory *out_memory)
{
    (void)stream;
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    void *block = services->allocate(services->self, size_bytes + ALIGNMENT);
    if (!block) {
        char message[128];
        snprintf(message, sizeof message, "toy: the host has no %llu bytes left",
                 (unsigned long long)size_bytes);
        return services->fail(services->self, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0, message);
    }
    uint64_t address = ((uint64_t)(uintptr_t)block + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = block;
    out_memory->host_pointer = pointer_to(address);
    return DDISP_STATUS_OK;
}

static void toy_memory_free(void *opened, void *stream, ddisp_backend_memory *memory)
{
    (void)stream;
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    services->release(services->self, memory->handle);
}

static ddisp_status toy_memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                      ddisp_backend_memory *out_memory)
{
    (void)device;
    out_memory->address = address;
    out_memory->size_bytes = size_bytes;
    out_memory->handle = NULL;
    out_memory->host_pointer = pointer_to(address);
    return DDISP_STATUS_OK;
}

static void toy_memory_release_import(void *device, ddisp_backend_memory *memory)
{
    (void)device;
    (void)memory;
}

static ddisp_status toy_upload(void *device, void *stream, const ddisp_backend_range *destination,
                               const void *data)
{
    (void)device;
    (void)stream;
    memcpy(pointer_to(destination->address), data, destination->size_bytes);
    return DDISP_STATUS_OK;
}

static ddisp_status toy_download(void *device, void *stream, const ddisp_backend_range *source,
                                 void *data)
{
    (void)device;
    (void)stream;
    memcpy(data, pointer_to(source->address), source->size_bytes);
    return DDISP_STATUS_OK;
}

static ddisp_status toy_fill(void *device, void *stream, const ddisp_backend_range *destination,
                             uint64_t pattern, uint32_t pattern_size_bytes)
{
    (void)device;
    (void)stream;
    unsigned char *bytes = pointer_to(destination->address);
    for (uint64_t i = 0; i < destination->size_bytes; i += pattern_size_bytes)
        memcpy(bytes + i, &pattern, pattern_size_bytes); /* little-endian: the low bytes */
    return DDISP_STATUS_OK;
}

static ddisp_status toy_copy(void *device, void *stream, const ddisp_backend_range *destination,
                             const ddisp_backend_range *source)
{
    (void)device;
    (void)stream;
    memcpy(pointer_to(destination->address), pointer_to(source->address), source->size_bytes);
    return DDISP_STATUS_OK;
}

/* ---- streams */

static ddisp_status toy_stream_create(void *opened, uint64_t flags, void **out_stream)
{
    (void)flags;
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    toy_stream *stream = services->allocate(services->self, sizeof *stream);
    if (!stream)
        return services->fail(services->self, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "toy: no host memory for a stream");
    *out_stream = stream;
    return DDISP_STATUS_OK;
}

static void toy_stream_destroy(void *opened, void *stream)
{
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    services->release(services->self, stream);
}

static ddisp_status toy_stream_flush(void *device, void *stream)
{
    (void)device;
    (void)stream;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_stream_mark(void *device, void *opened, uint64_t *out_ticket)
{
    (void)device;
    toy_stream *stream = opened;
    *out_ticket = ++stream->ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_stream_wait(void *device, void *stream, void *other_stream, uint64_t ticket)
{
    (void)device;
    (void)stream;
    (void)other_stream;
    (void)ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_stream_query(void *device, void *stream, uint64_t ticket)
{
    (void)device;
    (void)stream;
    (void)ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_stream_synchronize(void *device, void *stream, uint64_t ticket,
                                           uint64_t timeout_ns)
{
    (void)device;
    (void)stream;
    (void)ticket;
    (void)timeout_ns;
    return DDISP_STATUS_OK;
}

/* ---- code */

static ddisp_status toy_inspect(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, ddisp_backend_code_info *info)
{
    char message[256];
    for (uint32_t i = 0; i < code->code->entry_count; i++) {
        if (code->code->entries[i].function)
            continue;
        snprintf(message, sizeof message, "toy: kernel '%.128s': entry %u has no function",
                 code->kernel_name, i);
        return services->fail(services->self, DDISP_STATUS_NOT_FOUND, 0, message);
    }
    info->switch_mask = 0; /* a C function is what it is */
    info->flags = 0;
    return DDISP_STATUS_OK;
}

static ddisp_status toy_code_fits(void *opened, const ddisp_backend_code *code)
{
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    if (strcmp(code->code->format, "host-function") != 0)
        return services->fail(services->self, DDISP_STATUS_UNSUPPORTED, 0,
                              "toy: only the format host-function is taken");
    for (uint32_t i = 0; i < code->code->entry_count; i++) {
        if (code->code->entries[i].native)
            return services->fail(services->self, DDISP_STATUS_UNSUPPORTED, 0,
                                  "toy: entries with native arguments are not taken");
    }
    return DDISP_STATUS_OK;
}

static ddisp_status toy_variant_build(void *opened, const ddisp_backend_variant *request,
                                      void **out_variant)
{
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    toy_variant *variant = services->allocate(services->self, sizeof *variant);
    if (!variant)
        return services->fail(services->self, DDISP_STATUS_OUT_OF_MEMORY, 0,
                              "toy: no host memory for a variant");
    variant->function = request->entry->function;
    *out_variant = variant;
    return DDISP_STATUS_OK;
}

static void toy_variant_release(void *opened, void *variant)
{
    const ddisp_backend_services *services = ((toy_device *)opened)->services;
    services->release(services->self, variant);
}

static ddisp_status toy_launch(void *device, void *stream, const ddisp_backend_launch *launch)
{
    (void)device;
    (void)stream;
    const toy_variant *variant = launch->variant;
    variant->function(launch->block, 0, launch->items);
    return DDISP_STATUS_OK;
}

/* ---- the one exported function */

extern __attribute__((visibility("default"))) ddisp_status
ddisp_toy_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                        const ddisp_backend_table **out_table);

ddisp_status ddisp_toy_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                                     const ddisp_backend_table **out_table)
{
    static const ddisp_backend_table table = {
        .size = sizeof(ddisp_backend_table),
        .abi = DDISP_BACKEND_ABI,
        .name = "toy",
        .version = "1.0",
        .open = toy_open,
        .close = toy_close,
        .device_count = toy_device_count,
        .device_describe = toy_device_describe,
        .device_open = toy_device_open,
        .device_close = toy_device_close,
        .memory_allocate = toy_memory_allocate,
        .memory_free = toy_memory_free,
        .memory_import = toy_memory_import,
        .memory_release_import = toy_memory_release_import,
        .upload = toy_upload,
        .download = toy_download,
        .fill = toy_fill,
        .copy = toy_copy,
        .stream_create = toy_stream_create,
        .stream_destroy = toy_stream_destroy,
        .stream_flush = toy_stream_flush,
        .stream_mark = toy_stream_mark,
        .stream_wait = toy_stream_wait,
        .stream_query = toy_stream_query,
        .stream_synchronize = toy_stream_synchronize,
        .inspect = toy_inspect,
        .code_fits = toy_code_fits,
        .variant_build = toy_variant_build,
        .variant_release = toy_variant_release,
        .launch = toy_launch,
    };
    if (core_abi < DDISP_BACKEND_ABI)
        return services->fail(services->self, DDISP_STATUS_INCOMPATIBLE, 0,
                              "toy: the library is older than this plugin");
    *out_table = &table;
    return DDISP_STATUS_OK;
}
