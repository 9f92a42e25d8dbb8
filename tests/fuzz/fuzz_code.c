/*
 * fuzz_code.c - machine code and source from anywhere, as the CUDA backend inspects them: cubins,
 * fatbins, and CUDA C++ whose switches are looked for. The first byte chooses the format and what
 * is declared beside the bytes.
 */
#include "fuzz.h"

#include "cuda_code.h"

ddisp_status ddisp_cuda_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                                      const ddisp_backend_table **out_table);

/* What is found in a cubin lies within it. */
static void look_into(const uint8_t *bytes, size_t size)
{
    cuda__cubin cubin;
    uint32_t count = 0;
    if (cuda__cubin_open(&cubin, bytes, size))
        return;
    HOLDS(cubin.architecture < 256);
    (void)cuda__cubin_has(&cubin, "mul_{mask}", &count);
    HOLDS(count <= size / 24);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"cubin", "fatbin", "cuda-c++", "cubin"};
    static const char *const names[] = {"mul", "mul_{mask}", "k", ""};
    static const uint32_t switch_ids[2] = {0, 0};
    static const ddisp_param params[2] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE)};
    static const ddisp_native_arg natives[2] = {DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
                                                DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 1)};
    const ddisp_backend_table *table = NULL;
    if (size == 0)
        return 0;
    uint8_t choice = data[0];
    uint8_t *bytes = exact_copy(data + 1, size - 1);
    look_into(bytes, size - 1);
    ddisp_entry entry = DDISP_ENTRY(DDISP_MODE_BACKWARD, "mul", 256);
    entry.name = names[choice >> 2 & 3];
    if (choice & 16) {
        entry.native = natives;
        entry.native_count = 2;
    }
    if (choice & 32) {
        entry.flags = DDISP_ENTRY_MASKED;
        entry.mask = choice >> 6;
    }
    ddisp_code code = {.backend = "cuda",
                       .format = formats[choice & 3],
                       .bytes = bytes,
                       .size_bytes = size - 1,
                       .entries = &entry,
                       .entry_count = 1,
                       .entry_size = (uint32_t)sizeof entry,
                       .options = ""};
    ddisp_backend_code request = {.size = (uint32_t)sizeof request,
                                  .param_count = 2,
                                  .kernel_name = "fuzz",
                                  .code = &code,
                                  .params = params,
                                  .switch_ids = switch_ids,
                                  .block_size_bytes = 32 + 2 * 320};
    ddisp_backend_code_info info = {.size = (uint32_t)sizeof info};
    HOLDS(ddisp_cuda_backend_query(DDISP_BACKEND_ABI, &fuzz_services, &table) == DDISP_STATUS_OK);
    ddisp_status status = table->inspect(&fuzz_services, &request, &info);
    HOLDS(status == DDISP_STATUS_OK || status == DDISP_STATUS_CODE_INVALID ||
          status == DDISP_STATUS_NOT_FOUND);
    if (status == DDISP_STATUS_OK)
        HOLDS((info.switch_mask & ~UINT64_C(3)) == 0);
    free(bytes);
    return 0;
}
