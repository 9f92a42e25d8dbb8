/*
 * test_cuda_failure.c - the CUDA backend when the driver fails: each call of a whole life in turn,
 * and the loss of the device at each of them. Nothing may leak, lie, or disturb the caller's
 * current context; after a loss nothing may reach the driver.
 *
 * A loss lasts as long as the process, so every such case runs in a child of its own.
 */
#include "cuda_elf.h"
#include "cuda_fixture.h"
#include "fake_nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a life, which goes as far as it can and then cleans up */

typedef struct life {
    cu__context context; /* current on entry, and after every call */
    ddisp_status status; /* first failure */
    char message[2048];
    int disturbed;  /* a call left another context current */
    int wrong;      /* a call succeeded with wrong results */
    int after_loss; /* driver calls of table calls that began after the loss */
    int lost;
    uint64_t known; /* driver calls so far */
} life;

/* Looks around after every call of the table. */
static void look(life *self)
{
    uint64_t now = fake_cuda_call_count(NULL);
    self->disturbed |= fake_cuda_current_context() != self->context;
    if (self->lost) {
        self->after_loss += (int)(now - self->known);
    }
    self->known = now;
    self->lost = fake_cuda_lost();
}

static int did(life *self, ddisp_status status)
{
    look(self);
    if (status != DDISP_STATUS_OK && self->status == DDISP_STATUS_OK) {
        self->status = status;
        (void)snprintf(self->message, sizeof self->message, "%s", sample_message);
    }
    return status == DDISP_STATUS_OK;
}

static void expect(life *self, const void *got, const void *wanted, size_t size)
{
    self->wrong |= memcmp(got, wanted, size) != 0;
}

/* Both ways through memory, once small and once large. */
static void transfer(life *self, uint64_t size_bytes)
{
    ddisp_backend_memory memory = {0}, other = {0};
    unsigned char *sent = malloc(size_bytes), *got = calloc(1, size_bytes);
    memset(sent, 0x42, size_bytes);
    if (did(self, table->memory_allocate(device, stream, size_bytes, &memory))) {
        ddisp_backend_range range = fixture_range(&memory, 0, size_bytes);
        if (did(self, table->memory_allocate(device, stream, size_bytes, &other))) {
            ddisp_backend_range copy = fixture_range(&other, 0, size_bytes);
            if (did(self, table->upload(device, stream, &range, sent)) &&
                did(self, table->copy(device, stream, &copy, &range)) &&
                did(self, table->download(device, stream, &copy, got))) {
                expect(self, got, sent, size_bytes);
            }
            for (size_t i = 0; i < size_bytes; i++) {
                sent[i] = (unsigned char)(UINT64_C(0x0102030405060708) >> 8 * (i % 8));
            }
            if (did(self, table->fill(device, stream, &range, 7, 1)) &&
                did(self, table->fill(device, stream, &range, UINT64_C(0x0102030405060708), 8)) &&
                did(self, table->download(device, stream, &range, got))) {
                expect(self, got, sent, size_bytes);
            }
            table->memory_free(device, stream, &other);
            look(self);
        }
        table->memory_free(device, stream, &memory);
        look(self);
    }
    free(sent);
    free(got);
}

static void compute(life *self)
{
    static const unsigned char block[WIDE_BLOCK_BYTES];
    void *variant = NULL;
    if (did(self, fixture_build("sample_backward", DDISP_MODE_BACKWARD, SAMPLE_BLOCK_BYTES, 1,
                                60000, &variant))) {
        (void)did(self, fixture_launch(variant, block, SAMPLE_BLOCK_BYTES, 60000));
        table->variant_release(device, variant);
        look(self);
    }
    if (did(self,
            fixture_build("sample_wide", DDISP_MODE_FORWARD, WIDE_BLOCK_BYTES, 3, 0, &variant))) {
        (void)did(self, fixture_launch(variant, block, WIDE_BLOCK_BYTES, 0));
        table->variant_release(device, variant);
        look(self);
    }
}

/* Code of other formats, and code that was kept. */
static void compile(life *self)
{
    static const char source[] = "extern \"C\" __global__ void blocked(block)";
    static const size_t block_bytes[1] = {SAMPLE_BLOCK_BYTES};
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    void *variant = NULL, *artifact = NULL;
    uint64_t size = 0;
    ddisp_backend_variant wanted = {.size = (uint32_t)sizeof wanted,
                                    .mode = DDISP_MODE_BACKWARD,
                                    .code = &code.backend_code,
                                    .entry = &code.entries[0],
                                    .switches = UINT64_MAX,
                                    .switch_mask = 3};
    fake_cuda_set_function_params(block_bytes, 1);
    sample_declare(&code, (const char *)bytes, elf_sm_90("k", NULL, bytes), DDISP_MODE_BACKWARD,
                   "k", 256);
    code.code.format = "cubin";
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    wanted.entry_name = "k";
    if (did(self, table->variant_build(device, &wanted, &variant))) {
        table->variant_release(device, variant);
        look(self);
    }
    sample_declare(&code, source, sizeof source - 1, DDISP_MODE_BACKWARD, "blocked", 256);
    code.code.format = "cuda-c++";
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    wanted.entry_name = "blocked";
    if (did(self,
            table->artifact_make(&sample_services, device, "sm_90", &wanted, &artifact, &size))) {
        wanted.artifact = artifact;
        wanted.artifact_size_bytes = size;
        if (did(self, table->variant_build(device, &wanted, &variant))) {
            table->variant_release(device, variant);
            look(self);
        }
        sample_services.release(NULL, artifact);
    }
}

/* A recording with a launch whose block goes by pointer, replayed and changed. */
static void record(life *self)
{
    static unsigned char block[WIDE_BLOCK_BYTES];
    unsigned char bytes[64] = {0}, wanted[64];
    void *variant = NULL, *graph = NULL;
    ddisp_backend_memory memory = {0};
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .block = block,
                                   .block_size_bytes = WIDE_BLOCK_BYTES,
                                   .items = 1000,
                                   .grid = {4, 1, 1},
                                   .group_size = {256, 1, 1}};
    memset(wanted, 0x33, sizeof wanted);
    if (!did(self, table->memory_allocate(device, stream, 64, &memory))) {
        return;
    }
    ddisp_backend_range range = fixture_range(&memory, 0, 64);
    if (did(self,
            fixture_build("sample_wide", DDISP_MODE_FORWARD, WIDE_BLOCK_BYTES, 3, 0, &variant))) {
        launch.variant = variant;
        if (did(self, table->capture_begin(device, stream))) {
            int whole = did(self, table->fill(device, stream, &range, 0x33, 1)) &&
                        did(self, table->launch(device, stream, &launch));
            ddisp_status ended = table->capture_end(device, stream, &graph);
            (void)did(self, ended);
            if (ended == DDISP_STATUS_OK && whole &&
                did(self, table->graph_launch(device, stream, graph)) &&
                did(self, table->graph_update(device, graph, 0, &launch)) &&
                did(self, table->graph_launch(device, stream, graph)) &&
                did(self, table->download(device, stream, &range, bytes))) {
                expect(self, bytes, wanted, sizeof bytes);
            }
            if (ended == DDISP_STATUS_OK) {
                table->graph_release(device, graph);
                look(self);
            }
        }
        if (did(self, table->capture_begin(device, stream))) {
            (void)did(self, table->fill(device, stream, &range, 0, 1));
            (void)did(self, table->capture_end(device, stream, NULL));
        }
        table->variant_release(device, variant);
        look(self);
    }
    table->memory_free(device, stream, &memory);
    look(self);
}

static void tell_time(life *self)
{
    void *legacy = NULL;
    uint64_t begin = 0, end = 0, elapsed = 0;
    if (did(self, table->stream_wrap(device, 0, &legacy))) {
        if (did(self, table->stream_mark_timed(device, legacy, &begin)) &&
            did(self, table->stream_mark_timed(device, stream, &end)) &&
            did(self, table->stream_elapsed(device, legacy, begin, stream, end, &elapsed))) {
            self->wrong |= elapsed != 1500000;
        }
        table->stream_destroy(device, legacy);
        look(self);
    }
}

static void order(life *self)
{
    void *other = NULL;
    uint64_t ticket = 0;
    if (did(self, table->stream_create(device, 0, &other))) {
        if (did(self, table->stream_flush(device, stream)) &&
            did(self, table->stream_mark(device, stream, &ticket)) &&
            did(self, table->stream_mark(device, stream, &ticket)) &&
            did(self, table->stream_wait(device, other, stream, ticket))) {
            (void)did(self, table->stream_query(device, stream, ticket));
            (void)did(self, table->stream_mark(device, stream, &ticket));
            (void)did(self, table->stream_synchronize(device, stream, ticket, UINT64_MAX));
            (void)did(self, table->stream_synchronize(device, stream, ticket, 1));
        }
        table->stream_destroy(device, other);
        look(self);
    }
}

static void live(life *self)
{
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    void *opened = NULL, *made = NULL;
    memset(self, 0, sizeof *self);
    self->context = fake_cuda_current_context();
    self->known = fake_cuda_call_count(NULL);
    if (!did(self, table->open(&sample_services, &instance))) {
        return;
    }
    (void)did(self, table->device_describe(instance, 0, &info));
    if (did(self, table->device_open(instance, 0, &opened))) {
        device = opened;
        if (did(self, table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &made))) {
            stream = made;
            transfer(self, 1000);
            transfer(self, 100000);
            compute(self);
            compile(self);
            record(self);
            tell_time(self);
            order(self);
            table->stream_destroy(device, stream);
            look(self);
        }
        table->device_close(device);
        look(self);
    }
    table->close(instance);
    look(self);
}

/* ---- one failure */

static void failing_call_is_reported(cu__result result, cu__context current)
{
    static const ddisp_status known[] = {
        DDISP_STATUS_OUT_OF_MEMORY, DDISP_STATUS_OUT_OF_DEVICE_MEMORY,
        DDISP_STATUS_DRIVER_ERROR,  DDISP_STATUS_BACKEND_UNAVAILABLE,
        DDISP_STATUS_CODE_REJECTED, DDISP_STATUS_NOT_READY,
        DDISP_STATUS_TIMEOUT};
    int reported = 0;
    for (uint64_t nth = 1;; nth++) {
        life self;
        fake_cuda_reset();
        if (current) {
            assert_int_equal(cuInit(0), CU__SUCCESS);
            assert_int_equal(cuCtxPushCurrent_v2(current), CU__SUCCESS);
        }
        fake_cuda_fail_at(nth, result);
        live(&self);
        int failed = fake_cuda_failed();
        if (current) {
            assert_ptr_equal(fake_cuda_current_context(), current);
            fake_cuda_reset();
            assert_int_equal(cuCtxPopCurrent_v2(&current), CU__SUCCESS);
        }
        if (self.disturbed || self.wrong || fake_cuda_live() || sample_live_host_allocations) {
            fail_msg("call %llu: context disturbed %d, wrong results %d, %llu left in the driver, "
                     "%llu on the host; status %u: %s",
                     (unsigned long long)nth, self.disturbed, self.wrong,
                     (unsigned long long)fake_cuda_live(),
                     (unsigned long long)sample_live_host_allocations, self.status, self.message);
        }
        if (!failed) {
            assert_int_equal(self.status, DDISP_STATUS_OK); /* a life without failure is whole */
            break;
        }
        if (self.status != DDISP_STATUS_OK) {
            int is_known = 0;
            for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
                is_known |= self.status == known[i];
            }
            assert_true(is_known);
            assert_true(strlen(self.message) > 10);
            reported++;
        }
    }
    assert_true(reported > 40);
}

static void every_call_may_fail(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_UNKNOWN, NULL);
}

static void every_call_may_run_out_of_memory(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_OUT_OF_MEMORY, NULL);
}

static void callers_context_stays_current(void **state)
{
    (void)state;
    failing_call_is_reported(CU__ERROR_UNKNOWN, fake_cuda_foreign_context());
}

/* The compiler's calls too. */
static void every_call_of_the_compiler_may_fail(void **state)
{
    (void)state;
    static const int results[] = {1, 11, 6}; /* out of memory, internal, compilation */
    for (int k = 0; k < 3; k++) {
        uint64_t nth = 1;
        for (;; nth++) {
            life self;
            fake_cuda_reset();
            fake_nvrtc_fail_at(nth, results[k]);
            live(&self);
            if (!fake_nvrtc_failed()) {
                break;
            }
            assert_int_equal(fake_nvrtc_live(), 0);
            assert_int_equal(fake_cuda_live(), 0);
            assert_int_equal(sample_live_host_allocations, 0);
            assert_true(self.status == DDISP_STATUS_OK || /* a log that cannot be had */
                        self.status == DDISP_STATUS_CODE_REJECTED ||
                        (k == 0 && self.status == DDISP_STATUS_OUT_OF_MEMORY));
        }
        assert_true(nth > 4);
        fake_nvrtc_fail_at(0, 0);
    }
}

static void failures_are_named(void **state)
{
    void *made = NULL;
    (void)state;
    assert_int_equal(fixture_open(NULL), 0);
    fake_cuda_fail_function("cuStreamCreate", 1, CU__ERROR_UNKNOWN);
    assert_int_equal(table->stream_create(device, 0, &made), DDISP_STATUS_DRIVER_ERROR);
    assert_string_equal(sample_message,
                        "cuda:0: cuStreamCreate: CUDA_ERROR_UNKNOWN (999): said by the fake");
    fake_cuda_fail_function("cuEventRecord", 1, CU__ERROR_OUT_OF_MEMORY);
    uint64_t ticket;
    assert_int_equal(table->stream_mark(device, stream, &ticket),
                     DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_string_equal(sample_message,
                        "cuda:0: cuEventRecord: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    assert_int_equal(table->stream_mark(device, stream, &ticket), DDISP_STATUS_OK);
    assert_int_equal(fixture_close(NULL), 0);
}

/* ---- loss, in a child */

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

static void lost_device_answers_at_once_and_releases_in_silence(void **state)
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
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_call_may_run_out_of_memory),
        cmocka_unit_test(callers_context_stays_current),
        cmocka_unit_test(every_call_of_the_compiler_may_fail),
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(nothing_reaches_the_driver_after_a_loss),
        cmocka_unit_test(every_fatal_result_is_a_loss),
        cmocka_unit_test(lost_device_answers_at_once_and_releases_in_silence),
        cmocka_unit_test(release_after_shutdown_is_silent),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
