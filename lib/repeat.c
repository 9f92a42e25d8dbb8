/*
 * repeat.c - a launch kept as it was handed to the backend, to be handed over again when the same
 * arguments come: by a plan, or by the stream that remembers it (recall.c). In come a launch that
 * queued its kernel and changed no gradient, and later arguments. What may be repeated is compared
 * each time: handles and ids, versions of the owners of gradients, and that the stream's uses are
 * noted still; values of scalars are put in. Nothing that is kept is counted or followed before it
 * was found the same: it may be gone.
 *
 * Versions are compared under the stream's lock, in which the work is queued. A gradient that
 * another thread drops meanwhile is freed behind that work, since freeing takes the lock of every
 * stream that uses it, and its version changed before. So no owner needs to be locked.
 */
#include "repeat.h"

#include <diffdispatch/device/ddisp_block.h>

#include <string.h>

/* ---- making ---- */

static uint64_t rounded(uint64_t size_bytes)
{
    return (size_bytes + 15) / 16 * 16;
}

ddisp__repeat *ddisp__repeat_make(const ddisp_kernel *kernel, const ddisp_entry *entry)
{
    ddisp__repeat *repeat;
    uint32_t count = kernel->param_count;
    uint64_t args = rounded(sizeof *repeat + count * sizeof repeat->args[0]);
    uint64_t block = rounded(kernel->block_size_bytes);
    uint64_t natives = rounded(entry->native_count * sizeof(ddisp_backend_native));
    uint64_t accesses = DDISP__REPEAT_ACCESSES * (uint64_t)count * sizeof(ddisp_backend_access);
    unsigned char *memory = ddisp__allocate(kernel->context, args + block + natives + accesses);
    if (!memory)
        return NULL;
    repeat = (ddisp__repeat *)(void *)memory;
    repeat->kernel = kernel->serial;
    repeat->count = count;
    repeat->native_count = entry->native_count;
    repeat->places = (ddisp__places){
        .request = &repeat->request,
        .block = memory + args,
        .natives = (ddisp_backend_native *)(void *)(memory + args + block),
        .accesses = (ddisp_backend_access *)(void *)(memory + args + block + natives)};
    return repeat;
}

/* ---- keeping ---- */

/* The kernel is given what is there, or nothing; no memory is made, filled, taken or converted. */
static bool is_plain(const ddisp__slot *slot)
{
    const uint32_t plain = 1u << DDISP_BACKING_NONE | 1u << DDISP_BACKING_REAL |
                           1u << DDISP_BACKING_OMITTED | 1u << DDISP_BACKING_NULL;
    return (plain >> slot->backing & 1) && !slot->temporary && !slot->converts &&
           !slot->report_flags;
}

bool ddisp__repeat_possible(const ddisp__launch *launch)
{
    bool backward = launch->mode == DDISP_MODE_BACKWARD;
    if (launch->stream->capture || launch->kernel->context->trace ||
        ddisp__launch_deterministic(launch) || launch->options.bound_count)
        return false;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (operand->param->kind == DDISP_PARAM_KIND_SCALAR)
            continue;
        if (!operand->tensor ||
            (backward && !(is_plain(&operand->add) && is_plain(&operand->read))))
            return false;
    }
    return true;
}

bool ddisp__repeat_keep(ddisp__repeat *repeat, const ddisp__launch *launch, const ddisp_arg *args)
{
    uint64_t *place =
        (uint64_t *)(void *)(repeat->places.block + sizeof(ddisp_block) +
                             launch->kernel->tensor_count * sizeof(ddisp_device_tensor));
    repeat->mode = launch->mode;
    for (uint32_t i = 0; i < launch->count; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        ddisp__repeat_arg *kept = &repeat->args[i];
        if (operand->param->kind == DDISP_PARAM_KIND_TENSOR && !operand->tensor)
            return false;
        kept->arg = args[i];
        kept->id = operand->tensor_id;
        kept->owner = operand->tensor ? ddisp__tensor_owner(operand->tensor) : NULL;
        kept->version = operand->version;
        kept->scalar = operand->scalar;
        kept->place = operand->tensor ? NULL : place++;
    }
    repeat->notes = launch->notes;
    return true;
}

/* ---- comparing ---- */

/* Says the same of a tensor, and nothing of a view or a scalar. */
static inline bool same_tensor(const ddisp__repeat_arg *kept, const ddisp_arg *arg)
{
    const ddisp_arg *before = &kept->arg;
    uint64_t differences = ((uintptr_t)arg->tensor ^ (uintptr_t)before->tensor) |
                           (arg->grad_add ^ before->grad_add) |
                           (arg->grad_read ^ before->grad_read) | (arg->policy ^ before->policy) |
                           (uintptr_t)arg->view | (uintptr_t)arg->scalar | arg->scalar_size |
                           arg->flags | arg->reserved;
    return differences == 0 && arg->tensor->id == kept->id;
}

/* Another value goes to where the kernel reads it. */
static void change_scalar(ddisp__repeat *repeat, uint32_t i, uint64_t value)
{
    repeat->args[i].scalar = value;
    *repeat->args[i].place = value;
    for (uint32_t k = 0; k < repeat->request.native_count; k++) {
        ddisp_backend_native *native = &repeat->places.natives[k];
        if (native->arg->source == DDISP_SOURCE_SCALAR && native->arg->param == i)
            native->value = value;
    }
}

static __attribute__((noinline)) bool same_scalar(ddisp__repeat *repeat, uint32_t i,
                                                  const ddisp_arg *arg)
{
    const ddisp__repeat_arg *kept = &repeat->args[i];
    uint64_t value = 0;
    if (!arg->scalar || arg->scalar_size != kept->arg.scalar_size || arg->tensor || arg->view ||
        arg->grad_add || arg->grad_read || arg->flags || arg->reserved)
        return false;
    memcpy(&value, arg->scalar, arg->scalar_size);
    if (value != kept->scalar)
        change_scalar(repeat, i, value);
    return true;
}

bool ddisp__repeat_same(ddisp__repeat *repeat, const ddisp_arg *args)
{
    for (uint32_t i = 0; i < repeat->count; i++)
        if (__builtin_expect(!repeat->args[i].id, 0) ? !same_scalar(repeat, i, &args[i])
                                                     : !same_tensor(&repeat->args[i], &args[i]))
            return false;
    return true;
}

/* Owners live, since the tensors that were given do. */
static bool same_gradients(const ddisp__repeat *repeat)
{
    for (uint32_t i = 0; i < repeat->count; i++) {
        const ddisp__repeat_arg *kept = &repeat->args[i];
        if (kept->id &&
            atomic_load_explicit(&kept->owner->version, memory_order_acquire) != kept->version)
            return false;
    }
    return true;
}

/* ---- launching ---- */

bool ddisp__repeat_submit(ddisp__repeat *repeat, ddisp_stream *stream, ddisp_status *out_status)
{
    ddisp_device *device = stream->device;
    if (stream->capture ||
        repeat->notes != atomic_load_explicit(&stream->notes, memory_order_relaxed) ||
        (repeat->mode == DDISP_MODE_BACKWARD && !same_gradients(repeat)))
        return false;
    *out_status = device->table->launch(device->handle, stream->handle, &repeat->request);
    return true;
}

ddisp_status ddisp__repeat_result(ddisp_device *device, ddisp_status status)
{
    if (__builtin_expect(status == DDISP_STATUS_OK, 1)) {
        ddisp__device_count_launch(device, true);
        return DDISP_STATUS_OK;
    }
    status = ddisp__device_result(device, status);
    ddisp_error error = *ddisp__error();
    return ddisp__fail_native(status, error.native_code, error.message);
}
