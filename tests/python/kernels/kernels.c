/*
 * kernels.c - kernels for programs that load them at run time: those of the conformance suite,
 * those of this folder, and the one of the examples.
 */
#include "cts_kernels.h"
#include "mul_kernel.h"

extern const cts_source cts_product, cts_poly, cts_layer;

__attribute__((visibility("default"))) const cts_source *const python_kernels[] = {
    &cts_mul,     &cts_mul_guarded, &cts_mul_opaque,  &cts_linear,     &cts_component,
    &cts_square,  &cts_scale,       &cts_index,       &cts_inout,      &cts_widen,
    &cts_half,    &cts_pair,        &cts_pair_opaque, &cts_once,       &cts_plain,
    &cts_product, &cts_poly,        &cts_layer,       &cts_bins[2][1], NULL,
};

__attribute__((visibility("default"))) const ddisp_kernel_desc *python_example_kernel(void);

const ddisp_kernel_desc *python_example_kernel(void)
{
    return mul_kernel_desc();
}
