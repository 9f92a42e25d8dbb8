/*
 * restart.h - what tests of the kernel cache on disk share: a new context on the same directory,
 * which is a restart as far as the cache is concerned, and what it counted.
 */
#ifndef DDISP_TESTS_RESTART_H
#define DDISP_TESTS_RESTART_H

#include "compiler_fixture.h"

/** y = a b; run gives a = 5 and b = 2, so that y is 10. */
static const struct recipe mul = {.source = SOURCE_MUL};

/** Setup and teardown of a test: *state is a new directory, which is removed. */
int restart_fresh(void **state);
int restart_gone(void **state);
/** One launch of y = f(a, b) for a = 5, b = 2, which must be `expected`; the kernel's counters. */
ddisp_kernel_statistics run(struct setting *s, const struct recipe *recipe, float expected);
/** The same in a new context on the directory. */
ddisp_kernel_statistics restart(const char *directory, const struct recipe *recipe, float expected);
/** Path of the only entry. */
void only_entry(const char *directory, char path[512]);
void put_file(const char *path, const void *bytes, size_t size);
size_t get_file(const char *path, unsigned char *bytes, size_t capacity);
/** Writes a text into a file of a directory. */
void file_of(const char *directory, const char *name, const char *text);

#define COUNTS(statistics, read, made, repaired)                                                   \
    do {                                                                                           \
        ddisp_kernel_statistics counts_statistics = (statistics);                                  \
        assert_int_equal(counts_statistics.artifacts_read, (read));                                \
        assert_int_equal(counts_statistics.artifacts_made, (made));                                \
        assert_int_equal(counts_statistics.artifacts_repaired, (repaired));                        \
    } while (0)

#endif
