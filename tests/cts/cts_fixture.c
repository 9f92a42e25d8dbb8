/*
 * cts_fixture.c - what a test is given: makers of tensors between guards, kernels, reports and
 * streams, all of them released with the test; and the comparison of everything before and after a
 * call that must change nothing.
 */
#include "cts.h"

#include <stdlib.h>

#define MAX_OBJECTS 16384

struct guarded {
    ddisp_buffer *buffer;
    uint64_t body_bytes; /* between the guards */
    unsigned char *noted;
};

struct owned {
    ddisp_tensor *tensor;
    uint32_t noted_state;
    uint64_t noted_bytes;
    unsigned char *noted_gradient;
};

struct cts_private {
    struct guarded buffers[MAX_OBJECTS];
    struct owned tensors[MAX_OBJECTS];
    ddisp_kernel *kernels[MAX_OBJECTS];
    ddisp_report *reports[MAX_OBJECTS];
    ddisp_stream *streams[MAX_OBJECTS];
    uint32_t buffer_count, tensor_count, kernel_count, report_count, stream_count;
    ddisp_device_statistics before; /* the test */
    ddisp_device_statistics noted;
    char skipped[200];
};

#define HAS_ROOM(count) CTS_CHECK((count) < MAX_OBJECTS, "the fixture holds too many objects")

cts *cts_begin(ddisp_context *context, ddisp_device *device)
{
    cts *t = calloc(1, sizeof *t);
    if (!t || !(t->own = calloc(1, sizeof *t->own)))
        return NULL;
    t->context = context;
    t->device = device;
    t->info.size = (uint32_t)sizeof t->info;
    CTS_OK(ddisp_device_get_info(device, &t->info));
    t->own->before = cts_statistics(t);
    return t;
}

void cts_skip(cts *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(t->own->skipped, sizeof t->own->skipped, format, arguments);
    va_end(arguments);
}

const char *cts_skipped(const cts *t)
{
    return t->own->skipped[0] ? t->own->skipped : NULL;
}

/* ---- making */

static ddisp_buffer *guarded_buffer(cts *t, uint64_t body_bytes)
{
    struct cts_private *own = t->own;
    uint64_t size = body_bytes + 2 * CTS_GUARD;
    HAS_ROOM(own->buffer_count);
    ddisp_buffer *buffer = NULL;
    CTS_OK(ddisp_buffer_create(t->device, size, &buffer));
    struct guarded *guarded = &own->buffers[own->buffer_count++];
    guarded->buffer = buffer;
    guarded->body_bytes = body_bytes;
    void *canaries = malloc(size);
    assert_non_null(canaries);
    memset(canaries, CTS_CANARY, size);
    ddisp_status status = ddisp_buffer_write(buffer, 0, canaries, size, NULL);
    free(canaries);
    CTS_OK(status);
    return buffer;
}

/* Elements from the lowest to the highest that a layout touches, and how far the lowest lies before
 * element (0, ..., 0). */
static int64_t extent(uint32_t rank, const int64_t *shape, const int64_t *strides, int64_t *before)
{
    int64_t low = 0, high = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (shape[d] == 0) {
            *before = 0;
            return 0;
        }
        int64_t reach = (shape[d] - 1) * strides[d];
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *before = -low;
    return high - low + 1;
}

/* Writes dense data through the strides, by way of an image of the buffer's body. */
static void scatter(ddisp_buffer *buffer, uint32_t rank, const int64_t *shape,
                    const int64_t *strides, int64_t before, int64_t size, int64_t body_bytes,
                    const void *data)
{
    unsigned char *image = malloc((size_t)body_bytes);
    int64_t index[DDISP_MAX_RANK] = {0}, numel = 1;
    assert_non_null(image);
    memset(image, CTS_CANARY, (size_t)body_bytes);
    for (uint32_t d = 0; d < rank; d++)
        numel *= shape[d];
    for (int64_t i = 0; i < numel; i++) {
        int64_t at = before;
        for (uint32_t d = 0; d < rank; d++)
            at += index[d] * strides[d];
        memcpy(image + at * size, (const unsigned char *)data + i * size, (size_t)size);
        for (uint32_t d = rank; d-- > 0 && ++index[d] == shape[d];)
            index[d] = 0;
    }
    ddisp_status status = ddisp_buffer_write(buffer, CTS_GUARD, image, (uint64_t)body_bytes, NULL);
    free(image);
    CTS_OK(status);
}

ddisp_tensor *cts_tensor(cts *t, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                         const int64_t *strides, uint64_t flags, const void *data)
{
    int64_t dense[DDISP_MAX_RANK], step = 1, before = 0, size = ddisp_dtype_size(dtype);
    uint64_t numel = 1;
    for (uint32_t d = rank; d-- > 0;) {
        dense[d] = step;
        step *= shape[d];
        numel *= (uint64_t)shape[d];
    }
    int64_t count = extent(rank, shape, strides ? strides : dense, &before);
    ddisp_buffer *buffer = guarded_buffer(t, (uint64_t)(count * size));
    ddisp_tensor *tensor = NULL;
    CTS_OK(ddisp_tensor_create_over(buffer, dtype, rank, shape, strides,
                                    (int64_t)CTS_GUARD / size + before, flags, &tensor));
    (void)cts_own(t, tensor);
    if (data && numel)
        scatter(buffer, rank, shape, strides ? strides : dense, before, size, count * size, data);
    return tensor;
}

ddisp_tensor *cts_vector(cts *t, int64_t n, uint64_t flags, const float *values)
{
    return cts_tensor(t, DDISP_DTYPE_F32, 1, &n, NULL, flags, values);
}

ddisp_tensor *cts_own(cts *t, ddisp_tensor *tensor)
{
    HAS_ROOM(t->own->tensor_count);
    t->own->tensors[t->own->tensor_count++].tensor = tensor;
    return tensor;
}

ddisp_kernel *cts_kernel_with(cts *t, const cts_source *source, uint64_t code_flags,
                              const ddisp_code_param *code_param)
{
    ddisp_code codes[8];
    ddisp_kernel *kernel = NULL;
    HAS_ROOM(t->own->kernel_count);
    assert_true(source->code_count <= sizeof codes / sizeof codes[0]);
    for (uint32_t i = 0; i < source->code_count; i++) {
        codes[i] = source->codes[i];
        codes[i].flags = code_flags;
        if (code_param) {
            codes[i].params = code_param;
            codes[i].param_count = 1;
            codes[i].param_size = (uint32_t)sizeof *code_param;
        }
    }
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = source->name;
    desc.params = source->params;
    desc.param_count = source->param_count;
    desc.param_size = (uint32_t)sizeof *source->params;
    desc.codes = codes;
    desc.code_count = source->code_count;
    desc.code_size = (uint32_t)sizeof *codes;
    CTS_OK(ddisp_kernel_create(t->context, &desc, &kernel));
    t->own->kernels[t->own->kernel_count++] = kernel;
    return kernel;
}

ddisp_kernel *cts_kernel(cts *t, const cts_source *source)
{
    return cts_kernel_with(t, source, source->codes[0].flags, NULL);
}

ddisp_report *cts_report(cts *t)
{
    ddisp_report *report = NULL;
    HAS_ROOM(t->own->report_count);
    CTS_OK(ddisp_report_create(t->context, &report));
    return t->own->reports[t->own->report_count++] = report;
}

ddisp_stream *cts_stream(cts *t)
{
    ddisp_stream *stream = NULL;
    HAS_ROOM(t->own->stream_count);
    CTS_OK(ddisp_stream_create(t->device, 0, &stream));
    return t->own->streams[t->own->stream_count++] = stream;
}

bool cts_accumulates(cts *t)
{
    ddisp_tensor *x = CTS_VECTOR(t, 0, 1), *y = CTS_VECTOR(t, 0, 2);
    ddisp_status status = ddisp_tensor_accumulate(x, y, 1, NULL, NULL);
    if (status == DDISP_STATUS_UNSUPPORTED)
        return false;
    CTS_OK(status);
    CTS_VALUES(x, 3);
    return true;
}

bool cts_scatters(cts *t, uint64_t flags)
{
    ddisp_tensor *to = CTS_VECTOR(t, 0, 1, 2), *from = CTS_VECTOR(t, 0, 3);
    const int64_t one = 1;
    const int32_t place = 1;
    ddisp_tensor *index = cts_tensor(t, DDISP_DTYPE_I32, 1, &one, NULL, 0, &place);
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    ddisp_status status = ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL);
    if (status == DDISP_STATUS_UNSUPPORTED)
        return false;
    CTS_OK(status);
    CTS_VALUES(to, 1, 5);
    return true;
}

/* ---- nothing has changed */

ddisp_device_statistics cts_statistics(cts *t)
{
    ddisp_device_statistics statistics = DDISP_ZERO;
    statistics.size = (uint32_t)sizeof statistics;
    CTS_OK(ddisp_device_get_statistics(t->device, &statistics));
    return statistics;
}

static unsigned char *bytes_of(const struct guarded *guarded)
{
    uint64_t size = guarded->body_bytes + 2 * CTS_GUARD;
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    CTS_OK(ddisp_buffer_read(guarded->buffer, 0, bytes, size, NULL));
    return bytes;
}

/* The bytes of a tensor's stored gradient, NULL when there is none. */
static unsigned char *gradient_bytes(ddisp_tensor *tensor, uint32_t state, uint64_t *out_size)
{
    ddisp_tensor *gradient = NULL;
    *out_size = 0;
    if (state != DDISP_GRAD_STATE_PRESENT)
        return NULL;
    CTS_OK(ddisp_tensor_grad(tensor, &gradient));
    ddisp_tensor_info info = cts_tensor_info(gradient);
    *out_size = (uint64_t)info.numel * ddisp_dtype_size(info.dtype);
    unsigned char *bytes = malloc(*out_size + 1);
    assert_non_null(bytes);
    ddisp_status status = ddisp_tensor_read(gradient, bytes, *out_size, NULL);
    ddisp_tensor_release(gradient);
    CTS_OK(status);
    return bytes;
}

void cts_note(cts *t)
{
    struct cts_private *own = t->own;
    for (uint32_t i = 0; i < own->buffer_count; i++) {
        free(own->buffers[i].noted);
        own->buffers[i].noted = bytes_of(&own->buffers[i]);
    }
    for (uint32_t i = 0; i < own->tensor_count; i++) {
        struct owned *owned = &own->tensors[i];
        free(owned->noted_gradient);
        owned->noted_state = cts_tensor_info(owned->tensor).grad_state;
        owned->noted_gradient =
            gradient_bytes(owned->tensor, owned->noted_state, &owned->noted_bytes);
    }
    own->noted = cts_statistics(t);
}

static void same_counters(const ddisp_device_statistics *noted, const ddisp_device_statistics *now,
                          const char *file, int line)
{
#define SAME(field)                                                                                \
    if (now->field != noted->field)                                                                \
    cts_fail(file, line, "the call changed " #field " from %llu to %llu",                          \
             (unsigned long long)noted->field, (unsigned long long)now->field)
    SAME(allocations);
    SAME(frees);
    SAME(bytes_live);
    SAME(gradient_bytes_live);
    SAME(scratch_bytes_live);
    SAME(sink_bytes_live);
    SAME(launches);
    SAME(skips);
    SAME(fills);
    SAME(variants_built);
#undef SAME
}

void cts_unchanged(cts *t, const char *file, int line)
{
    struct cts_private *own = t->own;
    ddisp_device_statistics now = cts_statistics(t);
    same_counters(&own->noted, &now, file, line);
    for (uint32_t i = 0; i < own->buffer_count; i++) {
        struct guarded *guarded = &own->buffers[i];
        if (!guarded->noted)
            continue;
        unsigned char *bytes = bytes_of(guarded);
        int different = memcmp(bytes, guarded->noted, guarded->body_bytes + 2 * CTS_GUARD);
        free(bytes);
        if (different)
            cts_fail(file, line, "the call changed the bytes of buffer %u of the test", i);
    }
    for (uint32_t i = 0; i < own->tensor_count; i++) {
        struct owned *owned = &own->tensors[i];
        uint32_t state = cts_tensor_info(owned->tensor).grad_state;
        uint64_t size = 0;
        if (state != owned->noted_state)
            cts_fail(file, line, "the call changed the gradient state of tensor %u from %u to %u",
                     i, owned->noted_state, state);
        unsigned char *bytes = gradient_bytes(owned->tensor, state, &size);
        bool same = size == owned->noted_bytes &&
                    (!size || memcmp(bytes, owned->noted_gradient, size) == 0);
        free(bytes);
        if (!same)
            cts_fail(file, line, "the call changed the gradient of tensor %u", i);
    }
}

/* ---- the end */

static void check_guards(const cts *t)
{
    for (uint32_t i = 0; i < t->own->buffer_count; i++) {
        const struct guarded *guarded = &t->own->buffers[i];
        unsigned char *bytes = bytes_of(guarded);
        uint64_t broken = UINT64_MAX;
        for (uint64_t b = 0; b < CTS_GUARD; b++) {
            if (bytes[b] != CTS_CANARY)
                broken = b;
            if (bytes[CTS_GUARD + guarded->body_bytes + b] != CTS_CANARY)
                broken = CTS_GUARD + guarded->body_bytes + b;
        }
        free(bytes);
        CTS_CHECK(broken == UINT64_MAX, "buffer %u of the test: guard byte %llu was written", i,
                  (unsigned long long)broken);
    }
}

static void release_all(cts *t)
{
    struct cts_private *own = t->own;
    for (uint32_t i = 0; i < own->report_count; i++)
        ddisp_report_release(own->reports[i]);
    for (uint32_t i = 0; i < own->kernel_count; i++)
        ddisp_kernel_release(own->kernels[i]);
    for (uint32_t i = 0; i < own->tensor_count; i++) {
        ddisp_tensor_release(own->tensors[i].tensor);
        free(own->tensors[i].noted_gradient);
    }
    for (uint32_t i = 0; i < own->buffer_count; i++) {
        ddisp_buffer_release(own->buffers[i].buffer);
        free(own->buffers[i].noted);
    }
    for (uint32_t i = 0; i < own->stream_count; i++)
        ddisp_stream_release(own->streams[i]);
    own->report_count = own->kernel_count = own->tensor_count = 0;
    own->buffer_count = own->stream_count = 0;
}

void cts_finish(cts *t)
{
    for (uint32_t i = 0; i < t->own->stream_count; i++)
        CTS_OK(ddisp_stream_synchronize(t->own->streams[i], DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_synchronize(t->device, DDISP_TIMEOUT_INFINITE));
    CTS_OK(ddisp_device_status(t->device));
    check_guards(t);
    release_all(t);
    ddisp_device_statistics now = cts_statistics(t), before = t->own->before;
    assert_int_equal(now.bytes_live - now.sink_bytes_live, /* a sink stays for the next launch */
                     before.bytes_live - before.sink_bytes_live);
    assert_int_equal(now.gradient_bytes_live, before.gradient_bytes_live);
    assert_int_equal(now.scratch_bytes_live, before.scratch_bytes_live);
    assert_int_equal(now.allocations - before.allocations, now.frees - before.frees);
}

void cts_end(cts *t)
{
    release_all(t);
    free(t->own);
    free(t);
}
