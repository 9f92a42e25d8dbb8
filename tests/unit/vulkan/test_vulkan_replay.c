/*
 * test_vulkan_replay.c - replays that follow each other without waiting, over the stand-in loader,
 * which can keep work from being seen as done: nothing that a replay in flight reads is changed
 * under it, and nothing that it uses is given away.
 */
#include "vulkan_fixture.h"

#include "fake_vulkan.h"

enum { N = 100, BYTES = N * 4 };

/** y = a * b, recorded once. */
typedef struct recording {
    code c;
    bool native;
    void *variant, *stream, *graph;
    ddisp_backend_memory a, b, y;
} recording;

static int setup(void **state)
{
    fake_vulkan_reset();
    return fixture_open(state);
}

static void fill(const fixture *f, const ddisp_backend_memory *memory, float value)
{
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = value;
    upload(f, f->own, memory, 0, values, BYTES);
}

static ddisp_backend_memory filled(const fixture *f, float value)
{
    ddisp_backend_memory memory = memory_make(f, f->own, BYTES);
    fill(f, &memory, value);
    return memory;
}

static void check_all(const fixture *f, const ddisp_backend_memory *memory, float expected)
{
    float values[N];
    download(f, f->own, memory, 0, values, BYTES);
    for (int i = 0; i < N; i++)
        if (values[i] != expected)
            fail_msg("element %d is %g, not %g", i, (double)values[i], (double)expected);
}

static void request_of(const recording *r, const ddisp_backend_memory *a,
                       const ddisp_backend_memory *y, mul_request *out_request)
{
    const ddisp_backend_memory *data[3] = {a, &r->b, y};
    mul_request_fill(out_request, r->native ? &r->c : NULL, r->variant, N, data, NULL, 0);
}

static void record(const fixture *f, recording *r, bool native)
{
    mul_request request;
    memset(r, 0, sizeof *r);
    r->native = native;
    code_init(&r->c, MUL_FORWARD);
    if (native)
        code_make_native(&r->c);
    r->variant = variant_make(f, &r->c, UINT64_MAX);
    r->a = filled(f, 3);
    r->b = filled(f, 2);
    r->y = filled(f, -1);
    r->stream = stream_make(f);
    stream_finish(f, f->own);
    request_of(r, &r->a, &r->y, &request);
    assert_ok(f->table->capture_begin(f->device, r->stream));
    assert_ok(f->table->launch(f->device, r->stream, &request.launch));
    assert_ok(f->table->capture_end(f->device, r->stream, &r->graph));
}

static void finish(const fixture *f, recording *r)
{
    if (r->graph)
        f->table->graph_release(f->device, r->graph);
    f->table->stream_destroy(f->device, r->stream);
    f->table->memory_free(f->device, f->own, &r->a);
    f->table->memory_free(f->device, f->own, &r->b);
    f->table->memory_free(f->device, f->own, &r->y);
    f->table->variant_release(f->device, r->variant);
}

static void update(const fixture *f, const recording *r, const ddisp_backend_memory *a,
                   const ddisp_backend_memory *y)
{
    mul_request request;
    request_of(r, a, y, &request);
    assert_ok(f->table->graph_update(f->device, r->graph, 0, &request.launch));
    memset(&request, 0xFF, sizeof request); /* what was passed is not used any more */
}

/** Each adds to what the one before left. */
static void a_hundred_replays_add_up_without_waiting(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f), *graph = NULL;
    code c;
    code_init(&c, MUL_BACKWARD_SWAP);
    void *variant = variant_make(f, &c, UINT64_MAX);
    ddisp_backend_memory a = filled(f, 3), b = filled(f, 2), g = filled(f, 1);
    ddisp_backend_memory ga = filled(f, 0), gb = filled(f, 0);
    const ddisp_backend_memory *data[3] = {&a, &b, NULL}, *gradients[3] = {&ga, &gb, &g};
    stream_finish(f, f->own);
    assert_ok(t->capture_begin(f->device, stream));
    for (int i = 0; i < 2; i++)
        assert_ok(mul_launch(f, stream, variant, N, data, gradients, 0));
    assert_ok(t->capture_end(f->device, stream, &graph));
    fake_vulkan_reset();
    fake_vulkan_hold(1);
    for (int i = 0; i < 100; i++)
        assert_ok(t->graph_launch(f->device, stream, graph));
    assert_int_equal(fake_vulkan_calls("vkQueueSubmit"), 100);
    assert_int_equal(fake_vulkan_calls(NULL), 100); /* nothing but that */
    fake_vulkan_hold(0);
    stream_finish(f, stream);
    check_all(f, &ga, 2 * 2 * 100);
    check_all(f, &gb, 2 * 3 * 100);
    t->graph_release(f->device, graph);
    t->stream_destroy(f->device, stream);
    ddisp_backend_memory *all[5] = {&a, &b, &g, &ga, &gb};
    for (int i = 0; i < 5; i++)
        t->memory_free(f->device, f->own, all[i]);
    t->variant_release(f->device, variant);
}

/** Other work of the stream is in order with replays, and its tickets stand for them. */
static void replays_are_ordered_with_other_work(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    recording r;
    record(f, &r, false);
    uint64_t first = 0, second = 0;
    const ddisp_backend_range y = range_of(&r.y, 0, BYTES), a = range_of(&r.a, 0, BYTES);
    assert_ok(t->graph_launch(f->device, r.stream, r.graph));
    assert_ok(t->copy(f->device, r.stream, &a, &y)); /* a = 6 */
    assert_ok(t->graph_launch(f->device, r.stream, r.graph));
    assert_ok(t->stream_mark(f->device, r.stream, &first));
    assert_ok(t->graph_launch(f->device, r.stream, r.graph));
    assert_ok(t->stream_mark(f->device, r.stream, &second));
    assert_true(second > first);
    assert_ok(t->stream_synchronize(f->device, r.stream, second, UINT64_MAX));
    check_all(f, &r.y, 12);
    /* What is freed behind a replay is not another stream's before the replay is done. */
    fake_vulkan_hold(1);
    assert_ok(t->graph_launch(f->device, r.stream, r.graph));
    uint64_t address = r.y.address;
    t->memory_free(f->device, r.stream, &r.y);
    ddisp_backend_memory other = memory_make(f, f->own, BYTES);
    assert_int_not_equal(other.address, address);
    fake_vulkan_hold(0);
    stream_finish(f, r.stream);
    r.y = other;
    finish(f, &r);
}

/** Queues work that takes a while, so that what follows it on the stream does not run yet. It is
 * in pieces, since software devices end long loops. */
static void keep_busy(const fixture *f, const recording *r, void *slow)
{
    const ddisp_backend_memory *data[3] = {&r->a, &r->b, &r->y};
    for (int i = 0; i < 20; i++)
        assert_ok(mul_launch(f, r->stream, slow, 64, data, NULL, 5000));
    assert_ok(f->table->stream_flush(f->device, r->stream));
}

static void updates_leave_replays_in_flight_alone(const fixture *f, bool native)
{
    enum { TURNS = 6 };
    recording r;
    code c;
    ddisp_backend_memory from[TURNS], to[TURNS];
    record(f, &r, native);
    code_init(&c, MUL_SPIN);
    void *slow = variant_make(f, &c, UINT64_MAX);
    for (int i = 0; i < TURNS; i++) {
        from[i] = filled(f, (float)(10 * i));
        to[i] = filled(f, -1);
    }
    stream_finish(f, f->own);
    for (int held = 0; held < 2; held++) { /* with nothing in flight, and with everything */
        for (int i = 0; i < TURNS; i++) {
            fill(f, &to[i], -1);
            stream_finish(f, f->own);
        }
        fake_vulkan_hold(held);
        if (held)
            keep_busy(f, &r, slow);
        for (int i = 0; i < TURNS; i++) {
            update(f, &r, &from[TURNS - 1 - i], &r.y); /* is followed by another before a replay */
            update(f, &r, &from[i], &to[i]);
            uint64_t before = fake_vulkan_calls("vkCmdPipelineBarrier");
            assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
            /* Arguments are copied behind the replays that read them. */
            uint64_t ordered = fake_vulkan_calls("vkCmdPipelineBarrier") - before;
            if (held && !native && i > 0)
                assert_int_equal(ordered, r.a.host_pointer ? 2 : 1); /* one for the host */
            if (i % 2)                                               /* once more, with the same */
                assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
            if (!held)
                stream_finish(f, r.stream);
        }
        fake_vulkan_hold(0);
        stream_finish(f, r.stream);
        for (int i = 0; i < TURNS; i++)
            check_all(f, &to[i], (float)(20 * i));
    }
    finish(f, &r);
    f->table->variant_release(f->device, slow);
    for (int i = 0; i < TURNS; i++) {
        f->table->memory_free(f->device, f->own, &from[i]);
        f->table->memory_free(f->device, f->own, &to[i]);
    }
}

static void blocks_change_between_replays_in_flight(void **state)
{
    updates_leave_replays_in_flight_alone(fixture_of(state), false);
}

static void native_arguments_change_between_replays_in_flight(void **state)
{
    updates_leave_replays_in_flight_alone(fixture_of(state), true);
}

/** Updates in flight do not pile up: command buffers are used again once they are done. */
static void updates_make_nothing_new_once_replays_are_done(void **state)
{
    fixture *f = fixture_of(state);
    recording r;
    record(f, &r, true);
    for (int i = 0; i < 3; i++) {
        update(f, &r, &r.a, &r.y);
        assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
    }
    stream_finish(f, r.stream);
    fake_vulkan_reset();
    for (int i = 0; i < 20; i++) {
        update(f, &r, &r.a, &r.y);
        assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
        stream_finish(f, r.stream);
    }
    assert_int_equal(fake_vulkan_calls("vkAllocateCommandBuffers"), 0);
    finish(f, &r);
}

/** Each driver call, and each allocation of host memory, fails in turn: it is said, the replays
 * before it have run, and afterwards it works. */
static void failures_are_said(const fixture *f, bool native, bool of_memory)
{
    bool failed = true;
    for (int n = 1; failed; n++) {
        recording r;
        record(f, &r, native);
        ddisp_backend_memory c = filled(f, 7), d = filled(f, 9);
        stream_finish(f, f->own);
        fake_vulkan_reset();
        fake_vulkan_hold(1);
        assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
        uint64_t ticket = 0;
        assert_ok(f->table->stream_mark(f->device, r.stream, &ticket));
        mul_request request;
        request_of(&r, &c, &r.y, &request);
        if (of_memory)
            atomic_store(&fail_allocation, n);
        else
            fake_vulkan_fail_at((uint64_t)n, -1); /* VK_ERROR_OUT_OF_HOST_MEMORY */
        ddisp_status updated = f->table->graph_update(f->device, r.graph, 0, &request.launch);
        ddisp_status run = f->table->graph_launch(f->device, r.stream, r.graph);
        failed = of_memory ? atomic_load(&fail_allocation) == 0 : fake_vulkan_failed() != NULL;
        atomic_store(&fail_allocation, 0);
        const char *name = fake_vulkan_failed() ? fake_vulkan_failed() : "";
        bool lost = strcmp(name, "vkEndCommandBuffer") == 0;
        /* Who cannot tell that a replay is done takes it to be in flight. */
        bool harmless = strcmp(name, "vkGetSemaphoreCounterValue") == 0;
        if (!of_memory)
            fake_vulkan_reset();
        fake_vulkan_hold(0);
        assert_ok(f->table->stream_synchronize(f->device, r.stream, ticket, UINT64_MAX));
        bool said = updated != DDISP_STATUS_OK || run != DDISP_STATUS_OK;
        assert_int_equal(said, failed && !harmless);
        if (said)
            assert_int_equal(updated != DDISP_STATUS_OK ? updated : run,
                             DDISP_STATUS_OUT_OF_MEMORY);
        if (lost && updated == DDISP_STATUS_OK) { /* the copy of the arguments cannot be had */
            assert_int_equal(f->table->graph_launch(f->device, r.stream, r.graph),
                             DDISP_STATUS_OUT_OF_MEMORY);
        } else {
            if (updated == DDISP_STATUS_OK && run == DDISP_STATUS_OK) {
                stream_finish(f, r.stream);
                check_all(f, &r.y, 14);
            }
            update(f, &r, &d, &r.y);
            assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
            stream_finish(f, r.stream);
            check_all(f, &r.y, 18);
        }
        finish(f, &r);
        f->table->memory_free(f->device, f->own, &d);
        f->table->memory_free(f->device, f->own, &c);
        assert_true(n < 40);
    }
}

static void updates_of_blocks_can_fail(void **state)
{
    failures_are_said(fixture_of(state), false, false);
    failures_are_said(fixture_of(state), false, true);
}

static void updates_of_native_arguments_can_fail(void **state)
{
    failures_are_said(fixture_of(state), true, false);
    failures_are_said(fixture_of(state), true, true);
}

/** Who gives a graph back too early loses nothing but time. */
static void a_graph_can_go_while_it_runs(void **state)
{
    fixture *f = fixture_of(state);
    recording r;
    record(f, &r, false);
    for (int i = 0; i < 70; i++)
        assert_ok(f->table->graph_launch(f->device, r.stream, r.graph));
    f->table->graph_release(f->device, r.graph);
    r.graph = NULL;
    stream_finish(f, r.stream);
    check_all(f, &r.y, 6);
    finish(f, &r);
}

/** Launches with the same arguments share a block; a difference anywhere makes a new one. */
static void blocks_are_written_once(void **state)
{
    fixture *f = fixture_of(state);
    recording r;
    mul_request request;
    record(f, &r, false);
    request_of(&r, &r.a, &r.y, &request);
    assert_ok(f->table->launch(f->device, r.stream, &request.launch));
    uint64_t before = fake_vulkan_calls("vkCmdPushConstants");
    for (int i = 0; i < 5; i++)
        assert_ok(f->table->launch(f->device, r.stream, &request.launch));
    assert_int_equal(fake_vulkan_calls("vkCmdPushConstants"), before);
    request.block.tensors[1].shape[7]++; /* none of the words that blocks are found by */
    assert_ok(f->table->launch(f->device, r.stream, &request.launch));
    assert_int_equal(fake_vulkan_calls("vkCmdPushConstants"), before + 1);
    request.block.tensors[1].data = r.a.address;
    assert_ok(f->table->launch(f->device, r.stream, &request.launch));
    assert_int_equal(fake_vulkan_calls("vkCmdPushConstants"), before + 2);
    stream_finish(f, r.stream);
    check_all(f, &r.y, 9);
    /* More blocks than a chunk holds, each of its own arguments, while nothing is done. */
    ddisp_backend_memory many = memory_make(f, f->own, 600 * 256);
    fake_vulkan_hold(1);
    for (uint64_t i = 0; i < 600; i++) {
        const ddisp_backend_memory y = {many.address + i * 256, 256, many.handle, NULL};
        request_of(&r, &r.a, &y, &request);
        request.launch.items = request.block.head.items = 1 + i % 64;
        request.launch.grid[0] = 1;
        assert_ok(f->table->launch(f->device, r.stream, &request.launch));
    }
    fake_vulkan_hold(0);
    stream_finish(f, r.stream);
    for (uint64_t i = 0; i < 600; i++) {
        float last = 0;
        download(f, f->own, &many, i * 256 + (i % 64) * 4, &last, 4);
        assert_true(last == 6);
    }
    f->table->memory_free(f->device, f->own, &many);
    finish(f, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_replays_add_up_without_waiting),
        cmocka_unit_test(replays_are_ordered_with_other_work),
        cmocka_unit_test(blocks_change_between_replays_in_flight),
        cmocka_unit_test(native_arguments_change_between_replays_in_flight),
        cmocka_unit_test(updates_make_nothing_new_once_replays_are_done),
        cmocka_unit_test(updates_of_blocks_can_fail),
        cmocka_unit_test(updates_of_native_arguments_can_fail),
        cmocka_unit_test(a_graph_can_go_while_it_runs),
        cmocka_unit_test(blocks_are_written_once),
    };
    return cmocka_run_group_tests(tests, setup, fixture_close);
}
