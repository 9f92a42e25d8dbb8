/*
 * test_dlpack_lifetime.c - deleters run once: whatever order handles die in, however often a tensor
 * is offered, whichever thread lets go, and whatever fails on the way.
 */
#include "dlpack_spec.h"

#include <pthread.h>
#include <stdlib.h>

static void case_57_a_held_tensor_is_not_taken_again(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    struct offer offer;
    ddisp_tensor *first, *second = NULL;
    offer_floats(&offer, data, 2);
    for (int round = 1; round <= 2; round++) {
        assert_ok(TAKE(fixture, &offer, 0, &first));
        assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "taken over before and is still held",
                     TAKE(fixture, &offer, 0, &second));
        assert_null(second);
        ddisp_tensor_release(first);
        assert_int_equal(atomic_load(&deleted), round);
    }
}

static void case_57_handles_die_in_any_order(void **state)
{
    struct host_fixture *fixture = *state;
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    float data[2] = {1, 2};
    for (int k = 0; k < 6; k++) {
        struct offer offer;
        ddisp_tensor *handles[3] = {NULL};
        struct DLManagedTensorVersioned *exported;
        offer_floats(&offer, data, 2);
        atomic_store(&deleted, 0);
        assert_ok(TAKE(fixture, &offer, 0, &handles[0]));
        assert_ok(ddisp_tensor_detach(handles[0], &handles[1]));
        assert_ok(ddisp_tensor_to_dlpack_versioned(handles[1], NULL, &exported));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(atomic_load(&deleted), 0);
            if (orders[k][i] == 2)
                exported->deleter(exported);
            else
                ddisp_tensor_release(handles[orders[k][i]]);
        }
        assert_int_equal(atomic_load(&deleted), 1);
    }
}

static void no_deleter_is_no_call(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    struct offer offer;
    ddisp_tensor *tensor;
    offer_floats(&offer, data, 2);
    offer.versioned.deleter = NULL;
    offer.plain.deleter = NULL;
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    ddisp_tensor_release(tensor);
    assert_ok(ddisp_tensor_from_dlpack(fixture->device, &offer.plain, 0, NULL, &tensor));
    ddisp_tensor_release(tensor);
}

/* ---- threads */

struct rival {
    struct host_fixture *fixture;
    struct offer *offer;
    pthread_barrier_t *barrier;
    ddisp_tensor *tensor;
};

static void *take(void *user_data)
{
    struct rival *rival = user_data;
    (void)pthread_barrier_wait(rival->barrier);
    if (TAKE(rival->fixture, rival->offer, 0, &rival->tensor))
        rival->tensor = NULL;
    return NULL;
}

static void case_57_of_many_threads_one_takes_it(void **state)
{
    enum { THREADS = 4, ROUNDS = 20 };
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        pthread_barrier_t barrier;
        struct rival rivals[THREADS];
        struct offer offer;
        int taken = 0;
        offer_floats(&offer, data, 2);
        atomic_store(&deleted, 0);
        assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
        for (int i = 0; i < THREADS; i++) {
            rivals[i] = (struct rival){fixture, &offer, &barrier, NULL};
            assert_int_equal(pthread_create(&threads[i], NULL, take, &rivals[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            taken += rivals[i].tensor != NULL;
        }
        assert_int_equal(atomic_load(&deleted), 0);
        for (int i = 0; i < THREADS; i++)
            ddisp_tensor_release(rivals[i].tensor);
        assert_int_equal(taken, 1);
        assert_int_equal(atomic_load(&deleted), 1);
        (void)pthread_barrier_destroy(&barrier);
    }
}

static void *release(void *user_data)
{
    ddisp_tensor_release(user_data);
    return NULL;
}

static void case_56_a_worker_thread_may_let_go(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    struct offer offer;
    ddisp_tensor *tensor;
    pthread_t thread;
    offer_floats(&offer, data, 2);
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    assert_int_equal(pthread_create(&thread, NULL, release, tensor), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&deleted), 1);
}

/* ---- deleters that call back */

static struct host_fixture *calling;
static ddisp_tensor *inner;

static void call_back(struct DLManagedTensorVersioned *self)
{
    (void)self;
    int64_t shape[1] = {4};
    ddisp_tensor *tensor;
    if (ddisp_tensor_create(calling->device, DDISP_DTYPE_F32, 1, shape, 0, &tensor) == 0) {
        (void)ddisp_tensor_fill(tensor, 1, NULL);
        (void)ddisp_device_synchronize(calling->device, DDISP_TIMEOUT_INFINITE);
        ddisp_tensor_release(tensor);
    }
    ddisp_tensor_release(inner); /* an import ends inside the end of another */
    inner = NULL;
    atomic_fetch_add(&deleted, 1);
}

static void case_56_a_deleter_may_call_the_library(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    struct offer outer, within;
    ddisp_tensor *tensor;
    calling = fixture;
    offer_floats(&outer, data, 2);
    offer_floats(&within, data, 2);
    outer.versioned.deleter = call_back;
    assert_ok(TAKE(fixture, &outer, 0, &tensor));
    assert_ok(TAKE(fixture, &within, 0, &inner));
    ddisp_tensor_release(tensor);
    assert_int_equal(atomic_load(&deleted), 2);
}

static void the_last_handle_may_be_an_exported_one(void **state)
{
    struct host_fixture *fixture = *state;
    float data[2] = {1, 2};
    struct offer offer;
    ddisp_tensor *tensor;
    struct DLManagedTensorVersioned *exported;
    offer_floats(&offer, data, 2);
    assert_ok(TAKE(fixture, &offer, 0, &tensor));
    assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &exported));
    ddisp_tensor_release(tensor);
    ddisp_kernel_release(fixture->square);
    ddisp_device_release(fixture->device);
    ddisp_context_release(fixture->context);
    *fixture = (struct host_fixture){NULL, NULL, NULL};
    assert_int_equal(atomic_load(&deleted), 0);
    assert_true(((float *)exported->dl_tensor.data)[1] == 2);
    exported->deleter(exported);
    assert_int_equal(atomic_load(&deleted), 1);
}

/* ---- allocations that fail */

static int allocations_left = -1, blocks;

static void *allocate(void *user_data, uint64_t size_bytes)
{
    (void)user_data;
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    blocks++;
    return malloc(size_bytes);
}

static void deallocate(void *user_data, void *pointer)
{
    (void)user_data;
    blocks--;
    free(pointer);
}

static void without_host_memory_nothing_is_taken_or_given(void **state)
{
    (void)state;
    ddisp_allocator allocator = {
        .size = sizeof allocator, .allocate = allocate, .release = deallocate};
    ddisp_context_desc desc = {.size = sizeof desc, .allocator = &allocator};
    ddisp_context *context;
    ddisp_device *device;
    ddisp_stream *stream;
    float data[2] = {1, 2};
    struct offer offer;
    ddisp_tensor *tensor = NULL;
    struct DLManagedTensorVersioned *exported = NULL;
    bool done = false;
    int k = 0;
    assert_ok(ddisp_context_create(&desc, &context));
    assert_ok(ddisp_device_open(context, "host", &device));
    assert_ok(ddisp_stream_create(device, 0, &stream));
    offer_floats(&offer, data, 2);
    for (; !done; k++) {
        int before = blocks;
        allocations_left = k;
        ddisp_status status =
            ddisp_tensor_from_dlpack_versioned(device, &offer.versioned, 0, stream, &tensor);
        allocations_left = -1;
        done = status == DDISP_STATUS_OK;
        if (!done) {
            assert_int_equal(status, DDISP_STATUS_OUT_OF_MEMORY);
            assert_int_equal(blocks, before);
            assert_int_equal(atomic_load(&deleted), 0);
        }
    }
    assert_true(k >= 4);
    for (k = 0, done = false; !done; k++) {
        int before = blocks;
        allocations_left = k;
        ddisp_status status = ddisp_tensor_to_dlpack_versioned(tensor, NULL, &exported);
        allocations_left = -1;
        done = status == DDISP_STATUS_OK;
        if (!done) {
            assert_int_equal(status, DDISP_STATUS_OUT_OF_MEMORY);
            assert_int_equal(blocks, before);
        }
    }
    assert_true(k >= 2);
    ddisp_tensor_release(tensor);
    ddisp_stream_release(stream);
    ddisp_device_release(device);
    ddisp_context_release(context);
    exported->deleter(exported);
    assert_int_equal(atomic_load(&deleted), 1);
    assert_int_equal(blocks, 0);
}

static void case_46_exports_that_nobody_takes_leave_nothing(void **state)
{
    struct host_fixture *fixture = *state;
    const int64_t shape[1] = {4096};
    ddisp_device_statistics before = {.size = sizeof before}, after = {.size = sizeof after};
    assert_ok(ddisp_device_get_statistics(fixture->device, &before));
    for (int i = 0; i < 10000; i++) {
        ddisp_tensor *tensor;
        struct DLManagedTensorVersioned *exported;
        assert_ok(ddisp_tensor_create(fixture->device, DDISP_DTYPE_F32, 1, shape, 0, &tensor));
        assert_ok(ddisp_tensor_to_dlpack_versioned(tensor, NULL, &exported));
        ddisp_tensor_release(tensor);
        exported->deleter(exported);
    }
    assert_ok(ddisp_device_get_statistics(fixture->device, &after));
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(after.allocations - after.frees, before.allocations - before.frees);
    assert_true(after.allocations >= before.allocations + 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DLPACK_TEST(case_57_a_held_tensor_is_not_taken_again),
        DLPACK_TEST(case_57_handles_die_in_any_order),
        DLPACK_TEST(case_57_of_many_threads_one_takes_it),
        DLPACK_TEST(no_deleter_is_no_call),
        DLPACK_TEST(case_56_a_worker_thread_may_let_go),
        DLPACK_TEST(case_56_a_deleter_may_call_the_library),
        DLPACK_TEST(the_last_handle_may_be_an_exported_one),
        DLPACK_TEST(without_host_memory_nothing_is_taken_or_given),
        DLPACK_TEST(case_46_exports_that_nobody_takes_leave_nothing),
    };
    return cmocka_run_group_tests_name("dlpack_lifetime", tests, NULL, NULL);
}
