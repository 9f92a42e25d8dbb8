/*
 * cuda_nvrtc.h - NVRTC's functions, and the options of a compilation, between cuda_nvrtc.c (the
 * library and the options) and cuda_nvrtc_compile.c.
 */
#ifndef DDISP_CUDA_NVRTC_H
#define DDISP_CUDA_NVRTC_H

#include "cuda_code.h"

struct _nvrtcProgram;
typedef struct _nvrtcProgram *nvrtc__program;
typedef int nvrtc__result; /* nvrtcResult */

enum { NVRTC__SUCCESS = 0, NVRTC__OUT_OF_MEMORY = 1, NVRTC__COMPILATION = 6 };

#define NVRTC__FUNCTIONS(X)                                                                        \
    X(nvrtcVersion, (int *major, int *minor))                                                      \
    X(nvrtcGetNumSupportedArchs, (int *count))                                                     \
    X(nvrtcGetSupportedArchs, (int *archs))                                                        \
    X(nvrtcCreateProgram,                                                                          \
      (nvrtc__program * out, const char *source, const char *name, int header_count,               \
       const char *const *headers, const char *const *names))                                      \
    X(nvrtcDestroyProgram, (nvrtc__program * program))                                             \
    X(nvrtcCompileProgram, (nvrtc__program program, int option_count, const char *const *options)) \
    X(nvrtcGetProgramLogSize, (nvrtc__program program, size_t * size))                             \
    X(nvrtcGetProgramLog, (nvrtc__program program, char *log))                                     \
    X(nvrtcGetCUBINSize, (nvrtc__program program, size_t * size))                                  \
    X(nvrtcGetCUBIN, (nvrtc__program program, char *bytes))                                        \
    X(nvrtcGetPTXSize, (nvrtc__program program, size_t * size))                                    \
    X(nvrtcGetPTX, (nvrtc__program program, char *bytes))

#define NVRTC__MAX_ARCHITECTURES 128

/** A loaded library. */
typedef struct nvrtc__library {
    bool tried, loaded;
    int version; /* 13000 for 13.0 */
    int arch_count;
    int archs[NVRTC__MAX_ARCHITECTURES];
    char build[64]; /* size and time of the file: releases of one version differ */
#define NVRTC__MEMBER(name, parameters) nvrtc__result(*name) parameters;
    NVRTC__FUNCTIONS(NVRTC__MEMBER)
#undef NVRTC__MEMBER
} nvrtc__library;

/** The newest that is not newer than the driver (0: no driver), or NULL. */
const nvrtc__library *cuda__nvrtc_find(int driver_version);

#define NVRTC__MAX_OPTIONS 256u

typedef struct nvrtc__options {
    char *text; /* allocated: all options, each terminated */
    const char *list[NVRTC__MAX_OPTIONS];
    uint32_t count;
    bool own_architecture; /* the user chose one */
} nvrtc__options;

/** Those of a variant: the user's, the architecture's, and a macro for each gradient. text is
 * released by the caller, also after a failure. */
ddisp_status cuda__nvrtc_options(const ddisp_backend_services *services,
                                 const nvrtc__library *library, const char *architecture,
                                 const ddisp_backend_variant *variant, nvrtc__options *out_options);

#endif
