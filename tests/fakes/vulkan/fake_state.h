/*
 * fake_state.h - what the files of the stand-in loader share: one state for the process, behind one
 * lock.
 */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#include "fake_vulkan.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "fake_calls.h"

enum {
#define NUMBER(name, change, parameters, arguments) NUMBER_##name,
    FAKE_CALLS(NUMBER, NUMBER, NUMBER, NUMBER)
#undef NUMBER
        CALL_COUNT,
    CALL_ANY = CALL_COUNT,
};

extern const char *const fake_names[CALL_COUNT];

#define MOST_SEMAPHORES 256

struct fake_state {
    pthread_mutex_t lock;
    bool started;
    uint64_t calls[CALL_COUNT];
    uint64_t call_count;
    uint64_t fail_in; /* counted down; 0: none */
    int fail_call;
    int fail_result;
    const char *failed;
    uint64_t lose_in;
    const char *lost;
    uint64_t calls_after_loss;
    bool hold;
    char hide[512];
    int64_t live;
    uint64_t early_waits;
    VkCommandBuffer labelled; /* in which a label is open */
    uint64_t dispatches_labelled, labels_broken;
    char label[64], pipeline_name[64];       /* the last ones */
    VkDevice device;                         /* the last one made */
    VkSemaphore semaphores[MOST_SEMAPHORES]; /* with the values that submissions signal */
    uint64_t values[MOST_SEMAPHORES];
    FILE *log;
};
extern struct fake_state fake;

/** Takes the lock; the first time the environment is read. */
void fake_lock(void);
void fake_unlock(void);
/** Whether the devices are not to have it. Locked. */
bool fake_hidden(const char *name);

#endif
