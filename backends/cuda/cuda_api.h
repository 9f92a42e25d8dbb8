/*
 * cuda_api.h - the part of the CUDA driver API that this backend uses, declared by ourselves so
 * that no toolkit is needed to build: types, constants and the list of entry points.
 *
 * Names carry the prefix cu__ / CU__ and never clash with cuda.h; handles point to the driver's
 * own struct tags, so that tests/unit/cuda/test_cuda_api.c can compare every function type and
 * constant with a real cuda.h where there is one.
 */
#ifndef DDISP_CUDA_API_H
#define DDISP_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned int cu__result;
typedef int cu__device;
typedef unsigned long long cu__address;
typedef struct CUctx_st *cu__context;
typedef struct CUstream_st *cu__stream;
typedef struct CUevent_st *cu__event;
typedef struct CUmod_st *cu__module;
typedef struct CUfunc_st *cu__function;
typedef struct CUmemPoolHandle_st *cu__pool;
typedef unsigned long long cu__allocation; /* CUmemGenericAllocationHandle */
typedef struct CUlinkState_st *cu__link;
typedef struct CUgraph_st *cu__graph;
typedef struct CUgraphNode_st *cu__graph_node;
typedef struct CUgraphExec_st *cu__graph_exec;

struct CUuuid_st;
struct CUmemPoolProps_st;
struct CUmemAllocationProp_st;
struct CUmemAccessDesc_st;
struct CUkern_st;
struct CUDA_KERNEL_NODE_PARAMS_v2_st;

/** CUuuid; handed to the driver as a pointer to its own tag. */
typedef struct cu__uuid {
    char bytes[16];
} cu__uuid;

/** CUmemPoolProps; everything that is not set here must be zero. */
typedef struct cu__pool_properties {
    unsigned int allocation_type;
    unsigned int handle_types;
    unsigned int location_type;
    int location_id;
    void *security_attributes;
    size_t max_size_bytes;
    unsigned char reserved[56];
} cu__pool_properties;

/** CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct cu__kernel_node_params {
    cu__function function;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared_bytes;
    void **parameters;
    void **extra;
    struct CUkern_st *kernel;
    cu__context context;
} cu__kernel_node_params;

/** CUmemAllocationProp; everything that is not set here must be zero. */
typedef struct cu__allocation_properties {
    unsigned int type;
    unsigned int handle_types;
    unsigned int location_type;
    int location_id;
    void *handle_data;
    unsigned char flags[8];
} cu__allocation_properties;

/** CUmemAccessDesc. */
typedef struct cu__access {
    unsigned int location_type;
    int location_id;
    unsigned int flags;
} cu__access;

/** Oldest driver that is taken, and the version of every entry point that is asked for. */
#define CU__MINIMUM_VERSION 12000
/** Version of the entry points that may be missing. */
#define CU__OPTIONAL_VERSION 12040

enum {
    CU__SUCCESS = 0,
    CU__ERROR_INVALID_VALUE = 1,
    CU__ERROR_OUT_OF_MEMORY = 2,
    CU__ERROR_NOT_INITIALIZED = 3,
    CU__ERROR_DEINITIALIZED = 4,
    CU__ERROR_STUB_LIBRARY = 34,
    CU__ERROR_NO_DEVICE = 100,
    CU__ERROR_INVALID_DEVICE = 101,
    CU__ERROR_INVALID_IMAGE = 200,
    CU__ERROR_INVALID_CONTEXT = 201,
    CU__ERROR_NO_BINARY_FOR_GPU = 209,
    CU__ERROR_ECC_UNCORRECTABLE = 214,
    CU__ERROR_INVALID_PTX = 218,
    CU__ERROR_NVLINK_UNCORRECTABLE = 220,
    CU__ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CU__ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CU__ERROR_JIT_COMPILATION_DISABLED = 223,
    CU__ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,
    CU__ERROR_CONTAINED = 226,
    CU__ERROR_INVALID_SOURCE = 300,
    CU__ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
    CU__ERROR_INVALID_HANDLE = 400,
    CU__ERROR_NOT_FOUND = 500,
    CU__ERROR_NOT_READY = 600,
    CU__ERROR_ILLEGAL_ADDRESS = 700,
    CU__ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CU__ERROR_LAUNCH_TIMEOUT = 702,
    CU__ERROR_CONTEXT_IS_DESTROYED = 709,
    CU__ERROR_ASSERT = 710,
    CU__ERROR_HARDWARE_STACK_ERROR = 714,
    CU__ERROR_ILLEGAL_INSTRUCTION = 715,
    CU__ERROR_MISALIGNED_ADDRESS = 716,
    CU__ERROR_INVALID_ADDRESS_SPACE = 717,
    CU__ERROR_INVALID_PC = 718,
    CU__ERROR_LAUNCH_FAILED = 719,
    CU__ERROR_TENSOR_MEMORY_LEAK = 721,
    CU__ERROR_NOT_SUPPORTED = 801,
    CU__ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CU__ERROR_MPS_CLIENT_TERMINATED = 810,
    CU__ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CU__ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CU__ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CU__ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
    CU__ERROR_EXTERNAL_DEVICE = 911,
    CU__ERROR_UNKNOWN = 999,
};

enum {
    CU__DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU__DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU__DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU__DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU__DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU__DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU__DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU__DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU__DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};

enum {
    CU__GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU__STREAM_NON_BLOCKING = 1,
    CU__STREAM_PER_THREAD = 2, /* a handle */
    CU__STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU__STREAM_CAPTURE_MODE_RELAXED = 2,
    CU__STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU__EVENT_DEFAULT = 0,
    CU__EVENT_DISABLE_TIMING = 2,
    CU__MEM_ALLOCATION_TYPE_PINNED = 1,
    CU__MEM_LOCATION_TYPE_DEVICE = 1,
    CU__MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU__MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU__MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU__MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
    CU__MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
    CU__MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
    CU__JIT_ERROR_LOG_BUFFER = 5,
    CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    CU__JIT_INPUT_PTX = 1,
    CU__FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU__FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU__FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

/** The one function that is found by its versioned name and finds the others. */
typedef cu__result (*cu__get_proc_address)(const char *symbol, void **out_address, int cuda_version,
                                           uint64_t flags, unsigned int *out_symbol_status);

/**
 * Entry points: member of cu__api, name for cuGetProcAddress, symbol that the library exports for
 * the same version, parameters.
 */
#define CU__ENTRY_POINTS(X)                                                                        \
    X(init, "cuInit", cuInit, (unsigned int flags))                                                \
    X(driver_get_version, "cuDriverGetVersion", cuDriverGetVersion, (int *out_version))            \
    X(get_error_name, "cuGetErrorName", cuGetErrorName, (cu__result result, const char **out))     \
    X(get_error_string, "cuGetErrorString", cuGetErrorString,                                      \
      (cu__result result, const char **out))                                                       \
    X(device_get_count, "cuDeviceGetCount", cuDeviceGetCount, (int *out_count))                    \
    X(device_get, "cuDeviceGet", cuDeviceGet, (cu__device * out_device, int ordinal))              \
    X(device_get_name, "cuDeviceGetName", cuDeviceGetName,                                         \
      (char *name, int capacity, cu__device device))                                               \
    X(device_get_uuid, "cuDeviceGetUuid", cuDeviceGetUuid_v2,                                      \
      (struct CUuuid_st * out_uuid, cu__device device))                                            \
    X(device_total_mem, "cuDeviceTotalMem", cuDeviceTotalMem_v2,                                   \
      (size_t * out_size_bytes, cu__device device))                                                \
    X(device_get_attribute, "cuDeviceGetAttribute", cuDeviceGetAttribute,                          \
      (int *out_value, unsigned int attribute, cu__device device))                                 \
    X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain,                    \
      (cu__context * out_context, cu__device device))                                              \
    X(primary_ctx_release, "cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2,              \
      (cu__device device))                                                                         \
    X(ctx_get_current, "cuCtxGetCurrent", cuCtxGetCurrent, (cu__context * out_context))            \
    X(ctx_push_current, "cuCtxPushCurrent", cuCtxPushCurrent_v2, (cu__context context))            \
    X(ctx_pop_current, "cuCtxPopCurrent", cuCtxPopCurrent_v2, (cu__context * out_context))         \
    X(ctx_get_device, "cuCtxGetDevice", cuCtxGetDevice, (cu__device * out_device))                 \
    X(ctx_synchronize, "cuCtxSynchronize", cuCtxSynchronize, (void))                               \
    X(mem_get_info, "cuMemGetInfo", cuMemGetInfo_v2, (size_t * out_free, size_t * out_total))      \
    X(mem_alloc, "cuMemAlloc", cuMemAlloc_v2, (cu__address * out_address, size_t size_bytes))      \
    X(mem_free, "cuMemFree", cuMemFree_v2, (cu__address address))                                  \
    X(mem_host_alloc, "cuMemHostAlloc", cuMemHostAlloc,                                            \
      (void **out_pointer, size_t size_bytes, unsigned int flags))                                 \
    X(mem_free_host, "cuMemFreeHost", cuMemFreeHost, (void *pointer))                              \
    X(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync,               \
      (cu__address * out_address, size_t size_bytes, cu__pool pool, cu__stream stream))            \
    X(mem_free_async, "cuMemFreeAsync", cuMemFreeAsync, (cu__address address, cu__stream stream))  \
    X(mem_pool_create, "cuMemPoolCreate", cuMemPoolCreate,                                         \
      (cu__pool * out_pool, const struct CUmemPoolProps_st *properties))                           \
    X(mem_pool_destroy, "cuMemPoolDestroy", cuMemPoolDestroy, (cu__pool pool))                     \
    X(mem_pool_trim_to, "cuMemPoolTrimTo", cuMemPoolTrimTo,                                        \
      (cu__pool pool, size_t minimum_bytes_to_keep))                                               \
    X(mem_pool_set_attribute, "cuMemPoolSetAttribute", cuMemPoolSetAttribute,                      \
      (cu__pool pool, unsigned int attribute, void *value))                                        \
    X(mem_pool_get_attribute, "cuMemPoolGetAttribute", cuMemPoolGetAttribute,                      \
      (cu__pool pool, unsigned int attribute, void *out_value))                                    \
    X(mem_get_allocation_granularity, "cuMemGetAllocationGranularity",                             \
      cuMemGetAllocationGranularity,                                                               \
      (size_t * out_granularity_bytes, const struct CUmemAllocationProp_st *properties,            \
       unsigned int option))                                                                       \
    X(mem_address_reserve, "cuMemAddressReserve", cuMemAddressReserve,                             \
      (cu__address * out_address, size_t size_bytes, size_t alignment_bytes, cu__address wish,     \
       unsigned long long flags))                                                                  \
    X(mem_address_free, "cuMemAddressFree", cuMemAddressFree,                                      \
      (cu__address address, size_t size_bytes))                                                    \
    X(mem_create, "cuMemCreate", cuMemCreate,                                                      \
      (cu__allocation * out_allocation, size_t size_bytes,                                         \
       const struct CUmemAllocationProp_st *properties, unsigned long long flags))                 \
    X(mem_release, "cuMemRelease", cuMemRelease, (cu__allocation allocation))                      \
    X(mem_map, "cuMemMap", cuMemMap,                                                               \
      (cu__address address, size_t size_bytes, size_t offset_bytes, cu__allocation allocation,     \
       unsigned long long flags))                                                                  \
    X(mem_unmap, "cuMemUnmap", cuMemUnmap, (cu__address address, size_t size_bytes))               \
    X(mem_set_access, "cuMemSetAccess", cuMemSetAccess,                                            \
      (cu__address address, size_t size_bytes, const struct CUmemAccessDesc_st *access,            \
       size_t count))                                                                              \
    X(memcpy_htod_async, "cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2,                                \
      (cu__address destination, const void *source, size_t size_bytes, cu__stream stream))         \
    X(memcpy_dtoh_async, "cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2,                                \
      (void *destination, cu__address source, size_t size_bytes, cu__stream stream))               \
    X(memcpy_dtod_async, "cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2,                                \
      (cu__address destination, cu__address source, size_t size_bytes, cu__stream stream))         \
    X(memset_d8_async, "cuMemsetD8Async", cuMemsetD8Async,                                         \
      (cu__address destination, unsigned char value, size_t count, cu__stream stream))             \
    X(memset_d16_async, "cuMemsetD16Async", cuMemsetD16Async,                                      \
      (cu__address destination, unsigned short value, size_t count, cu__stream stream))            \
    X(memset_d32_async, "cuMemsetD32Async", cuMemsetD32Async,                                      \
      (cu__address destination, unsigned int value, size_t count, cu__stream stream))              \
    X(memset_d2d32_async, "cuMemsetD2D32Async", cuMemsetD2D32Async,                                \
      (cu__address destination, size_t pitch_bytes, unsigned int value, size_t width,              \
       size_t height, cu__stream stream))                                                          \
    X(stream_create, "cuStreamCreate", cuStreamCreate,                                             \
      (cu__stream * out_stream, unsigned int flags))                                               \
    X(stream_destroy, "cuStreamDestroy", cuStreamDestroy_v2, (cu__stream stream))                  \
    X(stream_synchronize, "cuStreamSynchronize", cuStreamSynchronize, (cu__stream stream))         \
    X(stream_wait_event, "cuStreamWaitEvent", cuStreamWaitEvent,                                   \
      (cu__stream stream, cu__event event, unsigned int flags))                                    \
    X(stream_get_ctx, "cuStreamGetCtx", cuStreamGetCtx,                                            \
      (cu__stream stream, cu__context * out_context))                                              \
    X(stream_begin_capture, "cuStreamBeginCapture", cuStreamBeginCapture_v2,                       \
      (cu__stream stream, unsigned int mode))                                                      \
    X(stream_end_capture, "cuStreamEndCapture", cuStreamEndCapture,                                \
      (cu__stream stream, cu__graph * out_graph))                                                  \
    X(stream_get_capture_info, "cuStreamGetCaptureInfo", cuStreamGetCaptureInfo_v2,                \
      (cu__stream stream, unsigned int *out_status, uint64_t *out_id, cu__graph *out_graph,        \
       const cu__graph_node **out_dependencies, size_t *out_count))                                \
    X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode",                           \
      cuThreadExchangeStreamCaptureMode, (unsigned int *mode))                                     \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags,               \
      (cu__graph_exec * out_exec, cu__graph graph, unsigned long long flags))                      \
    X(graph_launch, "cuGraphLaunch", cuGraphLaunch, (cu__graph_exec exec, cu__stream stream))      \
    X(graph_exec_kernel_node_set_params, "cuGraphExecKernelNodeSetParams",                         \
      cuGraphExecKernelNodeSetParams_v2,                                                           \
      (cu__graph_exec exec, cu__graph_node node,                                                   \
       const struct CUDA_KERNEL_NODE_PARAMS_v2_st *params))                                        \
    X(graph_exec_destroy, "cuGraphExecDestroy", cuGraphExecDestroy, (cu__graph_exec exec))         \
    X(graph_destroy, "cuGraphDestroy", cuGraphDestroy, (cu__graph graph))                          \
    X(event_create, "cuEventCreate", cuEventCreate, (cu__event * out_event, unsigned int flags))   \
    X(event_destroy, "cuEventDestroy", cuEventDestroy_v2, (cu__event event))                       \
    X(event_record, "cuEventRecord", cuEventRecord, (cu__event event, cu__stream stream))          \
    X(event_query, "cuEventQuery", cuEventQuery, (cu__event event))                                \
    X(event_synchronize, "cuEventSynchronize", cuEventSynchronize, (cu__event event))              \
    X(event_elapsed_time, "cuEventElapsedTime", cuEventElapsedTime,                                \
      (float *out_milliseconds, cu__event begin, cu__event end))                                   \
    X(link_create, "cuLinkCreate", cuLinkCreate_v2,                                                \
      (unsigned int option_count, unsigned int *options, void **option_values,                     \
       cu__link *out_link))                                                                        \
    X(link_add_data, "cuLinkAddData", cuLinkAddData_v2,                                            \
      (cu__link link, unsigned int type, void *data, size_t size_bytes, const char *name,          \
       unsigned int option_count, unsigned int *options, void **option_values))                    \
    X(link_complete, "cuLinkComplete", cuLinkComplete,                                             \
      (cu__link link, void **out_cubin, size_t *out_size_bytes))                                   \
    X(link_destroy, "cuLinkDestroy", cuLinkDestroy, (cu__link link))                               \
    X(module_load_data_ex, "cuModuleLoadDataEx", cuModuleLoadDataEx,                               \
      (cu__module * out_module, const void *image, unsigned int option_count,                      \
       unsigned int *options, void **option_values))                                               \
    X(module_unload, "cuModuleUnload", cuModuleUnload, (cu__module module))                        \
    X(module_get_function, "cuModuleGetFunction", cuModuleGetFunction,                             \
      (cu__function * out_function, cu__module module, const char *name))                          \
    X(func_get_attribute, "cuFuncGetAttribute", cuFuncGetAttribute,                                \
      (int *out_value, unsigned int attribute, cu__function function))                             \
    X(func_set_attribute, "cuFuncSetAttribute", cuFuncSetAttribute,                                \
      (cu__function function, unsigned int attribute, int value))                                  \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                    \
      cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *out_groups, cu__function function, int group_size, size_t shared_bytes))               \
    X(launch_kernel, "cuLaunchKernel", cuLaunchKernel,                                             \
      (cu__function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,       \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, cu__stream stream, void **parameters, void **extra))

/** Entry points of CU__OPTIONAL_VERSION: NULL in cu__api where the driver is older. */
#define CU__OPTIONAL_ENTRY_POINTS(X)                                                               \
    X(func_get_param_info, "cuFuncGetParamInfo", cuFuncGetParamInfo,                               \
      (cu__function function, size_t index, size_t * out_offset_bytes, size_t * out_size_bytes))

#define CU__DECLARE_TYPE(member, name, symbol, parameters)                                         \
    typedef cu__result(*cu__##member##_function) parameters;
CU__ENTRY_POINTS(CU__DECLARE_TYPE)
CU__OPTIONAL_ENTRY_POINTS(CU__DECLARE_TYPE)
#undef CU__DECLARE_TYPE

/** Every entry point, found. */
typedef struct cu__api {
#define CU__DECLARE_MEMBER(member, name, symbol, parameters) cu__##member##_function member;
    CU__ENTRY_POINTS(CU__DECLARE_MEMBER)
    CU__OPTIONAL_ENTRY_POINTS(CU__DECLARE_MEMBER)
#undef CU__DECLARE_MEMBER
} cu__api;

#endif
