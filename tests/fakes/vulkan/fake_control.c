/*
 * fake_control.c - the controls of the stand-in loader: what is to fail, be lost, hidden or held,
 * and what was found.
 */
#include "fake_state.h"

#include <stdlib.h>
#include <string.h>

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *const fake_names[CALL_COUNT] = {
#define NAME(name, change, parameters, arguments) #name,
    FAKE_CALLS(NAME, NAME, NAME, NAME)
#undef NAME
};

/* ---- settings */

static int find(const char *name)
{
    for (int i = 0; i < CALL_COUNT; i++)
        if (strcmp(fake_names[i], name) == 0)
            return i;
    abort(); /* a test that misspells a name must not pass */
}

static void read_environment(void)
{
    const char *fail = getenv("DDISP_FAKE_VULKAN_FAIL"), *lose = getenv("DDISP_FAKE_VULKAN_LOSE");
    const char *hide = getenv("DDISP_FAKE_VULKAN_HIDE"), *log = getenv("DDISP_FAKE_VULKAN_LOG");
    char function[64];
    unsigned long long nth;
    if (fail && sscanf(fail, "%63[^:]:%llu:%d", function, &nth, &fake.fail_result) == 3) {
        fake.fail_call = strcmp(function, "any") == 0 ? CALL_ANY : find(function);
        fake.fail_in = nth;
    }
    if (lose)
        fake.lose_in = strtoull(lose, NULL, 10);
    (void)snprintf(fake.hide, sizeof fake.hide, "%s", hide ? hide : "");
    if (log && log[0] && !fake.log)
        fake.log = fopen(log, "a");
}

void fake_lock(void)
{
    pthread_mutex_lock(&fake.lock);
    if (!fake.started)
        read_environment();
    fake.started = true;
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&fake.lock);
}

void fake_vulkan_reset(void)
{
    fake_lock();
    memset(fake.calls, 0, sizeof fake.calls);
    fake.call_count = 0;
    fake.fail_in = 0;
    fake.failed = NULL;
    fake.lose_in = 0;
    fake.lost = NULL;
    fake.calls_after_loss = 0;
    fake.hold = false;
    fake.hide[0] = 0;
    fake.early_waits = 0;
    fake.dispatches_labelled = fake.labels_broken = 0;
    fake.label[0] = fake.pipeline_name[0] = 0;
    fake_unlock();
}

static void fail_call(int call, uint64_t nth, int result)
{
    fake_lock();
    fake.fail_in = nth;
    fake.fail_call = call;
    fake.fail_result = result;
    fake.failed = NULL;
    fake_unlock();
}

void fake_vulkan_fail_at(uint64_t nth, int result)
{
    fail_call(CALL_ANY, nth, result);
}

void fake_vulkan_fail(const char *function, uint64_t nth, int result)
{
    fail_call(find(function), nth, result);
}

void fake_vulkan_lose_at(uint64_t nth)
{
    fake_lock();
    fake.lose_in = nth;
    fake.lost = NULL;
    fake.calls_after_loss = 0;
    fake_unlock();
}

void fake_vulkan_hold(int hold)
{
    fake_lock();
    fake.hold = hold != 0;
    fake_unlock();
}

void fake_vulkan_hide(const char *hidden)
{
    fake_lock();
    (void)snprintf(fake.hide, sizeof fake.hide, "%s", hidden ? hidden : "");
    fake_unlock();
}

/* ---- findings */

#define FINDING(type, name, expression)                                                            \
    type name(void)                                                                                \
    {                                                                                              \
        fake_lock();                                                                               \
        type value = (expression);                                                                 \
        fake_unlock();                                                                             \
        return value;                                                                              \
    }
FINDING(const char *, fake_vulkan_failed, fake.failed)
FINDING(const char *, fake_vulkan_lost, fake.lost)
FINDING(uint64_t, fake_vulkan_calls_after_loss, fake.calls_after_loss)
FINDING(uint64_t, fake_vulkan_live, (uint64_t)fake.live)
FINDING(uint64_t, fake_vulkan_early_waits, fake.early_waits)
FINDING(uint64_t, fake_vulkan_dispatches_labelled, fake.dispatches_labelled)
FINDING(uint64_t, fake_vulkan_labels_broken, fake.labels_broken)
FINDING(const char *, fake_vulkan_label, fake.label)
FINDING(const char *, fake_vulkan_pipeline_name, fake.pipeline_name)

uint64_t fake_vulkan_calls(const char *function)
{
    fake_lock();
    uint64_t count = function ? fake.calls[find(function)] : fake.call_count;
    fake_unlock();
    return count;
}

bool fake_hidden(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = fake.hide; (at = strstr(at, name)); at += length)
        if ((at == fake.hide || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}
