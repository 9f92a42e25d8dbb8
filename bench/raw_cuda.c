/*
 * raw_cuda.c - the benchmark's rival on CUDA: the driver API by hand. Everything it needs is
 * declared here; libcuda.so.1 is opened at run time.
 */
#include "raw.h"

#include "hand.ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef uint64_t pointer;

static struct {
    result (*init)(unsigned);
    result (*get_device)(int *, int);
    result (*retain)(void **, int);
    result (*set_current)(void *);
    result (*push)(void *);
    result (*pop)(void **);
    result (*load)(void **, const void *);
    result (*get_function)(void **, void *, const char *);
    result (*allocate)(pointer *, size_t);
    result (*release)(pointer);
    result (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void *, void **, void **);
    result (*create_stream)(void **, unsigned);
    result (*synchronize)(void *);
    result (*allocate_async)(pointer *, size_t, void *);
    result (*release_async)(pointer, void *);
    result (*default_pool)(void **, int);
    result (*set_pool)(void *, int, void *);
    result (*fill)(pointer, unsigned, size_t, void *);
    result (*copy)(pointer, pointer, size_t, void *);
    result (*info)(size_t *, size_t *);
} cu;

typedef struct cuda {
    raw base;
    uint64_t n;
    void *context, *stream, *one, *both;
    pointer a, b, gy, ga, gb;
} cuda;

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
           find(l, "cuCtxSetCurrent", &cu.set_current) &&
           find(l, "cuCtxPushCurrent_v2", &cu.push) && find(l, "cuCtxPopCurrent_v2", &cu.pop) &&
           find(l, "cuModuleLoadData", &cu.load) &&
           find(l, "cuModuleGetFunction", &cu.get_function) &&
           find(l, "cuMemAlloc_v2", &cu.allocate) && find(l, "cuMemFree_v2", &cu.release) &&
           find(l, "cuLaunchKernel", &cu.launch) && find(l, "cuStreamCreate", &cu.create_stream) &&
           find(l, "cuStreamSynchronize", &cu.synchronize) &&
           find(l, "cuMemAllocAsync", &cu.allocate_async) &&
           find(l, "cuMemFreeAsync", &cu.release_async) &&
           find(l, "cuDeviceGetDefaultMemPool", &cu.default_pool) &&
           find(l, "cuMemPoolSetAttribute", &cu.set_pool) &&
           find(l, "cuMemsetD32Async", &cu.fill) && find(l, "cuMemcpyDtoDAsync_v2", &cu.copy) &&
           find(l, "cuMemGetInfo_v2", &cu.info);
}

static result launch_one(cuda *c)
{
    void *arguments[] = {&c->b, &c->gy, &c->ga, &c->n};
    return cu.launch(c->one, (unsigned)((c->n + 255) / 256), 1, 1, 256, 1, 1, 0, c->stream,
                     arguments, NULL);
}

static result launch_both(cuda *c, pointer gb)
{
    void *arguments[] = {&c->a, &c->b, &c->gy, &c->ga, &gb, &c->n};
    return cu.launch(c->both, (unsigned)((c->n + 255) / 256), 1, 1, 256, 1, 1, 0, c->stream,
                     arguments, NULL);
}

static result launch_scratch(cuda *c)
{
    pointer scratch;
    result code = cu.allocate_async(&scratch, c->n * 4, c->stream);
    if (!code)
        code = cu.fill(scratch, 0, c->n, c->stream);
    if (!code)
        code = launch_both(c, scratch);
    if (!code)
        code = cu.release_async(scratch, c->stream);
    return code;
}

static bool run(raw *self, enum raw_work work, uint32_t count)
{
    cuda *c = (cuda *)self;
    void *previous;
    result code = cu.push(c->context);
    for (uint32_t i = 0; i < count && !code; i++)
        code = work == RAW_ONE       ? launch_one(c)
               : work == RAW_BOTH    ? launch_both(c, c->gb)
               : work == RAW_SCRATCH ? launch_scratch(c)
                                     : cu.copy(c->gb, c->b, c->n * 4, c->stream);
    if (!code)
        code = cu.synchronize(c->stream);
    (void)cu.pop(&previous);
    return code == 0;
}

static uint64_t memory(raw *self)
{
    cuda *c = (cuda *)self;
    size_t unused = 0, total = 0;
    void *previous;
    (void)cu.push(c->context);
    (void)cu.info(&unused, &total);
    (void)cu.pop(&previous);
    return total - unused;
}

static void close_cuda(raw *self)
{
    cuda *c = (cuda *)self;
    void *previous;
    (void)cu.push(c->context);
    pointer all[] = {c->a, c->b, c->gy, c->ga, c->gb};
    for (int i = 0; i < 5; i++)
        (void)cu.release(all[i]);
    (void)cu.pop(&previous);
    free(c);
}

raw *raw_cuda_open(uint64_t n)
{
    int device;
    void *module, *pool, *previous;
    uint64_t keep = UINT64_MAX;
    cuda *c = calloc(1, sizeof *c);
    if (!c || !load_driver() || cu.init(0) || cu.get_device(&device, 0) ||
        cu.retain(&c->context, device) || cu.push(c->context)) {
        free(c);
        return NULL;
    }
    c->base = (raw){"cuda", run, memory, close_cuda};
    c->n = n;
    pointer *all[] = {&c->a, &c->b, &c->gy, &c->ga, &c->gb};
    result code = cu.load(&module, hand_ptx);
    code = code ? code : cu.get_function(&c->one, module, "hand_one");
    code = code ? code : cu.get_function(&c->both, module, "hand_both");
    code = code ? code : cu.create_stream(&c->stream, 1);
    code = code ? code : cu.default_pool(&pool, device);
    code = code ? code : cu.set_pool(pool, 4 /* release threshold */, &keep);
    for (int i = 0; i < 5 && !code; i++) {
        code = cu.allocate(all[i], n * 4);
        code = code ? code : cu.fill(*all[i], 0x3f800000u + (unsigned)i, n, c->stream);
    }
    (void)cu.pop(&previous);
    if (!code)
        return &c->base;
    fprintf(stderr, "cuda: error %d\n", code);
    free(c);
    return NULL;
}
