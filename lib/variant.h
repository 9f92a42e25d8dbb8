/*
 * variant.h - between variant.c (which plan a signature names), variant_build.c (which variant a
 * plan names, built once) and artifact.c (how a variant is built, with the kernel cache on disk).
 */
#ifndef DDISP_LIB_VARIANT_H
#define DDISP_LIB_VARIANT_H

#include "launch.h"

/** What tells variants of a kernel apart, device included. No padding: compared as bytes. */
typedef struct ddisp__variant_key {
    uint64_t device; /* serial */
    ddisp__hash code;
    /* of the parameters whose code a switch can remove, and of all for entries named by mask */
    uint64_t mask;
    uint32_t entry;
    uint32_t mode;
} ddisp__variant_key;

/* variant_build.c. All hold the kernel's build_lock, except release. */

ddisp__variant_key ddisp__variant_key_of(const ddisp__launch *launch,
                                         const struct ddisp__plan *plan);
/** The plan's variant is there, or is being built. */
bool ddisp__variant_exists(const ddisp__launch *launch, const struct ddisp__plan *plan);
/** Variants of the launch's device and mode. */
uint32_t ddisp__variant_count(const ddisp__launch *launch);
/** Finds the plan's variant, waits for it, or builds it; lets the lock go meanwhile. */
ddisp_status ddisp__variant_get(ddisp__launch *launch, struct ddisp__plan *plan);
void ddisp__variants_release(ddisp_kernel *kernel);

/* artifact.c */

/**
 * Builds a variant through the backend, from the kernel cache where that has it. Sets the launch's
 * origin. Called without locks.
 */
ddisp_status ddisp__artifact_build(ddisp__launch *launch, const ddisp__code *code,
                                   ddisp_backend_variant *variant, void **out_handle);
/** Whether compiler options name places to include from, so that files nobody sees take part. */
bool ddisp__artifact_reads_files(const char *options);

#endif
