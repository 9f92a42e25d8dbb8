/*
 * shutdown.c - a program that ends in the way it is told, for test_shutdown.c:
 *
 *   shutdown exit DEVICE        main returns, nothing was given back
 *   shutdown atexit DEVICE      everything is given back by a function of atexit
 *   shutdown destructor DEVICE  everything is given back after main, by a global destructor
 *
 * It prints nothing when all is well. Status 77: there is no such device here.
 */
#include <diffdispatch/diffdispatch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ddisp_context *context;
static ddisp_device *device;
static ddisp_stream *stream;
static ddisp_event *event;
static ddisp_buffer *buffer;
static int give_back_at_the_end;

static void fail(const char *what)
{
    char message[512];
    (void)ddisp_last_error(message, sizeof message, NULL);
    printf("%s: %s\n", what, message);
    exit(1);
}

/* The device first, so that what stands on it has to hold it. */
static void give_back(void)
{
    char data[4] = {0};
    ddisp_context_release(context);
    ddisp_device_release(device);
    /* A driver that has taken itself down makes the device a lost one. */
    ddisp_status status = ddisp_buffer_read(buffer, 4, data, sizeof data, NULL);
    if (status != DDISP_STATUS_DEVICE_LOST && (status || memcmp(data, "abcd", 4) != 0))
        printf("the buffer does not work any more\n");
    ddisp_buffer_release(buffer);
    ddisp_event_release(event);
    ddisp_stream_release(stream);
}

static void at_exit(void)
{
    if (give_back_at_the_end == 1)
        give_back();
}

static __attribute__((destructor)) void at_the_very_end(void)
{
    if (give_back_at_the_end == 2)
        give_back();
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3)
        return 2;
    /* Before the first call, so that it runs after whatever a driver registers. */
    if (atexit(at_exit))
        return 2;

    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = sizeof desc;
    desc.backend_path = TOY_DIRECTORY;
    desc.backends = arguments[2]; /* and no other: some drivers take their time */
    if (ddisp_context_create(&desc, &context))
        fail("context");
    if (ddisp_device_open(context, arguments[2], &device))
        return 77;
    if (ddisp_stream_create(device, 0, &stream) || ddisp_event_create(device, 0, &event) ||
        ddisp_buffer_create(device, 4096, &buffer))
        fail("create");
    if (ddisp_buffer_write(buffer, 4, "abcd", 4, stream) || ddisp_event_record(event, stream) ||
        ddisp_stream_wait_event(NULL, event))
        fail("use");
    give_back_at_the_end = !strcmp(arguments[1], "atexit")       ? 1
                           : !strcmp(arguments[1], "destructor") ? 2
                                                                 : 0;
    return 0;
}
