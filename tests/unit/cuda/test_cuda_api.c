/*
 * test_cuda_api.c - the backend's own declarations of the driver API against a real cuda.h: every
 * function type, every constant, the layout of every struct.
 */
/* Names with a version, as the driver exports them, are declared for those who ask. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "cuda_api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define SAME_TYPE(a, b) __builtin_types_compatible_p(a, b)

static void function_types_are_those_of_the_driver(void **state)
{
    (void)state;
#define CHECK(member, name, symbol, parameters)                                                    \
    if (!SAME_TYPE(__typeof__(&symbol), cu__##member##_function)) {                                \
        fail_msg("%s differs", #symbol);                                                           \
    }
    CU__ENTRY_POINTS(CHECK)
#if CUDA_VERSION >= CU__OPTIONAL_VERSION
    CU__OPTIONAL_ENTRY_POINTS(CHECK)
#endif
#undef CHECK
    assert_true(SAME_TYPE(__typeof__(&cuGetProcAddress_v2), cu__get_proc_address));
}

static void handles_are_those_of_the_driver(void **state)
{
    (void)state;
    assert_true(SAME_TYPE(CUresult, cu__result));
    assert_true(SAME_TYPE(CUdevice, cu__device));
    assert_true(SAME_TYPE(CUdeviceptr, cu__address));
    assert_true(SAME_TYPE(CUcontext, cu__context));
    assert_true(SAME_TYPE(CUstream, cu__stream));
    assert_true(SAME_TYPE(CUevent, cu__event));
    assert_true(SAME_TYPE(CUmodule, cu__module));
    assert_true(SAME_TYPE(CUfunction, cu__function));
    assert_true(SAME_TYPE(CUmemoryPool, cu__pool));
    assert_true(SAME_TYPE(CUlinkState, cu__link));
    assert_true(SAME_TYPE(CUgraph, cu__graph));
    assert_true(SAME_TYPE(CUgraphNode, cu__graph_node));
    assert_true(SAME_TYPE(CUgraphExec, cu__graph_exec));
    assert_true(SAME_TYPE(CUmemGenericAllocationHandle, cu__allocation));
}

static void structs_are_laid_out_as_those_of_the_driver(void **state)
{
    (void)state;
    assert_int_equal(sizeof(cu__uuid), sizeof(CUuuid));
    assert_int_equal(sizeof(cu__pool_properties), sizeof(CUmemPoolProps));
    assert_int_equal(offsetof(cu__pool_properties, allocation_type),
                     offsetof(CUmemPoolProps, allocType));
    assert_int_equal(offsetof(cu__pool_properties, handle_types),
                     offsetof(CUmemPoolProps, handleTypes));
    assert_int_equal(offsetof(cu__pool_properties, location_type),
                     offsetof(CUmemPoolProps, location.type));
    assert_int_equal(offsetof(cu__pool_properties, location_id),
                     offsetof(CUmemPoolProps, location.id));
    assert_int_equal(offsetof(cu__pool_properties, security_attributes),
                     offsetof(CUmemPoolProps, win32SecurityAttributes));
    assert_int_equal(sizeof(cu__kernel_node_params), sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
#define SAME_PLACE(own, theirs)                                                                    \
    assert_int_equal(offsetof(cu__kernel_node_params, own),                                        \
                     offsetof(CUDA_KERNEL_NODE_PARAMS_v2, theirs))
    SAME_PLACE(function, func);
    SAME_PLACE(grid, gridDimX);
    SAME_PLACE(block, blockDimX);
    SAME_PLACE(shared_bytes, sharedMemBytes);
    SAME_PLACE(parameters, kernelParams);
    SAME_PLACE(extra, extra);
    SAME_PLACE(kernel, kern);
    SAME_PLACE(context, ctx);
#undef SAME_PLACE
    assert_int_equal(sizeof(cu__allocation_properties), sizeof(CUmemAllocationProp));
    assert_int_equal(offsetof(cu__allocation_properties, type),
                     offsetof(CUmemAllocationProp, type));
    assert_int_equal(offsetof(cu__allocation_properties, handle_types),
                     offsetof(CUmemAllocationProp, requestedHandleTypes));
    assert_int_equal(offsetof(cu__allocation_properties, location_type),
                     offsetof(CUmemAllocationProp, location.type));
    assert_int_equal(offsetof(cu__allocation_properties, location_id),
                     offsetof(CUmemAllocationProp, location.id));
    assert_int_equal(offsetof(cu__allocation_properties, handle_data),
                     offsetof(CUmemAllocationProp, win32HandleMetaData));
    assert_int_equal(offsetof(cu__allocation_properties, flags),
                     offsetof(CUmemAllocationProp, allocFlags));
    assert_int_equal(sizeof(cu__access), sizeof(CUmemAccessDesc));
    assert_int_equal(offsetof(cu__access, location_type), offsetof(CUmemAccessDesc, location.type));
    assert_int_equal(offsetof(cu__access, location_id), offsetof(CUmemAccessDesc, location.id));
    assert_int_equal(offsetof(cu__access, flags), offsetof(CUmemAccessDesc, flags));
}

static void results_are_those_of_the_driver(void **state)
{
    (void)state;
    assert_int_equal(CU__SUCCESS, CUDA_SUCCESS);
#define CHECK(name) assert_int_equal(CU__ERROR_##name, CUDA_ERROR_##name)
    CHECK(INVALID_VALUE);
    CHECK(OUT_OF_MEMORY);
    CHECK(NOT_INITIALIZED);
    CHECK(DEINITIALIZED);
    CHECK(STUB_LIBRARY);
    CHECK(NO_DEVICE);
    CHECK(INVALID_DEVICE);
    CHECK(INVALID_IMAGE);
    CHECK(INVALID_CONTEXT);
    CHECK(NO_BINARY_FOR_GPU);
    CHECK(ECC_UNCORRECTABLE);
    CHECK(INVALID_PTX);
    CHECK(NVLINK_UNCORRECTABLE);
    CHECK(JIT_COMPILER_NOT_FOUND);
    CHECK(UNSUPPORTED_PTX_VERSION);
    CHECK(JIT_COMPILATION_DISABLED);
    CHECK(INVALID_SOURCE);
    CHECK(SHARED_OBJECT_SYMBOL_NOT_FOUND);
    CHECK(INVALID_HANDLE);
    CHECK(NOT_FOUND);
    CHECK(NOT_READY);
    CHECK(ILLEGAL_ADDRESS);
    CHECK(LAUNCH_OUT_OF_RESOURCES);
    CHECK(LAUNCH_TIMEOUT);
    CHECK(CONTEXT_IS_DESTROYED);
    CHECK(ASSERT);
    CHECK(HARDWARE_STACK_ERROR);
    CHECK(ILLEGAL_INSTRUCTION);
    CHECK(MISALIGNED_ADDRESS);
    CHECK(INVALID_ADDRESS_SPACE);
    CHECK(INVALID_PC);
    CHECK(LAUNCH_FAILED);
    CHECK(NOT_SUPPORTED);
    CHECK(STREAM_CAPTURE_UNSUPPORTED);
    CHECK(STREAM_CAPTURE_INVALIDATED);
    CHECK(STREAM_CAPTURE_UNMATCHED);
    CHECK(STREAM_CAPTURE_WRONG_THREAD);
    CHECK(SYSTEM_DRIVER_MISMATCH);
    CHECK(MPS_CLIENT_TERMINATED);
    CHECK(EXTERNAL_DEVICE);
    CHECK(UNKNOWN);
#if CUDA_VERSION >= 13000
    CHECK(UNSUPPORTED_DEVSIDE_SYNC);
    CHECK(CONTAINED);
    CHECK(TENSOR_MEMORY_LEAK);
#endif
#undef CHECK
}

static void constants_are_those_of_the_driver(void **state)
{
    (void)state;
#define CHECK(name) assert_int_equal(CU__##name, CU_##name)
    CHECK(DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    CHECK(DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    CHECK(DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    CHECK(DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    CHECK(DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    CHECK(DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    CHECK(DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    CHECK(DEVICE_ATTRIBUTE_WARP_SIZE);
    CHECK(DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    CHECK(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    CHECK(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    CHECK(DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    CHECK(DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    CHECK(DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
    CHECK(GET_PROC_ADDRESS_LEGACY_STREAM);
    CHECK(STREAM_NON_BLOCKING);
    assert_ptr_equal((void *)(uintptr_t)CU__STREAM_PER_THREAD, CU_STREAM_PER_THREAD);
    CHECK(STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(STREAM_CAPTURE_MODE_RELAXED);
    CHECK(STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(EVENT_DEFAULT);
    CHECK(EVENT_DISABLE_TIMING);
    CHECK(JIT_INPUT_PTX);
    CHECK(MEM_ALLOCATION_TYPE_PINNED);
    CHECK(MEM_LOCATION_TYPE_DEVICE);
    CHECK(MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(MEM_ALLOC_GRANULARITY_MINIMUM);
    CHECK(MEMPOOL_ATTR_RELEASE_THRESHOLD);
    CHECK(MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    CHECK(MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    CHECK(MEMPOOL_ATTR_USED_MEM_CURRENT);
    CHECK(JIT_ERROR_LOG_BUFFER);
    CHECK(JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    CHECK(FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    CHECK(FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    CHECK(FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(function_types_are_those_of_the_driver),
        cmocka_unit_test(handles_are_those_of_the_driver),
        cmocka_unit_test(structs_are_laid_out_as_those_of_the_driver),
        cmocka_unit_test(results_are_those_of_the_driver),
        cmocka_unit_test(constants_are_those_of_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
