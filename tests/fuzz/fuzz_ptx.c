/*
 * fuzz_ptx.c - PTX from anywhere: as the CUDA backend inspects it, and as it turns switches off.
 * Turning switches off changes nothing but the digit of whole switch lines. The first byte chooses
 * what is declared beside the text.
 */
#include "fuzz.h"

#include "cuda_ptx.h"

ddisp_status ddisp_cuda_backend_query(uint32_t core_abi, const ddisp_backend_services *services,
                                      const ddisp_backend_table **out_table);

static bool space(uint8_t letter)
{
    return letter == ' ' || letter == '\t';
}

/* The line around `at` is blanks, "mov.u32 %x, 1; // DDISP_SWITCH(n)", blanks; `at` is at its 1. */
static bool on_switch_line(const uint8_t *text, size_t size, size_t at)
{
    size_t begin = at, end = at;
    char line[256], name[128];
    unsigned int index;
    int used = 0;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    while (end < size && text[end] != '\n' && text[end] != '\0')
        end++;
    while (begin < end && space(text[begin]))
        begin++;
    if (end - begin >= sizeof line)
        return true; /* too long to be judged here */
    memcpy(line, text + begin, end - begin);
    line[end - begin] = '\0';
    if (sscanf(line, "mov.u32 %127[^, \t] , 1 ; // DDISP_SWITCH(%u)%n", name, &index, &used) != 2)
        return false;
    while (line[used] && (space((uint8_t)line[used]) || line[used] == '\r'))
        used++;
    return used > 0 && !line[used] && index < 64;
}

static void rewrite(const uint8_t *text, size_t size, uint64_t off_mask)
{
    char *copy = malloc(size + 1), *again = malloc(size + 1);
    if (!copy || !again)
        exit(0);
    if (cuda__ptx_rewrite(text, size, 0, copy)) {
        HOLDS(memcmp(copy, text, size) == 0 && copy[size] == '\0');
        HOLDS(cuda__ptx_rewrite(text, size, off_mask, copy));
        for (size_t i = 0; i < size; i++)
            if ((uint8_t)copy[i] != text[i])
                HOLDS(text[i] == '1' && copy[i] == '0' && on_switch_line(text, size, i));
        /* What is off is no switch any more; what was left on still is. */
        HOLDS(cuda__ptx_rewrite(copy, size, off_mask, again));
        HOLDS(memcmp(copy, again, size) == 0);
    }
    free(copy);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"mul", "mul_backward", "mul_backward_{mask}", ""};
    static const uint32_t switch_ids[2] = {0, 0};
    static const ddisp_param params[2] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE)};
    static const ddisp_native_arg natives[3] = {DDISP_NATIVE(DDISP_SOURCE_GRAD_ADD, 0),
                                                DDISP_NATIVE(DDISP_SOURCE_GRAD_READ, 1),
                                                DDISP_NATIVE(DDISP_SOURCE_NUMEL, 1)};
    const ddisp_backend_table *table = NULL;
    if (size == 0)
        return 0;
    uint8_t choice = data[0];
    uint8_t *text = exact_copy(data + 1, size - 1);
    rewrite(text, size - 1, choice & 1 ? UINT64_MAX : choice);
    ddisp_entry entry = DDISP_ENTRY(DDISP_MODE_BACKWARD, "mul", 256);
    entry.name = names[choice >> 1 & 3];
    if (choice & 8) {
        entry.native = natives;
        entry.native_count = 3;
    }
    ddisp_code code = {.backend = "cuda",
                       .format = "ptx",
                       .bytes = text,
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
          status == DDISP_STATUS_NOT_FOUND || status == DDISP_STATUS_UNSUPPORTED);
    if (status == DDISP_STATUS_OK)
        HOLDS((info.switch_mask & ~UINT64_C(3)) == 0);
    free(text);
    return 0;
}
