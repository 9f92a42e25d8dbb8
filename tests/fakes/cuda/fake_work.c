/*
 * fake_work.c - the stand-in driver's streams, events, modules and launches. Work is done when it
 * is queued; an event can pretend for a number of queries that it was not.
 */
#include "fake_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct CUstream_st {
    cu__context context;
};

struct CUevent_st {
    cu__stream stream;
    uint64_t queries_left;
};

struct CUfunc_st {
    cu__module module;
    char name[256];
    int dynamic_shared_bytes;
};

struct CUmod_st {
    char *text;
    struct CUfunc_st function;
};

/* ---- streams and events */

cu__result cuStreamCreate(cu__stream *out_stream, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_stream_create);
    if (result == CU__SUCCESS && flags != CU__STREAM_NON_BLOCKING) {
        result = CU__ERROR_INVALID_VALUE; /* the library makes no other kind */
    }
    if (result == CU__SUCCESS) {
        *out_stream = calloc(1, sizeof **out_stream);
        (*out_stream)->context = fake_current();
        fake.streams++;
    }
    return fake_end(result);
}

cu__result cuStreamDestroy_v2(cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_stream_destroy);
    if (fake_releases(result)) {
        free(stream);
        fake.streams--;
    }
    return fake_end(result);
}

cu__result cuStreamSynchronize(cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_stream_synchronize);
    if (result == CU__SUCCESS && stream->context != fake_current()) {
        result = CU__ERROR_INVALID_HANDLE;
    }
    return fake_end(result);
}

cu__result cuStreamWaitEvent(cu__stream stream, cu__event event, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_stream_wait_event);
    if (result == CU__SUCCESS && (!stream || !event->stream || flags != 0)) {
        result = CU__ERROR_INVALID_HANDLE;
    }
    return fake_end(result);
}

cu__result cuEventCreate(cu__event *out_event, unsigned int flags)
{
    cu__result result = fake_begin_current(FAKE_event_create);
    if (result == CU__SUCCESS && flags != CU__EVENT_DISABLE_TIMING) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        *out_event = calloc(1, sizeof **out_event);
        fake.events++;
    }
    return fake_end(result);
}

cu__result cuEventDestroy_v2(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_destroy);
    if (fake_releases(result)) {
        free(event);
        fake.events--;
    }
    return fake_end(result);
}

cu__result cuEventRecord(cu__event event, cu__stream stream)
{
    cu__result result = fake_begin_current(FAKE_event_record);
    if (result == CU__SUCCESS) {
        event->stream = stream;
        event->queries_left = fake.delay;
    }
    return fake_end(result);
}

cu__result cuEventQuery(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_query);
    if (result == CU__SUCCESS && event->queries_left > 0) {
        event->queries_left--;
        result = CU__ERROR_NOT_READY;
    }
    return fake_end(result);
}

cu__result cuEventSynchronize(cu__event event)
{
    cu__result result = fake_begin_current(FAKE_event_synchronize);
    if (result == CU__SUCCESS) {
        event->queries_left = 0;
    }
    return fake_end(result);
}

/* ---- modules */

static bool has_entry(const char *text, const char *name)
{
    static const char word[] = ".entry";
    for (const char *at = text; (at = strstr(at, word)) != NULL;) {
        at += sizeof word - 1;
        while (isspace((unsigned char)*at)) {
            at++;
        }
        size_t length = strlen(name);
        if (strncmp(at, name, length) == 0 && !isalnum((unsigned char)at[length]) &&
            at[length] != '_' && at[length] != '$') {
            return true;
        }
    }
    return false;
}

static void write_log(unsigned int option_count, const unsigned int *options,
                      void *const *option_values)
{
    static const char log[] = "fake log: line 1: no good";
    char *buffer = NULL;
    size_t capacity = 0;
    for (unsigned int i = 0; i < option_count; i++) {
        if (options[i] == CU__JIT_ERROR_LOG_BUFFER) {
            buffer = option_values[i];
        } else if (options[i] == CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            capacity = (size_t)(uintptr_t)option_values[i];
        }
    }
    if (buffer && capacity >= sizeof log) {
        memcpy(buffer, log, sizeof log);
    }
}

cu__result cuModuleLoadDataEx(cu__module *out_module, const void *image, unsigned int option_count,
                              unsigned int *options, void **option_values)
{
    cu__result result = fake_begin_current(FAKE_module_load_data_ex);
    if (result == CU__SUCCESS && !strstr(image, ".entry")) {
        result = CU__ERROR_INVALID_PTX;
    }
    if (result == CU__ERROR_INVALID_PTX) {
        write_log(option_count, options, option_values);
    }
    if (result == CU__SUCCESS) {
        *out_module = calloc(1, sizeof **out_module);
        (*out_module)->text = strdup(image);
        fake.modules++;
    }
    return fake_end(result);
}

cu__result cuModuleUnload(cu__module module)
{
    cu__result result = fake_begin_current(FAKE_module_unload);
    if (fake_releases(result)) {
        free(module->text);
        free(module);
        fake.modules--;
    }
    return fake_end(result);
}

cu__result cuModuleGetFunction(cu__function *out_function, cu__module module, const char *name)
{
    cu__result result = fake_begin_current(FAKE_module_get_function);
    if (result == CU__SUCCESS && !has_entry(module->text, name)) {
        result = CU__ERROR_NOT_FOUND;
    }
    if (result == CU__SUCCESS) {
        module->function.module = module;
        strncpy(module->function.name, name, sizeof module->function.name - 1);
        *out_function = &module->function;
    }
    return fake_end(result);
}

cu__result cuFuncGetAttribute(int *out_value, unsigned int attribute, cu__function function)
{
    cu__result result = fake_begin_current(FAKE_func_get_attribute);
    (void)function;
    if (result == CU__SUCCESS) {
        switch (attribute) {
        case CU__FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *out_value = fake.max_threads;
            break;
        case CU__FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            *out_value = fake.static_shared_bytes;
            break;
        default:
            result = CU__ERROR_INVALID_VALUE;
        }
    }
    return fake_end(result);
}

cu__result cuFuncSetAttribute(cu__function function, unsigned int attribute, int value)
{
    cu__result result = fake_begin_current(FAKE_func_set_attribute);
    if (result == CU__SUCCESS && attribute != CU__FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        function->dynamic_shared_bytes = value;
    }
    return fake_end(result);
}

cu__result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out_groups, cu__function function,
                                                       int group_size, size_t shared_bytes)
{
    cu__result result = fake_begin_current(FAKE_occupancy);
    (void)function;
    (void)shared_bytes;
    *out_groups = 1024 / group_size;
    return fake_end(result);
}

cu__result cuLaunchKernel(cu__function function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                          unsigned int block_z, unsigned int shared_bytes, cu__stream stream,
                          void **parameters, void **extra)
{
    cu__result result = fake_begin_current(FAKE_launch_kernel);
    unsigned int grid[3] = {grid_x, grid_y, grid_z}, group[3] = {block_x, block_y, block_z};
    unsigned int allowed_bytes =
        function->dynamic_shared_bytes ? (unsigned int)function->dynamic_shared_bytes : 49152u;
    if (result == CU__SUCCESS &&
        (grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 ||
         block_z == 0 || shared_bytes > allowed_bytes || !stream || extra)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS && fake.kernel && strcmp(fake.kernel_name, function->name) == 0) {
        fake.kernel(function->module->text, parameters, grid, group);
    }
    return fake_end(result);
}
