/*
 * test_shutdown.c - case 47: programs end well whatever they did not give back, or gave back late.
 * SHUTDOWN_PROGRAM and RELOAD_PROGRAM are shutdown.c and reload.c; the second is there when the
 * library, CORE_LIBRARY, is a shared one. The toy is run often; drivers of real devices take their
 * time, so that a few rounds have to do.
 */
#include "check.h"

#include <sys/wait.h>

/* How a program is run, and how often. cmocka prints `name` after the test, so that the reason of a
 * skip can be added to it. */
struct way {
    char name[128];
    const char *command;
    int rounds;
};

static struct way ways[] = {
    {"case_47a_toy_exit_without_release", SHUTDOWN_PROGRAM " exit toy", 50},
    {"case_47b_toy_release_at_exit", SHUTDOWN_PROGRAM " atexit toy", 50},
    {"case_47b_toy_release_in_a_destructor", SHUTDOWN_PROGRAM " destructor toy", 50},
    {"case_47a_host_exit_without_release", SHUTDOWN_PROGRAM " exit host", 50},
    {"case_47b_host_release_at_exit", SHUTDOWN_PROGRAM " atexit host", 50},
    {"case_47b_host_release_in_a_destructor", SHUTDOWN_PROGRAM " destructor host", 50},
    {"case_47a_vulkan_exit_without_release", SHUTDOWN_PROGRAM " exit vulkan", 5},
    {"case_47b_vulkan_release_at_exit", SHUTDOWN_PROGRAM " atexit vulkan", 5},
    {"case_47b_vulkan_release_in_a_destructor", SHUTDOWN_PROGRAM " destructor vulkan", 5},
    {"case_47a_cuda_exit_without_release", SHUTDOWN_PROGRAM " exit cuda", 5},
    {"case_47b_cuda_release_at_exit", SHUTDOWN_PROGRAM " atexit cuda", 5},
    {"case_47b_cuda_release_in_a_destructor", SHUTDOWN_PROGRAM " destructor cuda", 5},
#ifdef RELOAD_PROGRAM
    {"case_47d_library_is_loaded_and_unloaded", RELOAD_PROGRAM " " CORE_LIBRARY " 100 toy", 1},
#endif
};

#define WAY_COUNT (sizeof ways / sizeof ways[0])

/* Each round has to return 0 and to print nothing at all. */
static void program_ends_well(void **state)
{
    struct way *way = *state;
    char command[1024], output[4096];
    snprintf(command, sizeof command, "%s 2>&1", way->command);
    for (int i = 0; i < way->rounds; i++) {
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        size_t length = fread(output, 1, sizeof output - 1, pipe);
        output[length] = '\0';
        int status = pclose(pipe);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77 && !strstr(way->command, " toy")) {
            size_t end = strlen(way->name);
            snprintf(way->name + end, sizeof way->name - end, " # SKIP no such device: %s",
                     strrchr(way->command, ' ') + 1);
            return;
        }
        if (status != 0 || length != 0)
            fail_msg("round %d of %s: wait status 0x%x: %s", i, way->command, status, output);
    }
}

int main(void)
{
    struct CMUnitTest tests[WAY_COUNT];
    memset(tests, 0, sizeof tests);
    for (size_t i = 0; i < WAY_COUNT; i++) {
        tests[i].name = ways[i].name;
        tests[i].test_func = program_ends_well;
        tests[i].initial_state = &ways[i];
    }
    return cmocka_run_group_tests_name("shutdown", tests, NULL, NULL);
}
