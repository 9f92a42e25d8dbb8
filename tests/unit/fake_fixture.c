/*
 * fake_fixture.c - a device of the fake backend with two streams, and a check that all was given
 * back.
 */
#include "fake.h"

#include <stdio.h>
#include <time.h>

int fake_setup(void **state)
{
    static struct fake_fixture fixture;
    fixture = (struct fake_fixture){.context = fake_context()};
    if (!fixture.context || ddisp_device_open(fixture.context, "fake", &fixture.device) ||
        ddisp_stream_create(fixture.device, 0, &fixture.second) ||
        ddisp_stream_create(fixture.device, 0, &fixture.third))
        return 1;
    fake_forget();
    *state = &fixture;
    return 0;
}

/* A thread that called a function for an event gives the last references back behind the call: the
 * context's own block is the last. */
static void wait_for_threads(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 10000 && __atomic_load_n(&fake.host_blocks, __ATOMIC_ACQUIRE) != 0; i++)
        (void)nanosleep(&moment, NULL);
}

int fake_teardown(void **state)
{
    struct fake_fixture *fixture = *state;
    ddisp_stream_release(fixture->second);
    ddisp_stream_release(fixture->third);
    ddisp_device_release(fixture->device);
    ddisp_context_release(fixture->context);
    wait_for_threads();
    if (!fake.blocks && !fake.imports && !fake.streams && !fake.devices && !fake.instances &&
        !fake.host_blocks)
        return 0;
    fprintf(stderr,
            "left over: %u blocks, %u imports, %u streams, %u devices, %u instances, %u host "
            "blocks\n",
            fake.blocks, fake.imports, fake.streams, fake.devices, fake.instances,
            fake.host_blocks);
    return 1;
}

ddisp_buffer *fake_buffer(struct fake_fixture *fixture, uint64_t size_bytes)
{
    ddisp_buffer *buffer = NULL;
    (void)ddisp_buffer_create(fixture->device, size_bytes, &buffer);
    return buffer;
}

void fake_count_release(void *user_data)
{
    ++*(int *)user_data;
}

ddisp_buffer *fake_wrap(struct fake_fixture *fixture, int *releases)
{
    ddisp_buffer *buffer = NULL;
    (void)ddisp_buffer_wrap(fixture->device, 0x5000, 64, fake_count_release, releases, &buffer);
    return buffer;
}
