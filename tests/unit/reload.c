/*
 * reload.c - a program that loads the library, uses it and unloads it again, many times, and then
 * forks and ends: case 47 (d). Arguments: the library, how often, a device. It prints nothing when
 * all is well. Status 77: there is no such device here.
 */
#include <diffdispatch/device.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads a function's address into a pointer to a function. */
#define LOAD(library, name, pointer)                                                               \
    do {                                                                                           \
        void *load_address = dlsym((library), (name));                                             \
        memcpy(&(pointer), &load_address, sizeof load_address);                                    \
        if (!load_address)                                                                         \
            return 3;                                                                              \
    } while (0)

static int use(void *library, const char *spec)
{
    ddisp_status (*create)(const ddisp_context_desc *, ddisp_context **);
    ddisp_status (*open)(ddisp_context *, const char *, ddisp_device **);
    ddisp_status (*make)(ddisp_device *, uint64_t, ddisp_buffer **);
    ddisp_status (*put)(ddisp_buffer *, uint64_t, const void *, uint64_t, ddisp_stream *);
    void (*release_context)(ddisp_context *);
    void (*release_device)(ddisp_device *);
    void (*release_buffer)(ddisp_buffer *);
    LOAD(library, "ddisp_context_create", create);
    LOAD(library, "ddisp_device_open", open);
    LOAD(library, "ddisp_buffer_create", make);
    LOAD(library, "ddisp_buffer_write", put);
    LOAD(library, "ddisp_context_release", release_context);
    LOAD(library, "ddisp_device_release", release_device);
    LOAD(library, "ddisp_buffer_release", release_buffer);

    ddisp_context *context;
    ddisp_device *device;
    ddisp_buffer *buffer;
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = sizeof desc;
    desc.backend_path = TOY_DIRECTORY;
    desc.backends = spec; /* and no other: some drivers take their time */
    if (create(&desc, &context))
        return 4;
    if (open(context, spec, &device)) {
        release_context(context);
        return 77;
    }
    if (make(device, 64, &buffer) || put(buffer, 0, "abcd", 4, NULL))
        return 5;
    release_buffer(buffer);
    release_device(device);
    release_context(context);
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 4)
        return 2;
    for (int i = 0; i < atoi(arguments[2]); i++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("%s\n", dlerror());
            return 1;
        }
        int result = use(library, arguments[3]);
        if (result) {
            printf("round %d: %d\n", i, result);
            return result;
        }
        if (dlclose(library))
            return 6;
    }
    /* The library's fork handler went with it. */
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child < 0 || waitpid(child, &status, 0) != child || status ? 7 : 0;
}
