/*
 * vulkan_internal.h - what the rooms of the Vulkan backend share.
 *
 * Every driver function comes from volk: instance functions from its globals, which are loaded once
 * per process (vulkan_instance.c), device functions from a VolkDeviceTable per device. Locks:
 * device->lock guards memory and the list of streams, queue->lock guards a VkQueue; when both are
 * taken, device->lock comes first. No service of the core is called under a lock except allocate
 * and release.
 */
#ifndef DDISP_VULKAN_INTERNAL_H
#define DDISP_VULKAN_INTERNAL_H

#include "backend_support.h"
#include "vulkan_features.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/** Queues of the family that streams are spread over, at most. */
#define VULKAN__MAX_QUEUES 8
/** Multiple of sizes and offsets that memory is handed out in. */
#define VULKAN__GRANULE UINT64_C(256)

/** Of every buffer: any memory may be a kernel's, a copy's source or its destination. */
#define VULKAN__BUFFER_USAGE                                                                       \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |                       \
     VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)

typedef struct vulkan__device vulkan__device;
typedef struct vulkan__stream vulkan__stream;
typedef struct vulkan__builtin_pipeline vulkan__builtin_pipeline;
typedef struct vulkan__sets vulkan__sets;
typedef struct vulkan__natives vulkan__natives;
typedef struct vulkan__graph vulkan__graph;
typedef struct vulkan__timed vulkan__timed;
typedef struct vulkan__variant vulkan__variant;

/* ---- instance (vulkan_instance.c) */

/** A physical device that meets the requirements. */
typedef struct vulkan__adapter {
    VkPhysicalDevice handle;
    uint32_t api_version; /* of the device, at most what this backend knows */
    uint32_t queue_family;
    uint32_t queue_count;
    uint32_t extensions; /* bit per entry of the extension table */
    uint64_t features;   /* VULKAN__FEATURE_... that are enabled when it is opened */
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceVulkan11Properties properties11;
    VkPhysicalDeviceVulkan12Properties properties12;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t max_buffer_bytes;
    uint64_t memory_bytes;    /* of the heap that device memory comes from */
    uint32_t multiprocessors; /* 0: unknown */
    bool binds_sparse;        /* the queue family does */
    bool sparse_residency;    /* of buffers */
    bool sparse_aliased;
    bool imports_host_memory;
} vulkan__adapter;

typedef struct vulkan__instance {
    const ddisp_backend_services *services;
    VkInstance handle;
    vulkan__adapter *adapters;
    uint32_t adapter_count;
    uint32_t api_version;
} vulkan__instance;

ddisp_status vulkan__instance_open(const ddisp_backend_services *services, void **out_instance);
void vulkan__instance_close(void *instance);

/* ---- physical devices (vulkan_adapter.c) */

/** Examines a physical device; false when it does not meet the requirements, with what is missing
 * in reason. */
bool vulkan__adapter_read(vulkan__instance *instance, VkPhysicalDevice handle,
                          vulkan__adapter *out_adapter, char *reason, size_t capacity);
/** The same for one that the application has opened: with those extensions and features enabled,
 * and queues of that family. adapter->api_version is that of the instance. */
bool vulkan__adapter_read_enabled(vulkan__instance *instance, uint32_t extensions,
                                  const vulkan__feature_chain *enabled, vulkan__adapter *adapter,
                                  char *reason, size_t capacity);
void vulkan__adapter_describe(const vulkan__adapter *adapter, ddisp_device_info *info);
/** Bytes of the largest allocation: less where the whole memory is. */
uint64_t vulkan__adapter_max_allocation(const vulkan__adapter *adapter);
ddisp_status vulkan__device_describe(void *instance, uint32_t index, ddisp_device_info *info);

/* ---- results (vulkan_result.c) */

/** Name such as "VK_ERROR_DEVICE_LOST". */
const char *vulkan__result_name(VkResult result);
ddisp_status vulkan__result_status(VkResult result);
/** OK for VK_SUCCESS; else records the failure of `function`, marks a lost device, gives the
 * status. */
ddisp_status vulkan__check(vulkan__device *device, VkResult result, const char *function);
/** The same for functions that compile: what is the code's fault is CODE_REJECTED. */
ddisp_status vulkan__rejected(vulkan__device *device, VkResult result, const char *function,
                              const char *kernel_name);
/** OK, or DEVICE_LOST when the device was lost before. */
ddisp_status vulkan__alive(vulkan__device *device);

/* ---- device (vulkan_device.c) */

typedef struct vulkan__queue {
    VkQueue handle;
    pthread_mutex_t lock;
    /* of the application that lent the queue, taken inside of lock; NULL: there is none */
    void (*outer_lock)(void *user_data);
    void (*outer_unlock)(void *user_data);
    void *user_data;
} vulkan__queue;

void vulkan__queue_lock(vulkan__queue *queue);
void vulkan__queue_unlock(vulkan__queue *queue);

/** A VkBuffer with memory of its own. */
typedef struct vulkan__buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t address;
    uint64_t size_bytes;
    uint8_t *mapped; /* NULL when the host does not see it */
} vulkan__buffer;

typedef struct vulkan__block vulkan__block;

/** What a buffer is for; decides the memory it lies in. */
typedef enum vulkan__purpose {
    VULKAN__PURPOSE_DEVICE,    /* data */
    VULKAN__PURPOSE_ARGUMENTS, /* written by the host, read often by the device */
    VULKAN__PURPOSE_UPLOAD,    /* written by the host, copied once */
    VULKAN__PURPOSE_DOWNLOAD,  /* written by the device, read by the host */
    VULKAN__PURPOSE_COUNT,
} vulkan__purpose;

/** How the device can offer a sink. */
typedef enum vulkan__sink_form {
    VULKAN__SINK_NONE,
    VULKAN__SINK_UNBOUND,
    VULKAN__SINK_ALIASED,
    VULKAN__SINK_IMPORTED,
} vulkan__sink_form;

/** A sink; guarded by the core, which calls for it one at a time. */
typedef struct vulkan__sink {
    VkBuffer buffer;
    VkDeviceMemory small, large; /* blocks; of an imported sink the import */
    uint8_t *host;               /* of an imported sink */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t bound_bytes;
    uint64_t physical_bytes;
} vulkan__sink;

/** Functions of VK_EXT_debug_utils; NULL: nobody looks. */
typedef struct vulkan__labels {
    PFN_vkCmdBeginDebugUtilsLabelEXT begin;
    PFN_vkCmdEndDebugUtilsLabelEXT end;
    PFN_vkSetDebugUtilsObjectNameEXT name;
} vulkan__labels;

struct vulkan__device {
    vulkan__instance *instance;
    const ddisp_backend_services *services;
    const vulkan__adapter *adapter;
    vulkan__adapter *own_adapter; /* of a wrapped device, whose handle is the application's */
    VkDevice handle;
    struct VolkDeviceTable table;
    vulkan__labels labels;
    vulkan__queue queues[VULKAN__MAX_QUEUES];
    uint32_t queue_count;
    uint32_t memory_types[VULKAN__PURPOSE_COUNT];
    bool memory_mapped;            /* the host sees device memory */
    VkPipelineLayout block_layout; /* of entries that take the standard argument block */
    pthread_mutex_t builtin_lock;  /* guards builtins, builtin_layout and dummy */
    vulkan__builtin_pipeline *builtins;
    VkPipelineLayout builtin_layout; /* made with the first pipeline */
    vulkan__sink sinks[2];           /* unbound; with memory behind it */
    atomic_uint next_queue;
    atomic_bool lost;
    atomic_bool caches_nothing;             /* the driver's pipeline caches stay empty */
    vulkan__buffer dummy;                   /* for descriptors that show nothing */
    pthread_mutex_t lock;                   /* guards the fields below */
    uint64_t block_bytes, block_bytes_peak; /* of all blocks */
    uint64_t reuses;                        /* allocations that made no block */
    vulkan__block **blocks;                 /* sorted by address */
    uint32_t block_count;
    uint32_t block_capacity;
    vulkan__stream *streams;   /* all, destroyed ones too until their work is done */
    vulkan__stream *retired;   /* for new streams to be made of */
    vulkan__device *next_open; /* guarded by vulkan_exit.c */
};

ddisp_status vulkan__device_open(void *instance, uint32_t index, void **out_device);
void vulkan__device_close(void *device);
/** A device without a handle; NULL when the host has no memory, which was said. */
vulkan__device *vulkan__device_new(vulkan__instance *instance, const vulkan__adapter *adapter);
/** What is made of a handle and queues. */
ddisp_status vulkan__device_prepare(vulkan__device *device);
/** Waits for all that was submitted to the device's queues. */
VkResult vulkan__device_idle(vulkan__device *device);

/* ---- the application's own objects (vulkan_wrap.c) */

ddisp_status vulkan__needs(void *instance, ddisp_chain *needs);
ddisp_status vulkan__device_wrap(void *instance, const ddisp_chain *native, ddisp_device_info *info,
                                 void **out_device);
ddisp_status vulkan__memory_wrap(void *device, const ddisp_chain *native, uint64_t size_bytes,
                                 ddisp_backend_memory *out_memory);

/* ---- end of the process (vulkan_exit.c) */

/** The process ends: no driver may be called. */
bool vulkan__exiting(void);
/** To be called when the first instance was made. */
void vulkan__exit_watch_instance(void);
/** Devices that are open when the process ends are cut off from their driver. */
void vulkan__exit_add(vulkan__device *device);
void vulkan__exit_remove(vulkan__device *device);

/* ---- memory (vulkan_memory.c, vulkan_pool.c) */

/** A piece of a block: free, used, or freed by a stream whose work may still use it. */
typedef struct vulkan__segment {
    vulkan__block *block;
    uint64_t offset;
    uint64_t size_bytes; /* a multiple of the granule */
    /* So many at the beginning are zero when the stream has passed the ticket; of a used one: were
     * when it was taken. */
    uint64_t zeroed_bytes;
    bool free;
    struct vulkan__segment *previous, *next;           /* neighbours in the block */
    struct vulkan__segment *previous_free, *next_free; /* of the block; newest first */
    uint64_t ticket; /* pending: free when the stream has passed it */
    struct vulkan__segment *next_pending;
} vulkan__segment;

struct vulkan__block {
    vulkan__buffer buffer;
    vulkan__segment *first;
    vulkan__segment *first_free;
    uint64_t used_bytes;
    bool dedicated; /* to one allocation */
};

/** On failure nothing is left, and out_function names what failed. */
VkResult vulkan__buffer_create(vulkan__device *device, vulkan__purpose purpose, uint64_t size_bytes,
                               vulkan__buffer *out_buffer, const char **out_function);
void vulkan__buffer_destroy(vulkan__device *device, vulkan__buffer *buffer);

/* All of these are called with device->lock held. size_bytes are multiples of the granule. */

/** A segment that the stream freed, or a free one of a shared block. NULL: none. */
vulkan__segment *vulkan__pool_take(vulkan__device *device, vulkan__stream *stream,
                                   uint64_t size_bytes);
/** Makes the buffer a block and takes a segment of it. NULL when the host has no memory. */
vulkan__segment *vulkan__pool_add(vulkan__device *device, const vulkan__buffer *buffer,
                                  bool dedicated, uint64_t size_bytes);
/** Gives a segment back that no work uses. */
void vulkan__pool_return(vulkan__device *device, vulkan__segment *segment);
/** Gives back what streams are done with, and destroys streams that were waiting for that. */
void vulkan__pool_reap(vulkan__device *device);
/** The stream's recorded work was lost: what was freed behind it need not wait for it, and is not
 * as the work would have left it. */
void vulkan__pool_work_lost(vulkan__stream *stream);
/** Gives blocks that hold nothing back to the driver. */
void vulkan__pool_trim(vulkan__device *device);
/** The block that holds [address, address + size_bytes), or NULL. */
vulkan__block *vulkan__pool_find(vulkan__device *device, uint64_t address, uint64_t size_bytes);
/** Destroys all blocks; nothing uses them. */
void vulkan__pool_close(vulkan__device *device);

ddisp_status vulkan__memory_allocate(void *device, void *stream, uint64_t size_bytes,
                                     ddisp_backend_memory *out_memory);
void vulkan__memory_free(void *device, void *stream, ddisp_backend_memory *memory);
/** The same. Where the stream's work leaves so many bytes at the beginning zero, that is kept in
 * mind for who takes them next. */
void vulkan__memory_give(vulkan__device *device, vulkan__stream *stream,
                         ddisp_backend_memory *memory, uint64_t zeroed_bytes);
ddisp_status vulkan__memory_import(void *device, uint64_t address, uint64_t size_bytes,
                                   ddisp_backend_memory *out_memory);
void vulkan__memory_release_import(void *device, ddisp_backend_memory *memory);

ddisp_status vulkan__memory_trim(void *device);
ddisp_status vulkan__memory_figures(void *device, ddisp_backend_memory_figures *figures);

/** Where a range lies, as copies want it. */
typedef struct vulkan__place {
    VkBuffer buffer;
    uint64_t offset;
} vulkan__place;
/** UNSUPPORTED for foreign addresses; `what` names the operation. */
ddisp_status vulkan__place_find(vulkan__device *device, const ddisp_backend_range *range,
                                const char *what, vulkan__place *out_place);

/** The sink that a range lies in, by its handle; NULL: it lies in none. */
vulkan__sink *vulkan__sink_of(vulkan__device *device, const ddisp_backend_range *range);

/* ---- sink (vulkan_sink.c) */

/** The form for code that does or does not compare and swap. */
vulkan__sink_form vulkan__sink_form_of(const vulkan__adapter *adapter, bool compare_and_swap);
const char *vulkan__sink_name(const vulkan__adapter *adapter);
ddisp_status vulkan__sink_acquire(void *device, uint64_t size_bytes, uint64_t flags,
                                  ddisp_backend_range *out_range, uint64_t *out_physical_bytes);
void vulkan__sink_trim(void *device);

/* ---- element-wise operations (vulkan_elements.c, vulkan_reduce.c, vulkan_scatter.c) */

ddisp_status vulkan__fill_elements(void *device, void *stream,
                                   const ddisp_backend_tensor *destination, uint64_t bits);
ddisp_status vulkan__accumulate(void *device, void *stream, const ddisp_backend_tensor *destination,
                                const ddisp_backend_tensor *source, double alpha,
                                uint32_t operation, uint64_t flags);
ddisp_status vulkan__scatter_add(void *device, void *stream,
                                 const ddisp_backend_tensor *destination, uint32_t axis,
                                 int64_t axis_extent, const ddisp_backend_tensor *index,
                                 const ddisp_backend_tensor *source,
                                 const ddisp_backend_range *skipped, uint64_t flags);
/** Destroys the pipelines of built-in shaders (vulkan_pipeline.c); nothing uses them. */
void vulkan__builtins_close(vulkan__device *device);

/* ---- the end of deterministic mode (vulkan_fold.c) */

ddisp_status vulkan__fold(void *device, void *stream, const ddisp_backend_tensor *destination,
                          const ddisp_backend_tensor *shadow, double scale, uint32_t operation,
                          uint64_t flags, const ddisp_backend_range *sticky);

/* ---- code (vulkan_inspect.c, vulkan_fit.c, vulkan_variant.c, vulkan_artifact.c,
 * vulkan_launch.c) */

struct vulkan__variant {
    VkPipeline pipeline;
    VkPipelineLayout layout; /* the device's, or its own where it has native arguments */
    VkShaderModule module;
    vulkan__natives *natives; /* NULL: the standard argument block */
    VkDescriptorSetLayout set_layouts[8];
    char *label; /* the kernel's name; NULL: nobody looks */
};

/** Specialization constant of the switch of a parameter. */
uint32_t vulkan__switch_id(const ddisp_backend_code *code, uint32_t param);
ddisp_status vulkan__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                             ddisp_backend_code_info *info);
ddisp_status vulkan__code_fits(void *device, const ddisp_backend_code *code);
ddisp_status vulkan__variant_build(void *device, const ddisp_backend_variant *variant,
                                   void **out_variant);
void vulkan__variant_release(void *device, void *variant);
/** Compiles with a pipeline cache, which may be VK_NULL_HANDLE. */
ddisp_status vulkan__variant_compile(vulkan__device *device, const ddisp_backend_variant *variant,
                                     VkPipelineCache cache, vulkan__variant **out_variant);
/** A pipeline cache of a variant's artifact; CODE_REJECTED when it is another driver's. */
ddisp_status vulkan__artifact_open(vulkan__device *device, const ddisp_backend_variant *variant,
                                   VkPipelineCache *out_cache);
ddisp_status vulkan__artifact_key(const ddisp_backend_services *services, void *device,
                                  const char *architecture, const ddisp_backend_variant *variant,
                                  uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes);
ddisp_status vulkan__artifact_make(const ddisp_backend_services *services, void *device,
                                   const char *architecture, const ddisp_backend_variant *variant,
                                   void **out_bytes, uint64_t *out_size_bytes);
ddisp_status vulkan__launch(void *device, void *stream, const ddisp_backend_launch *launch);

/* ---- names for tools (vulkan_label.c) */

/** Whether a tool is there, and the instance extension that it reads names by. */
bool vulkan__labels_offered(void);
/** Finds the functions, where a tool is there and the device's instance has the extension. */
void vulkan__labels_open(vulkan__device *device, VkInstance instance);
/** Keeps the kernel's name and names the pipeline, where a tool is there. */
ddisp_status vulkan__label_variant(vulkan__device *device, vulkan__variant *variant,
                                   const char *kernel, const char *entry);
void vulkan__label_dispatch(const vulkan__device *device, VkCommandBuffer commands,
                            const vulkan__variant *variant, const uint32_t grid[3]);

/** Records a kernel's dispatch, in a label of its name where a tool is there. */
static inline void vulkan__dispatch(const vulkan__device *device, VkCommandBuffer commands,
                                    const vulkan__variant *variant, const uint32_t grid[3])
{
    if (variant->label)
        vulkan__label_dispatch(device, commands, variant, grid);
    else
        device->table.vkCmdDispatch(commands, grid[0], grid[1], grid[2]);
}

#include "vulkan_stream.h"

#endif
