/*
 * kernels.c - the kernels of the conformance suite for programs that load them at run time.
 */
#include "cts_kernels.h"

__attribute__((visibility("default"))) const cts_source *const python_kernels[] = {
    &cts_mul,         &cts_mul_guarded, &cts_mul_opaque, &cts_linear, &cts_component, &cts_square,
    &cts_scale,       &cts_index,       &cts_inout,      &cts_widen,  &cts_half,      &cts_pair,
    &cts_pair_opaque, &cts_once,        &cts_plain,      NULL,
};
