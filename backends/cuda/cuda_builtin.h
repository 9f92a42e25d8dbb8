/*
 * cuda_builtin.h - the backend's own kernels (kernels/), as the device has them.
 */
#ifndef DDISP_CUDA_BUILTIN_H
#define DDISP_CUDA_BUILTIN_H

#include "cuda_api.h"

#include <pthread.h>

/** Kernels that are compiled twice, for work in f32 and in f64: add 1 for f64. */
typedef enum cuda__kernel {
    CUDA__KERNEL_FILL,
    CUDA__KERNEL_COPY,
    CUDA__KERNEL_ADD_PAIRS,
    CUDA__KERNEL_ADD_QUADS,
    CUDA__KERNEL_SHADOW,
    CUDA__KERNEL_STORE,
    CUDA__KERNEL_ADD = CUDA__KERNEL_STORE + 2,
    CUDA__KERNEL_ADD_ANY = CUDA__KERNEL_ADD + 2,
    CUDA__KERNEL_ADD_HALVES = CUDA__KERNEL_ADD_ANY + 2,
    CUDA__KERNEL_UPDATE = CUDA__KERNEL_ADD_HALVES + 2,
    CUDA__KERNEL_UPDATE_WORDS = CUDA__KERNEL_UPDATE + 2,
    CUDA__KERNEL_REDUCE = CUDA__KERNEL_UPDATE_WORDS + 2,
    CUDA__KERNEL_SCATTER = CUDA__KERNEL_REDUCE + 2,
    CUDA__KERNEL_SCATTER_WIDE = CUDA__KERNEL_SCATTER + 2,
    CUDA__KERNEL_SCATTER_SHARED = CUDA__KERNEL_SCATTER_WIDE + 2,
    CUDA__KERNEL_FIXED = CUDA__KERNEL_SCATTER_SHARED + 2,
    CUDA__KERNEL_FIXED_WIDE = CUDA__KERNEL_FIXED + 2,
    CUDA__KERNEL_FIXED_SHARED = CUDA__KERNEL_FIXED_WIDE + 2,
    CUDA__KERNEL_PREPARE = CUDA__KERNEL_FIXED_SHARED + 2,
    CUDA__KERNEL_FINISH = CUDA__KERNEL_PREPARE + 2,
    CUDA__KERNEL_COUNT = CUDA__KERNEL_FINISH + 2,
} cuda__kernel;

#define CUDA__BUILTIN_MODULES 12

/** Of a device. Modules are loaded when one of their kernels is first wanted. */
typedef struct cuda__builtin {
    pthread_mutex_t lock;
    cu__module modules[CUDA__BUILTIN_MODULES];
    cu__function functions[CUDA__KERNEL_COUNT];
} cuda__builtin;

#endif
