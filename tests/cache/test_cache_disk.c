/*
 * test_cache_disk.c - the kernel cache on disk seen from a program: what is kept, what is found
 * again, what is told apart, and that it stays within its bound.
 */
#define _GNU_SOURCE /* utimensat */

#include "restart.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void restart_with_a_warm_cache_compiles_nothing(void **state)
{
    COUNTS(restart(*state, &mul, 10), 0, 1, 0);
    assert_int_equal(control()->compiles, 1);
    for (int i = 0; i < 3; i++)
        COUNTS(restart(*state, &mul, 10), 1, 0, 0);
    assert_int_equal(control()->compiles, 1);
    assert_int_equal(control()->loads, 4);
}

static void report_says_where_the_variant_is_from(void **state)
{
    const char *const origins[3] = {" built in ", " loaded from the kernel cache in ", " reused"};
    const ddisp_variant_origin expected[3] = {
        DDISP_VARIANT_ORIGIN_BUILT, DDISP_VARIANT_ORIGIN_LOADED, DDISP_VARIANT_ORIGIN_HIT};
    struct setting *s = NULL;
    ddisp_kernel *kernel = NULL;
    for (int i = 0; i < 3; i++) {
        if (i < 2) {
            s = setting_open(*state);
            kernel = kernel_make(s, &mul);
        }
        ddisp_tensor *a = VECTOR(s, 0, 5), *y = VECTOR(s, 0, 0);
        const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(a), DDISP_ARG(y)};
        ddisp_report *report;
        ddisp_report_info info = {.size = (uint32_t)sizeof info};
        ddisp_launch_options options = {.size = (uint32_t)sizeof options};
        char text[2048];
        assert_ok(ddisp_report_create(s->context, &report));
        options.report = report;
        assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, &options, NULL));
        assert_ok(ddisp_report_get_info(report, &info));
        assert_int_equal(info.variant, expected[i]);
        assert_ok(ddisp_report_format(report, text, sizeof text, NULL));
        assert_non_null(strstr(text, origins[i]));
        ddisp_report_release(report);
        ddisp_tensor_release(a);
        ddisp_tensor_release(y);
        if (i != 1) {
            ddisp_kernel_release(kernel);
            setting_close(s, false);
        }
    }
}

/* Case 27: one name, other source. */
static void case_27_same_name_other_source(void **state)
{
    static const struct recipe plus = {
        .name = "k", .source = "entry forward: $0 1 + >2\n", .forward_only = true};
    static const struct recipe times = {
        .name = "k", .source = "entry forward: $0 10 * >2\n", .forward_only = true};
    for (int round = 0; round < 100; round++) {
        struct setting *s = setting_open(*state);
        ddisp_kernel *first = kernel_make(s, &plus), *second = kernel_make(s, &times);
        ddisp_tensor *x = VECTOR(s, 0, 5), *y = VECTOR(s, 0, 0), *z = VECTOR(s, 0, 0);
        const ddisp_arg to_y[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
        const ddisp_arg to_z[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(z)};
        assert_ok(ddisp_launch(first, DDISP_MODE_FORWARD, to_y, 3, NULL, NULL));
        assert_ok(ddisp_launch(second, DDISP_MODE_FORWARD, to_z, 3, NULL, NULL));
        EXPECT(y, 6);
        EXPECT(z, 50);
        ddisp_kernel_release(first);
        ddisp_kernel_release(second);
        ddisp_tensor_release(x);
        ddisp_tensor_release(y);
        ddisp_tensor_release(z);
        setting_close(s, false);
    }
    assert_int_equal(control()->compiles, 2);
}

/* ---- case 30: headers */

static void case_30_headers_are_part_of_the_key(void **state)
{
    static const char source[] = "#include \"c.h\"\nentry forward: $0 C * >2\n";
    ddisp_header two = DDISP_HEADER("c.h", "#define C 2", 11);
    ddisp_header three = DDISP_HEADER("c.h", "#define C 3", 11); /* same name and size */
    struct recipe recipe = {
        .source = source, .headers = &two, .header_count = 1, .forward_only = true};
    COUNTS(restart(*state, &recipe, 10), 0, 1, 0);
    recipe.headers = &three;
    COUNTS(restart(*state, &recipe, 15), 0, 1, 0);
    COUNTS(restart(*state, &recipe, 15), 1, 0, 0); /* no change: a hit */
    recipe.headers = &two;
    COUNTS(restart(*state, &recipe, 10), 1, 0, 0);
}

static void case_30_header_included_by_a_header(void **state)
{
    ddisp_header first[2] = {DDISP_HEADER("outer.h", "#include \"inner.h\"", 18),
                             DDISP_HEADER("inner.h", "#define C 2", 11)};
    ddisp_header second[2] = {first[0], DDISP_HEADER("inner.h", "#define C 7", 11)};
    struct recipe recipe = {.source = "#include \"outer.h\"\nentry forward: $0 C * >2\n",
                            .headers = first,
                            .header_count = 2,
                            .forward_only = true};
    COUNTS(restart(*state, &recipe, 10), 0, 1, 0);
    recipe.headers = second;
    COUNTS(restart(*state, &recipe, 35), 0, 1, 0);
}

/* A directory to include from: the library does not see what is read there, so nothing is kept. */
static void case_30_include_path_turns_the_cache_off(void **state)
{
    char folders[2][256], options[2][300];
    struct recipe recipe = {.source = "#include \"c.h\"\nentry forward: $0 C * >2\n",
                            .forward_only = true};
    for (int i = 0; i < 2; i++) {
        directory_make(folders[i]);
        (void)snprintf(options[i], sizeof options[i], "-I%s", folders[i]);
        file_of(folders[i], "c.h", i ? "#define C 4" : "#define C 2");
    }
    recipe.options = options[0];
    COUNTS(restart(*state, &recipe, 10), 0, 0, 0);
    struct stat before;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/c.h", folders[0]);
    assert_int_equal(stat(path, &before), 0);
    file_of(folders[0], "c.h", "#define C 3"); /* edited, with size and time as before */
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    COUNTS(restart(*state, &recipe, 15), 0, 0, 0);
    recipe.options = options[1]; /* another folder, the same file name */
    COUNTS(restart(*state, &recipe, 20), 0, 0, 0);
    assert_int_equal(directory_list(*state, NULL, 0), 0);
    directory_remove(folders[0]);
    directory_remove(folders[1]);
}

/* ---- case 32: options, versions, architectures */

static void case_32_everything_that_changes_the_code_is_in_the_key(void **state)
{
    struct compiler_control *c = control();
    struct recipe one = {.source = "entry forward: $0 N * >2\n", .forward_only = true};
    struct recipe two = one;
    one.options = "-DN=1";
    two.options = "-DN=2";
    COUNTS(restart(*state, &one, 5), 0, 1, 0);
    COUNTS(restart(*state, &two, 10), 0, 1, 0);
    uint32_t entries = 2;
    for (int change = 0; change < 7; change++) {
        control_reset();
        switch (change) {
        case 0:
            (void)snprintf(c->version, sizeof c->version, "compiler 2");
            break;
        case 1:
            (void)snprintf(c->architecture, sizeof c->architecture, "rpn_2");
            break;
        case 2:
            c->vendor_id = 1;
            break;
        case 3:
            c->device_id = 1;
            break;
        case 4:
            c->driver_id = 1;
            break;
        case 5:
            c->features = UINT64_C(1) << 63;
            break;
        default: /* back to the beginning */
            COUNTS(restart(*state, &one, 5), 1, 0, 0);
            COUNTS(restart(*state, &two, 10), 1, 0, 0);
            continue;
        }
        COUNTS(restart(*state, &one, 5), 0, 1, 0);
        COUNTS(restart(*state, &one, 5), 1, 0, 0);
        assert_int_equal(directory_list(*state, NULL, 0), ++entries);
    }
}

/* Entry, switches, flags, group size and write modes are in it; names are not. */
static void key_knows_variants_and_not_names(void **state)
{
    struct setting *s = setting_open(*state);
    struct recipe recipe = {.name = "first"};
    ddisp_kernel *kernel = kernel_make(s, &recipe);
    ddisp_tensor *a = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 5), *b = VECTOR(s, 0, 2);
    ddisp_tensor *y = VECTOR(s, DDISP_TENSOR_REQUIRES_GRAD, 0), *g = VECTOR(s, 0, 1);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    const ddisp_arg swapped[3] = {DDISP_ARG(b), DDISP_ARG(a), DDISP_ARG(y)};
    const ddisp_arg both[3] = {DDISP_ARG(a), DDISP_ARG(a), DDISP_ARG(y)};
    const ddisp_arg *orders[3] = {args, swapped, both};
    for (int i = 0; i < 3; i++) {
        assert_ok(ddisp_tensor_set_grad(y, g));
        assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, orders[i], 3, NULL, NULL));
    }
    COUNTS(kernel_statistics(kernel), 0, 3, 0); /* {a}, {b}, {a, b} */
    ddisp_kernel_release(kernel);
    recipe.name = "second";
    kernel = kernel_make(s, &recipe);
    assert_ok(ddisp_tensor_set_grad(y, g));
    assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    COUNTS(kernel_statistics(kernel), 1, 0, 0);
    ddisp_kernel_release(kernel);
    recipe.flags = DDISP_CODE_NULL_SAFE;
    kernel = kernel_make(s, &recipe);
    assert_ok(ddisp_tensor_set_grad(y, g));
    assert_ok(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    COUNTS(kernel_statistics(kernel), 0, 1, 0);
    ddisp_kernel_release(kernel);
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_tensor_release(g);
    setting_close(s, false);
}

/* ---- settings */

static void switched_off_it_touches_nothing(void **state)
{
    setenv("DDISP_CACHE", "0", 1);
    COUNTS(restart(*state, &mul, 10), 0, 0, 0);
    COUNTS(restart(*state, &mul, 10), 0, 0, 0);
    unsetenv("DDISP_CACHE");
    assert_int_equal(directory_list(*state, NULL, 0), 0);
    assert_int_equal(control()->compiles, 2);
    COUNTS(restart(*state, &mul, 10), 0, 1, 0);
}

static void directory_and_entries_are_for_this_user_alone(void **state)
{
    char deep[512], path[512];
    struct stat status;
    (void)snprintf(deep, sizeof deep, "%s/not/yet/there", (char *)*state);
    COUNTS(restart(deep, &mul, 10), 0, 1, 0);
    assert_int_equal(stat(deep, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    only_entry(deep, path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

static void directory_comes_from_the_environment(void **state)
{
    char place[512], expected[600];
    struct {
        const char *variable, *suffix;
    } places[] = {{"HOME", "/.cache/diffdispatch"},
                  {"XDG_CACHE_HOME", "/diffdispatch"},
                  {"DDISP_CACHE_DIR", ""}};
    for (size_t i = 0; i < 3; i++) { /* each goes before the one before it */
        (void)snprintf(place, sizeof place, "%s/%zu", (char *)*state, i);
        (void)snprintf(expected, sizeof expected, "%s%s", place, places[i].suffix);
        setenv(places[i].variable, place, 1);
        COUNTS(restart("", &mul, 10), 0, 1, 0);
        assert_int_equal(directory_list(expected, NULL, 0), 1);
    }
    unsetenv("XDG_CACHE_HOME");
    unsetenv("DDISP_CACHE_DIR");
}

/* Of many entries those used last stay, and the sum of their sizes is within DDISP_CACHE_SIZE. */
static void bound_keeps_what_was_used_last(void **state)
{
    char path[512], source[128], names[8192];
    unsigned char bytes[8192];
    COUNTS(restart(*state, &mul, 10), 0, 1, 0);
    only_entry(*state, path);
    size_t size = get_file(path, bytes, sizeof bytes), total = 0;
    (void)snprintf(source, sizeof source, "%zu", size * 10);
    setenv("DDISP_CACHE_SIZE", source, 1);
    for (int i = 0; i < 40; i++) {
        struct recipe recipe = {.source = source, .forward_only = true};
        (void)snprintf(source, sizeof source, "entry forward: $0 %d + >2\n", 100 + i);
        COUNTS(restart(*state, &recipe, 105.0f + (float)i), 0, 1, 0);
        COUNTS(restart(*state, &mul, 10), 1, 0, 0); /* always in use: never evicted */
        usleep(2000); /* a clock tick of the file system, so that times tell the order */
    }
    unsetenv("DDISP_CACHE_SIZE");
    uint32_t count = directory_list(*state, names, sizeof names);
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
        (void)snprintf(path, sizeof path, "%s/%s", (char *)*state, name);
        total += get_file(path, bytes, sizeof bytes);
    }
    assert_true(total <= size * 10);
    assert_true(count >= 5 && count < 20);
    struct recipe last = {.source = "entry forward: $0 139 + >2\n", .forward_only = true};
    COUNTS(restart(*state, &last, 144), 1, 0, 0);
    struct recipe first = {.source = "entry forward: $0 100 + >2\n", .forward_only = true};
    COUNTS(restart(*state, &first, 105), 0, 1, 0);
}

static void size_takes_units_and_refuses_nonsense(void **state)
{
    static const struct {
        const char *text;
        uint32_t entries, warnings;
    } tries[] = {{"100", 0, 0},
                 {"1K", 0, 0},
                 {"64k", 1, 0},
                 {"1M", 1, 0},
                 {"2G", 1, 0},
                 {"much", 1, 1},
                 {"1T", 1, 1},
                 {"-5", 1, 1},
                 {"0", 1, 1},
                 {"1KB", 1, 1},
                 {"99999999999999999999", 1, 1}};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        setenv("DDISP_CACHE_SIZE", tries[i].text, 1);
        struct setting *s = setting_open(NULL);
        (void)run(s, &mul, 10);
        if (directory_list(s->directory, NULL, 0) != tries[i].entries ||
            s->warnings != tries[i].warnings)
            fail_msg("DDISP_CACHE_SIZE=%s: %u entries, %u warnings", tries[i].text,
                     directory_list(s->directory, NULL, 0), s->warnings);
        if (s->warnings)
            assert_non_null(strstr(s->warning, "DDISP_CACHE_SIZE"));
        setting_close(s, true);
    }
    unsetenv("DDISP_CACHE_SIZE");
    (void)state;
}

/* What others put into the directory stays. */
static void strangers_in_the_directory_are_left_alone(void **state)
{
    char source[128], names[8192];
    file_of(*state, "notes.txt", "mine");
    file_of(*state, "0123456789abcdef.ddisp", "short name");
    setenv("DDISP_CACHE_SIZE", "4K", 1);
    for (int i = 0; i < 8; i++) {
        struct recipe recipe = {.source = source, .forward_only = true};
        (void)snprintf(source, sizeof source, "entry forward: $0 %d + >2\n", i);
        (void)restart(*state, &recipe, 5.0f + (float)i);
    }
    unsetenv("DDISP_CACHE_SIZE");
    (void)directory_list(*state, names, sizeof names);
    assert_non_null(strstr(names, "notes.txt\n"));
    assert_non_null(strstr(names, "0123456789abcdef.ddisp\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, restart_fresh, restart_gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(restart_with_a_warm_cache_compiles_nothing),
        TEST(report_says_where_the_variant_is_from),
        TEST(case_27_same_name_other_source),
        TEST(case_30_headers_are_part_of_the_key),
        TEST(case_30_header_included_by_a_header),
        TEST(case_30_include_path_turns_the_cache_off),
        TEST(case_32_everything_that_changes_the_code_is_in_the_key),
        TEST(key_knows_variants_and_not_names),
        TEST(switched_off_it_touches_nothing),
        TEST(directory_and_entries_are_for_this_user_alone),
        TEST(directory_comes_from_the_environment),
        TEST(bound_keeps_what_was_used_last),
        TEST(size_takes_units_and_refuses_nonsense),
        TEST(strangers_in_the_directory_are_left_alone),
    };
    return cmocka_run_group_tests_name("cache_disk", tests, NULL, NULL);
}
