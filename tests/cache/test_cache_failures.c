/*
 * test_cache_failures.c - case 33: a cache that cannot be read, written or found. The work goes on,
 * and one warning per context names the path and the setting.
 */
#include "compiler_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int fresh(void **state)
{
    static char directory[256];
    control_reset();
    directory_make(directory);
    *state = directory;
    return 0;
}

static int gone(void **state)
{
    (void)chmod(*state, 0700);
    directory_remove(*state);
    return 0;
}

/* y = x + k for a few k, in one context. */
static void work(struct setting *s, uint32_t first, uint32_t count)
{
    for (uint32_t k = first; k < first + count; k++) {
        char source[64];
        struct recipe recipe = {.source = source, .forward_only = true};
        (void)snprintf(source, sizeof source, "entry forward: $0 %u + >2\n", k);
        ddisp_kernel *kernel = kernel_make(s, &recipe);
        ddisp_tensor *x = VECTOR(s, 0, 1), *y = VECTOR(s, 0, 0);
        const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
        assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
        EXPECT(y, 1.0f + (float)k);
        ddisp_tensor_release(x);
        ddisp_tensor_release(y);
        ddisp_kernel_release(kernel);
    }
}

/* The one warning names the path, what is wrong, and what to do. */
static void warned_once(const struct setting *s, const char *path, const char *reason)
{
    assert_int_equal(s->warnings, 1);
    if (!strstr(s->warning, path) || !strstr(s->warning, reason) ||
        !strstr(s->warning, "DDISP_CACHE_DIR") || !strstr(s->warning, "DDISP_CACHE=0"))
        fail_msg("'%s', '%s' or the settings are not in: %s", path, reason, s->warning);
}

/* What the worker prints; its exit status. */
static int worker(const char *directory, const char *arguments, char output[4096])
{
    char command[1024];
    (void)snprintf(command, sizeof command, WORKER " %s %s 2>&1", directory, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, 4095, pipe);
    output[length] = '\0';
    int status = pclose(pipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return 77;
    if (status != 0)
        fail_msg("%s: wait status 0x%x: %s", arguments, status, output);
    return 0;
}

static void case_33_path_is_a_file(void **state)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/file", (char *)*state);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    struct setting *s = setting_open(path);
    work(s, 0, 5);
    warned_once(s, path, "Not a directory");
    setting_close(s, false);
    (void)snprintf(path, sizeof path, "%s/file/below", (char *)*state);
    s = setting_open(path);
    work(s, 0, 5);
    warned_once(s, path, "Not a directory");
    setting_close(s, false);
}

static void case_33_no_home(void **state)
{
    static const char *const names[] = {"HOME", "XDG_CACHE_HOME", "DDISP_CACHE_DIR"};
    char *kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    struct setting *s = setting_open("");
    work(s, 0, 5);
    warned_once(s, "", "HOME");
    setting_close(s, false);
    for (int i = 0; i < 3; i++)
        if (kept[i]) {
            setenv(names[i], kept[i], 1);
            free(kept[i]);
        }
    (void)state;
}

static void case_33_directory_that_may_not_be_written(void **state)
{
    char output[4096];
    assert_int_equal(chmod(*state, 0555), 0);
    if (worker(*state, "nobody", output) == 77) {
        print_message("skipped: no other user than root may be taken\n");
        skip();
    }
    assert_int_equal(strncmp(output, "40 0 40 0 1\n", 12), 0);
    assert_non_null(strstr(output, *state));
    assert_non_null(strstr(output, "DDISP_CACHE_DIR"));
    assert_int_equal(directory_list(*state, NULL, 0), 0);
}

/* Others could put code there that this user then runs. */
static void directory_that_everybody_may_write_is_not_used(void **state)
{
    assert_int_equal(chmod(*state, 0777), 0);
    struct setting *s = setting_open(*state);
    work(s, 0, 5);
    warned_once(s, *state, "Operation not permitted");
    setting_close(s, false);
    assert_int_equal(directory_list(*state, NULL, 0), 0);
}

static void case_33_full_file_system(void **state)
{
    char output[4096];
    if (worker(*state, "full 0", output) != 77) {
        /* 64 KiB hold some entries; the first that finds no room is the last that is tried. */
        assert_int_equal(strncmp(output, "40 0 40 0 1\n", 12), 0);
        assert_non_null(strstr(output, "No space left on device"));
    }
    assert_int_equal(worker(*state, "full 1", output), 0);
    assert_int_equal(strncmp(output, "40 0 40 0 1\n", 12), 0);
    assert_non_null(strstr(output, "File too large"));
    assert_int_equal(directory_list(*state, NULL, 0), 0); /* no half of an entry */
}

static void case_33_directory_that_goes_away(void **state)
{
    struct setting *s = setting_open(*state);
    work(s, 0, 3);
    assert_int_equal(directory_list(*state, NULL, 0), 3);
    directory_remove(*state);
    work(s, 0, 5);
    assert_int_equal(directory_list(*state, NULL, 0), 5); /* made again */
    assert_int_equal(s->warnings, 0);
    directory_remove(*state);
    FILE *file = fopen(*state, "we"); /* and now something else has its name */
    assert_non_null(file);
    fclose(file);
    work(s, 0, 5);
    warned_once(s, *state, "Not a directory");
    setting_close(s, false);
}

/* Each context says it once, however often it is asked, and does not try to write again. */
static void no_storm_of_warnings_or_tries(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct setting *s = setting_open(*state);
        work(s, 0, 2);
        directory_remove(*state);
        FILE *file = fopen(*state, "we");
        assert_non_null(file);
        fclose(file);
        work(s, 10, 30);
        assert_int_equal(s->warnings, 1);
        assert_int_equal(remove(*state), 0);
        work(s, 50, 5); /* the way is free, but it has given up */
        assert_int_equal(access(*state, F_OK), -1);
        assert_int_equal(s->warnings, 1);
        setting_close(s, false);
    }
}

/* What a writer that was killed has left goes away when the next one comes. */
static void half_an_entry_of_a_killed_writer_is_swept(void **state)
{
    char command[1024], names[4096];
    (void)snprintf(command, sizeof command, WORKER " %s leave >/dev/null 2>&1", (char *)*state);
    int status = system(command); /* NOLINT: a fixed command */
    assert_true(status != 0);
    assert_int_equal(directory_list(*state, names, sizeof names), 2);
    assert_non_null(strstr(names, "unfinished-"));
    struct setting *s = setting_open(*state);
    work(s, 1, 2);
    assert_int_equal(s->warnings, 0);
    setting_close(s, false);
    assert_int_equal(directory_list(*state, names, sizeof names), 2);
    assert_null(strstr(names, "unfinished-"));
    assert_int_equal(control()->compiles, 1); /* entry 1 was whole */
}

/* Each allocation of a launch fails in turn, with an empty cache and with a full one: the launch
 * says so or does without, and the next one is right. */
static void every_failed_allocation_is_survived(void **state)
{
    uint32_t failed = 0;
    for (int warm = 0; warm < 2; warm++) {
        bool through = false;
        for (uint32_t at = 1; !through; at++) {
            if (!warm)
                directory_remove(*state);
            struct setting *s = setting_open(*state);
            struct recipe recipe = {.source = "entry forward: $0 1 + >2\n", .forward_only = true};
            ddisp_kernel *kernel = kernel_make(s, &recipe);
            ddisp_tensor *x = VECTOR(s, 0, 1), *y = VECTOR(s, 0, 0);
            const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
            s->fail_at = s->calls + at;
            ddisp_status status = ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL);
            through = s->calls < s->fail_at;
            s->fail_at = 0;
            assert_true(status == DDISP_STATUS_OK || status == DDISP_STATUS_OUT_OF_MEMORY);
            failed += status != DDISP_STATUS_OK;
            if (status)
                assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
            EXPECT(y, 2);
            assert_int_equal(s->warnings, 0);
            ddisp_tensor_release(x);
            ddisp_tensor_release(y);
            ddisp_kernel_release(kernel);
            setting_close(s, false);
        }
    }
    assert_true(failed >= 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_33_path_is_a_file),
        TEST(case_33_no_home),
        TEST(case_33_directory_that_may_not_be_written),
        TEST(directory_that_everybody_may_write_is_not_used),
        TEST(case_33_full_file_system),
        TEST(case_33_directory_that_goes_away),
        TEST(no_storm_of_warnings_or_tries),
        TEST(half_an_entry_of_a_killed_writer_is_swept),
        TEST(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("cache_failures", tests, NULL, NULL);
}
