/*
 * test_vulkan_graph.c - recorded commands through the Vulkan backend's table: they run when they
 * are told to, with the arguments that they were last given; what cannot be recorded leaves
 * nothing; and marks tell how much time lies between them.
 */
#include "vulkan_fixture.h"

#include <time.h>

enum { COUNT = 1000 };

typedef struct product {
    ddisp_backend_memory memory[3];
    const ddisp_backend_memory *data[3];
    void *variant;
} product;

static void product_make(const fixture *f, product *p, float a, float b)
{
    float values[COUNT];
    code c;
    code_init(&c, MUL_FORWARD);
    p->variant = variant_make(f, &c, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < COUNT; k++)
            values[k] = i == 0 ? a : i == 1 ? b : -1;
        p->memory[i] = memory_make(f, f->own, sizeof values);
        p->data[i] = &p->memory[i];
        upload(f, f->own, &p->memory[i], 0, values, sizeof values);
    }
    stream_finish(f, f->own);
}

static void product_free(const fixture *f, product *p)
{
    for (int i = 0; i < 3; i++)
        f->table->memory_free(f->device, f->own, &p->memory[i]);
    f->table->variant_release(f->device, p->variant);
}

static void check_all(const fixture *f, const ddisp_backend_memory *memory, float expected)
{
    float values[COUNT];
    download(f, f->own, memory, 0, values, sizeof values);
    for (int k = 0; k < COUNT; k++)
        if (values[k] != expected)
            fail_msg("element %d is %g, not %g", k, (double)values[k], (double)expected);
}

/** More commands than a batch holds, fills of every kind among them. */
static void recorded_work_runs_when_it_is_told_to(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f), *graph = NULL;
    uint64_t bits = UINT64_C(0x4000000040400000); /* 3, 2 as floats */
    product p;
    product_make(f, &p, 3, 5);
    ddisp_backend_memory pairs = memory_make(f, f->own, 4096), odd = memory_make(f, f->own, 64);
    const ddisp_backend_range all = range_of(&pairs, 0, 4096), inner = range_of(&odd, 3, 50);
    assert_ok(t->capture_begin(f->device, stream));
    assert_int_equal(t->capture_begin(f->device, stream), DDISP_STATUS_INVALID_ARGUMENT);
    for (int i = 0; i < 150; i++)
        assert_ok(mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0));
    assert_ok(t->fill(f->device, stream, &all, bits, 8));
    assert_ok(t->fill(f->device, stream, &inner, 0x77, 1));
    assert_ok(t->capture_end(f->device, stream, &graph));
    assert_non_null(graph);
    assert_int_equal(t->capture_end(f->device, stream, &graph), DDISP_STATUS_INVALID_ARGUMENT);
    check_all(f, &p.memory[2], -1);
    for (int i = 0; i < 3; i++)
        assert_ok(t->graph_launch(f->device, stream, graph));
    stream_finish(f, stream);
    check_all(f, &p.memory[2], 15);
    uint64_t found[2];
    uint8_t bytes[50];
    download(f, f->own, &pairs, 4096 - sizeof found, found, sizeof found);
    assert_true(found[0] == bits && found[1] == bits);
    download(f, f->own, &odd, 3, bytes, sizeof bytes);
    for (int i = 0; i < 50; i++)
        assert_int_equal(bytes[i], 0x77);
    t->graph_release(f->device, graph);
    t->memory_free(f->device, f->own, &pairs);
    t->memory_free(f->device, f->own, &odd);
    product_free(f, &p);
    t->stream_destroy(f->device, stream);
}

static void an_empty_recording_can_be_run(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f), *graph = NULL;
    ddisp_backend_launch launch = DDISP_ZERO;
    assert_ok(t->capture_begin(f->device, stream));
    assert_ok(t->capture_end(f->device, stream, &graph));
    assert_ok(t->graph_launch(f->device, stream, graph));
    stream_finish(f, stream);
    assert_int_equal(t->graph_update(f->device, graph, 0, &launch), DDISP_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(last_message, "0 recorded launches"));
    t->graph_release(f->device, graph);
    t->stream_destroy(f->device, stream);
}

static void thrown_away_recordings_leave_nothing(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f);
    product p;
    product_make(f, &p, 2, 4);
    assert_ok(t->capture_begin(f->device, stream));
    assert_ok(mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0));
    assert_ok(t->capture_end(f->device, stream, NULL));
    stream_finish(f, stream);
    check_all(f, &p.memory[2], -1);
    assert_ok(mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0));
    stream_finish(f, stream);
    check_all(f, &p.memory[2], 8); /* the stream runs its work again */
    assert_ok(t->capture_begin(f->device, stream));
    assert_ok(mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0));
    t->stream_destroy(f->device, stream); /* while it records */
    product_free(f, &p);
}

/** Each allocation of host memory fails in turn: the recording is refused or complete. */
static void recordings_without_memory_are_refused(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f);
    product p;
    bool failed = true;
    product_make(f, &p, 2, 4);
    for (int n = 1; failed; n++) {
        void *graph = NULL;
        int before = atomic_load(&live);
        atomic_store(&fail_allocation, n);
        ddisp_status status = t->capture_begin(f->device, stream);
        bool began = status == DDISP_STATUS_OK;
        for (int i = 0; i < 20 && status == DDISP_STATUS_OK; i++)
            status = mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0);
        failed = atomic_load(&fail_allocation) == 0;
        atomic_store(&fail_allocation, 0);
        if (status != DDISP_STATUS_OK)
            assert_int_equal(status, DDISP_STATUS_OUT_OF_MEMORY);
        if (began)
            (void)t->capture_end(f->device, stream, status == DDISP_STATUS_OK ? &graph : NULL);
        assert_int_equal(failed, graph == NULL);
        if (graph)
            t->graph_release(f->device, graph);
        assert_int_equal(atomic_load(&live), before);
        assert_true(n < 100);
    }
    t->stream_destroy(f->device, stream);
    product_free(f, &p);
}

static void time_passes_between_marks(void **state)
{
    fixture *f = fixture_of(state);
    const ddisp_backend_table *t = f->table;
    void *stream = stream_make(f);
    uint64_t begin = 0, end = 0, elapsed = 0;
    const struct timespec pause = {0, 3000000};
    product p;
    product_make(f, &p, 2, 4);
    assert_ok(t->stream_mark_timed(f->device, stream, &begin));
    assert_ok(t->stream_synchronize(f->device, stream, begin, UINT64_MAX));
    (void)nanosleep(&pause, NULL);
    assert_ok(mul_launch(f, stream, p.variant, COUNT, p.data, NULL, 0));
    assert_ok(t->stream_mark_timed(f->device, stream, &end));
    assert_true(end > begin);
    assert_ok(t->stream_synchronize(f->device, stream, end, UINT64_MAX));
    assert_ok(t->stream_elapsed(f->device, stream, begin, stream, end, &elapsed));
    assert_true(elapsed >= 3000000);
    assert_int_equal(t->stream_elapsed(f->device, stream, end, stream, begin, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_int_equal(t->stream_elapsed(f->device, stream, begin, stream, end + 1, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(last_message, "no time"));
    for (int i = 0; i < 1030; i++) /* more than are kept */
        assert_ok(t->stream_mark_timed(f->device, stream, &end));
    assert_ok(t->stream_synchronize(f->device, stream, end, UINT64_MAX));
    assert_int_equal(t->stream_elapsed(f->device, stream, begin, stream, end, &elapsed),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_ok(t->stream_elapsed(f->device, stream, end - 1, stream, end, &elapsed));
    product_free(f, &p);
    t->stream_destroy(f->device, stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_work_runs_when_it_is_told_to),
        cmocka_unit_test(an_empty_recording_can_be_run),
        cmocka_unit_test(thrown_away_recordings_leave_nothing),
        cmocka_unit_test(recordings_without_memory_are_refused),
        cmocka_unit_test(time_passes_between_marks),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
