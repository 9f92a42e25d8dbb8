/*
 * variant_build.c - the variants of a kernel: compiled code for one device, one entry and one set
 * of gradients. Each is built once however many threads ask; the others wait, and share a failure
 * that they waited for. A failure is not remembered beyond that: the next launch tries again. Keys
 * are compared byte by byte.
 */
#include "lower.h"
#include "variant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum variant_state {
    VARIANT_FAILED, /* or never tried */
    VARIANT_BUILDING,
    VARIANT_READY,
} variant_state;

struct ddisp__variant {
    variant_state state;  /* this and the next three are guarded by the kernel's build_lock */
    uint64_t attempts;    /* builds begun */
    ddisp_status failure; /* of the last attempt, with its message */
    ddisp_error error;
    ddisp_device *device; /* referenced */
    ddisp_mode mode;
    void *handle;
    pthread_mutex_t lock; /* guards uses */
    _Atomic(ddisp_stream *) last_use;
    ddisp__array uses; /* of ddisp_stream *, referenced */
};

void *ddisp__variant_handle(const ddisp__variant *variant)
{
    return variant->handle;
}

ddisp_status ddisp__variant_use(ddisp__variant *variant, ddisp_stream *stream)
{
    if (atomic_load_explicit(&variant->last_use, memory_order_acquire) == stream)
        return DDISP_STATUS_OK;
    ddisp_status status = DDISP_STATUS_OK;
    pthread_mutex_lock(&variant->lock);
    uint32_t i = 0;
    while (i < variant->uses.count &&
           *(ddisp_stream **)ddisp__array_at(&variant->uses, i) != stream)
        i++;
    if (i == variant->uses.count) {
        ddisp_stream **use = ddisp__array_push(variant->device->context, &variant->uses);
        if (use) {
            *use = stream;
            ddisp_stream_retain(stream);
        } else {
            status = ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory to note a stream");
        }
    }
    if (!status)
        atomic_store_explicit(&variant->last_use, stream, memory_order_release);
    pthread_mutex_unlock(&variant->lock);
    return status;
}

ddisp__variant_key ddisp__variant_key_of(const ddisp__launch *launch,
                                         const struct ddisp__plan *plan)
{
    const ddisp__code *code = &launch->kernel->codes[plan->code];
    const ddisp_entry *entry = &code->desc.entries[plan->entry];
    bool pattern = strstr(entry->name, "{mask}") != NULL;
    ddisp__variant_key key = {.device = launch->device->serial,
                              .code = code->hash,
                              .mask = pattern ? plan->mask : plan->mask & code->info.switch_mask,
                              .entry = plan->entry,
                              .mode = launch->mode};
    return key;
}

static ddisp__variant *find(const ddisp__launch *launch, const ddisp__variant_key *key)
{
    return ddisp__table_find(&launch->kernel->variants, ddisp__hash_bytes(key, sizeof *key), key,
                             sizeof *key);
}

bool ddisp__variant_exists(const ddisp__launch *launch, const struct ddisp__plan *plan)
{
    ddisp__variant_key key = ddisp__variant_key_of(launch, plan);
    const ddisp__variant *variant = find(launch, &key);
    return variant && variant->state != VARIANT_FAILED;
}

typedef struct census {
    const ddisp_device *device;
    ddisp_mode mode;
    uint32_t count;
} census;

static void count_variant(void *user, void *value)
{
    census *c = user;
    const ddisp__variant *variant = value;
    c->count += variant->device == c->device && variant->mode == c->mode &&
                variant->state != VARIANT_FAILED;
}

uint32_t ddisp__variant_count(const ddisp__launch *launch)
{
    census c = {.device = launch->device, .mode = launch->mode};
    ddisp__table_visit(&launch->kernel->variants, count_variant, &c);
    return c.count;
}

/* ---- building ---- */

static ddisp_status build(ddisp__launch *launch, const struct ddisp__plan *plan, void **out_handle)
{
    const ddisp__code *code = &launch->kernel->codes[plan->code];
    ddisp_entry entry = code->desc.entries[plan->entry];
    char name[256];
    const char *mark = strstr(entry.name, "{mask}");
    if (mark)
        (void)snprintf(name, sizeof name, "%.*s%" PRIu64 "%s", (int)(mark - entry.name), entry.name,
                       plan->mask, mark + strlen("{mask}"));
    else
        (void)snprintf(name, sizeof name, "%s", entry.name);
    ddisp__geometry_group(&entry, entry.group_size);
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant,
                                     .mode = launch->mode,
                                     .code = &code->backend_code,
                                     .entry = &entry,
                                     .entry_name = name,
                                     .switches = plan->mask | ~code->info.switch_mask,
                                     .switch_mask = code->info.switch_mask};
    uint64_t start = ddisp__time_ns();
    ddisp_status status = ddisp__artifact_build(launch, code, &variant, out_handle);
    launch->build_ns = ddisp__time_ns() - start;
    if (!status) {
        ddisp__device_count_variant(launch->device);
        return DDISP_STATUS_OK;
    }
    ddisp_error error = *ddisp__error();
    return ddisp__fail(status, "launch %s: code %u (%s), entry '%s': %s", launch->kernel->name,
                       plan->code, code->desc.format, name, error.message);
}

static ddisp__variant *add(ddisp__launch *launch, const ddisp__variant_key *key)
{
    ddisp_context *context = launch->kernel->context;
    ddisp__variant *variant = ddisp__allocate(context, sizeof *variant);
    if (!variant)
        return NULL;
    variant->device = launch->device;
    variant->mode = launch->mode;
    variant->uses.item_size = (uint32_t)sizeof(ddisp_stream *);
    if (!ddisp__table_add(context, &launch->kernel->variants, ddisp__hash_bytes(key, sizeof *key),
                          key, sizeof *key, variant)) {
        ddisp__release(context, variant);
        return NULL;
    }
    pthread_mutex_init(&variant->lock, NULL);
    ddisp_device_retain(launch->device);
    return variant;
}

/* Waits for a build by another thread. True when that very build failed: then this call fails with
 * it. */
static bool wait_for(ddisp_kernel *kernel, const ddisp__variant *variant)
{
    uint64_t attempt = variant->attempts;
    while (variant->state == VARIANT_BUILDING && variant->attempts == attempt)
        pthread_cond_wait(&kernel->built, &kernel->build_lock);
    return variant->state == VARIANT_FAILED && variant->attempts == attempt;
}

ddisp_status ddisp__variant_get(ddisp__launch *launch, struct ddisp__plan *plan)
{
    ddisp_kernel *kernel = launch->kernel;
    ddisp__variant_key key = ddisp__variant_key_of(launch, plan);
    ddisp__variant *variant = find(launch, &key);
    if (!variant)
        variant = add(launch, &key);
    if (!variant)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "launch %s: no memory for a variant",
                           kernel->name);
    while (variant->state == VARIANT_BUILDING) {
        if (!wait_for(kernel, variant))
            continue;
        ddisp__error_restore(&variant->error);
        return variant->failure;
    }
    if (variant->state == VARIANT_FAILED) {
        variant->state = VARIANT_BUILDING;
        variant->attempts++;
        pthread_mutex_unlock(&kernel->build_lock);
        ddisp_status status = build(launch, plan, &variant->handle);
        pthread_mutex_lock(&kernel->build_lock);
        variant->state = status ? VARIANT_FAILED : VARIANT_READY;
        variant->failure = status;
        variant->error = *ddisp__error();
        kernel->variants_built += status == DDISP_STATUS_OK;
        pthread_cond_broadcast(&kernel->built);
        if (status)
            return status;
    } else {
        launch->origin = DDISP_VARIANT_ORIGIN_HIT;
    }
    plan->variant = variant;
    return DDISP_STATUS_OK;
}

/* ---- release ---- */

/* Waits for the work that uses the variant, then gives it back. */
static void release_variant(void *user, void *value)
{
    ddisp_context *context = user;
    ddisp__variant *variant = value;
    ddisp_device *device = variant->device;
    bool forked = ddisp__context_forked(context);
    for (uint32_t i = 0; i < variant->uses.count; i++) {
        ddisp_stream *stream = *(ddisp_stream **)ddisp__array_at(&variant->uses, i);
        uint64_t ticket = 0;
        if (!forked && !atomic_load(&device->lost) &&
            ddisp__stream_mark(stream, &ticket) == DDISP_STATUS_OK)
            (void)ddisp__device_result(
                device, device->table->stream_synchronize(device->handle, stream->handle, ticket,
                                                          DDISP_TIMEOUT_INFINITE));
        ddisp_stream_release(stream);
    }
    if (variant->handle && !forked)
        device->table->variant_release(device->handle, variant->handle);
    ddisp__array_clear(context, &variant->uses);
    pthread_mutex_destroy(&variant->lock);
    ddisp_device_release(device);
    ddisp__release(context, variant);
}

void ddisp__variants_release(ddisp_kernel *kernel)
{
    ddisp__table_clear(kernel->context, &kernel->variants, release_variant, kernel->context);
}
