/*
 * block.c - the last step of a launch: the operands laid out as the kernel expects them (the
 * standard argument block, or the native arguments of an existing kernel), the ranges it may touch,
 * and the call to the backend. The block's layout is ABI:
 * include/diffdispatch/device/ddisp_block.h.
 */
#include "capture.h"

#include <diffdispatch/device/ddisp_block.h>

#include <string.h>

#define BLOCK_CAPACITY (sizeof(ddisp_block) + DDISP_MAX_PARAMS * sizeof(ddisp_device_tensor))

/* What a layout is made from: a launch on its way, or one that was recorded. */
typedef struct source {
    const ddisp_kernel *kernel;
    ddisp_mode mode;
    uint32_t code;
    uint64_t items;
    const ddisp__operand *operands;
} source;

static source source_of(const ddisp__launch *launch)
{
    return (source){launch->kernel, launch->mode, launch->plan->code, launch->items,
                    launch->operands};
}

/* ---- accesses ---- */

static ddisp_backend_range range_of(const ddisp_buffer *buffer, uint64_t address,
                                    const ddisp__layout *layout, ddisp_dtype dtype)
{
    ddisp__span span = ddisp__layout_span(layout, ddisp__dtype_size(dtype));
    return (ddisp_backend_range){.handle = buffer ? buffer->memory.handle : NULL,
                                 .address = address + (uint64_t)span.low,
                                 .size_bytes = (uint64_t)(span.high - span.low)};
}

static ddisp_backend_range data_range(const ddisp__operand *operand)
{
    const ddisp_buffer *buffer = operand->buffer;
    return (ddisp_backend_range){.handle = buffer ? buffer->memory.handle : NULL,
                                 .address = operand->address + (uint64_t)operand->span.low,
                                 .size_bytes = (uint64_t)(operand->span.high - operand->span.low)};
}

static ddisp_backend_range slot_range(const ddisp__slot *slot)
{
    if (slot->backing == DDISP_BACKING_SHADOW && slot->shadow.finds_bound)
        return slot->shadow.words;
    if (slot->backing == DDISP_BACKING_SHADOW)
        return (ddisp_backend_range){slot->temporary->memory.handle,
                                     slot->temporary->memory.address,
                                     slot->temporary->memory.size_bytes};
    if (slot->backing == DDISP_BACKING_SINK) {
        ddisp_backend_range range = slot->sink;
        ddisp__span span =
            ddisp__layout_span(&slot->gradient.layout, ddisp__dtype_size(slot->gradient.dtype));
        range.size_bytes = (uint64_t)span.high;
        return range;
    }
    return range_of(slot->gradient.buffer, slot->gradient.address, &slot->gradient.layout,
                    slot->gradient.dtype);
}

/* The kernel is given an address for the slot. */
static bool has_address(const ddisp__slot *slot)
{
    const uint32_t with = 1u << DDISP_BACKING_REAL | 1u << DDISP_BACKING_SCRATCH |
                          1u << DDISP_BACKING_ZERO | 1u << DDISP_BACKING_SINK |
                          1u << DDISP_BACKING_SHADOW;
    return (with >> slot->backing & 1) != 0;
}

static uint32_t list_accesses(const source *from, ddisp_backend_access *accesses)
{
    uint32_t count = 0;
    bool forward = from->mode == DDISP_MODE_FORWARD;
    for (uint32_t i = 0; i < from->kernel->param_count; i++) {
        const ddisp__operand *operand = &from->operands[i];
        if (operand->address)
            accesses[count++] = (ddisp_backend_access){
                data_range(operand), forward && (operand->param->access & DDISP_ACCESS_OUT), 0};
        if (forward) /* there are no slots */
            continue;
        if (has_address(&operand->add) && operand->add.gradient.address)
            accesses[count++] = (ddisp_backend_access){
                slot_range(&operand->add), operand->add.backing == DDISP_BACKING_SINK ? 2 : 1, 0};
        if (operand->add.backing == DDISP_BACKING_SHADOW && !operand->add.shadow.finds_bound)
            accesses[count++] = (ddisp_backend_access){operand->add.shadow.words, 1, 0};
        if (has_address(&operand->read) && operand->read.gradient.address)
            accesses[count++] = (ddisp_backend_access){slot_range(&operand->read), 0, 0};
    }
    return count;
}

/* ---- standard block ---- */

/* True when item i is i elements behind the address. */
static bool dense(const ddisp__layout *layout, uint64_t items)
{
    return (uint64_t)layout->numel == items && ddisp__layout_is_dense(layout);
}

static void write_tensor(const source *from, uint32_t i, ddisp_device_tensor *out)
{
    const ddisp__operand *operand = &from->operands[i];
    const ddisp__code *code = &from->kernel->codes[from->code];
    out->data = operand->address;
    out->grad_add = out->grad_read = out->sticky = 0; /* set again below, where there is one */
    out->grad_dtype = out->flags = 0;
    out->scale = out->limit = 0;
    memset(out->add_stride, 0, sizeof out->add_stride);
    memset(out->read_stride, 0, sizeof out->read_stride);
    out->dtype = operand->dtype;
    out->rank = operand->layout.rank;
    memcpy(out->shape, operand->layout.shape, sizeof out->shape);
    memcpy(out->stride, operand->layout.strides, sizeof out->stride);
    if (dense(&operand->layout, from->items))
        out->flags |= DDISP_DEVICE_TENSOR_DENSE;
    if (from->mode != DDISP_MODE_BACKWARD)
        return;
    if (operand->param->flags & DDISP_PARAM_DIFFERENTIABLE)
        out->grad_dtype = ddisp__code_gradient_dtype(code, i, operand->dtype);
    if (operand->add.wanted)
        out->flags |= DDISP_DEVICE_TENSOR_REQUIRES_GRAD;
    if (operand->read.wanted)
        out->flags |= DDISP_DEVICE_TENSOR_HAS_UPSTREAM;
    if (has_address(&operand->add)) {
        out->grad_add = operand->add.gradient.address;
        memcpy(out->add_stride, operand->add.gradient.layout.strides, sizeof out->add_stride);
        if (dense(&operand->add.gradient.layout, from->items))
            out->flags |= DDISP_DEVICE_TENSOR_ADD_DENSE;
    }
    if (operand->add.backing == DDISP_BACKING_SHADOW) {
        const ddisp__shadow *shadow = &operand->add.shadow;
        out->flags |=
            DDISP_DEVICE_TENSOR_SHADOW | (shadow->finds_bound ? DDISP_DEVICE_TENSOR_BOUND : 0);
        out->sticky = shadow->words.address;
        out->scale = shadow->scale;
        out->limit = shadow->limit;
    }
    if (has_address(&operand->read)) {
        out->grad_read = operand->read.gradient.address;
        memcpy(out->read_stride, operand->read.gradient.layout.strides, sizeof out->read_stride);
        if (dense(&operand->read.gradient.layout, from->items))
            out->flags |= DDISP_DEVICE_TENSOR_READ_DENSE;
    }
}

static void write_block(const source *from, unsigned char *bytes)
{
    ddisp_block head = {.abi = DDISP_BLOCK_ABI,
                        .size_bytes = from->kernel->block_size_bytes,
                        .items = from->items,
                        .tensor_count = from->kernel->tensor_count,
                        .scalar_count = from->kernel->scalar_count};
    memcpy(bytes, &head, sizeof head);
    unsigned char *tensors = bytes + sizeof head;
    unsigned char *scalars = tensors + head.tensor_count * sizeof(ddisp_device_tensor);
    for (uint32_t i = 0; i < from->kernel->param_count; i++) {
        const ddisp__operand *operand = &from->operands[i];
        if (operand->param->kind == DDISP_PARAM_KIND_SCALAR) {
            memcpy(scalars, &operand->scalar, sizeof operand->scalar);
            scalars += sizeof operand->scalar;
        } else {
            write_tensor(from, i, (ddisp_device_tensor *)(void *)tensors);
            tensors += sizeof(ddisp_device_tensor);
        }
    }
}

/* ---- native arguments ---- */

static void fill_address(ddisp_backend_native *native, const ddisp_backend_range *range,
                         uint64_t address)
{
    native->range = *range;
    native->value = address;
    native->size_bytes = 8;
}

static void fill_native(const source *from, const ddisp_native_arg *arg,
                        ddisp_backend_native *native)
{
    bool has_param = arg->source != DDISP_SOURCE_ITEMS && arg->source != DDISP_SOURCE_BLOCK;
    const ddisp__operand *operand = has_param ? &from->operands[arg->param] : NULL;
    ddisp_backend_range range = {0};
    *native =
        (ddisp_backend_native){.arg = arg, .size_bytes = arg->size_bytes ? arg->size_bytes : 8};
    switch (arg->source) {
    case DDISP_SOURCE_DATA:
        if (operand->address)
            range = data_range(operand);
        fill_address(native, &range, operand->address);
        break;
    case DDISP_SOURCE_GRAD_ADD:
    case DDISP_SOURCE_GRAD_READ: {
        const ddisp__slot *slot =
            arg->source == DDISP_SOURCE_GRAD_ADD ? &operand->add : &operand->read;
        bool given = has_address(slot) && slot->gradient.address;
        if (given)
            range = slot_range(slot);
        fill_address(native, &range, given ? slot->gradient.address : 0);
        break;
    }
    case DDISP_SOURCE_SHAPE:
        native->value = (uint64_t)operand->layout.shape[arg->index & (DDISP_MAX_RANK - 1)];
        break;
    case DDISP_SOURCE_STRIDE:
        native->value = (uint64_t)operand->layout.strides[arg->index & (DDISP_MAX_RANK - 1)];
        break;
    case DDISP_SOURCE_NUMEL:
        native->value = (uint64_t)operand->layout.numel;
        break;
    case DDISP_SOURCE_OFFSET:
        native->value = (uint64_t)(-ddisp__layout_span(&operand->layout, 1).low);
        break;
    case DDISP_SOURCE_SCALAR:
        native->value = operand->scalar;
        native->size_bytes = arg->size_bytes ? arg->size_bytes : ddisp__dtype_size(operand->dtype);
        break;
    default:
        native->value = from->items;
        break;
    }
}

/* ---- launch ---- */

static ddisp_status use(ddisp_buffer *buffer, ddisp_stream *stream)
{
    return !buffer || ddisp__buffer_noted(buffer, stream) ? DDISP_STATUS_OK
                                                          : ddisp__buffer_use(buffer, stream);
}

static ddisp_status use_buffers(const ddisp__launch *launch)
{
    ddisp_status status = DDISP_STATUS_OK;
    if (!launch->stream->capture) /* a graph notes its variants at each replay */
        status = ddisp__variant_use(launch->plan->variant, launch->stream);
    for (uint32_t i = 0; i < launch->count && !status; i++)
        status = use(launch->operands[i].buffer, launch->stream);
    return status;
}

/* Those of gradients were noted when they were prepared. */
static ddisp_status use_again(ddisp__launch *launch)
{
    launch->notes = atomic_load_explicit(&launch->stream->notes, memory_order_acquire);
    ddisp_status status = use_buffers(launch);
    for (uint32_t i = 0; i < launch->count && launch->mode == DDISP_MODE_BACKWARD; i++) {
        const ddisp__operand *operand = &launch->operands[i];
        if (!status)
            status = use(operand->add.gradient.buffer, launch->stream);
        if (!status && operand->add.converts)
            status = use(operand->add.target.buffer, launch->stream);
        if (!status)
            status = use(operand->read.gradient.buffer, launch->stream);
    }
    return status;
}

/* Queues the work while the uses that were noted are noted still. */
static ddisp_status queue(ddisp__launch *launch, const ddisp_backend_launch *request)
{
    ddisp_device *device = launch->device;
    ddisp_stream *stream = launch->stream;
    pthread_mutex_lock(&stream->lock);
    while (__builtin_expect(
        launch->notes != atomic_load_explicit(&stream->notes, memory_order_relaxed), 0)) {
        pthread_mutex_unlock(&stream->lock);
        ddisp_status status = use_again(launch);
        if (status)
            return status;
        pthread_mutex_lock(&stream->lock);
    }
    ddisp_status status = device->table->launch(device->handle, stream->handle, request);
    pthread_mutex_unlock(&stream->lock);
    return ddisp__device_result(device, status);
}

static ddisp_status submit(ddisp__launch *launch, const ddisp_backend_launch *request)
{
    ddisp_status status = queue(launch, request);
    if (!status && launch->stream->capture)
        return ddisp__capture_launch(launch->stream->capture, launch, request);
    if (!status)
        return DDISP_STATUS_OK;
    ddisp_error error = *ddisp__error();
    return ddisp__fail_native(status, error.native_code, error.message);
}

void ddisp__block_lay_out(const ddisp__launch *launch, const ddisp__places *places)
{
    const ddisp_entry *entry =
        &launch->kernel->codes[launch->plan->code].desc.entries[launch->plan->entry];
    source from = source_of(launch);
    *places->request =
        (ddisp_backend_launch){.size = (uint32_t)sizeof *places->request,
                               .variant = ddisp__variant_handle(launch->plan->variant),
                               .items = launch->items,
                               .shared_bytes = entry->shared_bytes,
                               .block = places->block,
                               .block_size_bytes = launch->kernel->block_size_bytes,
                               .natives = places->natives,
                               .native_count = entry->native_count,
                               .accesses = places->accesses};
    ddisp__geometry_group(entry, places->request->group_size);
    memcpy(places->request->grid, launch->grid, sizeof launch->grid);
    write_block(&from, places->block);
    for (uint32_t k = 0; k < entry->native_count; k++)
        fill_native(&from, &entry->native[k], &places->natives[k]);
    places->request->access_count = list_accesses(&from, places->accesses);
}

static ddisp_status launch_in(ddisp__launch *launch, const ddisp__places *places)
{
    ddisp_status status = use_buffers(launch);
    if (status)
        return status;
    ddisp__block_lay_out(launch, places);
    return submit(launch, places->request);
}

static ddisp_status launch_on_stack(ddisp__launch *launch)
{
    _Alignas(16) unsigned char block[BLOCK_CAPACITY];
    ddisp_backend_access accesses[DDISP__MAX_ACCESSES];
    ddisp_backend_native natives[DDISP__MAX_NATIVES];
    ddisp_backend_launch request;
    ddisp__places places = {&request, block, natives, accesses};
    return launch_in(launch, &places);
}

ddisp_status ddisp__block_launch(ddisp__launch *launch)
{
    return launch->places ? launch_in(launch, launch->places) : launch_on_stack(launch);
}

void ddisp__block_relay(ddisp_kernel *kernel, ddisp_mode mode, uint32_t code, uint64_t items,
                        const ddisp__operand *operands, ddisp_backend_launch *request,
                        unsigned char *block, ddisp_backend_native *natives,
                        ddisp_backend_access *accesses)
{
    source from = {kernel, mode, code, items, operands};
    write_block(&from, block);
    for (uint32_t k = 0; k < request->native_count; k++) {
        const ddisp_native_arg *arg = natives[k].arg;
        fill_native(&from, arg, &natives[k]);
    }
    request->access_count = list_accesses(&from, accesses);
}
