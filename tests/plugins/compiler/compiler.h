/*
 * compiler.h - the plugin "compiler": a backend of host memory whose codes are source text that it
 * compiles to bytes, so that everything about kinds of code, variants and the kernel cache can be
 * seen without a GPU. Tests steer and watch it through compiler_control, which the plugin exports.
 *
 * Format "rpn", one statement a line:
 *
 *     #include "name"          a header given with the code, else a file of a directory given by -I
 *     #define NAME number      also by option -DNAME=number
 *     entry NAME: tokens       computes one work item with a stack
 *
 *     $k  data of tensor k     @k  its upstream gradient     %k  scalar k     number, NAME
 *     + - *                    >k  stores data of tensor k   >>k  adds to the gradient of tensor k
 *
 * Tensors are f32; index spaces are those of the tensors themselves. ">>k" is the switch of
 * parameter k, and skips a null address.
 */
#ifndef DDISP_TESTS_COMPILER_H
#define DDISP_TESTS_COMPILER_H

#include <stdatomic.h>
#include <stdint.h>

/** What the plugin says of its device (taken when a context is made), and how it compiles. */
struct compiler_control {
    char architecture[32];
    char version[32]; /* of the compiler: in keys of artifacts */
    uint32_t vendor_id, device_id, driver_id;
    uint64_t features;
    atomic_bool hold;          /* while set, compilations begin but do not end */
    atomic_uint fail_compiles; /* so many of the next compilations fail */
    atomic_bool refuse_artifacts;
    /* counters */
    atomic_uint fits;      /* questions whether a code fits the device: one for each plan */
    atomic_uint compiles;  /* source to bytes, in artifact_make or variant_build */
    atomic_uint compiling; /* of these: begun and not ended */
    atomic_uint loads;     /* variants made of an artifact */
    atomic_uint refusals;  /* artifacts refused */
    atomic_uint variants;  /* that are loaded now */
};

extern struct compiler_control compiler_control;

#endif
