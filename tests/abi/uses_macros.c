/*
 * Every initializer of the public headers, used. Compiled as C99 to C17 and C++11 to C++20 without
 * a warning: what is missing here can break a user's build although the headers alone compile.
 */
#include <diffdispatch/accumulate.h>
#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>

#ifdef __cplusplus
extern "C" {
#endif
uint64_t uses_macros(ddisp_tensor *tensor, const ddisp_block *block);
#ifdef __cplusplus
}
#endif

static void function(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    (void)block;
    (void)begin;
    (void)end;
}

#define ZEROED(type)                                                                               \
    do {                                                                                           \
        type value = DDISP_ZERO;                                                                   \
        value.size = (uint32_t)sizeof value;                                                       \
        total += value.size;                                                                       \
    } while (0)

uint64_t uses_macros(ddisp_tensor *tensor, const ddisp_block *block)
{
    static const unsigned char bytes[4] = {0, 0, 0, 0};
    const ddisp_native_arg native[2] = {
        DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
        DDISP_NATIVE_DESCRIPTOR(DDISP_SOURCE_GRAD_ADD, 0, 0, 3),
    };
    const ddisp_entry entries[3] = {
        DDISP_ENTRY(DDISP_MODE_FORWARD, "mul", 256),
        DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, function, 1),
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, function, 2, 3),
    };
    const ddisp_code codes[2] = {
        DDISP_CODE("cuda", "ptx", bytes, sizeof bytes, entries, DDISP_CODE_NULL_SAFE),
        DDISP_CODE("host", "host-function", NULL, 0, entries, DDISP_CODE_ANY_LAYOUT),
    };
    const ddisp_param params[2] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM_SCALAR("scale", DDISP_DTYPE_F32),
    };
    const float scale = 2.0f;
    ddisp_tensor_view view = DDISP_ZERO;
    ddisp_arg args[4] = {
        DDISP_ARG(tensor),
        DDISP_ARG_POLICY(tensor, DDISP_POLICY_SCRATCH),
        DDISP_ARG_VIEW(&view),
        DDISP_ARG_SCALAR(&scale),
    };
    ddisp_arg zeroed[2] = DDISP_ZERO;
    uint64_t total = 0;

    ZEROED(ddisp_error);
    ZEROED(ddisp_allocator);
    ZEROED(ddisp_context_desc);
    ZEROED(ddisp_backend_info);
    ZEROED(ddisp_device_info);
    ZEROED(ddisp_device_statistics);
    ZEROED(ddisp_tensor_info);
    ZEROED(ddisp_tensor_view);
    ZEROED(ddisp_kernel_desc);
    ZEROED(ddisp_kernel_statistics);
    ZEROED(ddisp_launch_options);
    ZEROED(ddisp_report_info);
    ZEROED(ddisp_report_slot);
    ZEROED(ddisp_accumulate_options);

    total += native[1].location + codes[1].entry_count + params[1].rank + args[3].scalar_size;
    total += zeroed[1].flags + DDISP_BLOCK_TENSOR(block, 1)->data;
    total += *(const unsigned char *)DDISP_BLOCK_SCALAR(block, 1);
    return total + DDISP_RANK_ANY + DDISP_TIMEOUT_INFINITE;
}
