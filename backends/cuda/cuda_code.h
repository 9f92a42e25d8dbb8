/*
 * cuda_code.h - what the rooms of code offer each other: formats, images that the driver loads,
 * variants, native arguments, artifacts, and recorded work.
 *
 * A code goes from its bytes to an image (PTX with switches off, a cubin or fatbin as it is, or
 * what NVRTC made of source), and from there to a module and a function. Each format has a room
 * that reads it without a driver.
 */
#ifndef DDISP_CUDA_CODE_H
#define DDISP_CUDA_CODE_H

#include "backend_native.h"
#include "cuda_internal.h"

/* ---- formats (cuda_inspect.c) */

typedef enum cuda__format {
    CUDA__FORMAT_PTX,
    CUDA__FORMAT_CUBIN,
    CUDA__FORMAT_FATBIN,
    CUDA__FORMAT_SOURCE, /* cuda-c++ */
    CUDA__FORMAT_OTHER,
} cuda__format;

cuda__format cuda__format_of(const ddisp_code *code);

#define CUDA__ENTRY_NAME_BYTES 512u
/** An entry's name with its own mask, when it has one; names for other masks stay patterns that
 * match any. */
void cuda__entry_name(const ddisp_entry *entry, char name[CUDA__ENTRY_NAME_BYTES]);
/** An entry that takes the standard argument block as its one parameter: its number and size.
 * CODE_INVALID. */
ddisp_status cuda__block_check(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const char *name,
                               uint32_t param_count, uint64_t param_bytes);
ddisp_status cuda__inspect(const ddisp_backend_services *services, const ddisp_backend_code *code,
                           ddisp_backend_code_info *info);
/** Finds an entry of PTX text and checks its geometry and parameters against the declaration.
 * NOT_FOUND, CODE_INVALID. */
ddisp_status cuda__inspect_entry(const ddisp_backend_services *services,
                                 const ddisp_backend_code *code, const ddisp_entry *entry,
                                 const char *name, uint64_t *out_switch_mask);
/** Threads per group along an axis, with the default for 0. */
uint32_t cuda__group_size(const ddisp_entry *entry, uint32_t axis);
ddisp_status cuda__code_fits(void *device, const ddisp_backend_code *code);

/* ---- machine code (cuda_binary.c) */

/** A cubin whose parts lie within its bytes. */
typedef struct cuda__cubin {
    const unsigned char *bytes;
    uint64_t size_bytes;
    uint32_t architecture; /* 90 for sm_90 */
} cuda__cubin;

/** What is wrong with the bytes, or NULL. */
const char *cuda__cubin_open(cuda__cubin *cubin, const void *bytes, uint64_t size_bytes);
/** Whether it has a kernel of that name ("{mask}" stands for any number); counts its kernels. */
bool cuda__cubin_has(const cuda__cubin *cubin, const char *name, uint32_t *out_count);
/** OK when a device of this capability runs it, else UNSUPPORTED. */
ddisp_status cuda__cubin_fits(const ddisp_backend_services *services, const cuda__cubin *cubin,
                              uint32_t major, uint32_t minor);
ddisp_status cuda__binary_inspect(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, ddisp_backend_code_info *info);
ddisp_status cuda__binary_fits(const cuda__device *device, const ddisp_backend_code *code);

/* ---- source (cuda_source.c, cuda_nvrtc.c) */

/** Bytes that cuModuleLoadDataEx takes, with a NUL behind them. */
typedef struct cuda__image {
    void *bytes; /* allocated */
    uint64_t size_bytes;
} cuda__image;

ddisp_status cuda__source_inspect(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, ddisp_backend_code_info *info);
/** Whether source and headers include nothing but each other (cuda_include.c). */
bool cuda__source_is_closed(const ddisp_code *code);
/** Whether NVRTC is there for a driver of this version (0: for none). UNSUPPORTED. */
ddisp_status cuda__nvrtc_check(const ddisp_backend_services *services, int driver_version);
bool cuda__nvrtc_found(int driver_version);
/** Compiles a variant of source for an architecture such as "sm_90": to a cubin, or to PTX where
 * NVRTC does not know it. CODE_REJECTED with the compiler's log. */
ddisp_status cuda__nvrtc_compile(const ddisp_backend_services *services, int driver_version,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 cuda__image *out_image);
/** What a compilation depends on besides source and options, as text. */
ddisp_status cuda__nvrtc_key(const ddisp_backend_services *services, int driver_version,
                             const char *architecture, const ddisp_backend_variant *variant,
                             char *text, size_t capacity);

/* ---- native arguments (cuda_native.c) */

typedef struct cuda__variant {
    cu__module module;
    cu__function function;
    bool is_native;
    backend_native_places places;
} cuda__variant;

/** The declared list against the kernel's parameters: count of them, those up to CUDA__MAX_PARAMS
 * described. CODE_INVALID names the argument. */
ddisp_status cuda__native_check(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const ddisp_entry *entry,
                                const cuda__param *params, uint32_t count);
/** Points parameters to the values of a launch. block_address: where the argument block lies, for
 * those that take its address. */
ddisp_status cuda__native_fill(const ddisp_backend_services *services, const cuda__variant *variant,
                               const ddisp_backend_launch *launch, const cu__address *block_address,
                               void **parameters);

/* ---- variants and launches (cuda_variant.c, cuda_launch.c) */

/** The image of a variant, from its code alone. driver_version 0: without a driver. */
ddisp_status cuda__image_make(const ddisp_backend_services *services, int driver_version,
                              const char *architecture, const ddisp_backend_variant *variant,
                              cuda__image *out_image);
/** A copy of bytes, with a NUL behind it. OUT_OF_MEMORY. */
ddisp_status cuda__image_copy(const ddisp_backend_services *services, const char *kernel_name,
                              const void *bytes, uint64_t size_bytes, cuda__image *out_image);
/** Fails with what the driver said against the code: CODE_REJECTED, or what its result means. */
ddisp_status cuda__reject(cuda__device *device, const ddisp_backend_variant *variant,
                          cu__result result, const char *call, const char *log);
/** Bytes of the logs that the driver's compiler writes. */
#define CUDA__LOG_BYTES 8192u

ddisp_status cuda__variant_build(void *device, const ddisp_backend_variant *variant,
                                 void **out_variant);
void cuda__variant_release(void *device, void *variant);

/** What the driver is handed for a launch. */
typedef struct cuda__arguments {
    void *parameters[BACKEND_MAX_NATIVES];
    cu__address block_address; /* when the block goes by pointer */
} cuda__arguments;

/** The argument block of the launch goes by pointer. */
bool cuda__block_by_pointer(const ddisp_backend_launch *launch);
/** Fills parameters; the block lies at block_address when it goes by pointer. */
ddisp_status cuda__arguments_fill(cuda__device *device, const ddisp_backend_launch *launch,
                                  cuda__arguments *arguments);
ddisp_status cuda__launch(void *device, void *stream, const ddisp_backend_launch *launch);

/* ---- artifacts (cuda_artifact.c) */

ddisp_status cuda__artifact_key(const ddisp_backend_services *services, void *device,
                                const char *architecture, const ddisp_backend_variant *variant,
                                uint8_t *buffer, uint32_t capacity, uint32_t *out_size_bytes);
ddisp_status cuda__artifact_make(const ddisp_backend_services *services, void *device,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 void **out_bytes, uint64_t *out_size_bytes);
/** The image of an artifact that was made earlier; CODE_REJECTED when it is of no use here. */
ddisp_status cuda__artifact_image(cuda__device *device, const ddisp_backend_variant *variant,
                                  cuda__image *out_image);

/* ---- recorded work (cuda_graph.c) */

ddisp_status cuda__capture_begin(void *device, void *stream);
ddisp_status cuda__capture_end(void *device, void *stream, void **out_graph);
/** Forgets what is left of a recording of a stream that ends. */
void cuda__capture_forget(cuda__device *device, cuda__stream *stream, bool entered);
ddisp_status cuda__graph_launch(void *device, void *stream, void *graph);
ddisp_status cuda__graph_update(void *device, void *graph, uint32_t index,
                                const ddisp_backend_launch *launch);
void cuda__graph_release(void *device, void *graph);
/** Before a launch is recorded: makes room for it, and memory for a block that goes by pointer. */
ddisp_status cuda__graph_prepare(cuda__device *device, cuda__stream *stream,
                                 const ddisp_backend_launch *launch, cu__address *out_address);
/** After it was recorded: notes where. */
ddisp_status cuda__graph_note(cuda__device *device, cuda__stream *stream,
                              cu__address block_address);

#endif
