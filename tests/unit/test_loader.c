/*
 * test_loader.c - which plugins are found, which are refused, and what is said about them.
 * TOY_DIRECTORY and BROKEN_DIRECTORY hold the plugins of tests/plugins.
 *
 * Started as `test_loader --list`, the program prints the backends it finds and ends; the tests of
 * the search order start copies of it so in folders of their own.
 */
#include "check.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static ddisp_context *create(const char *path, const char *backends)
{
    ddisp_context *context = NULL;
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = sizeof desc;
    desc.log_level = DDISP_LOG_LEVEL_NONE;
    desc.backend_path = path;
    desc.backends = backends;
    assert_ok(ddisp_context_create(&desc, &context));
    return context;
}

/* The k-th candidate of this name. */
static ddisp_backend_info find(ddisp_context *context, const char *name, uint32_t k)
{
    uint32_t count;
    ddisp_backend_info info = {.size = sizeof info};
    assert_ok(ddisp_backend_count(context, &count));
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(ddisp_backend_get_info(context, i, &info));
        if (!strcmp(info.name, name) && k-- == 0)
            return info;
    }
    fail_msg("no candidate '%s' among %u", name, count);
    return info;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("'%s' is not in: %s", (part), (text));                                        \
    } while (0)

/* ---- plugins that do not fit */

static void case_51_plugins_that_do_not_fit_are_refused_with_both_versions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ddisp_status status;
        uint32_t abi;
        const char *parts[3];
    } cases[] = {
        {"major",
         DDISP_STATUS_INCOMPATIBLE,
         0x10001,
         {"plugin ABI 1.1", "library 0.1.0 takes 0.0 to 0.1", "ddisp-major.so"}},
        {"minor",
         DDISP_STATUS_INCOMPATIBLE,
         2,
         {"plugin ABI 0.2", "takes 0.0 to 0.1", "ddisp-minor.so"}},
        {"size", DDISP_STATUS_INCOMPATIBLE, 1, {"has 224 bytes", "needs 232", "ddisp-size.so"}},
        {"symbol",
         DDISP_STATUS_INCOMPATIBLE,
         0,
         {"does not export ddisp_symbol_backend_query", "ddisp-symbol.so", ""}},
        {"other_name",
         DDISP_STATUS_INCOMPATIBLE,
         1,
         {"calls itself 'somebody'", "'other_name'", ""}},
        {"function", DDISP_STATUS_INCOMPATIBLE, 1, {"'stream_query' of its table is NULL", "", ""}},
        {"query",
         DDISP_STATUS_INCOMPATIBLE,
         0,
         {"refused plugin ABI 0.1", "wants plugin ABI 9.9", ""}},
        {"corrupt", DDISP_STATUS_INCOMPATIBLE, 0, {"ddisp-corrupt.so", "", ""}},
        {"open", DDISP_STATUS_BACKEND_UNAVAILABLE, 1, {"libbroken.so.1 is a stub library", "", ""}},
        {"open_silent", DDISP_STATUS_BACKEND_UNAVAILABLE, 1, {"no driver or no device", "", ""}},
        {"fits", DDISP_STATUS_OK, 1, {"", "", ""}},
    };
    ddisp_context *context =
        create(BROKEN_DIRECTORY, "major,minor,size,symbol,other_name,function,query,corrupt,"
                                 "truncated,open,open_silent,fits");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ddisp_backend_info info = find(context, cases[i].name, 0);
        assert_string_equal(ddisp_status_name(info.status), ddisp_status_name(cases[i].status));
        assert_int_equal(info.abi_version, cases[i].abi);
        assert_int_equal(info.device_count, 0);
        assert_contains(info.path, BROKEN_DIRECTORY);
        for (int k = 0; k < 3; k++)
            assert_contains(info.reason, cases[i].parts[k]);
        assert_int_equal(info.reason[0] == '\0', cases[i].status == DDISP_STATUS_OK);
    }
    ddisp_context_release(context);
}

static void case_50_reason_of_a_missing_driver_reaches_the_caller(void **state)
{
    (void)state;
    ddisp_device *device = NULL;
    uint32_t count = 99;
    ddisp_context *context = create(BROKEN_DIRECTORY, "open,corrupt,fits");
    assert_ok(ddisp_device_count(context, &count));
    assert_int_equal(count, 0);
    assert_fails(DDISP_STATUS_BACKEND_UNAVAILABLE,
                 "backend 'open' cannot be used: libbroken.so.1 is a stub library",
                 ddisp_device_open(context, "open", &device));
    assert_fails(DDISP_STATUS_BACKEND_UNAVAILABLE, "backend 'corrupt' cannot be used",
                 ddisp_device_open(context, "corrupt:0", &device));
    assert_fails(DDISP_STATUS_NOT_FOUND, "there is no device fits:0; backend 'fits' has 0 devices",
                 ddisp_device_open(context, "fits", &device));
    assert_fails(DDISP_STATUS_NOT_FOUND, "open: libbroken.so.1 is a stub library",
                 ddisp_device_open(context, "auto", &device));
    assert_error_says("fits: it has no devices");
    assert_null(device);
    ddisp_context_release(context);
}

static void broken_plugins_do_not_keep_others_from_working(void **state)
{
    (void)state;
    ddisp_device *device;
    setenv("DDISP_BACKEND_PATH", BROKEN_DIRECTORY ":" TOY_DIRECTORY, 1);
    ddisp_context *context = create(NULL, "major, corrupt ,open, toy");
    setenv("DDISP_BACKEND_PATH", "", 1);
    ddisp_backend_info info = find(context, "toy", 0);
    assert_int_equal(info.status, DDISP_STATUS_OK);
    assert_int_equal(info.device_count, 2);
    assert_int_equal(info.abi_version, 1);
    assert_string_equal(info.version, "1.0");
    assert_string_equal(info.path, TOY_DIRECTORY "/ddisp-toy.so");
    assert_string_equal(info.reason, "");
    assert_ok(ddisp_device_open(context, "auto", &device));
    ddisp_device_release(device);
    ddisp_context_release(context);
}

/* ---- a folder of this test's own */

static char folder[64];

static void path_in(char *path, size_t capacity, const char *name)
{
    assert_in_range(snprintf(path, capacity, "%s/%s", folder, name), 1, capacity - 1);
}

static void make_directory(const char *name)
{
    char path[PATH_MAX];
    path_in(path, sizeof path, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_link(const char *target, const char *name)
{
    char path[PATH_MAX];
    path_in(path, sizeof path, name);
    assert_int_equal(symlink(target, path), 0);
}

static void copy_file(const char *from, const char *name)
{
    char path[PATH_MAX], block[65536];
    path_in(path, sizeof path, name);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t count; (count = fread(block, 1, sizeof block, in)) > 0;)
        assert_int_equal(fwrite(block, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/ddisp-test-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void only_plugins_with_proper_names_are_opened(void **state)
{
    (void)state;
    const char *toy = TOY_DIRECTORY "/ddisp-toy.so";
    make_link(toy, "ddisp-toy.so");
    make_link(toy, "libddisp-toy.so");
    make_link(toy, "ddisp-toy.so.1");
    make_link(toy, "ddisp-.so");
    make_link(toy, "ddisp-TOY.so");
    make_link(toy, "ddisp-to-y.so");
    make_link(toy, "ddisp-abcdefghijklmnopqrstu.so");
    make_link("/nowhere", "ddisp-dangling.so");
    make_link("/dev/null", "ddisp-null.so");
    make_directory("ddisp-folder.so");

    ddisp_context *context = create(folder, NULL);
    assert_int_equal(find(context, "toy", 0).status, DDISP_STATUS_OK);
    assert_int_equal(find(context, "", 0).status, DDISP_STATUS_INVALID_ARGUMENT);
    assert_contains(find(context, "TOY", 0).reason, "1 to 20 of a-z, 0-9 and _");
    assert_int_equal(find(context, "to-y", 0).status, DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(find(context, "abcdefghijklmnopqrstu", 0).status,
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_contains(find(context, "dangling", 0).reason, "neither a regular file nor a link");
    assert_contains(find(context, "null", 0).reason, "neither a regular file nor a link");

    uint32_t count, here = 0;
    assert_ok(ddisp_backend_count(context, &count));
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = {.size = sizeof info};
        assert_ok(ddisp_backend_get_info(context, i, &info));
        here += !strncmp(info.path, folder, strlen(folder));
    }
    assert_int_equal(here, 7); /* neither the folder nor libddisp-toy.so nor ddisp-toy.so.1 */
    ddisp_context_release(context);
}

/* The system's loader would die of a bus error. */
static void truncated_plugins_are_refused(void **state)
{
    (void)state;
    static char whole[1 << 20]; /* sanitizers make it large */
    char path[PATH_MAX];
    FILE *file = fopen(TOY_DIRECTORY "/ddisp-toy.so", "rb");
    assert_non_null(file);
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_in_range(size, 5000, sizeof whole - 1);
    static const size_t lengths[] = {0, 3, 20, 63, 64, 100, 500, 1500, 4096, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "ddisp-cut%zu.so", lengths[i]);
        path_in(path, sizeof path, name);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(whole, 1, lengths[i], file), lengths[i]);
        assert_int_equal(fclose(file), 0);
    }
    ddisp_context *context = create(folder, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "cut%zu", lengths[i]);
        ddisp_backend_info info = find(context, name, 0);
        assert_int_equal(info.status, DDISP_STATUS_INCOMPATIBLE);
        assert_contains(info.reason, folder);
    }
    assert_contains(find(context, "cut1500", 0).reason, "is cut off: it has 1500 bytes");
    ddisp_context_release(context);
}

static void first_plugin_of_a_name_wins_unless_it_is_broken(void **state)
{
    (void)state;
    make_directory("first");
    make_directory("second");
    make_link(TOY_DIRECTORY "/ddisp-toy.so", "first/ddisp-toy.so");
    make_link(BROKEN_DIRECTORY "/ddisp-corrupt.so", "first/ddisp-fits.so");
    make_link(BROKEN_DIRECTORY "/ddisp-fits.so", "second/ddisp-fits.so");
    make_link(TOY_DIRECTORY "/ddisp-toy.so", "second/ddisp-toy.so");
    char first[PATH_MAX], second[PATH_MAX];
    path_in(first, sizeof first, "first");
    path_in(second, sizeof second, "second");

    setenv("DDISP_BACKEND_PATH", second, 1);
    ddisp_context *context = create(first, "toy,fits");
    setenv("DDISP_BACKEND_PATH", "", 1);
    ddisp_backend_info info = find(context, "toy", 0);
    assert_int_equal(info.status, DDISP_STATUS_OK);
    assert_contains(info.path, "/first/");
    info = find(context, "toy", 1);
    assert_int_equal(info.status, DDISP_STATUS_BACKEND_UNAVAILABLE);
    assert_contains(info.path, "/second/");
    assert_contains(info.reason, "not tried: toy was already loaded from ");
    assert_contains(info.reason, "/first/ddisp-toy.so");
    assert_int_equal(find(context, "fits", 0).status, DDISP_STATUS_INCOMPATIBLE);
    assert_int_equal(find(context, "fits", 1).status, DDISP_STATUS_OK);
    ddisp_context_release(context);
}

static void only_wanted_backends_are_opened(void **state)
{
    (void)state;
    ddisp_context *context = create(TOY_DIRECTORY, "fits, cuad");
    ddisp_backend_info info = find(context, "toy", 0);
    assert_int_equal(info.status, DDISP_STATUS_BACKEND_UNAVAILABLE);
    assert_int_equal(info.abi_version, 0);
    assert_contains(info.reason, "not tried: desc.backends asks for 'fits, cuad' only");
    info = find(context, "cuad", 0);
    assert_int_equal(info.status, DDISP_STATUS_NOT_FOUND);
    assert_string_equal(info.path, "");
    assert_contains(info.reason, "desc.backends asks for it, but no directory");
    ddisp_context_release(context);

    setenv("DDISP_BACKENDS", "fits", 1);
    context = create(TOY_DIRECTORY, NULL);
    assert_contains(find(context, "toy", 0).reason, "DDISP_BACKENDS asks for 'fits' only");
    ddisp_context_release(context);
    context = create(TOY_DIRECTORY, "toy"); /* the description goes before the environment */
    assert_int_equal(find(context, "toy", 0).status, DDISP_STATUS_OK);
    ddisp_context_release(context);
    setenv("DDISP_BACKENDS", "", 1);
}

static void relative_directories_are_refused_and_noted(void **state)
{
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(TOY_DIRECTORY), 0);
    setenv("DDISP_BACKEND_PATH", ".:::plugins", 1);
    ddisp_context *context = create(NULL, "toy");
    setenv("DDISP_BACKEND_PATH", "", 1);
    assert_int_equal(chdir(before), 0);
    ddisp_backend_info info = find(context, "", 0);
    assert_int_equal(info.status, DDISP_STATUS_INVALID_ARGUMENT);
    assert_string_equal(info.path, ".");
    assert_contains(info.reason, "'.' is not an absolute directory");
    assert_string_equal(find(context, "", 1).path, "plugins");
    /* The plugin lies in the current directory, which is never searched. */
    assert_int_equal(find(context, "toy", 0).status, DDISP_STATUS_NOT_FOUND);
    ddisp_context_release(context);
}

static void directories_that_do_not_exist_are_no_error(void **state)
{
    (void)state;
    setenv("DDISP_BACKEND_PATH", "/nowhere/at/all", 1);
    ddisp_context *context = create("/nowhere/else", "toy");
    setenv("DDISP_BACKEND_PATH", "", 1);
    assert_int_equal(find(context, "toy", 0).status, DDISP_STATUS_NOT_FOUND);
    ddisp_context_release(context);
}

/* ---- search beside the library; the core is linked into this program */

static int list(void)
{
    uint32_t count;
    ddisp_context *context;
    if (ddisp_context_create(NULL, &context) || ddisp_backend_count(context, &count))
        return 1;
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = {.size = sizeof info};
        if (ddisp_backend_get_info(context, i, &info))
            return 1;
        printf("%s %s %s\n", info.name, info.status ? "refused" : "loaded", info.path);
    }
    ddisp_context_release(context);
    return 0;
}

/* What a copy of this program lists when it is started by `command`. */
static void listing(const char *directory, const char *command, char *text, size_t capacity)
{
    char line[PATH_MAX];
    snprintf(line, sizeof line, "cd %s && DDISP_BACKENDS=toy %s --list 2>/dev/null", directory,
             command);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t length = fread(text, 1, capacity - 1, pipe);
    text[length] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

static void plugins_beside_the_library_are_found(void **state)
{
    (void)state;
    char text[8192], expected[PATH_MAX], program[PATH_MAX];
    make_directory("lib");
    make_directory("lib/diffdispatch-0");
    copy_file("/proc/self/exe", "lib/program");
    copy_file(TOY_DIRECTORY "/ddisp-toy.so", "lib/diffdispatch-0/ddisp-toy.so");
    path_in(program, sizeof program, "lib/program");
    snprintf(expected, sizeof expected, "toy loaded %s/lib/diffdispatch-0/ddisp-toy.so\n", folder);
    listing("/", program, text, sizeof text);
    assert_contains(text, expected);
    /* Known to the loader by a relative name, the library still knows where it lies. */
    snprintf(program, sizeof program, "%s/lib", folder);
    listing(program, "./program", text, sizeof text);
    assert_contains(text, expected);
}

static void plugins_of_a_build_tree_are_found_only_in_a_build_tree(void **state)
{
    (void)state;
    char text[8192], expected[PATH_MAX], program[PATH_MAX];
    make_directory("lib");
    make_directory("backends");
    copy_file("/proc/self/exe", "lib/program");
    copy_file(TOY_DIRECTORY "/ddisp-toy.so", "backends/ddisp-toy.so");
    path_in(program, sizeof program, "lib/program");
    listing("/", program, text, sizeof text);
    assert_null(strstr(text, "toy loaded"));
    make_directory("lib/libdiffdispatch.so.0.1.0.p");
    snprintf(expected, sizeof expected, "toy loaded %s/backends/ddisp-toy.so\n", folder);
    listing("/", program, text, sizeof text);
    assert_contains(text, expected);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argument_count, char **arguments)
{
    if (argument_count == 2 && !strcmp(arguments[1], "--list"))
        return list();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_51_plugins_that_do_not_fit_are_refused_with_both_versions),
        cmocka_unit_test(case_50_reason_of_a_missing_driver_reaches_the_caller),
        cmocka_unit_test(broken_plugins_do_not_keep_others_from_working),
        TEST(only_plugins_with_proper_names_are_opened),
        TEST(truncated_plugins_are_refused),
        TEST(first_plugin_of_a_name_wins_unless_it_is_broken),
        cmocka_unit_test(only_wanted_backends_are_opened),
        cmocka_unit_test(relative_directories_are_refused_and_noted),
        cmocka_unit_test(directories_that_do_not_exist_are_no_error),
        TEST(plugins_beside_the_library_are_found),
        TEST(plugins_of_a_build_tree_are_found_only_in_a_build_tree),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
