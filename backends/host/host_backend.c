/*
 * host_backend.c - the table of the host backend, its instance, and its one device: the processor.
 *
 * In: the core's services. Out: the table; a description read from the system.
 * Nothing here runs before the core asks, or after it stops asking: no static constructors, no
 * exit handlers.
 */
#include "host_internal.h"

#include <omp.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct host_instance {
    const ddisp_backend_services *services;
} host_instance;

static ddisp_status open_instance(const ddisp_backend_services *services, void **out_instance)
{
    host_instance *instance = backend_allocate(services, sizeof *instance);
    if (!instance) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for the backend's instance (%zu bytes)",
                            sizeof *instance);
    }
    instance->services = services;
    *out_instance = instance;
    return DDISP_STATUS_OK;
}

static void close_instance(void *self)
{
    host_instance *instance = self;
    backend_release(instance->services, instance);
}

static ddisp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = 1;
    return DDISP_STATUS_OK;
}

uint64_t host__memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

/** Reads the processor's name; false where the system does not tell. */
static bool processor_name(char *name, size_t capacity)
{
    static const char key[] = "model name";
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || !value) {
            continue;
        }
        value += 1 + strspn(value + 1, " \t");
        (void)snprintf(name, capacity, "%.*s", (int)strcspn(value, "\n"), value);
        found = name[0] != '\0';
    }
    (void)fclose(file);
    return found;
}

/**
 * A UUID of version 8 (RFC 9562) made of the machine's id. The id itself is confidential
 * (machine-id(5)), so it is hashed; without one, all machines have the same UUID.
 */
static void machine_uuid(char *uuid, size_t capacity)
{
    char seed[128] = "libdiffdispatch host device ";
    size_t length = strlen(seed);
    FILE *file = fopen("/etc/machine-id", "re");
    if (file) {
        length += fread(seed + length, 1, 32, file);
        (void)fclose(file);
    }
    XXH128_hash_t hash = XXH3_128bits(seed, length);
    (void)snprintf(uuid, capacity, "%08x-%04x-8%03x-%04x-%012llx", (unsigned)(hash.high64 >> 32),
                   (unsigned)(hash.high64 >> 16 & 0xffff), (unsigned)(hash.high64 & 0xfff),
                   (unsigned)(hash.low64 >> 48 & 0x3fff) | 0x8000u,
                   (unsigned long long)(hash.low64 & UINT64_C(0xffffffffffff)));
}

static ddisp_status device_describe(void *self, uint32_t index, ddisp_device_info *info)
{
    (void)self;
    (void)index;
    struct utsname system;
    const char *machine = uname(&system) == 0 ? system.machine : "unknown";
    if (!processor_name(info->name, sizeof info->name)) {
        (void)snprintf(info->name, sizeof info->name, "%s", machine);
    }
    (void)snprintf(info->architecture, sizeof info->architecture, "%.31s", machine);
    machine_uuid(info->uuid, sizeof info->uuid);
    (void)snprintf(info->driver, sizeof info->driver, "OpenMP, %d threads", omp_get_max_threads());
    (void)snprintf(info->formats, sizeof info->formats, "host-function,host-library");
    (void)snprintf(info->sink, sizeof info->sink, "aliased");
    info->rank = 10;
    info->flags = DDISP_DEVICE_FLAG_SOFTWARE | DDISP_DEVICE_FLAG_HOST_ADDRESSES;
    info->memory_bytes = host__memory_bytes();
    info->max_allocation_bytes = info->memory_bytes;
    info->atomic_add_f16 = DDISP_SUPPORT_EMULATED;
    info->atomic_add_bf16 = DDISP_SUPPORT_EMULATED;
    info->atomic_add_f32 = DDISP_SUPPORT_EMULATED;
    info->atomic_add_f64 = DDISP_SUPPORT_EMULATED;
    info->atomic_add_i64 = DDISP_SUPPORT_NATIVE;
    info->max_block_bytes = UINT32_C(1) << 20;
    info->subgroup_size = 1;
    info->driver_version = _OPENMP;
    info->dlpack_device_type = 1; /* kDLCPU */
    return DDISP_STATUS_OK;
}

static ddisp_status device_open(void *self, uint32_t index, void **out_device)
{
    host_instance *instance = self;
    (void)index;
    host_device *device = backend_allocate(instance->services, sizeof *device);
    if (!device) {
        return backend_fail(instance->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for the device (%zu bytes)", sizeof *device);
    }
    device->services = instance->services;
    device->memory_bytes = host__memory_bytes();
    int code = pthread_mutex_init(&device->lock, NULL);
    if (code != 0) {
        backend_release(instance->services, device);
        return backend_fail(instance->services, DDISP_STATUS_OUT_OF_MEMORY, code,
                            "host: no mutex for the device (error %d)", code);
    }
    *out_device = device;
    return DDISP_STATUS_OK;
}

static void device_close(void *self)
{
    host_device *device = self;
    host__stream_reap(device, true);
    host__sink_trim(device);
    (void)pthread_mutex_destroy(&device->lock);
    backend_release(device->services, device);
}

static const ddisp_backend_table table = {
    .size = (uint32_t)sizeof(ddisp_backend_table),
    .abi = DDISP_BACKEND_ABI,
    .name = "host",
    .version = "0.1.0",
    .open = open_instance,
    .close = close_instance,
    .device_count = device_count,
    .device_describe = device_describe,
    .device_open = device_open,
    .device_close = device_close,
    .memory_allocate = host__memory_allocate,
    .memory_free = host__memory_free,
    .memory_import = host__memory_import,
    .memory_release_import = host__memory_release_import,
    .upload = host__upload,
    .download = host__download,
    .fill = host__fill,
    .copy = host__copy,
    .stream_create = host__stream_create,
    .stream_destroy = host__stream_destroy,
    .stream_flush = host__stream_flush,
    .stream_mark = host__stream_mark,
    .stream_wait = host__stream_wait,
    .stream_query = host__stream_query,
    .stream_synchronize = host__stream_synchronize,
    .inspect = host__inspect,
    .code_fits = host__code_fits,
    .variant_build = host__variant_build,
    .variant_release = host__variant_release,
    .launch = host__launch,
    .sink_acquire = host__sink_acquire,
    .sink_trim = host__sink_trim,
    .fill_elements = host__fill_elements,
    .accumulate = host__accumulate,
    .scatter_add = host__scatter_add,
    .fold = host__fold,
    .stream_mark_timed = host__stream_mark_timed,
    .stream_elapsed = host__stream_elapsed,
    .capture_begin = host__capture_begin,
    .capture_end = host__capture_end,
    .graph_launch = host__graph_launch,
    .graph_update = host__graph_update,
    .graph_release = host__graph_release,
};

DDISP_API ddisp_status ddisp_host_backend_query(uint32_t core_abi,
                                                const ddisp_backend_services *services,
                                                const ddisp_backend_table **out_table);

DDISP_API ddisp_status ddisp_host_backend_query(uint32_t core_abi,
                                                const ddisp_backend_services *services,
                                                const ddisp_backend_table **out_table)
{
    if (core_abi >> 16 != DDISP_BACKEND_ABI_MAJOR || core_abi < DDISP_BACKEND_ABI) {
        return backend_fail(services, DDISP_STATUS_INCOMPATIBLE, 0,
                            "host: the plugin needs plugin ABI %d.%d or a later %d.x, the library "
                            "has %u.%u: install both from one version",
                            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR,
                            DDISP_BACKEND_ABI_MAJOR, core_abi >> 16, core_abi & 0xffff);
    }
    *out_table = &table;
    return DDISP_STATUS_OK;
}
