/*
 * launch_cuda.c - an empty kernel through the CUDA driver by hand: cuLaunchKernel with the same
 * bytes of arguments, and graphs of it. Blocks above 4096 bytes go by pointer, from pinned memory,
 * as the library sends them. Also the host's rival, which is a call.
 */
#include "launch_raw.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY_VALUE_BYTES 4096u
#define SLOTS          64u

typedef int result;
typedef uint64_t pointer;

static struct {
    result (*init)(unsigned);
    result (*get_device)(int *, int);
    result (*retain)(void **, int);
    result (*push)(void *);
    result (*load)(void **, const void *, unsigned, void *, void *);
    result (*get_function)(void **, void *, const char *);
    result (*unload)(void *);
    result (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void *, void **, void **);
    result (*create_stream)(void **, unsigned);
    result (*destroy_stream)(void *);
    result (*synchronize)(void *);
    result (*allocate)(pointer *, size_t);
    result (*release)(pointer);
    result (*allocate_host)(void **, size_t, unsigned);
    result (*release_host)(void *);
    result (*upload)(pointer, const void *, size_t, void *);
    result (*begin_capture)(void *, int);
    result (*end_capture)(void *, void **);
    result (*instantiate)(void **, void *, unsigned long long);
    result (*graph_launch)(void *, void *);
    result (*destroy_exec)(void *);
    result (*destroy_graph)(void *);
} cu;

static void *context;

struct lane {
    void *module, *function, *stream, *graph, *exec;
    uint32_t block_bytes, slot;
    pointer device_block;
    unsigned char *pinned; /* SLOTS blocks */
    _Alignas(16) unsigned char block[];
};

void launch_ptx(uint32_t block_bytes, char *text, uint32_t capacity)
{
    char parameter[64];
    if (block_bytes > BY_VALUE_BYTES)
        (void)snprintf(parameter, sizeof parameter, ".param .u64 block");
    else
        (void)snprintf(parameter, sizeof parameter, ".param .align 8 .b8 block[%u]", block_bytes);
    (void)snprintf(text, capacity,
                   ".version 6.3\n.target sm_75\n.address_size 64\n"
                   ".visible .entry empty(%s)\n{\n    ret;\n}\n",
                   parameter);
}

static bool find(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);
    memcpy(out_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_driver(void)
{
    void *l = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return l && find(l, "cuInit", &cu.init) && find(l, "cuDeviceGet", &cu.get_device) &&
           find(l, "cuDevicePrimaryCtxRetain", &cu.retain) &&
           find(l, "cuCtxPushCurrent_v2", &cu.push) && find(l, "cuModuleLoadDataEx", &cu.load) &&
           find(l, "cuModuleGetFunction", &cu.get_function) &&
           find(l, "cuModuleUnload", &cu.unload) && find(l, "cuLaunchKernel", &cu.launch) &&
           find(l, "cuStreamCreate", &cu.create_stream) &&
           find(l, "cuStreamDestroy_v2", &cu.destroy_stream) &&
           find(l, "cuStreamSynchronize", &cu.synchronize) &&
           find(l, "cuMemAlloc_v2", &cu.allocate) && find(l, "cuMemFree_v2", &cu.release) &&
           find(l, "cuMemHostAlloc", &cu.allocate_host) &&
           find(l, "cuMemFreeHost", &cu.release_host) &&
           find(l, "cuMemcpyHtoDAsync_v2", &cu.upload) &&
           find(l, "cuStreamBeginCapture_v2", &cu.begin_capture) &&
           find(l, "cuStreamEndCapture", &cu.end_capture) &&
           find(l, "cuGraphInstantiateWithFlags", &cu.instantiate) &&
           find(l, "cuGraphLaunch", &cu.graph_launch) &&
           find(l, "cuGraphExecDestroy", &cu.destroy_exec) &&
           find(l, "cuGraphDestroy", &cu.destroy_graph);
}

static bool launch(lane *self)
{
    void *parameters[1] = {self->block};
    if (self->pinned) {
        unsigned char *slot = self->pinned + (size_t)(self->slot++ % SLOTS) * self->block_bytes;
        memcpy(slot, self->block, self->block_bytes);
        if (cu.upload(self->device_block, slot, self->block_bytes, self->stream))
            return false;
        parameters[0] = &self->device_block;
    }
    return cu.launch(self->function, 1, 1, 1, 64, 1, 1, 0, self->stream, parameters, NULL) == 0;
}

/* The kernels alone: a graph's blocks lie in memory of its own. */
static bool record(lane *self)
{
    void *parameters[1] = {self->pinned ? (void *)&self->device_block : self->block};
    if (cu.begin_capture(self->stream, 1 /* thread-local */))
        return false;
    result code = 0;
    for (int i = 0; i < GRAPH_LAUNCHES && !code; i++)
        code = cu.launch(self->function, 1, 1, 1, 64, 1, 1, 0, self->stream, parameters, NULL);
    return !code && !cu.end_capture(self->stream, &self->graph) &&
           !cu.instantiate(&self->exec, self->graph, 0);
}

static bool flush(lane *self)
{
    (void)self;
    return true;
}

static bool replay(lane *self)
{
    return cu.graph_launch(self->exec, self->stream) == 0;
}

static bool wait(lane *self)
{
    return cu.synchronize(self->stream) == 0;
}

static void close_lane(lane *self)
{
    if (self->exec)
        (void)cu.destroy_exec(self->exec);
    if (self->graph)
        (void)cu.destroy_graph(self->graph);
    if (self->stream)
        (void)cu.destroy_stream(self->stream);
    if (self->device_block)
        (void)cu.release(self->device_block);
    if (self->pinned)
        (void)cu.release_host(self->pinned);
    if (self->module)
        (void)cu.unload(self->module);
    free(self);
}

static lane *open_lane(uint32_t block_bytes, uint32_t tensors)
{
    char ptx[512];
    (void)tensors;
    lane *self = calloc(1, sizeof *self + (block_bytes + 15) / 16 * 16);
    if (!self || cu.push(context)) {
        free(self);
        return NULL;
    }
    self->block_bytes = block_bytes;
    launch_ptx(block_bytes, ptx, sizeof ptx);
    result code = cu.load(&self->module, ptx, 0, NULL, NULL);
    code = code ? code : cu.get_function(&self->function, self->module, "empty");
    code = code ? code : cu.create_stream(&self->stream, 1 /* non-blocking */);
    if (block_bytes > BY_VALUE_BYTES) {
        void *pinned = NULL;
        code = code ? code : cu.allocate(&self->device_block, block_bytes);
        code = code ? code : cu.allocate_host(&pinned, (size_t)SLOTS * block_bytes, 0);
        self->pinned = pinned;
    }
    if (!code && record(self))
        return self;
    fprintf(stderr, "launch: the CUDA driver failed, %d\n", code);
    close_lane(self);
    return NULL;
}

const rival *launch_cuda_open(void)
{
    static const rival cuda = {"cuda", open_lane, launch, flush, replay, wait, close_lane};
    int device;
    return load_driver() && !cu.init(0) && !cu.get_device(&device, 0) &&
                   !cu.retain(&context, device)
               ? &cuda
               : NULL;
}

/* ---- host ---- */

/* Through a pointer that the compiler cannot see through. */
static void (*volatile host_function)(const struct ddisp_block *, uint64_t,
                                      uint64_t) = launch_empty;

static lane *host_open(uint32_t block_bytes, uint32_t tensors)
{
    (void)tensors;
    return calloc(1, sizeof(lane) + (block_bytes + 15) / 16 * 16);
}

static bool host_launch(lane *self)
{
    host_function((const struct ddisp_block *)(const void *)self->block, 0, 32);
    return true;
}

static bool host_replay(lane *self)
{
    for (int i = 0; i < GRAPH_LAUNCHES; i++)
        (void)host_launch(self);
    return true;
}

static void host_close(lane *self)
{
    free(self);
}

const rival *launch_host_open(void)
{
    static const rival host = {"host",      host_open, host_launch, flush,
                               host_replay, flush,     host_close};
    return &host;
}
