/*
 * test_cuda_loss.c - the CUDA backend when the device is lost: at each call of a whole life, and
 * while everything is open. After a loss nothing may reach the driver.
 *
 * A loss lasts as long as the process, so every such case runs in a child of its own.
 */
#include "cuda_life.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs check in a child. Its message and result come back. */
static void in_child(void (*check)(const void *), const void *argument)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        check(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the child ended with %d", status);
    }
}

static void must(int truth, const char *what, uint64_t nth)
{
    if (!truth) {
        (void)fprintf(stderr, "loss at call %llu: %s\n", (unsigned long long)nth, what);
        _exit(1);
    }
}

typedef struct loss {
    uint64_t nth;
    cu__result result;
} loss;

static void lose(const void *argument)
{
    const loss *self = argument;
    life first, second;
    fake_cuda_reset();
    fake_cuda_lose_at(self->nth, self->result);
    live(&first);
    must(fake_cuda_lost(), "it happens", self->nth);
    must(!first.disturbed, "the current context stays", self->nth);
    must(!first.wrong, "no wrong results", self->nth);
    must(sample_live_host_allocations == 0, "nothing is left on the host", self->nth);
    must(first.status == DDISP_STATUS_OK || first.status == DDISP_STATUS_DEVICE_LOST ||
             first.status == DDISP_STATUS_BACKEND_UNAVAILABLE,
         "the status is that of a loss", self->nth);
    must(first.after_loss == 0, "no driver call after the loss", self->nth);
    if (first.status == DDISP_STATUS_DEVICE_LOST) {
        uint64_t calls = fake_cuda_call_count(NULL);
        live(&second);
        must(second.status == DDISP_STATUS_BACKEND_UNAVAILABLE, "it cannot be opened again",
             self->nth);
        must(strstr(second.message, "start a new one") != NULL, "and that is explained", self->nth);
        must(fake_cuda_call_count(NULL) == calls, "without asking the driver", self->nth);
    }
}

static uint64_t calls_of_a_life(void)
{
    life whole;
    fake_cuda_reset();
    live(&whole);
    assert_int_equal(whole.status, DDISP_STATUS_OK);
    static const char *const calls[] = {
        "cuLaunchKernel",        "cuGraphLaunch",      "cuGraphExecKernelNodeSetParams",
        "cuLinkComplete",        "cuFuncGetParamInfo", "cuEventElapsedTime",
        "cuStreamGetCaptureInfo"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_true(fake_cuda_call_count(calls[i]) > 0);
    }
    return fake_cuda_call_count(NULL);
}

static void nothing_reaches_the_driver_after_a_loss(void **state)
{
    (void)state;
    loss each = {0, CU__ERROR_ILLEGAL_ADDRESS};
    uint64_t count = calls_of_a_life();
    assert_true(count > 250);
    for (each.nth = 1; each.nth <= count; each.nth++) {
        in_child(lose, &each);
    }
}

static void every_fatal_result_is_a_loss(void **state)
{
    static const cu__result results[] = {4,   214, 220, 226, 700, 702, 709, 710, 714,
                                         715, 716, 717, 718, 719, 721, 810, 911};
    (void)state;
    loss each = {60, 0};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        each.result = results[i];
        in_child(lose, &each);
    }
}

static void lose_while_open(const void *argument)
{
    const loss *self = argument;
    void *variant = NULL, *other = NULL, *graph = NULL, *recording = NULL;
    uint64_t ticket = 0;
    ddisp_backend_memory memory;
    must(fixture_open(NULL) == 0, "it opens", 0);
    memory = fixture_allocate(100);
    must(fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant) ==
             DDISP_STATUS_OK,
         sample_message, 0);
    must(table->capture_begin(device, stream) == DDISP_STATUS_OK, sample_message, 0);
    must(table->capture_end(device, stream, &graph) == DDISP_STATUS_OK, sample_message, 0);
    must(table->stream_create(device, 0, &recording) == DDISP_STATUS_OK, sample_message, 0);
    must(table->capture_begin(device, recording) == DDISP_STATUS_OK, sample_message, 0);
    must(table->stream_mark(device, stream, &ticket) == DDISP_STATUS_OK, sample_message, 0);
    fake_cuda_fail_function("cuEventQuery", 1, self->result);
    must(table->stream_query(device, stream, ticket) == DDISP_STATUS_DEVICE_LOST, "it is lost", 0);
    uint64_t calls = fake_cuda_call_count(NULL);
    static const unsigned char block[SAMPLE_BLOCK_BYTES];
    ddisp_backend_range range = fixture_range(&memory, 0, 100);
    unsigned char bytes[100] = {0};
    ddisp_status lost[] = {
        table->stream_query(device, stream, ticket),
        table->stream_flush(device, stream),
        table->stream_mark(device, stream, &ticket),
        table->stream_wait(device, stream, stream, ticket),
        table->stream_synchronize(device, stream, ticket, UINT64_MAX),
        table->stream_synchronize(device, stream, ticket, 0),
        table->stream_create(device, 0, &other),
        table->upload(device, stream, &range, bytes),
        table->download(device, stream, &range, bytes),
        table->fill(device, stream, &range, 0, 4),
        table->copy(device, stream, &range, &range),
        table->memory_allocate(device, stream, 100, &memory),
        table->memory_trim(device),
        table->stream_wrap(device, 0, &other),
        table->stream_mark_timed(device, stream, &ticket),
        table->stream_elapsed(device, stream, 1, stream, 2, &ticket),
        table->capture_begin(device, stream),
        table->graph_launch(device, stream, graph),
        table->capture_end(device, recording, &other),
        fixture_launch(variant, block, SAMPLE_BLOCK_BYTES, 0),
        fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 0, &other),
        table->device_open(instance, 0, &other),
    };
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        must(lost[i] == DDISP_STATUS_DEVICE_LOST, "every call says so", i);
    }
    sample_warnings = 0;
    table->graph_release(device, graph);
    table->variant_release(device, variant);
    table->memory_free(device, stream, &memory);
    table->stream_destroy(device, recording);
    table->stream_destroy(device, stream);
    table->device_close(device);
    table->close(instance);
    must(sample_live_host_allocations == 0, "nothing is left on the host", 0);
    must(sample_warnings == 0, "releasing is silent", 0);
    must(fake_cuda_current_context() == NULL, "no context is left current", 0);
    must(fake_cuda_call_count(NULL) == calls, "the driver is left alone", 0);
}

static void case_44_lost_device_answers_at_once_and_releases_in_silence(void **state)
{
    (void)state;
    loss each = {0, CU__ERROR_ILLEGAL_ADDRESS};
    in_child(lose_while_open, &each);
    each.result = CU__ERROR_LAUNCH_FAILED;
    in_child(lose_while_open, &each);
}

static void shut_down(const void *argument)
{
    const loss *self = argument;
    void *variant = NULL;
    ddisp_backend_memory memory;
    must(fixture_open(NULL) == 0, "it opens", 0);
    memory = fixture_allocate(100);
    must(fixture_build("sample_forward", DDISP_MODE_FORWARD, SAMPLE_BLOCK_BYTES, 3, 0, &variant) ==
             DDISP_STATUS_OK,
         sample_message, 0);
    fake_cuda_lose_at(1, self->result);
    table->variant_release(device, variant);
    table->memory_free(device, stream, &memory);
    table->stream_destroy(device, stream);
    table->device_close(device);
    table->close(instance);
    must(sample_warnings == 0, "releasing is silent", 0);
    must(sample_live_host_allocations == 0, "nothing is left on the host", 0);
}

static void release_after_shutdown_is_silent(void **state)
{
    (void)state;
    loss each = {0, CU__ERROR_DEINITIALIZED};
    in_child(shut_down, &each);
    each.result = CU__ERROR_CONTEXT_IS_DESTROYED;
    in_child(shut_down, &each);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_reaches_the_driver_after_a_loss),
        cmocka_unit_test(every_fatal_result_is_a_loss),
        cmocka_unit_test(case_44_lost_device_answers_at_once_and_releases_in_silence),
        cmocka_unit_test(release_after_shutdown_is_silent),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
