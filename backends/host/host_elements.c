/*
 * host_elements.c - element-wise work on tensors of any layout: fill, store with conversion, add
 * with reduction. Sums are taken in double, in an order that depends on the shapes alone, so that
 * results are the same whatever the number of threads. In: described tensors of one shape; out:
 * elements of the destination, nothing between them.
 */
#include "host_internal.h"
#include "host_number.h"

#include <string.h>

/** Reductions are summed in blocks of this many elements, then block by block. */
#define BLOCK 4096
/** Work up to here is done by one thread. */
#define ALONE 4096

/* One operation, as queued. Axes are sorted: those that the destination keeps, then those it sums.
 */
typedef struct work {
    host_operation operation;
    ddisp_backend_tensor destination, source;
    double alpha;
    uint64_t bits;  /* of a fill */
    uint32_t kept;  /* axes that the destination keeps */
    int64_t cells;  /* product of their extents */
    int64_t summed; /* product of the others */
    bool adds, fills;
    bool blocks; /* few cells are summed: sums of blocks are kept in partial */
    double partial[];
} work;

static unsigned char *pointer(const ddisp_backend_tensor *tensor, int64_t element)
{
    int64_t size = (int64_t)host__dtype_size(tensor->dtype);
    return (unsigned char *)(uintptr_t)tensor->address + element * size;
}

/* Offset of linear index n over axes first to last - 1. */
static int64_t offset(const ddisp_backend_tensor *tensor, uint32_t first, uint32_t last, int64_t n)
{
    int64_t element = 0;
    for (uint32_t i = last; i-- > first;) {
        element += n % tensor->shape[i] * tensor->strides[i];
        n /= tensor->shape[i];
    }
    return element;
}

static double sum_of(const work *it, int64_t base, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t n = begin; n < end; n++) {
        int64_t at = base + offset(&it->source, it->kept, it->source.rank, n);
        sum += host_load(it->source.dtype, pointer(&it->source, at));
    }
    return sum;
}

/* Elements without reduction. */
static void each_part(void *user, uint64_t begin, uint64_t end)
{
    const work *it = user;
    uint32_t size = host__dtype_size(it->destination.dtype);
    bool same = it->source.dtype == it->destination.dtype && it->alpha == 1.0;
    for (uint64_t n = begin; n < end; n++) {
        unsigned char *to =
            pointer(&it->destination, offset(&it->destination, 0, it->kept, (int64_t)n));
        if (it->fills) {
            memcpy(to, &it->bits, size);
            continue;
        }
        const unsigned char *from =
            pointer(&it->source, offset(&it->source, 0, it->kept, (int64_t)n));
        if (it->adds) {
            host_add(it->destination.dtype, to, it->alpha * host_load(it->source.dtype, from));
        } else if (same) {
            memcpy(to, from, size);
        } else {
            host_store(it->destination.dtype, to, it->alpha * host_load(it->source.dtype, from));
        }
    }
}

/* Cells, each summed by one thread, block by block. */
static void cell_part(void *user, uint64_t begin, uint64_t end)
{
    const work *it = user;
    for (uint64_t n = begin; n < end; n++) {
        int64_t base = offset(&it->source, 0, it->kept, (int64_t)n);
        double sum = 0;
        for (int64_t k = 0; k < it->summed; k += BLOCK) {
            sum += sum_of(it, base, k, it->summed - k > BLOCK ? k + BLOCK : it->summed);
        }
        int64_t to = offset(&it->destination, 0, it->kept, (int64_t)n);
        host_add(it->destination.dtype, pointer(&it->destination, to), it->alpha * sum);
    }
}

/* Blocks of all cells, when there are too few cells to share out. */
static void block_part(void *user, uint64_t begin, uint64_t end)
{
    work *it = user;
    int64_t blocks = (it->summed + BLOCK - 1) / BLOCK;
    for (uint64_t n = begin; n < end; n++) {
        int64_t cell = (int64_t)n / blocks, k = (int64_t)n % blocks * BLOCK;
        int64_t base = offset(&it->source, 0, it->kept, cell);
        it->partial[n] = sum_of(it, base, k, it->summed - k > BLOCK ? k + BLOCK : it->summed);
    }
}

static void add_blocks(const work *it)
{
    int64_t blocks = (it->summed + BLOCK - 1) / BLOCK;
    for (int64_t cell = 0; cell < it->cells; cell++) {
        double sum = 0;
        for (int64_t k = 0; k < blocks; k++) {
            sum += it->partial[cell * blocks + k];
        }
        int64_t to = offset(&it->destination, 0, it->kept, cell);
        host_add(it->destination.dtype, pointer(&it->destination, to), it->alpha * sum);
    }
}

static void run_work(host_device *device, host_operation *operation)
{
    work *it = (work *)operation;
    if (it->summed == 1) {
        host__split((uint64_t)it->cells, 64, ALONE, each_part, it);
    } else if (!it->blocks) {
        host__split((uint64_t)it->cells, 1, 1, cell_part, it);
    } else {
        int64_t blocks = (it->summed + BLOCK - 1) / BLOCK;
        host__split((uint64_t)(it->cells * blocks), 1, 1, block_part, it);
        add_blocks(it);
    }
    host__operation_done(device, operation);
}

/* Moves the axes that the destination keeps to the front. */
static void sort_axes(work *it)
{
    ddisp_backend_tensor to = it->destination, from = it->source;
    uint32_t at = 0;
    it->cells = it->summed = 1;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < to.rank; i++) {
            bool summed = it->adds && to.strides[i] == 0 && to.shape[i] > 1;
            if (summed != (pass == 1)) {
                continue;
            }
            it->destination.shape[at] = it->source.shape[at] = to.shape[i];
            it->destination.strides[at] = to.strides[i];
            it->source.strides[at] = from.strides[i];
            at++;
            *(summed ? &it->summed : &it->cells) *= to.shape[i];
        }
        if (pass == 0) {
            it->kept = at;
        }
    }
    it->source.rank = it->destination.rank = at;
}

static ddisp_status start(host_device *device, void *stream, work *wanted)
{
    sort_axes(wanted);
    wanted->operation.run = run_work;
    wanted->blocks = wanted->summed > BLOCK && wanted->cells < 64;
    uint64_t blocks = (uint64_t)(wanted->cells * ((wanted->summed + BLOCK - 1) / BLOCK));
    uint64_t size_bytes = sizeof *wanted + (wanted->blocks ? blocks * sizeof(double) : 0);
    work *it = backend_allocate(device->services, size_bytes);
    if (!it) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue element-wise work (%llu bytes)",
                            (unsigned long long)size_bytes);
    }
    memcpy(it, wanted, sizeof *it);
    return host__stream_run(device, stream, &it->operation);
}

ddisp_status host__fill_elements(void *device, void *stream,
                                 const ddisp_backend_tensor *destination, uint64_t bits)
{
    work it = {.destination = *destination, .source = *destination, .bits = bits, .fills = true};
    return start(device, stream, &it);
}

ddisp_status host__accumulate(void *device, void *stream, const ddisp_backend_tensor *destination,
                              const ddisp_backend_tensor *source, double alpha, uint32_t operation,
                              uint64_t flags)
{
    (void)flags; /* the order of sums is fixed anyway */
    work it = {.destination = *destination,
               .source = *source,
               .alpha = alpha,
               .adds = operation == DDISP_BACKEND_ACCUMULATE_ADD};
    return start(device, stream, &it);
}

uint32_t host__dtype_size(ddisp_dtype dtype)
{
    static const uint32_t sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dtype < sizeof sizes / sizeof sizes[0] ? sizes[dtype] : 0;
}
