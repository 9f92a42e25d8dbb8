/*
 * fake_nvrtc.c - see fake_nvrtc.h.
 */
#include "fake_nvrtc.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _nvrtcProgram {
    char *source;
    char output[16384];
    char log[256];
};
typedef struct _nvrtcProgram *program;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t fail_in, live, compilations;
static int fail_result, failed;

/* 0, or what a call is told to return. */
static int begin(void)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    if (fail_in > 0 && --fail_in == 0) {
        failed = 1;
        result = fail_result;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void fake_nvrtc_fail_at(uint64_t nth, int result)
{
    pthread_mutex_lock(&lock);
    fail_in = nth;
    fail_result = result;
    failed = 0;
    pthread_mutex_unlock(&lock);
}

int fake_nvrtc_failed(void)
{
    return failed;
}

uint64_t fake_nvrtc_live(void)
{
    return live;
}

uint64_t fake_nvrtc_compilations(void)
{
    return compilations;
}

/* ---- the library's functions */

FAKE_NVRTC int nvrtcVersion(int *major, int *minor);
FAKE_NVRTC int nvrtcGetNumSupportedArchs(int *count);
FAKE_NVRTC int nvrtcGetSupportedArchs(int *archs);
FAKE_NVRTC int nvrtcCreateProgram(program *out, const char *source, const char *name,
                                  int header_count, const char *const *headers,
                                  const char *const *names);
FAKE_NVRTC int nvrtcDestroyProgram(program *it);
FAKE_NVRTC int nvrtcCompileProgram(program it, int option_count, const char *const *options);
FAKE_NVRTC int nvrtcGetProgramLogSize(program it, size_t *size);
FAKE_NVRTC int nvrtcGetProgramLog(program it, char *log);
FAKE_NVRTC int nvrtcGetCUBINSize(program it, size_t *size);
FAKE_NVRTC int nvrtcGetCUBIN(program it, char *bytes);
FAKE_NVRTC int nvrtcGetPTXSize(program it, size_t *size);
FAKE_NVRTC int nvrtcGetPTX(program it, char *bytes);

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 7; /* none that exists */
    return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    archs[0] = 75;
    archs[1] = 90;
    return 0;
}

int nvrtcCreateProgram(program *out, const char *source, const char *name, int header_count,
                       const char *const *headers, const char *const *names)
{
    int result = begin();
    (void)name;
    if (result != 0) {
        return result;
    }
    for (int i = 0; i < header_count; i++) {
        if (!headers[i] || !names[i]) {
            abort();
        }
    }
    *out = calloc(1, sizeof **out);
    (*out)->source = strdup(source);
    live++;
    return 0;
}

int nvrtcDestroyProgram(program *it)
{
    free((*it)->source);
    free(*it);
    *it = NULL;
    live--;
    return 0;
}

static void write_entry(program it, const char *name, size_t length)
{
    size_t used = strlen(it->output);
    int block = strncmp(name + length, "(block)", 7) == 0;
    used += (size_t)snprintf(it->output + used, sizeof it->output - used, ".visible .entry %.*s(",
                             (int)length, name);
    for (int i = 0; i < (block ? 1 : 6); i++) {
        used += (size_t)snprintf(it->output + used, sizeof it->output - used, "%s\n.param %s p%d%s",
                                 i ? "," : "", block ? ".align 8 .b8" : ".u64", i,
                                 block ? "[992]" : "");
    }
    (void)snprintf(it->output + used, sizeof it->output - used, ")\n{\nret;\n}\n");
}

int nvrtcCompileProgram(program it, int option_count, const char *const *options)
{
    static const char word[] = "__global__ void ";
    int result = begin();
    compilations++;
    if (result != 0) {
        return result;
    }
    if (strstr(it->source, "#error")) {
        (void)snprintf(it->log, sizeof it->log, "sample.cu(3): error: no good");
        return 6;
    }
    (void)snprintf(it->output, sizeof it->output,
                   ".version 8.0\n.target sm_75\n.address_size 64\n");
    for (int i = 0; i < option_count; i++) {
        size_t used = strlen(it->output);
        (void)snprintf(it->output + used, sizeof it->output - used, "// option %s\n", options[i]);
    }
    for (const char *at = strstr(it->source, word); at; at = strstr(at, word)) {
        at += sizeof word - 1;
        write_entry(it, at, strcspn(at, "("));
    }
    return 0;
}

int nvrtcGetProgramLogSize(program it, size_t *size)
{
    *size = strlen(it->log) + 1;
    return begin();
}

int nvrtcGetProgramLog(program it, char *log)
{
    int result = begin();
    if (result == 0) {
        strcpy(log, it->log);
    }
    return result;
}

int nvrtcGetCUBINSize(program it, size_t *size)
{
    (void)it;
    *size = 0; /* as for a virtual architecture */
    return begin();
}

int nvrtcGetCUBIN(program it, char *bytes)
{
    (void)it;
    (void)bytes;
    abort();
}

int nvrtcGetPTXSize(program it, size_t *size)
{
    *size = strlen(it->output) + 1;
    return begin();
}

int nvrtcGetPTX(program it, char *bytes)
{
    int result = begin();
    if (result == 0) {
        strcpy(bytes, it->output);
    }
    return result;
}
