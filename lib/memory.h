/*
 * memory.h - the core's only allocation, reference counting, growable array and hash table.
 */
#ifndef DDISP_LIB_MEMORY_H
#define DDISP_LIB_MEMORY_H

#include <diffdispatch/base.h>

#include <stdatomic.h>
#include <stdbool.h>

typedef struct ddisp_context ddisp_context;

/** Zeroed memory from the context's allocator (NULL context: malloc), or NULL. */
void *ddisp__allocate(ddisp_context *context, uint64_t size_bytes);
void ddisp__release(ddisp_context *context, void *pointer);
/** The same for memory that is only read once it is filled. */
static inline void ddisp__release_const(ddisp_context *context, const void *pointer)
{
    ddisp__release(context, (void *)(uintptr_t)pointer);
}
/** Copy of size_bytes at source (one byte of terminator is added), or NULL. */
void *ddisp__duplicate(ddisp_context *context, const void *source, uint64_t size_bytes);
/** Copy of a string, or NULL. */
char *ddisp__duplicate_string(ddisp_context *context, const char *source);

/** Reference count; starts at 1 by ddisp__reference_start. */
typedef struct ddisp__reference {
    atomic_uint_fast32_t count;
} ddisp__reference;

static inline void ddisp__reference_start(ddisp__reference *reference)
{
    atomic_init(&reference->count, 1);
}
static inline void ddisp__reference_take(ddisp__reference *reference)
{
    atomic_fetch_add_explicit(&reference->count, 1, memory_order_relaxed);
}
/** True when this was the last reference. */
static inline bool ddisp__reference_drop(ddisp__reference *reference)
{
    return atomic_fetch_sub_explicit(&reference->count, 1, memory_order_acq_rel) == 1;
}

/** Growable array of items of one size. Zero-initialize, set item_size. */
typedef struct ddisp__array {
    void *items;
    uint32_t count;
    uint32_t capacity;
    uint32_t item_size;
} ddisp__array;

/** Appends a zeroed item and returns it, or NULL (array unchanged). Pointers to items move. */
void *ddisp__array_push(ddisp_context *context, ddisp__array *array);
void *ddisp__array_at(const ddisp__array *array, uint32_t index);
/** Removes an item by moving the last one into its place. */
void ddisp__array_remove(ddisp__array *array, uint32_t index);
void ddisp__array_clear(ddisp_context *context, ddisp__array *array);

/**
 * Hash table from (128-bit hash, key bytes) to a pointer. Keys are compared byte by byte, so that
 * equal hashes never mix entries. Keys are copied. Any number of threads may search while one adds
 * (who adds is the caller's to serialize); an entry that is being added is found or not.
 */
typedef struct ddisp__table_entry ddisp__table_entry;
typedef struct ddisp__table_slots ddisp__table_slots;
typedef struct ddisp__table {
    _Atomic(ddisp__table_slots *) slots;
    uint64_t count;
    atomic_uint_fast64_t collisions; /* searches and adds that met an equal hash with other bytes */
} ddisp__table;

typedef struct ddisp__hash {
    uint64_t low, high;
} ddisp__hash;

/** XXH3-128 of the bytes. */
ddisp__hash ddisp__hash_bytes(const void *bytes, uint64_t size_bytes);
void *ddisp__table_find(ddisp__table *table, ddisp__hash hash, const void *key, uint64_t key_size);
/** Adds an entry that is not there yet. False when out of memory. */
bool ddisp__table_add(ddisp_context *context, ddisp__table *table, ddisp__hash hash,
                      const void *key, uint64_t key_size, void *value);
/** Calls visit for each value. Nobody adds meanwhile. */
void ddisp__table_visit(const ddisp__table *table, void (*visit)(void *user, void *value),
                        void *user);
/** Calls visit for each value, then empties the table, which nobody uses. visit may be NULL. */
void ddisp__table_clear(ddisp_context *context, ddisp__table *table,
                        void (*visit)(void *user, void *value), void *user);

#endif
