/*
 * compiler_backend.c - the table of the compiler plugin. Memory and streams are as simple as the
 * toy's; what matters is code: it is compiled (in artifact_make, or in variant_build without an
 * artifact), counted, and its bytes are taken back. See compiler.h.
 */
#include "compiler.h"
#include "language.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT  256u
#define SINK_BYTES (UINT64_C(1) << 20)

__attribute__((visibility("default"))) struct compiler_control compiler_control = {
    .architecture = "rpn_1", .version = "compiler 1"};

static const ddisp_backend_services *services;
static unsigned char *sink; /* never given back */

struct stream {
    atomic_uint_fast64_t ticket;
};

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static ddisp_status fail(ddisp_status status, const char *message)
{
    return services->fail(services->self, status, 0, message);
}

/* ---- devices: one */

static ddisp_status open_instance(const ddisp_backend_services *core, void **out_instance)
{
    services = core;
    *out_instance = &compiler_control;
    return DDISP_STATUS_OK;
}

static void close_instance(void *instance)
{
    (void)instance;
}

static ddisp_status device_count(void *instance, uint32_t *out_count)
{
    (void)instance;
    *out_count = 1;
    return DDISP_STATUS_OK;
}

static ddisp_status device_describe(void *instance, uint32_t index, ddisp_device_info *info)
{
    (void)instance;
    (void)index;
    info->rank = 1;
    info->flags = DDISP_DEVICE_FLAG_SOFTWARE | DDISP_DEVICE_FLAG_HOST_ADDRESSES;
    info->memory_bytes = UINT64_C(1) << 30;
    info->max_allocation_bytes = UINT64_C(1) << 28;
    info->vendor_id = compiler_control.vendor_id;
    info->device_id = compiler_control.device_id;
    info->driver_id = compiler_control.driver_id;
    info->features = compiler_control.features;
    snprintf(info->name, sizeof info->name, "compiler");
    snprintf(info->architecture, sizeof info->architecture, "%s", compiler_control.architecture);
    snprintf(info->driver, sizeof info->driver, "none");
    snprintf(info->formats, sizeof info->formats, "rpn");
    snprintf(info->specializes, sizeof info->specializes, "rpn");
    snprintf(info->sink, sizeof info->sink, "block");
    info->atomic_add_f32 = DDISP_SUPPORT_NATIVE;
    return DDISP_STATUS_OK;
}

static ddisp_status device_open(void *instance, uint32_t index, void **out_device)
{
    (void)index;
    *out_device = instance;
    return DDISP_STATUS_OK;
}

static void device_close(void *device)
{
    (void)device;
}

/* ---- memory */

static ddisp_status memory_allocate(void *device, void *stream, uint64_t size_bytes,
                                    ddisp_backend_memory *out_memory)
{
    (void)device;
    (void)stream;
    void *block = services->allocate(services->self, size_bytes + ALIGNMENT);
    if (!block)
        return fail(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "compiler: no memory");
    out_memory->address = ((uint64_t)(uintptr_t)block + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    out_memory->size_bytes = size_bytes;
    out_memory->handle = block;
    out_memory->host_pointer = pointer_to(out_memory->address);
    return DDISP_STATUS_OK;
}

static void memory_free(void *device, void *stream, ddisp_backend_memory *memory)
{
    (void)device;
    (void)stream;
    services->release(services->self, memory->handle);
}

static ddisp_status memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                  ddisp_backend_memory *out_memory)
{
    (void)device;
    *out_memory = (ddisp_backend_memory){
        .address = address, .size_bytes = size_bytes, .host_pointer = pointer_to(address)};
    return DDISP_STATUS_OK;
}

static void memory_release_import(void *device, ddisp_backend_memory *memory)
{
    (void)device;
    (void)memory;
}

static ddisp_status upload(void *device, void *stream, const ddisp_backend_range *destination,
                           const void *data)
{
    (void)device;
    (void)stream;
    memcpy(pointer_to(destination->address), data, destination->size_bytes);
    return DDISP_STATUS_OK;
}

static ddisp_status download(void *device, void *stream, const ddisp_backend_range *source,
                             void *data)
{
    (void)device;
    (void)stream;
    memcpy(data, pointer_to(source->address), source->size_bytes);
    return DDISP_STATUS_OK;
}

static ddisp_status fill(void *device, void *stream, const ddisp_backend_range *destination,
                         uint64_t pattern, uint32_t pattern_size_bytes)
{
    (void)device;
    (void)stream;
    unsigned char *bytes = pointer_to(destination->address);
    for (uint64_t i = 0; i < destination->size_bytes; i += pattern_size_bytes)
        memcpy(bytes + i, &pattern, pattern_size_bytes);
    return DDISP_STATUS_OK;
}

static ddisp_status copy(void *device, void *stream, const ddisp_backend_range *destination,
                         const ddisp_backend_range *source)
{
    (void)device;
    (void)stream;
    memcpy(pointer_to(destination->address), pointer_to(source->address), source->size_bytes);
    return DDISP_STATUS_OK;
}

/* One block that is written and never read. */
static ddisp_status sink_acquire(void *device, uint64_t size_bytes, uint64_t flags,
                                 ddisp_backend_range *out_range, uint64_t *out_physical_bytes)
{
    (void)device;
    (void)flags;
    if (size_bytes > SINK_BYTES)
        return fail(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "compiler: the sink is smaller");
    if (!sink)
        sink = services->allocate(services->self, SINK_BYTES);
    if (!sink)
        return fail(DDISP_STATUS_OUT_OF_DEVICE_MEMORY, "compiler: no memory for the sink");
    *out_range = (ddisp_backend_range){NULL, (uint64_t)(uintptr_t)sink, SINK_BYTES};
    *out_physical_bytes = SINK_BYTES;
    return DDISP_STATUS_OK;
}

static void sink_trim(void *device)
{
    (void)device;
    services->release(services->self, sink);
    sink = NULL;
}

/* ---- streams: everything is done at once */

static ddisp_status stream_create(void *device, uint64_t flags, void **out_stream)
{
    (void)device;
    (void)flags;
    *out_stream = services->allocate(services->self, sizeof(struct stream));
    return *out_stream ? DDISP_STATUS_OK : fail(DDISP_STATUS_OUT_OF_MEMORY, "compiler: no memory");
}

static void stream_destroy(void *device, void *stream)
{
    (void)device;
    services->release(services->self, stream);
}

static ddisp_status stream_flush(void *device, void *stream)
{
    (void)device;
    (void)stream;
    return DDISP_STATUS_OK;
}

static ddisp_status stream_mark(void *device, void *stream, uint64_t *out_ticket)
{
    (void)device;
    *out_ticket = atomic_fetch_add(&((struct stream *)stream)->ticket, 1) + 1;
    return DDISP_STATUS_OK;
}

static ddisp_status stream_wait(void *device, void *stream, void *other, uint64_t ticket)
{
    (void)device;
    (void)stream;
    (void)other;
    (void)ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status stream_query(void *device, void *stream, uint64_t ticket)
{
    (void)device;
    (void)stream;
    (void)ticket;
    return DDISP_STATUS_OK;
}

static ddisp_status stream_synchronize(void *device, void *stream, uint64_t ticket,
                                       uint64_t timeout_ns)
{
    (void)device;
    (void)stream;
    (void)ticket;
    (void)timeout_ns;
    return DDISP_STATUS_OK;
}

/* ---- code */

static ddisp_status inspect(const ddisp_backend_services *core, const ddisp_backend_code *code,
                            ddisp_backend_code_info *info)
{
    struct program program;
    char message[LANGUAGE_MESSAGE];
    if (strcmp(code->code->format, "rpn") != 0)
        return core->fail(core->self, DDISP_STATUS_UNSUPPORTED, 0,
                          "compiler: the only format is rpn");
    info->switch_mask = 0;
    info->flags = 0;
    for (uint32_t i = 0; i < code->code->entry_count; i++) {
        uint64_t gradients;
        if (!language_compile(code->code, code->code->entries[i].name, UINT64_MAX, &program,
                              &gradients, message))
            return core->fail(core->self, DDISP_STATUS_CODE_INVALID, 0, message);
        if (code->code->entries[i].mode == DDISP_MODE_BACKWARD)
            info->switch_mask |= gradients;
    }
    return DDISP_STATUS_OK;
}

static ddisp_status code_fits(void *device, const ddisp_backend_code *code)
{
    (void)device;
    (void)code;
    atomic_fetch_add(&compiler_control.fits, 1);
    return DDISP_STATUS_OK;
}

static ddisp_status compile_held(const ddisp_backend_variant *variant, struct program *out_program)
{
    char message[LANGUAGE_MESSAGE];
    uint64_t gradients;
    while (atomic_load(&compiler_control.hold))
        (void)sched_yield();
    for (uint32_t left = atomic_load(&compiler_control.fail_compiles); left;)
        if (atomic_compare_exchange_weak(&compiler_control.fail_compiles, &left, left - 1))
            return fail(DDISP_STATUS_CODE_REJECTED, "compiler: told to fail");
    if (!language_compile(variant->code->code, variant->entry_name, variant->switches, out_program,
                          &gradients, message))
        return fail(DDISP_STATUS_CODE_REJECTED, message);
    return DDISP_STATUS_OK;
}

static ddisp_status compile(const ddisp_backend_variant *variant, struct program *out_program)
{
    atomic_fetch_add(&compiler_control.compiles, 1);
    atomic_fetch_add(&compiler_control.compiling, 1);
    ddisp_status status = compile_held(variant, out_program);
    atomic_fetch_sub(&compiler_control.compiling, 1);
    return status;
}

static ddisp_status variant_build(void *device, const ddisp_backend_variant *variant,
                                  void **out_variant)
{
    (void)device;
    struct program *program = services->allocate(services->self, sizeof *program);
    if (!program)
        return fail(DDISP_STATUS_OUT_OF_MEMORY, "compiler: no memory for a program");
    ddisp_status status = DDISP_STATUS_OK;
    if (!variant->artifact)
        status = compile(variant, program);
    else if (atomic_load(&compiler_control.refuse_artifacts) ||
             !language_check(variant->artifact, variant->artifact_size_bytes, program))
        status = DDISP_STATUS_CODE_REJECTED;
    if (variant->artifact && status) {
        atomic_fetch_add(&compiler_control.refusals, 1);
        (void)fail(status, "compiler: this is no program");
    } else if (variant->artifact) {
        atomic_fetch_add(&compiler_control.loads, 1);
    }
    if (status) {
        services->release(services->self, program);
        return status;
    }
    atomic_fetch_add(&compiler_control.variants, 1);
    *out_variant = program;
    return DDISP_STATUS_OK;
}

static void variant_release(void *device, void *variant)
{
    (void)device;
    atomic_fetch_sub(&compiler_control.variants, 1);
    services->release(services->self, variant);
}

static ddisp_status launch(void *device, void *stream, const ddisp_backend_launch *request)
{
    (void)device;
    (void)stream;
    language_run(request->variant, request->block, request->items);
    return DDISP_STATUS_OK;
}

static ddisp_status artifact_key(const ddisp_backend_services *core, void *device,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes)
{
    (void)device;
    (void)architecture;
    (void)variant;
    uint32_t length = (uint32_t)strlen(compiler_control.version);
    if (length > capacity)
        return core->fail(core->self, DDISP_STATUS_BUFFER_TOO_SMALL, 0, "compiler: a long version");
    memcpy(buffer, compiler_control.version, length);
    *out_size_bytes = length;
    return DDISP_STATUS_OK;
}

static ddisp_status artifact_make(const ddisp_backend_services *core, void *device,
                                  const char *architecture, const ddisp_backend_variant *variant,
                                  void **out_bytes, uint64_t *out_size_bytes)
{
    (void)device;
    (void)architecture;
    struct program *program = core->allocate(core->self, sizeof *program);
    if (!program)
        return fail(DDISP_STATUS_OUT_OF_MEMORY, "compiler: no memory for a program");
    ddisp_status status = compile(variant, program);
    if (status) {
        core->release(core->self, program);
        return status;
    }
    *out_bytes = program;
    *out_size_bytes = sizeof *program;
    return DDISP_STATUS_OK;
}

/* ---- the table */

extern __attribute__((visibility("default"))) ddisp_status
ddisp_compiler_backend_query(uint32_t core_abi, const ddisp_backend_services *core,
                             const ddisp_backend_table **out_table);

ddisp_status ddisp_compiler_backend_query(uint32_t core_abi, const ddisp_backend_services *core,
                                          const ddisp_backend_table **out_table)
{
    static const ddisp_backend_table table = {
        .size = sizeof(ddisp_backend_table),
        .abi = DDISP_BACKEND_ABI,
        .name = "compiler",
        .version = "1.0",
        .open = open_instance,
        .close = close_instance,
        .device_count = device_count,
        .device_describe = device_describe,
        .device_open = device_open,
        .device_close = device_close,
        .memory_allocate = memory_allocate,
        .memory_free = memory_free,
        .memory_import = memory_import,
        .memory_release_import = memory_release_import,
        .upload = upload,
        .download = download,
        .fill = fill,
        .copy = copy,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_flush = stream_flush,
        .stream_mark = stream_mark,
        .stream_wait = stream_wait,
        .stream_query = stream_query,
        .stream_synchronize = stream_synchronize,
        .inspect = inspect,
        .code_fits = code_fits,
        .variant_build = variant_build,
        .variant_release = variant_release,
        .launch = launch,
        .sink_acquire = sink_acquire,
        .sink_trim = sink_trim,
        .artifact_key = artifact_key,
        .artifact_make = artifact_make,
    };
    if (core_abi < DDISP_BACKEND_ABI)
        return core->fail(core->self, DDISP_STATUS_INCOMPATIBLE, 0,
                          "compiler: the library is older than this plugin");
    *out_table = &table;
    return DDISP_STATUS_OK;
}
