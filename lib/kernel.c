/*
 * kernel.c - kernels: declared parameters and codes, copied, checked and inspected once. After
 * creation a kernel never changes, except for its cache of plans and variants (variant.c). Codes
 * are checked against the declared parameters by the backend's inspection, which needs no device.
 */
#include "launch.h"

#include <stdio.h>
#include <string.h>

ddisp_status ddisp__kernel_read_grown(const char *what, const void *items, uint32_t item_size,
                                      uint32_t first_size, uint32_t known_size, uint32_t index,
                                      void *out)
{
    if (item_size < first_size || item_size > 4096)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "%s: element size is %u, expected %u to 4096", what, item_size,
                           first_size);
    const unsigned char *item = (const unsigned char *)items + (size_t)index * item_size;
    for (uint32_t i = known_size; i < item_size; i++)
        if (item[i])
            return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                               "%s %u uses fields that this library does not know", what, index);
    memset(out, 0, known_size);
    memcpy(out, item, item_size < known_size ? item_size : known_size);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__kernel_read_item(const char *what, const void *items, uint32_t item_size,
                                     uint32_t known_size, uint32_t index, void *out)
{
    return ddisp__kernel_read_grown(what, items, item_size, known_size, known_size, index, out);
}

static bool name_valid(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.";
    if (!name || !name[0] || !strchr(first, name[0]))
        return false;
    size_t length = strnlen(name, 129);
    return length <= 128 && strspn(name, rest) == length;
}

static ddisp_status check_param(const ddisp_param *p, uint32_t i)
{
    if (!name_valid(p->name))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "params[%u].name is not of the form [A-Za-z_][A-Za-z0-9_.]{0,127}", i);
    if (p->kind > DDISP_PARAM_KIND_SCALAR)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "parameter '%s': unknown kind %u",
                           p->name, p->kind);
    if (p->access < DDISP_ACCESS_IN || p->access > DDISP_ACCESS_INOUT)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "parameter '%s': unknown access %u",
                           p->name, p->access);
    if (p->dtype != DDISP_DTYPE_ANY && !ddisp__dtype_valid(p->dtype))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "parameter '%s': unknown dtype %u",
                           p->name, p->dtype);
    if (p->rank > DDISP_MAX_RANK && p->rank != DDISP_RANK_ANY)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "parameter '%s': rank is %u, the highest is %u", p->name, p->rank,
                           DDISP_MAX_RANK);
    if (p->flags & ~(DDISP_PARAM_DIFFERENTIABLE | DDISP_PARAM_ITEMS))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "parameter '%s': unknown flags 0x%llx",
                           p->name, (unsigned long long)p->flags);
    if (p->kind == DDISP_PARAM_KIND_SCALAR &&
        (p->dtype == DDISP_DTYPE_ANY || p->access != DDISP_ACCESS_IN || p->rank || p->flags))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "parameter '%s': a scalar has a dtype, access IN, rank 0 and no flags",
                           p->name);
    if ((p->flags & DDISP_PARAM_DIFFERENTIABLE) && p->dtype != DDISP_DTYPE_ANY &&
        !ddisp__dtype_differentiable(p->dtype))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "parameter '%s': %s is not differentiable; f16, bf16, f32 and f64 are",
                           p->name, ddisp_dtype_name(p->dtype));
    return DDISP_STATUS_OK;
}

static ddisp_status copy_params(ddisp_kernel *kernel, const ddisp_kernel_desc *desc)
{
    kernel->params = ddisp__allocate(kernel->context, desc->param_count * sizeof(ddisp_param) + 1);
    if (!kernel->params)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for parameters");
    uint32_t item_params = 0;
    for (uint32_t i = 0; i < desc->param_count; i++) {
        ddisp_param p;
        ddisp_status status =
            ddisp__kernel_read_item("params", desc->params, desc->param_size, sizeof p, i, &p);
        if (!status)
            status = check_param(&p, i);
        if (status)
            return status;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(kernel->params[k].name, p.name) == 0)
                return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                                   "parameters %u and %u are both named '%s'", k, i, p.name);
        item_params += (p.flags & DDISP_PARAM_ITEMS) != 0;
        p.name = ddisp__duplicate_string(kernel->context, p.name);
        if (!p.name)
            return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a name");
        kernel->params[i] = p;
        kernel->param_count = i + 1;
        if (p.kind == DDISP_PARAM_KIND_TENSOR)
            kernel->tensor_count++;
        else
            kernel->scalar_count++;
    }
    if (item_params > 1)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "params: %u parameters have DDISP_PARAM_ITEMS, one may", item_params);
    kernel->items_param = ddisp__geometry_items_param(kernel);
    kernel->block_size_bytes = (uint32_t)(sizeof(uint64_t) * 4 + kernel->tensor_count * 320u +
                                          kernel->scalar_count * sizeof(uint64_t));
    return DDISP_STATUS_OK;
}

static void destroy(ddisp_kernel *kernel)
{
    ddisp_context *context = kernel->context;
    ddisp__plans_release(kernel);
    ddisp__kernel_release_codes(kernel);
    for (uint32_t i = 0; i < kernel->param_count; i++)
        ddisp__release_const(context, kernel->params[i].name);
    ddisp__release(context, kernel->params);
    ddisp__release(context, kernel->name);
    pthread_cond_destroy(&kernel->built);
    pthread_mutex_destroy(&kernel->build_lock);
    pthread_mutex_destroy(&kernel->lock);
    ddisp__release(context, kernel);
    ddisp_context_release(context);
}

static ddisp_status check_desc(const ddisp_kernel_desc *desc)
{
    if (desc->next)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "desc.next: unknown struct type %u",
                           desc->next->type);
    if (desc->flags)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "desc.flags: unknown bits 0x%llx",
                           (unsigned long long)desc->flags);
    if (!name_valid(desc->name))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.name is not of the form [A-Za-z_][A-Za-z0-9_.]{0,127}");
    if (desc->param_count > DDISP_MAX_PARAMS)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.param_count is %u, the highest is %u", desc->param_count,
                           DDISP_MAX_PARAMS);
    if ((desc->param_count && !desc->params) || (desc->code_count && !desc->codes))
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "desc.%s is NULL",
                           desc->param_count && !desc->params ? "params" : "codes");
    if (!desc->code_count || desc->code_count > 1024)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "desc.code_count is %u, expected 1 to 1024", desc->code_count);
    return DDISP_STATUS_OK;
}

static atomic_uint_fast64_t serials;

ddisp_status ddisp_kernel_create(ddisp_context *context, const ddisp_kernel_desc *desc,
                                 ddisp_kernel **out_kernel)
{
    ddisp_kernel_desc known;
    ddisp_status status = ddisp__context_check(context);
    if (!status && !out_kernel)
        status = ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "out_kernel is NULL");
    if (!status)
        status = ddisp__struct_read("desc", desc, sizeof known, sizeof known, &known);
    if (!status)
        status = check_desc(&known);
    if (status)
        return status;
    ddisp_kernel *kernel = ddisp__allocate(context, sizeof *kernel);
    if (!kernel)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a kernel");
    ddisp__reference_start(&kernel->reference);
    kernel->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
    ddisp_context_retain(context);
    kernel->context = context;
    kernel->variant_budget = known.variant_budget ? known.variant_budget : 32;
    pthread_mutex_init(&kernel->lock, NULL);
    pthread_mutex_init(&kernel->build_lock, NULL);
    pthread_cond_init(&kernel->built, NULL);
    kernel->name = ddisp__duplicate_string(context, known.name);
    if (!kernel->name)
        status = ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a name");
    if (!status)
        status = copy_params(kernel, &known);
    if (!status)
        status = ddisp__kernel_copy_codes(kernel, &known);
    if (!status)
        status = ddisp__kernel_hash(kernel, &kernel->hash);
    if (status) {
        destroy(kernel);
        return status;
    }
    *out_kernel = kernel;
    return DDISP_STATUS_OK;
}

void ddisp_kernel_retain(ddisp_kernel *kernel)
{
    if (kernel)
        ddisp__reference_take(&kernel->reference);
}

void ddisp_kernel_release(ddisp_kernel *kernel)
{
    if (kernel && ddisp__reference_drop(&kernel->reference))
        destroy(kernel);
}

ddisp_status ddisp_kernel_get_statistics(ddisp_kernel *kernel,
                                         ddisp_kernel_statistics *out_statistics)
{
    if (!kernel)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "kernel is NULL");
    ddisp_kernel_statistics statistics = {.size = (uint32_t)sizeof statistics};
    pthread_mutex_lock(&kernel->lock);
    statistics.signatures = kernel->plans.count;
    statistics.hash_collisions = atomic_load(&kernel->plans.collisions);
    pthread_mutex_unlock(&kernel->lock);
    pthread_mutex_lock(&kernel->build_lock);
    statistics.variants = statistics.variants_built = kernel->variants_built;
    pthread_mutex_unlock(&kernel->build_lock);
    statistics.signature_hits = atomic_load(&kernel->signature_hits);
    statistics.artifacts_read = atomic_load(&kernel->artifacts_read);
    statistics.artifacts_made = atomic_load(&kernel->artifacts_made);
    statistics.artifacts_repaired = atomic_load(&kernel->artifacts_repaired);
    return ddisp__struct_write("out_statistics", out_statistics,
                               offsetof(ddisp_kernel_statistics, artifacts_read), sizeof statistics,
                               &statistics);
}
