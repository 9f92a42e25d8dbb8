/*
 * fake_virtual.c - the stand-in driver's virtual memory: reserved ranges of addresses, physical
 * memory without addresses, and the one mapped into the other, as often as wanted. Memory that is
 * mapped several times is so on the host too, so that aliases behave as on a device. What the real
 * driver refuses is refused: sizes that are no multiple of the granularity, addresses that are not
 * reserved, mapped twice or not at all, and access to memory that is not mapped.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY (UINT64_C(2) << 20)

typedef struct range {
    struct range *next;
    cu__address address;
    uint64_t size_bytes;
    cu__allocation allocation; /* of a mapping */
    bool accessible;           /* a mapping that may be used */
} range;

static range *reservations, *mappings;

static void *pointer_of(cu__address address)
{
    return (void *)(uintptr_t)address;
}

static range **find(range **list, cu__address address, uint64_t size_bytes)
{
    for (; *list; list = &(*list)->next) {
        if (address >= (*list)->address && size_bytes <= (*list)->size_bytes &&
            address - (*list)->address <= (*list)->size_bytes - size_bytes) {
            break;
        }
    }
    return list;
}

static bool is_mapped(cu__address address, uint64_t size_bytes)
{
    for (const range *each = mappings; each; each = each->next) {
        if (address < each->address + each->size_bytes && each->address < address + size_bytes) {
            return true;
        }
    }
    return false;
}

static void add(range **list, cu__address address, uint64_t size_bytes, cu__allocation allocation)
{
    range *made = calloc(1, sizeof *made);
    if (!made) {
        abort();
    }
    *made = (range){*list, address, size_bytes, allocation, false};
    *list = made;
}

static void drop(range **link)
{
    range *gone = *link;
    *link = gone->next;
    free(gone);
}

bool fake_in_mapping(cu__address address, uint64_t size_bytes)
{
    while (size_bytes > 0) {
        const range *found = *find(&mappings, address, 1);
        if (!found || !found->accessible) {
            return false;
        }
        uint64_t here = found->size_bytes - (address - found->address);
        here = here < size_bytes ? here : size_bytes;
        address += here;
        size_bytes -= here;
    }
    return true;
}

/* ---- addresses */

cu__result cuMemGetAllocationGranularity(size_t *out_granularity_bytes,
                                         const struct CUmemAllocationProp_st *properties,
                                         unsigned int option)
{
    cu__result result = fake_begin(FAKE_mem_get_allocation_granularity);
    (void)properties;
    (void)option;
    *out_granularity_bytes = GRANULARITY;
    return fake_end(result);
}

cu__result cuMemAddressReserve(cu__address *out_address, size_t size_bytes, size_t alignment_bytes,
                               cu__address wish, unsigned long long flags)
{
    cu__result result = fake_begin_current(FAKE_mem_address_reserve);
    if (result == CU__SUCCESS && (size_bytes % GRANULARITY != 0 || size_bytes == 0 ||
                                  alignment_bytes != 0 || wish != 0 || flags != 0)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        void *at =
            mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            abort();
        }
        *out_address = (cu__address)(uintptr_t)at;
        add(&reservations, *out_address, size_bytes, 0);
        fake.reservations++;
    }
    return fake_end(result);
}

cu__result cuMemAddressFree(cu__address address, size_t size_bytes)
{
    cu__result result = fake_begin_current(FAKE_mem_address_free);
    if (fake_releases(result)) {
        range **link = find(&reservations, address, size_bytes);
        if (!*link || (*link)->size_bytes != size_bytes || is_mapped(address, size_bytes)) {
            return fake_end(CU__ERROR_INVALID_VALUE);
        }
        (void)munmap(pointer_of(address), size_bytes);
        drop(link);
        fake.reservations--;
    }
    return fake_end(result);
}

/* ---- memory; an allocation is the descriptor of a file in memory, plus 1 */

cu__result cuMemCreate(cu__allocation *out_allocation, size_t size_bytes,
                       const struct CUmemAllocationProp_st *properties, unsigned long long flags)
{
    cu__result result = fake_begin_current(FAKE_mem_create);
    cu__allocation_properties given, wanted = {.type = CU__MEM_ALLOCATION_TYPE_PINNED,
                                               .location_type = CU__MEM_LOCATION_TYPE_DEVICE};
    memcpy(&given, properties, sizeof given);
    wanted.location_id = given.location_id;
    if (result == CU__SUCCESS && (memcmp(&given, &wanted, sizeof given) != 0 || flags != 0 ||
                                  size_bytes == 0 || size_bytes % GRANULARITY != 0)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        int file = memfd_create("fake", MFD_CLOEXEC);
        void *at = MAP_FAILED;
        if (file < 0 || ftruncate(file, (off_t)size_bytes) != 0 ||
            (at = mmap(NULL, size_bytes, PROT_WRITE, MAP_SHARED, file, 0)) == MAP_FAILED) {
            abort();
        }
        memset(at, 0xA5, size_bytes);
        (void)munmap(at, size_bytes);
        *out_allocation = (cu__allocation)file + 1;
        fake.physical_allocations++;
    }
    return fake_end(result);
}

cu__result cuMemRelease(cu__allocation allocation)
{
    cu__result result = fake_begin(FAKE_mem_release);
    if (fake_releases(result)) {
        (void)close((int)(allocation - 1));
        fake.physical_allocations--;
    }
    return fake_end(result);
}

/* ---- mappings */

cu__result cuMemMap(cu__address address, size_t size_bytes, size_t offset_bytes,
                    cu__allocation allocation, unsigned long long flags)
{
    cu__result result = fake_begin_current(FAKE_mem_map);
    if (result == CU__SUCCESS &&
        (offset_bytes != 0 || flags != 0 || size_bytes % GRANULARITY != 0 ||
         !*find(&reservations, address, size_bytes) || is_mapped(address, size_bytes))) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        if (mmap(pointer_of(address), size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                 (int)(allocation - 1), 0) == MAP_FAILED) {
            abort();
        }
        add(&mappings, address, size_bytes, allocation);
        fake.mappings++;
    }
    return fake_end(result);
}

cu__result cuMemUnmap(cu__address address, size_t size_bytes)
{
    cu__result result = fake_begin_current(FAKE_mem_unmap);
    if (fake_releases(result)) {
        range **link = find(&mappings, address, size_bytes);
        if (!*link || (*link)->address != address || (*link)->size_bytes != size_bytes) {
            return fake_end(CU__ERROR_INVALID_VALUE);
        }
        (void)mmap(pointer_of(address), size_bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        drop(link);
        fake.mappings--;
    }
    return fake_end(result);
}

cu__result cuMemSetAccess(cu__address address, size_t size_bytes,
                          const struct CUmemAccessDesc_st *access, size_t count)
{
    cu__result result = fake_begin_current(FAKE_mem_set_access);
    cu__access given;
    memcpy(&given, access, sizeof given);
    if (result == CU__SUCCESS &&
        (count != 1 || given.location_type != CU__MEM_LOCATION_TYPE_DEVICE ||
         given.flags != CU__MEM_ACCESS_FLAGS_PROT_READWRITE)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    for (uint64_t done = 0; result == CU__SUCCESS && done < size_bytes;) {
        range *found = *find(&mappings, address + done, 1);
        if (!found || found->address != address + done) {
            result = CU__ERROR_INVALID_VALUE;
        } else {
            found->accessible = true;
            (void)mprotect(pointer_of(found->address), found->size_bytes, PROT_READ | PROT_WRITE);
            done += found->size_bytes;
        }
    }
    return fake_end(result);
}
