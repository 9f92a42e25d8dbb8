/*
 * test_cache_processes.c - cases 29 and 31: many processes on one directory, some of them killed at
 * any moment. All results are right, a later process compiles nothing, and in the end the directory
 * is that of one process that was left in peace. DDISP_TEST_ROUNDS makes it longer.
 */
#include "compiler_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 16

static char directory[256];

static int fresh(void **state)
{
    (void)state;
    directory_make(directory);
    return 0;
}

static int gone(void **state)
{
    (void)state;
    directory_remove(directory);
    return 0;
}

static uint32_t rounds(void)
{
    const char *text = getenv("DDISP_TEST_ROUNDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 2;
}

static pid_t start(const char *place, uint32_t seed, uint32_t turns)
{
    char seed_text[16], turns_text[16];
    (void)snprintf(seed_text, sizeof seed_text, "%u", seed);
    (void)snprintf(turns_text, sizeof turns_text, "%u", turns);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)freopen("/dev/null", "w", stdout);
        execl(WORKER, WORKER, place, "many", seed_text, turns_text, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void pause_us(uint32_t us)
{
    struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};
    (void)nanosleep(&time, NULL);
}

/* The directory as one undisturbed process leaves it. */
static void expected_listing(char *names, size_t capacity)
{
    char place[256];
    int status;
    directory_make(place);
    assert_int_equal(waitpid(start(place, 1, 1), &status, 0) > 0, 1);
    assert_int_equal(status, 0);
    assert_int_equal(directory_list(place, names, capacity), 64);
    directory_remove(place);
}

/* One more process finds all 64 entries whole, and sweeps what is left over. */
static void directory_is_as_from_one_process(void)
{
    char names[8192], expected[8192], command[600], line[64] = "";
    expected_listing(expected, sizeof expected);
    (void)snprintf(command, sizeof command, WORKER " %s many 99 1", directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(line, "0 64 0 0 0\n");
    assert_int_equal(directory_list(directory, names, sizeof names), 64);
    assert_string_equal(names, expected);
}

static void case_29_many_processes_fill_one_directory(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    for (uint32_t i = 0; i < PROCESSES; i++)
        children[i] = start(directory, i, rounds());
    for (uint32_t i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    directory_is_as_from_one_process();
}

static void case_29_processes_are_killed_at_any_moment(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    uint32_t seed = 12345, killed = 0;
    for (uint32_t turn = 0; turn < rounds(); turn++) {
        for (uint32_t i = 0; i < PROCESSES; i++)
            children[i] = start(directory, turn * PROCESSES + i, 2);
        for (uint32_t i = 0; i < PROCESSES; i++) {
            seed = seed * 1664525u + 1013904223u;
            pause_us((seed >> 16) % 6000);
            if (i % 4)
                (void)kill(children[i], SIGKILL);
        }
        for (uint32_t i = 0; i < PROCESSES; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        }
    }
    assert_true(killed > 0);
    directory_is_as_from_one_process();
}

static void case_31_second_process_compiles_nothing(void **state)
{
    (void)state;
    int status;
    assert_true(waitpid(start(directory, 5, 1), &status, 0) > 0);
    assert_int_equal(status, 0);
    directory_is_as_from_one_process();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_29_many_processes_fill_one_directory),
        TEST(case_29_processes_are_killed_at_any_moment),
        TEST(case_31_second_process_compiles_nothing),
    };
    return cmocka_run_group_tests_name("cache_processes", tests, NULL, NULL);
}
