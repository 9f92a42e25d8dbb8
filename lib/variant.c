/*
 * variant.c - from a signature to a plan: code, entry, and the backing of each slot. A plan is
 * found by the bytes of the signature, without a lock; a new one is resolved here, within the
 * kernel's budget of variants, and its variant is found or built in variant_build.c.
 */
#include "variant.h"

#include <stdio.h>
#include <string.h>

/* ---- plans ---- */

/* The device is part of the key in memory: its serial number follows the signature. */
static uint32_t plan_key(ddisp__launch *launch, ddisp__hash *out_hash)
{
    uint64_t device = launch->device->serial;
    memcpy(launch->signature + launch->signature_size, &device, sizeof device);
    *out_hash = launch->hash;
    out_hash->low ^= device * UINT64_C(0x9E3779B97F4A7C15);
    return launch->signature_size + (uint32_t)sizeof device;
}

const struct ddisp__plan *ddisp__plan_find(ddisp__launch *launch)
{
    ddisp_kernel *kernel = launch->kernel;
    ddisp__hash hash;
    uint32_t key_size = plan_key(launch, &hash);
    const struct ddisp__plan *plan =
        ddisp__table_find(&kernel->plans, hash, launch->signature, key_size);
    if (plan && !launch->origin) { /* else it was made for this launch */
        atomic_fetch_add_explicit(&kernel->signature_hits, 1, memory_order_relaxed);
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

/* ---- budget ---- */

/* Plans without the specializations that AUTO chose; *out_has is false when there is no such plan.
 */
static void choose_plain(const ddisp__launch *launch, struct ddisp__plan *plan, bool *out_has)
{
    ddisp_error before = *ddisp__error();
    memset(plan, 0, sizeof *plan);
    *out_has = choose(launch, false, plan) == DDISP_STATUS_OK;
    ddisp__error_restore(&before);
}

/* One more variant is within the budget, with room left for the one that serves all the rest. */
static bool within_budget(const ddisp__launch *launch, const struct ddisp__plan *plan,
                          const struct ddisp__plan *plain, bool same)
{
    if (ddisp__variant_exists(launch, plan))
        return true;
    uint32_t reserved = same || ddisp__variant_exists(launch, plain) ? 0 : 1;
    return ddisp__variant_count(launch) + 1 + reserved <= launch->kernel->variant_budget;
}

/* Name of the first slot that is omitted because the caller asked for it, or NULL. */
static const char *omitted_by_request(const ddisp__launch *launch, const struct ddisp__plan *plan)
{
    for (uint32_t i = 0; i < launch->count; i++)
        if (plan->add[i] == DDISP_BACKING_OMITTED &&
            launch->operands[i].add.policy == DDISP_POLICY_SPECIALIZE)
            return launch->operands[i].param->name;
    return NULL;
}

/* Past the budget AUTO takes what needs no code of its own; what was asked for by name is refused.
 * build_lock is held. */
static ddisp_status keep_budget(const ddisp__launch *launch, struct ddisp__plan *plan,
                                struct ddisp__plan *plain)
{
    ddisp__variant_key key = ddisp__variant_key_of(launch, plan),
                       plain_key = ddisp__variant_key_of(launch, plain);
    bool same = memcmp(&key, &plain_key, sizeof key) == 0;
    const char *asked = omitted_by_request(launch, plan);
    if (within_budget(launch, plan, plain, same))
        return DDISP_STATUS_OK;
    if (!same) {
        for (uint32_t i = 0; i < launch->count; i++)
            if (plan->add[i] == DDISP_BACKING_OMITTED && plain->add[i] != DDISP_BACKING_OMITTED)
                plain->add_reason[i] = "the kernel's variant budget is used up";
        *plan = *plain;
    }
    if (!asked || ddisp__variant_exists(launch, plan))
        return DDISP_STATUS_OK;
    return ddisp__fail(DDISP_STATUS_UNSUPPORTED,
                       "launch %s: policy specialize for '%s' needs one more variant, and the "
                       "kernel's budget of %u is used up: raise variant_budget, or ask for policy "
                       "auto",
                       launch->kernel->name, asked, launch->kernel->variant_budget);
}

static bool omits(const ddisp__launch *launch, const struct ddisp__plan *plan)
{
    for (uint32_t i = 0; i < launch->count; i++)
        if (plan->add[i] == DDISP_BACKING_OMITTED || plan->read[i] == DDISP_BACKING_OMITTED)
            return true;
    return false;
}

static ddisp_status resolve(ddisp__launch *launch, struct ddisp__plan *plan)
{
    ddisp_kernel *kernel = launch->kernel;
    struct ddisp__plan plain;
    bool has_plain = false;
    ddisp_status status = choose(launch, true, plan);
    if (!status && omits(launch, plan))
        choose_plain(launch, &plain, &has_plain);
    if (!status)
        status = ddisp__shadow_check(launch, plan);
    if (status)
        return status;
    pthread_mutex_lock(&kernel->build_lock);
    if (has_plain)
        status = keep_budget(launch, plan, &plain);
    uint32_t grid[3]; /* a launch past the device's limits builds nothing */
    if (!status)
        status = ddisp__geometry_grid(launch, &kernel->codes[plan->code].desc.entries[plan->entry],
                                      grid);
    if (!status)
        status = ddisp__variant_get(launch, plan);
    pthread_mutex_unlock(&kernel->build_lock);
    return status;
}

bool ddisp__plan_keep(ddisp__launch *launch, struct ddisp__plan *plan, bool *out_added)
{
    ddisp_kernel *kernel = launch->kernel;
    ddisp__hash hash;
    uint32_t key_size = plan_key(launch, &hash);
    pthread_mutex_lock(&kernel->lock);
    bool known = ddisp__table_find(&kernel->plans, hash, launch->signature, key_size) != NULL;
    *out_added = !known && ddisp__table_add(kernel->context, &kernel->plans, hash,
                                            launch->signature, key_size, plan);
    pthread_mutex_unlock(&kernel->lock);
    return known || *out_added;
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
    bool added, kept = ddisp__plan_keep(launch, plan, &added);
    if (!added)
        ddisp__release(kernel->context, plan);
    return kept ? DDISP_STATUS_OK
                : ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "launch %s: no memory for a plan",
                              kernel->name);
}

static void release_plan(void *user, void *value)
{
    ddisp__release(user, value);
}

void ddisp__plans_release(ddisp_kernel *kernel)
{
    ddisp__table_clear(kernel->context, &kernel->plans, release_plan, kernel->context);
    ddisp__variants_release(kernel);
}
