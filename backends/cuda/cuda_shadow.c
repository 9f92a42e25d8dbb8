/*
 * cuda_shadow.c - the end of deterministic mode: sums that kernels took in integers go into the
 * gradient (kernels/shadow.cu). In: a destination of any layout and dtype, and a shadow of its
 * shape.
 */
#include "cuda_operations.h"

ddisp_status cuda__fold(void *device_handle, void *stream, const ddisp_backend_tensor *destination,
                        const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                        uint64_t flags, const ddisp_backend_range *sticky)
{
    cuda__device *device = device_handle;
    cuda__scope scope;
    bool wide = (flags & DDISP_BACKEND_FOLD_WIDE) != 0;
    int64_t to_size = cuda__dtype_size(destination->dtype), from_size = wide ? 16 : 8;
    int64_t offsets[BACKEND_OPERANDS] = {0};
    backend_axes axes = {0};
    for (uint32_t i = 0; i < destination->rank; i++) {
        backend_axes_add(&axes, destination->shape[i], destination->strides[i] * to_size,
                         shadow->strides[i] * from_size, 0);
    }
    backend_axes_turn(&axes, offsets);
    backend_axes_sort(&axes);
    backend_axes_merge(&axes);
    work_shadow work = {.to = destination->address + (uint64_t)offsets[0],
                        .from = shadow->address + (uint64_t)offsets[1],
                        .sticky = sticky->address,
                        .step = 1 / scale,
                        .to_type = destination->dtype,
                        .wide = wide,
                        .stores = operation == DDISP_BACKEND_ACCUMULATE_STORE};
    cuda__axes_write(&axes, &work.axes, work.to_stride, work.from_stride, NULL);
    ddisp_status status = cuda__enter(device, &scope);
    if (status == DDISP_STATUS_OK) {
        status = cuda__builtin_launch(device, stream, CUDA__KERNEL_SHADOW,
                                      (work.axes.count + WORK_GROUP - 1) / WORK_GROUP, 0, &work);
        cuda__leave(device, &scope);
    }
    return status;
}
