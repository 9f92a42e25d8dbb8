/*
 * cuda_native.c - native arguments: an existing kernel's parameters compared with the list that was
 * declared for them, and filled at a launch.
 *
 * In: a declared list; sizes and kinds of the parameters, from PTX text or the driver. Out: the
 * first argument that cannot be right, by name; or pointers to values, as the driver takes them.
 * Only certainty is refused: where nothing but the size is known, the size decides.
 */
#include "cuda_code.h"

#include <inttypes.h>

static bool is_float(const ddisp_backend_code *code, const ddisp_native_arg *arg)
{
    ddisp_dtype dtype =
        arg->source == DDISP_SOURCE_SCALAR ? code->params[arg->param].dtype : DDISP_DTYPE_ANY;
    return dtype == DDISP_DTYPE_F16 || dtype == DDISP_DTYPE_BF16 || dtype == DDISP_DTYPE_F32 ||
           dtype == DDISP_DTYPE_F64;
}

/* What the parameter takes and the argument is not; NULL when they agree. */
static const char *disagreement(const ddisp_backend_code *code, const ddisp_native_arg *arg,
                                const cuda__param *param)
{
    switch (param->kind) {
    case CUDA__PARAM_ADDRESS:
        return backend_native_is_address(arg->source) ? NULL : "an address";
    case CUDA__PARAM_FLOAT:
        return is_float(code, arg) ? NULL : "a floating-point number";
    case CUDA__PARAM_INTEGER:
        return is_float(code, arg) ? "an integer" : NULL;
    case CUDA__PARAM_BYTES:
        break;
    }
    return NULL;
}

static ddisp_status check_one(const ddisp_backend_services *services,
                              const ddisp_backend_code *code, const ddisp_entry *entry, uint32_t i,
                              uint32_t position, const cuda__param *param, uint32_t count)
{
    uint32_t size_bytes = backend_native_size(code, &entry->native[i]);
    const char *other = disagreement(code, &entry->native[i], param);
    if (param->size_bytes != size_bytes) {
        return backend_native_fail(services, code, entry, i,
                                   "has %u bytes, parameter %u of the kernel has %" PRIu64
                                   "; the kernel has %u parameters, the list %u arguments",
                                   size_bytes, position, param->size_bytes, count,
                                   entry->native_count);
    }
    if (other) {
        return backend_native_fail(services, code, entry, i,
                                   "goes to parameter %u of the kernel, which takes %s; the kernel "
                                   "has %u parameters, the list %u arguments",
                                   position, other, count, entry->native_count);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__native_check(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const ddisp_entry *entry,
                                const cuda__param *params, uint32_t count)
{
    backend_native_places places = {.count = 0};
    if (count > CUDA__MAX_PARAMS) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' has more than %u parameters, the most that "
                            "native arguments can fill",
                            code->kernel_name, entry->name, CUDA__MAX_PARAMS);
    }
    ddisp_status status = backend_native_place(services, code, entry, &places);
    for (uint32_t at = 0; status == DDISP_STATUS_OK && at < places.count && at < count; at++) {
        status = check_one(services, code, entry, places.argument[at], at, &params[at], count);
    }
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    if (places.count > count) {
        return backend_native_fail(services, code, entry, places.argument[count],
                                   "is one too many: the kernel has %u parameters", count);
    }
    if (places.count < count) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: entry '%s' has %u parameters, and %u native arguments are "
                            "declared: parameter %u, of %" PRIu64 " bytes, has none",
                            code->kernel_name, entry->name, count, places.count, places.count,
                            params[places.count].size_bytes);
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__native_fill(const ddisp_backend_services *services, const cuda__variant *variant,
                               const ddisp_backend_launch *launch, const cu__address *block_address,
                               void **parameters)
{
    for (uint32_t i = 0; i < launch->native_count; i++) {
        const ddisp_backend_native *native = &launch->natives[i];
        const void *value = native->arg->source == DDISP_SOURCE_BLOCK
                                ? (const void *)block_address
                                : (const void *)&native->value;
        ddisp_status status = backend_native_fits(services, native, i);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        /* The driver copies what parameters point to before it returns; its type lacks the const.
         */
        memcpy(&parameters[variant->places.position[i]], &value, sizeof value);
    }
    return DDISP_STATUS_OK;
}
