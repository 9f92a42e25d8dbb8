/*
 * memory.c - host memory of the core: allocation through the context's hooks, growable arrays, and
 * hash tables whose keys are bytes.
 *
 * Everything returns NULL or false when memory runs out and has then changed nothing; the caller
 * turns that into a status. Nothing here locks.
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

/* ---- hash tables: chains in a power of two of buckets */

struct ddisp__table_entry {
    ddisp__table_entry *next;
    ddisp__hash hash;
    void *value;
    uint64_t key_size;
    unsigned char key[];
};

ddisp__hash ddisp__hash_bytes(const void *bytes, uint64_t size_bytes)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, size_bytes);
    return (ddisp__hash){.low = hash.low64, .high = hash.high64};
}

/* Finds an entry. The counter is atomic since readers that share a lock may meet here. */
static ddisp__table_entry *find_entry(ddisp__table *table, ddisp__hash hash, const void *key,
                                      uint64_t key_size)
{
    if (table->bucket_count == 0)
        return NULL;

    ddisp__table_entry *entry = table->buckets[hash.low & (table->bucket_count - 1)];
    for (; entry; entry = entry->next) {
        if (entry->hash.low != hash.low || entry->hash.high != hash.high)
            continue;
        if (entry->key_size == key_size && (key_size == 0 || !memcmp(entry->key, key, key_size)))
            return entry;
        __atomic_fetch_add(&table->collisions, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Doubles the buckets. On failure the table stays usable, with longer chains. */
static void grow_table(ddisp_context *context, ddisp__table *table)
{
    uint64_t bucket_count = table->bucket_count ? table->bucket_count * 2 : 16;
    ddisp__table_entry **buckets =
        ddisp__allocate(context, bucket_count * sizeof(ddisp__table_entry *));
    if (!buckets)
        return;

    for (uint64_t i = 0; i < table->bucket_count; i++) {
        ddisp__table_entry *entry = table->buckets[i];
        while (entry) {
            ddisp__table_entry *next = entry->next;
            ddisp__table_entry **head = &buckets[entry->hash.low & (bucket_count - 1)];
            entry->next = *head;
            *head = entry;
            entry = next;
        }
    }
    ddisp__release(context, table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
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
    if (table->count >= table->bucket_count)
        grow_table(context, table);
    if (table->bucket_count == 0)
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

    ddisp__table_entry **head = &table->buckets[hash.low & (table->bucket_count - 1)];
    entry->next = *head;
    *head = entry;
    table->count++;
    return true;
}

void ddisp__table_visit(const ddisp__table *table, void (*visit)(void *user, void *value),
                        void *user)
{
    for (uint64_t i = 0; i < table->bucket_count; i++)
        for (ddisp__table_entry *entry = table->buckets[i]; entry; entry = entry->next)
            visit(user, entry->value);
}

void ddisp__table_clear(ddisp_context *context, ddisp__table *table,
                        void (*visit)(void *user, void *value), void *user)
{
    for (uint64_t i = 0; i < table->bucket_count; i++) {
        ddisp__table_entry *entry = table->buckets[i];
        while (entry) {
            ddisp__table_entry *next = entry->next;
            if (visit)
                visit(user, entry->value);
            ddisp__release(context, entry);
            entry = next;
        }
    }
    ddisp__release(context, table->buckets);
    table->buckets = NULL;
    table->bucket_count = 0;
    table->count = 0;
}
