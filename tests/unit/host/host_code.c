/*
 * host_code.c - see host_code.h.
 */
#include "host_code.h"

#include <string.h>

void host_code_make(host_code *it, ddisp_mode mode, const ddisp_native_arg *natives, uint32_t count)
{
    static const char *const names[] = {"a", "b", "y", "k"};
    memset(it, 0, sizeof *it);
    for (uint32_t i = 0; i < 4; i++) {
        it->params[i].name = names[i];
        it->params[i].access = i == 2 ? DDISP_ACCESS_OUT : DDISP_ACCESS_IN;
        it->params[i].dtype = DDISP_DTYPE_F32;
        it->params[i].rank = i == 3 ? 0 : 2;
        it->params[i].kind = i == 3 ? DDISP_PARAM_KIND_SCALAR : DDISP_PARAM_KIND_TENSOR;
        it->params[i].flags = i == 3 ? 0 : DDISP_PARAM_DIFFERENTIABLE;
    }
    it->entries[0].mode = mode;
    it->entries[0].name = "";
    it->entries[0].native = natives;
    it->entries[0].native_count = count;
    it->entries[0].function_id = 1;
    it->code.backend = "host";
    it->code.format = "host-function";
    it->code.entries = it->entries;
    it->code.entry_count = 1;
    it->code.entry_size = (uint32_t)sizeof it->entries[0];
    it->backend_code.size = (uint32_t)sizeof it->backend_code;
    it->backend_code.param_count = 4;
    it->backend_code.kernel_name = "mul";
    it->backend_code.code = &it->code;
    it->backend_code.params = it->params;
    it->backend_code.block_size_bytes = (uint32_t)sizeof(arguments);
}

ddisp_status host_code_inspect(const fixture *f, const host_code *it)
{
    ddisp_backend_code_info info = {(uint32_t)sizeof info, 0, 77, 77};
    last_message[0] = '\0';
    ddisp_status status = f->table->inspect(&services, &it->backend_code, &info);
    assert_int_equal(info.switch_mask, status == DDISP_STATUS_OK ? 0 : 77);
    return status;
}

ddisp_status host_code_build(const fixture *f, const host_code *it, void **out_variant)
{
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant,
                                     .mode = it->entries[0].mode,
                                     .code = &it->backend_code,
                                     .entry = &it->entries[0],
                                     .entry_name = it->entries[0].name,
                                     .switches = UINT64_MAX};
    return f->table->variant_build(f->device, &variant, out_variant);
}

ddisp_backend_launch host_code_request(void *variant, const host_code *it, const uint64_t *values,
                                       const void *block, uint32_t block_bytes,
                                       ddisp_backend_native *natives)
{
    uint32_t count = it->entries[0].native_count;
    for (uint32_t i = 0; i < count; i++) {
        const ddisp_native_arg *arg = &it->entries[0].native[i];
        uint32_t size = arg->size_bytes                      ? arg->size_bytes
                        : arg->source == DDISP_SOURCE_SCALAR ? 4
                                                             : 8;
        natives[i] = (ddisp_backend_native){.arg = arg, .value = values[i], .size_bytes = size};
    }
    ddisp_backend_launch request = {.size = (uint32_t)sizeof request,
                                    .variant = variant,
                                    .block = block,
                                    .block_size_bytes = block_bytes,
                                    .items = 1,
                                    .natives = natives,
                                    .native_count = count};
    return request;
}

ddisp_status host_code_launch(const fixture *f, void *stream, void *variant, const host_code *it,
                              const uint64_t *values, const void *block, uint32_t block_bytes)
{
    ddisp_backend_native natives[128];
    ddisp_backend_launch request =
        host_code_request(variant, it, values, block, block_bytes, natives);
    ddisp_status status = f->table->launch(f->device, stream, &request);
    memset(natives, 0xEE, sizeof natives); /* they live on the caller's stack */
    return status;
}
