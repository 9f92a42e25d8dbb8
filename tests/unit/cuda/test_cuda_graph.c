/*
 * test_cuda_graph.c - recording and replay by the CUDA backend over the stand-in driver, which
 * refuses what CUDA forbids a capturing thread and spoils the capture for it.
 */
#include "cuda_fixture.h"

#include <pthread.h>

/* sample_wide takes its block by pointer, sample_forward by value; what they see is its first
 * bytes. */
static struct {
    int launches;
    unsigned char first[8];
} seen;

static void look_at_value(const char *ptx, void **parameters, const unsigned int grid[3],
                          const unsigned int group[3])
{
    (void)ptx;
    (void)grid;
    (void)group;
    seen.first[seen.launches++ % 8] = *(const unsigned char *)parameters[0];
}

static void look_behind_pointer(const char *ptx, void **parameters, const unsigned int grid[3],
                                const unsigned int group[3])
{
    cu__address address;
    (void)ptx;
    (void)grid;
    (void)group;
    memcpy(&address, parameters[0], sizeof address);
    seen.first[seen.launches++ % 8] = *(const unsigned char *)(uintptr_t)address;
}

static void *build(const char *entry, uint32_t block_bytes)
{
    void *variant = NULL;
    if (fixture_build(entry, DDISP_MODE_FORWARD, block_bytes, 3, 0, &variant) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    return variant;
}

static ddisp_backend_launch request(void *variant, const void *block, uint32_t block_bytes)
{
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .variant = variant,
                                   .block = block,
                                   .block_size_bytes = block_bytes,
                                   .items = 1000,
                                   .grid = {4, 1, 1},
                                   .group_size = {256, 1, 1}};
    return launch;
}

static void *end(void)
{
    void *graph = NULL;
    if (table->capture_end(device, stream, &graph) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    return graph;
}

static void recorded_work_runs_when_it_is_replayed(void **state)
{
    (void)state;
    unsigned char block[SAMPLE_BLOCK_BYTES] = {1}, bytes[64];
    void *variant = build("sample_forward", SAMPLE_BLOCK_BYTES), *other = NULL;
    ddisp_backend_memory memory = fixture_allocate(64), copy = fixture_allocate(64);
    ddisp_backend_range range = fixture_range(&memory, 0, 64), to = fixture_range(&copy, 0, 64);
    memset(&seen, 0, sizeof seen);
    fake_cuda_register_kernel("sample_forward", look_at_value);
    assert_int_equal(table->fill(device, stream, &range, 0x11, 1), DDISP_STATUS_OK);
    assert_int_equal(table->fill(device, stream, &to, 0x11, 1), DDISP_STATUS_OK);
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(table->fill(device, stream, &range, UINT64_C(0x0102030405060708), 8),
                     DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    block[0] = 2;
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(table->copy(device, stream, &to, &range), DDISP_STATUS_OK);
    block[0] = 0;
    assert_int_equal(seen.launches, 0);
    void *graph = end();
    assert_int_equal(table->download(device, stream, &to, bytes), DDISP_STATUS_OK);
    assert_int_equal(bytes[0], 0x11);
    assert_int_equal(table->stream_create(device, 0, &other), DDISP_STATUS_OK);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(table->graph_launch(device, i == 2 ? other : stream, graph),
                         DDISP_STATUS_OK);
        assert_int_equal(seen.launches, 2 * i);
    }
    assert_int_equal(seen.first[0], 1);
    assert_int_equal(seen.first[1], 2);
    assert_int_equal(table->download(device, stream, &to, bytes), DDISP_STATUS_OK);
    assert_int_equal(bytes[0], 8);
    assert_int_equal(bytes[63], 1);
    table->graph_release(device, graph);
    table->variant_release(device, variant);
    table->stream_destroy(device, other);
    fixture_free(&memory);
    fixture_free(&copy);
}

static void launches_take_other_arguments(void **state)
{
    (void)state;
    unsigned char block[SAMPLE_BLOCK_BYTES] = {1};
    void *variant = build("sample_forward", SAMPLE_BLOCK_BYTES);
    ddisp_backend_memory memory = fixture_allocate(64);
    ddisp_backend_range range = fixture_range(&memory, 0, 64);
    memset(&seen, 0, sizeof seen);
    fake_cuda_register_kernel("sample_forward", look_at_value);
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(table->fill(device, stream, &range, 0, 4), DDISP_STATUS_OK);
    block[0] = 2;
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    void *graph = end();
    block[0] = 9;
    ddisp_backend_launch changed = request(variant, block, sizeof block);
    assert_int_equal(table->graph_update(device, graph, 1, &changed), DDISP_STATUS_OK);
    block[0] = 0;
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    assert_int_equal(seen.first[0], 1);
    assert_int_equal(seen.first[1], 9);
    assert_int_equal(table->graph_update(device, graph, 2, &changed),
                     DDISP_STATUS_INVALID_ARGUMENT); /* a fill is no launch */
    fixture_says("2 of 2");
    table->graph_release(device, graph);
    table->variant_release(device, variant);
    fixture_free(&memory);
}

/* Blocks by pointer belong to the graph: later launches of the stream do not touch them. */
static void large_blocks_belong_to_the_graph(void **state)
{
    (void)state;
    static unsigned char block[WIDE_BLOCK_BYTES];
    void *variant = build("sample_wide", WIDE_BLOCK_BYTES);
    memset(&seen, 0, sizeof seen);
    fake_cuda_register_kernel("sample_wide", look_behind_pointer);
    uint64_t allocations = fake_cuda_live_allocations();
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    for (int i = 1; i <= 40; i++) { /* the list of launches grows meanwhile */
        block[0] = (unsigned char)i;
        assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    }
    void *graph = end();
    assert_int_equal(fake_cuda_live_allocations(), allocations + 40);
    block[0] = 77;
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(seen.first[0], 77);
    seen.launches = 0;
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    assert_int_equal(seen.launches, 40);
    assert_int_equal(seen.first[7], 40); /* the last of five rounds over eight places */
    block[0] = 99;
    ddisp_backend_launch changed = request(variant, block, sizeof block);
    assert_int_equal(table->graph_update(device, graph, 39, &changed), DDISP_STATUS_OK);
    seen.launches = 0;
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    assert_int_equal(seen.first[7], 99);
    assert_int_equal(seen.first[6], 39);
    table->graph_release(device, graph);
    table->variant_release(device, variant);
}

/* The address of the block is one of the arguments. */
static void native_arguments_are_recorded(void **state)
{
    (void)state;
    static const char text[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
                               ".visible .entry k(\n.param .u64 k_param_0,\n.param .u64 k_param_1\n"
                               ")\n{\nret;\n}\n";
    static const ddisp_native_arg natives[2] = {DDISP_NATIVE(DDISP_SOURCE_BLOCK, 0),
                                                DDISP_NATIVE(DDISP_SOURCE_ITEMS, 0)};
    unsigned char block[SAMPLE_BLOCK_BYTES] = {5};
    sample_code code;
    void *variant = NULL;
    sample_declare(&code, text, strlen(text), DDISP_MODE_FORWARD, "k", 256);
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    code.entries[0].native = natives;
    code.entries[0].native_count = 2;
    ddisp_backend_variant wanted = {.size = (uint32_t)sizeof wanted,
                                    .mode = DDISP_MODE_FORWARD,
                                    .code = &code.backend_code,
                                    .entry = &code.entries[0],
                                    .entry_name = "k",
                                    .switches = UINT64_MAX};
    if (table->variant_build(device, &wanted, &variant) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    ddisp_backend_native filled[2] = {{.arg = &natives[0], .size_bytes = 8},
                                      {.arg = &natives[1], .size_bytes = 8, .value = 1000}};
    ddisp_backend_launch launch = request(variant, block, sizeof block);
    launch.natives = filled;
    launch.native_count = 2;
    memset(&seen, 0, sizeof seen);
    fake_cuda_register_kernel("k", look_behind_pointer);
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(table->launch(device, stream, &launch), DDISP_STATUS_OK);
    void *graph = end();
    block[0] = 6;
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    assert_int_equal(seen.first[0], 5);
    assert_int_equal(table->graph_update(device, graph, 0, &launch), DDISP_STATUS_OK);
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    assert_int_equal(seen.first[1], 6);
    table->graph_release(device, graph);
    table->variant_release(device, variant);
}

/* What a capturing thread may not do, the backend does with the leave to do it: building code,
 * taking memory for other streams, waiting for them. */
static void other_work_goes_on_during_a_capture(void **state)
{
    (void)state;
    static unsigned char wide[WIDE_BLOCK_BYTES];
    unsigned char block[SAMPLE_BLOCK_BYTES] = {1}, bytes[64] = {3};
    void *other = NULL;
    uint64_t ticket = 0;
    unsigned int mode = 1;
    assert_int_equal(table->stream_create(device, 0, &other), DDISP_STATUS_OK);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CU__SUCCESS); /* the thread's own */
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    void *variant = build("sample_forward", SAMPLE_BLOCK_BYTES);
    void *large = build("sample_wide", WIDE_BLOCK_BYTES);
    ddisp_backend_memory memory = {0};
    assert_int_equal(table->memory_allocate(device, other, 64, &memory), DDISP_STATUS_OK);
    ddisp_backend_range range = fixture_range(&memory, 0, 64);
    assert_int_equal(table->upload(device, other, &range, bytes), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark(device, other, &ticket), DDISP_STATUS_OK);
    assert_int_equal(table->stream_synchronize(device, other, ticket, UINT64_MAX), DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(large, wide, sizeof wide, 0), DDISP_STATUS_OK);
    /* running out of memory waits for every stream but the one that records */
    ddisp_backend_memory much = {0};
    fake_cuda_set_memory(UINT64_C(1) << 20);
    assert_int_equal(table->memory_allocate(device, other, UINT64_C(1) << 20, &much),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    fake_cuda_set_memory(UINT64_C(64) << 20);
    table->memory_free(device, other, &memory);
    void *graph = end();
    assert_int_equal(table->graph_launch(device, stream, graph), DDISP_STATUS_OK);
    table->graph_release(device, graph);
    mode = 0;
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CU__SUCCESS);
    assert_int_equal(mode, 1); /* was left as it was found */
    table->variant_release(device, variant);
    table->variant_release(device, large);
    table->stream_destroy(device, other);
}

static void stream_that_records_cannot_be_marked(void **state)
{
    (void)state;
    uint64_t ticket = 0;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_UNSUPPORTED);
    fixture_says("records");
    table->graph_release(device, end());
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
}

static void thrown_away_and_abandoned_recordings_leave_nothing(void **state)
{
    (void)state;
    static unsigned char block[WIDE_BLOCK_BYTES];
    void *variant = build("sample_wide", WIDE_BLOCK_BYTES), *other = NULL;
    memset(&seen, 0, sizeof seen);
    fake_cuda_register_kernel("sample_wide", look_behind_pointer);
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(table->capture_end(device, stream, NULL), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_live_graphs(), 0);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(seen.launches, 1); /* it runs its work again */
    assert_int_equal(table->stream_create(device, 0, &other), DDISP_STATUS_OK);
    assert_int_equal(table->capture_begin(device, other), DDISP_STATUS_OK);
    table->stream_destroy(device, other); /* while it records */
    assert_int_equal(fake_cuda_live_graphs(), 0);
    table->variant_release(device, variant);
}

static void spoiled_capture_is_reported_and_the_stream_works_again(void **state)
{
    (void)state;
    void *graph = NULL;
    cu__context primary = NULL, ignored = NULL;
    cu__address address = 0;
    uint64_t ticket = 0;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    /* the program, in the same thread, does what CUDA forbids meanwhile */
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CU__SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(primary), CU__SUCCESS);
    assert_int_equal(cuMemAlloc_v2(&address, 100), CU__ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CU__SUCCESS);
    assert_int_equal(table->capture_end(device, stream, &graph), DDISP_STATUS_DRIVER_ERROR);
    fixture_says("cuStreamEndCapture");
    fixture_says("(901)");
    assert_null(graph);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
}

static void *end_elsewhere(void *status)
{
    void *graph = NULL;
    *(ddisp_status *)status = table->capture_end(device, stream, &graph);
    return NULL;
}

static void another_thread_cannot_end_a_capture(void **state)
{
    (void)state;
    pthread_t thread;
    ddisp_status status = DDISP_STATUS_OK;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, DDISP_STATUS_DRIVER_ERROR);
    fixture_says("(908)");
    table->graph_release(device, end()); /* it went on */
}

/* Someone else's node on the stream: the launch's own node cannot be told any more. */
static void *throw_away_elsewhere(void *status)
{
    *(ddisp_status *)status = table->capture_end(device, stream, NULL);
    return NULL;
}

/* The driver's capture ends with the stream; the backend's is gone at once. */
static void another_thread_can_throw_a_capture_away(void **state)
{
    (void)state;
    unsigned char block[SAMPLE_BLOCK_BYTES] = {1};
    void *variant = build("sample_forward", SAMPLE_BLOCK_BYTES), *made = NULL;
    ddisp_status status = DDISP_STATUS_OK;
    pthread_t thread;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, throw_away_elsewhere, &status), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, DDISP_STATUS_DRIVER_ERROR);
    fixture_says("(908)");
    assert_int_equal(table->capture_end(device, stream, NULL), DDISP_STATUS_OK); /* none is left */
    table->stream_destroy(device, stream);
    assert_int_equal(fake_cuda_live_graphs(), 0);
    assert_int_equal(table->stream_create(device, 0, &made), DDISP_STATUS_OK);
    stream = made;
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    table->variant_release(device, variant);
}

/* A capture that cannot be ended for want of a context goes on, until it is thrown away. */
static void failed_end_leaves_a_capture_to_be_thrown_away(void **state)
{
    (void)state;
    void *graph = NULL;
    uint64_t ticket = 0;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    fake_cuda_fail_function("cuCtxPushCurrent", 1, CU__ERROR_UNKNOWN);
    assert_int_equal(table->capture_end(device, stream, &graph), DDISP_STATUS_DRIVER_ERROR);
    assert_null(graph);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_UNSUPPORTED);
    assert_int_equal(table->capture_end(device, stream, NULL), DDISP_STATUS_OK);
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(fake_cuda_live_graphs(), 0);
}

static void recording_that_lost_count_is_refused(void **state)
{
    (void)state;
    unsigned char block[SAMPLE_BLOCK_BYTES] = {1};
    void *variant = build("sample_forward", SAMPLE_BLOCK_BYTES), *graph = NULL;
    assert_int_equal(table->capture_begin(device, stream), DDISP_STATUS_OK);
    fake_cuda_fail_function("cuStreamGetCaptureInfo", 1, CU__ERROR_UNKNOWN);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_DRIVER_ERROR);
    assert_int_equal(fixture_launch(variant, block, sizeof block, 0), DDISP_STATUS_OK);
    assert_int_equal(table->capture_end(device, stream, &graph), DDISP_STATUS_DRIVER_ERROR);
    fixture_says("failed halfway");
    assert_null(graph);
    table->variant_release(device, variant);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(recorded_work_runs_when_it_is_replayed),
        CASE(launches_take_other_arguments),
        CASE(large_blocks_belong_to_the_graph),
        CASE(native_arguments_are_recorded),
        CASE(other_work_goes_on_during_a_capture),
        CASE(stream_that_records_cannot_be_marked),
        CASE(thrown_away_and_abandoned_recordings_leave_nothing),
        CASE(spoiled_capture_is_reported_and_the_stream_works_again),
        CASE(another_thread_cannot_end_a_capture),
        CASE(another_thread_can_throw_a_capture_away),
        CASE(failed_end_leaves_a_capture_to_be_thrown_away),
        CASE(recording_that_lost_count_is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
