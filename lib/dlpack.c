/*
 * dlpack.c - tensors taken over from other libraries through DLPack.
 *
 * In comes a managed tensor, whose memory becomes a lent buffer with a tensor over it; out goes,
 * when the buffer ends, one call of its deleter. Everything is checked before anything is taken, so
 * that a refused import leaves the tensor its producer's, untouched. What kinds of memory a device
 * reads is the backend's to say (ddisp_device_info); nothing here knows one by name.
 */
#include "dlpack.h"

#include "capture.h"
#include "lower.h"

#include <string.h>

/* A managed tensor that the library holds. */
typedef struct lent {
    struct lent *next;
    ddisp_context *context;
    const void *managed; /* what it is known by */
    struct DLManagedTensor *plain;
    struct DLManagedTensorVersioned *versioned;
} lent;

/* What both structs say. */
typedef struct source {
    const ddisp__dlpack_tensor *tensor;
    struct DLManagedTensor *plain;
    struct DLManagedTensorVersioned *versioned;
    uint64_t flags; /* DDISP_TENSOR_... */
} source;

/* What is held, of all contexts, so that nothing is taken twice and given back twice. */
#define SHELVES 256u
static struct {
    pthread_mutex_t lock;
    lent *shelves[SHELVES];
} held = {PTHREAD_MUTEX_INITIALIZER, {NULL}};

static lent **shelf_of(const void *managed)
{
    return &held.shelves[((uintptr_t)managed >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

/* False when it is held already. */
static bool hold(lent *entry)
{
    lent **shelf = shelf_of(entry->managed);
    (void)pthread_mutex_lock(&held.lock);
    bool known = false;
    for (const lent *other = *shelf; other && !known; other = other->next)
        known = other->managed == entry->managed;
    if (!known) {
        entry->next = *shelf;
        *shelf = entry;
    }
    (void)pthread_mutex_unlock(&held.lock);
    return !known;
}

static void let_go(lent *entry)
{
    /* A forked child may not wait for a lock of its parent's threads, and takes nothing over. */
    if (ddisp__context_forked(entry->context))
        return;
    (void)pthread_mutex_lock(&held.lock);
    lent **link = shelf_of(entry->managed);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    (void)pthread_mutex_unlock(&held.lock);
}

/* The release function of the buffer. The deleter may end the context. */
static void give_back(void *user_data)
{
    lent *entry = user_data;
    struct DLManagedTensor *plain = entry->plain;
    struct DLManagedTensorVersioned *versioned = entry->versioned;
    let_go(entry);
    ddisp__release(entry->context, entry);
    if (plain && plain->deleter)
        plain->deleter(plain);
    if (versioned && versioned->deleter)
        versioned->deleter(versioned);
}

/* ---- checks */

static ddisp_status check_device(const ddisp_device *device, const ddisp__dlpack_tensor *tensor)
{
    const ddisp_device_info *info = &device->info;
    bool pinned = tensor->device_type == DDISP__DLPACK_CUDA_HOST ||
                  tensor->device_type == DDISP__DLPACK_ROCM_HOST;
    if (info->dlpack_device_type == 0)
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                           "managed: device %s takes no memory through DLPack; copy the elements "
                           "with ddisp_tensor_write",
                           info->spec);
    if (pinned && (info->flags & DDISP_DEVICE_FLAG_HOST_ADDRESSES))
        return DDISP_STATUS_OK;
    if (tensor->device_type < 1 || (uint32_t)tensor->device_type != info->dlpack_device_type ||
        tensor->device_id != info->dlpack_device_id)
        return ddisp__fail(DDISP_STATUS_DEVICE_MISMATCH,
                           "managed: memory of DLPack device type %d, number %d; device %s takes "
                           "type %u, number %d",
                           tensor->device_type, tensor->device_id, info->spec,
                           info->dlpack_device_type, info->dlpack_device_id);
    return DDISP_STATUS_OK;
}

static ddisp_status check_dtype(const ddisp__dlpack_tensor *tensor, ddisp_dtype *out_dtype)
{
    *out_dtype = ddisp__dlpack_dtype_from(tensor->dtype);
    if (*out_dtype != DDISP_DTYPE_ANY)
        return DDISP_STATUS_OK;
    char name[64];
    ddisp__dlpack_dtype_format(tensor->dtype, name, sizeof name);
    return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                       "managed: elements are %s; bool, integers of 8 to 64 bits, float16, "
                       "bfloat16, float32 and float64 in one lane are taken",
                       name);
}

/* Address of the first byte that is touched, and the layout over it. */
static ddisp_status check_layout(const ddisp__dlpack_tensor *tensor, ddisp_dtype dtype,
                                 ddisp__layout *out_layout, uint64_t *out_address)
{
    if (tensor->ndim < 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "managed: ndim is %d", tensor->ndim);
    if (tensor->ndim > DDISP_MAX_RANK)
        return ddisp__fail(DDISP_STATUS_UNSUPPORTED, "managed: ndim is %d, the highest is %d",
                           tensor->ndim, DDISP_MAX_RANK);
    ddisp_status status = ddisp__layout_make("managed", dtype, (uint32_t)tensor->ndim,
                                             tensor->shape, tensor->strides, out_layout);
    if (status)
        return status;
    *out_address = 0;
    if (out_layout->numel == 0)
        return DDISP_STATUS_OK;
    uint64_t data = (uint64_t)(uintptr_t)tensor->data, address;
    uint32_t size_bytes = ddisp_dtype_size(dtype);
    if (!data)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "managed: data is NULL for %lld elements",
                           (long long)out_layout->numel);
    if (__builtin_add_overflow(data, tensor->byte_offset, &address))
        return ddisp__fail(DDISP_STATUS_OVERFLOW,
                           "managed: data and byte_offset %llu go past the end of 64 bits",
                           (unsigned long long)tensor->byte_offset);
    if (address % size_bytes)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "managed: element 0 lies at 0x%llx, which is no multiple of %u bytes",
                           (unsigned long long)address, size_bytes);
    *out_address = address + (uint64_t)ddisp__layout_span(out_layout, size_bytes).low;
    return DDISP_STATUS_OK;
}

/* ---- import */

static ddisp_status hold_source(ddisp_context *context, const source *from, lent **out_entry)
{
    lent *entry = ddisp__allocate(context, sizeof *entry);
    if (!entry)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for an imported tensor");
    entry->context = context;
    entry->plain = from->plain;
    entry->versioned = from->versioned;
    entry->managed = from->plain ? (const void *)from->plain : from->versioned;
    if (hold(entry)) {
        *out_entry = entry;
        return DDISP_STATUS_OK;
    }
    ddisp__release(context, entry);
    return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                       "managed: this tensor was taken over before and is still held");
}

/* Everything is checked; what fails from here is memory, the driver, or a second import. */
static ddisp_status take_over(ddisp_device *device, const source *from, ddisp_dtype dtype,
                              const ddisp__layout *layout, uint64_t address, ddisp_stream *stream,
                              ddisp_tensor **out_tensor)
{
    lent *entry = NULL;
    ddisp_buffer *buffer = NULL;
    uint32_t size_bytes = ddisp_dtype_size(dtype);
    ddisp__span span = ddisp__layout_span(layout, size_bytes);
    ddisp_status status = hold_source(device->context, from, &entry);
    if (status)
        return status;
    status = ddisp_buffer_wrap(device, address, (uint64_t)(span.high - span.low), give_back, entry,
                               &buffer);
    if (!status && stream)
        status = ddisp__buffer_follow(buffer, stream);
    if (!status)
        status = ddisp__tensor_over(buffer, dtype, layout, -span.low / (int64_t)size_bytes,
                                    from->flags, out_tensor);
    if (status && buffer)
        buffer->release = NULL;
    ddisp_buffer_release(buffer);
    if (status) {
        let_go(entry);
        ddisp__release(device->context, entry);
    }
    return status;
}

static ddisp_status import(ddisp_device *device, const source *from, ddisp_stream *stream,
                           ddisp_tensor **out_tensor)
{
    ddisp__layout layout;
    ddisp_dtype dtype;
    uint64_t address;
    ddisp_status status = check_device(device, from->tensor);
    if (!status && stream)
        status = ddisp__stream_resolve(device, stream, &stream);
    if (!status && stream)
        status = ddisp__capture_refuse(stream, "an import");
    if (!status)
        status = check_dtype(from->tensor, &dtype);
    if (!status)
        status = ddisp__tensor_check_flags(dtype, from->flags);
    if (!status)
        status = check_layout(from->tensor, dtype, &layout, &address);
    return status ? status : take_over(device, from, dtype, &layout, address, stream, out_tensor);
}

static ddisp_status check_arguments(ddisp_device *device, const void *managed,
                                    ddisp_tensor **out_tensor)
{
    ddisp_status status = ddisp__device_check(device, "device");
    if (status)
        return status;
    if (!managed || !out_tensor)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL",
                           managed ? "out_tensor" : "managed");
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_tensor_from_dlpack(ddisp_device *device, struct DLManagedTensor *managed,
                                      uint64_t flags, ddisp_stream *stream,
                                      ddisp_tensor **out_tensor)
{
    ddisp_status status = check_arguments(device, managed, out_tensor);
    if (status)
        return status;
    source from = {
        .tensor = &managed->dl_tensor, .plain = managed, .flags = flags & ~DDISP_DLPACK_WRITE_COPY};
    return import(device, &from, stream, out_tensor);
}

ddisp_status ddisp_tensor_from_dlpack_versioned(ddisp_device *device,
                                                struct DLManagedTensorVersioned *managed,
                                                uint64_t flags, ddisp_stream *stream,
                                                ddisp_tensor **out_tensor)
{
    ddisp_status status = check_arguments(device, managed, out_tensor);
    if (status)
        return status;
    /* Of another major version nothing else may be read. */
    if (managed->major != DDISP__DLPACK_MAJOR)
        return ddisp__fail(DDISP_STATUS_INCOMPATIBLE,
                           "managed: DLPack %u.%u, this library speaks %d.x", managed->major,
                           managed->minor, DDISP__DLPACK_MAJOR);
    source from = {.tensor = &managed->dl_tensor,
                   .versioned = managed,
                   .flags = flags & ~DDISP_DLPACK_WRITE_COPY};
    bool copied = (managed->flags & DDISP__DLPACK_IS_COPIED) && !(flags & DDISP_DLPACK_WRITE_COPY);
    if (copied || (managed->flags & DDISP__DLPACK_READ_ONLY))
        from.flags |= DDISP_TENSOR_READ_ONLY;
    return import(device, &from, stream, out_tensor);
}
