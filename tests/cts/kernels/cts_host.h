/*
 * cts_host.h - what the conformance kernels for the host share: addressing of any layout and an
 * atomic add; and the macros that turn one kernel's entries on all backends into a cts_source.
 */
#ifndef CTS_HOST_H
#define CTS_HOST_H

#include "cts_kernels.h"

#include <diffdispatch/device/ddisp_block.h>

#include <stdbool.h>
#include <string.h>

#define HOST(name) static void name(const ddisp_block *block, uint64_t begin, uint64_t end)
/** `for (ITEMS(i)) ...` runs over the items of the call. */
#define ITEMS(i)                                                                                   \
    uint64_t i = begin;                                                                            \
    i < end;                                                                                       \
    i++

static inline const ddisp_device_tensor *tensor(const ddisp_block *block, uint32_t p)
{
    return DDISP_BLOCK_TENSOR(block, p);
}

static inline int64_t offset(const ddisp_device_tensor *t, const int64_t *strides, uint64_t i)
{
    int64_t result = 0;
    for (int d = (int)t->rank - 1; d >= 0; d--) {
        result += (int64_t)(i % (uint64_t)t->shape[d]) * strides[d];
        i /= (uint64_t)t->shape[d];
    }
    return result;
}

/** Element i of tensor parameter p, as an lvalue. */
#define DATA(type, p, i)                                                                           \
    (((type *)(uintptr_t)tensor(block, p)                                                          \
          ->data)[offset(tensor(block, p), tensor(block, p)->stride, (i))])
#define UPSTREAM(type, p, i)                                                                       \
    (((const type *)(uintptr_t)tensor(block, p)                                                    \
          ->grad_read)[offset(tensor(block, p), tensor(block, p)->read_stride, (i))])
#define GRADIENT(type, p, i)                                                                       \
    (((type *)(uintptr_t)tensor(block, p)                                                          \
          ->grad_add)[offset(tensor(block, p), tensor(block, p)->add_stride, (i))])
#define HAS_ADD(p) (tensor(block, p)->grad_add != 0)

static inline void add_grad(const ddisp_block *block, uint32_t p, uint64_t i, float value)
{
    const ddisp_device_tensor *t = tensor(block, p);
    uint32_t *cell = (uint32_t *)(uintptr_t)t->grad_add + offset(t, t->add_stride, i);
    uint32_t seen = __atomic_load_n(cell, __ATOMIC_RELAXED), sum_bits;
    do {
        float sum;
        memcpy(&sum, &seen, sizeof sum);
        sum += value;
        memcpy(&sum_bits, &sum, sizeof sum);
    } while (
        !__atomic_compare_exchange_n(cell, &seen, sum_bits, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static inline float scalar_f32(const ddisp_block *block, uint32_t s)
{
    float value;
    memcpy(&value, DDISP_BLOCK_SCALAR(block, s), sizeof value);
    return value;
}

#define CTS_COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* One identity per host function: the kernel's number, and the entry's. */
#define CTS_FORWARD(kernel_id, function)                                                           \
    DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, function,                                             \
                         UINT64_C(0x6374730000000000) | (kernel_id) << 8)
#define CTS_BACKWARD(kernel_id, function)                                                          \
    DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, function,                                            \
                         UINT64_C(0x6374730000000000) | (kernel_id) << 8 | 0xff)
#define CTS_BACKWARD_MASKED(kernel_id, function, mask)                                             \
    DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, function,                                     \
                                UINT64_C(0x6374730000000000) | (kernel_id) << 8 | (mask), mask)

#define CTS_GPU_ENTRY(mode, name, looping)                                                         \
    {                                                                                              \
        (mode), {64, 1, 1}, (name), NULL, 0, 0, (looping), NULL, 0, 0                              \
    }
#define CTS_CODE(backend, format, bytes, size_bytes, entries, code_params, code_param_count,       \
                 flags)                                                                            \
    {                                                                                              \
        (backend), (format), (bytes), (size_bytes), (entries), CTS_COUNT(entries),                 \
            (uint32_t)sizeof(ddisp_entry), (code_params), (code_param_count),                      \
            (uint32_t)sizeof(ddisp_code_param), NULL, (flags), NULL, 0, 0                          \
    }

#if CTS_HAVE_SPIRV
#define CTS_SPIRV_CODES(kernel, code_params, code_param_count, flags)                              \
    CTS_CODE("vulkan", "spirv", kernel##_forward_spv, sizeof kernel##_forward_spv,                 \
             kernel##_spirv_forward, code_params, code_param_count, flags),                        \
        CTS_CODE("vulkan", "spirv", kernel##_backward_spv, sizeof kernel##_backward_spv,           \
                 kernel##_spirv_backward, code_params, code_param_count, flags),                   \
        CTS_CODE("vulkan", "spirv", kernel##_backward_cas_spv, sizeof kernel##_backward_cas_spv,   \
                 kernel##_spirv_backward, code_params, code_param_count, flags),
#else
#define CTS_SPIRV_CODES(kernel, code_params, code_param_count, flags)
#endif

/**
 * Defines `const cts_source cts_<kernel>`, given arrays <kernel>_params and <kernel>_host
 * (entries), the PTX in <kernel>_ptx, and SPIR-V in <kernel>_{forward,backward,backward_cas}_spv.
 * code_params, code_param_count: for all codes. looping: 0 or DDISP_ENTRY_LOOPS.
 */
#define CTS_SOURCE(kernel, code_params, code_param_count, flags, looping)                          \
    static const ddisp_entry kernel##_cuda[] = {                                                   \
        CTS_GPU_ENTRY(DDISP_MODE_FORWARD, #kernel "_forward", looping),                            \
        CTS_GPU_ENTRY(DDISP_MODE_BACKWARD, #kernel "_backward", looping),                          \
    };                                                                                             \
    CTS_SPIRV_ENTRIES(kernel, looping)                                                             \
    static const ddisp_code kernel##_codes[] = {                                                   \
        CTS_CODE("host", "host-function", NULL, 0, kernel##_host, code_params, code_param_count,   \
                 flags),                                                                           \
        CTS_SPIRV_CODES(kernel, code_params, code_param_count, flags)                              \
            CTS_CODE("cuda", "ptx", kernel##_ptx, sizeof kernel##_ptx - 1, kernel##_cuda,          \
                     code_params, code_param_count, flags),                                        \
    };                                                                                             \
    const cts_source cts_##kernel = {                                                              \
        #kernel,        kernel##_params,           CTS_COUNT(kernel##_params),                     \
        kernel##_codes, CTS_COUNT(kernel##_codes),                                                 \
    }

#if CTS_HAVE_SPIRV
#define CTS_SPIRV_ENTRIES(kernel, looping)                                                         \
    static const ddisp_entry kernel##_spirv_forward[] = {                                          \
        CTS_GPU_ENTRY(DDISP_MODE_FORWARD, #kernel "_forward", looping),                            \
    };                                                                                             \
    static const ddisp_entry kernel##_spirv_backward[] = {                                         \
        CTS_GPU_ENTRY(DDISP_MODE_BACKWARD, #kernel "_backward", looping),                          \
    };
#else
#define CTS_SPIRV_ENTRIES(kernel, looping)
#endif

#endif
