/*
 * test_cache_table.c - plans are looked up without a lock while others are added: what was added is
 * found from then on, by every thread, also while the table grows; what was not is not.
 */
#include "../unit/check.h"
#include "memory.h"

#include <pthread.h>

#define ENTRIES 20000u
#define READERS 4

struct shared {
    ddisp__table table;
    atomic_uint added; /* entries below are in the table */
    atomic_uint lost;
};

static uint32_t values[ENTRIES];

static ddisp__hash hash_of(uint32_t i)
{
    ddisp__hash hash = ddisp__hash_bytes(&i, sizeof i);
    if (i % 8 == 0) /* many that differ in one half alone, or in nothing but their bytes */
        hash.low = i % 16 ? 5 : hash.low;
    if (i % 32 == 0)
        hash.high = 7;
    return hash;
}

static void *read_all(void *user)
{
    struct shared *s = user;
    uint32_t seed = 1, added = 0;
    while (added < ENTRIES) {
        added = atomic_load(&s->added);
        for (int k = 0; k < 64; k++) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t i = (seed >> 8) % ENTRIES;
            void *found = ddisp__table_find(&s->table, hash_of(i), &i, sizeof i);
            if (i < added ? found != &values[i] : found && found != &values[i])
                atomic_fetch_add(&s->lost, 1);
        }
    }
    return NULL;
}

static void readers_find_what_was_added_while_the_table_grows(void **state)
{
    (void)state;
    struct shared s = {.added = 0};
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all, &s), 0);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_true(ddisp__table_add(NULL, &s.table, hash_of(i), &i, sizeof i, &values[i]));
        atomic_store(&s.added, i + 1);
    }
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(atomic_load(&s.lost), 0);
    assert_int_equal(s.table.count, ENTRIES);
    uint32_t absent = ENTRIES;
    assert_null(ddisp__table_find(&s.table, hash_of(absent), &absent, sizeof absent));
    ddisp__table_clear(NULL, &s.table, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_find_what_was_added_while_the_table_grows),
    };
    return cmocka_run_group_tests_name("cache_table", tests, NULL, NULL);
}
