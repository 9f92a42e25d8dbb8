/*
 * test_step.c - a forward and backward step with scratch, sink, specialized code, a prepared
 * launch, and a recorded one, in which every call of the driver and every allocation of the core
 * fails in turn. Each failure is typed and says something, leaves everything as it was, and the
 * same call then works; in the end the results are right and nothing is left.
 */
#include "step.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- allocations of the core */

static atomic_int live_blocks, fail_in; /* 0: none fails */
static atomic_bool has_failed;

static void *allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    if (atomic_load(&fail_in) > 0 && atomic_fetch_sub(&fail_in, 1) == 1) {
        atomic_store(&has_failed, true);
        return NULL;
    }
    atomic_fetch_add(&live_blocks, 1);
    return malloc(size_bytes);
}

static void release(void *user_data, void *pointer)
{
    (void)user_data;
    atomic_fetch_sub(&live_blocks, 1);
    free(pointer);
}

static void quiet(void *user_data, ddisp_log_level level, const char *message)
{
    (void)user_data;
    (void)level;
    (void)message;
}

/* ---- opening */

static ddisp_status open_device(run *r)
{
    static const ddisp_allocator allocator = {
        .size = sizeof allocator, .allocate = allocate, .release = release};
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.allocator = &allocator;
    desc.backends = step_backend;
    desc.log = quiet;
    ddisp_status status = ddisp_context_create(&desc, &r->context);
    if (status == DDISP_STATUS_OK)
        status = ddisp_device_open(r->context, step_backend, &r->device);
    if (status != DDISP_STATUS_OK) {
        ddisp_context_release(r->context);
        r->context = NULL;
    }
    return status;
}

/* ---- what must be as before */

typedef struct snapshot {
    uint64_t live, gradients, scratch;
    uint32_t a, y;
} snapshot;

static uint32_t grad_state(ddisp_tensor *tensor)
{
    ddisp_tensor_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    if (tensor)
        assert_int_equal(ddisp_tensor_get_info(tensor, &info), DDISP_STATUS_OK);
    return info.grad_state;
}

static snapshot look(run *r)
{
    ddisp_device_statistics s = DDISP_ZERO;
    s.size = (uint32_t)sizeof s;
    assert_int_equal(ddisp_device_get_statistics(r->device, &s), DDISP_STATUS_OK);
    return (snapshot){.live = s.bytes_live - s.sink_bytes_live,
                      .gradients = s.gradient_bytes_live,
                      .scratch = s.scratch_bytes_live,
                      .a = grad_state(r->a),
                      .y = grad_state(r->y)};
}

static void check_failure(const char *step, ddisp_status status)
{
    static const ddisp_status typed[] = {
        DDISP_STATUS_OUT_OF_MEMORY, DDISP_STATUS_OUT_OF_DEVICE_MEMORY, DDISP_STATUS_DRIVER_ERROR,
        DDISP_STATUS_CODE_REJECTED, DDISP_STATUS_BACKEND_UNAVAILABLE};
    char message[600] = "";
    bool known = false;
    (void)ddisp_last_error(message, sizeof message, NULL);
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++)
        known |= status == typed[i];
    if (!known || strlen(message) < 10)
        fail_msg("%s: %s: %s", step, ddisp_status_name(status), message);
}

/* Runs a step, and again when it failed. */
static void take(run *r, size_t i)
{
    snapshot before = look(r);
    ddisp_status status = steps[i].run(r);
    step_check(steps[i].name);
    if (status == DDISP_STATUS_OK)
        return;
    check_failure(steps[i].name, status);
    r->failures++;
    const char *failed = step_failed();
    snapshot after = look(r);
    if (memcmp(&before, &after, sizeof before) != 0)
        fail_msg("%s failed at %s and changed: %llu bytes live before and %llu after, gradient of "
                 "a %u and %u, of y %u and %u",
                 steps[i].name, failed ? failed : "an allocation", (unsigned long long)before.live,
                 (unsigned long long)after.live, before.a, after.a, before.y, after.y);
    status = steps[i].run(r);
    step_check(steps[i].name);
    if (status == DDISP_STATUS_OK)
        return;
    char message[600] = "";
    (void)ddisp_last_error(message, sizeof message, NULL);
    if (!failed || !step_loses_work(failed))
        fail_msg("%s, tried again after a failure at %s: %s: %s", steps[i].name,
                 failed ? failed : "an allocation", ddisp_status_name(status), message);
    r->fatal = true;
}

static void give_back(run *r)
{
    ddisp_event_release(r->events[0]);
    ddisp_event_release(r->events[1]);
    ddisp_graph_release(r->graph);
    ddisp_plan_release(r->plan);
    ddisp_tensor_release(r->a);
    ddisp_tensor_release(r->b);
    ddisp_tensor_release(r->y);
    ddisp_tensor_release(r->upstream);
    ddisp_kernel_release(r->kernels[0]);
    ddisp_kernel_release(r->kernels[1]);
    ddisp_stream_release(r->stream);
    ddisp_device *device = r->device;
    ddisp_context *context = r->context;
    memset(r, 0, sizeof *r);
    r->device = device;
    r->context = context;
    step_check("releasing");
}

/* All steps; returns how many failed. */
static uint32_t live(run *r)
{
    for (size_t i = 0; i < step_count && !r->fatal; i++)
        take(r, i);
    if (!r->fatal)
        for (int i = 0; i < 3; i++) /* five times 1 b: scratch, sink, specialized, plan, replay */
            if (r->found[i] != 15)
                fail_msg("element %d of the gradient is %g", i, (double)r->found[i]);
    uint32_t failures = r->failures;
    give_back(r);
    return failures;
}

/* Opens the device, or skips the test where there is none. */
static void begin(run *r)
{
    memset(r, 0, sizeof *r);
    step_prepare();
    ddisp_status status = open_device(r);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE || status == DDISP_STATUS_NOT_FOUND) {
        char message[600] = "";
        (void)ddisp_last_error(message, sizeof message, NULL);
        print_message("# skipped: %s\n", message);
        skip();
    }
    assert_int_equal(status, DDISP_STATUS_OK);
}

static void end(run *r)
{
    ddisp_device_release(r->device);
    ddisp_context_release(r->context);
    assert_int_equal(step_live(), 0);
    assert_int_equal(atomic_load(&live_blocks), 0);
}

static void every_call_of_the_driver_may_fail(void **state)
{
    run r;
    (void)state;
    begin(&r);
    assert_int_equal(live(&r), 0);
    for (uint32_t k = 0; k < step_result_count; k++) {
        uint32_t failures = 0;
        for (uint64_t nth = 1;; nth++) {
            step_fail_at(nth, step_results[k]);
            failures += live(&r);
            bool done = !step_failed();
            bool lost_work = !done && step_loses_work(step_failed());
            step_fail_at(0, 0);
            if (done)
                break;
            if (lost_work) { /* the device's own stream is of no more use */
                end(&r);
                begin(&r);
            }
        }
        assert_true(failures > 20);
    }
    end(&r);
}

static void every_allocation_of_the_core_may_fail(void **state)
{
    run r;
    uint32_t failures = 0;
    (void)state;
    begin(&r);
    for (int nth = 1;; nth++) {
        atomic_store(&has_failed, false);
        atomic_store(&fail_in, nth);
        failures += live(&r);
        atomic_store(&fail_in, 0);
        if (!atomic_load(&has_failed))
            break;
    }
    assert_true(failures > 40);
    end(&r);
}

static void every_allocation_of_opening_may_fail(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        run r;
        memset(&r, 0, sizeof r);
        step_prepare();
        atomic_store(&has_failed, false);
        atomic_store(&fail_in, nth);
        ddisp_status status = open_device(&r);
        atomic_store(&fail_in, 0);
        if (status != DDISP_STATUS_OK && !atomic_load(&has_failed))
            skip();
        if (status != DDISP_STATUS_OK)
            assert_int_equal(status, DDISP_STATUS_OUT_OF_MEMORY);
        else
            ddisp_device_release(r.device);
        ddisp_context_release(r.context);
        assert_int_equal(step_live(), 0);
        assert_int_equal(atomic_load(&live_blocks), 0);
        if (!atomic_load(&has_failed))
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_the_driver_may_fail),
        cmocka_unit_test(every_allocation_of_the_core_may_fail),
        cmocka_unit_test(every_allocation_of_opening_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
