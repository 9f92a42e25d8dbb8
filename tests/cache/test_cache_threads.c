/*
 * test_cache_threads.c - case 39: each variant is built once however many threads ask, nobody waits
 * for the build of something else, and failures are shared by those who waited and not kept.
 */
#include "compiler_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define THREADS 32

static int fresh(void **state)
{
    control_reset();
    *state = setting_open(NULL);
    return 0;
}

static int gone(void **state)
{
    setting_close(*state, true);
    assert_int_equal(control()->variants, 0); /* none was left loaded */
    return 0;
}

struct job {
    struct setting *setting;
    ddisp_kernel *kernel;
    float factor; /* y = a * factor */
    ddisp_status status;
    bool right;
    char message[256];
};

static void *do_job(void *user)
{
    struct job *job = user;
    ddisp_device *device = job->setting->device;
    const int64_t n = 3;
    const float in[3] = {1, 2, 3};
    float out[3] = {0};
    ddisp_stream *stream = NULL;
    ddisp_tensor *a = NULL, *y = NULL;
    if (ddisp_stream_create(device, 0, &stream) ||
        ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &a) ||
        ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &y) ||
        ddisp_tensor_write(a, in, sizeof in, stream))
        return NULL;
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(a), DDISP_ARG(y)};
    job->status = ddisp_launch(job->kernel, DDISP_MODE_FORWARD, args, 3, NULL, stream);
    if (job->status)
        (void)ddisp_last_error(job->message, sizeof job->message, NULL);
    else
        (void)ddisp_tensor_read(y, out, sizeof out, stream);
    job->right = out[0] == job->factor && out[2] == 3 * job->factor;
    ddisp_tensor_release(a);
    ddisp_tensor_release(y);
    ddisp_stream_release(stream);
    return NULL;
}

static void run_jobs(struct job jobs[THREADS])
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, do_job, &jobs[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static ddisp_kernel *times(struct setting *s, int factor)
{
    char source[64];
    struct recipe recipe = {.source = source, .forward_only = true};
    (void)snprintf(source, sizeof source, "entry forward: $0 %d * >2\n", factor);
    return kernel_make(s, &recipe);
}

static void threads_share(struct setting *s, int kernel_count)
{
    static int next = 2;
    ddisp_kernel *kernels[4];
    struct job jobs[THREADS];
    control()->compiles = 0;
    for (int k = 0; k < kernel_count; k++)
        kernels[k] = times(s, next + k);
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.setting = s,
                               .kernel = kernels[i % kernel_count],
                               .factor = (float)(next + i % kernel_count)};
    next += kernel_count;
    run_jobs(jobs);
    for (int i = 0; i < THREADS; i++)
        assert_true(jobs[i].status == DDISP_STATUS_OK && jobs[i].right);
    assert_int_equal(control()->compiles, kernel_count);
    for (int k = 0; k < kernel_count; k++) {
        assert_int_equal(kernel_statistics(kernels[k]).variants_built, 1);
        assert_int_equal(kernel_statistics(kernels[k]).signatures, 1);
        ddisp_kernel_release(kernels[k]);
    }
}

static void case_39_threads_ask_for_one_cold_kernel(void **state)
{
    for (int round = 0; round < 20; round++)
        threads_share(*state, 1);
}

static void case_39_threads_ask_for_four_cold_kernels(void **state)
{
    for (int round = 0; round < 20; round++)
        threads_share(*state, 4);
}

static void wait_until(atomic_uint *counter, uint32_t value)
{
    while (atomic_load(counter) != value)
        (void)sched_yield();
}

/* While compilations hang, other kernels compile and what is known is launched. */
static void builds_block_nobody_else(void **state)
{
    struct setting *s = *state;
    pthread_t threads[4];
    struct job jobs[4], known = {.setting = s, .kernel = times(s, 2), .factor = 2};
    (void)do_job(&known);
    assert_true(known.right);
    control()->hold = true;
    for (int i = 0; i < 4; i++) {
        jobs[i] =
            (struct job){.setting = s, .kernel = times(s, 30 + i), .factor = 30.0f + (float)i};
        assert_int_equal(pthread_create(&threads[i], NULL, do_job, &jobs[i]), 0);
    }
    wait_until(&control()->compiling, 4);
    for (int i = 0; i < 100; i++) {
        known.right = false;
        (void)do_job(&known);
        assert_true(known.right);
    }
    control()->hold = false;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(jobs[i].right);
        ddisp_kernel_release(jobs[i].kernel);
    }
    ddisp_kernel_release(known.kernel);
}

/* Whoever waits for a build that fails, fails with it; the next launch tries again. */
static void failures_are_shared_and_not_kept(void **state)
{
    struct setting *s = *state;
    struct job jobs[THREADS];
    ddisp_kernel *kernel = times(s, 7);
    control()->fail_compiles = 1;
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.setting = s, .kernel = kernel, .factor = 7};
    run_jobs(jobs);
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        if (jobs[i].status == DDISP_STATUS_OK)
            continue;
        failed++;
        assert_int_equal(jobs[i].status, DDISP_STATUS_CODE_REJECTED);
        assert_non_null(strstr(jobs[i].message, "compiler: told to fail"));
        assert_non_null(strstr(jobs[i].message, "launch k: code 0 (rpn), entry 'forward'"));
    }
    assert_true(failed >= 1);
    (void)do_job(&jobs[0]);
    assert_true(jobs[0].right);
    assert_int_equal(control()->compiles,
                     2); /* one that failed for all who waited, one that worked */
    assert_int_equal(kernel_statistics(kernel).variants_built, 1);
    ddisp_kernel_release(kernel);
}

static void *run_jobs_of(void *user)
{
    run_jobs(user);
    return NULL;
}

/* However long a broken code takes to be refused, it does so once for all who wait. */
static void failing_build_is_not_repeated_by_those_who_waited(void **state)
{
    struct setting *s = *state;
    struct job jobs[THREADS];
    pthread_t runner;
    const struct timespec moment = {0, 30000000};
    ddisp_kernel *kernel = times(s, 7);
    control()->fail_compiles = 1000;
    control()->hold = true;
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.setting = s, .kernel = kernel, .factor = 7};
    assert_int_equal(pthread_create(&runner, NULL, run_jobs_of, jobs), 0);
    wait_until(&control()->fits, THREADS); /* the next that each of them does is to wait */
    (void)nanosleep(&moment, NULL);
    control()->hold = false;
    assert_int_equal(pthread_join(runner, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(jobs[i].status, DDISP_STATUS_CODE_REJECTED);
    assert_true(control()->compiles <
                THREADS / 2); /* 1, unless the machine is busy beyond measure */
    ddisp_kernel_release(kernel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_39_threads_ask_for_one_cold_kernel),
        TEST(case_39_threads_ask_for_four_cold_kernels),
        TEST(builds_block_nobody_else),
        TEST(failures_are_shared_and_not_kept),
        TEST(failing_build_is_not_repeated_by_those_who_waited),
    };
    return cmocka_run_group_tests_name("cache_threads", tests, NULL, NULL);
}
