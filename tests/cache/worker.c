/*
 * worker.c - a process that uses the kernel cache, for tests of many processes and of users without
 * rights. `worker DIRECTORY COMMAND [NUMBER...]`; a wrong result ends it with status 3.
 *
 *   many SEED ROUNDS  64 kernels y = x + k in an order of its own, in a new context each round
 *   nobody            one kernel, as another user than root
 *   full KIND         one kernel, on a file system without room: 0 a small one, 1 a limit of the
 *                     process
 *   leave             writes half an entry and is killed
 *
 * Prints "compiles reads made repaired warnings" and the last warning.
 */
#define _GNU_SOURCE /* unshare */

#include "compiler_fixture.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static ddisp_kernel_statistics total;
static uint32_t warnings;
static char warning[1024];

static void run(struct setting *s, uint32_t k)
{
    char source[64];
    float got[3];
    const float in[3] = {1, 2, 3};
    struct recipe recipe = {.source = source, .forward_only = true};
    (void)snprintf(source, sizeof source, "entry forward: $0 %u + >2\n", k);
    ddisp_kernel *kernel = kernel_make(s, &recipe);
    ddisp_tensor *x = vector(s, 0, in, 3), *y = vector(s, 0, NULL, 3);
    const ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
    assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    assert_ok(ddisp_tensor_read(y, got, sizeof got, NULL));
    for (int i = 0; i < 3; i++)
        if (got[i] != in[i] + (float)k) {
            printf("kernel %u: %g instead of %g\n", k, (double)got[i], (double)(in[i] + (float)k));
            exit(3);
        }
    ddisp_kernel_statistics statistics = kernel_statistics(kernel);
    total.artifacts_read += statistics.artifacts_read;
    total.artifacts_made += statistics.artifacts_made;
    total.artifacts_repaired += statistics.artifacts_repaired;
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
}

static void close_setting(struct setting *s)
{
    warnings += s->warnings;
    if (s->warnings)
        memcpy(warning, s->warning, sizeof warning);
    setting_close(s, false);
}

static void many(const char *directory, uint32_t seed, uint32_t rounds)
{
    uint32_t order[64];
    for (uint32_t i = 0; i < 64; i++)
        order[i] = i;
    for (uint32_t round = 0; round < rounds; round++) {
        struct setting *s = setting_open(directory);
        for (uint32_t i = 0; i < 64; i++) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t k = i + (seed >> 16) % (64 - i), other = order[k];
            order[k] = order[i];
            order[i] = other;
            run(s, order[i]);
        }
        close_setting(s);
    }
}

/* A file system of 64 KiB over the directory, in name spaces of this process. */
static int small_file_system(const char *directory)
{
    if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) != 0)
        return 77;
    (void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("none", directory, "tmpfs", 0, "size=64k,mode=0700") == 0 ? 0 : 77;
}

static void leave(const char *directory)
{
    struct setting *s = setting_open(directory);
    struct rlimit limit = {100, 100}; /* the write of an entry ends in the middle */
    run(s, 1);                        /* loads all that is needed later */
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    (void)signal(SIGXFSZ, SIG_DFL); /* and ends the process */
    run(s, 2);
}

int main(int count, char **values)
{
    if (count < 3)
        return 2;
    const char *directory = values[1], *command = values[2];
    uint32_t first = count > 3 ? (uint32_t)strtoul(values[3], NULL, 10) : 0;
    uint32_t second = count > 4 ? (uint32_t)strtoul(values[4], NULL, 10) : 0;
    if (strcmp(command, "many") == 0) {
        many(directory, first, second);
    } else if (strcmp(command, "leave") == 0) {
        leave(directory);
        return 4;
    } else {
        if (strcmp(command, "nobody") == 0 && geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            return 77;
        if (strcmp(command, "full") == 0 && first == 0 && small_file_system(directory) != 0)
            return 77;
        struct rlimit limit = {100, 100};
        if (strcmp(command, "full") == 0 && first == 1) {
            (void)signal(SIGXFSZ, SIG_IGN);
            (void)setrlimit(RLIMIT_FSIZE, &limit);
        }
        struct setting *s = setting_open(directory);
        for (uint32_t k = 0; k < 40; k++)
            run(s, k);
        close_setting(s);
    }
    printf("%u %u %u %u %u\n%s\n", atomic_load(&control()->compiles),
           (uint32_t)total.artifacts_read, (uint32_t)total.artifacts_made,
           (uint32_t)total.artifacts_repaired, warnings, warning);
    return 0;
}
