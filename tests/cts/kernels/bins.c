/*
 * bins.c - y[i] = x[index[i]] + s[0] by the device headers, for each type and several group sizes;
 * backward alone.
 */
#include "cts_kernels.h"

#include <diffdispatch/device/ddisp_host.h>

#include "bins.ptx.h"
#if CTS_HAVE_SPIRV
#include "bins.spv.h"
#endif

#define BINS(type, out)                                                                            \
    DDISP_KERNEL(bins_##type, 4)                                                                   \
    {                                                                                              \
        ddisp_tensor_##type x = DDISP_TENSOR(type, 0), s = DDISP_TENSOR(type, 2);                  \
        ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);                                             \
        ddisp_tensor_##out y = DDISP_TENSOR(out, 3);                                               \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            ddisp_add_grad(x, (uint64_t)ddisp_load(index, i), ddisp_grad(y, i));                   \
            ddisp_add_grad(s, (uint64_t)0, ddisp_grad(y, i));                                      \
        }                                                                                          \
    }                                                                                              \
    DDISP_KERNEL_VARIANT(bins_##type, 9)                                                           \
    DDISP_KERNEL_VARIANT(bins_##type, 12)
BINS(f16, f32)
BINS(bf16, f32)
BINS(f32, f32)
BINS(f64, f64)

#define FLAGS                                                                                      \
    (DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT | DDISP_CODE_PRE_REDUCES |                       \
     DDISP_CODE_DETERMINISTIC)
#define CODE(backend, format, bytes, size_bytes, entries)                                          \
    DDISP_CODE(backend, format, bytes, size_bytes, entries, FLAGS)
#if CTS_HAVE_SPIRV
#define SPIRV(type, threads)                                                                       \
    CODE("vulkan", "spirv", bins_##type##_##threads##_spv, sizeof bins_##type##_##threads##_spv,   \
         bins_##type##_##threads##_vulkan),                                                        \
        CODE("vulkan", "spirv", bins_##type##_##threads##_cas_spv,                                 \
             sizeof bins_##type##_##threads##_cas_spv, bins_##type##_##threads##_vulkan),
#else
#define SPIRV(type, threads)
#endif

#define SIZED(type, number, threads)                                                               \
    static const ddisp_entry bins_##type##_##threads##_vulkan[] = {                                \
        {DDISP_MODE_BACKWARD, {threads, 1, 1}, "main", NULL, 0, 0, DDISP_ENTRY_LOOPS, NULL, 0, 0}, \
    };                                                                                             \
    static const ddisp_entry bins_##type##_##threads##_cuda[] = {                                  \
        {DDISP_MODE_BACKWARD,                                                                      \
         {threads, 1, 1},                                                                          \
         "bins_" #type,                                                                            \
         NULL,                                                                                     \
         0,                                                                                        \
         0,                                                                                        \
         DDISP_ENTRY_LOOPS,                                                                        \
         NULL,                                                                                     \
         0,                                                                                        \
         0},                                                                                       \
    };                                                                                             \
    static const ddisp_code bins_##type##_##threads##_codes[] = {                                  \
        CODE("host", "host-function", NULL, 0, bins_##type##_host),                                \
        SPIRV(type, threads)                                                                       \
            CODE("cuda", "ptx", bins_ptx, sizeof bins_ptx - 1, bins_##type##_##threads##_cuda),    \
    };
#define TYPED(type, number, dtype, out)                                                            \
    static const ddisp_param bins_##type##_params[] = {                                            \
        DDISP_PARAM("x", DDISP_ACCESS_IN, dtype, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),      \
        DDISP_PARAM("index", DDISP_ACCESS_IN, DDISP_DTYPE_I32, 1, 0),                              \
        DDISP_PARAM("s", DDISP_ACCESS_IN, dtype, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),      \
        DDISP_PARAM("y", DDISP_ACCESS_OUT, out, 1, DDISP_PARAM_DIFFERENTIABLE),                    \
    };                                                                                             \
    static const ddisp_entry bins_##type##_host[] = {                                              \
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, bins_##type##_9,                          \
                                    UINT64_C(0x62696e7300000000) | (number) << 8 | 9, 9),          \
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, bins_##type##_12,                         \
                                    UINT64_C(0x62696e7300000000) | (number) << 8 | 12, 12),        \
        DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, bins_##type,                                     \
                             UINT64_C(0x62696e7300000000) | (number) << 8),                        \
    };                                                                                             \
    SIZED(type, number, 64)                                                                        \
    SIZED(type, number, 256)                                                                       \
    SIZED(type, number, 1000)
TYPED(f16, 1u, DDISP_DTYPE_F16, DDISP_DTYPE_F32)
TYPED(bf16, 2u, DDISP_DTYPE_BF16, DDISP_DTYPE_F32)
TYPED(f32, 3u, DDISP_DTYPE_F32, DDISP_DTYPE_F32)
TYPED(f64, 4u, DDISP_DTYPE_F64, DDISP_DTYPE_F64)

#define SOURCE(type, threads)                                                                      \
    {                                                                                              \
        "bins_" #type, bins_##type##_params, 4, bins_##type##_##threads##_codes,                   \
            (uint32_t)(sizeof bins_##type##_##threads##_codes / sizeof(ddisp_code)),               \
    }
#define SOURCES(type)                                                                              \
    {                                                                                              \
        SOURCE(type, 64), SOURCE(type, 256), SOURCE(type, 1000)                                    \
    }
const cts_source cts_bins[4][3] = {SOURCES(f16), SOURCES(bf16), SOURCES(f32), SOURCES(f64)};
