/*
 * memory.c - host memory of the core: allocation through the context's hooks, growable arrays, and
 * hash tables whose keys are bytes.
 *
 * Everything returns NULL or false when memory runs out and has then changed nothing; the caller
 * turns that into a status. Nothing here locks. A table may be searched while one thread adds to
 * it: what was outgrown stays until the table is cleared.
 */
#include "memory.h"

#include "objects.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void *ddisp__allocate(ddisp_context *context, uint64_t size_bytes)
{
    if (size_bytes == 0)
        size_bytes = 1;
    if (size_bytes > PTRDIFF_MAX)
        return NULL;
    if (!context)
        return calloc(1, size_bytes);

    void *pointer = context->allocator.allocate(context->allocator.user_data, size_bytes);
    if (pointer)
        memset(pointer, 0, size_bytes);
    return pointer;
}

void ddisp__release(ddisp_context *context, void *pointer)
{
    if (!pointer)
        return;
    if (context)
        context->allocator.release(context->allocator.user_data, pointer);
    else
        free(pointer);
}

void *ddisp__duplicate(ddisp_context *context, const void *source, uint64_t size_bytes)
{
    if (size_bytes >= PTRDIFF_MAX)
        return NULL;
    void *copy = ddisp__allocate(context, size_bytes + 1);
    if (copy && size_bytes != 0)
        memcpy(copy, source, size_bytes);
    return copy;
}

char *ddisp__duplicate_string(ddisp_context *context, const char *source)
{
    return ddisp__duplicate(context, source, strlen(source));
}

/* ---- arrays */

void *ddisp__array_push(ddisp_context *context, ddisp__array *array)
{
    if (array->count == array->capacity) {
        if (array->capacity > UINT32_MAX / 2)
            return NULL;
        uint32_t capacity = array->capacity ? array->capacity * 2 : 4;
        void *items = ddisp__allocate(context, (uint64_t)capacity * array->item_size);
        if (!items)
            return NULL;
        if (array->count)
            memcpy(items, array->items, (uint64_t)array->count * array->item_size);
        ddisp__release(context, array->items);
        array->items = items;
        array->capacity = capacity;
    }
    void *item = ddisp__array_at(array, array->count++);
    memset(item, 0, array->item_size);
    return item;
}

void *ddisp__array_at(const ddisp__array *array, uint32_t index)
{
    return (unsigned char *)array->items + (uint64_t)index * array->item_size;
}

void ddisp__array_remove(ddisp__array *array, uint32_t index)
{
    uint32_t end = --array->count;
    if (index != end)
        memcpy(ddisp__array_at(array, index), ddisp__array_at(array, end), array->item_size);
}

void ddisp__array_clear(ddisp_context *context, ddisp__array *array)
{
    ddisp__release(context, array->items);
    array->items = NULL;
    array->count = 0;
    array->capacity = 0;
}

/* ---- hash tables: open addressing in a power of two of slots, at most half full */

struct ddisp__table_entry {
    ddisp__hash hash;
    void *value;
    uint64_t key_size;
    unsigned char key[];
};

/* The high half of the hash tells most strangers apart without a look at the entry. */
typedef struct slot {
    _Atomic(ddisp__table_entry *) entry; /* written last */
    uint64_t high;
} slot;

struct ddisp__table_slots {
    ddisp__table_slots *outgrown; /* readers may still be in it */
    uint64_t count;
    slot slots[];
};

ddisp__hash ddisp__hash_bytes(const void *bytes, uint64_t size_bytes)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, size_bytes);
    return (ddisp__hash){.low = hash.low64, .high = hash.high64};
}

/* Finds an entry, beside at most one thread that adds: what is seen of a slot was whole before. */
static ddisp__table_entry *find_entry(ddisp__table *table, ddisp__hash hash, const void *key,
                                      uint64_t key_size)
{
    ddisp__table_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    if (!slots)
        return NULL;

    for (uint64_t i = hash.low & (slots->count - 1);; i = (i + 1) & (slots->count - 1)) {
        ddisp__table_entry *entry =
            atomic_load_explicit(&slots->slots[i].entry, memory_order_acquire);
        if (!entry)
            return NULL;
        if (slots->slots[i].high != hash.high || entry->hash.low != hash.low)
            continue;
        if (entry->key_size == key_size && (key_size == 0 || !memcmp(entry->key, key, key_size)))
            return entry;
        atomic_fetch_add_explicit(&table->collisions, 1, memory_order_relaxed);
    }
}

/* There is an empty slot. */
static void put_entry(ddisp__table_slots *slots, ddisp__table_entry *entry)
{
    uint64_t i = entry->hash.low & (slots->count - 1);
    while (atomic_load_explicit(&slots->slots[i].entry, memory_order_relaxed))
        i = (i + 1) & (slots->count - 1);
    slots->slots[i].high = entry->hash.high;
    atomic_store_explicit(&slots->slots[i].entry, entry, memory_order_release);
}

/* Doubles the slots. On failure the table stays as it was, and may fill up to its last slot. */
static void grow_table(ddisp_context *context, ddisp__table *table)
{
    ddisp__table_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
    uint64_t count = old ? old->count * 2 : 16;
    ddisp__table_slots *slots = ddisp__allocate(context, sizeof *slots + count * sizeof(slot));
    if (!slots)
        return;

    slots->outgrown = old;
    slots->count = count;
    for (uint64_t i = 0; old && i < old->count; i++) {
        ddisp__table_entry *entry =
            atomic_load_explicit(&old->slots[i].entry, memory_order_relaxed);
        if (entry)
            put_entry(slots, entry);
    }
    atomic_store_explicit(&table->slots, slots, memory_order_release);
}

void *ddisp__table_find(ddisp__table *table, ddisp__hash hash, const void *key, uint64_t key_size)
{
    ddisp__table_entry *entry = find_entry(table, hash, key, key_size);
    return entry ? entry->value : NULL;
}

bool ddisp__table_add(ddisp_context *context, ddisp__table *table, ddisp__hash hash,
                      const void *key, uint64_t key_size, void *value)
{
    if (key_size > PTRDIFF_MAX - sizeof(ddisp__table_entry))
        return false;
    ddisp__table_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    if (!slots || table->count >= slots->count / 2)
        grow_table(context, table);
    slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    if (!slots || table->count + 1 >= slots->count) /* one stays empty: it ends every search */
        return false;

    ddisp__table_entry *entry = ddisp__allocate(context, sizeof *entry + key_size);
    if (!entry)
        return false;
    (void)find_entry(table, hash, key, key_size); /* counts collisions */
    entry->hash = hash;
    entry->value = value;
    entry->key_size = key_size;
    if (key_size != 0)
        memcpy(entry->key, key, key_size);
    put_entry(slots, entry);
    table->count++;
    return true;
}

void ddisp__table_visit(const ddisp__table *table, void (*visit)(void *user, void *value),
                        void *user)
{
    ddisp__table_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    for (uint64_t i = 0; slots && i < slots->count; i++) {
        ddisp__table_entry *entry =
            atomic_load_explicit(&slots->slots[i].entry, memory_order_relaxed);
        if (entry)
            visit(user, entry->value);
    }
}

void ddisp__table_clear(ddisp_context *context, ddisp__table *table,
                        void (*visit)(void *user, void *value), void *user)
{
    ddisp__table_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    for (uint64_t i = 0; slots && i < slots->count; i++) {
        ddisp__table_entry *entry =
            atomic_load_explicit(&slots->slots[i].entry, memory_order_relaxed);
        if (entry && visit)
            visit(user, entry->value);
        ddisp__release(context, entry);
    }
    while (slots) {
        ddisp__table_slots *outgrown = slots->outgrown;
        ddisp__release(context, slots);
        slots = outgrown;
    }
    atomic_store_explicit(&table->slots, NULL, memory_order_relaxed);
    table->count = 0;
}
