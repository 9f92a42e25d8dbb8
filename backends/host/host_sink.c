/*
 * host_sink.c - the sink on the host: one small block of memory, seen over and over through a long
 * range of addresses that is reserved once. The range is mapped as far as it was asked for, in
 * place, so that its base never moves. Writes through it land in the block; nobody reads them.
 */
#include "host_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/** The block is at least this long, and long enough that the whole range takes at most this many
 * mappings: the system allows a process 65530. */
#define PIECE_BYTES (UINT64_C(2) << 20)
#define MOST_PIECES 4096

static ddisp_status refuse(host_device *device, const char *what, uint64_t size_bytes)
{
    return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, errno,
                        "host: no sink of %llu bytes: %s failed: %s",
                        (unsigned long long)size_bytes, what, strerror(errno));
}

static ddisp_status reserve(host_device *device, uint64_t size_bytes)
{
    host_sink *sink = &device->sink;
    if (sink->base) {
        return DDISP_STATUS_OK;
    }
    int block = memfd_create("ddisp-sink", MFD_CLOEXEC);
    if (block < 0) {
        return refuse(device, "memfd_create", size_bytes);
    }
    void *base = mmap(NULL, device->memory_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        ddisp_status status = refuse(device, "mmap", size_bytes);
        (void)close(block);
        return status;
    }
    sink->block = block;
    sink->base = base;
    sink->reserved_bytes = device->memory_bytes;
    return DDISP_STATUS_OK;
}

/* Maps the block again and again behind what is mapped, up to size_bytes. */
static ddisp_status grow(host_device *device, uint64_t size_bytes)
{
    host_sink *sink = &device->sink;
    uint64_t piece = PIECE_BYTES;
    while (piece < size_bytes / MOST_PIECES) {
        piece *= 2;
    }
    if (piece > sink->block_bytes) {
        if (ftruncate(sink->block, (off_t)piece) != 0) {
            return refuse(device, "ftruncate", size_bytes);
        }
        sink->block_bytes = piece;
    }
    while (sink->mapped_bytes < size_bytes) {
        uint64_t rest = sink->reserved_bytes - sink->mapped_bytes;
        uint64_t bytes = rest < piece ? rest : piece;
        void *at = mmap(sink->base + sink->mapped_bytes, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, sink->block, 0);
        if (at == MAP_FAILED) {
            return refuse(device, "mmap", size_bytes);
        }
        sink->mapped_bytes += bytes;
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__sink_acquire(void *device_handle, uint64_t size_bytes, uint64_t flags,
                                ddisp_backend_range *out_range, uint64_t *out_physical_bytes)
{
    host_device *device = device_handle;
    host_sink *sink = &device->sink;
    (void)flags;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (size_bytes > device->memory_bytes) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, 0,
                            "host: a sink of %llu bytes was asked for, the longest has %llu",
                            (unsigned long long)size_bytes,
                            (unsigned long long)device->memory_bytes);
    }
    ddisp_status status = reserve(device, size_bytes);
    if (status == DDISP_STATUS_OK) {
        status = grow(device, (size_bytes + page - 1) / page * page);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    *out_range = (ddisp_backend_range){.address = (uint64_t)(uintptr_t)sink->base,
                                       .size_bytes = sink->mapped_bytes};
    *out_physical_bytes = sink->block_bytes;
    return DDISP_STATUS_OK;
}

void host__sink_trim(void *device_handle)
{
    host_device *device = device_handle;
    host_sink *sink = &device->sink;
    if (!sink->base) {
        return;
    }
    (void)munmap(sink->base, sink->reserved_bytes);
    (void)close(sink->block);
    *sink = (host_sink){0};
}
