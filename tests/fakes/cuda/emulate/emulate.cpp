/*
 * emulate.cpp - runs the threads of a group in turns (see emulate.h), and finds kernels by name.
 *
 * A thread that waits hands over to the next; when all have arrived the count of rounds goes up and
 * they go on. A warp's exchanges alternate between two boards, so that a fast lane cannot overwrite
 * what a slow one has yet to read.
 */
#include "emulate.h"
#include "emulate_cuda.h"

#include <csetjmp>
#include <cstdlib>
#include <ucontext.h>

emulated_place threadIdx, blockIdx, gridDim, blockDim;
alignas(16) unsigned char emulated_shared[49152];

namespace
{
enum { THREADS = 1024, STACK_BYTES = 65536 };

struct warp {
    uint64_t board[2][32];
    unsigned int arrived, rounds;
};

/* Threads begin on contexts, which is slow, and go on by jumps. */
ucontext_t contexts[THREADS];
jmp_buf scheduler, threads[THREADS];
enum { NEW, WAITING, DONE } states[THREADS];
unsigned char *stacks;
warp warps[THREADS / 32];
unsigned int group_arrived, group_rounds;
void (*running)(const void *);
const void *running_work;

void wait(const unsigned int &rounds, unsigned int before)
{
    const unsigned int self = threadIdx.x;
    while (rounds == before) {
        if (_setjmp(threads[self]) == 0)
            _longjmp(scheduler, 1);
        threadIdx.x = self;
    }
}

void begin()
{
    running(running_work);
    states[threadIdx.x] = DONE;
    _longjmp(scheduler, 1);
}

void go_on(unsigned int i)
{
    threadIdx.x = i;
    if (_setjmp(scheduler) != 0)
        return;
    if (states[i] == WAITING)
        _longjmp(threads[i], 1);
    states[i] = WAITING;
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
    contexts[i].uc_stack.ss_size = STACK_BYTES;
    contexts[i].uc_link = nullptr;
    makecontext(&contexts[i], begin, 0);
    setcontext(&contexts[i]);
}

void run_group(unsigned int group_size)
{
    memset(warps, 0, sizeof warps);
    group_arrived = group_rounds = 0;
    for (unsigned int i = 0; i < group_size; i++)
        states[i] = NEW;
    for (bool more = true; more;) {
        more = false;
        for (unsigned int i = 0; i < group_size; i++) {
            if (states[i] != DONE) {
                go_on(i);
                more = true;
            }
        }
    }
}
} // namespace

void emulated_wait_group(void)
{
    unsigned int before = group_rounds;
    if (++group_arrived == blockDim.x) {
        group_arrived = 0;
        group_rounds++;
    }
    wait(group_rounds, before);
}

const uint64_t *emulated_exchange(uint64_t bits)
{
    warp &own = warps[threadIdx.x / 32];
    unsigned int before = own.rounds;
    uint64_t *board = own.board[before & 1];
    board[threadIdx.x % 32] = bits;
    if (++own.arrived == 32) {
        own.arrived = 0;
        own.rounds++;
    }
    wait(own.rounds, before);
    return board;
}

void emulated_run(void (*kernel)(const void *work), const void *work, unsigned int groups,
                  unsigned int group_size, unsigned int shared_bytes)
{
    if (group_size > THREADS || group_size % 32 || shared_bytes > sizeof emulated_shared)
        abort();
    if (!stacks && !(stacks = (unsigned char *)malloc((size_t)THREADS * STACK_BYTES)))
        abort();
    running = kernel;
    running_work = work;
    gridDim = {groups, 1, 1};
    blockDim = {group_size, 1, 1};
    for (unsigned int i = 0; i < groups; i++) {
        blockIdx = {i, 0, 0};
        memset(emulated_shared, 0xA5, sizeof emulated_shared); /* nobody may rely on it */
        run_group(group_size);
    }
}

/* ---- kernels by name */

#define KERNELS(X)                                                                                 \
    X(ddisp_fill)                                                                                  \
    X(ddisp_copy)                                                                                  \
    X(ddisp_add_pairs)                                                                             \
    X(ddisp_add_quads)                                                                             \
    X(ddisp_shadow)                                                                                \
    KERNELS_OF(X, f32)                                                                             \
    KERNELS_OF(X, f64)
#define KERNELS_OF(X, number)                                                                      \
    X(ddisp_store_##number)                                                                        \
    X(ddisp_add_##number)                                                                          \
    X(ddisp_add_any_##number)                                                                      \
    X(ddisp_add_halves_##number)                                                                   \
    X(ddisp_update_##number)                                                                       \
    X(ddisp_update_words_##number)                                                                 \
    X(ddisp_reduce_##number)                                                                       \
    X(ddisp_scatter_##number)                                                                      \
    X(ddisp_scatter_wide_##number)                                                                 \
    X(ddisp_scatter_shared_##number)                                                               \
    X(ddisp_fixed_##number)                                                                        \
    X(ddisp_fixed_wide_##number)                                                                   \
    X(ddisp_fixed_shared_##number)                                                                 \
    X(ddisp_prepare_##number)                                                                      \
    X(ddisp_finish_##number)

#define DECLARE(name) extern "C" void name(const void *work);
KERNELS(DECLARE)

void emulate_launch(const char *name, void **parameters, const unsigned int grid[3],
                    const unsigned int group[3], unsigned int shared_bytes)
{
#define RUN(kernel)                                                                                \
    if (strcmp(name, #kernel) == 0) {                                                              \
        emulated_run(kernel, parameters[0], grid[0], group[0], shared_bytes);                      \
        return;                                                                                    \
    }
    KERNELS(RUN)
    abort(); /* a kernel that is not listed above */
}
