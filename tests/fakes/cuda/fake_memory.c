/*
 * fake_memory.c - the stand-in driver's memory: plain, pooled and pinned allocations on the host,
 * copies and fills. Copies and fills outside of live memory are refused.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next;
    void *pointer;
    uint64_t size_bytes;
    cu__pool pool;
} block;

struct CUmemPoolHandle_st {
    uint64_t cached_bytes;           /* freed, and not given back */
    uint64_t keep_bytes;             /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */
    uint64_t used_bytes, peak_bytes; /* handed out; most of this and cached_bytes together */
};

static block *blocks;

static uint64_t used_bytes, cached_bytes;

bool fake_in_memory(cu__address address, uint64_t size_bytes)
{
    for (const block *each = blocks; each; each = each->next) {
        cu__address start = (cu__address)(uintptr_t)each->pointer;
        if (address >= start && size_bytes <= each->size_bytes &&
            address - start <= each->size_bytes - size_bytes) {
            return true;
        }
    }
    return fake_in_mapping(address, size_bytes);
}

static void *pointer_of(cu__address address)
{
    return (void *)(uintptr_t)address;
}

static cu__result allocate(cu__address *out_address, uint64_t size_bytes, cu__pool pool)
{
    bool reused = pool && pool->cached_bytes >= size_bytes;
    if (size_bytes == 0) {
        return CU__ERROR_INVALID_VALUE;
    }
    if (size_bytes > fake.memory_bytes ||
        (!reused && used_bytes + cached_bytes + size_bytes > fake.memory_bytes)) {
        return CU__ERROR_OUT_OF_MEMORY;
    }
    block *made = calloc(1, sizeof *made);
    if (!made || !(made->pointer = aligned_alloc(256, (size_t)(size_bytes + 255) / 256 * 256))) {
        free(made);
        return CU__ERROR_OUT_OF_MEMORY;
    }
    memset(made->pointer, 0xA5, size_bytes);
    made->size_bytes = size_bytes;
    made->pool = pool;
    made->next = blocks;
    blocks = made;
    used_bytes += size_bytes;
    if (reused) {
        pool->cached_bytes -= size_bytes;
        cached_bytes -= size_bytes;
    }
    if (pool) {
        pool->used_bytes += size_bytes;
        if (pool->used_bytes + pool->cached_bytes > pool->peak_bytes) {
            pool->peak_bytes = pool->used_bytes + pool->cached_bytes;
        }
    }
    fake.allocations++;
    *out_address = (cu__address)(uintptr_t)made->pointer;
    return CU__SUCCESS;
}

static cu__result release(cu__address address, bool pooled)
{
    for (block **link = &blocks; *link; link = &(*link)->next) {
        block *found = *link;
        if ((cu__address)(uintptr_t)found->pointer == address && !!found->pool == pooled) {
            *link = found->next;
            used_bytes -= found->size_bytes;
            if (found->pool) {
                found->pool->used_bytes -= found->size_bytes;
            }
            if (found->pool && found->pool->keep_bytes > found->pool->cached_bytes) {
                found->pool->cached_bytes += found->size_bytes;
                cached_bytes += found->size_bytes;
            }
            free(found->pointer);
            free(found);
            fake.allocations--;
            return CU__SUCCESS;
        }
    }
    return CU__ERROR_INVALID_VALUE;
}

/* ---- taking and giving */

cu__result cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
    cu__result result = fake_begin_current(FAKE_mem_get_info);
    *out_free = fake.memory_bytes - used_bytes - cached_bytes;
    *out_total = fake.memory_bytes;
    return fake_end(result);
}

cu__result cuMemAlloc_v2(cu__address *out_address, size_t size_bytes)
{
    cu__result result = fake_begin_unsafe(FAKE_mem_alloc);
    return fake_end(result == CU__SUCCESS ? allocate(out_address, size_bytes, NULL) : result);
}

cu__result cuMemFree_v2(cu__address address)
{
    cu__result result = fake_begin_unsafe(FAKE_mem_free);
    cu__result released = fake_releases(result) ? release(address, false) : result;
    return fake_end(result != CU__SUCCESS ? result : released);
}

cu__result cuMemHostAlloc(void **out_pointer, size_t size_bytes, unsigned int flags)
{
    cu__result result = fake_begin_unsafe(FAKE_mem_host_alloc);
    (void)flags;
    if (result == CU__SUCCESS) {
        *out_pointer = malloc(size_bytes);
        fake.host_allocations++;
    }
    return fake_end(result);
}

cu__result cuMemFreeHost(void *pointer)
{
    cu__result result = fake_begin_unsafe(FAKE_mem_free_host);
    if (fake_releases(result)) {
        free(pointer);
        fake.host_allocations--;
    }
    return fake_end(result);
}

cu__result cuMemAllocFromPoolAsync(cu__address *out_address, size_t size_bytes, cu__pool pool,
                                   cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_mem_alloc_from_pool_async);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the driver would record it */
    }
    return fake_end(result == CU__SUCCESS ? allocate(out_address, size_bytes, pool) : result);
}

cu__result cuMemFreeAsync(cu__address address, cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_mem_free_async);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    cu__result released = fake_releases(result) ? release(address, true) : result;
    return fake_end(result != CU__SUCCESS ? result : released);
}

cu__result cuMemPoolCreate(cu__pool *out_pool, const struct CUmemPoolProps_st *properties)
{
    cu__result result = fake_begin(FAKE_mem_pool_create);
    cu__pool_properties wanted = {0}, given;
    wanted.allocation_type = CU__MEM_ALLOCATION_TYPE_PINNED;
    wanted.location_type = CU__MEM_LOCATION_TYPE_DEVICE;
    memcpy(&given, properties, sizeof given);
    wanted.location_id = given.location_id;
    if (result == CU__SUCCESS && !fake.pools) {
        result = CU__ERROR_NOT_SUPPORTED;
    }
    if (result == CU__SUCCESS && memcmp(&wanted, &given, sizeof wanted) != 0) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        *out_pool = calloc(1, sizeof **out_pool);
        fake.pool_count++;
    }
    return fake_end(result);
}

cu__result cuMemPoolDestroy(cu__pool pool)
{
    cu__result result = fake_begin(FAKE_mem_pool_destroy);
    if (fake_releases(result)) {
        cached_bytes -= pool->cached_bytes;
        free(pool);
        fake.pool_count--;
    }
    return fake_end(result);
}

cu__result cuMemPoolTrimTo(cu__pool pool, size_t minimum_bytes_to_keep)
{
    cu__result result = fake_begin(FAKE_mem_pool_trim_to);
    if (result == CU__SUCCESS && pool->cached_bytes > minimum_bytes_to_keep) {
        cached_bytes -= pool->cached_bytes - minimum_bytes_to_keep;
        pool->cached_bytes = minimum_bytes_to_keep;
    }
    return fake_end(result);
}

cu__result cuMemPoolSetAttribute(cu__pool pool, unsigned int attribute, void *value)
{
    cu__result result = fake_begin(FAKE_mem_pool_set_attribute);
    if (result == CU__SUCCESS && attribute != CU__MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        memcpy(&pool->keep_bytes, value, sizeof pool->keep_bytes);
    }
    return fake_end(result);
}

cu__result cuMemPoolGetAttribute(cu__pool pool, unsigned int attribute, void *out_value)
{
    cu__result result = fake_begin(FAKE_mem_pool_get_attribute);
    uint64_t value = attribute == CU__MEMPOOL_ATTR_USED_MEM_CURRENT ? pool->used_bytes
                     : attribute == CU__MEMPOOL_ATTR_RESERVED_MEM_CURRENT
                         ? pool->used_bytes + pool->cached_bytes
                         : pool->peak_bytes;
    if (result == CU__SUCCESS) {
        memcpy(out_value, &value, sizeof value);
    }
    return fake_end(result);
}

/* ---- copies and fills */

cu__result cuMemcpyHtoDAsync_v2(cu__address destination, const void *source, size_t size_bytes,
                                cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_memcpy_htod_async);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the library records none */
    }
    if (result == CU__SUCCESS && !fake_in_memory(destination, size_bytes)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        memcpy(pointer_of(destination), source, size_bytes);
    }
    return fake_end(result);
}

cu__result cuMemcpyDtoHAsync_v2(void *destination, cu__address source, size_t size_bytes,
                                cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_memcpy_dtoh_async);
    if (result == CU__SUCCESS && fake_spoils(stream)) {
        result = CU__ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the library records none */
    }
    if (result == CU__SUCCESS && !fake_in_memory(source, size_bytes)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        memcpy(destination, pointer_of(source), size_bytes);
    }
    return fake_end(result);
}

static void run_copy(const struct CUgraphNode_st *node)
{
    memcpy(pointer_of(node->destination), pointer_of(node->source), node->size_bytes);
}

cu__result cuMemcpyDtoDAsync_v2(cu__address destination, cu__address source, size_t size_bytes,
                                cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_memcpy_dtod_async);
    if (result == CU__SUCCESS &&
        (!fake_in_memory(destination, size_bytes) || !fake_in_memory(source, size_bytes) ||
         (destination < source + size_bytes && source < destination + size_bytes))) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        struct CUgraphNode_st now, *node = fake_record(stream);
        struct CUgraphNode_st *work = node ? node : &now;
        work->run = run_copy;
        work->destination = destination;
        work->source = source;
        work->size_bytes = size_bytes;
        if (!node) {
            run_copy(work);
        }
    }
    return fake_end(result);
}

static void run_set(const struct CUgraphNode_st *node)
{
    for (uint64_t i = 0; i < node->count; i++) {
        memcpy((char *)pointer_of(node->destination) + i * node->stride_bytes, node->value,
               node->size_bytes);
    }
}

/* Writes count elements, stride bytes apart; refuses what is misaligned or outside. */
static cu__result set(cu__result result, cu__stream stream, cu__address destination,
                      const void *value, uint64_t element_bytes, uint64_t stride_bytes,
                      uint64_t count)
{
    if (result != CU__SUCCESS || count == 0) {
        return result;
    }
    if (destination % element_bytes != 0 ||
        !fake_in_memory(destination, (count - 1) * stride_bytes + element_bytes)) {
        return CU__ERROR_INVALID_VALUE;
    }
    struct CUgraphNode_st now, *node = fake_record(stream);
    struct CUgraphNode_st *work = node ? node : &now;
    work->run = run_set;
    work->destination = destination;
    work->stride_bytes = stride_bytes;
    work->size_bytes = element_bytes;
    work->count = count;
    memcpy(work->value, value, element_bytes);
    if (!node) {
        run_set(work);
    }
    return CU__SUCCESS;
}

cu__result cuMemsetD8Async(cu__address destination, unsigned char value, size_t count,
                           cu__stream stream)
{
    return fake_end(
        set(fake_begin_current(FAKE_memset_d8_async), stream, destination, &value, 1, 1, count));
}

cu__result cuMemsetD16Async(cu__address destination, unsigned short value, size_t count,
                            cu__stream stream)
{
    return fake_end(
        set(fake_begin_current(FAKE_memset_d16_async), stream, destination, &value, 2, 2, count));
}

cu__result cuMemsetD32Async(cu__address destination, unsigned int value, size_t count,
                            cu__stream stream)
{
    return fake_end(
        set(fake_begin_current(FAKE_memset_d32_async), stream, destination, &value, 4, 4, count));
}

cu__result cuMemsetD2D32Async(cu__address destination, size_t pitch_bytes, unsigned int value,
                              size_t width, size_t height, cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_memset_d2d32_async);
    if (result == CU__SUCCESS && width != 1) {
        result = CU__ERROR_INVALID_VALUE; /* the one shape that the backend uses */
    }
    return fake_end(set(result, stream, destination, &value, 4, pitch_bytes, height));
}
