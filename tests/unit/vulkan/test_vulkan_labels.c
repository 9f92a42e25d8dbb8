/*
 * test_vulkan_labels.c - names for tools, seen by a stand-in loader that counts: where the
 * environment says that a tool looks, each dispatch of a kernel lies in a label of its name, and
 * its pipeline is named; elsewhere no such call is made.
 */
#include "vulkan_fixture.h"

#include "fake_vulkan.h"

#include <stdlib.h>

enum { N = 64, LAUNCHES = 100 };

static const char *const variables[] = {"VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE",
                                        "ENABLE_VULKAN_RENDERDOC_CAPTURE", "NVTX_INJECTION64_PATH",
                                        "DDISP_LABELS"};

static int setup(void **state)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)unsetenv(variables[i]);
    fake_vulkan_reset();
    return fixture_open(state);
}

/** More launches than a batch holds, as many in a graph that runs twice; y = a * b is checked. */
static void launch(const ddisp_backend_table *t)
{
    fixture f = {.table = t};
    ddisp_backend_memory memory[3];
    const ddisp_backend_memory *data[3];
    float values[N];
    void *graph = NULL;
    code c;
    int before = atomic_load(&live);
    fake_vulkan_reset();
    assert_ok(t->open(&services, &f.instance));
    assert_ok(t->device_open(f.instance, 0, &f.device));
    assert_ok(t->stream_create(f.device, DDISP_BACKEND_STREAM_DEFAULT, &f.own));
    code_init(&c, MUL_FORWARD);
    void *variant = variant_make(&f, &c, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        memory[i] = memory_make(&f, f.own, sizeof values);
        data[i] = &memory[i];
        for (int k = 0; k < N; k++)
            values[k] = (float)(i + 2);
        upload(&f, f.own, data[i], 0, values, sizeof values);
    }
    for (int i = 0; i < LAUNCHES; i++)
        assert_ok(mul_launch(&f, f.own, variant, N, data, NULL, 0));
    stream_finish(&f, f.own);
    assert_ok(t->capture_begin(f.device, f.own));
    for (int i = 0; i < LAUNCHES; i++)
        assert_ok(mul_launch(&f, f.own, variant, N, data, NULL, 0));
    assert_ok(t->capture_end(f.device, f.own, &graph));
    for (int i = 0; i < 2; i++)
        assert_ok(t->graph_launch(f.device, f.own, graph));
    stream_finish(&f, f.own);
    download(&f, f.own, data[2], 0, values, sizeof values);
    for (int k = 0; k < N; k++)
        assert_true(values[k] == 6);
    t->graph_release(f.device, graph);
    for (int i = 0; i < 3; i++)
        t->memory_free(f.device, f.own, &memory[i]);
    t->variant_release(f.device, variant);
    t->stream_destroy(f.device, f.own);
    t->device_close(f.device);
    t->close(f.instance);
    assert_int_equal(atomic_load(&live), before);
    assert_int_equal(fake_vulkan_calls("vkCmdDispatch"), 2 * LAUNCHES);
}

static void check_silence(const ddisp_backend_table *t)
{
    launch(t);
    assert_int_equal(fake_vulkan_calls("vkCmdBeginDebugUtilsLabelEXT"), 0);
    assert_int_equal(fake_vulkan_calls("vkCmdEndDebugUtilsLabelEXT"), 0);
    assert_int_equal(fake_vulkan_calls("vkSetDebugUtilsObjectNameEXT"), 0);
}

static void check_labels(const ddisp_backend_table *t)
{
    launch(t);
    assert_int_equal(fake_vulkan_calls("vkCmdBeginDebugUtilsLabelEXT"), 2 * LAUNCHES);
    assert_int_equal(fake_vulkan_calls("vkCmdEndDebugUtilsLabelEXT"), 2 * LAUNCHES);
    assert_int_equal(fake_vulkan_dispatches_labelled(), 2 * LAUNCHES);
    assert_int_equal(fake_vulkan_labels_broken(), 0);
    assert_int_equal(fake_vulkan_calls("vkSetDebugUtilsObjectNameEXT"), 1);
    assert_string_equal(fake_vulkan_label(), "mul");
    assert_string_equal(fake_vulkan_pipeline_name(), "mul: main");
}

static void nothing_is_named_where_nobody_looks(void **state)
{
    check_silence(fixture_of(state)->table);
    (void)setenv("VK_INSTANCE_LAYERS", "", 1); /* set, but names none */
    check_silence(fixture_of(state)->table);
    (void)unsetenv("VK_INSTANCE_LAYERS");
}

static void dispatches_are_labelled_where_a_tool_looks(void **state)
{
    const ddisp_backend_table *t = fixture_of(state)->table;
    /* What the last two start is not there to be started. */
    static const char *const told[] = {"DDISP_LABELS", "ENABLE_VULKAN_RENDERDOC_CAPTURE",
                                       "NVTX_INJECTION64_PATH"};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        (void)setenv(told[i], "1", 1);
        check_labels(t);
        (void)unsetenv(told[i]);
    }
    (void)setenv("VK_LOADER_LAYERS_ENABLE", "no_such_layer", 1);
    check_labels(t);
    (void)setenv("DDISP_LABELS", "0", 1); /* wins */
    check_silence(t);
    (void)unsetenv("DDISP_LABELS");
    (void)unsetenv("VK_LOADER_LAYERS_ENABLE");
}

/** The launches go on when the driver refuses the name of a pipeline. */
static void a_name_that_is_refused_is_no_failure(void **state)
{
    const ddisp_backend_table *t = fixture_of(state)->table;
    fixture f = {.table = t};
    code c;
    (void)setenv("DDISP_LABELS", "1", 1);
    fake_vulkan_reset();
    assert_ok(t->open(&services, &f.instance));
    assert_ok(t->device_open(f.instance, 0, &f.device));
    code_init(&c, MUL_FORWARD);
    fake_vulkan_fail("vkSetDebugUtilsObjectNameEXT", 1, -1);
    void *variant = variant_make(&f, &c, UINT64_MAX);
    assert_string_equal(fake_vulkan_failed(), "vkSetDebugUtilsObjectNameEXT");
    t->variant_release(f.device, variant);
    t->device_close(f.device);
    t->close(f.instance);
    (void)unsetenv("DDISP_LABELS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_named_where_nobody_looks),
        cmocka_unit_test(dispatches_are_labelled_where_a_tool_looks),
        cmocka_unit_test(a_name_that_is_refused_is_no_failure),
    };
    return cmocka_run_group_tests(tests, setup, fixture_close);
}
