/*
 * test_programs.c - what can only be seen from outside a process: how programs end (case 47), what
 * they find where drivers are missing (case 50), and where one driver is listed twice (case 40).
 * The programs lie beside this one.
 */
#include "../cts.h"

#include <libgen.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka prints `name` after the test, so that the reason of a skip can be added to it. */
struct program {
    char name[160];
    const char *first, *second;
};

static char here[400];

static void skip_because(struct program *p, const char *reason)
{
    size_t length = strlen(p->name);
    (void)snprintf(p->name + length, sizeof p->name - length, " # SKIP %s", reason);
}

/* Runs a command of the shell in which $HERE is the folder of the programs; both outputs together.
 */
static int run(const char *command, char *output, size_t capacity)
{
    char line[1600];
    (void)snprintf(line, sizeof line, "HERE='%s'; %s", here, command);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, capacity - 1, pipe);
    output[length] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

#define MUST_SAY(output, text)                                                                     \
    CTS_CHECK(strstr((output), (text)), "the program does not say \"%s\":\n%s", (text), (output))

/* ---- case 47 */

static void case_47(void **state)
{
    struct program *p = *state;
    char command[200], output[4000];
    bool quick = strcmp(p->second, "host") == 0;
    (void)snprintf(command, sizeof command, "%s$HERE/cts_leave %s %s 2>&1",
                   quick ? "DDISP_BACKENDS=host " : "", p->first, p->second);
    for (int round = 0; round < (quick ? 50 : 5); round++) {
        int status = run(command, output, sizeof output);
        if (status == 77) {
            skip_because(p, "no such device");
            return;
        }
        CTS_CHECK(status == 0 && !output[0], "round %d of %s: status %d: %s", round, command,
                  status, output);
    }
}

/* ---- case 50 */

static void case_50_no_driver_library(void **state)
{
    char output[8000];
    (void)state;
    int status = run("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "
                     "CTS_HIDE=libcuda.so:libvulkan.so LD_PRELOAD=$HERE/cts_hide.so "
                     "$HERE/cts_probe 2>&1",
                     output, sizeof output);
    assert_int_equal(status, 0);
    CTS_CHECK(!strstr(output, "loaded|"), "a driver is linked to:\n%s", output);
    MUST_SAY(output, "host|DDISP_STATUS_OK|");
    MUST_SAY(output, "host ok");
    if (strstr(output, "cuda|"))
        MUST_SAY(output, "libcuda.so.1 not found");
    if (strstr(output, "vulkan|"))
        MUST_SAY(output, "libvulkan.so.1");
    CTS_CHECK(!strstr(output, "cuda|DDISP_STATUS_OK") && !strstr(output, "vulkan|DDISP_STATUS_OK"),
              "a backend works without its driver:\n%s", output);
}

static void case_50_icd_to_nowhere(void **state)
{
    char output[8000];
    int status = run("VK_ICD_FILENAMES=/nowhere/icd.json VK_DRIVER_FILES=/nowhere/icd.json "
                     "$HERE/cts_probe 2>/dev/null",
                     output, sizeof output);
    assert_int_equal(status, 0);
    MUST_SAY(output, "host ok");
    if (!strstr(output, "vulkan|")) {
        skip_because(*state, "the Vulkan backend is not built");
        return;
    }
    MUST_SAY(output, "vulkan|DDISP_STATUS_BACKEND_UNAVAILABLE|");
    const char *reason = strstr(output, "vulkan|");
    for (int bars = 0; bars < 3; bars++)
        reason = strchr(reason, '|') + 1;
    CTS_CHECK(*reason != '\n', "no reason is given:\n%s", output);
}

/* A plugin that is no shared object: refused with its path, and the good one of the same name
 * serves. */
static void case_50_corrupt_plugin(void **state)
{
    char output[8000];
    (void)state;
    int status = run("d=$(mktemp -d) && echo 'not a library' >$d/ddisp-host.so && "
                     "DDISP_BACKEND_PATH=$d $HERE/cts_probe 2>/dev/null; s=$?; rm -r $d; exit $s",
                     output, sizeof output);
    assert_int_equal(status, 0);
    MUST_SAY(output, "/ddisp-host.so|");
    MUST_SAY(output, "host ok");
}

/* ---- case 40: a driver found by the loader is listed by two manifests */

/* Leaves $ONE and $TWO: lists of manifests with one driver once, and twice. */
static const char manifests[] =
    "set -e; for f in $(echo \"${VK_DRIVER_FILES:-$VK_ICD_FILENAMES}\" | tr ':' ' ') "
    "/usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/nvidia_icd.json "
    "/usr/share/vulkan/icd.d/nvidia_icd.json; do [ -f $f ] && break; done; [ -f $f ] || exit 77; "
    "d=$(mktemp -d); trap 'rm -r $d' EXIT; cp $f $d/one.json; cp $f $d/two.json; "
    "ONE=$d/one.json; TWO=$d/one.json:$d/two.json; ";

static int list_devices(const char *list, char *output, size_t capacity)
{
    char command[1200];
    (void)snprintf(command, sizeof command,
                   "%s VK_ICD_FILENAMES=%s VK_DRIVER_FILES=%s $HERE/cts_probe 2>/dev/null | "
                   "grep '^device|vulkan'",
                   manifests, list, list);
    return run(command, output, capacity);
}

static void case_40_one_driver_listed_twice(void **state)
{
    char once[8000], twice[8000];
    int status = list_devices("$ONE", once, sizeof once);
    if (status == 77 || !once[0]) {
        skip_because(*state, "no Vulkan driver to list");
        return;
    }
    for (int round = 0; round < 3; round++) { /* the same devices, with the same UUIDs */
        assert_int_equal(list_devices("$TWO", twice, sizeof twice), 0);
        assert_string_equal(once, twice);
    }
}

static void case_40_index_and_uuid_agree(void **state)
{
    char output[8000], command[1200];
    (void)snprintf(command, sizeof command,
                   "%s VK_ICD_FILENAMES=$TWO VK_DRIVER_FILES=$TWO $HERE/cts_choose vulkan 2>&1",
                   manifests);
    int status = run(command, output, sizeof output);
    if (status == 77) {
        skip_because(*state, "no Vulkan driver to list");
        return;
    }
    CTS_CHECK(status == 0, "status %d:\n%s", status, output);
}

int main(void)
{
    struct program ways[] = {{"case_47a_host", "exit", "host"},
                             {"case_47b_host_atexit", "atexit", "host"},
                             {"case_47b_host_destructor", "destructor", "host"},
                             {"case_47c_host", "order", "host"},
                             {"case_47a_vulkan", "exit", "vulkan"},
                             {"case_47b_vulkan_atexit", "atexit", "vulkan"},
                             {"case_47b_vulkan_destructor", "destructor", "vulkan"},
                             {"case_47c_vulkan", "order", "vulkan"},
                             {"case_47a_cuda", "exit", "cuda"},
                             {"case_47b_cuda_atexit", "atexit", "cuda"},
                             {"case_47b_cuda_destructor", "destructor", "cuda"},
                             {"case_47c_cuda", "order", "cuda"}};
    struct program others[] = {{"case_50_no_driver_library", NULL, NULL},
                               {"case_50_icd_to_nowhere", NULL, NULL},
                               {"case_50_corrupt_plugin", NULL, NULL},
                               {"case_40_one_driver_listed_twice", NULL, NULL},
                               {"case_40_index_and_uuid_agree", NULL, NULL}};
    static const CMUnitTestFunction functions[] = {
        case_50_no_driver_library, case_50_icd_to_nowhere, case_50_corrupt_plugin,
        case_40_one_driver_listed_twice, case_40_index_and_uuid_agree};
    enum { WAYS = sizeof ways / sizeof ways[0], OTHERS = sizeof others / sizeof others[0] };
    struct CMUnitTest tests[WAYS + OTHERS];
    char self[400] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    (void)snprintf(here, sizeof here, "%s", dirname(self));
    memset(tests, 0, sizeof tests);
    for (int i = 0; i < WAYS; i++)
        tests[i] = (struct CMUnitTest){ways[i].name, case_47, NULL, NULL, &ways[i]};
    for (int i = 0; i < OTHERS; i++)
        tests[WAYS + i] = (struct CMUnitTest){others[i].name, functions[i], NULL, NULL, &others[i]};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("programs", tests, WAYS + OTHERS, NULL, NULL);
}
