/*
 * test_cache_damage.c - case 28: entries that are cut off, changed, somebody else's or no files at
 * all. Each is a miss, the result is right, and the entry is repaired.
 */
#include "restart.h"

#include <sys/stat.h>
#include <unistd.h>

/* The damaged entry is a miss, is made anew, and the next restart finds it whole. */
static void repaired(const char *directory, const char *path, const unsigned char *whole,
                     size_t size)
{
    unsigned char now[8192];
    COUNTS(restart(directory, &mul, 10), 0, 1, 1);
    assert_int_equal(get_file(path, now, sizeof now), size);
    assert_memory_equal(now, whole, size);
    COUNTS(restart(directory, &mul, 10), 1, 0, 0);
    assert_int_equal(directory_list(directory, NULL, 0), 1);
}

static void case_28_damaged_entries_are_repaired(void **state)
{
    const char *directory = *state;
    unsigned char whole[8192], damaged[8192 + 1024] = {0};
    char path[512];
    COUNTS(restart(directory, &mul, 10), 0, 1, 0);
    only_entry(directory, path);
    size_t size = get_file(path, whole, sizeof whole);
    const size_t cuts[] = {0, 1, 47, size / 2, size - 1, size + 1024};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        memcpy(damaged, whole, size);
        put_file(path, damaged, cuts[i]);
        repaired(directory, path, whole, size);
    }
    for (size_t at = 0; at < size; at += 97) {
        memcpy(damaged, whole, size);
        damaged[at] ^= 0x40;
        put_file(path, damaged, size);
        repaired(directory, path, whole, size);
    }
    memset(damaged, 0x5A, sizeof damaged);
    put_file(path, damaged, size); /* something else altogether */
    repaired(directory, path, whole, size);
}

static void case_28_other_things_in_the_place_of_an_entry(void **state)
{
    const char *directory = *state;
    unsigned char whole[8192];
    char path[512], aside[512];
    COUNTS(restart(directory, &mul, 10), 0, 1, 0);
    only_entry(directory, path);
    size_t size = get_file(path, whole, sizeof whole);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    repaired(directory, path, whole, size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* an open that waits for a writer */
    repaired(directory, path, whole, size);
    (void)snprintf(aside, sizeof aside, "%s-aside", directory);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0); /* somebody else's file */
    repaired(directory, path, whole, size);
    assert_int_equal(unlink(aside), 0);
}

/* An entry that is another key's: what a collision of two hashes would look like. */
static void case_28_entry_of_another_key(void **state)
{
    static const struct recipe other = {.source = "entry forward: $0 $1 + >2\n",
                                        .forward_only = true};
    const char *directory = *state;
    char path[512], names[4096], second[512];
    unsigned char whole[8192];
    COUNTS(restart(directory, &mul, 10), 0, 1, 0);
    only_entry(directory, path);
    size_t size = get_file(path, whole, sizeof whole);
    COUNTS(restart(directory, &other, 7), 0, 1, 0);
    assert_int_equal(directory_list(directory, names, sizeof names), 2);
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
        (void)snprintf(second, sizeof second, "%s/%s", directory, name);
        if (strcmp(second, path) != 0)
            break;
    }
    put_file(second, whole, size);
    COUNTS(restart(directory, &other, 7), 0, 1, 1);
    COUNTS(restart(directory, &other, 7), 1, 0, 0);
    COUNTS(restart(directory, &mul, 10), 1, 0, 0);
}

/* The library finds nothing wrong, but the backend does not take it any more. */
static void artifact_that_the_backend_refuses_is_made_anew(void **state)
{
    COUNTS(restart(*state, &mul, 10), 0, 1, 0);
    control()->refuse_artifacts = true;
    ddisp_kernel_statistics statistics = restart(*state, &mul, 10);
    assert_int_equal(statistics.variants_built, 1);
    assert_int_equal(statistics.artifacts_read, 0);
    assert_int_equal(control()->refusals, 2); /* that from disk, then the new one */
    control()->refuse_artifacts = false;
    COUNTS(restart(*state, &mul, 10), 1, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, restart_fresh, restart_gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_28_damaged_entries_are_repaired),
        TEST(case_28_other_things_in_the_place_of_an_entry),
        TEST(case_28_entry_of_another_key),
        TEST(artifact_that_the_backend_refuses_is_made_anew),
    };
    return cmocka_run_group_tests_name("cache_damage", tests, NULL, NULL);
}
