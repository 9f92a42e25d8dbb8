/*
 * test_cuda_wrap.c - the CUDA backend over the stand-in driver, in a context of the application;
 * and what it tells about its memory.
 */
#include "cuda_fixture.h"

#include <diffdispatch/cuda.h>

static ddisp_cuda_device_desc desc_of(cu__context context)
{
    ddisp_cuda_device_desc desc = {
        .head = {.size = (uint32_t)sizeof desc, .type = DDISP_CHAIN_CUDA_DEVICE},
        .context = context};
    return desc;
}

/* ---- a context of the application */

/* Allocates, copies, launches, waits; the current context is the same after each call. */
static void use(void *wrapped, cu__context current)
{
    ddisp_backend_memory memory = {0};
    unsigned char sent[100], got[100] = {0};
    void *made = NULL;
    uint64_t ticket = 0;
    memset(sent, 9, sizeof sent);
#define SAME(call)                                                                                 \
    do {                                                                                           \
        assert_int_equal((call), DDISP_STATUS_OK);                                                 \
        assert_ptr_equal(fake_cuda_current_context(), current);                                    \
    } while (0)
    SAME(table->stream_create(wrapped, DDISP_BACKEND_STREAM_DEFAULT, &made));
    SAME(table->memory_allocate(wrapped, made, 100, &memory));
    ddisp_backend_range range = fixture_range(&memory, 0, 100);
    SAME(table->upload(wrapped, made, &range, sent));
    SAME(table->download(wrapped, made, &range, got));
    assert_memory_equal(sent, got, 100);
    SAME(table->stream_mark(wrapped, made, &ticket));
    SAME(table->stream_synchronize(wrapped, made, ticket, UINT64_MAX));
    table->memory_free(wrapped, made, &memory);
    table->stream_destroy(wrapped, made);
    assert_ptr_equal(fake_cuda_current_context(), current);
#undef SAME
}

static void wrapped_context_is_used_and_stays_the_applications(void **state)
{
    (void)state;
    cu__context lent = fake_cuda_lent_context(), ignored = NULL;
    const cu__context currents[3] = {NULL, lent, fake_cuda_foreign_context()};
    ddisp_cuda_device_desc desc = desc_of(lent);
    for (int i = 0; i < 3; i++) {
        ddisp_device_info info = {.size = (uint32_t)sizeof info};
        void *wrapped = NULL;
        uint64_t retained = fake_cuda_live_contexts();
        if (currents[i]) {
            assert_int_equal(cuCtxPushCurrent_v2(currents[i]), CU__SUCCESS);
        }
        if (table->device_wrap(instance, &desc.head, &info, &wrapped) != DDISP_STATUS_OK) {
            fail_msg("%s", sample_message);
        }
        assert_ptr_equal(fake_cuda_current_context(), currents[i]);
        assert_string_equal(info.name, "fake");
        assert_int_equal(fake_cuda_live_contexts(), retained); /* the primary one is left alone */
        uint64_t pushes = fake_cuda_call_count("cuCtxPushCurrent");
        use(wrapped, currents[i]);
        if (currents[i] == lent) { /* set only where it differs */
            assert_int_equal(fake_cuda_call_count("cuCtxPushCurrent"), pushes);
        }
        table->device_close(wrapped);
        assert_ptr_equal(fake_cuda_current_context(), currents[i]);
        assert_int_equal(fake_cuda_live_contexts(), retained);
        if (currents[i]) {
            assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
        }
    }
}

static void streams_are_those_of_the_wrapped_context(void **state)
{
    (void)state;
    cu__context lent = fake_cuda_lent_context(), ignored = NULL;
    ddisp_cuda_device_desc desc = desc_of(lent);
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    cu__stream theirs = NULL;
    void *wrapped = NULL, *made = NULL;
    assert_int_equal(table->device_wrap(instance, &desc.head, &info, &wrapped), DDISP_STATUS_OK);
    assert_int_equal(cuCtxPushCurrent_v2(lent), CU__SUCCESS);
    assert_int_equal(cuStreamCreate(&theirs, CU__STREAM_NON_BLOCKING), CU__SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
    assert_int_equal(table->stream_wrap(device, (uint64_t)(uintptr_t)theirs, &made),
                     DDISP_STATUS_INVALID_ARGUMENT); /* of the primary context */
    fixture_says("another context");
    assert_int_equal(table->stream_wrap(wrapped, (uint64_t)(uintptr_t)theirs, &made),
                     DDISP_STATUS_OK);
    table->stream_destroy(wrapped, made);
    table->device_close(wrapped);
    assert_int_equal(cuCtxPushCurrent_v2(lent), CU__SUCCESS);
    assert_int_equal(cuStreamDestroy_v2(theirs), CU__SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&ignored), CU__SUCCESS);
}

static void what_cannot_be_wrapped_is_refused_by_name(void **state)
{
    (void)state;
    ddisp_cuda_device_desc desc = desc_of(NULL);
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    void *wrapped = NULL;
    assert_int_equal(table->device_wrap(instance, &desc.head, &info, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("context is NULL");
    desc = desc_of(fake_cuda_foreign_context());
    assert_int_equal(table->device_wrap(instance, &desc.head, &info, &wrapped),
                     DDISP_STATUS_DRIVER_ERROR);
    fixture_says("cuCtxGetDevice");
    desc = desc_of(fake_cuda_lent_context());
    desc.head.type = 0x40020002;
    assert_int_equal(table->device_wrap(instance, &desc.head, &info, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("0x40020002");
    desc = desc_of(fake_cuda_lent_context());
    desc.head.size = 8;
    assert_int_equal(table->device_wrap(instance, &desc.head, &info, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("size is 8, 24 to 4096 is taken");
    struct {
        ddisp_cuda_device_desc desc;
        unsigned char more[8];
    } newer = {.desc = desc_of(fake_cuda_lent_context()), .more = {0, 0, 0, 1}};
    newer.desc.head.size = (uint32_t)sizeof newer;
    assert_int_equal(table->device_wrap(instance, &newer.desc.head, &info, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("byte 27 is set");
    newer.more[3] = 0;
    newer.desc.head.next = &desc.head;
    assert_int_equal(table->device_wrap(instance, &newer.desc.head, &info, &wrapped),
                     DDISP_STATUS_INVALID_ARGUMENT);
    fixture_says("next is not NULL");
    assert_null(wrapped);
    assert_null(fake_cuda_current_context());
}

static void every_call_of_wrapping_may_fail(void **state)
{
    (void)state;
    ddisp_cuda_device_desc desc = desc_of(fake_cuda_lent_context());
    uint64_t live = fake_cuda_live(), host = sample_live_host_allocations, nth = 1;
    for (;; nth++) {
        ddisp_device_info info = {.size = (uint32_t)sizeof info};
        void *wrapped = NULL;
        fake_cuda_fail_at(nth, CU__ERROR_UNKNOWN);
        ddisp_status status = table->device_wrap(instance, &desc.head, &info, &wrapped);
        int failed = fake_cuda_failed();
        fake_cuda_fail_at(0, CU__SUCCESS);
        assert_null(fake_cuda_current_context());
        if (status == DDISP_STATUS_OK) {
            table->device_close(wrapped);
        }
        assert_int_equal(fake_cuda_live(), live);
        assert_int_equal(sample_live_host_allocations, host);
        if (!failed) {
            assert_int_equal(status, DDISP_STATUS_OK);
            break;
        }
        assert_int_equal(status, DDISP_STATUS_DRIVER_ERROR);
    }
    assert_true(nth > 10);
}

/* ---- memory */

static void figures_tell_what_is_kept_and_reused(void **state)
{
    (void)state;
    ddisp_backend_memory_figures figures = {.size = (uint32_t)sizeof figures};
    for (int i = 0; i < 5; i++) {
        ddisp_backend_memory memory = fixture_allocate(1000);
        fixture_free(&memory);
    }
    ddisp_backend_memory kept = fixture_allocate(600);
    assert_int_equal(table->memory_figures(device, &figures), DDISP_STATUS_OK);
    assert_int_equal(figures.reserved_bytes, 1000);
    assert_int_equal(figures.reserved_peak_bytes, 1000);
    assert_int_equal(figures.cached_bytes, 400);
    assert_int_equal(figures.reuses, 5);
    assert_int_equal(table->memory_trim(device), DDISP_STATUS_OK);
    assert_int_equal(table->memory_figures(device, &figures), DDISP_STATUS_OK);
    assert_int_equal(figures.reserved_bytes, 600);
    assert_int_equal(figures.cached_bytes, 0);
    assert_int_equal(figures.reserved_peak_bytes, 1000);
    fixture_free(&kept);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(wrapped_context_is_used_and_stays_the_applications),
        CASE(streams_are_those_of_the_wrapped_context),
        CASE(what_cannot_be_wrapped_is_refused_by_name),
        CASE(every_call_of_wrapping_may_fail),
        CASE(figures_tell_what_is_kept_and_reused),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
