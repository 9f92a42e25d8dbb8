/*
 * test_memory.c - arrays, hash tables and copies of the core, with and without host memory.
 */
#include "check.h"

#include "objects.h"

#include <stdlib.h>

/* An allocator that counts, and fails from call `fail_at` on. */
struct counted {
    ddisp_context context; /* only its allocator is used */
    uint32_t calls, live, fail_at;
};

static void *counted_allocate(void *user_data, uint64_t size_bytes)
{
    struct counted *counted = user_data;
    if (++counted->calls >= counted->fail_at)
        return NULL;
    counted->live++;
    /* Not zero, as an allocator of a program may be. */
    return memset(malloc(size_bytes), 0xAA, size_bytes);
}

static void counted_release(void *user_data, void *pointer)
{
    struct counted *counted = user_data;
    counted->live--;
    free(pointer);
}

static int setup(void **state)
{
    struct counted *counted = calloc(1, sizeof *counted);
    counted->fail_at = UINT32_MAX;
    counted->context.allocator = (ddisp_allocator){.size = sizeof(ddisp_allocator),
                                                   .user_data = counted,
                                                   .allocate = counted_allocate,
                                                   .release = counted_release};
    *state = counted;
    return 0;
}

static int teardown(void **state)
{
    struct counted *counted = *state;
    int leaked = counted->live != 0;
    free(counted);
    return leaked;
}

static void memory_is_zeroed_whatever_the_allocator_gives(void **state)
{
    struct counted *counted = *state;
    static const unsigned char zeros[100];
    unsigned char *memory = ddisp__allocate(&counted->context, sizeof zeros);
    assert_memory_equal(memory, zeros, sizeof zeros);
    ddisp__release(&counted->context, memory);

    memory = ddisp__allocate(NULL, sizeof zeros);
    assert_memory_equal(memory, zeros, sizeof zeros);
    ddisp__release(NULL, memory);
}

static void zero_bytes_are_memory_and_absurd_sizes_are_not(void **state)
{
    struct counted *counted = *state;
    void *memory = ddisp__allocate(&counted->context, 0);
    assert_non_null(memory);
    ddisp__release(&counted->context, memory);
    ddisp__release(&counted->context, NULL);

    uint32_t calls = counted->calls;
    assert_null(ddisp__allocate(&counted->context, UINT64_MAX));
    assert_null(ddisp__duplicate(&counted->context, "", UINT64_MAX));
    assert_null(ddisp__allocate(NULL, UINT64_MAX));
    assert_int_equal(counted->calls, calls);
}

static void copies_are_terminated(void **state)
{
    struct counted *counted = *state;
    char *copy = ddisp__duplicate(&counted->context, "abcdef", 3);
    assert_string_equal(copy, "abc");
    ddisp__release(&counted->context, copy);
    copy = ddisp__duplicate_string(&counted->context, "");
    assert_string_equal(copy, "");
    ddisp__release(&counted->context, copy);
}

static void array_keeps_items_while_it_grows(void **state)
{
    struct counted *counted = *state;
    ddisp__array array = {.item_size = 12};
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t *item = ddisp__array_push(&counted->context, &array);
        assert_int_equal(item[0] | item[1] | item[2], 0);
        item[0] = i;
        item[2] = ~i;
    }
    assert_int_equal(array.count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        const uint32_t *item = ddisp__array_at(&array, i);
        assert_int_equal(item[0], i);
        assert_int_equal(item[2], ~i);
    }
    ddisp__array_remove(&array, 10);
    assert_int_equal(*(uint32_t *)ddisp__array_at(&array, 10), 999);
    ddisp__array_remove(&array, array.count - 1);
    assert_int_equal(array.count, 998);
    assert_int_equal(*(uint32_t *)ddisp__array_at(&array, 997), 997);
    ddisp__array_clear(&counted->context, &array);
    assert_int_equal(array.count, 0);
    assert_null(array.items);
}

static void array_without_memory_stays_as_it_was(void **state)
{
    struct counted *counted = *state;
    ddisp__array array = {.item_size = 8};
    uint64_t *item = NULL;
    for (uint64_t i = 0; i < 4; i++) {
        item = ddisp__array_push(&counted->context, &array);
        *item = 100 + i;
    }
    counted->fail_at = counted->calls + 1;
    /* Somewhere before 64 items the array has to grow. */
    uint32_t pushed = 4;
    while (pushed < 64 && (item = ddisp__array_push(&counted->context, &array)))
        pushed++;
    assert_null(item);
    assert_int_equal(array.count, pushed);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(*(uint64_t *)ddisp__array_at(&array, i), 100 + i);

    counted->fail_at = UINT32_MAX;
    assert_non_null(ddisp__array_push(&counted->context, &array));
    ddisp__array_clear(&counted->context, &array);
}

/* Values of XXH3_128bits from the reference implementation's specification and command line tool
 * (xxhsum -H2). */
static void hash_is_xxh3_128(void **state)
{
    (void)state;
    ddisp__hash hash = ddisp__hash_bytes("", 0);
    assert_int_equal(hash.high, UINT64_C(0x99aa06d3014798d8));
    assert_int_equal(hash.low, UINT64_C(0x6001c324468d497f));
    hash = ddisp__hash_bytes("abc", 3);
    assert_int_equal(hash.high, UINT64_C(0x06b05ab6733a6185));
    assert_int_equal(hash.low, UINT64_C(0x78af5f94892f3950));
}

static void table_finds_what_was_added(void **state)
{
    struct counted *counted = *state;
    ddisp__table table = {0};
    static uint32_t values[500];
    assert_null(ddisp__table_find(&table, ddisp__hash_bytes("x", 1), "x", 1));
    for (uint32_t i = 0; i < 500; i++)
        assert_true(ddisp__table_add(&counted->context, &table, ddisp__hash_bytes(&i, sizeof i), &i,
                                     sizeof i, &values[i]));
    assert_int_equal(table.count, 500);
    for (uint32_t i = 0; i < 500; i++)
        assert_ptr_equal(ddisp__table_find(&table, ddisp__hash_bytes(&i, sizeof i), &i, sizeof i),
                         &values[i]);
    uint32_t absent = 500;
    assert_null(ddisp__table_find(&table, ddisp__hash_bytes(&absent, sizeof absent), &absent,
                                  sizeof absent));
    assert_int_equal(table.collisions, 0);
    ddisp__table_clear(&counted->context, &table, NULL, NULL);
    assert_int_equal(table.count, 0);
}

static void equal_hashes_with_other_bytes_are_told_apart(void **state)
{
    struct counted *counted = *state;
    ddisp__table table = {0};
    ddisp__hash same = {.low = 7, .high = 9};
    int one, two, three;
    assert_true(ddisp__table_add(&counted->context, &table, same, "one", 3, &one));
    assert_null(ddisp__table_find(&table, same, "two", 3));
    assert_int_equal(table.collisions, 1);
    assert_true(ddisp__table_add(&counted->context, &table, same, "two", 3, &two));
    assert_true(ddisp__table_add(&counted->context, &table, same, "on", 2, &three));
    assert_ptr_equal(ddisp__table_find(&table, same, "one", 3), &one);
    assert_ptr_equal(ddisp__table_find(&table, same, "two", 3), &two);
    assert_ptr_equal(ddisp__table_find(&table, same, "on", 2), &three);
    assert_true(table.collisions > 1);

    /* Half a hash is none. */
    ddisp__hash half = {.low = 7, .high = 8};
    uint64_t collisions = table.collisions;
    assert_null(ddisp__table_find(&table, half, "one", 3));
    assert_int_equal(table.collisions, collisions);
    ddisp__table_clear(&counted->context, &table, NULL, NULL);
}

static void table_copies_its_keys(void **state)
{
    struct counted *counted = *state;
    ddisp__table table = {0};
    char key[] = "key";
    int value;
    ddisp__hash hash = ddisp__hash_bytes(key, 3);
    assert_true(ddisp__table_add(&counted->context, &table, hash, key, 3, &value));
    key[0] = 'x';
    assert_ptr_equal(ddisp__table_find(&table, hash, "key", 3), &value);
    ddisp__table_clear(&counted->context, &table, NULL, NULL);
}

static void table_survives_every_failed_allocation(void **state)
{
    struct counted *counted = *state;
    static uint32_t values[64];
    for (uint32_t fail_at = 1; fail_at < 80; fail_at++) {
        ddisp__table table = {0};
        uint32_t added = 0;
        counted->calls = 0;
        counted->fail_at = fail_at;
        while (added < 64 &&
               ddisp__table_add(&counted->context, &table, ddisp__hash_bytes(&added, sizeof added),
                                &added, sizeof added, &values[added]))
            added++;
        assert_int_equal(table.count, added);
        for (uint32_t i = 0; i < added; i++)
            assert_ptr_equal(
                ddisp__table_find(&table, ddisp__hash_bytes(&i, sizeof i), &i, sizeof i),
                &values[i]);
        ddisp__table_clear(&counted->context, &table, NULL, NULL);
        assert_int_equal(counted->live, 0);
    }
}

static void add_up(void *user, void *value)
{
    *(uint32_t *)user += *(uint32_t *)value;
}

static void clearing_visits_each_value_once(void **state)
{
    struct counted *counted = *state;
    ddisp__table table = {0};
    uint32_t values[5] = {1, 10, 100, 1000, 10000}, sum = 0;
    for (uint32_t i = 0; i < 5; i++)
        assert_true(ddisp__table_add(&counted->context, &table, (ddisp__hash){.low = i & 1}, &i,
                                     sizeof i, &values[i]));
    ddisp__table_clear(&counted->context, &table, add_up, &sum);
    assert_int_equal(sum, 11111);
    ddisp__table_clear(&counted->context, &table, add_up, &sum);
    assert_int_equal(sum, 11111);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_zeroed_whatever_the_allocator_gives),
        TEST(zero_bytes_are_memory_and_absurd_sizes_are_not),
        TEST(copies_are_terminated),
        TEST(array_keeps_items_while_it_grows),
        TEST(array_without_memory_stays_as_it_was),
        TEST(hash_is_xxh3_128),
        TEST(table_finds_what_was_added),
        TEST(equal_hashes_with_other_bytes_are_told_apart),
        TEST(table_copies_its_keys),
        TEST(table_survives_every_failed_allocation),
        TEST(clearing_visits_each_value_once),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
