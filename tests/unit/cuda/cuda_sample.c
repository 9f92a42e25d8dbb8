/*
 * cuda_sample.c - see cuda_sample.h.
 */
#include "cuda_sample.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char sample_message[2048];
ddisp_status sample_status;
uint64_t sample_live_host_allocations;
uint64_t sample_fail_allocation;
uint64_t sample_warnings;
uint64_t sample_fail_allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(void *self, uint64_t size_bytes)
{
    (void)self;
    pthread_mutex_lock(&lock);
    if (sample_fail_allocation > 0 && --sample_fail_allocation == 0) {
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    sample_live_host_allocations++;
    pthread_mutex_unlock(&lock);
    return calloc(1, size_bytes);
}

static void release(void *self, void *pointer)
{
    (void)self;
    if (pointer) {
        pthread_mutex_lock(&lock);
        sample_live_host_allocations--;
        pthread_mutex_unlock(&lock);
        free(pointer);
    }
}

static void log_message(void *self, ddisp_log_level level, const char *message)
{
    (void)self;
    (void)message;
    if (level <= DDISP_LOG_LEVEL_WARNING) {
        sample_warnings++;
    }
}

static ddisp_status fail(void *self, ddisp_status status, int64_t native_code, const char *message)
{
    (void)self;
    (void)native_code;
    pthread_mutex_lock(&lock);
    (void)snprintf(sample_message, sizeof sample_message, "%s", message);
    sample_status = status;
    pthread_mutex_unlock(&lock);
    return status;
}

const ddisp_backend_services sample_services = {
    .size = (uint32_t)sizeof(ddisp_backend_services),
    .abi = DDISP_BACKEND_ABI,
    .allocate = allocate,
    .release = release,
    .log = log_message,
    .fail = fail,
};

char *sample_read(const char *name, uint64_t *out_size_bytes)
{
    char path[1024];
    const char *folder = getenv("DDISP_TEST_CUDA_SOURCE");
    (void)snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        abort();
    }
    *out_size_bytes = fread(text, 1, (1 << 20) - 1, file);
    (void)fclose(file);
    return text;
}

void sample_add_entry(sample_code *sample, ddisp_mode mode, const char *entry, uint32_t group_size)
{
    ddisp_entry *added = &sample->entries[sample->code.entry_count++];
    added->mode = mode;
    added->name = entry;
    added->group_size[0] = group_size;
}

void sample_declare(sample_code *sample, const char *text, uint64_t size_bytes, ddisp_mode mode,
                    const char *entry, uint32_t group_size)
{
    memset(sample, 0, sizeof *sample);
    sample->code.backend = "cuda";
    sample->code.format = "ptx";
    sample->code.bytes = text;
    sample->code.size_bytes = size_bytes;
    sample->code.entries = sample->entries;
    sample->code.entry_size = (uint32_t)sizeof sample->entries[0];
    sample_add_entry(sample, mode, entry, group_size);
    for (int i = 0; i < 13; i++) {
        sample->params[i].name = "p";
        sample->params[i].access = DDISP_ACCESS_IN;
        sample->params[i].dtype = DDISP_DTYPE_F32;
        sample->params[i].flags = DDISP_PARAM_DIFFERENTIABLE;
    }
    sample->backend_code.size = (uint32_t)sizeof sample->backend_code;
    sample->backend_code.kernel_name = "sample";
    sample->backend_code.code = &sample->code;
    sample->backend_code.params = sample->params;
    sample->backend_code.param_count = 3;
    sample->backend_code.switch_ids = sample->switch_ids;
    sample->backend_code.block_size_bytes = SAMPLE_BLOCK_BYTES;
}
