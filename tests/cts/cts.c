/*
 * cts.c - runs the conformance suite: opens one context, and runs every test on each of its devices
 * that was asked for (argument or CTS_DEVICE: "host", "vulkan", "cuda:1", ...; nothing: all). A
 * second argument is a pattern of test names. Prints TAP; a backend that cannot work here is one
 * skip with its reason. What has no meaning on a device (an architecture of C functions, say) is
 * left out, in a comment; what a device should do but cannot is a skip with its own reason.
 */
#include "cts.h"

#include <fnmatch.h>
#include <stdlib.h>

#define MAX_DEVICES 16

static const cts_test *const rooms[] = {
    cts_mixture_tests,
    cts_gradient_tests,
    cts_upstream_tests,
    cts_order_tests,
    cts_memory_tests,
    cts_view_tests,
    cts_signature_tests,
    cts_report_tests,
    cts_bad_object_tests,
    cts_bad_kernel_tests,
    cts_bad_launch_tests,
    cts_alias_tests,
    cts_struct_tests,
    cts_thread_tests,
    cts_stream_tests,
    cts_case_tests,
    cts_code_tests,
    cts_write_tests,
    cts_graph_tests,
    cts_repeat_tests,
    cts_accumulate_tests,
    cts_copy_tests,
    cts_scatter_tests,
    cts_scatter_many_tests,
    cts_scatter_bits_tests,
    cts_sink_tests,
    cts_event_tests,
    cts_pool_tests,
    cts_lasting_tests,
    cts_deterministic_tests,
    cts_deterministic_limit_tests,
};
enum { ROOMS = sizeof rooms / sizeof rooms[0] };

/* One test on one device. cmocka prints `name` after the test, so a skip can be added to it. */
struct item {
    const cts_test *test;
    ddisp_context *context;
    ddisp_device *device;
    cts *fixture;
    char name[400];
};

static int set_up(void **state)
{
    struct item *item = *state;
    item->fixture = cts_begin(item->context, item->device);
    return item->fixture ? 0 : -1;
}

static void run(void **state)
{
    struct item *item = *state;
    item->test->run(item->fixture);
    const char *skipped = cts_skipped(item->fixture);
    if (skipped) {
        size_t length = strlen(item->name);
        (void)snprintf(item->name + length, sizeof item->name - length, " # SKIP %s", skipped);
    } else {
        cts_finish(item->fixture);
    }
}

static int tear_down(void **state)
{
    struct item *item = *state;
    cts_end(item->fixture);
    item->fixture = NULL;
    return 0;
}

/* Whether spec asks for the device: nothing for all, a backend's name for all of its devices. */
static bool asked_for(const char *spec, const ddisp_device_info *info)
{
    return !*spec || strcmp(spec, info->backend) == 0 || strcmp(spec, info->spec) == 0;
}

static uint32_t open_devices(ddisp_context *context, const char *spec, ddisp_device **devices)
{
    uint32_t count = 0, opened = 0;
    CTS_OK(ddisp_device_count(context, &count));
    for (uint32_t i = 0; i < count && opened < MAX_DEVICES; i++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (ddisp_device_describe(context, i, &info) || !asked_for(spec, &info) ||
            (info.flags & DDISP_DEVICE_FLAG_FAKE))
            continue;
        ddisp_status status = ddisp_device_open(context, info.spec, &devices[opened]);
        if (status) {
            char message[512];
            (void)ddisp_last_error(message, sizeof message, NULL);
            printf("Bail out! %s does not open: %s: %s\n", info.spec, ddisp_status_name(status),
                   message);
            exit(1);
        }
        printf("# %s: %s, %s\n", info.spec, info.name, info.driver);
        opened++;
    }
    return opened;
}

/* Says why the asked-for backend has no device, as a skipped plan. */
static int skip_all(ddisp_context *context, const char *spec)
{
    uint32_t count = 0;
    size_t length = strcspn(spec, ":");
    (void)ddisp_backend_count(context, &count);
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (!ddisp_backend_get_info(context, i, &info) && strlen(info.name) == length &&
            strncmp(info.name, spec, length) == 0 && info.status) {
            printf("1..0 # SKIP %s: %s\n", info.name, info.reason);
            return 0;
        }
    }
    printf("1..0 # SKIP %s: no such device (%u backends were looked at)\n", spec, count);
    return 0;
}

/* Whether a test has a meaning on a device. */
static bool applies(const cts_test *test, const ddisp_device_info *info)
{
    return (!test->backends || strstr(test->backends, info->backend)) &&
           test->allocation_bytes <= info->max_allocation_bytes;
}

static bool any_matches(const char *pattern, const struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(pattern, items[i].name, 0) == 0)
            return true;
    return false;
}

static int run_all(ddisp_context *context, ddisp_device **devices, uint32_t device_count,
                   const char *pattern)
{
    size_t total = 0, made = 0;
    for (int r = 0; r < ROOMS; r++)
        for (const cts_test *test = rooms[r]; test->name; test++)
            total++;
    struct item *items = calloc(total * device_count, sizeof *items);
    struct CMUnitTest *tests = calloc(total * device_count, sizeof *tests);
    if (!items || !tests)
        return 1;
    for (uint32_t d = 0; d < device_count; d++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        CTS_OK(ddisp_device_get_info(devices[d], &info));
        for (int r = 0; r < ROOMS; r++)
            for (const cts_test *test = rooms[r]; test->name; test++) {
                if (!applies(test, &info)) {
                    printf("# not for %s: %s\n", info.spec, test->name);
                    continue;
                }
                struct item *item = &items[made];
                item->test = test;
                item->context = context;
                item->device = devices[d];
                (void)snprintf(item->name, sizeof item->name, "%s %s", info.spec, test->name);
                tests[made++] = (struct CMUnitTest){item->name, run, set_up, tear_down, item};
            }
    }
    if (pattern && !any_matches(pattern, items, made)) {
        printf("Bail out! no test here is called '%s'\n", pattern);
        free(tests);
        free(items);
        return 1;
    }
    int failures = _cmocka_run_group_tests("cts", tests, made, NULL, NULL);
    free(tests);
    free(items);
    return failures;
}

int main(int argument_count, char **arguments)
{
    const char *spec = argument_count > 1 ? arguments[1] : getenv("CTS_DEVICE");
    ddisp_context *context = NULL;
    ddisp_device *devices[MAX_DEVICES] = {NULL};

    if (!spec)
        spec = "";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    (void)setenv("DDISP_CACHE", "0",
                 0); /* variants are built here, not found from an earlier run */
    const char *pattern = argument_count > 2 ? arguments[2] : NULL;
    if (pattern)
        cmocka_set_test_filter(pattern);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (ddisp_context_create(NULL, &context)) {
        printf("Bail out! no context\n");
        return 1;
    }
    uint32_t count = open_devices(context, spec, devices);
    int failures = count ? run_all(context, devices, count, pattern) : skip_all(context, spec);
    for (uint32_t d = 0; d < count; d++)
        ddisp_device_release(devices[d]);
    ddisp_context_release(context);
    return failures ? 1 : 0;
}
