/*
 * mul_kernel.h - the kernel `mul`, y = a * b on f32 tensors of one shape and any strides, with its
 * codes for every backend: what the examples, the tests and the benchmarks launch.
 */
#ifndef DIFFDISPATCH_EXAMPLES_MUL_KERNEL_H
#define DIFFDISPATCH_EXAMPLES_MUL_KERNEL_H

#include <diffdispatch/diffdispatch.h>

/** Parameters, in order. */
enum { MUL_A, MUL_B, MUL_Y, MUL_PARAM_COUNT };

/** The codes in order of preference: CUDA, then Vulkan (where it was built), then host. Static. */
const ddisp_code *mul_codes(uint32_t *out_count);
/** Parameters and codes put together, for ddisp_kernel_create. Static. */
const ddisp_kernel_desc *mul_kernel_desc(void);

/* mul.c: the host functions. The masked ones serve the gradient masks 5 (a, y) and 6 (b, y). */
void mul_forward(const struct ddisp_block *block, uint64_t begin, uint64_t end);
void mul_backward(const struct ddisp_block *block, uint64_t begin, uint64_t end);
void mul_backward_a(const struct ddisp_block *block, uint64_t begin, uint64_t end);
void mul_backward_b(const struct ddisp_block *block, uint64_t begin, uint64_t end);

#endif
