/*
 * fuzz_spirv.c - SPIR-V from anywhere, as the Vulkan backend inspects it when a kernel is made. The
 * first byte chooses what is declared beside the module.
 */
#include "fuzz.h"

ddisp_status ddisp_vulkan_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                                        const ddisp_backend_table **out_table);

static const ddisp_native_arg natives[] = {
    DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 0, 0, 0),
    DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_ADD, 0, 0, 1),
    DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_DATA, 1, 1, 2),
    {DDISP_SOURCE_NUMEL, 1, 0, DDISP_SPACE_PUSH_CONSTANT, 0, 8, 4, DDISP_NATIVE_LOCATION},
    DDISP_NATIVE(DDISP_SOURCE_ITEMS, 0),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"main", "forward", "backward_{mask}", ""};
    static const uint32_t switch_ids[3] = {0, 7, 0};
    static const ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32)};
    const ddisp_backend_table *table = NULL;
    if (size == 0)
        return 0;
    uint8_t choice = data[0];
    uint8_t *bytes = exact_copy(data + 1, size - 1);
    ddisp_entry entries[2] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "main", 64),
                              DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", 1)};
    entries[0].name = entries[1].name = names[choice & 3];
    entries[0].group_size[0] = choice & 4 ? 0 : 64;
    if (choice & 8) {
        entries[0].native = natives;
        entries[0].native_count = 1 + (choice >> 4 & 3);
    }
    ddisp_code code = DDISP_CODE("vulkan", "spirv", bytes, size - 1, entries, 0);
    code.options = "";
    ddisp_backend_code request = {.size = (uint32_t)sizeof request,
                                  .param_count = 3,
                                  .kernel_name = "fuzz",
                                  .code = &code,
                                  .params = params,
                                  .switch_ids = switch_ids,
                                  .block_size_bytes = 32 + 2 * 320 + 8};
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    HOLDS(ddisp_vulkan_backend_query(DDISP_BACKEND_ABI, &fuzz_services, &table) == DDISP_STATUS_OK);
    ddisp_status status = table->inspect(&fuzz_services, &request, &info);
    HOLDS(status == DDISP_STATUS_OK || status == DDISP_STATUS_CODE_INVALID ||
          status == DDISP_STATUS_NOT_FOUND || status == DDISP_STATUS_UNSUPPORTED);
    if (status == DDISP_STATUS_OK)
        HOLDS(size - 1 >= 20 && (info.switch_mask & ~UINT64_C(7)) == 0);
    free(bytes);
    return 0;
}
