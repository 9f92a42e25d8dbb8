/*
 * host_fold.c - the end of deterministic mode: sums that kernels took in integers go into the
 * gradient. In: a destination of any layout and dtype, and a shadow of its shape; out: elements of
 * the destination, and a flag where an integer is larger than any sum may be.
 */
#include "host_internal.h"
#include "host_number.h"

#include <string.h>

#define LARGEST_SUM (INT64_C(1) << 62)
#define TOO_MANY    4u /* ddisp_backend_table.fold */
/** Work up to here is done by one thread. */
#define ALONE 4096

typedef struct work {
    host_operation operation;
    ddisp_backend_tensor destination, shadow;
    int64_t cells;
    double step; /* 1 / scale */
    uint64_t sticky;
    bool wide, adds;
} work;

/* The sum with at most one rounding but for that of the product. */
static double value_of(const work *it, int64_t whole, int64_t units)
{
    if (it->wide) {
        whole += units >> 30; /* carries, also downwards */
        units &= (INT64_C(1) << 30) - 1;
    }
    if (whole > LARGEST_SUM || whole < -LARGEST_SUM) {
        __atomic_fetch_or((uint32_t *)(uintptr_t)it->sticky, TOO_MANY, __ATOMIC_RELAXED);
    }
    double high = (double)whole, rest = 0;
    if (whole <= LARGEST_SUM && whole >= -LARGEST_SUM) { /* beyond, high may not be an int64_t */
        rest = (double)(whole - (int64_t)high);
    }
    return (high + (rest + (it->wide ? (double)units * 0x1p-30 : 0))) * it->step;
}

static void part(void *user, uint64_t begin, uint64_t end)
{
    const work *it = user;
    int64_t size = (int64_t)host__dtype_size(it->destination.dtype);
    for (uint64_t n = begin; n < end; n++) {
        int64_t to = 0, from = 0, rest = (int64_t)n;
        for (uint32_t i = it->destination.rank; i-- > 0;) {
            int64_t at = rest % it->destination.shape[i];
            to += at * it->destination.strides[i];
            from += at * it->shadow.strides[i];
            rest /= it->destination.shape[i];
        }
        const int64_t *sum =
            (const int64_t *)(uintptr_t)it->shadow.address + from * (it->wide ? 2 : 1);
        unsigned char *element = (unsigned char *)(uintptr_t)it->destination.address + to * size;
        double value = value_of(it, sum[0], it->wide ? sum[1] : 0);
        if (it->adds) {
            host_add(it->destination.dtype, element, value);
        } else {
            host_store(it->destination.dtype, element, value);
        }
    }
}

static void run_work(host_device *device, host_operation *operation)
{
    work *it = (work *)operation;
    host__split((uint64_t)it->cells, 64, ALONE, part, it);
    host__operation_done(device, operation);
}

ddisp_status host__fold(void *device_handle, void *stream, const ddisp_backend_tensor *destination,
                        const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                        uint64_t flags, const ddisp_backend_range *sticky)
{
    host_device *device = device_handle;
    work *it = backend_allocate(device->services, sizeof *it);
    if (!it) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a fold (%zu bytes)", sizeof *it);
    }
    it->operation.run = run_work;
    it->destination = *destination;
    it->shadow = *shadow;
    it->step = 1 / scale;
    it->sticky = sticky->address;
    it->wide = (flags & DDISP_BACKEND_FOLD_WIDE) != 0;
    it->adds = operation == DDISP_BACKEND_ACCUMULATE_ADD;
    it->cells = 1;
    for (uint32_t i = 0; i < destination->rank; i++) {
        it->cells *= destination->shape[i];
    }
    return host__stream_run(device, stream, &it->operation);
}
