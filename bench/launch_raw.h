/*
 * launch_raw.h - the rival of bench/launch: the same empty kernel launched through the driver's own
 * API (CUDA, Vulkan) or called (host), by as many threads, each with a queue of its own.
 */
#ifndef DDISP_BENCH_LAUNCH_RAW_H
#define DDISP_BENCH_LAUNCH_RAW_H

#include <stdbool.h>
#include <stdint.h>

/** Launches in a graph. */
#define GRAPH_LAUNCHES 8

/** A queue for one thread. */
typedef struct lane lane;

typedef struct rival {
    const char *api;
    /** Ready to launch with so many bytes of arguments; called by the thread that launches. */
    lane *(*open)(uint32_t block_bytes, uint32_t tensors);
    /** Queues or records one launch. */
    bool (*launch)(lane *self);
    /** Hands what was recorded to the device. */
    bool (*flush)(lane *self);
    /** Queues GRAPH_LAUNCHES launches that were recorded before. */
    bool (*replay)(lane *self);
    bool (*wait)(lane *self);
    void (*close)(lane *self);
} rival;

/** NULL when there is no such device. */
const rival *launch_cuda_open(void);
/** words: the empty kernel. */
const rival *launch_vulkan_open(const char *device_name, const uint32_t *words,
                                uint32_t size_bytes);
const rival *launch_host_open(void);

/** PTX of the empty kernel "empty" whose parameter is a block of so many bytes. */
void launch_ptx(uint32_t block_bytes, char *text, uint32_t capacity);
/** The host's empty kernel. */
struct ddisp_block;
void launch_empty(const struct ddisp_block *block, uint64_t begin, uint64_t end);

#endif
