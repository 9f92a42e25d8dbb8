/*
 * test_cache_entry.c - an entry of the kernel cache as bytes: taken whole, refused when anything at
 * all is wrong with it. The expected bytes were put together by hand from the layout that
 * docs/kernel-cache.md gives.
 */
#include "../unit/check.h"
#include "cache_file.h"

#define PAYLOAD 100u

/* Writes an entry of a key into file; returns its size. */
static uint64_t make(const char *key, uint8_t file[512])
{
    uint8_t payload[PAYLOAD];
    for (uint32_t i = 0; i < PAYLOAD; i++)
        payload[i] = (uint8_t)(i * 7);
    ddisp__cache_head(key, strlen(key), payload, PAYLOAD, file);
    memcpy(file + DDISP__CACHE_HEAD, key, strlen(key));
    memcpy(file + DDISP__CACHE_HEAD + strlen(key), payload, PAYLOAD);
    return DDISP__CACHE_HEAD + strlen(key) + PAYLOAD;
}

static bool parse(const uint8_t *file, uint64_t size, const char *key, const char **out_why)
{
    uint64_t offset = 0, length = 0;
    bool whole = ddisp__cache_parse(file, size, key, strlen(key), &offset, &length, out_why);
    if (whole) {
        assert_int_equal(offset, DDISP__CACHE_HEAD + strlen(key));
        assert_int_equal(length, size - offset);
    }
    return whole;
}

static void head_has_the_documented_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[32] = {'D', 'D', 'I', 'S', 'P', 'K', 'C', 0, 1, 0, 0,
                                         0,   0,   0,   0,   0,   3,   0,   0, 0, 0, 0,
                                         0,   0,   100, 0,   0,   0,   0,   0, 0, 0};
    uint8_t file[512];
    assert_int_equal(make("key", file), 48 + 3 + 100);
    assert_memory_equal(file, expected, sizeof expected);
    char name[DDISP__CACHE_NAME];
    ddisp__cache_name("", 0, name); /* XXH3-128 of nothing, as published */
    assert_string_equal(name, "99aa06d3014798d86001c324468d497f.ddisp");
}

static void whole_entry_is_taken(void **state)
{
    (void)state;
    uint8_t file[512];
    const char *why = NULL;
    uint64_t size = make("key", file);
    assert_true(parse(file, size, "key", &why));
    assert_string_equal(why, "");
    size = make("", file);
    assert_true(parse(file, size, "", &why));
}

static void every_other_length_is_refused(void **state)
{
    (void)state;
    uint8_t file[512] = {0};
    const char *why;
    uint64_t size = make("key", file);
    for (uint64_t length = 0; length < sizeof file; length++)
        assert_int_equal(parse(file, length, "key", &why), length == size);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    uint8_t file[512];
    const char *why;
    uint64_t size = make("key", file);
    for (uint64_t bit = 0; bit < 8 * size; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(parse(file, size, "key", &why));
        assert_true(strlen(why) > 0);
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(parse(file, size, "key", &why));
}

/* A file under the name of another key, as when two keys have one hash. */
static void colliding_key_is_refused(void **state)
{
    (void)state;
    static const char *const others[] = {"kez", "ke", "keys", "", "KEY"};
    uint8_t file[512];
    const char *why;
    uint64_t size = make("key", file);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(parse(file, size, others[i], &why));
        assert_string_equal(why, "it is that of another key");
    }
}

static void lengths_that_overflow_are_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[][2] = {{UINT64_MAX, 0},
                                          {UINT64_MAX - 47, 151 - 48 + 48},
                                          {0, UINT64_MAX},
                                          {UINT64_MAX, UINT64_MAX},
                                          {UINT64_C(1) << 63, UINT64_C(1) << 63}};
    uint8_t file[512];
    const char *why;
    uint64_t size = make("key", file);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(file + 16, lengths[i], 16);
        assert_false(parse(file, size, "key", &why));
        assert_string_equal(why, "its length is wrong");
    }
}

static void future_version_is_refused(void **state)
{
    (void)state;
    uint8_t file[512];
    const char *why;
    uint64_t size = make("key", file);
    file[8] = 2;
    assert_false(parse(file, size, "key", &why));
    assert_string_equal(why, "it is of another version");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_has_the_documented_bytes),
        cmocka_unit_test(whole_entry_is_taken),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(colliding_key_is_refused),
        cmocka_unit_test(lengths_that_overflow_are_refused),
        cmocka_unit_test(future_version_is_refused),
    };
    return cmocka_run_group_tests_name("cache_entry", tests, NULL, NULL);
}
