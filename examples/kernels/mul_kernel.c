/*
 * mul_kernel.c - the declaration of the kernel `mul`: its parameters and its codes.
 *
 * The order of the codes is the order of preference within a backend: for Vulkan the module with
 * native float atomics comes first, the one with a compare-and-swap loop takes over where a device
 * lacks them. Bytes are made at build time from the files beside this one.
 */
#include "mul_kernel.h"

#include "mul.ptx.h"
#ifdef MUL_WITH_VULKAN
#include "mul_backward.spv.h"
#include "mul_backward_cas.spv.h"
#include "mul_forward.spv.h"
#endif

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* An entry with groups of 256 threads that loops over the items by itself. */
#define LOOP(mode, name)                                                                           \
    {                                                                                              \
        (mode), {256, 1, 1}, (name), NULL, 0, 0, DDISP_ENTRY_LOOPS, NULL, 0, 0                     \
    }

static const ddisp_param params[MUL_PARAM_COUNT] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

static const ddisp_entry cuda[] = {
    LOOP(DDISP_MODE_FORWARD, "mul_forward"),
    LOOP(DDISP_MODE_BACKWARD, "mul_backward"),
};
#ifdef MUL_WITH_VULKAN
static const ddisp_entry vulkan_forward[] = {LOOP(DDISP_MODE_FORWARD, "main")};
static const ddisp_entry vulkan_backward[] = {LOOP(DDISP_MODE_BACKWARD, "main")};
#endif
static const ddisp_entry host[] = {
    DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, mul_forward, 0x6d756c01),
    DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, mul_backward_a, 0x6d756c02,
                                1 << MUL_A | 1 << MUL_Y),
    DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, mul_backward_b, 0x6d756c03,
                                1 << MUL_B | 1 << MUL_Y),
    DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, mul_backward, 0x6d756c04),
};

enum { FLAGS = DDISP_CODE_NULL_SAFE | DDISP_CODE_BORROWED | DDISP_CODE_ANY_LAYOUT };

static const ddisp_code codes[] = {
    DDISP_CODE("cuda", "ptx", mul_ptx, sizeof mul_ptx - 1, cuda, FLAGS),
#ifdef MUL_WITH_VULKAN
    DDISP_CODE("vulkan", "spirv", mul_forward_spirv, sizeof mul_forward_spirv, vulkan_forward,
               FLAGS),
    DDISP_CODE("vulkan", "spirv", mul_backward_spirv, sizeof mul_backward_spirv, vulkan_backward,
               FLAGS),
    DDISP_CODE("vulkan", "spirv", mul_backward_cas_spirv, sizeof mul_backward_cas_spirv,
               vulkan_backward, FLAGS),
#endif
    DDISP_CODE("host", "host-function", NULL, 0, host, FLAGS),
};

static const ddisp_kernel_desc desc = {
    .size = sizeof desc,
    .name = "mul",
    .params = params,
    .param_count = MUL_PARAM_COUNT,
    .param_size = sizeof params[0],
    .codes = codes,
    .code_count = COUNT(codes),
    .code_size = sizeof codes[0],
};

const ddisp_code *mul_codes(uint32_t *out_count)
{
    *out_count = COUNT(codes);
    return codes;
}

const ddisp_kernel_desc *mul_kernel_desc(void)
{
    return &desc;
}
