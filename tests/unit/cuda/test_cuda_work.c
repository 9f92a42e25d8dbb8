/*
 * test_cuda_work.c - fill, accumulate and scatter-add of the CUDA backend when the driver fails:
 * each of their calls in turn. Nothing may leak, the next attempt works, and after a loss nothing
 * reaches the driver. Kernels are loaded and launched, but do nothing here.
 */
#include "cuda_fixture.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static ddisp_backend_memory memory;

/* A tensor of rank 2 in the one memory; both strides. */
static ddisp_backend_tensor tensor(ddisp_dtype dtype, int64_t rows, int64_t columns, int64_t outer,
                                   int64_t inner)
{
    ddisp_backend_tensor made = {.dtype = dtype,
                                 .rank = 2,
                                 .address = memory.address,
                                 .shape = {rows, columns, 1, 1, 1, 1, 1, 1},
                                 .strides = {outer, inner}};
    made.range.address = memory.address;
    made.range.size_bytes = memory.size_bytes;
    return made;
}

static ddisp_status fill(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_F16, 20, 30, 50, 1);
    return table->fill_elements(device, stream, &to, 7);
}

static ddisp_status copy(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_U8, 20, 30, 50, 1);
    ddisp_backend_tensor from = tensor(DDISP_DTYPE_U8, 20, 30, 1, 20);
    return table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_STORE, 0);
}

static ddisp_status copy_dense(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_F32, 20, 30, 30, 1), from = to;
    from.address += 4 * 600;
    return table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_STORE, 0);
}

static ddisp_status add(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_F64, 20, 30, 30, 1);
    ddisp_backend_tensor from = tensor(DDISP_DTYPE_F32, 20, 30, 30, 1);
    return table->accumulate(device, stream, &to, &from, 2, DDISP_BACKEND_ACCUMULATE_ADD, 0);
}

static ddisp_status add_halves(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_BF16, 20, 30, 30, 1), from = to;
    return table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_ADD, 0);
}

static ddisp_status sum(void)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_F32, 1000, 300, 0, 0);
    ddisp_backend_tensor from = tensor(DDISP_DTYPE_F32, 1000, 300, 300, 1);
    return table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_ADD, 0);
}

static ddisp_status scatter(uint64_t flags)
{
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_F32, 3000, 3000, 3000, 1);
    ddisp_backend_tensor index = tensor(DDISP_DTYPE_I32, 3000, 3000, 0, 1), from = to;
    ddisp_backend_range none = {0};
    return table->scatter_add(device, stream, &to, 1, 10, &index, &from, &none, flags);
}

static ddisp_status scatter_plain(void)
{
    return scatter(0);
}

static ddisp_status scatter_deterministic(void)
{
    return scatter(DDISP_BACKEND_ACCUMULATE_DETERMINISTIC);
}

static ddisp_status (*const operations[])(void) = {
    fill, copy, copy_dense, add, add_halves, sum, scatter_plain, scatter_deterministic};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void begin(void)
{
    assert_int_equal(fixture_open(NULL), 0);
    memory = fixture_allocate(1 << 20);
}

static void end(void)
{
    fixture_free(&memory);
    assert_int_equal(fixture_close(NULL), 0);
}

static void every_call_may_fail(cu__result result)
{
    for (int i = 0; i < OPERATIONS; i++) {
        int reported = 0;
        for (uint64_t nth = 1;; nth++) {
            begin();
            uint64_t live = fake_cuda_live() - fake_cuda_live_modules();
            fake_cuda_fail_at(nth, result);
            ddisp_status status = operations[i]();
            int failed = fake_cuda_failed();
            fake_cuda_fail_at(0, CU__SUCCESS);
            if (status != DDISP_STATUS_OK) {
                assert_true(failed);
                assert_true(status == DDISP_STATUS_DRIVER_ERROR ||
                            status == DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
                fixture_says("cuda:0: ");
                reported++;
            }
            assert_int_equal(fake_cuda_live() - fake_cuda_live_modules(), live);
            assert_null(fake_cuda_current_context());
            if (operations[i]() != DDISP_STATUS_OK) {
                fail_msg("operation %d after failure %llu: %s", i, (unsigned long long)nth,
                         sample_message);
            }
            sample_warnings = 0; /* giving memory back may have met the failure */
            end();
            if (!failed) {
                break;
            }
        }
        assert_true(reported >= (i == 2 ? 3 : 5));
    }
}

static void every_call_may_fail_somehow(void **state)
{
    (void)state;
    every_call_may_fail(CU__ERROR_UNKNOWN);
}

static void every_call_may_run_out_of_memory(void **state)
{
    (void)state;
    every_call_may_fail(CU__ERROR_OUT_OF_MEMORY);
}

static void host_memory_may_run_out(void **state)
{
    (void)state; /* of the compiler's log, the only one that is taken */
    begin();
    sample_fail_allocation = 1;
    assert_int_equal(add(), DDISP_STATUS_OUT_OF_MEMORY);
    fixture_says("no host memory");
    assert_int_equal(add(), DDISP_STATUS_OK);
    end();
}

static void kernels_are_loaded_once(void **state)
{
    (void)state;
    begin();
    assert_int_equal(fake_cuda_live_modules(), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(add(), DDISP_STATUS_OK);
        assert_int_equal(fake_cuda_live_modules(), 1);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        assert_int_equal(operations[i](), DDISP_STATUS_OK);
    }
    uint64_t loads = fake_cuda_call_count("cuModuleLoadDataEx");
    assert_true(loads <= 10); /* there are no more modules */
    for (int i = 0; i < OPERATIONS; i++) {
        assert_int_equal(operations[i](), DDISP_STATUS_OK);
    }
    assert_int_equal(fake_cuda_call_count("cuModuleLoadDataEx"), loads);
    end();
}

static void refused_kernels_are_explained(void **state)
{
    (void)state;
    begin();
    fake_cuda_fail_function("cuModuleLoadDataEx", 1, CU__ERROR_INVALID_PTX);
    assert_int_equal(fill(), DDISP_STATUS_DRIVER_ERROR);
    fixture_says("the driver did not load kernels of the library: cuModuleLoadDataEx");
    fixture_says("fake log");
    assert_int_equal(fill(), DDISP_STATUS_OK);
    end();
}

static void integers_are_not_added(void **state)
{
    (void)state;
    begin();
    ddisp_backend_tensor to = tensor(DDISP_DTYPE_I32, 20, 30, 30, 1), from = to;
    assert_int_equal(
        table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_ADD, 0),
        DDISP_STATUS_UNSUPPORTED);
    fixture_says("dtype 7");
    from.dtype = DDISP_DTYPE_F32;
    assert_int_equal(
        table->accumulate(device, stream, &to, &from, 1, DDISP_BACKEND_ACCUMULATE_STORE, 0),
        DDISP_STATUS_UNSUPPORTED);
    end();
}

static int lose(uint64_t nth)
{
    begin();
    fake_cuda_lose_at(nth, CU__ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < OPERATIONS; i++) {
        int was_lost = fake_cuda_lost() != 0;
        uint64_t calls = fake_cuda_call_count(NULL);
        ddisp_status status = operations[i]();
        if (was_lost &&
            (status != DDISP_STATUS_DEVICE_LOST || fake_cuda_call_count(NULL) != calls)) {
            return 2;
        }
        if (fake_cuda_lost() && !was_lost && status != DDISP_STATUS_DEVICE_LOST &&
            status != DDISP_STATUS_OK) { /* OK: noticed while giving back */
            return 3;
        }
    }
    int lost = fake_cuda_lost() != 0;
    uint64_t calls = fake_cuda_call_count(NULL);
    table->memory_free(device, stream, &memory);
    table->stream_destroy(device, stream);
    table->device_close(device);
    table->close(instance);
    if (lost && fake_cuda_call_count(NULL) != calls) {
        return 4;
    }
    return lost ? 0 : 1;
}

static void nothing_reaches_the_driver_after_a_loss(void **state)
{
    int count = 0;
    (void)state;
    (void)fflush(NULL);
    for (uint64_t nth = 1;; nth++, count++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            _exit(lose(nth));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 1) {
            break; /* there are no more calls */
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_true(count > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail_somehow),
        cmocka_unit_test(every_call_may_run_out_of_memory),
        cmocka_unit_test(host_memory_may_run_out),
        cmocka_unit_test(kernels_are_loaded_once),
        cmocka_unit_test(refused_kernels_are_explained),
        cmocka_unit_test(integers_are_not_added),
        cmocka_unit_test(nothing_reaches_the_driver_after_a_loss),
    };
    return cmocka_run_group_tests(tests, fixture_load, NULL);
}
