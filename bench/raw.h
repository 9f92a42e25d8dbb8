/*
 * raw.h - the rival in the benchmarks: the same work launched by hand through the driver's own API,
 * in the same process. One for CUDA (raw_cuda.c) and one for Vulkan (raw_vulkan.c).
 */
#ifndef DDISP_BENCH_RAW_H
#define DDISP_BENCH_RAW_H

#include <stdbool.h>
#include <stdint.h>

/** What is launched by hand. */
enum raw_work {
    RAW_ONE,     /* ga += gy * b */
    RAW_BOTH,    /* ga += gy * b, gb += gy * a */
    RAW_SCRATCH, /* pooled allocate, fill, RAW_BOTH into it, free */
    RAW_COPY,    /* copy of one tensor's bytes */
};

typedef struct raw raw;

struct raw {
    const char *api;
    /** Queues the work `count` times and waits. False when the driver failed. */
    bool (*run)(raw *self, enum raw_work work, uint32_t count);
    /** Device memory in use, as the driver sees it; 0 when it does not tell. */
    uint64_t (*memory)(raw *self);
    void (*close)(raw *self);
};

/** Tensors of n floats on the first device. NULL when there is none, or it is no real one. */
raw *raw_cuda_open(uint64_t n);
raw *raw_vulkan_open(uint64_t n, const char *device_name);

#endif
