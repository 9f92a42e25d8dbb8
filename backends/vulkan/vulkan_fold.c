/*
 * vulkan_fold.c - the end of deterministic mode in users' kernels, by a built-in shader
 * (kernels/fold.comp): sums that were taken in integers go into the gradient. In: a destination of
 * any layout and dtype, and a shadow of its shape.
 */
#include "vulkan_operations.h"

#include <string.h>

#include "fold.spv.h"
#include "fold_double.spv.h"

#define GROUP       256
#define MOST_GROUPS UINT64_C(65535)

/** As in kernels/fold.comp. Strides are in bytes. */
typedef struct work {
    uint64_t destination, shadow, sticky;
    uint64_t bits;
    uint64_t cells;
    uint32_t rank, reserved;
    int64_t shape[8], destination_stride[8], shadow_stride[8];
} work;

/** Specialization constants. */
enum { DESTINATION, WIDE, ADDS, CONSTANTS };

static const vulkan__builtin folds[2] = {{fold_spv, sizeof fold_spv},
                                         {fold_double_spv, sizeof fold_double_spv}};

static void describe(work *it, const ddisp_backend_tensor *destination,
                     const ddisp_backend_tensor *shadow, bool wide)
{
    ddisp_dtype dtype = destination->dtype;
    int64_t size = dtype == DDISP_DTYPE_F64 ? 8 : dtype == DDISP_DTYPE_F32 ? 4 : 2;
    it->cells = 1;
    for (uint32_t i = 0; i < destination->rank; i++) {
        if (destination->shape[i] == 1)
            continue;
        it->cells *= (uint64_t)destination->shape[i];
        it->shape[it->rank] = destination->shape[i];
        it->destination_stride[it->rank] = destination->strides[i] * size;
        it->shadow_stride[it->rank] = shadow->strides[i] * (wide ? 16 : 8);
        it->rank++;
    }
}

static ddisp_status dispatch(vulkan__device *device, vulkan__stream *stream, VkPipeline pipeline,
                             const work *it, const ddisp_backend_access *accesses, uint32_t count)
{
    uint64_t groups = (it->cells + GROUP - 1) / GROUP;
    vulkan__piece piece;
    ddisp_status status = vulkan__ring_take(device, stream, &stream->arguments, sizeof *it, &piece);
    if (status != DDISP_STATUS_OK)
        return status;
    memcpy(piece.mapped, it, sizeof *it);
    vulkan__batch_order(device, stream, accesses, count);
    vulkan__builtin_record(device, stream, pipeline, &piece.address, (uint32_t)sizeof piece.address,
                           (uint32_t)(groups < MOST_GROUPS ? groups : MOST_GROUPS));
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__fold(void *device_handle, void *stream,
                          const ddisp_backend_tensor *destination,
                          const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                          uint64_t flags, const ddisp_backend_range *sticky)
{
    vulkan__device *device = device_handle;
    const bool wide = (flags & DDISP_BACKEND_FOLD_WIDE) != 0;
    const bool is_double = wide || destination->dtype == DDISP_DTYPE_F64;
    const uint32_t constants[CONSTANTS] = {
        [DESTINATION] = destination->dtype,
        [WIDE] = wide,
        [ADDS] = operation == DDISP_BACKEND_ACCUMULATE_ADD,
    };
    double step = 1 / scale;
    VkPipeline pipeline = VK_NULL_HANDLE;
    ddisp_status status = vulkan__alive(device);
    if (status == DDISP_STATUS_OK && is_double)
        status = vulkan__operation_check_wide(device);
    if (status == DDISP_STATUS_OK)
        status = vulkan__builtin_find(device, &folds[is_double], constants, CONSTANTS, &pipeline);
    if (status != DDISP_STATUS_OK)
        return status;
    work it = {
        .destination = destination->address, .shadow = shadow->address, .sticky = sticky->address};
    memcpy(&it.bits, &step, sizeof step);
    describe(&it, destination, shadow, wide);
    const ddisp_backend_access accesses[3] = {
        {destination->range, 1, 0}, {shadow->range, 0, 0}, {*sticky, 1, 0}};
    return dispatch(device, stream, pipeline, &it, accesses, 3);
}
