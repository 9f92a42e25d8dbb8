/*
 * variant.c - from a signature to loaded code. Two levels: a signature names a plan (code, entry,
 * backing of each slot), a plan names a variant (compiled code), and plans whose code is the same
 * share one. A variant is built once however many threads ask; the others wait. A failed build is
 * not remembered. Keys are compared byte by byte.
 */
#include "launch.h"
#include "lower.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum variant_state {
    VARIANT_BUILDING,
    VARIANT_READY,
    VARIANT_FAILED,
} variant_state;

struct ddisp__variant {
    variant_state state;  /* guarded by the kernel's build_lock */
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

/* ---- plans ---- */

/* The device is part of the key in memory: its address follows the signature. */
static uint32_t plan_key(ddisp__launch *launch, ddisp__hash *out_hash)
{
    uint64_t device = (uint64_t)(uintptr_t)launch->device;
    memcpy(launch->signature + launch->signature_size, &device, sizeof device);
    *out_hash = launch->hash;
    out_hash->low ^= device;
    return launch->signature_size + (uint32_t)sizeof device;
}

const struct ddisp__plan *ddisp__plan_find(ddisp__launch *launch)
{
    ddisp_kernel *kernel = launch->kernel;
    ddisp__hash hash;
    uint32_t key_size = plan_key(launch, &hash);
    pthread_rwlock_rdlock(&kernel->lock);
    const struct ddisp__plan *plan =
        ddisp__table_find(&kernel->plans, hash, launch->signature, key_size);
    pthread_rwlock_unlock(&kernel->lock);
    if (plan) {
        atomic_fetch_add_explicit(&kernel->signature_hits, 1, memory_order_relaxed);
        if (!launch->origin)
            launch->origin = DDISP_VARIANT_ORIGIN_HIT;
    }
    return plan;
}

/* ---- choice ---- */

/* How far a code came, for the message when none fits: a refused policy says more than a wrong
 * format. */
static uint32_t weight(ddisp_status status)
{
    switch (status) {
    case DDISP_STATUS_UNSUPPORTED:
        return 3;
    case DDISP_STATUS_LAYOUT_MISMATCH:
    case DDISP_STATUS_DTYPE_MISMATCH:
        return 2;
    default:
        return 1;
    }
}

static ddisp_status try_code(const ddisp__launch *launch, uint32_t index, bool auto_omits,
                             struct ddisp__plan *plan, char *reason, size_t capacity)
{
    const ddisp__code *code = &launch->kernel->codes[index];
    ddisp_device *device = launch->device;
    ddisp_status status = DDISP_STATUS_OK;
    if (!code->inspected) { /* of a format that the backend does not take: it says which it does */
        ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
        status = device->table->inspect(ddisp__services(), &code->backend_code, &info);
        (void)snprintf(reason, capacity, "%s",
                       status ? ddisp__error()->message : "was not inspected");
        return DDISP_STATUS_NO_CODE;
    }
    status =
        ddisp__device_result(device, device->table->code_fits(device->handle, &code->backend_code));
    if (status) {
        (void)snprintf(reason, capacity, "%s", ddisp__error()->message);
        return status == DDISP_STATUS_DEVICE_LOST ? status : DDISP_STATUS_NO_CODE;
    }
    status = ddisp__backing_decide(launch, index, auto_omits, plan, reason, capacity);
    if (!status)
        status = ddisp__backing_accepts(launch, index, reason, capacity);
    return status;
}

/* The first code that fits device, mode, layouts and policies. Says of each code why not when none
 * does. */
static ddisp_status choose(const ddisp__launch *launch, bool auto_omits, struct ddisp__plan *plan)
{
    char reason[200], all[440] = "";
    size_t used = 0;
    ddisp_status worst = DDISP_STATUS_NO_CODE;
    for (uint32_t i = 0; i < launch->kernel->code_count; i++) {
        const ddisp_code *desc = &launch->kernel->codes[i].desc;
        if (strcmp(desc->backend, launch->device->info.backend) != 0)
            continue;
        ddisp_status status = try_code(launch, i, auto_omits, plan, reason, sizeof reason);
        if (!status || status == DDISP_STATUS_DEVICE_LOST)
            return status;
        if (weight(status) > weight(worst))
            worst = status;
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%scode %u (%s) %s",
                                     used ? "; " : "", i, desc->format, reason);
    }
    return ddisp__fail(worst, "launch %s: no code fits %s on %s: %s", launch->kernel->name,
                       launch->mode == DDISP_MODE_BACKWARD ? "backward" : "forward",
                       launch->device->info.spec,
                       used ? all : "the kernel has no code for this backend");
}

ddisp_status ddisp__plan_dry(ddisp__launch *launch)
{
    ddisp_status status = choose(launch, true, &launch->dry_plan);
    launch->plan = status ? NULL : &launch->dry_plan;
    return status;
}

/* ---- variants ---- */

typedef struct variant_key {
    uint64_t device;
    ddisp__hash code;
    /* of the parameters whose code a switch can remove, and of all for masked entries */
    uint64_t mask;
    uint32_t entry;
    uint32_t mode;
} variant_key;

static variant_key key_of(const ddisp__launch *launch, const struct ddisp__plan *plan)
{
    const ddisp__code *code = &launch->kernel->codes[plan->code];
    const ddisp_entry *entry = &code->desc.entries[plan->entry];
    bool pattern = strstr(entry->name, "{mask}") != NULL;
    variant_key key = {.device = (uint64_t)(uintptr_t)launch->device,
                       .code = code->hash,
                       .mask = pattern ? plan->mask : plan->mask & code->info.switch_mask,
                       .entry = plan->entry,
                       .mode = launch->mode};
    return key;
}

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
    ddisp_device *device = launch->device;
    uint64_t start = ddisp__time_ns();
    ddisp_status status = ddisp__device_result(
        device, device->table->variant_build(device->handle, &variant, out_handle));
    launch->build_ns = ddisp__time_ns() - start;
    launch->origin = DDISP_VARIANT_ORIGIN_BUILT;
    if (!status) {
        ddisp__device_count_variant(device);
        return DDISP_STATUS_OK;
    }
    ddisp_error error = *ddisp__error();
    return ddisp__fail(status, "launch %s: code %u (%s), entry '%s': %s", launch->kernel->name,
                       plan->code, code->desc.format, name, error.message);
}

static ddisp__variant *add_variant(ddisp__launch *launch, const variant_key *key, ddisp__hash hash)
{
    ddisp_context *context = launch->kernel->context;
    ddisp__variant *variant = ddisp__allocate(context, sizeof *variant);
    if (!variant)
        return NULL;
    variant->state = VARIANT_FAILED;
    variant->device = launch->device;
    variant->mode = launch->mode;
    variant->uses.item_size = (uint32_t)sizeof(ddisp_stream *);
    if (!ddisp__table_add(context, &launch->kernel->variants, hash, key, sizeof *key, variant)) {
        ddisp__release(context, variant);
        return NULL;
    }
    pthread_mutex_init(&variant->lock, NULL);
    ddisp_device_retain(launch->device);
    return variant;
}

/* Finds, waits for, or builds. build_lock is held, and let go only while waiting or building. */
static ddisp_status get_variant(ddisp__launch *launch, struct ddisp__plan *plan)
{
    ddisp_kernel *kernel = launch->kernel;
    variant_key key = key_of(launch, plan);
    ddisp__hash hash = ddisp__hash_bytes(&key, sizeof key);
    ddisp__variant *variant = ddisp__table_find(&kernel->variants, hash, &key, sizeof key);
    if (!variant)
        variant = add_variant(launch, &key, hash);
    if (!variant)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "launch %s: no memory for a variant",
                           kernel->name);
    while (variant->state == VARIANT_BUILDING)
        pthread_cond_wait(&kernel->built, &kernel->build_lock);
    if (variant->state == VARIANT_FAILED) {
        variant->state = VARIANT_BUILDING;
        pthread_mutex_unlock(&kernel->build_lock);
        ddisp_status status = build(launch, plan, &variant->handle);
        pthread_mutex_lock(&kernel->build_lock);
        variant->state = status ? VARIANT_FAILED : VARIANT_READY;
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

/* Whether one more variant is within the budget of this mode and device, or the one asked for
 * exists. */
static bool within_budget(ddisp__launch *launch, const struct ddisp__plan *plan)
{
    ddisp_kernel *kernel = launch->kernel;
    variant_key key = key_of(launch, plan);
    ddisp__hash hash = ddisp__hash_bytes(&key, sizeof key);
    if (ddisp__table_find(&kernel->variants, hash, &key, sizeof key))
        return true;
    census c = {.device = launch->device, .mode = launch->mode};
    ddisp__table_visit(&kernel->variants, count_variant, &c);
    return c.count < kernel->variant_budget;
}

static ddisp_status resolve(ddisp__launch *launch, struct ddisp__plan *plan)
{
    ddisp_kernel *kernel = launch->kernel;
    struct ddisp__plan plain;
    ddisp_status status = choose(launch, true, plan);
    if (status)
        return status;
    pthread_mutex_lock(&kernel->build_lock);
    bool fits = within_budget(launch, plan);
    pthread_mutex_unlock(&kernel->build_lock);
    memset(&plain, 0, sizeof plain);
    if (!fits && choose(launch, false, &plain) == DDISP_STATUS_OK) {
        for (uint32_t i = 0; i < launch->count; i++)
            if (plan->add[i] == DDISP_BACKING_OMITTED && plain.add[i] != DDISP_BACKING_OMITTED)
                plain.add_reason[i] = "the kernel's variant budget is used up";
        *plan = plain;
    }
    uint32_t grid[3]; /* a launch past the device's limits builds nothing */
    status =
        ddisp__geometry_grid(launch, &kernel->codes[plan->code].desc.entries[plan->entry], grid);
    if (status)
        return status;
    pthread_mutex_lock(&kernel->build_lock);
    status = get_variant(launch, plan);
    pthread_mutex_unlock(&kernel->build_lock);
    return status;
}

ddisp_status ddisp__plan_build(ddisp__launch *launch)
{
    ddisp_kernel *kernel = launch->kernel;
    struct ddisp__plan *plan = ddisp__allocate(kernel->context, sizeof *plan);
    if (!plan)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "launch %s: no memory for a plan",
                           kernel->name);
    ddisp_status status = resolve(launch, plan);
    if (status) {
        ddisp__release(kernel->context, plan);
        return status;
    }
    ddisp__hash hash;
    uint32_t key_size = plan_key(launch, &hash);
    pthread_rwlock_wrlock(&kernel->lock);
    bool known = ddisp__table_find(&kernel->plans, hash, launch->signature, key_size) != NULL;
    bool added = !known && ddisp__table_add(kernel->context, &kernel->plans, hash,
                                            launch->signature, key_size, plan);
    pthread_rwlock_unlock(&kernel->lock);
    if (!added)
        ddisp__release(kernel->context, plan);
    return known || added ? DDISP_STATUS_OK
                          : ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY,
                                        "launch %s: no memory for a plan", kernel->name);
}

/* ---- release ---- */

static void release_plan(void *user, void *value)
{
    ddisp__release(user, value);
}

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

void ddisp__plans_release(ddisp_kernel *kernel)
{
    ddisp__table_clear(kernel->context, &kernel->plans, release_plan, kernel->context);
    ddisp__table_clear(kernel->context, &kernel->variants, release_variant, kernel->context);
}
